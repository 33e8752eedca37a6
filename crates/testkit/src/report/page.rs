//! The page: what broke on top, then the sums, the pictures, and every server.

use super::rows::{ROWS_MAX, worst_first};
use super::summary::{OutcomeSummary, ServerSummary, Summary, summary};
use super::text::{count, duration, escaped, moment, percent};
use super::words::{OUTCOMES, STATES};
use super::{calls, fleet, load, rows, storm};
use crate::recording::{Broken, Recording};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Broken invariants that are told one by one.
const BROKEN_MAX: usize = 200;
/// Servers of which the table is open at once.
const TABLE_OPEN_MAX: usize = 12;

/// The run as one page of HTML. It holds everything that it needs, runs nothing from elsewhere and opens from disk.
/// Names and words of servers stand in it as text and nothing else. With very many servers, those with the most
/// trouble have rows and the others stand in the picture of all; the page stays below 5 MB.
pub fn html(recording: &Recording) -> String {
    let summary = summary(recording);
    let order = worst_first(&summary.servers);
    let mut page = String::with_capacity(1 << 18);
    page.push_str(HEAD);
    page.push_str(&title(&summary));
    page.push_str("<style>");
    page.push_str(include_str!("style.css"));
    page.push_str("</style></head><body><main>\n");
    page.push_str(&header(&summary));
    page.push_str(&broken(&summary));
    page.push_str(&tiles(&summary));
    let shown = summary.servers.len().min(ROWS_MAX);
    let rows_say = match shown == summary.servers.len() {
        true => "One row a server, the longest outages on top. At the right: share of the time connected. \
                 Trouble shorter than a column is drawn as one."
            .to_owned(),
        false => format!(
            "The {shown} servers with the longest outages, of {}. At the right: share of the time connected. \
             Trouble shorter than a column is drawn as one.",
            count(summary.servers.len() as u64)
        ),
    };
    let pictures = [
        (
            "servers",
            "Servers",
            "How many servers were in which state, on average over each column.",
            fleet::figure(recording),
        ),
        ("rows", "Server by server", &*rows_say, rows::figure(recording, &summary.servers, &order)),
        ("calls", "Calls", CALLS_SAY, calls::figures(recording) + &outcomes(&summary)),
        ("storm", "Reconnecting", &storm_says(&summary), storm::figures(recording, &summary.storm)),
        ("load", "Load", LOAD_SAY, load::figures(recording)),
    ];
    for (id, heading, says, figures) in pictures {
        if !figures.is_empty() {
            // A String takes everything.
            let _ = write!(
                page,
                "<section id=\"{id}\"><h2>{heading}</h2><p>{}</p>\n{figures}</section>\n",
                escaped(says)
            );
        }
    }
    page.push_str(&table(&summary, &order));
    page.push_str(&colophon(&summary));
    page.push_str("</main><div id=\"tip\" hidden=\"hidden\"></div><script>");
    page.push_str(include_str!("page.js"));
    page.push_str("</script></body></html>\n");
    page
}

/// Nothing is fetched, and the page says so itself.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
    <meta name=\"color-scheme\" content=\"light dark\"/>\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'\"/>";

const CALLS_SAY: &str = "How calls ended, and how long they took: lines are percentiles of the answered calls, \
    dots are calls that ended otherwise, larger where there are many.";
const LOAD_SAY: &str = "Calls that were made and have not ended, and those of them that no server has seen yet. Below, \
    connections. All of it is sampled, so that what lasts shorter than the time between two samples may be missing.";

fn title(summary: &Summary) -> String {
    let verdict = if summary.broken.is_empty() { "held" } else { "BROKEN" };
    format!("<title>{} – {verdict} – callboard sim</title>", escaped(name(summary)))
}

fn name(summary: &Summary) -> &str {
    if summary.title.trim().is_empty() { "Untitled scenario" } else { &summary.title }
}

fn header(summary: &Summary) -> String {
    let verdict = match summary.broken.len() {
        0 => "<p class=\"verdict good\"><b>✓</b> Every invariant held</p>".to_owned(),
        1 => "<p class=\"verdict bad\"><b>✗</b> An invariant was broken</p>".to_owned(),
        many => format!(
            "<p class=\"verdict bad\"><b>✗</b> Invariants were broken {} times</p>",
            count(many as u64)
        ),
    };
    format!(
        "<header><div><p class=\"kicker\">callboard · simulated world</p><h1>{}</h1></div>{verdict}</header>\n",
        escaped(name(summary)),
    )
}

/// What broke, and how to see it again.
fn broken(summary: &Summary) -> String {
    if summary.broken.is_empty() {
        return String::new();
    }
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for broken in &summary.broken {
        *kinds.entry(&broken.invariant).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, times)| format!("<code>{}</code> × {}", escaped(kind), count(*times)))
        .collect();
    let rows: String = summary.broken.iter().take(BROKEN_MAX).map(broken_row).collect();
    let mut text = format!(
        "<section id=\"broken\"><h2>What broke</h2><p>Seed {}. {}</p><p>To see it again: {}</p>\
         <div class=\"scroll\"><table><thead><tr><th>at</th><th>invariant</th><th>server</th><th>what was seen</th></tr>\
         </thead><tbody>{rows}</tbody></table></div>",
        summary.seed,
        kinds.join(", "),
        replay(summary),
    );
    if summary.broken.len() > BROKEN_MAX {
        let more = count((summary.broken.len() - BROKEN_MAX) as u64);
        // A String takes everything.
        let _ = write!(text, "<p>And {more} more, in the JSON document.</p>");
    }
    text + "</section>\n"
}

fn broken_row(broken: &Broken) -> String {
    format!(
        "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td class=\"words\">{}</td></tr>",
        moment(broken.at_ms, 1),
        escaped(&broken.invariant),
        escaped(broken.server.as_deref().unwrap_or("–")),
        escaped(&broken.detail),
    )
}

fn replay(summary: &Summary) -> String {
    let with = if summary.replay.contains(" FILE ") { " with the scenario of this run" } else { "" };
    format!("<code class=\"command\">{}</code>{with}", escaped(&summary.replay))
}

/// The totals.
fn tiles(summary: &Summary) -> String {
    let (totals, storm) = (&summary.totals, &summary.storm);
    let reconnects: u64 = summary.servers.iter().map(|server| server.reconnects).sum();
    let longest_gap = match storm.gap_max_ms {
        0 => "all at the first attempt".to_owned(),
        ms => format!("longest gap {}", duration(ms)),
    };
    let memory = match totals.peak_rss_kib {
        0 => "–".to_owned(),
        kib => format!("{:.1} MiB", kib as f64 / 1_024.0),
    };
    let tiles = [
        ("servers", count(summary.servers.len() as u64), format!("{} away at once", count(storm.away_max))),
        (
            "virtual time",
            duration(summary.duration_ms),
            format!("in {} of real time", duration(totals.real_ms)),
        ),
        ("calls", count(totals.calls), format!("{} answered", percent(totals.ok, totals.calls))),
        ("dials", count(totals.dials), format!("{} within one second", count(storm.dials_per_second_max))),
        ("reconnects", count(reconnects), longest_gap),
        (
            "longest step",
            duration(totals.longest_step_real_ms),
            format!("real time; {} steps", count(totals.steps)),
        ),
        ("peak memory", memory, "of the process".to_owned()),
    ];
    let mut text = String::from("<dl class=\"tiles\" id=\"totals\">");
    for (label, number, says) in tiles {
        // A String takes everything.
        let _ = write!(text, "<div><dt>{label}</dt><dd>{number}</dd><dd class=\"small\">{says}</dd></div>");
    }
    text + "</dl>\n"
}

fn outcomes(summary: &Summary) -> String {
    if summary.outcomes.is_empty() {
        return String::new();
    }
    let all: u64 = summary.outcomes.values().map(|sum| sum.calls).sum();
    let row = |word: &super::words::Word, sum: &OutcomeSummary| {
        format!(
            "<tr><td><i class=\"key {}\"></i>{}</td><td class=\"words\">{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td></tr>",
            word.class,
            word.word,
            word.meaning,
            count(sum.calls),
            percent(sum.calls, all),
            duration(sum.p50_ms),
            duration(sum.p95_ms),
            duration(sum.p99_ms),
            duration(sum.max_ms),
        )
    };
    let rows: String = OUTCOMES
        .iter()
        .filter_map(|word| summary.outcomes.get(word.word).map(|sum| row(word, sum)))
        .collect();
    format!(
        "<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th>end</th><th>meaning</th><th>calls</th>\
         <th>share</th><th>p50</th><th>p95</th><th>p99</th><th>longest</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn storm_says(summary: &Summary) -> String {
    let storm = &summary.storm;
    let gaps = match storm.gap_max_ms {
        0 => "No attempt followed another one without a connection between them.".to_owned(),
        _ => format!("Half of the gaps between attempts were no longer than {}.", duration(storm.gap_p50_ms)),
    };
    format!(
        "{} dials; the most within one second were {}, from {} on. {gaps}",
        count(storm.dials),
        count(storm.dials_per_second_max),
        moment(storm.peak_at_ms, 1_000),
    )
}

/// Every server in numbers, as far as it has a row.
fn table(summary: &Summary, order: &[usize]) -> String {
    if order.is_empty() {
        return String::new();
    }
    let open = if order.len() <= TABLE_OPEN_MAX { " open=\"open\"" } else { "" };
    let rows: String = order
        .iter()
        .take(ROWS_MAX)
        .map(|place| table_row(&summary.servers[*place], summary.duration_ms))
        .collect();
    format!(
        "<section id=\"table\"><h2>In numbers</h2><details{open}><summary>{} of {} servers, the longest outages first\
         </summary><div class=\"scroll\"><table class=\"numbers\"><thead><tr><th>server</th><th>transport</th>\
         <th>states</th><th>connected</th><th>calls</th><th>answered</th><th>failed</th><th>dials</th>\
         <th>reconnects</th><th>outages</th><th>longest</th></tr></thead><tbody>{rows}</tbody></table></div></details>\
         </section>\n",
        count(order.len().min(ROWS_MAX) as u64),
        count(order.len() as u64),
    )
}

fn table_row(server: &ServerSummary, duration_ms: u64) -> String {
    let mut shares = String::new();
    for state in STATES {
        let ms = server.in_state(state.word);
        if ms > 0 && duration_ms > 0 {
            let width = ms as f64 * 100.0 / duration_ms as f64;
            // A String takes everything.
            let _ = write!(
                shares,
                "<i class=\"{}\" style=\"width:{width:.2}%\" title=\"{}: {}\"></i>",
                state.class,
                state.word,
                percent(ms, duration_ms)
            );
        }
    }
    format!(
        "<tr><td>{}</td><td>{}</td><td><span class=\"shares\">{shares}</span></td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        escaped(&server.name),
        escaped(&server.transport),
        percent(server.in_state("connected"), duration_ms),
        count(server.calls),
        count(server.calls_ok),
        count(server.calls_failed),
        count(server.dials),
        count(server.reconnects),
        count(server.outages),
        duration(server.longest_outage_ms),
    )
}

fn colophon(summary: &Summary) -> String {
    format!(
        "<footer><p>Seed {} · trace <code>{}</code></p><p>The same run again: {}. The same seed and scenario give the \
         same trace.</p></footer>\n",
        summary.seed,
        escaped(&summary.trace_hash),
        replay(summary),
    )
}
