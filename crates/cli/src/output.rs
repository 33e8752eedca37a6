//! What is printed: results on stdout, everything else on stderr.

mod error;
mod escape;
mod event;
mod live;
mod nearest;
mod screen;
mod scrub;
mod state;
mod stream;
mod table;

pub(crate) use error::{CliError, Exit, usage_error};
pub(crate) use escape::{escaped, json_line, json_text, printable};
pub(crate) use event::{level_tone, seconds, words};
pub(crate) use live::{Picture, restore_terminal};
pub(crate) use nearest::nearest;
pub(crate) use screen::{Screen, Tone};
pub(crate) use scrub::Scrubber;
pub(crate) use state::{Health, count, detail, health, tone};
pub(crate) use stream::Stream;
pub(crate) use table::Sheet;
