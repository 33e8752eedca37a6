//! The driver that `bench/run.py` measures callboard with (`bench/README.md`, the driver protocol).
//!
//! What a host would have stays on: policy, deadlines, limits, counters. Limits that a workload passes on
//! purpose are raised by the settings anyone may use (`--backoff-ms` is `reconnect.backoff_ms_initial`). `--mode multi` takes a runtime with several threads.

mod recorder;

use callboard::protocol::Era;
use callboard::protocol::list::ListKind;
use callboard::{
    Board, CallError, CallOptions, ConnHandle, EraPin, ServerOptions, ServerSpec, Settings, ToolReply,
};
use drvkit::{Args, Meter, Op, die};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const DRIVER: &str = "callboard";
const MIB: usize = 1024 * 1024;

fn main() {
    let args = Args::parse();
    or_die("recorder", metrics::set_global_recorder(recorder::InMemory));
    let mut builder = match args.mode.as_str() {
        "" => tokio::runtime::Builder::new_current_thread(),
        "multi" => tokio::runtime::Builder::new_multi_thread(),
        other => die(&format!("unknown mode {other}")),
    };
    match builder.enable_all().build() {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => die(&format!("no runtime: {error}")),
    }
}

async fn run(args: Args) {
    match args.op {
        Op::Call => calls(args).await,
        Op::List => lists(args).await,
        Op::Cold => cold(args).await,
        Op::Reconnect => reconnects(args).await,
        Op::Fanout | Op::Idle => fanout(args).await,
    }
}

/// The settings of a host that does this workload.
fn settings(args: &Args) -> Settings {
    let defaults = Settings::default();
    Settings {
        connect_local_max: defaults.connect_local_max.max(args.concurrency),
        connect_remote_max: defaults.connect_remote_max.max(args.concurrency),
        call_in_flight_max: defaults.call_in_flight_max.max(args.concurrency),
        http_posts_max: defaults.http_posts_max.max(args.concurrency),
        // The envelope around a payload is small, but it is not nothing.
        wire_frame_bytes_max: defaults.wire_frame_bytes_max.max(args.payload + MIB),
        reconnect_backoff_initial: args
            .backoff_ms
            .map_or(defaults.reconnect_backoff_initial, Duration::from_millis),
        ..defaults
    }
}

fn spec(args: &Args, number: usize) -> ServerSpec {
    let name = format!("server-{number}");
    let era = if args.modern { Era::Modern } else { Era::Legacy };
    let spec = if args.http() {
        ServerSpec::http(name, args.url_of(number))
    } else {
        let mut words = args.stdio_argv(number).into_iter();
        let Some(command) = words.next() else { die("--stdio is empty") };
        ServerSpec::stdio(name, command, words)
    };
    ServerSpec {
        options: ServerOptions { protocol_era: EraPin::Pinned(era), ..ServerOptions::default() },
        ..spec
    }
}

async fn board(args: &Args, servers: usize) -> Board {
    let specs = (1..=servers).map(|number| spec(args, number));
    or_die("build", Board::builder().settings(settings(args)).servers(specs).build().await)
}

fn server(board: &Board, number: usize) -> ConnHandle {
    board.server(&format!("server-{number}")).unwrap_or_else(|| die("the board did not admit a server"))
}

async fn connected(args: &Args) -> (Board, ConnHandle) {
    let board = board(args, 1).await;
    let server = server(&board, 1);
    or_die("connect", server.connect(None).await);
    (board, server)
}

fn or_die<T, E: Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| die(&format!("{what}: {error}")))
}

/// One call that is made over and over, and what its result must be.
struct Call {
    server: ConnHandle,
    tool: String,
    arguments: String,
    text_len: usize,
}

impl Call {
    fn new(server: ConnHandle, args: &Args) -> Call {
        Call {
            server,
            tool: args.tool.clone(),
            arguments: args.arguments_json(),
            text_len: args.expected_text_len(),
        }
    }

    /// Makes it; counts 1 when the result is not what it must be.
    async fn errors(&self) -> u64 {
        match self.server.call_tool(&self.tool, &self.arguments, CallOptions::default()).await {
            Ok(reply) => u64::from(!self.is_right(&reply)),
            Err(error) => {
                eprintln!("call: {error}");
                1
            }
        }
    }

    /// Makes it until it is served; gives how often it was lost, which is for the caller to decide upon.
    async fn until_served(&self) -> u32 {
        let mut lost = 0;
        loop {
            match self.server.call_tool(&self.tool, &self.arguments, CallOptions::default()).await {
                Ok(reply) if self.is_right(&reply) => return lost,
                Ok(reply) => die(&format!("call: {}", reply.raw())),
                Err(CallError::Lost { .. }) => lost += 1,
                Err(error) => die(&format!("call: {error}")),
            }
        }
    }

    fn is_right(&self, reply: &ToolReply) -> bool {
        let answer: Result<Answer<'_>, _> = serde_json::from_str(reply.raw());
        answer.is_ok_and(|answer| !answer.is_error && answer.text_len() == self.text_len)
    }
}

/// The result as a caller reads it who knows what it asked for: once, into its own type.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    content: Vec<TextBlock<'a>>,
    #[serde(default, rename = "isError")]
    is_error: bool,
}

#[derive(Deserialize)]
struct TextBlock<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl Answer<'_> {
    fn text_len(&self) -> usize {
        self.content.iter().map(|block| block.text.len()).sum()
    }
}

async fn calls(args: Args) {
    let (board, server) = connected(&args).await;
    let call = Arc::new(Call::new(server, &args));
    for _ in 0..args.warmup {
        call.errors().await;
    }
    let mut meter = Meter::start(DRIVER, args.n);
    if args.concurrency <= 1 {
        for _ in 0..args.n {
            let started = Instant::now();
            meter.errors += call.errors().await;
            meter.rec(started);
        }
    } else {
        at_once(&args, &call, &mut meter).await;
    }
    meter.finish(&args);
    board.close().await;
}

async fn at_once(args: &Args, call: &Arc<Call>, meter: &mut Meter) {
    let begun = Arc::new(AtomicUsize::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..args.concurrency {
        let (call, begun, all) = (call.clone(), begun.clone(), args.n);
        callers.spawn(async move {
            let (mut latencies, mut errors) = (Vec::new(), 0);
            while begun.fetch_add(1, Ordering::Relaxed) < all {
                let started = Instant::now();
                errors += call.errors().await;
                latencies.push(nanoseconds(started));
            }
            (latencies, errors)
        });
    }
    while let Some(ended) = callers.join_next().await {
        let (latencies, errors) = or_die("caller", ended);
        meter.lat_ns.extend(latencies);
        meter.errors += errors;
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Asks the server again each time: a list from memory would measure nothing.
async fn lists(args: Args) {
    let (board, server) = connected(&args).await;
    let mut meter = Meter::start(DRIVER, args.n);
    let mut tools = 0;
    for _ in 0..args.n {
        let started = Instant::now();
        match server.refresh(ListKind::Tools).await {
            Ok(list) => tools = list.items.len(),
            Err(error) => {
                eprintln!("list: {error}");
                meter.errors += 1;
            }
        }
        meter.rec(started);
    }
    meter.extra.push(("tools", tools as f64));
    meter.finish(&args);
    board.close().await;
}

async fn cold(args: Args) {
    let mut meter = Meter::start(DRIVER, 1);
    let started = Instant::now();
    let (board, server) = connected(&args).await;
    meter.errors += Call::new(server, &args).errors().await;
    meter.rec(started);
    meter.extra.extend(drvkit::ms_since_t0().map(|ms| ("cold_ms", ms)));
    meter.finish(&args);
    board.close().await;
}

/// A board of its own each time: losses in quick succession are a crash loop, and have longer and longer gaps.
async fn reconnects(args: Args) {
    let mut meter = Meter::start(DRIVER, args.n);
    let mut starts = Vec::with_capacity(args.n);
    let mut lost = 0u32;
    for _ in 0..args.n {
        starts.push(drvkit::own_start_ms(&args));
        let (board, server) = connected(&args).await;
        let call = Call::new(server, &args);
        meter.errors += call.errors().await;
        let Some(child) = call.server.process_id() else { die("no process id") };
        let started = Instant::now();
        drvkit::kill(child);
        lost += call.until_served().await;
        meter.rec(started);
        board.close().await;
    }
    drvkit::add_starts(&mut meter, &starts);
    meter.extra.push(("lost", f64::from(lost)));
    meter.finish(&args);
}

async fn fanout(args: Args) {
    if args.op == Op::Idle {
        // One connection first, so that code pages and what all connections share are there before memory is read.
        let board = board(&args, 1).await;
        or_die("warm up", server(&board, 1).tools().await);
        board.close().await;
    }
    let rss_before = drvkit::status_kib("VmRSS") as f64;
    let mut meter = Meter::start(DRIVER, args.servers);
    let board = board(&args, args.servers).await;
    let places = Arc::new(tokio::sync::Semaphore::new(args.concurrency));
    let mut listing = tokio::task::JoinSet::new();
    for number in 1..=args.servers {
        let (server, places) = (server(&board, number), places.clone());
        listing.spawn(async move {
            let _place = places.acquire().await;
            let started = Instant::now();
            let listed = server.tools().await;
            (listed.map(|list| list.items.len()), nanoseconds(started))
        });
    }
    while let Some(ended) = listing.join_next().await {
        let (listed, latency) = or_die("list", ended);
        meter.lat_ns.push(latency);
        match listed {
            Ok(tools) if tools > 0 => {}
            Ok(_) => meter.errors += 1,
            Err(error) => {
                eprintln!("list: {error}");
                meter.errors += 1;
            }
        }
    }
    if args.op == Op::Idle {
        tokio::time::sleep(Duration::from_secs_f64(args.hold_s)).await;
    }
    meter.extra.push(("rss_delta_kib", drvkit::status_kib("VmRSS") as f64 - rss_before));
    meter.finish(&args);
    board.close().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_by_the_length_of_its_text() {
        let of =
            |raw: &'static str| serde_json::from_str::<Answer<'_>>(raw).map(|answer| answer.text_len()).ok();
        assert_eq!(of(r#"{"content":[{"type":"text","text":"a\"b"}],"x":1}"#), Some(3));
        assert_eq!(of(r#"{"content":[{"type":"image","data":""}]}"#), None);
    }
}
