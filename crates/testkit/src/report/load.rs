//! The load of the board: calls in flight, calls that wait, and connections.

use super::chart::{Chart, Span, legend};
use super::words::Word;
use crate::recording::{GaugePoint, Recording};

/// Bins of the whole run.
const BINS: usize = 427;

const CALLS: [Word; 2] = [
    Word {
        word: "in flight",
        class: "g0",
        meaning: "calls that were made and have not ended, the most at once",
    },
    Word { word: "queued", class: "g1", meaning: "those of them that no server has seen yet" },
];
const SERVERS: [Word; 2] = [
    Word { word: "connected", class: "g2", meaning: "servers that are connected, the fewest at once" },
    Word {
        word: "dialing",
        class: "g3",
        meaning: "servers that are dialed or shaken hands with, the most at once",
    },
];

/// Two pictures: calls, and servers. Empty when nothing was sampled.
pub(super) fn figures(recording: &Recording) -> String {
    if recording.gauges.is_empty() {
        return String::new();
    }
    let span = Span::new(0, recording.duration_ms, BINS);
    let most = |read: fn(&GaugePoint) -> u32| sampled(&recording.gauges, span, read, u32::max);
    let least = |read: fn(&GaugePoint) -> u32| sampled(&recording.gauges, span, read, u32::min);
    let calls = [most(|gauge| gauge.in_flight), most(|gauge| gauge.queued)];
    let servers = [least(|gauge| gauge.connected), most(|gauge| gauge.dialing)];
    figure(span, "Calls in flight and queued over time", "calls", CALLS, &calls)
        + &figure(span, "Servers connected and dialing over time", "servers", SERVERS, &servers)
}

fn figure(span: Span, label: &str, unit: &str, words: [Word; 2], values: &[Vec<f64>; 2]) -> String {
    let mut chart = Chart::new(span, 130.0, label);
    let higher: Vec<f64> = values[0].iter().zip(&values[1]).map(|(one, other)| one.max(*other)).collect();
    let end = chart.cut_axis(unit, &higher);
    let mut readable = Vec::new();
    for (word, values) in words.iter().zip(values) {
        chart.area(&format!("{} soft", word.class), values, end);
        chart.line(&format!("{} line", word.class), values, end);
        readable.push((word.word, values.iter().copied().map(Some).collect::<Vec<_>>()));
    }
    let series: Vec<(&str, &str, &[Option<f64>])> =
        readable.iter().map(|(name, values)| (*name, "", &**values)).collect();
    chart.readable(&series);
    chart.figure(&legend(&words))
}

/// One value a bin: of several samples the most or the least, without one the last that was seen.
fn sampled(
    gauges: &[GaugePoint],
    span: Span,
    read: fn(&GaugePoint) -> u32,
    of: fn(u32, u32) -> u32,
) -> Vec<f64> {
    let mut bins: Vec<Option<(u32, u32)>> = vec![None; span.bins];
    for gauge in gauges {
        let Some(bin) = span.bin(gauge.at_ms) else { continue };
        let value = read(gauge);
        let seen = bins[bin].map_or(value, |(seen, _)| of(seen, value));
        bins[bin] = Some((seen, value));
    }
    let mut last = 0;
    let values = bins.into_iter().map(|bin| match bin {
        Some((seen, newest)) => {
            last = newest;
            f64::from(seen)
        }
        None => f64::from(last),
    });
    values.collect()
}
