//! Server by server: a row each, those with the most trouble on top.

use super::chart::{Chart, RIGHT, Span, TOP, legend};
use super::outages::bands;
use super::summary::ServerSummary;
use super::text::{count, duration, escaped, percent, px, shortened};
use super::words::{STATES, is_trouble};
use crate::recording::{Recording, ServerTrack};
use std::fmt::Write;

/// Rows at most; the others are in the picture of all servers.
pub(super) const ROWS_MAX: usize = 100;
/// Columns of a row: what is shorter is drawn this long.
const COLUMNS: usize = 854;
/// Characters of a name beside its row.
const NAME_CHARS_MAX: usize = 18;

/// The servers by trouble, worst first: longest without a connection, then most dials; else as in the scenario.
pub(super) fn worst_first(servers: &[ServerSummary]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by_key(|place| {
        let server = &servers[*place];
        (std::cmp::Reverse((server.outage_ms, server.dials)), *place)
    });
    order
}

/// The picture; empty without a server.
pub(super) fn figure(recording: &Recording, servers: &[ServerSummary], order: &[usize]) -> String {
    let shown = &order[..order.len().min(ROWS_MAX)];
    if shown.is_empty() {
        return String::new();
    }
    let row_height = match shown.len() {
        ..=20 => 20.0,
        21..=50 => 15.0,
        _ => 12.0,
    };
    let span = Span::new(0, recording.duration_ms, COLUMNS);
    let mut chart = Chart::new(span, row_height * shown.len() as f64, "The state of each server over time");
    let mut seen = [false; STATES.len()];
    for (row, place) in shown.iter().enumerate() {
        let columns = columns(&recording.servers[*place], span, recording.duration_ms);
        for state in columns.iter().flatten() {
            seen[*state] = true;
        }
        let top = TOP + row as f64 * row_height;
        draw(&mut chart, &columns, &servers[*place], recording.duration_ms, top, row_height);
    }
    let keys: Vec<_> = STATES.iter().zip(seen).filter(|(_, seen)| *seen).map(|(word, _)| *word).collect();
    chart.figure(&legend(&keys))
}

/// The state of each column: of those that it holds the one with the most time, but trouble before everything else,
/// so that a short outage stays visible.
fn columns(track: &ServerTrack, span: Span, end_ms: u64) -> Vec<Option<usize>> {
    let mut weights = vec![0.0_f64; span.bins];
    let mut columns = vec![None; span.bins];
    for (from_ms, to_ms, state) in bands(track, end_ms) {
        let scale = |at_ms: u64| span.part(at_ms) * span.bins as f64;
        let (from, to) = (scale(from_ms), scale(to_ms));
        let last = (to.ceil() as usize).min(span.bins);
        for column in from as usize..last {
            let covered = (to.min(column as f64 + 1.0) - from.max(column as f64)).max(0.0);
            // More than a whole column of anything else.
            let weight = if is_trouble(state) { covered + 1.5 } else { covered };
            if weight > weights[column] {
                (weights[column], columns[column]) = (weight, Some(state));
            }
        }
    }
    columns
}

fn draw(
    chart: &mut Chart,
    columns: &[Option<usize>],
    server: &ServerSummary,
    end_ms: u64,
    top: f64,
    height: f64,
) {
    let share = percent(server.in_state("connected"), end_ms);
    let middle = px(top + height / 2.0 + 3.5);
    chart.mark(format_args!(
        "<g class=\"row\"><title>{}</title><text x=\"126\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
        escaped(&title(server, &share)),
        escaped(&shortened(&server.name, NAME_CHARS_MAX)),
    ));
    let (y, bar) = (px(top + 1.0), px(height - 2.0));
    for (state, path) in paths(chart, columns, &y, &bar) {
        chart.mark(format_args!("<path class=\"{}\" d=\"{path}\"/>", STATES[state].class));
    }
    let x = px(RIGHT + 5.0);
    chart.mark(format_args!("<text class=\"share\" x=\"{x}\" y=\"{middle}\">{share}</text></g>"));
}

/// The bars of a row, one path a state.
fn paths(chart: &Chart, columns: &[Option<usize>], y: &str, bar: &str) -> Vec<(usize, String)> {
    let mut paths = vec![String::new(); STATES.len()];
    let mut begin = 0;
    while begin < columns.len() {
        let state = columns[begin];
        let length = columns[begin..].iter().take_while(|other| **other == state).count();
        let (x, end) = (chart.bin_x(begin), chart.bin_x(begin + length));
        if let Some(state) = state {
            // A String takes everything.
            let _ = write!(paths[state], "M{} {y}h{w}v{bar}h-{w}z", px(x), w = px(end - x));
        }
        begin += length;
    }
    paths.into_iter().enumerate().filter(|(_, path)| !path.is_empty()).collect()
}

fn title(server: &ServerSummary, share: &str) -> String {
    let mut text = format!(
        "{} ({}): connected {share}, {} dials, {} reconnects",
        shortened(&server.name, 200),
        server.transport,
        count(server.dials),
        count(server.reconnects),
    );
    if server.outages > 0 {
        let longest = duration(server.longest_outage_ms);
        // A String takes everything.
        let _ = write!(text, ", {} outages, the longest {longest}", count(server.outages));
    }
    text
}
