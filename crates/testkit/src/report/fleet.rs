//! All servers together: how many are in which state over time.

use super::chart::{Chart, Span, legend};
use super::outages::bands;
use super::words::STATES;
use crate::recording::Recording;

/// Bins of the whole run.
const BINS: usize = 427;

/// The picture; empty without a server.
pub(super) fn figure(recording: &Recording) -> String {
    if recording.servers.is_empty() {
        return String::new();
    }
    let span = Span::new(0, recording.duration_ms, BINS);
    let layers = layers(recording, span);
    let mut chart = Chart::new(span, 200.0, "Servers in each state over time");
    let end = chart.whole_axis("servers", recording.servers.len());
    chart.stack(&STATES, &layers, end);
    let seen: Vec<usize> =
        (0..STATES.len()).filter(|state| layers[*state].iter().any(|v| *v > 0.0)).collect();
    let values: Vec<Vec<Option<f64>>> =
        layers.iter().map(|layer| layer.iter().copied().map(Some).collect()).collect();
    let series: Vec<(&str, &str, &[Option<f64>])> =
        seen.iter().map(|state| (STATES[*state].word, "", &*values[*state])).collect();
    chart.readable(&series);
    chart.figure(&legend(&seen.iter().map(|state| STATES[*state]).collect::<Vec<_>>()))
}

/// How many servers are in each state, on average over each bin.
pub(super) fn layers(recording: &Recording, span: Span) -> Vec<Vec<f64>> {
    let mut layers = vec![vec![0.0; span.bins]; STATES.len()];
    for track in &recording.servers {
        for (from_ms, to_ms, state) in bands(track, recording.duration_ms) {
            add(&mut layers[state], span, from_ms, to_ms);
        }
    }
    layers
}

/// Adds one server for a stretch of time.
fn add(layer: &mut [f64], span: Span, from_ms: u64, to_ms: u64) {
    let scale = |at_ms: u64| span.part(at_ms) * span.bins as f64;
    let (from, to) = (scale(from_ms), scale(to_ms));
    let last = (to.ceil() as usize).min(layer.len());
    for (bin, value) in layer.iter_mut().enumerate().take(last).skip(from as usize) {
        let covered = to.min(bin as f64 + 1.0) - from.max(bin as f64);
        *value += covered.max(0.0);
    }
}
