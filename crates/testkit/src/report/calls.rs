//! What became of the calls: how many ended how, and how long they took, over time.

use super::chart::{Chart, LEFT, RIGHT, Span, TOP, legend};
use super::summary::quantile;
use super::text::px;
use super::words::{OUTCOMES, Word, outcome};
use crate::recording::{CallRecord, Recording};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bins of the picture of counts.
const COUNT_BINS: usize = 285;
/// Bins of the percentiles: fewer, so that each has calls enough.
const QUANTILE_BINS: std::ops::RangeInclusive<usize> = 20..=122;
/// Calls that a bin of percentiles should have: one of a hundred is then a call.
const QUANTILE_CALLS: usize = 100;
/// Distance of the dots of failed calls, in units of the picture.
const DOT: f64 = 6.0;
/// Height of the plot of latencies.
const HEIGHT: f64 = 220.0;

const QUANTILES: [(Word, usize); 3] = [
    (Word { word: "p50", class: "q0", meaning: "half of the calls that were answered took no longer" }, 50),
    (Word { word: "p95", class: "q1", meaning: "95 of a hundred answered calls took no longer" }, 95),
    (Word { word: "p99", class: "q2", meaning: "99 of a hundred answered calls took no longer" }, 99),
];

/// Two pictures: how calls ended, and how long they took. Words alone when no call was recorded.
pub(super) fn figures(recording: &Recording) -> String {
    match (recording.calls.is_empty(), recording.totals.calls) {
        (true, 0) => "<p class=\"none\">Nobody called.</p>".to_owned(),
        (true, _) => "<p class=\"none\">The run kept its sums alone, and no single call.</p>".to_owned(),
        (false, _) => ends(recording) + &latencies(recording),
    }
}

/// Calls by their end, a second; those that failed at the ground, where they can be compared.
fn ends(recording: &Recording) -> String {
    let span = Span::new(0, recording.duration_ms, COUNT_BINS);
    let mut layers = vec![vec![0.0; span.bins]; OUTCOMES.len()];
    let seconds = span.bin_ms() / 1_000.0;
    for call in &recording.calls {
        if let Some(bin) = span.bin(call.ended_ms) {
            layers[outcome(&call.outcome)][bin] += 1.0 / seconds;
        }
    }
    let (mut words, mut layers): (Vec<Word>, Vec<Vec<f64>>) = OUTCOMES
        .iter()
        .copied()
        .zip(layers)
        .filter(|(_, layer)| layer.iter().any(|value| *value > 0.0))
        .unzip();
    if words.first() == Some(&OUTCOMES[0]) {
        words.rotate_left(1);
        layers.rotate_left(1);
    }
    let sums: Vec<f64> = (0..span.bins).map(|bin| layers.iter().map(|layer| layer[bin]).sum()).collect();
    let mut chart = Chart::new(span, 150.0, "Calls that ended in each second, by how they ended");
    let end = chart.cut_axis("calls a second", &sums);
    chart.stack(&words, &layers, end);
    let values: Vec<Vec<Option<f64>>> =
        layers.iter().map(|layer| layer.iter().copied().map(Some).collect()).collect();
    let series: Vec<(&str, &str, &[Option<f64>])> =
        words.iter().zip(&values).map(|(word, values)| (word.word, "/s", &**values)).collect();
    chart.readable(&series);
    chart.figure(&legend(&words))
}

/// Percentiles of the answered calls, and a dot for each failed one.
fn latencies(recording: &Recording) -> String {
    let answered = recording.calls.iter().filter(|call| call.outcome == "ok").count();
    let bins = (answered / QUANTILE_CALLS).clamp(*QUANTILE_BINS.start(), *QUANTILE_BINS.end());
    let span = Span::new(0, recording.duration_ms, bins);
    let mut took: Vec<Vec<u64>> = vec![Vec::new(); span.bins];
    for call in recording.calls.iter().filter(|call| call.outcome == "ok") {
        if let Some(bin) = span.bin(call.ended_ms) {
            took[bin].push(duration_of(call));
        }
    }
    took.iter_mut().for_each(|took| took.sort_unstable());
    let longest = recording.calls.iter().map(duration_of).max().unwrap_or(0);
    let mut chart = Chart::new(span, HEIGHT, "How long calls took over time");
    let decades = chart.log_axis("latency, log scale", longest);
    let mut seen = dots(&mut chart, &recording.calls, span, decades);
    let mut readable = Vec::new();
    for (word, of_hundred) in QUANTILES {
        let values: Vec<Option<f64>> =
            took.iter().map(|took| (!took.is_empty()).then(|| quantile(took, of_hundred) as f64)).collect();
        let path = path(&chart, &values, decades);
        chart.mark(format_args!("<path class=\"{} line\" d=\"{path}\"/>", word.class));
        readable.push((word.word, values));
        seen.push(word);
    }
    let answered: Vec<Option<f64>> = took.iter().map(|took| Some(took.len() as f64)).collect();
    let mut series: Vec<(&str, &str, &[Option<f64>])> =
        readable.iter().map(|(name, values)| (*name, "ms", &**values)).collect();
    series.push(("answered calls", "", &answered));
    chart.readable(&series);
    seen.rotate_right(QUANTILES.len());
    chart.figure(&legend(&seen))
}

fn duration_of(call: &CallRecord) -> u64 {
    call.ended_ms.saturating_sub(call.started_ms)
}

/// Where a latency is, as a part of the height.
fn part(ms: f64, decades: f64) -> f64 {
    ms.max(1.0).log10() / decades
}

/// A step a bin; bins without a call interrupt the line.
fn path(chart: &Chart, values: &[Option<f64>], decades: f64) -> String {
    let mut path = String::new();
    let mut down = false;
    for (bin, value) in values.iter().enumerate() {
        let Some(value) = value else {
            down = false;
            continue;
        };
        let y = px(chart.y(part(*value, decades)));
        // A String takes everything.
        let _ = match down {
            true => write!(path, "V{y}H{}", px(chart.bin_x(bin + 1))),
            false => write!(path, "M{} {y}H{}", px(chart.bin_x(bin)), px(chart.bin_x(bin + 1))),
        };
        down = true;
    }
    path
}

/// Draws failed calls as dots on a grid, larger where there are many; gives the ends that were seen.
fn dots(chart: &mut Chart, calls: &[CallRecord], span: Span, decades: f64) -> Vec<Word> {
    let mut cells: BTreeMap<(usize, u32, u32), u64> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.outcome != "ok") {
        if span.bin(call.ended_ms).is_none() {
            continue;
        }
        let x = (chart.x(call.ended_ms) - LEFT) / DOT;
        let y = (chart.y(part(duration_of(call) as f64, decades)) - TOP) / DOT;
        *cells.entry((outcome(&call.outcome), x as u32, y as u32)).or_default() += 1;
    }
    let mut paths: BTreeMap<(usize, &'static str), String> = BTreeMap::new();
    for ((outcome, column, row), calls) in cells {
        let size = match calls {
            1 => "few",
            2..=9 => "some",
            _ => "many",
        };
        let x = (LEFT + (f64::from(column) + 0.5) * DOT).min(RIGHT);
        let y = (TOP + (f64::from(row) + 0.5) * DOT).min(TOP + HEIGHT);
        // A String takes everything.
        let _ = write!(paths.entry((outcome, size)).or_default(), "M{} {}h0", px(x), px(y));
    }
    let mut seen: Vec<Word> = paths.keys().map(|(outcome, _)| OUTCOMES[*outcome]).collect();
    seen.dedup();
    for ((outcome, size), path) in paths {
        let class = OUTCOMES[outcome].class;
        chart.mark(format_args!("<path class=\"dot {size} {class}\" d=\"{path}\"/>"));
    }
    seen
}
