//! Every way in which a server can meet the handshake, as a table on a paused clock: what was sent to which of
//! its starts, and what came of it (protocol.md §1.2).

use super::*;
use crate::handler::{ElicitAnswer, ElicitRequest, Elicitation};
use crate::port::{
    BoxFuture, Dialer, DuplexSend, InFrame, Link, LinkCloser, ReceiveHalf, SendHalf, ServerSpec, StderrFeed,
};
use crate::settings::Settings;
use callboard_protocol::{Decoded, Frame};
use parking_lot::Mutex;
use serde_json::Value;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// What a server does with one request.
#[derive(Clone)]
enum Act {
    /// Answers with this member, e.g. `"result":{}`.
    Say(&'static str),
    /// The same after so many milliseconds.
    Late(u64, &'static str),
    /// Sends a whole message of its own and never answers.
    Ask(&'static str),
    Silence,
    Die,
}

/// Gives the act for the number of the start, counted from 1, and the method.
type Script = fn(usize, &str, &Value) -> Act;

struct World {
    script: Script,
    starts: Mutex<usize>,
    log: Mutex<Vec<String>>,
}

type Inward = mpsc::UnboundedSender<Result<InFrame, CloseReason>>;

struct Scripted {
    world: Arc<World>,
    start: usize,
    inward: Inward,
}

impl Dialer for Arc<World> {
    fn dial(&self, _request: DialRequest) -> BoxFuture<'static, Result<Link, CloseReason>> {
        let world = self.clone();
        Box::pin(async move {
            let start = {
                let mut starts = world.starts.lock();
                *starts += 1;
                *starts
            };
            let (inward, out) = mpsc::unbounded_channel();
            Ok(Link {
                send: SendHalf::Duplex(Arc::new(Scripted { world, start, inward })),
                receive: Box::new(Out(out)),
                closer: Box::new(Closer),
                diagnostics: Arc::new(()),
            })
        })
    }
}

impl DuplexSend for Scripted {
    fn send(&self, frame: &[u8]) -> Result<(), CloseReason> {
        if self.inward.is_closed() {
            return Err(ended());
        }
        let message: Value = serde_json::from_slice(frame).expect("JSON");
        let method = message["method"].as_str().unwrap_or("answer").to_owned();
        self.world.log.lock().push(format!("{}:{method}", self.start));
        if message["id"].is_null() || method == "answer" {
            return Ok(());
        }
        let (id, inward) = (message["id"].clone(), self.inward.clone());
        let answer = move |member: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#);
            let _ = inward.send(Ok(InFrame::Frame(read(&text))));
        };
        match (self.world.script)(self.start, &method, &message) {
            Act::Say(member) => answer(member),
            Act::Late(after, member) => {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    answer(member);
                });
            }
            Act::Ask(whole) => drop(self.inward.send(Ok(InFrame::Frame(read(whole))))),
            Act::Silence => {}
            Act::Die => drop(self.inward.send(Err(ended()))),
        }
        Ok(())
    }
}

fn read(text: &str) -> Frame {
    match callboard_protocol::decode_copied(text.as_bytes()) {
        Decoded::One(frame) => frame,
        other => panic!("{text}: {other:?}"),
    }
}

fn ended() -> CloseReason {
    CloseReason::Ended { exit: None, stderr_tail: String::new() }
}

struct Out(mpsc::UnboundedReceiver<Result<InFrame, CloseReason>>);

impl ReceiveHalf for Out {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>> {
        self.0.poll_recv(cx).map(|item| item.unwrap_or_else(|| Err(ended())))
    }
}

struct Closer;

impl LinkCloser for Closer {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A person who never answers.
struct Absent;

impl Elicitation for Absent {
    fn elicit(&self, _request: ElicitRequest) -> BoxFuture<'static, ElicitAnswer> {
        Box::pin(std::future::pending())
    }
}

async fn play(script: Script, remembered: Option<Era>) -> (String, String) {
    let world = Arc::new(World { script, starts: Mutex::new(0), log: Mutex::default() });
    let runtime = tokio::runtime::Handle::current();
    let mut env = Environment::new(Arc::new(world.clone()), Settings::default(), runtime);
    env.handlers.elicitation = Some(Arc::new(Absent));
    let spec = ServerSpec::stdio("s", "program", [""; 0]);
    if let Some(era) = remembered {
        env.eras.remember(&callboard_policy::fingerprint(&spec), era);
    }
    let server = callboard_policy::admit([spec]).admitted.remove(0);
    let server_name = server.name().clone();
    let attempt = Attempt {
        env: Arc::new(env),
        server,
        generation: Generation(1),
        gate: Arc::new(CallGate::new(1, 1, telemetry::CallMetrics::new(&server_name))),
        stderr: StderrFeed::default(),
        list_changed: Arc::new(|_| {}),
        token: AliveToken::default(),
        dialed: Box::new(|| {}),
    };
    let outcome = match connect(attempt).await {
        Ok(Established { core, io: _io }) => core.session().expect("a session").version().to_string(),
        Err(reason) => reason.to_string(),
    };
    let log = world.log.lock().join(" ");
    (outcome, log)
}

const MODERN: &str = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{}}"#;
const LEGACY: &str = r#""result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{}}"#;
const UNKNOWN: &str = r#""error":{"code":-32601,"message":"unknown method"}"#;
const MISSING: &str = r#""error":{"code":-32021,"message":"capability"}"#;
const WANTS_MODERN: &str =
    r#""error":{"code":-32022,"message":"version","data":{"supported":["2026-07-28"],"requested":"x"}}"#;
const WANTS_LEGACY: &str =
    r#""error":{"code":-32022,"message":"version","data":{"supported":["2025-06-18"],"requested":"x"}}"#;
const WANTS_LATER: &str =
    r#""error":{"code":-32022,"message":"version","data":{"supported":["2030-01-01"],"requested":"x"}}"#;
const ELICITS: &str =
    r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"who?"}}"#;

/// Answers a probe like this, and `initialize` as a legacy server does.
macro_rules! legacy_that_says {
    ($act:expr) => {
        |_, method, _| match method {
            "server/discover" => $act,
            _ => Act::Say(LEGACY),
        }
    };
}

const IN_PLACE: &str = "1:server/discover 1:initialize 1:notifications/initialized";

#[tokio::test(start_paused = true)]
async fn every_meeting_of_a_handshake() {
    let table: Vec<(&str, Script, &str, &str)> = vec![
        ("modern", |_, _, _| Act::Say(MODERN), "2026-07-28", "1:server/discover"),
        (
            "modern, slow",
            |_, method, _| match method {
                "server/discover" => Act::Late(5_000, MODERN),
                _ => Act::Silence,
            },
            "2026-07-28",
            "1:server/discover 1:initialize",
        ),
        ("legacy: unknown method", legacy_that_says!(Act::Say(UNKNOWN)), "2025-06-18", IN_PLACE),
        (
            "legacy: not initialized",
            legacy_that_says!(Act::Say(r#""error":{"code":-32002,"message":"m"}"#)),
            "2025-06-18",
            IN_PLACE,
        ),
        (
            "legacy: bad params",
            legacy_that_says!(Act::Say(r#""error":{"code":-32602,"message":"m"}"#)),
            "2025-06-18",
            IN_PLACE,
        ),
        (
            "legacy: error that is a text",
            legacy_that_says!(Act::Say(r#""error":"no""#)),
            "2025-06-18",
            IN_PLACE,
        ),
        ("legacy: an empty result", legacy_that_says!(Act::Say(r#""result":{}"#)), "2025-06-18", IN_PLACE),
        (
            "legacy: a result that is none",
            legacy_that_says!(Act::Say(r#""result":null"#)),
            "2025-06-18",
            IN_PLACE,
        ),
        ("legacy: neither result nor error", legacy_that_says!(Act::Say(r#""x":1"#)), "2025-06-18", IN_PLACE),
        ("legacy: names its versions", legacy_that_says!(Act::Say(WANTS_LEGACY)), "2025-06-18", IN_PLACE),
        ("legacy: silent to a probe", legacy_that_says!(Act::Silence), "2025-06-18", IN_PLACE),
        (
            "legacy, slow to start",
            |_, method, _| match method {
                "server/discover" => Act::Late(5_000, UNKNOWN),
                _ => Act::Late(3_000, LEGACY),
            },
            "2025-06-18",
            IN_PLACE,
        ),
        (
            "legacy: dies of a probe",
            |_, method, _| match method {
                "server/discover" => Act::Die,
                _ => Act::Say(LEGACY),
            },
            "2025-06-18",
            "1:server/discover 2:initialize 2:notifications/initialized",
        ),
        (
            "legacy: spoilt by a probe",
            |start, method, _| match (start, method) {
                (1, _) => Act::Say(UNKNOWN),
                _ => Act::Say(LEGACY),
            },
            "2025-06-18",
            "1:server/discover 1:initialize 2:initialize 2:notifications/initialized",
        ),
        (
            "modern after a correction",
            |_, _, message| match message["id"].as_u64() {
                Some(1) => Act::Say(WANTS_MODERN),
                _ => Act::Say(MODERN),
            },
            "2026-07-28",
            "1:server/discover 1:server/discover",
        ),
        (
            "refuses what it offers",
            |_, _, _| Act::Say(WANTS_MODERN),
            "protocol violation: the server refuses protocol version 2026-07-28 although it offers it",
            "1:server/discover 1:server/discover",
        ),
        (
            "of the future",
            |_, _, _| Act::Say(WANTS_LATER),
            "protocol violation: no common protocol version: the server offers 2030-01-01, the client speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28",
            "1:server/discover",
        ),
        (
            "asks twice for more, then legacy",
            |_, method, _| match method {
                "server/discover" => Act::Say(MISSING),
                _ => Act::Say(LEGACY),
            },
            "2025-06-18",
            "1:server/discover 1:server/discover 1:initialize 1:notifications/initialized",
        ),
        ("silent", |_, _, _| Act::Silence, "no answer within 30000 ms", "1:server/discover 1:initialize"),
        ("dead", |_, _, _| Act::Die, "the server ended the connection", "1:server/discover 2:initialize"),
        (
            "asks a person instead of answering",
            |_, _, _| Act::Ask(ELICITS),
            "no answer within 30000 ms",
            "1:server/discover 1:initialize",
        ),
    ];
    for (name, script, outcome, log) in table {
        let (got, sent) = play(script, None).await;
        assert_eq!((got.as_str(), sent.as_str()), (outcome, log), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_remembered_era_that_proved_wrong_is_found_out_anew_once() {
    let table: Vec<(&str, Script, Era, &str, &str)> = vec![
        (
            "upgraded",
            |_, method, _| match method {
                "server/discover" => Act::Say(MODERN),
                _ => Act::Die,
            },
            Era::Legacy,
            "2026-07-28",
            "1:initialize 2:server/discover",
        ),
        (
            "upgraded, says so",
            |_, method, _| match method {
                "server/discover" => Act::Say(MODERN),
                _ => Act::Say(WANTS_MODERN),
            },
            Era::Legacy,
            "2026-07-28",
            "1:initialize 1:server/discover",
        ),
        (
            "downgraded",
            |_, method, _| match method {
                "server/discover" => Act::Say(UNKNOWN),
                _ => Act::Say(LEGACY),
            },
            Era::Modern,
            "2025-06-18",
            "1:server/discover 2:server/discover 2:initialize 2:notifications/initialized",
        ),
        // The third start is the last one of this attempt; the next one waits for its gap.
        (
            "dead, once legacy",
            |_, _, _| Act::Die,
            Era::Legacy,
            "the server ended the connection",
            "1:initialize 2:server/discover 3:initialize",
        ),
        (
            "dead, once modern",
            |_, _, _| Act::Die,
            Era::Modern,
            "the server ended the connection",
            "1:server/discover 2:server/discover 3:initialize",
        ),
        (
            "silent, once legacy",
            |_, _, _| Act::Silence,
            Era::Legacy,
            "no answer within 30000 ms",
            "1:initialize",
        ),
    ];
    for (name, script, remembered, outcome, log) in table {
        let (got, sent) = play(script, Some(remembered)).await;
        assert_eq!((got.as_str(), sent.as_str()), (outcome, log), "{name}");
    }
}
