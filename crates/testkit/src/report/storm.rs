//! The storm: when servers were dialed, how that looked close up, and the gaps between attempts.

use super::chart::{Chart, Span, TOP, legend};
use super::fleet;
use super::outages::gaps;
use super::summary::{Storm, attempts};
use super::text::{count, duration, px};
use super::words::STATES;
use crate::recording::Recording;

/// Bins of the whole run.
const BINS: usize = 427;
/// What is looked at close up: so long before and after the moment.
const BEFORE_MS: u64 = 30_000;
/// See [`BEFORE_MS`].
const AFTER_MS: u64 = 90_000;
/// A bin close up.
const CLOSE_BIN_MS: u64 = 250;
/// The least gap that has a bar of its own.
const GAP_MS_MIN: f64 = 125.0;
/// Bars for each doubling of a gap.
const BARS_A_DOUBLING: f64 = 4.0;
/// Bars: up to an hour and more.
const BARS: usize = 61;
/// Height of the plot of gaps.
const GAPS_HEIGHT: f64 = 110.0;

/// The pictures; words alone when nobody was dialed.
pub(super) fn figures(recording: &Recording, storm: &Storm) -> String {
    let attempts = attempts(recording);
    if attempts.is_empty() {
        return "<p class=\"none\">No server was dialed.</p>".to_owned();
    }
    whole(recording, &attempts) + &close_up(recording, &attempts, storm) + &gaps_figure(recording)
}

/// Dials a second over the whole run.
fn whole(recording: &Recording, attempts: &[u64]) -> String {
    let span = Span::new(0, recording.duration_ms, BINS);
    let seconds = span.bin_ms() / 1_000.0;
    let values: Vec<f64> = binned(span, attempts).into_iter().map(|dials| dials / seconds).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let mut chart = Chart::new(span, 110.0, "Dials in each second over the whole run");
    let end = chart.count_axis("dials a second", most);
    chart.area("d0", &values, end);
    let readable: Vec<Option<f64>> = values.into_iter().map(Some).collect();
    chart.readable(&[("dials", "/s", &readable)]);
    chart.figure("<h3>Dials, the whole run</h3>")
}

/// States and dials around the moment at which most was going on. Nothing when the whole run is no longer.
fn close_up(recording: &Recording, attempts: &[u64], storm: &Storm) -> String {
    let (at_ms, why) = match storm.lost_max {
        0 | 1 => (storm.peak_at_ms, "the most dials".to_owned()),
        lost => {
            (storm.lost_max_at_ms, format!("the most losses: {} servers within five seconds", count(lost)))
        }
    };
    let from_ms = at_ms.saturating_sub(BEFORE_MS);
    let to_ms = at_ms.saturating_add(AFTER_MS).min(recording.duration_ms);
    if recording.duration_ms <= BEFORE_MS + AFTER_MS || to_ms <= from_ms {
        return String::new();
    }
    let span = Span::new(from_ms, to_ms, ((to_ms - from_ms) / CLOSE_BIN_MS) as usize);
    let layers = fleet::layers(recording, span);
    let mut states = Chart::new(span, 130.0, "Servers in each state, close up");
    let end = states.whole_axis("servers", recording.servers.len());
    states.stack(&STATES, &layers, end);
    let seen: Vec<usize> =
        (0..STATES.len()).filter(|state| layers[*state].iter().any(|v| *v > 0.0)).collect();
    let readable: Vec<Vec<Option<f64>>> =
        layers.iter().map(|layer| layer.iter().copied().map(Some).collect()).collect();
    let series: Vec<(&str, &str, &[Option<f64>])> =
        seen.iter().map(|state| (STATES[*state].word, "", &*readable[*state])).collect();
    states.readable(&series);
    let head = format!("<h3>Close up: {} around {why}</h3>", duration(to_ms - from_ms));
    let keys: Vec<_> = seen.iter().map(|state| STATES[*state]).collect();
    states.figure(&(head + &legend(&keys))) + &close_dials(span, attempts)
}

fn close_dials(span: Span, attempts: &[u64]) -> String {
    let values = binned(span, attempts);
    let most = values.iter().copied().fold(0.0, f64::max);
    let mut chart = Chart::new(span, 110.0, "Dials in each quarter of a second, close up");
    let end = chart.count_axis("dials in 0.25 s", most);
    chart.area("d0", &values, end);
    let readable: Vec<Option<f64>> = values.into_iter().map(Some).collect();
    chart.readable(&[("dials", "", &readable)]);
    chart.figure("")
}

fn binned(span: Span, attempts: &[u64]) -> Vec<f64> {
    let mut values = vec![0.0; span.bins];
    for bin in attempts.iter().filter_map(|at| span.bin(*at)) {
        values[bin] += 1.0;
    }
    values
}

/// How long a server waited from one attempt to the next: a bar for each length, four for each doubling.
fn gaps_figure(recording: &Recording) -> String {
    let mut bars = vec![0_u64; BARS];
    for gap in recording.servers.iter().flat_map(gaps) {
        bars[bar(gap)] += 1;
    }
    let Some(last) = bars.iter().rposition(|gaps| *gaps > 0) else { return String::new() };
    // To the next doubling, and never less than the first five steps of a backoff.
    let shown = (last + 2).next_multiple_of(4).clamp(33, BARS);
    let span = Span { from_ms: 0, to_ms: shown as u64, bins: shown };
    let mut chart = Chart::bare(span, GAPS_HEIGHT, "How long servers waited between attempts");
    let most = bars.iter().copied().max().unwrap_or(0);
    let end = chart.count_axis("gaps", most as f64);
    for (place, gaps) in bars.iter().enumerate().take(shown) {
        let (x, next) = (chart.bin_x(place) + 1.0, chart.bin_x(place + 1) - 1.0);
        let about = GAP_MS_MIN * 2_f64.powf(place as f64 / BARS_A_DOUBLING);
        if place % 4 == 0 {
            let middle = px((x + next) / 2.0);
            chart.axis(format_args!(
                "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                px(TOP + GAPS_HEIGHT + 17.0),
                gap_words(about),
            ));
        }
        if *gaps > 0 {
            // A bar that is there is seen.
            let y = chart.y((*gaps as f64 / end).max(0.012));
            chart.mark(format_args!(
                "<g class=\"bar\"><title>{} gaps of about {}</title><path class=\"d0\" d=\"M{} {}H{}V{}H{}z\"/></g>",
                count(*gaps),
                gap_words(about),
                px(x),
                px(y),
                px(next),
                px(chart.y(0.0)),
                px(x),
            ));
        }
    }
    chart.axis(format_args!(
        "<text class=\"unit\" x=\"{}\" y=\"{}\" text-anchor=\"end\">gap, log scale</text>",
        px(chart.bin_x(shown)),
        px(TOP + GAPS_HEIGHT + 33.0),
    ));
    chart.figure(
        "<h3>Gaps between attempts of one server</h3><p>Attempts with a connection between them are left out. \
         A backoff shows as bars at its steps.</p>",
    )
}

/// The bar of a gap: the nearest length.
fn bar(gap_ms: u64) -> usize {
    let place = ((gap_ms as f64).max(GAP_MS_MIN) / GAP_MS_MIN).log2() * BARS_A_DOUBLING;
    (place.round() as usize).min(BARS - 1)
}

fn gap_words(about_ms: f64) -> String {
    match about_ms {
        ..1_000.0 => format!("{about_ms:.0} ms"),
        ..100_000.0 => format!("{} s", px(about_ms / 1_000.0)),
        ..600_000.0 => format!("{} min", px(about_ms / 60_000.0)),
        _ => format!("{:.0} min", about_ms / 60_000.0),
    }
}
