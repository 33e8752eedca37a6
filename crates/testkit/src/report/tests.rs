//! The page holds together, runs nothing that it was not given, and stays small.

use super::{html, json, summary};
use crate::recording::{Band, Broken, CallRecord, GaugePoint, Recording, ServerTrack, Totals};
use crate::{Scenario, run};
use proptest::prelude::*;
use std::time::Duration;

/// A page may be so large, in bytes.
const PAGE_BYTES_MAX: usize = 5 << 20;
const EVIL: &str = "</text><script>alert('x')</script>\"&\u{202e}";

fn totals() -> Totals {
    Totals { calls: 0, ok: 0, dials: 0, steps: 0, real_ms: 0, longest_step_real_ms: 0, peak_rss_kib: 0 }
}

fn empty() -> Recording {
    Recording {
        title: String::new(),
        seed: 0,
        duration_ms: 0,
        servers: Vec::new(),
        calls: Vec::new(),
        gauges: Vec::new(),
        broken: Vec::new(),
        trace_hash: String::new(),
        totals: totals(),
    }
}

fn band(from_ms: u64, to_ms: u64, state: &'static str) -> Band {
    Band { from_ms, to_ms, state: state.into() }
}

fn call(server: u32, started_ms: u64, ended_ms: u64, outcome: &'static str) -> CallRecord {
    CallRecord { server, caller: 0, started_ms, ended_ms, outcome: outcome.into() }
}

/// Two servers for ten minutes: one is lost for a minute and found at the second attempt, one rests.
fn small() -> Recording {
    let lost = ServerTrack {
        name: "lost".into(),
        transport: "http".into(),
        bands: vec![
            band(0, 1_000, "dialing"),
            band(1_000, 60_000, "connected"),
            band(60_000, 61_000, "backing-off"),
            band(61_000, 61_010, "dialing"),
            band(61_010, 120_000, "backing-off"),
            band(120_000, 600_000, "connected"),
        ],
        attempts_at_ms: vec![0, 61_000, 120_000],
    };
    let quiet = ServerTrack {
        name: EVIL.into(),
        transport: "stdio".into(),
        bands: vec![band(0, 600_000, "dormant")],
        attempts_at_ms: Vec::new(),
    };
    let calls = vec![
        call(0, 2_000, 2_010, "ok"),
        call(0, 59_000, 60_000, "lost-unknown"),
        call(0, 70_000, 75_000, "not-connected"),
        call(0, 80_000, 80_500, "cancelled"),
        call(9, 130_000, 130_020, "ok"),
    ];
    Recording {
        title: "small".into(),
        seed: 7,
        duration_ms: 600_000,
        servers: vec![lost, quiet],
        calls,
        gauges: vec![GaugePoint { at_ms: 5, in_flight: 3, queued: 1, connected: 1, dialing: 1 }],
        totals: Totals { calls: 5, ok: 2, dials: 3, ..totals() },
        ..empty()
    }
}

/// Marks of a page, in order; fails where they do not nest. What stands in scripts and styles is no mark.
fn marks(page: &str) -> Vec<(String, String)> {
    let (mut open, mut seen): (Vec<String>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a page");
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a mark ends");
        let mark = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = mark.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closes what is open");
            continue;
        }
        let name: String = mark.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        assert!(!name.is_empty(), "{mark:?}");
        assert!(mark.matches('"').count().is_multiple_of(2), "{mark:?}");
        seen.push((name.clone(), mark.to_owned()));
        if mark.ends_with('/') {
            continue;
        }
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}>")).expect("it ends")..];
        }
        open.push(name);
    }
    assert_eq!(open, Vec::<String>::new());
    seen
}

fn with_class<'a>(marks: &'a [(String, String)], name: &str, class: &str) -> Vec<&'a str> {
    let class = format!("class=\"{class}\"");
    marks.iter().filter(|(n, mark)| n == name && mark.contains(&class)).map(|(_, mark)| &**mark).collect()
}

/// The part of a page with this heading.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("no section {id}"));
    let end = start + page[start..].find("</section>").expect("it ends");
    &page[start..end]
}

#[test]
fn a_page_has_a_row_a_server_and_a_key_for_each_colour() {
    let page = html(&small());
    let marks = marks(&page);
    assert_eq!(with_class(&marks, "g", "row").len(), 2);
    let rows = section(&page, "rows");
    // Too short to be seen are the ten milliseconds of dialing in between, but not the second at the start.
    for (class, bars) in [("s0", 2), ("s2", 1), ("s4", 1), ("s8", 1)] {
        let paths = rows.split("<path ").filter(|path| path.starts_with(&format!("class=\"{class}\"")));
        let drawn: usize =
            paths.map(|path| path.split('>').next().map_or(0, |p| p.matches('M').count())).sum();
        assert_eq!(drawn, bars, "{class}");
        assert_eq!(rows.matches(&format!("class=\"key {class}\"")).count(), 1, "{class}");
    }
    assert_eq!(rows.matches("class=\"key ").count(), 4);
    // Servers, rows, ends, latencies, dials, close up twice, gaps, load twice.
    assert_eq!(with_class(&marks, "svg", "chart").len(), 10);
    for word in ["ok", "lost-unknown", "not-connected", "cancelled", "p50", "p95", "p99"] {
        assert!(section(&page, "calls").contains(&format!("</i>{word}<")), "{word}");
    }
    assert_eq!(section(&page, "calls").matches("class=\"dot few").count(), 3);
    assert!(page.contains("Every invariant held") && !page.contains("id=\"broken\""));
}

#[test]
fn names_are_text_and_nothing_is_fetched() {
    let mut recording = small();
    recording.title = EVIL.into();
    recording.trace_hash = EVIL.into();
    recording.servers[0].transport = EVIL.into();
    recording.calls[0].outcome = EVIL.into();
    recording.broken =
        vec![Broken { at_ms: 1, invariant: EVIL.into(), server: Some(EVIL.into()), detail: EVIL.into() }];
    let page = html(&recording);
    let marks = marks(&page);
    let scripts: Vec<_> = marks.iter().filter(|(name, _)| name == "script").collect();
    let data = scripts.iter().filter(|(_, mark)| mark == "script type=\"application/json\"").count();
    assert_eq!(scripts.len(), data + 1, "one script of ours, the others are data");
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"));
    for (_, mark) in &marks {
        for attribute in [" src=", " href=", " xlink:href=", " srcset=", " onload=", " onerror=", " onclick="]
        {
            assert!(!mark.contains(attribute), "{mark}");
        }
    }
    for elsewhere in
        ["http://", "https://", "//cdn", "@import", "url(", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn what_broke_stands_on_top_with_the_way_to_see_it_again() {
    let mut recording = small();
    let broken =
        Broken { at_ms: 61_000, invariant: "ends-once".into(), server: None, detail: "twice".into() };
    recording.broken = vec![broken; 201];
    let page = html(&recording);
    marks(&page);
    let part = section(&page, "broken");
    assert!(page.find("id=\"broken\"") < page.find("id=\"totals\"") && page.contains("broken 201 times"));
    assert!(part.contains("Seed 7.") && part.contains("callboard sim FILE --seed 7"));
    assert_eq!(part.matches("<tr><td>1:01.0</td><td><code>ends-once</code>").count(), 200);
    assert!(part.contains("And 1 more"));
    for (title, command) in [
        ("seed 7, 2 servers, 0.5 h", "cargo xtask sim --seeds 7..7 --servers 2 --hours 0.5<"),
        ("seed 7, 2 servers, ; rm h", "callboard sim FILE --seed 7<"),
        ("2 servers that all drop at once", "cargo xtask sim --storm 2<"),
    ] {
        recording.title = title.into();
        assert!(html(&recording).contains(&format!("<code class=\"command\">{command}")), "{title}");
    }
}

#[test]
fn the_command_of_a_generated_run_makes_the_same_scenario() {
    for seconds in [60, 300, 4_321] {
        let scenario = Scenario::generated(5, 12, Duration::from_secs(seconds));
        let mut recording = small();
        (recording.title, recording.seed) = (scenario.title.clone(), scenario.seed);
        recording.servers = vec![recording.servers[0].clone(); 12];
        let replay = summary(&recording).replay;
        let hours = replay.rsplit_once("--hours ").expect("hours").1;
        let hours: f64 = hours.parse().expect("a number");
        assert_eq!(
            Scenario::generated(5, 12, Duration::from_secs_f64(hours * 3_600.0)),
            scenario,
            "{replay}"
        );
    }
}

#[test]
fn sums_say_what_became_of_a_server() {
    let summary = summary(&small());
    let lost = &summary.servers[0];
    assert_eq!((lost.dials, lost.reconnects, lost.outages), (3, 1, 1));
    assert_eq!((lost.outage_ms, lost.longest_outage_ms), (60_000, 60_000));
    assert_eq!((lost.in_state("connected"), lost.in_state("dialing")), (539_000, 1_010));
    assert_eq!((lost.calls, lost.calls_ok, lost.calls_failed), (4, 1, 2));
    assert_eq!((summary.servers[1].outages, summary.servers[1].in_state("dormant")), (0, 600_000));
    let storm = &summary.storm;
    assert_eq!((storm.dials, storm.dials_per_second_max), (3, 1));
    assert_eq!((storm.away_max, storm.away_max_at_ms, storm.lost_max), (1, 60_000, 1));
    // The first two attempts have a connection between them.
    assert_eq!((storm.gap_p50_ms, storm.gap_max_ms), (59_000, 59_000));
    assert_eq!(summary.outcomes["ok"].calls, 2);
    assert_eq!((summary.outcomes["ok"].p50_ms, summary.outcomes["ok"].max_ms), (10, 20));
}

#[test]
fn a_first_connection_that_fails_is_an_outage_and_one_without_trouble_is_none() {
    let mut recording = small();
    let track = &mut recording.servers[0];
    track.bands = vec![band(0, 5_000, "dialing"), band(5_000, 9_000, "connected")];
    assert_eq!(summary(&recording).servers[0].outages, 0);
    recording.servers[0].bands =
        vec![band(0, 5_000, "dialing"), band(5_000, 9_000, "failed"), band(9_000, 9_500, "disabled")];
    assert_eq!(summary(&recording).servers[0].longest_outage_ms, 9_000);
}

#[test]
fn the_document_for_machines_has_its_keys() {
    let document: serde_json::Value = serde_json::from_str(&json(&small())).expect("JSON");
    let mut keys: Vec<&str> = document.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = [
        "broken",
        "duration_ms",
        "format",
        "ok",
        "outcomes",
        "replay",
        "seed",
        "servers",
        "storm",
        "title",
        "totals",
        "trace_hash",
    ];
    assert_eq!(keys, expected);
    assert_eq!((&document["format"], &document["ok"]), (&"callboard-sim/1".into(), &true.into()));
    assert_eq!(document["servers"][0]["state_ms"]["backing-off"], 59_990);
    assert_eq!(document["servers"][1]["name"], EVIL);
    assert_eq!(document["storm"]["gap_max_ms"], 59_000);
}

#[test]
fn a_run_of_the_world_renders() {
    let recording = run(&Scenario::generated(5, 12, Duration::from_secs(300))).expect("runs");
    let page = html(&recording);
    let marks = marks(&page);
    assert_eq!(with_class(&marks, "g", "row").len(), 12);
    assert_eq!(page, html(&recording), "the same recording gives the same page");
    let summary = summary(&recording);
    assert_eq!(summary.storm.dials, recording.totals.dials);
    assert_eq!(summary.outcomes.values().map(|sum| sum.calls).sum::<u64>(), recording.totals.calls);
}

/// Ten thousand servers that flap without end, and a hundred thousand calls that fail at many latencies.
#[test]
fn ten_thousand_servers_and_a_hundred_thousand_calls_fit_a_page() {
    const STATES: [&str; 4] = ["connected", "backing-off", "dialing", "failed"];
    const OUTCOMES: [&str; 4] = ["ok", "timed-out", "lost-unknown", "queue-full"];
    let servers = (0..10_000_u64).map(|server| {
        let every = 1_000 + server % 97 * 13;
        let bands = (0..60).map(|turn| {
            let from = turn * every + server % 7;
            band(from, from + every, STATES[((turn + server) % 4) as usize])
        });
        ServerTrack {
            name: format!("server-{server:05}"),
            transport: "http".into(),
            bands: bands.collect(),
            attempts_at_ms: (0..15).map(|turn| turn * 4 * every).collect(),
        }
    });
    let calls = (0..100_000_u64).map(|number| {
        let (start, took) = (number % 59_000, number.wrapping_mul(7_919) % 60_000);
        call((number % 10_000) as u32, start, start + took, OUTCOMES[(number / 3 % 4) as usize])
    });
    let mut recording = Recording { duration_ms: 120_000, ..empty() };
    recording.servers = servers.collect();
    recording.calls = calls.collect();
    let page = html(&recording);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    let marks = marks(&page);
    assert_eq!(with_class(&marks, "g", "row").len(), 100);
    assert!(section(&page, "rows").contains("of 10,000"));
    let drawn: usize = marks.len();
    assert!(drawn < 10_000, "{drawn} marks, more than a browser lays out at once");
}

fn moments() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0_u64..5_000, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn words() -> impl Strategy<Value = std::borrow::Cow<'static, str>> {
    prop_oneof![
        prop::sample::select(vec![
            "connected",
            "backing-off",
            "failed",
            "dormant",
            "ok",
            "timed-out",
            "cancelled"
        ])
        .prop_map(Into::into),
        ".{0,12}".prop_map(|text| text.into()),
    ]
}

prop_compose! {
    fn tracks()(
        name in ".{0,40}",
        transport in words(),
        bands in prop::collection::vec((moments(), moments(), words()), 0..12),
        attempts_at_ms in prop::collection::vec(moments(), 0..12),
    ) -> ServerTrack {
        let bands = bands.into_iter().map(|(from_ms, to_ms, state)| Band { from_ms, to_ms, state });
        ServerTrack { name, transport, bands: bands.collect(), attempts_at_ms }
    }
}

prop_compose! {
    fn recordings()(
        (title, seed, duration_ms) in (".{0,20}", any::<u64>(), prop_oneof![Just(0), moments()]),
        servers in prop::collection::vec(tracks(), 0..8),
        calls in prop::collection::vec((any::<u8>(), moments(), moments(), words()), 0..40),
        gauges in prop::collection::vec((moments(), any::<u32>(), any::<u32>()), 0..12),
        broken in prop::collection::vec((moments(), words(), prop::option::of(".{0,9}"), ".{0,40}"), 0..4),
        sums in any::<[u64; 3]>(),
    ) -> Recording {
        let calls = calls.into_iter().map(|(server, started_ms, ended_ms, outcome)| CallRecord {
            server: server.into(), caller: 0, started_ms, ended_ms, outcome,
        });
        let gauges = gauges.into_iter().map(|(at_ms, one, other)| GaugePoint {
            at_ms, in_flight: one, queued: other, connected: other, dialing: one,
        });
        let broken = broken
            .into_iter()
            .map(|(at_ms, invariant, server, detail)| Broken { at_ms, invariant, server, detail });
        Recording {
            title, seed, duration_ms, servers,
            calls: calls.collect(), gauges: gauges.collect(), broken: broken.collect(),
            trace_hash: "0".into(),
            totals: Totals { calls: sums[0], ok: sums[1], real_ms: sums[2], peak_rss_kib: sums[0], ..totals() },
        }
    }
}

#[test]
fn nothing_at_all_renders() {
    let page = html(&empty());
    marks(&page);
    assert!(page.contains("Untitled scenario") && page.contains("Nobody called"));
    serde_json::from_str::<serde_json::Value>(&json(&empty())).expect("JSON");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_recording_renders(recording in recordings()) {
        let page = html(&recording);
        for (name, mark) in marks(&page) {
            let drawn = ["path", "line", "svg"].contains(&&*name);
            prop_assert!(!drawn || !mark.contains("NaN") && !mark.contains("inf"), "{mark}");
        }
        serde_json::from_str::<serde_json::Value>(&json(&recording)).expect("JSON");
    }
}
