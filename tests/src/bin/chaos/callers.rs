//! Those who call, and the book they keep: what became of each call, and when.

use crate::OVERSHOOT_MAX;
use crate::judge::Violations;
use crate::options::Options;
use callboard::{Board, CallError, CallOptions, ConnHandle, Delivery, ToolReply};
use callboard_tests::ledger::Entry;
use callboard_tests::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Deadlines, what a server takes for a call, and the pause between two calls of a caller, in milliseconds.
const DEADLINE_MS: (u64, u64) = (500, 5_000);
const WORK_MS: (u64, u64) = (0, 20);
const PAUSE_MS: (u64, u64) = (40, 160);
/// One call in so many asks for bad manners.
const BAD_EVERY: u64 = 50;
const BAD: [&str; 5] = ["noise", "wrong-id", "hollow", "refuse", "cut"];
/// One caller in so many goes away before its call has ended.
const LEAVES_EVERY: u64 = 40;
/// A call that has not ended so long after its deadline will not end.
const NEVER: Duration = Duration::from_secs(10);
/// More calls a second than all callers could make.
const CALLS_PER_SECOND_MAX: u64 = 16;
/// Milliseconds beyond a deadline that are told apart.
const OVERSHOOT_MS_MAX: usize = 2_000;

/// What is claimed of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Claim {
    Unused,
    UnderWay,
    Answered,
    NotSent,
    Refused,
    Unknown,
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The number of the server.
    pub(crate) server: u32,
    pub(crate) limit: Duration,
    /// When the caller goes away, unless it is done by then.
    pub(crate) leaves_after: Option<Duration>,
    /// More members of the arguments, each after a comma.
    pub(crate) extra: &'a str,
}

/// What became of every call.
pub(crate) struct Book {
    next: AtomicU64,
    /// By number; all in memory from the start, so that a long run does not look like a leak.
    claims: Vec<AtomicU8>,
    asked: Vec<AtomicU32>,
    counts: std::sync::Mutex<BTreeMap<&'static str, u64>>,
    overshoot_ms: Vec<AtomicU64>,
    overshoot_us_max: AtomicU64,
}

impl Book {
    pub(crate) fn new(options: &Options) -> Book {
        let calls =
            u64::from(options.callers) * CALLS_PER_SECOND_MAX * (options.time.as_secs() + 60) + 100_000;
        Book {
            next: AtomicU64::new(0),
            claims: (0..calls).map(|_| AtomicU8::new(Claim::Unused as u8)).collect(),
            // Not zero, so that the pages are touched.
            asked: (0..calls).map(|_| AtomicU32::new(u32::MAX)).collect(),
            counts: std::sync::Mutex::default(),
            overshoot_ms: (0..=OVERSHOOT_MS_MAX).map(|_| AtomicU64::new(0)).collect(),
            overshoot_us_max: AtomicU64::new(0),
        }
    }

    /// Makes one call and notes what became of it; true when it was answered.
    pub(crate) async fn call(&self, server: &ConnHandle, asked: Asked<'_>, violations: &Violations) -> bool {
        let Asked { server: server_number, limit, leaves_after, extra } = asked;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(claim) = self.claims.get(number as usize) else {
            violations.add("the book of calls is full".into());
            return false;
        };
        claim.store(Claim::UnderWay as u8, Ordering::Relaxed);
        self.asked[number as usize].store(server_number, Ordering::Relaxed);
        let arguments = format!(r#"{{"n":{number}{extra}}}"#);
        let begun = Instant::now();
        let calling = server.call_tool("echo", &arguments, CallOptions::with_timeout(limit));
        let ended = timeout(leaves_after.unwrap_or(limit + NEVER), calling).await;
        if ended.is_err() && leaves_after.is_some() {
            claim.store(Claim::Unknown as u8, Ordering::Relaxed);
            self.count("left by its caller");
            return false;
        }
        self.note_overshoot(begun.elapsed().saturating_sub(limit));
        let Ok(ended) = ended else {
            violations.add(format!("call {number} to {} never ended", server.name()));
            return false;
        };
        let late = begun.elapsed().saturating_sub(limit);
        if late > OVERSHOOT_MAX {
            let how = ended.as_ref().map_or_else(ToString::to_string, |_| "answered".into());
            violations.add(format!("call {number} to {} ended {late:?} too late: {how}", server.name()));
        }
        claim.store(claimed(&ended) as u8, Ordering::Relaxed);
        self.count(word(&ended));
        match ended {
            Ok(reply) if reply.text() == number.to_string() => true,
            Ok(reply) => {
                let answer: String = reply.raw().chars().take(200).collect();
                violations.add(format!("call {number} to {} got the answer {answer}", server.name()));
                false
            }
            Err(_) => false,
        }
    }

    fn count(&self, word: &'static str) {
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *counts.entry(word).or_default() += 1;
    }

    fn note_overshoot(&self, late: Duration) {
        if !late.is_zero() {
            self.overshoot_ms[(late.as_millis() as usize).min(OVERSHOOT_MS_MAX)]
                .fetch_add(1, Ordering::Relaxed);
            self.overshoot_us_max.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
        }
    }

    /// Compares what was claimed with what the servers performed.
    pub(crate) fn judge(&self, performed: &[Entry], violations: &Violations) {
        let calls = self.next.load(Ordering::Relaxed).min(self.claims.len() as u64);
        let mut times = vec![0u8; calls as usize];
        for Entry { call, server } in performed {
            let Some(time) = times.get_mut(*call as usize) else {
                violations.add(format!("call {call} was performed, which nobody made"));
                continue;
            };
            *time += 1;
            let asked = self.asked[*call as usize].load(Ordering::Relaxed);
            if asked != *server {
                violations.add(format!("call {call} to server {asked} was performed by server {server}"));
            }
            if *time == 2 {
                violations.add(format!("call {call} to server {server} was performed twice"));
            }
        }
        for (call, time) in times.iter().enumerate() {
            let claim = self.claims[call].load(Ordering::Relaxed);
            let wrong = match (claim, *time) {
                (claim, _) if claim == Claim::UnderWay as u8 => "is not accounted for",
                (claim, 0) if claim == Claim::Answered as u8 => "was answered, and nobody performed it",
                (claim, 1..) if claim == Claim::NotSent as u8 => "was performed, and is said to be unsent",
                (claim, 1..) if claim == Claim::Refused as u8 => "was performed, and is said to be refused",
                _ => continue,
            };
            let asked = self.asked[call].load(Ordering::Relaxed);
            violations.add(format!("call {call} to server {asked} {wrong}"));
        }
    }

    /// How often what became of a call.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn overshoot(&self) -> Overshoot {
        let counts: Vec<u64> = self.overshoot_ms.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let late: u64 = counts.iter().sum();
        let quantile = |share: f64| {
            let mut left = (late as f64 * share).ceil() as u64;
            counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            })
        };
        Overshoot {
            calls: late,
            p50_ms_below: quantile(0.5).map_or(0, |ms| ms + 1),
            p999_ms_below: quantile(0.999).map_or(0, |ms| ms + 1),
            max_ms: self.overshoot_us_max.load(Ordering::Relaxed) as f64 / 1e3,
        }
    }
}

/// Calls that ended after their deadline, and by how much.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Overshoot {
    pub(crate) calls: u64,
    pub(crate) p50_ms_below: usize,
    pub(crate) p999_ms_below: usize,
    pub(crate) max_ms: f64,
}

fn claimed(ended: &Result<ToolReply, CallError>) -> Claim {
    match ended.as_ref().map_err(CallError::delivery) {
        Ok(_) => Claim::Answered,
        Err(Delivery::NotSent) => Claim::NotSent,
        Err(Delivery::Refused) => Claim::Refused,
        Err(Delivery::Unknown) => Claim::Unknown,
    }
}

fn word(ended: &Result<ToolReply, CallError>) -> &'static str {
    match ended {
        Ok(_) => "answered",
        Err(CallError::TimedOut { delivery: Delivery::NotSent, .. }) => "timed-out, unsent",
        Err(CallError::Lost { delivery: Delivery::NotSent, .. }) => "lost, unsent",
        Err(CallError::Lost { delivery: Delivery::Refused, .. }) => "lost, refused",
        Err(error) => error.code(),
    }
}

/// Callers under way.
pub(crate) struct Calling {
    callers: JoinSet<()>,
    is_over: Arc<AtomicBool>,
    over: Arc<Notify>,
}

pub(crate) fn start(
    options: &Options,
    board: &Board,
    book: &Arc<Book>,
    violations: &Arc<Violations>,
) -> Calling {
    let (is_over, over) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let mut callers = JoinSet::new();
    let servers = Arc::new(board.servers());
    for caller in 0..options.callers {
        let random = Random::new(options.seed).fork(u64::from(caller) + 1);
        let (servers, book, violations) = (servers.clone(), book.clone(), violations.clone());
        let (is_over, over) = (is_over.clone(), over.clone());
        callers.spawn(async move {
            let calls = call_on(random, &servers, &book, &violations, (&is_over, &over));
            calls.await;
        });
    }
    Calling { callers, is_over, over }
}

async fn call_on(
    mut random: Random,
    servers: &[ConnHandle],
    book: &Book,
    violations: &Violations,
    (is_over, over): (&AtomicBool, &Notify),
) {
    while !is_over.load(Ordering::Acquire) {
        let number = random.below(servers.len());
        let limit = Duration::from_millis(random.between(DEADLINE_MS.0, DEADLINE_MS.1));
        let mut extra = format!(r#","ms":{}"#, random.between(WORK_MS.0, WORK_MS.1));
        if random.once_in(BAD_EVERY) {
            extra.push_str(&format!(r#","manner":"{}""#, BAD[random.below(BAD.len())]));
        }
        let leaves = random.once_in(LEAVES_EVERY);
        let leaves_after = leaves.then(|| Duration::from_millis(random.between(0, WORK_MS.1)));
        let asked = Asked { server: number as u32, limit, leaves_after, extra: &extra };
        book.call(&servers[number], asked, violations).await;
        let pause = Duration::from_millis(random.between(PAUSE_MS.0, PAUSE_MS.1));
        let _ = timeout(pause, over.notified()).await;
    }
}

impl Calling {
    /// Waits until every caller has had the end of its last call.
    pub(crate) async fn stop(mut self, violations: &Violations) {
        self.is_over.store(true, Ordering::Release);
        self.over.notify_waiters();
        while let Some(ended) = self.callers.join_next().await {
            if let Err(error) = ended {
                violations.add(format!("a caller ended: {error}"));
            }
        }
    }
}
