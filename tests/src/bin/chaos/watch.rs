//! Looks at the run while it runs.

use crate::judge::Violations;
use crate::options::Options;
use crate::system::Sample;
use callboard::{BoardEvent, EventKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Samples of a whole run, whatever its length.
const SAMPLES_MAX: u32 = 900;
const SAMPLE_EVERY_LEAST: Duration = Duration::from_secs(1);
/// Every so often a line is printed.
const TELL_EVERY: Duration = Duration::from_secs(30);
/// A child that has ended is reaped within that time.
const REAPED_WITHIN: Duration = Duration::from_secs(5);
/// A task of nobody that asks to be run so often, and notes by how much it comes too late.
const TICK: Duration = Duration::from_millis(20);

/// A sample, and when it was taken, in seconds.
pub(crate) type Timed = (f64, Sample);

pub(crate) struct Watch {
    stop: watch::Sender<bool>,
    task: JoinHandle<Vec<Timed>>,
}

impl Watch {
    pub(crate) fn start(options: &Options, violations: Arc<Violations>) -> Watch {
        let (stop, stopped) = watch::channel(false);
        let every = (options.time / SAMPLES_MAX).max(SAMPLE_EVERY_LEAST);
        Watch { stop, task: tokio::spawn(look(every, stopped, violations)) }
    }

    pub(crate) async fn stop(self) -> Vec<Timed> {
        self.stop.send_replace(true);
        self.task.await.unwrap_or_default()
    }
}

async fn look(
    every: Duration,
    mut stopped: watch::Receiver<bool>,
    violations: Arc<Violations>,
) -> Vec<Timed> {
    let begun = Instant::now();
    // Room for all of them from the start: their growth is not what is looked for.
    let mut samples: Vec<Timed> = Vec::with_capacity(2 * SAMPLES_MAX as usize);
    let mut told = Instant::now();
    let mut dead: BTreeMap<u32, Instant> = BTreeMap::new();
    while timeout(every, stopped.wait_for(|stopped| *stopped)).await.is_err() {
        let mut sample = Sample::take();
        sample.open.clear();
        dead.retain(|pid, _| sample.zombies.contains(pid));
        for pid in std::mem::take(&mut sample.zombies) {
            let since = *dead.entry(pid).or_insert_with(Instant::now);
            if since.elapsed() > REAPED_WITHIN {
                violations.add(format!("child {pid} ended {:?} ago and is not reaped", since.elapsed()));
            }
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            println!(
                "{:>5.0} s: {:.1} MiB, {} descriptors, {} children, {} tasks, {} threads",
                begun.elapsed().as_secs_f64(),
                sample.rss_kib as f64 / 1024.0,
                sample.descriptors,
                sample.children,
                sample.tasks,
                sample.threads
            );
        }
        samples.push((begun.elapsed().as_secs_f64(), sample));
    }
    samples
}

/// Changes of state by their word, until the board is gone.
pub(crate) async fn count_events(mut events: Receiver<BoardEvent>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    loop {
        let word = match events.recv().await {
            Ok(event) => match event.event {
                EventKind::StateChanged { state, phase, .. } => {
                    phase.map_or_else(|| state.to_owned(), |phase| format!("{state}, {phase}"))
                }
                _ => continue,
            },
            Err(RecvError::Lagged(missed)) => {
                *counts.entry("not seen".to_owned()).or_default() += missed;
                continue;
            }
            Err(RecvError::Closed) => return counts,
        };
        *counts.entry(word).or_default() += 1;
    }
}

/// How late what is due is run: by this runtime, and by the system, which a thread of no runtime shows. When both are
/// late the machine was busy; when the runtime alone is, somebody blocked its threads.
pub(crate) struct Lateness {
    runtime_us: Arc<AtomicU64>,
    system_us: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Lateness {
    pub(crate) fn start() -> Lateness {
        let (runtime_us, system_us) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let noted = runtime_us.clone();
        let task = tokio::spawn(async move {
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let due = ticks.tick().await;
                noted.fetch_max(due.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
        });
        let noted = system_us.clone();
        std::thread::spawn(move || {
            // Ends when nobody wants to know any more.
            while Arc::strong_count(&noted) > 1 {
                let begun = std::time::Instant::now();
                std::thread::park_timeout(TICK);
                let late = begun.elapsed().saturating_sub(TICK);
                noted.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        Lateness { runtime_us, system_us, task }
    }

    /// The most of the runtime and of the system.
    pub(crate) fn stop(self) -> (Duration, Duration) {
        self.task.abort();
        let most = |us: &AtomicU64| Duration::from_micros(us.load(Ordering::Relaxed));
        (most(&self.runtime_us), most(&self.system_us))
    }
}
