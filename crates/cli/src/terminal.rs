//! What a person at a terminal sees move, is asked, and can stop.

mod ask;
mod elicit;
mod form;
mod interrupt;
mod spinner;

pub(crate) use elicit::TerminalElicitation;
pub(crate) use interrupt::{HangUps, Interrupt};
pub(crate) use spinner::Spinner;
