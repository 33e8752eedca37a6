//! Plays the steps of a scripted case on a board with one server, and prints after each what came of all.

use crate::job::{Op, Scripted, Step, ToolCall};
use callboard::protocol::Secret;
use callboard::{
    Board, CallError, CallOptions, ConnHandle, HttpSpec, RemoteKind, ServerSpec, StdioSpec, ToolReply,
    TransportSpec,
};
use callboard_tests::own::peak_rss_mb;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Characters of a text that are printed; more is counted only.
const TEXT_CHARS_MAX: usize = 4_000;
const SERVER: &str = "server";

/// What the runtime cannot do yet.
pub(crate) fn unsupported(job: &Scripted) -> Option<&'static str> {
    match job.transport.as_str() {
        _ if job.oauth => Some("there is no OAuth yet"),
        "stdio" | "http" | "sse" => None,
        _ => Some("there is no such transport yet"),
    }
}

/// What came of one step.
#[derive(Debug, Default, Serialize)]
struct Seen {
    outcome: &'static str,
    ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_len: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    /// What a browser was sent to; nothing, as long as there is no login.
    opened: [String; 0],
}

#[derive(Serialize)]
struct Line<'a> {
    steps: &'a [Seen],
    done: bool,
    peak_rss_mb: f64,
}

impl Seen {
    fn ok() -> Seen {
        Seen { outcome: "ok", ..Seen::default() }
    }

    fn error(what: impl Into<String>) -> Seen {
        Seen { outcome: "error", error: Some(what.into()), ..Seen::default() }
    }

    fn failed(error: &CallError) -> Seen {
        let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        Seen::error(format!("{error}{hint}"))
    }

    fn reply(reply: &ToolReply) -> Seen {
        let (text, is_error) = match text_of(reply) {
            Ok(read) => read,
            Err(error) => return Seen::failed(&error),
        };
        let text_len = text.chars().count();
        let text = text.chars().take(TEXT_CHARS_MAX).collect();
        let outcome = if is_error { "tool_error" } else { "ok" };
        Seen { outcome, text: Some(text), text_len: Some(text_len), ..Seen::default() }
    }
}

/// The text blocks of a result, one after the other, and whether it reports a failure.
fn text_of(reply: &ToolReply) -> Result<(String, bool), CallError> {
    let result = reply.read()?;
    Ok((result.content.iter().filter_map(|block| block.text()).collect(), result.is_error))
}

/// Plays the job. Ends the process itself when a step hangs and nothing else can end it.
pub(crate) fn play(job: Box<Scripted>) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut player = Player::default();
        for step in &job.steps {
            player.step(&job, step).await;
        }
        player.end().await;
        print(&player.seen, true);
    });
    // A step that was given up may still hold a thread.
    runtime.shutdown_background();
    Ok(())
}

#[derive(Default)]
struct Player {
    board: Option<Board>,
    is_connected: bool,
    seen: Vec<Seen>,
}

impl Player {
    async fn step(&mut self, job: &Scripted, step: &Step) {
        let started = Instant::now();
        let limit = Duration::from_millis(step.hard_ms);
        let mut seen = match tokio::time::timeout(limit, self.take(job, step)).await {
            Ok(seen) => seen,
            Err(_) => Seen { outcome: "hang", ..Seen::default() },
        };
        seen.ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if step.op == Op::Connect {
            self.is_connected = seen.outcome == "ok";
        }
        self.seen.push(seen);
        print(&self.seen, false);
    }

    async fn take(&mut self, job: &Scripted, step: &Step) -> Seen {
        match step.op {
            Op::Connect => self.connect(job, step).await,
            Op::Wait => {
                tokio::time::sleep(Duration::from_millis(step.ms)).await;
                Seen::ok()
            }
            Op::Close => {
                self.end().await;
                Seen::ok()
            }
            Op::ListTools | Op::CallTool | Op::ParallelCalls => {
                let server =
                    self.board.as_ref().filter(|_| self.is_connected).and_then(|board| board.server(SERVER));
                match server {
                    Some(server) => use_server(&server, step).await,
                    None => Seen { outcome: "skipped", ..Seen::default() },
                }
            }
        }
    }

    async fn connect(&mut self, job: &Scripted, step: &Step) -> Seen {
        let board = match Board::builder().server(spec(job)).build().await {
            Ok(board) => board,
            Err(error) => return Seen::error(error.to_string()),
        };
        let server = self.board.insert(board).server(SERVER);
        let Some(server) = server else { return Seen::error("the board did not admit the server") };
        match server.connect(step.timeout_ms.map(Duration::from_millis)).await {
            Ok(()) => Seen::ok(),
            Err(error) => Seen::failed(&error),
        }
    }

    async fn end(&mut self) {
        if let Some(board) = &self.board {
            board.close().await;
        }
        self.is_connected = false;
    }
}

fn spec(job: &Scripted) -> ServerSpec {
    let secret = |(key, value): (&String, &String)| (key.clone(), Secret::new(value));
    let transport = match job.transport.as_str() {
        "stdio" => TransportSpec::Stdio(StdioSpec {
            command: job.command.clone(),
            args: job.args.clone(),
            env: job.env.iter().flatten().map(secret).collect(),
            cwd: job.cwd.clone(),
            ..StdioSpec::default()
        }),
        named => TransportSpec::Http(HttpSpec {
            url: job.url.clone(),
            headers: job.headers.iter().map(secret).collect(),
            kind: if named == "sse" { RemoteKind::Sse } else { RemoteKind::Streamable },
            ..HttpSpec::default()
        }),
    };
    ServerSpec::new(SERVER, transport)
}

async fn use_server(server: &ConnHandle, step: &Step) -> Seen {
    match step.op {
        Op::ListTools => match server.tools().await {
            Ok(list) => {
                let names = list.items.iter().map(|item| item.key.to_string()).collect();
                Seen { tools: Some(names), ..Seen::ok() }
            }
            Err(error) => Seen::failed(&error),
        },
        Op::CallTool => match call(server, step.call(), options(step)).await {
            Ok(reply) => Seen::reply(&reply),
            Err(error) => Seen::failed(&error),
        },
        Op::ParallelCalls => parallel(server, &step.calls).await,
        Op::Connect | Op::Wait | Op::Close => Seen::error("this step uses no server"),
    }
}

/// A limit alone is the limit of the whole call; one that progress resets is a limit of silence.
fn options(step: &Step) -> CallOptions {
    let limit = step.timeout_ms.map(Duration::from_millis);
    if step.reset_on_progress {
        let timeout = step.max_total_ms.map(Duration::from_millis);
        CallOptions { idle_timeout: limit, timeout, ..CallOptions::default() }
    } else {
        CallOptions { timeout: limit, ..CallOptions::default() }
    }
}

async fn call(server: &ConnHandle, call: ToolCall, options: CallOptions) -> Result<ToolReply, CallError> {
    server.call_tool(&call.name, &call.arguments(), options).await
}

async fn parallel(server: &ConnHandle, calls: &[ToolCall]) -> Seen {
    let running: Vec<_> = calls
        .iter()
        .cloned()
        .map(|given| {
            let server = server.clone();
            tokio::spawn(async move { call(&server, given, CallOptions::default()).await })
        })
        .collect();
    let mut texts = Vec::with_capacity(running.len());
    let mut first_error = None;
    for task in running {
        match task.await {
            Ok(Ok(reply)) => match text_of(&reply) {
                Ok((text, _)) => texts.push(text),
                Err(error) => first_error = first_error.or(Some(Seen::failed(&error))),
            },
            Ok(Err(error)) => first_error = first_error.or(Some(Seen::failed(&error))),
            Err(error) => {
                first_error = first_error.or(Some(Seen::error(format!("the call panicked: {error}"))))
            }
        }
    }
    first_error.unwrap_or(Seen { texts: Some(texts), ..Seen::ok() })
}

fn print(seen: &[Seen], done: bool) {
    let line = Line { steps: seen, done, peak_rss_mb: peak_rss_mb() };
    match serde_json::to_string(&line) {
        Ok(line) => println!("{line}"),
        Err(error) => eprintln!("case-driver: cannot print the steps: {error}"),
    }
}
