//! Tables that fit the terminal, and stay whole where there is none.

use crate::output::{Screen, Tone, printable};
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width};

/// Rows under headings. Rows may come one by one: the widths of all columns but the last are fixed before.
pub(crate) struct Sheet {
    headings: Vec<&'static str>,
    widths: Vec<usize>,
    screen_width: Option<usize>,
    colour: bool,
}

/// The last column gets at least this much; a fixed column wider than what is left is wrapped.
const LAST_WIDTH_MIN: usize = 20;
/// Blanks between columns.
const GAP: usize = 2;

impl Sheet {
    /// A table whose columns but the last will hold texts of at most these widths.
    pub(crate) fn new(screen: &Screen, headings: &[&'static str], widths: &[usize]) -> Sheet {
        let mut widths: Vec<usize> =
            headings.iter().zip(widths).map(|(heading, width)| heading.chars().count().max(*width)).collect();
        if let Some(screen_width) = screen.width() {
            shrink(&mut widths, screen_width.saturating_sub(LAST_WIDTH_MIN));
        }
        Sheet {
            headings: headings.to_vec(),
            widths,
            screen_width: screen.width(),
            colour: screen.has_colour(),
        }
    }

    /// A table for rows that are all known.
    pub(crate) fn fitting(screen: &Screen, headings: &[&'static str], rows: &[Vec<String>]) -> Sheet {
        let widest =
            |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width_of(cell)).max();
        let widths: Vec<usize> = (0..headings.len() - 1).map(|column| widest(column).unwrap_or(0)).collect();
        Sheet::new(screen, headings, &widths)
    }

    /// The line of headings.
    pub(crate) fn head(&self) -> String {
        let cells: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        self.lines(&cells, &[Some(Tone::Head); 8])
    }

    /// One row; tones colour its cells by position.
    pub(crate) fn lines(&self, cells: &[String], tones: &[Option<Tone>]) -> String {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        let cells =
            cells.iter().enumerate().map(|(at, text)| self.cell(text, tones.get(at).copied().flatten()));
        table.add_row(Row::from(cells.collect::<Vec<Cell>>()));
        table.force_no_tty();
        if self.colour {
            table.enforce_styling();
        }
        let last = self.headings.len() - 1;
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if at == last { 0 } else { GAP as u16 }));
            if at < last {
                let width = u16::try_from(self.widths[at] + GAP).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
            }
        }
        match self.screen_width {
            Some(width) => {
                table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
                table.set_content_arrangement(ContentArrangement::Dynamic);
            }
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        table.trim_fmt()
    }

    /// The whole table.
    pub(crate) fn whole(&self, rows: &[Vec<String>]) -> String {
        let mut lines = vec![self.head()];
        lines.extend(rows.iter().map(|row| self.lines(row, &[])));
        lines.join("\n")
    }

    fn cell(&self, text: &str, tone: Option<Tone>) -> Cell {
        let cell = Cell::new(printable(text));
        match tone.filter(|_| self.colour) {
            None => cell,
            Some(Tone::Good) => cell.fg(Color::DarkGreen),
            Some(Tone::Warn) => cell.fg(Color::DarkYellow),
            Some(Tone::Bad) => cell.fg(Color::DarkRed),
            Some(Tone::Accent) => cell.fg(Color::DarkCyan),
            Some(Tone::Dim) => cell.add_attribute(Attribute::Dim),
            Some(Tone::Head) => cell.add_attribute(Attribute::Bold),
        }
    }
}

/// Takes from the widest columns until all fit.
fn shrink(widths: &mut [usize], total_max: usize) {
    while widths.iter().map(|width| width + GAP).sum::<usize>() > total_max {
        match widths.iter_mut().max() {
            Some(widest) if *widest > 8 => *widest -= 1,
            _ => return,
        }
    }
}

fn width_of(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_long_texts_stay_whole_off_a_terminal() {
        let screen = Screen::new(false);
        let rows = vec![
            vec!["a".to_owned(), "long ".repeat(60)],
            vec!["longer".to_owned(), "x\u{1b}[31m".to_owned()],
        ];
        let text = Sheet::fitting(&screen, &["NAME", "TEXT"], &rows).whole(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "NAME    TEXT");
        assert_eq!(lines[2], "longer  x[31m");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn columns_shrink_to_the_terminal() {
        let sheet =
            Sheet { headings: vec!["NAME", "TEXT"], widths: vec![6], screen_width: Some(40), colour: false };
        let text = sheet.lines(&["a".to_owned(), "word ".repeat(20)], &[]);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }
}
