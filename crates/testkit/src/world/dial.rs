//! The ports of the runtime, over the simulated world.

use super::decide::{Act, refusal_at};
use super::line::{Line, Mark, Next, What};
use super::{State, World};
use crate::model::{Cause, Outcome, Stand};
use crate::rng::Rng;
use crate::scenario::{Fault, HangPhase, Transport};
use callboard_core::port::{
    BoxFuture, CloseReason, DialRequest, Dialer, DuplexSend, Exchange, ExchangeSend, InFrame, IoKind, Link,
    LinkCloser, Negotiated, ReceiveHalf, SendHalf,
};
use callboard_protocol::{Decoded, Frame, Reply, decode_copied};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep, sleep_until};

/// Opens simulated links.
#[derive(Clone)]
pub(crate) struct SimDialer(pub Arc<World>);

/// What becomes of a dial.
enum Opening {
    Never,
    After(u64),
}

impl Dialer for SimDialer {
    fn dial(&self, request: DialRequest) -> BoxFuture<'static, Result<Link, CloseReason>> {
        let world = self.0.clone();
        Box::pin(async move {
            let generation = request.generation.0;
            let Some(server) = world.server_number(request.server.name().as_str()) else {
                return Err(CloseReason::Protocol("there is no such server in this world".into()));
            };
            match world.dial_begins(server, generation) {
                Opening::Never => std::future::pending().await,
                Opening::After(0) => {}
                Opening::After(ms) => sleep(Duration::from_millis(ms)).await,
            }
            world.dial_ends(server, generation)
        })
    }
}

impl World {
    fn dial_begins(&self, server: u32, generation: u64) -> Opening {
        let (mut state, now) = self.enter();
        let known = &mut state.servers[server as usize];
        known.lines_opened += 1;
        let (plan, key, ordinal) = (known.plan.clone(), known.key, known.lines_opened);
        state.books.dialed(server, generation, plan.denied, now);
        if plan.transport == Transport::Http {
            // Exchanges need no link; the first of them shows whether anybody is there.
            return Opening::After(0);
        }
        let mut rng = Rng::of(state.seed, &[key, ordinal, 0]);
        match state.hangs(server, HangPhase::Dial, now, &mut rng) {
            true => Opening::Never,
            false => Opening::After(rng.between(plan.dial_ms).max(1)),
        }
    }

    fn dial_ends(self: &Arc<World>, server: u32, generation: u64) -> Result<Link, CloseReason> {
        let (mut state, now) = self.enter();
        let known = &state.servers[server as usize];
        let is_exchange = known.plan.transport == Transport::Http;
        if !is_exchange {
            let refusal = if known.is_down(now) {
                Some(known.unreachable())
            } else if state.wants_login(server, now) {
                Some(CloseReason::AuthRequired { status: 401, challenge: "Bearer".into() })
            } else {
                None
            };
            if let Some(refusal) = refusal {
                state.saw(server, generation, now, &refusal);
                return Err(refusal);
            }
        }
        state.lines_opened += 1;
        let link = state.lines_opened;
        let ordinal = state.servers[server as usize].lines_opened;
        let mut line = Line::new(server, generation, ordinal, is_exchange);
        let lives = state.faults(server, now).find_map(|fault| match fault {
            Fault::CrashLoop { lives_ms, .. } => Some(*lives_ms),
            _ => None,
        });
        if let Some(lives_ms) = lives.filter(|_| !is_exchange) {
            line.end_later(now + lives_ms, state.servers[server as usize].end_of_link());
        }
        state.lines.insert(link, line);
        state.servers[server as usize].lines.insert(link);
        state.books.note(now, format_args!("{server} #{ordinal} opens"));
        drop(state);
        let end = Arc::new(End { world: self.clone(), link });
        let send = match is_exchange {
            true => SendHalf::Exchange(Arc::new(Asking(end.clone()))),
            false => SendHalf::Duplex(end.clone()),
        };
        Ok(Link {
            send,
            receive: Box::new(Inward {
                end: end.clone(),
                timer: Box::pin(sleep_until(self.moment(now))),
                ready: VecDeque::new(),
            }),
            closer: Box::new(Closer(end)),
            diagnostics: Arc::new(()),
        })
    }
}

/// The board's end of a link.
struct End {
    world: Arc<World>,
    link: u64,
}

impl State {
    /// Carries out what a server does with a message over a duplex link.
    fn carry_out(&mut self, link: u64, act: Act, now: u64) {
        let Some(line) = self.lines.get_mut(&link) else { return };
        match act {
            Act::Silence | Act::Refuse(_) => {}
            Act::Say { after_ms, before, answer, after, mark } => {
                for text in before {
                    line.say(now + after_ms, text, None);
                }
                if !answer.is_empty() {
                    line.say(now + after_ms, answer, mark);
                }
                for text in after {
                    line.say(now + after_ms, text, None);
                }
            }
            Act::Die { after_ms } => {
                let reason = self.servers[line.server as usize].end_of_link();
                line.end_later(now + after_ms, reason);
            }
        }
    }

    /// Something has arrived at the board.
    fn arrived(&mut self, link: u64, what: &What, now: u64) {
        let Some(line) = self.lines.get_mut(&link) else { return };
        let (server, generation, ordinal) = (line.server, line.generation, line.ordinal);
        match what {
            What::Text(text, mark) => {
                self.books.note(now, format_args!("{server} #{ordinal} > {}", cut(text)));
                match mark {
                    Some(Mark::Greeting) => {
                        line.is_greeted = true;
                        self.books.greeted(server, generation);
                    }
                    Some(Mark::Refusal) => self.books.saw(server, generation, now, Cause::Lasting),
                    Some(Mark::Call(number)) => drop(line.calls.remove(number)),
                    None => {}
                }
            }
            What::End(reason) => {
                line.is_broken = true;
                let calls = std::mem::take(&mut line.calls);
                self.books.note(now, format_args!("{server} #{ordinal} ends: {reason}"));
                self.books.lost(&calls, now);
                self.books.must_leave(server, generation, now);
                self.saw(server, generation, now, reason);
                self.servers[server as usize].lines.remove(&link);
            }
        }
    }
}

/// The part of a text that goes into the trace.
fn cut(text: &str) -> &str {
    callboard_protocol::text::cut(text, 80).0
}

impl DuplexSend for End {
    fn send(&self, frame: &[u8]) -> Result<(), CloseReason> {
        let (mut state, now) = self.world.enter();
        let is_open = state.lines.get(&self.link).is_some_and(|line| !line.is_broken);
        if !is_open {
            return Err(CloseReason::Io { kind: IoKind::BrokenPipe, message: "simulated".into() });
        }
        let act = state.decide(self.link, frame, now);
        state.carry_out(self.link, act, now);
        Ok(())
    }
}

/// What an exchange comes to, and when.
struct Fate {
    at_ms: Option<u64>,
    result: Result<(String, Option<Mark>), CloseReason>,
}

impl End {
    /// A request arrives over an exchange.
    fn ask(&self, frame: &[u8]) -> Fate {
        let (mut state, now) = self.world.enter();
        let never = || Fate { at_ms: None, result: Err(CloseReason::Cancelled) };
        match state.decide(self.link, frame, now) {
            Act::Silence => never(),
            Act::Refuse(reason) => Fate { at_ms: Some(refusal_at(now)), result: Err(reason) },
            Act::Die { after_ms } => {
                let reason = CloseReason::Io { kind: IoKind::BodyCut, message: "simulated".into() };
                // Whoever starts anew knows no sessions.
                if let Some(server) = state.lines.get(&self.link).map(|line| line.server) {
                    state.servers[server as usize].epoch += 1;
                }
                Fate { at_ms: Some(now + after_ms), result: Err(reason) }
            }
            Act::Say { after_ms, before, answer, after, mark } => {
                let at_ms = now + after_ms;
                if let Some(line) = state.lines.get_mut(&self.link) {
                    // What does not answer this request goes to the other half.
                    for text in before.into_iter().chain(after) {
                        line.say(at_ms, text, None);
                    }
                }
                let result = if answer.is_empty() { Err(CloseReason::NoReply) } else { Ok((answer, mark)) };
                Fate { at_ms: Some(at_ms), result }
            }
        }
    }

    /// An exchange is over.
    fn told(&self, result: Result<(String, Option<Mark>), CloseReason>) -> Result<Reply, CloseReason> {
        let (mut state, now) = self.world.enter();
        let Some(line) = state.lines.get(&self.link) else { return Err(CloseReason::Cancelled) };
        let (server, generation) = (line.server, line.generation);
        let result = result.and_then(|(text, mark)| {
            state.arrived(self.link, &What::Text(text.clone(), mark), now);
            match decode_copied(text.as_bytes()) {
                Decoded::One(Frame::Reply(reply)) => Ok(reply),
                _ => Err(CloseReason::NoReply),
            }
        });
        if let Err(reason) = &result {
            state.books.note(now, format_args!("{server} exchange fails: {reason}"));
            // A connection that is in use does not end for what only fails one request.
            let is_in_use = matches!(state.books.stand(server), Stand::Connected { .. });
            if !is_in_use || matches!(Outcome::of(Some(reason)), Outcome::Terminal | Outcome::Certain) {
                state.saw(server, generation, now, reason);
            }
        }
        if let Err(CloseReason::Status { retry_after: Some(asked), .. }) = &result
            && matches!(state.books.stand(server), Stand::Connected { .. })
        {
            let until_ms = now + (asked.as_millis() as u64).min(HOLD_MAX_MS);
            let held = &mut state.servers[server as usize].held_until_ms;
            *held = (*held).max(until_ms);
        }
        state.books.exchanged(server, generation, result.as_ref().err(), now);
        result
    }
}

/// The longest time for which a server is left alone when it asks for it (behaviour profile 4.2).
const HOLD_MAX_MS: u64 = 3_600_000;

/// Takes an exchange out of those under way, however it ends.
struct UnderWay {
    end: Arc<End>,
    id: u64,
    is_over: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let (mut state, now) = self.end.world.enter();
        let Some(line) = state.lines.get_mut(&self.end.link) else { return };
        let (server, generation) = (line.server, line.generation);
        line.exchanges.remove(&self.id);
        if !self.is_over && self.id < NOTICES {
            state.books.given_up(server, generation, now);
        }
    }
}

/// Notifications are numbered from here on among the exchanges of a link.
const NOTICES: u64 = 1 << 40;

/// The sending half of exchanges.
struct Asking(Arc<End>);

impl ExchangeSend for Asking {
    fn exchange(&self, exchange: Exchange) -> BoxFuture<'static, Result<Reply, CloseReason>> {
        let end = self.0.clone();
        Box::pin(async move {
            let fate = end.ask(&exchange.frame);
            let ended = end.run(exchange.id, fate.at_ms).await;
            exchange.activity.active(exchange.id);
            end.told(ended.and(fate.result))
        })
    }

    fn notify(
        &self,
        frame: Vec<u8>,
        _headers: Vec<(String, String)>,
    ) -> BoxFuture<'static, Result<(), CloseReason>> {
        let end = self.0.clone();
        Box::pin(async move {
            let fate = end.ask(&frame);
            let now = end.world.now_ms();
            end.run(end.notice_id(), Some(refusal_at(now))).await?;
            match (fate.at_ms, fate.result) {
                (Some(_), Err(reason)) => Err(reason),
                _ => Ok(()),
            }
        })
    }

    fn negotiated(&self, _negotiated: &Negotiated) {}
}

impl End {
    /// An id among the exchanges of the link for one more notification; several may be under way.
    fn notice_id(&self) -> u64 {
        let mut state = self.world.state.lock();
        let Some(line) = state.lines.get_mut(&self.link) else { return NOTICES };
        line.notices += 1;
        NOTICES + line.notices
    }

    /// Waits until an exchange is due, or its server goes away.
    async fn run(self: &Arc<End>, id: u64, at_ms: Option<u64>) -> Result<(), CloseReason> {
        let (ending, mut ended) = oneshot::channel();
        if let Some(line) = self.world.state.lock().lines.get_mut(&self.link) {
            line.exchanges.insert(id, ending);
        }
        let mut under_way = UnderWay { end: self.clone(), id, is_over: false };
        let due = async {
            match at_ms {
                Some(at_ms) => sleep_until(self.world.moment(at_ms)).await,
                None => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            biased;
            reason = &mut ended => match reason {
                Ok(reason) => Err(reason),
                Err(_) => std::future::pending().await,
            },
            () = due => Ok(()),
        };
        under_way.is_over = true;
        result
    }
}

/// The board's receiving half.
struct Inward {
    end: Arc<End>,
    timer: Pin<Box<Sleep>>,
    ready: VecDeque<InFrame>,
}

impl ReceiveHalf for Inward {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<InFrame, CloseReason>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(Ok(frame));
            }
            let world = &self.end.world;
            let (mut state, now) = world.enter();
            let Some(line) = state.lines.get_mut(&self.end.link) else { return Poll::Pending };
            match line.next(now, cx.waker()) {
                Next::Now(what) => {
                    state.arrived(self.end.link, &what, now);
                    match what {
                        What::End(reason) => return Poll::Ready(Err(reason)),
                        What::Text(text, _) => self.ready.extend(frames(&text)),
                    }
                }
                Next::Nothing => return Poll::Pending,
                Next::At(at_ms) => {
                    drop(state);
                    let at = self.end.world.moment(at_ms);
                    if self.timer.deadline() != at || self.timer.is_elapsed() {
                        self.timer.as_mut().reset(at);
                    }
                    if self.timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

fn frames(text: &str) -> Vec<InFrame> {
    match decode_copied(text.as_bytes()) {
        Decoded::One(frame) => vec![InFrame::Frame(frame)],
        Decoded::Malformed(malformed) => vec![InFrame::Malformed(malformed)],
        Decoded::Batch(items) => {
            items.into_iter().map(|item| item.map_or_else(InFrame::Malformed, InFrame::Frame)).collect()
        }
    }
}

impl Drop for Inward {
    /// The client reads no more: what it waited for over a duplex link ends with it.
    fn drop(&mut self) {
        let (mut state, now) = self.end.world.enter();
        let Some(line) = state.lines.get_mut(&self.end.link) else { return };
        line.is_received = false;
        if !line.is_exchange {
            let calls = std::mem::take(&mut line.calls);
            state.books.lost(&calls, now);
        }
    }
}

/// Ends a link from the board's side.
struct Closer(Arc<End>);

impl LinkCloser for Closer {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let hangs = {
                let (state, now) = self.0.world.enter();
                state.lines.get(&self.0.link).is_some_and(|line| {
                    let key = state.servers[line.server as usize].key;
                    let mut rng = Rng::of(state.seed, &[key, line.ordinal, u64::MAX]);
                    state.hangs(line.server, HangPhase::Close, now, &mut rng)
                })
            };
            if hangs {
                sleep(CLOSE_HANGS).await;
            }
        })
    }
}

/// How long a close takes that hangs: less than the graces that a board waits for.
const CLOSE_HANGS: Duration = Duration::from_secs(3);

impl Drop for Closer {
    fn drop(&mut self) {
        let (mut state, now) = self.0.world.enter();
        if let Some(line) = state.lines.remove(&self.0.link) {
            state.servers[line.server as usize].lines.remove(&self.0.link);
            state.books.note(now, format_args!("{} #{} closed", line.server, line.ordinal));
        }
    }
}
