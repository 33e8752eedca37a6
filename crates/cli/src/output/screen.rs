//! The two streams: which are terminals, how wide, in which colours, and who may draw on them.

use crate::output::{json_text, printable};
use indicatif::{ProgressBar, ProgressDrawTarget};
use parking_lot::Mutex;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// What a coloured word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Well.
    Good,
    /// On the way, or in want of something.
    Warn,
    /// Not well.
    Bad,
    /// Of less interest.
    Dim,
    /// Worth looking at.
    Accent,
    /// A heading.
    Head,
}

impl Tone {
    /// The parameters of the SGR escape sequence (ECMA-48 §8.3.117).
    fn sgr(self) -> &'static str {
        match self {
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Dim => "2",
            Tone::Accent => "36",
            Tone::Head => "1",
        }
    }
}

/// Tables are not made narrower than this; a terminal that claims less is a mistake.
const WIDTH_MIN: usize = 40;
/// Between two frames of the spinner.
const TICK: Duration = Duration::from_millis(90);
/// Redraws a second at most.
const DRAWS_PER_SECOND: u8 = 15;

/// Where output goes, and how it may look.
pub(crate) struct Screen {
    json: bool,
    width: Option<usize>,
    colour_out: bool,
    colour_err: bool,
    live: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Screen {
    /// Looks at the streams and at `NO_COLOR`.
    pub(crate) fn new(json: bool) -> Screen {
        let out = io::stdout().is_terminal();
        let err = io::stderr().is_terminal();
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        Screen {
            json,
            width: width.filter(|_| out).map(|width| width.max(WIDTH_MIN)),
            colour_out: out && colour,
            colour_err: err && colour,
            live: err && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
            bar: Mutex::new(None),
        }
    }

    /// `--json` was given.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The width of stdout's terminal; none when stdout is no terminal, and lines may be of any length.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// stdout takes colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.colour_out
    }

    /// Something may move on stderr.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Colours a word for stdout.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.colour_out, tone, text)
    }

    /// Colours a word for stderr.
    pub(crate) fn paint_note(&self, tone: Tone, text: &str) -> String {
        painted(self.colour_err, tone, text)
    }

    /// Prints a result and a line end on stdout, around a moving bar.
    ///
    /// # Errors
    /// When nobody reads stdout any more.
    pub(crate) fn result(&self, text: &str) -> io::Result<()> {
        self.around_bar(|| {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.write_all(b"\n")?;
            out.flush()
        })
    }

    /// Prints a JSON document on stdout: indented for people, on one line for programs.
    ///
    /// # Errors
    /// When nobody reads stdout any more.
    pub(crate) fn document(&self, value: &impl serde::Serialize) -> io::Result<()> {
        let text = match self.width {
            Some(_) => serde_json::to_string_pretty(value),
            None => serde_json::to_string(value),
        };
        self.result(&json_text(text.map_err(io::Error::other)?))
    }

    /// Prints a line on stderr. A stderr that nobody reads is no reason to fail.
    pub(crate) fn note(&self, text: &str) {
        self.around_bar(|| {
            let _ = writeln!(io::stderr().lock(), "{text}");
        });
    }

    /// A warning on stderr, for people alone.
    pub(crate) fn warn(&self, text: &str) {
        if !self.json {
            self.note(&format!("{} {}", self.paint_note(Tone::Warn, "warning:"), printable(text)));
        }
    }

    /// Makes this the bar that output must not run into. It is not shown yet.
    pub(crate) fn set_bar(&self, bar: Option<ProgressBar>) {
        *self.bar.lock() = bar;
    }

    /// Shows the bar, unless it was taken away.
    pub(crate) fn show_bar(&self) {
        if let Some(bar) = &*self.bar.lock() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
            bar.enable_steady_tick(TICK);
        }
    }

    /// Takes the bar off the screen, for a question.
    pub(crate) fn take_bar(&self) -> Option<ProgressBar> {
        let bar = self.bar.lock().take()?;
        bar.disable_steady_tick();
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Some(bar)
    }

    /// Prints a question on stderr, without a line end.
    pub(crate) fn prompt(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    fn around_bar<T>(&self, print: impl FnOnce() -> T) -> T {
        let bar = self.bar.lock().clone();
        match bar {
            Some(bar) if !bar.is_hidden() => bar.suspend(print),
            _ => print(),
        }
    }
}

fn painted(colour: bool, tone: Tone, text: &str) -> String {
    match colour {
        true => format!("\u{1b}[{}m{text}\u{1b}[0m", tone.sgr()),
        false => text.to_owned(),
    }
}
