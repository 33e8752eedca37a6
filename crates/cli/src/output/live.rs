//! A picture on a terminal that is drawn again and again: on the alternate screen, without flicker, within the
//! terminal's size, and gone without a trace at the end, however that comes.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use terminal_size::{Height, Width};

/// To the alternate screen, without a cursor and without wrapping of lines (xterm control sequences, DECSET 1049, 25, 7).
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
/// All of it back.
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// What is between these is shown at once by terminals that know it (synchronized output, DECSET 2026).
const FRAME_BEGIN: &str = "\u{1b}[?2026h\u{1b}[H";
const FRAME_END: &str = "\u{1b}[J\u{1b}[?2026l";
/// The rest of a line is blank.
const LINE_END: &str = "\u{1b}[0m\u{1b}[K";

/// How long giving the terminal back may take.
const RESTORED_WITHIN: Duration = Duration::from_millis(300);

/// The terminal is on its other screen.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back as it was, if something is drawn on it. For every way out, also by force.
pub(crate) fn restore_terminal() {
    restore_with(String::new());
}

fn restore_with(last_lines: String) {
    if !IS_DRAWN.swap(false, Ordering::AcqRel) {
        return;
    }
    let (written, is_written) = mpsc::sync_channel(1);
    // A terminal that was halted (Ctrl-S) takes nothing, and must not keep the command from ending.
    std::thread::spawn(move || {
        let mut out = io::stdout();
        let _ = out.write_all(format!("{LEAVE}{last_lines}").as_bytes()).and_then(|()| out.flush());
        let _ = written.send(());
    });
    let _ = is_written.recv_timeout(RESTORED_WITHIN);
}

/// The picture. Dropped, it gives the terminal back and leaves its last lines behind.
#[derive(Default)]
pub(crate) struct Picture {
    last: Vec<String>,
    size: Option<(usize, usize)>,
}

impl Picture {
    /// Columns and rows of the terminal, as they are now.
    pub(crate) fn size() -> (usize, usize) {
        match terminal_size::terminal_size_of(io::stdout()) {
            Some((Width(columns), Height(rows))) if columns > 0 && rows > 0 => (columns.into(), rows.into()),
            _ => (80, 24),
        }
    }

    /// The bytes that draw these lines, or none when they are drawn already. Lines that do not fit are left out,
    /// the last row says how many.
    pub(crate) fn draw(&mut self, lines: Vec<String>) -> Option<String> {
        let size = Picture::size();
        if lines == self.last && self.size == Some(size) {
            return None;
        }
        let mut text = String::new();
        if !IS_DRAWN.swap(true, Ordering::AcqRel) {
            text.push_str(ENTER);
        }
        text.push_str(FRAME_BEGIN);
        for (at, line) in fitting(&lines, size.1).iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "\r\n" });
            text.push_str(line);
            text.push_str(LINE_END);
        }
        text.push_str(FRAME_END);
        (self.last, self.size) = (lines, Some(size));
        Some(text)
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        restore_with(format!("{}\n", self.last.join("\n")));
    }
}

fn fitting(lines: &[String], rows: usize) -> Vec<String> {
    let left_out = lines.len().saturating_sub(rows);
    if left_out == 0 {
        return lines.to_vec();
    }
    let mut shown = lines[..rows.saturating_sub(1)].to_vec();
    shown.push(format!("… {} more lines", left_out + 1));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let lines: Vec<String> = (0..5).map(|n| n.to_string()).collect();
        assert_eq!(fitting(&lines, 5), lines);
        assert_eq!(fitting(&lines, 3), ["0", "1", "… 3 more lines"]);
    }
}
