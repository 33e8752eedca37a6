//! What is wrong, and the report of all that was counted.

use crate::callers::Overshoot;
use crate::options::Options;
use crate::system::{Sample, TASKS_KEPT_MAX};
use crate::watch::Timed;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Violations that are kept in words; the others are counted.
const WORDS_MAX: usize = 40;
/// The share of the run that counts as warming up.
const WARM_UP: f64 = 0.25;
/// A slope is judged from so many minutes on: below, a table that doubles looks like a leak.
const JUDGED_FROM: Duration = Duration::from_secs(10 * 60);
/// Most memory that may come to stay in an hour, in MiB, and in a run that is too short for a slope.
const GROWTH_MIB_PER_HOUR_MAX: f64 = 24.0;
const GROWTH_MIB_MAX: f64 = 48.0;
/// Descriptors that a server at rest may hold more than at first: kept connections, of which calls open new ones.
const KEPT_PER_SERVER_MAX: usize = 4;
/// What closing the board may take: both graces of a child that minds nothing, and its own slack.
const CLOSE_MAX: Duration = Duration::from_secs(8);

/// What was seen that must not be.
#[derive(Default)]
pub(crate) struct Violations(Mutex<(Vec<String>, u64)>);

impl Violations {
    pub(crate) fn add(&self, what: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1 += 1;
        if kept.0.len() < WORDS_MAX {
            kept.0.push(what);
        }
    }

    fn take(&self) -> (Vec<String>, u64) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// All that was counted.
pub(crate) struct Report {
    pub(crate) inflicted: BTreeMap<&'static str, u64>,
    pub(crate) calls: BTreeMap<&'static str, u64>,
    pub(crate) overshoot: Overshoot,
    /// Before there was a board; with all connected and nothing hurt yet; after the last fault, all back; closed.
    pub(crate) before: Sample,
    pub(crate) quiet: Sample,
    pub(crate) settled: Sample,
    pub(crate) after: Sample,
    pub(crate) samples: Vec<Timed>,
    /// How long the slowest server took to serve again, and how many calls asked in vain.
    pub(crate) back: (Duration, u64),
    pub(crate) reconnected_by_hand: u64,
    pub(crate) closed_in: Duration,
    pub(crate) events: BTreeMap<String, u64>,
    /// How late the runtime was at most, and the system.
    pub(crate) lateness: (Duration, Duration),
    pub(crate) performed: usize,
}

impl Report {
    /// Judges what a whole run shows, prints everything, and gives the exit code.
    pub(crate) fn conclude(&self, options: &Options, violations: &Violations) -> ExitCode {
        self.judge(options, violations);
        let (words, count) = violations.take();
        if options.json {
            println!("{}", self.json(options, &words, count));
        } else {
            self.print(options);
        }
        if count == 0 {
            println!("chaos: nothing that must hold was broken");
            return ExitCode::SUCCESS;
        }
        for word in &words {
            eprintln!("violation: {word}");
        }
        eprintln!("chaos: {count} violations");
        ExitCode::FAILURE
    }

    fn judge(&self, options: &Options, violations: &Violations) {
        let must = |holds: bool, what: &dyn Fn() -> String| {
            if !holds {
                violations.add(what());
            }
        };
        let kept = self.quiet.descriptors + KEPT_PER_SERVER_MAX * options.http as usize;
        must(self.settled.descriptors <= kept, &|| {
            format!(
                "{} descriptors at rest, {} before the first fault",
                self.settled.descriptors, self.quiet.descriptors
            )
        });
        must(self.after.children == 0, &|| format!("{} children are left", self.after.children));
        must(self.after.descriptors <= self.before.descriptors, &|| {
            let new = self.after.open.iter().filter(|(number, _)| !self.before.open.contains_key(number));
            format!("descriptors are left: {:?}", new.collect::<Vec<_>>())
        });
        must(self.after.tasks <= self.before.tasks + TASKS_KEPT_MAX, &|| {
            format!("{} tasks are left, there were {}", self.after.tasks, self.before.tasks)
        });
        must(self.closed_in <= CLOSE_MAX, &|| format!("closing took {:?}", self.closed_in));
        let slope = self.slope_mib();
        must(options.time < JUDGED_FROM || slope <= GROWTH_MIB_PER_HOUR_MAX, &|| {
            format!("memory grows by {slope:.1} MiB an hour")
        });
        let growth = self.growth_mib();
        must(options.time >= JUDGED_FROM || growth <= GROWTH_MIB_MAX, &|| {
            format!("memory has grown by {growth:.1} MiB")
        });
    }

    fn slope_mib(&self) -> f64 {
        slope_per_hour(&self.samples, |sample| sample.rss_kib as f64 / 1024.0)
    }

    /// From the end of the warm-up to the end.
    fn growth_mib(&self) -> f64 {
        let warm = warm(&self.samples).first().map_or(self.settled.rss_kib, |(_, sample)| sample.rss_kib);
        (self.settled.rss_kib as f64 - warm as f64) / 1024.0
    }

    fn print(&self, options: &Options) {
        let Options { stdio, http, callers, seed, time, .. } = options;
        println!("{stdio} stdio and {http} HTTP servers, {callers} callers, {time:?}, seed {seed}");
        println!("faults: {:?}", self.inflicted);
        let calls: u64 = self.calls.values().sum();
        println!("calls: {calls}, performed {}; {:?}", self.performed, self.calls);
        let Overshoot { calls: late, p50_ms_below, p999_ms_below, max_ms } = self.overshoot;
        println!(
            "beyond the deadline: {late} calls, p50 below {p50_ms_below} ms, p99.9 below {p999_ms_below} ms, at \
             most {max_ms:.1} ms; at most the runtime itself was late by {:.1} ms, the system by {:.1} ms",
            self.lateness.0.as_secs_f64() * 1e3,
            self.lateness.1.as_secs_f64() * 1e3
        );
        println!("states: {:?}", self.events);
        println!(
            "all back after {:.1} s, {} calls in vain meanwhile; {} times a child's server was reconnected by hand",
            self.back.0.as_secs_f64(),
            self.back.1,
            self.reconnected_by_hand
        );
        let columns = [
            ("before", &self.before),
            ("quiet", &self.quiet),
            ("settled", &self.settled),
            ("closed", &self.after),
        ];
        for (name, sample) in columns {
            println!(
                "{name:>8}: {:.1} MiB, {} descriptors, {} children, {} tasks, {} threads",
                sample.rss_kib as f64 / 1024.0,
                sample.descriptors,
                sample.children,
                sample.tasks,
                sample.threads
            );
        }
        println!(
            "slopes after the first quarter: {:.2} MiB/h, {:.1} descriptors/h, {:.1} tasks/h, {:.1} children/h; closed in {:?}",
            self.slope_mib(),
            slope_per_hour(&self.samples, |sample| sample.descriptors as f64),
            slope_per_hour(&self.samples, |sample| sample.tasks as f64),
            slope_per_hour(&self.samples, |sample| sample.children as f64),
            self.closed_in
        );
    }

    fn json(&self, options: &Options, words: &[String], violations: u64) -> serde_json::Value {
        json!({
            "seed": options.seed,
            "seconds": options.time.as_secs_f64(),
            "servers": { "stdio": options.stdio, "http": options.http },
            "callers": options.callers,
            "faults": self.inflicted,
            "calls": self.calls,
            "performed": self.performed,
            "overshoot": self.overshoot,
            "runtime_late_ms_max": self.lateness.0.as_secs_f64() * 1e3,
            "system_late_ms_max": self.lateness.1.as_secs_f64() * 1e3,
            "states": self.events,
            "back_s": self.back.0.as_secs_f64(),
            "asked_in_vain": self.back.1,
            "reconnected_by_hand": self.reconnected_by_hand,
            "closed_in_s": self.closed_in.as_secs_f64(),
            "before": self.before,
            "quiet": self.quiet,
            "settled": self.settled,
            "after": self.after,
            "slope_mib_per_hour": self.slope_mib(),
            "slope_descriptors_per_hour": slope_per_hour(&self.samples, |sample| sample.descriptors as f64),
            "violations": violations,
            "violations_in_words": words,
        })
    }
}

/// The samples after the warm-up.
fn warm(samples: &[Timed]) -> &[Timed] {
    let from = samples.last().map_or(0.0, |(at, _)| at * WARM_UP);
    &samples[samples.partition_point(|(at, _)| *at < from)..]
}

/// The slope of the straight line that fits best, by least squares.
fn slope_per_hour(samples: &[Timed], value: impl Fn(&Sample) -> f64) -> f64 {
    let points: Vec<(f64, f64)> = warm(samples).iter().map(|(at, sample)| (*at, value(sample))).collect();
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(&|point| point.0), mean(&|point| point.1));
    let over: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let under: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if under > 0.0 { over / under * 3_600.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_later_part() {
        let sample = |rss_kib| Sample { rss_kib, ..Sample::default() };
        let mut samples: Vec<Timed> =
            (0..=100).map(|at| (f64::from(at), sample(at.max(20) as u64 * 1024))).collect();
        assert!((slope_per_hour(&samples, |s| s.rss_kib as f64 / 1024.0) - 3_600.0).abs() < 1.0);
        for (_, sample) in &mut samples {
            sample.rss_kib = 7;
        }
        assert_eq!(slope_per_hour(&samples, |s| s.rss_kib as f64), 0.0);
        assert_eq!(slope_per_hour(&[], |s| s.rss_kib as f64), 0.0);
    }

    #[test]
    fn violations_are_all_counted_and_the_first_told() {
        let violations = Violations::default();
        (0..100).for_each(|at| violations.add(at.to_string()));
        let (words, count) = violations.take();
        assert_eq!((words.len(), count), (WORDS_MAX, 100));
    }
}
