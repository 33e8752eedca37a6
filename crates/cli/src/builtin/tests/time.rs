//! The `time` server.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::super::Builtin;
use super::super::time::TimeServer;
use super::peer::{ERAS, LEGACY, Peer, server};

/// 1 July 2026, noon UTC.
fn noon() -> Timestamp {
    Timestamp::from_second(1_782_907_200).expect("in range")
}

fn fixed() -> Builtin {
    Builtin { server: Arc::new(TimeServer::at(noon)) }
}

#[tokio::test]
async fn now_is_told_in_a_zone() {
    for manner in ERAS {
        let mut peer = Peer::connect(&fixed(), manner).await;
        let berlin = peer.call("now", json!({ "timezone": "Europe/Berlin" })).await;
        assert_eq!(
            berlin,
            json!({
                "timezone": "Europe/Berlin",
                "datetime": "2026-07-01T14:00:00+02:00",
                "weekday": "Wednesday",
                "is_dst": true,
                "unix_ms": 1_782_907_200_000_i64,
            })
        );
        assert_eq!(peer.call("now", json!({})).await["datetime"], "2026-07-01T12:00:00+00:00");
    }
}

#[tokio::test]
async fn times_are_converted() {
    let mut peer = Peer::connect(&fixed(), LEGACY).await;
    for (time, from, to, expected, minutes, clock_change) in [
        ("14:30", "Europe/Berlin", "Asia/Kolkata", "2026-07-01T18:00:00+05:30", 210, "none"),
        ("2026-01-15T09:00", "America/New_York", "UTC", "2026-01-15T14:00:00+00:00", 300, "none"),
        ("2026-03-29T02:30", "Europe/Berlin", "UTC", "2026-03-29T01:30:00+00:00", -120, "skipped"),
        ("2026-10-25T02:30", "Europe/Berlin", "UTC", "2026-10-25T00:30:00+00:00", -120, "repeated"),
        ("23:00", "America/Los_Angeles", "Pacific/Auckland", "2026-07-02T18:00:00+12:00", 1140, "none"),
    ] {
        let found = peer.call("convert", json!({ "time": time, "from": from, "to": to })).await;
        assert_eq!(found["to"]["datetime"], expected, "{time} {from}");
        assert_eq!(found["difference_minutes"], minutes, "{time} {from}");
        assert_eq!(found["clock_change"], clock_change, "{time} {from}");
    }
}

#[tokio::test]
async fn wrong_input_is_told_to_the_model() {
    let mut peer = Peer::connect(&fixed(), LEGACY).await;
    for (tool, arguments, expected) in [
        ("now", json!({ "timezone": "Mars/Olympus" }), "there is no time zone Mars/Olympus"),
        ("now", json!({ "zone": "UTC" }), "there is no argument zone"),
        ("convert", json!({ "time": "10:00", "from": "UTC" }), "to is required"),
        ("convert", json!({ "time": "25:00", "from": "UTC", "to": "UTC" }), "time must be HH:MM"),
        ("convert", json!({ "time": "10:00Z", "from": "UTC", "to": "UTC" }), "time must be HH:MM"),
        (
            "convert",
            json!({ "time": "2026-01-01T10:00-05:00", "from": "UTC", "to": "UTC" }),
            "without an off",
        ),
        ("wait", json!({ "ms": 600_001 }), "ms must be an integer from 0 to 600000"),
        ("wait", json!({ "ms": 1, "steps": 0 }), "steps must be an integer from 1 to 1000"),
        ("zones", json!({ "cursor": "2" }), "cursor must come from next_cursor"),
    ] {
        let text = peer.call_error(tool, arguments).await;
        assert!(text.contains(expected), "{tool}: {text}");
    }
}

#[tokio::test]
async fn zones_come_in_pages() {
    let mut peer = Peer::connect(&fixed(), LEGACY).await;
    let (mut zones, mut cursor) = (Vec::new(), json!(null));
    loop {
        let page = peer.call("zones", json!({ "limit": 150, "cursor": cursor })).await;
        let names = page["zones"].as_array().expect("zones");
        zones.extend(names.iter().map(|name| name.as_str().expect("a name").to_owned()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert!(zones.len() > 400 && zones.is_sorted() && zones.contains(&"Europe/Berlin".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn waiting_takes_its_time_and_tells_progress() {
    for manner in ERAS {
        let mut peer = Peer::connect(&server("time"), manner).await;
        let before = tokio::time::Instant::now();
        let call = json!({
            "name": "wait", "arguments": { "ms": 12_000, "steps": 3 }, "_meta": { "progressToken": "p" },
        });
        let result = peer.result("tools/call", call).await;
        assert_eq!(result["structuredContent"], json!({ "waited_ms": 12_000, "steps": 3 }));
        assert_eq!(before.elapsed().as_millis() / 1_000, 12);
        for step in 1..=3 {
            let note = peer.note().await;
            assert_eq!(note["method"], "notifications/progress");
            let (token, done) = (&note["params"]["progressToken"], &note["params"]["progress"]);
            assert_eq!((token, done, &note["params"]["total"]), (&json!("p"), &json!(step), &json!(3)));
        }
        peer.call("wait", json!({ "ms": 10, "steps": 3 })).await;
        assert!(peer.take_notes().is_empty());
    }
}
