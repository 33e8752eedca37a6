//! Metric names, in one place. Exporters belong to the binaries; [`describe`] tells them what each name means.
//!
//! | name | kind | labels | unit |
//! |---|---|---|---|
//! | `callboard_calls_total` | counter | server, outcome | tool calls; `ok`, `remote-error`, `timed-out`, `lost` or `refused` |
//! | `callboard_call_seconds` | histogram | server | seconds, from the call to its end |
//! | `callboard_in_flight` | gauge | server | calls that hold a place |
//! | `callboard_queued` | gauge | server | calls that wait for a place |
//! | `callboard_queue_refused_total` | counter | server | calls that found the queue full |
//! | `callboard_hold_seconds` | histogram | server | seconds for which `Retry-After` holds the queue |
//! | `callboard_strikes_total` | counter | server | terminal failures counted against a connection |
//! | `callboard_slow_calls_total` | counter | server | calls that passed `call.slow_after_ms` |
//! | `callboard_sent_bytes_total` | counter | server | bytes of messages sent |
//! | `callboard_received_bytes_total` | counter | server | bytes of results, errors and params received |
//! | `callboard_unmatched_replies_total` | counter | server | replies that no request waits for |
//! | `callboard_malformed_total` | counter | server | messages that cannot be used |
//! | `callboard_unanswered_total` | counter | server | requests of the server dropped unanswered |
//! | `callboard_stale_events_total` | counter | server | events of an older generation, dropped |
//! | `callboard_reconnects_total` | counter | server, cause | connections lost and tried again |
//! | `callboard_dials_total` | counter | server | attempts to connect |
//! | `callboard_catalog_tools` | gauge | server | tools in the catalog |
//! | `callboard_dial_permits_in_use` | gauge | pool | attempts under way; `local` or `remote` |
//! | `callboard_servers` | gauge | state | servers in a state |
//!
//! Spans: `connection` (server, generation, transport) around a connection's handshake and IO task, `call`
//! (server, tool, generation) around a tool call.

use crate::call::CallError;
use crate::port::{Generation, ServerName};
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use std::time::Duration;
use tracing::{Span, info_span};

const CALLS: &str = "callboard_calls_total";
const CALL_SECONDS: &str = "callboard_call_seconds";
const IN_FLIGHT: &str = "callboard_in_flight";
const QUEUED: &str = "callboard_queued";
const QUEUE_REFUSED: &str = "callboard_queue_refused_total";
const HOLD_SECONDS: &str = "callboard_hold_seconds";
const STRIKES: &str = "callboard_strikes_total";
const SLOW_CALLS: &str = "callboard_slow_calls_total";
const SENT_BYTES: &str = "callboard_sent_bytes_total";
const RECEIVED_BYTES: &str = "callboard_received_bytes_total";
const UNMATCHED: &str = "callboard_unmatched_replies_total";
const MALFORMED: &str = "callboard_malformed_total";
const UNANSWERED: &str = "callboard_unanswered_total";
const STALE_EVENTS: &str = "callboard_stale_events_total";
const RECONNECTS: &str = "callboard_reconnects_total";
const DIALS: &str = "callboard_dials_total";
const CATALOG_TOOLS: &str = "callboard_catalog_tools";
const DIAL_PERMITS: &str = "callboard_dial_permits_in_use";
const SERVERS: &str = "callboard_servers";

/// Tells the recorder in use what each metric means.
pub fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!(CALLS, Unit::Count, "Tool calls, by how they ended.");
    describe_histogram!(CALL_SECONDS, Unit::Seconds, "Time from a tool call to its end.");
    describe_gauge!(IN_FLIGHT, Unit::Count, "Calls that hold a place.");
    describe_gauge!(QUEUED, Unit::Count, "Calls that wait for a place.");
    describe_counter!(QUEUE_REFUSED, Unit::Count, "Calls that found the queue full.");
    describe_histogram!(HOLD_SECONDS, Unit::Seconds, "Times for which Retry-After holds the queue.");
    describe_counter!(STRIKES, Unit::Count, "Terminal failures counted against a connection.");
    describe_counter!(SLOW_CALLS, Unit::Count, "Calls that took longer than call.slow_after_ms.");
    describe_counter!(SENT_BYTES, Unit::Bytes, "Bytes of messages sent.");
    describe_counter!(RECEIVED_BYTES, Unit::Bytes, "Bytes of results, errors and params received.");
    describe_counter!(UNMATCHED, Unit::Count, "Replies that no request waits for.");
    describe_counter!(MALFORMED, Unit::Count, "Messages that cannot be used.");
    describe_counter!(UNANSWERED, Unit::Count, "Requests of a server that were dropped unanswered.");
    describe_counter!(STALE_EVENTS, Unit::Count, "Events of an older generation, dropped.");
    describe_counter!(RECONNECTS, Unit::Count, "Connections lost and tried again, by cause.");
    describe_counter!(DIALS, Unit::Count, "Attempts to connect.");
    describe_gauge!(CATALOG_TOOLS, Unit::Count, "Tools in the catalog.");
    describe_gauge!(DIAL_PERMITS, Unit::Count, "Attempts to connect under way.");
    describe_gauge!(SERVERS, Unit::Count, "Servers, by state.");
}

/// An event of an older generation was dropped.
pub fn stale_event(server: &ServerName) {
    counter!(STALE_EVENTS, "server" => label(server)).increment(1);
}

/// A call has been under way for longer than `call.slow_after_ms`.
pub fn slow_call(server: &ServerName) {
    counter!(SLOW_CALLS, "server" => label(server)).increment(1);
}

/// A connection was lost for this cause, a word of a fixed set, and is tried again.
pub fn reconnecting(server: &ServerName, cause: &'static str) {
    counter!(RECONNECTS, "server" => label(server), "cause" => cause).increment(1);
}

/// An attempt to connect has begun.
pub fn dialed(server: &ServerName) {
    counter!(DIALS, "server" => label(server)).increment(1);
}

/// How many tools of a server the catalog shows now.
pub fn catalog_tools(server: &ServerName, tools: usize) {
    gauge!(CATALOG_TOOLS, "server" => label(server)).set(tools as f64);
}

/// How many attempts of a pool, `local` or `remote`, are under way now.
pub fn dial_permits_in_use(pool: &'static str, permits: usize) {
    gauge!(DIAL_PERMITS, "pool" => pool).set(permits as f64);
}

/// How many servers are in a state, by the state's word, now.
pub fn servers(state: &'static str, servers: usize) {
    gauge!(SERVERS, "state" => state).set(servers as f64);
}

/// The span of one connection.
pub(crate) fn connection_span(server: &ServerName, generation: Generation, transport: &str) -> Span {
    info_span!("connection", server = server.as_str(), generation = generation.0, transport)
}

/// The span of one tool call; the generation is known once it has a connection.
pub(crate) fn call_span(server: &ServerName, tool: &str) -> Span {
    info_span!("call", server = server.as_str(), tool, generation = tracing::field::Empty)
}

/// Tells the span of a call which connection carries it.
pub(crate) fn carried_by(span: &Span, generation: Generation) {
    span.record("generation", generation.0);
}

fn label(server: &ServerName) -> String {
    server.as_str().to_owned()
}

/// The metric handles of one server's calls, resolved once and kept through all its connections.
pub(crate) struct CallMetrics {
    ok: Counter,
    remote_error: Counter,
    timed_out: Counter,
    lost: Counter,
    refused: Counter,
    seconds: Histogram,
    pub(crate) in_flight: Gauge,
    pub(crate) queued: Gauge,
    pub(crate) queue_refused: Counter,
    pub(crate) hold_seconds: Histogram,
}

impl CallMetrics {
    pub(crate) fn new(server: &ServerName) -> CallMetrics {
        let calls = |outcome: &'static str| counter!(CALLS, "server" => label(server), "outcome" => outcome);
        CallMetrics {
            ok: calls("ok"),
            remote_error: calls("remote-error"),
            timed_out: calls("timed-out"),
            lost: calls("lost"),
            refused: calls("refused"),
            seconds: histogram!(CALL_SECONDS, "server" => label(server)),
            in_flight: gauge!(IN_FLIGHT, "server" => label(server)),
            queued: gauge!(QUEUED, "server" => label(server)),
            queue_refused: counter!(QUEUE_REFUSED, "server" => label(server)),
            hold_seconds: histogram!(HOLD_SECONDS, "server" => label(server)),
        }
    }

    /// A call has ended.
    pub(crate) fn called(&self, error: Option<&CallError>, took: Duration) {
        let calls = match error {
            None => &self.ok,
            Some(CallError::Remote(_)) => &self.remote_error,
            Some(CallError::TimedOut { .. }) => &self.timed_out,
            Some(CallError::Lost { .. } | CallError::Invalid(_)) => &self.lost,
            Some(
                CallError::NotConnected { .. }
                | CallError::Unsupported(_)
                | CallError::QueueFull { .. }
                | CallError::InputNeeded(_)
                | CallError::Cancelled
                | CallError::Closed,
            ) => &self.refused,
        };
        calls.increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

/// The metric handles of one connection, resolved once.
pub(crate) struct ConnMetrics {
    sent_bytes: Counter,
    received_bytes: Counter,
    unmatched: Counter,
    malformed: Counter,
    unanswered: Counter,
    strikes: Counter,
}

impl ConnMetrics {
    pub(crate) fn new(server: &ServerName) -> ConnMetrics {
        ConnMetrics {
            sent_bytes: counter!(SENT_BYTES, "server" => label(server)),
            received_bytes: counter!(RECEIVED_BYTES, "server" => label(server)),
            unmatched: counter!(UNMATCHED, "server" => label(server)),
            malformed: counter!(MALFORMED, "server" => label(server)),
            unanswered: counter!(UNANSWERED, "server" => label(server)),
            strikes: counter!(STRIKES, "server" => label(server)),
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.increment(bytes as u64);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes.increment(bytes as u64);
    }

    pub(crate) fn unmatched(&self) {
        self.unmatched.increment(1);
    }

    pub(crate) fn malformed(&self) {
        self.malformed.increment(1);
    }

    pub(crate) fn unanswered(&self) {
        self.unanswered.increment(1);
    }

    pub(crate) fn strike(&self) {
        self.strikes.increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Key, KeyName, Metadata, Recorder, SharedString, with_local_recorder};
    use parking_lot::Mutex;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// Keeps what was described, and what was registered with its labels.
    #[derive(Default, Clone)]
    struct Names(Arc<Mutex<(BTreeSet<String>, BTreeSet<String>)>>);

    impl Names {
        fn described(&self, kind: &str, name: KeyName) {
            self.0.lock().0.insert(format!("{} {kind}", name.as_str()));
        }

        fn registered(&self, kind: &str, key: &Key) {
            let labels: Vec<_> = key.labels().map(|label| label.key()).collect();
            self.0.lock().1.insert(format!("{} {kind} {}", key.name(), labels.join(", ")));
        }
    }

    impl Recorder for Names {
        fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.described("counter", name);
        }

        fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.described("gauge", name);
        }

        fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.described("histogram", name);
        }

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            self.registered("counter", key);
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            self.registered("gauge", key);
            Gauge::noop()
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            self.registered("histogram", key);
            Histogram::noop()
        }
    }

    #[test]
    fn the_table_above_names_exactly_what_is_told() {
        let (names, server) = (Names::default(), ServerName::from("a"));
        with_local_recorder(&names, || {
            describe();
            let _ = (CallMetrics::new(&server), ConnMetrics::new(&server));
            stale_event(&server);
            slow_call(&server);
            reconnecting(&server, "closed");
            dialed(&server);
            catalog_tools(&server, 1);
            dial_permits_in_use("local", 1);
            servers("connected", 1);
        });
        let rows = include_str!("telemetry.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let rows: Vec<Vec<&str>> =
            rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect()).collect();
        let (described, registered) = names.0.lock().clone();
        let listed = |cells: usize| rows.iter().map(|row| row[..cells].join(" ")).collect::<BTreeSet<_>>();
        assert_eq!(listed(2), described);
        assert_eq!(listed(3), registered);
    }

    /// Keeps every span's name and fields as they are told.
    #[derive(Default, Clone)]
    struct Spans(Arc<Mutex<Vec<String>>>);

    impl tracing::field::Visit for Spans {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            self.0.lock().push(format!("{field}={value:?}"));
        }
    }

    impl tracing::Subscriber for Spans {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            self.0.lock().push(span.metadata().name().to_owned());
            span.record(&mut self.clone());
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
            values.record(&mut self.clone());
        }

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn spans_say_which_server_tool_and_generation() {
        let (spans, server) = (Spans::default(), ServerName::from("a"));
        tracing::subscriber::with_default(spans.clone(), || {
            connection_span(&server, Generation(1), "stdio");
            carried_by(&call_span(&server, "echo"), Generation(2));
        });
        let told = spans.0.lock().join(" ");
        let want = r#"connection server="a" generation=1 transport="stdio" call server="a" tool="echo" generation=2"#;
        assert_eq!(told, want);
    }
}
