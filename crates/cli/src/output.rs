//! What is printed: results on stdout, everything else on stderr.

mod error;
mod nearest;
mod screen;
mod scrub;
mod state;
mod table;

pub(crate) use error::{CliError, Exit, usage_error};
pub(crate) use nearest::nearest;
pub(crate) use screen::{Screen, Tone};
pub(crate) use scrub::Scrubber;
pub(crate) use state::{Health, count, detail, health, tone};
pub(crate) use table::{Sheet, printable};
