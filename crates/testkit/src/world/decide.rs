//! What a simulated server does with a message of the board: the wire of both eras, and the faults.

use super::State;
use super::line::Mark;
use crate::ledger::right_answer;
use crate::rng::Rng;
use crate::scenario::{Fault, HangPhase, SimEra, Untruth};
use callboard_core::port::CloseReason;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt::Write;

/// What a server does with a message.
pub(crate) enum Act {
    /// Takes it, and answers nothing.
    Silence,
    /// Sends these texts after a while, the answer last.
    Say { after_ms: u64, before: Vec<String>, answer: String, after: Vec<String>, mark: Option<Mark> },
    /// Ends after a while.
    Die { after_ms: u64 },
    /// Turns it away.
    Refuse(CloseReason),
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    arguments: Option<Arguments>,
    #[serde(borrow, default, rename = "protocolVersion")]
    version: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
struct Arguments {
    #[serde(default)]
    n: Option<u64>,
}

/// Ids that nobody waits for start here.
const WRONG_IDS: u64 = 1_000_000_000;
/// What turning away takes.
const REFUSAL_MS: u64 = 1;

impl State {
    /// A message of the board arrives at a server. Gives its method, and what the server does with it.
    pub(crate) fn decide(&mut self, link: u64, frame: &[u8], now: u64) -> Act {
        let Some(line) = self.lines.get_mut(&link) else { return Act::Silence };
        line.asked += 1;
        let (server, generation, ordinal, asked) = (line.server, line.generation, line.ordinal, line.asked);
        let Ok(message) = serde_json::from_slice::<Message<'_>>(frame) else {
            self.books.broke(now, "wire", Some(server), "the board sent what is no message".into());
            return Act::Silence;
        };
        let method = message.method.as_deref().unwrap_or("answer");
        let id = message.id;
        match id {
            Some(id) => self.books.note(now, format_args!("{server} #{ordinal} < {method} {id}")),
            None => self.books.note(now, format_args!("{server} #{ordinal} < {method}")),
        }
        if method == "tools/list" {
            let listed = &mut self.servers[server as usize].listed_generation;
            *listed = (*listed).max(generation);
        }
        let held_until_ms = self.servers[server as usize].held_until_ms;
        if method == "tools/call" && now < held_until_ms {
            let detail = format!("is called although it asked to be left alone until {held_until_ms}");
            self.books.broke(now, "retry-after-held", Some(server), detail);
        }
        let mut rng = Rng::of(self.seed, &[self.servers[server as usize].key, ordinal, asked]);
        let params = message.params.unwrap_or_default();
        if let Some(refusal) = self.refusal(link, server, method, now, &mut rng) {
            if matches!(refusal, CloseReason::SessionExpired { .. })
                && let Some(number) = params.arguments.as_ref().and_then(|arguments| arguments.n)
            {
                self.books.refused(server, number, now);
            }
            return Act::Refuse(refusal);
        }
        let Some(id) = id else { return Act::Silence };
        match method {
            "initialize" | "server/discover" => self.greet(link, method, id, &params, now, &mut rng),
            "tools/list" => self.list(server, id, now, &mut rng),
            "tools/call" => self.call(link, id, &params, now, &mut rng),
            "subscriptions/listen" => Act::Silence,
            _ => {
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
                self.answer(server, id, answer, None, now, &mut rng)
            }
        }
    }

    /// What exchanges are turned away for. Duplex links are turned away when they are dialed.
    fn refusal(
        &mut self,
        link: u64,
        server: u32,
        method: &str,
        now: u64,
        rng: &mut Rng,
    ) -> Option<CloseReason> {
        let line = self.lines.get(&link).filter(|line| line.is_exchange)?;
        let known = &self.servers[server as usize];
        if known.is_down(now) {
            return Some(known.unreachable());
        }
        if self.wants_login(server, now) {
            return Some(CloseReason::AuthRequired { status: 401, challenge: "Bearer".into() });
        }
        if line.session.is_some_and(|session| session != known.epoch) {
            return Some(CloseReason::SessionExpired { status: 404 });
        }
        if method.starts_with("notifications/") {
            return None;
        }
        self.busy(server, now, rng)
    }

    fn greet(
        &mut self,
        link: u64,
        method: &str,
        id: u64,
        params: &Params<'_>,
        now: u64,
        rng: &mut Rng,
    ) -> Act {
        let Some(line) = self.lines.get_mut(&link) else { return Act::Silence };
        let server = line.server;
        let known = &self.servers[server as usize];
        let (era, epoch) = (known.plan.era, known.epoch);
        let capabilities = r#""capabilities":{"tools":{"listChanged":true}}"#;
        let is_greeting = match (era, method) {
            (SimEra::Legacy, "initialize") => {
                if line.is_exchange {
                    line.session = Some(epoch);
                }
                true
            }
            (SimEra::Modern, "server/discover") => true,
            (SimEra::Legacy | SimEra::Modern, _) => false,
        };
        if self.hangs(server, HangPhase::Handshake, now, rng) {
            return Act::Silence;
        }
        let answer = match (era, is_greeting) {
            (SimEra::Legacy, true) => {
                let version = params.version.as_deref().unwrap_or("2025-11-25");
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{version}",{capabilities},"serverInfo":{{"name":"simulated","version":"1"}}}}}}"#
                )
            }
            (SimEra::Modern, true) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],{capabilities},"serverInfo":{{"name":"simulated","version":"1"}}}}}}"#
            ),
            (SimEra::Legacy, false) => {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown method"}}}}"#
                )
            }
            (SimEra::Modern, false) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"version","data":{{"supported":["2026-07-28"],"requested":"2025-11-25"}}}}}}"#
            ),
        };
        let mark = match (is_greeting, method) {
            (true, _) => Some(Mark::Greeting),
            // What a probe is answered says which way to go on.
            (false, "server/discover") => None,
            (false, _) => Some(Mark::Refusal),
        };
        self.answer(server, id, answer, mark, now, rng)
    }

    fn list(&mut self, server: u32, id: u64, now: u64, rng: &mut Rng) -> Act {
        if self.hangs(server, HangPhase::List, now, rng) {
            return Act::Silence;
        }
        let mut answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        if self.lie(server, now, rng) == Some(Untruth::WrongCapability) {
            answer.push_str(r#""error":{"code":-32601,"message":"no such method"}}"#);
        } else {
            answer.push_str(r#""result":{"resultType":"complete","tools":["#);
            for (number, name) in self.servers[server as usize].tool_names().iter().enumerate() {
                let comma = if number == 0 { "" } else { "," };
                let _ = write!(answer, r#"{comma}{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
            }
            answer.push_str("]}}");
        }
        self.answer(server, id, answer, None, now, rng)
    }

    fn call(&mut self, link: u64, id: u64, params: &Params<'_>, now: u64, rng: &mut Rng) -> Act {
        let Some(line) = self.lines.get_mut(&link) else { return Act::Silence };
        let server = line.server;
        let tool = params.name.as_deref().unwrap_or_default();
        let number = params.arguments.as_ref().and_then(|arguments| arguments.n).unwrap_or_default();
        line.calls.insert(number);
        self.books.performed(server, number, now);
        *self.servers[server as usize].performed.entry(tool.to_owned()).or_default() += 1;
        let dies = self.faults(server, now).any(|fault| match fault {
            Fault::DieInCall { percent, .. } => rng.percent(*percent),
            _ => false,
        });
        if dies {
            return Act::Die { after_ms: self.answer_ms(server, now, rng) };
        }
        if self.hangs(server, HangPhase::Call, now, rng) {
            return Act::Silence;
        }
        let text = right_answer(number, tool);
        let answer = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        );
        self.answer(server, id, answer, Some(Mark::Call(number)), now, rng)
    }

    /// An answer, true or not.
    fn answer(
        &mut self,
        server: u32,
        id: u64,
        answer: String,
        mark: Option<Mark>,
        now: u64,
        rng: &mut Rng,
    ) -> Act {
        let after_ms = self.answer_ms(server, now, rng);
        let plain = |answer: String| Act::Say { after_ms, before: vec![], answer, after: vec![], mark };
        match self.lie(server, now, rng) {
            None | Some(Untruth::WrongCapability) => plain(answer),
            Some(Untruth::WrongId) => {
                let wrong =
                    answer.replacen(&format!("\"id\":{id},"), &format!("\"id\":{},", id + WRONG_IDS), 1);
                Act::Say { after_ms, before: vec![wrong], answer: String::new(), after: vec![], mark: None }
            }
            Some(Untruth::DoubleId) => {
                Act::Say { after_ms, before: vec![], answer: answer.clone(), after: vec![answer], mark }
            }
            Some(Untruth::Garbage) => Act::Say {
                after_ms,
                before: vec!["}this is no message{".into()],
                answer,
                after: vec![],
                mark,
            },
        }
    }
}

/// How long it takes to be turned away.
pub(crate) fn refusal_at(now: u64) -> u64 {
    now + REFUSAL_MS
}
