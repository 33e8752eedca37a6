//! The `time` server: the time in a zone, conversions between zones, and waiting.

use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ZonedDateTime};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::outbox::Reporter;
use super::page::Page;
use super::server::{About, Effect, Later, Tool, ToolError, ToolOutput, ToolServer};

/// Longest wait, in milliseconds: ten minutes, as long as agents wait for a slow tool.
const WAIT_MS_MAX: u64 = 600_000;

/// Most progress notifications of one wait.
const WAIT_STEPS_MAX: u64 = 1_000;

/// Longest name of a zone or form of a time, in bytes; the longest zone has 32.
const NAME_BYTES_MAX: usize = 128;

/// Zones on a page; `zones` goes through the near 600 in a few pages.
const ZONES_PAGE_MAX: usize = 200;

/// The server; the zones are those of the IANA database that is built in.
pub(super) struct TimeServer {
    now: fn() -> Timestamp,
}

impl TimeServer {
    pub(super) fn new() -> Self {
        Self { now: Timestamp::now }
    }

    #[cfg(test)]
    pub(super) fn at(now: fn() -> Timestamp) -> Self {
        Self { now }
    }

    fn now(&self, mut arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let name = arguments.text_if_given("timezone", NAME_BYTES_MAX)?;
        arguments.end()?;
        let zone = zone(name.as_deref().unwrap_or("UTC"))?;
        Ok(ToolOutput::mirrored(moment(&(self.now)().to_zoned_datetime(zone))))
    }

    fn convert(&self, mut arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let time = arguments.text("time", NAME_BYTES_MAX)?;
        let from = zone(&arguments.text("from", NAME_BYTES_MAX)?)?;
        let to = zone(&arguments.text("to", NAME_BYTES_MAX)?)?;
        arguments.end()?;
        let today = (self.now)().to_zoned_datetime(from.clone()).date();
        let civil = civil(&time, |time| today.to_datetime(time))?;
        let ambiguous = from.to_ambiguous_zoned_datetime(civil);
        let clock_change = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => "none",
            AmbiguousOffset::Gap { .. } => "skipped",
            AmbiguousOffset::Fold { .. } => "repeated",
        };
        let source = ambiguous
            .compatible()
            .map_err(|error| ToolError::Input(format!("time is out of range: {error}")))?;
        let target = source.with_time_zone(to);
        let difference = i64::from(target.offset().seconds()) - i64::from(source.offset().seconds());
        Ok(ToolOutput::mirrored(json!({
            "from": moment(&source),
            "to": moment(&target),
            "difference_minutes": difference / 60,
            "clock_change": clock_change,
        })))
    }

    fn zones(mut arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let query = arguments.text_if_given("query", NAME_BYTES_MAX)?.unwrap_or_default().to_lowercase();
        let start = arguments.start()?;
        let limit = arguments.limit(ZONES_PAGE_MAX, ZONES_PAGE_MAX)?;
        arguments.end()?;
        let mut names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
        names.sort_unstable();
        let after = start.after();
        let found = names
            .into_iter()
            .filter(|name| after.is_none_or(|after| name.as_str() > after))
            .filter(|name| name.to_lowercase().contains(&query));
        let page = Page::take(found, limit, String::clone);
        Ok(ToolOutput::mirrored(json!({ "zones": page.items, "next_cursor": page.next_cursor })))
    }
}

/// Sleeps in steps, each of them told as progress.
async fn wait(mut arguments: Arguments, reporter: &Reporter) -> Result<ToolOutput, ToolError> {
    let ms = arguments.integer("ms", 0..=WAIT_MS_MAX)?;
    let steps = arguments.integer_if_given("steps", 1..=WAIT_STEPS_MAX)?.unwrap_or(1);
    arguments.end()?;
    let started = tokio::time::Instant::now();
    for step in 1..=steps {
        tokio::time::sleep_until(started + Duration::from_millis(ms * step / steps)).await;
        reporter.progress(step, Some(steps), &format!("waited {} of {ms} ms", ms * step / steps));
    }
    Ok(ToolOutput::mirrored(json!({ "waited_ms": ms, "steps": steps })))
}

fn zone(name: &str) -> Result<TimeZone, ToolError> {
    TimeZone::get(name).map_err(|_| {
        ToolError::Input(format!("there is no time zone {name}; give an IANA name such as Europe/Berlin"))
    })
}

/// Reads `HH:MM`, `HH:MM:SS` or a date with such a time. An offset would contradict the zone.
fn civil(text: &str, on_day: impl Fn(Time) -> DateTime) -> Result<DateTime, ToolError> {
    let wrong =
        || ToolError::Input(format!("time must be HH:MM or YYYY-MM-DDTHH:MM, without an offset, not {text}"));
    let clock = text.rsplit(['T', 't', ' ']).next().unwrap_or(text);
    let is_date = clock.len() == text.len() && text.contains('-');
    if text.contains(['Z', 'z', '+', '[']) || (clock.contains('-') && !is_date) {
        return Err(wrong());
    }
    match text.parse::<Time>() {
        Ok(time) if !text.contains('-') => Ok(on_day(time)),
        Ok(_) | Err(_) => text.parse::<DateTime>().map_err(|_| wrong()),
    }
}

fn moment(at: &ZonedDateTime) -> Value {
    let info = at.time_zone().to_offset_info(at.timestamp());
    json!({
        "timezone": at.time_zone().iana_name().unwrap_or("UTC"),
        "datetime": at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "weekday": at.strftime("%A").to_string(),
        "is_dst": info.dst().is_dst(),
        "unix_ms": at.timestamp().as_millisecond(),
    })
}

impl ToolServer for TimeServer {
    fn about(&self) -> About {
        About {
            name: "callboard-time",
            title: "Time",
            instructions: "Tells the time in any IANA time zone and converts between zones. Zones are named \
                           like Europe/Berlin; without one, times are in UTC.",
        }
    }

    fn tools(&self) -> Vec<Tool> {
        vec![now_tool(), convert_tool(), zones_tool(), wait_tool()]
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Arguments,
        reporter: &'a Reporter,
    ) -> Later<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match tool {
                "now" => self.now(arguments),
                "convert" => self.convert(arguments),
                "zones" => Self::zones(arguments),
                "wait" => wait(arguments, reporter).await,
                _ => Err(ToolError::Failed(format!("there is no tool {tool}"))),
            }
        })
    }
}

fn now_tool() -> Tool {
    Tool {
        name: "now",
        title: "Current time",
        description: "The current date and time in a time zone.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": { "timezone": zone_schema("Time zone, by default UTC") },
            "additionalProperties": false,
        }),
        output: moment_schema(),
    }
}

fn convert_tool() -> Tool {
    Tool {
        name: "convert",
        title: "Convert a time",
        description: "What a local time in one time zone is in another. A time without a date is today's.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": {
                "time": {
                    "type": "string",
                    "description": "Local time without an offset: HH:MM or YYYY-MM-DDTHH:MM",
                },
                "from": zone_schema("Time zone of the time"),
                "to": zone_schema("Time zone to convert to"),
            },
            "required": ["time", "from", "to"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "from": moment_schema(),
                "to": moment_schema(),
                "difference_minutes": {
                    "type": "integer",
                    "description": "How far the clocks of the second zone are ahead",
                },
                "clock_change": {
                    "type": "string",
                    "enum": ["none", "skipped", "repeated"],
                    "description": "Whether a change of the clocks skips or repeats that local time; \
                                    a skipped time is moved on, of a repeated one the first is meant",
                },
            },
            "required": ["from", "to", "difference_minutes", "clock_change"],
        }),
    }
}

fn zones_tool() -> Tool {
    Tool {
        name: "zones",
        title: "Time zones",
        description: "The names of the time zones that contain a text, in pages.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Part of the name, in any case" },
                "limit": { "type": "integer", "minimum": 1, "maximum": ZONES_PAGE_MAX },
                "cursor": { "type": "string", "description": "next_cursor of the page before" },
            },
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "zones": { "type": "array", "items": { "type": "string" } },
                "next_cursor": { "type": ["string", "null"] },
            },
            "required": ["zones", "next_cursor"],
        }),
    }
}

fn wait_tool() -> Tool {
    Tool {
        name: "wait",
        title: "Wait",
        description: "Waits and then answers, with progress in between where that is asked for.",
        effect: Effect::Reads,
        input: json!({
            "type": "object",
            "properties": {
                "ms": {
                    "type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX,
                    "description": "How long, in milliseconds",
                },
                "steps": {
                    "type": "integer", "minimum": 1, "maximum": WAIT_STEPS_MAX,
                    "description": "How many times to tell progress, by default once",
                },
            },
            "required": ["ms"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": { "waited_ms": { "type": "integer" }, "steps": { "type": "integer" } },
            "required": ["waited_ms", "steps"],
        }),
    }
}

fn zone_schema(description: &str) -> Value {
    json!({ "type": "string", "description": format!("{description}; an IANA name such as Europe/Berlin") })
}

fn moment_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "timezone": { "type": "string" },
            "datetime": { "type": "string", "description": "RFC 3339 with the offset of the zone" },
            "weekday": { "type": "string" },
            "is_dst": { "type": "boolean" },
            "unix_ms": { "type": "integer" },
        },
        "required": ["timezone", "datetime", "weekday", "is_dst", "unix_ms"],
    })
}
