//! The text exposition format 0.0.4 of Prometheus.

use super::recorder::{BUCKETS, Buckets, Labels, Registry, Series};
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Counts what the bound of series refused.
const REFUSED: &str = "callboard_metric_series_refused_total";

impl Registry {
    /// Everything that is known, as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let help = self.help.lock().clone();
        // A copy of the handles: whoever counts does not wait for the text.
        let all = self.series.lock().clone();
        for (name, series) in all {
            let Some(first) = series.values().next() else { continue };
            let kind = match first {
                Series::Counter(_) => "counter",
                Series::Gauge(_) => "gauge",
                Series::Histogram(_) => "histogram",
            };
            if let Some(help) = help.get(&name) {
                push(
                    &mut text,
                    format_args!("# HELP {name} {}\n", help.replace('\\', "\\\\").replace('\n', "\\n")),
                );
            }
            push(&mut text, format_args!("# TYPE {name} {kind}\n"));
            for (labels, one) in &series {
                match one {
                    Series::Counter(count) => {
                        let value = count.load(Ordering::Relaxed);
                        push(&mut text, format_args!("{name}{} {value}\n", braces(labels, None)));
                    }
                    Series::Gauge(bits) => {
                        let value = f64::from_bits(bits.load(Ordering::Relaxed));
                        push(&mut text, format_args!("{name}{} {value}\n", braces(labels, None)));
                    }
                    Series::Histogram(buckets) => histogram(&mut text, &name, labels, buckets),
                }
            }
        }
        let refused = self.refused.load(Ordering::Relaxed);
        push(&mut text, format_args!("# TYPE {REFUSED} counter\n{REFUSED} {refused}\n"));
        text
    }
}

fn histogram(text: &mut String, name: &str, labels: &Labels, buckets: &Buckets) {
    let mut total = 0;
    for (at, count) in buckets.counts.iter().enumerate() {
        total += count.load(Ordering::Relaxed);
        let bound = BUCKETS.get(at).map_or("+Inf".to_owned(), f64::to_string);
        push(text, format_args!("{name}_bucket{} {total}\n", braces(labels, Some(&bound))));
    }
    let sum = f64::from_bits(buckets.sum.load(Ordering::Relaxed));
    push(text, format_args!("{name}_sum{} {sum}\n", braces(labels, None)));
    push(text, format_args!("{name}_count{} {total}\n", braces(labels, None)));
}

fn braces(labels: &Labels, bound: Option<&str>) -> String {
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut parts: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    parts.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    match parts.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", parts.join(",")),
    }
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(piece);
}

#[cfg(test)]
mod tests {
    use crate::metrics::recorder::{Handle, Registry};
    use metrics::{counter, describe_counter, gauge, histogram, with_local_recorder};
    use std::sync::Arc;

    #[test]
    fn the_readme_names_every_metric() {
        let registry = Arc::new(Registry::default());
        with_local_recorder(&Handle(registry.clone()), callboard::describe_metrics);
        let readme = include_str!("../../../../README.md");
        let named = registry.help.lock();
        assert!(named.len() > 10);
        for name in named.keys() {
            assert!(readme.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn every_kind_is_told_as_the_format_wants_it() {
        let registry = Arc::new(Registry::default());
        with_local_recorder(&Handle(registry.clone()), || {
            describe_counter!("calls_total", "Calls.");
            counter!("calls_total", "server" => "a\"\\\n", "outcome" => "ok").increment(2);
            counter!("calls_total", "server" => "a\"\\\n", "outcome" => "ok").increment(1);
            gauge!("servers", "state" => "connected").set(2.5);
            histogram!("seconds").record(0.002);
            histogram!("seconds").record(500.0);
        });
        let text = registry.text();
        for line in [
            "# HELP calls_total Calls.",
            "# TYPE calls_total counter",
            "calls_total{outcome=\"ok\",server=\"a\\\"\\\\\\n\"} 3",
            "servers{state=\"connected\"} 2.5",
            "seconds_bucket{le=\"0.001\"} 0",
            "seconds_bucket{le=\"0.0025\"} 1",
            "seconds_bucket{le=\"120\"} 1",
            "seconds_bucket{le=\"+Inf\"} 2",
            "seconds_sum 500.002",
            "seconds_count 2",
        ] {
            assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
        }
    }
}
