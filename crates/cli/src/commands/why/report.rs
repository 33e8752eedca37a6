//! All that can be said of one server.

use crate::app::App;
use crate::commands::list::target;
use crate::config::Config;
use crate::output::{CliError, Tone, detail, escaped, json_line, nearest, printable, seconds};
use callboard::load::describe::{problem_json, spec_json};
use callboard::{ConnHandle, LeftOut, ServerSpec, StateView, TimelineEntry};
use serde_json::{Map, Value, json};

/// How a server is, in a word that scripts may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be tried, and was not yet.
    NotTried,
    /// In use.
    Connected,
    /// Attempts fail.
    Failing,
    /// It has not answered in time, and nothing has failed.
    Silent,
    /// It wants a login.
    NeedsAuth,
    /// Switched off.
    Disabled,
    /// A rule refuses it.
    Blocked,
    /// Its entry is wrong.
    Invalid,
    /// No entry has this name.
    NotConfigured,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Verdict::NotTried => "not-tried",
            Verdict::Connected => "connected",
            Verdict::Failing => "failing",
            Verdict::Silent => "silent",
            Verdict::NeedsAuth => "needs-auth",
            Verdict::Disabled => "disabled",
            Verdict::Blocked => "blocked",
            Verdict::Invalid => "invalid",
            Verdict::NotConfigured => "not-configured",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Verdict::Connected => Tone::Good,
            Verdict::Disabled => Tone::Dim,
            Verdict::NotTried | Verdict::Silent | Verdict::NeedsAuth => Tone::Warn,
            Verdict::Failing | Verdict::Blocked | Verdict::Invalid | Verdict::NotConfigured => Tone::Bad,
        }
    }
}

/// Everything known of one server.
pub(super) struct Report {
    name: String,
    pub(super) verdict: Verdict,
    /// The verdict in words.
    pub(super) words: String,
    /// What to do.
    pub(super) hint: Option<String>,
    state: Option<StateView>,
    winner: Option<Place>,
    losers: Vec<Place>,
    /// What policy says, where it was asked.
    policy: Option<(&'static str, Option<String>)>,
    timeline: Vec<TimelineEntry>,
    stderr_tail: String,
}

/// An entry, or what was meant to be one, and where it stands.
struct Place {
    file: Option<String>,
    line: Option<usize>,
    dialect: Option<String>,
    scope: Option<&'static str>,
    /// Command line or address, masked.
    target: Option<String>,
    /// The normalised form, masked.
    entry: Option<Value>,
    /// Why it does not count.
    reason: Option<String>,
}

impl Report {
    /// What the configuration says.
    pub(super) fn of(config: &Config, name: &str) -> Report {
        let mut report = Report {
            name: name.to_owned(),
            verdict: Verdict::NotConfigured,
            words: "no entry has this name".into(),
            hint: None,
            state: None,
            winner: None,
            losers: losers(config, name),
            policy: None,
            timeline: Vec::new(),
            stderr_tail: String::new(),
        };
        let admission = &config.admission;
        let is_it = |left_out: &&LeftOut| left_out.spec.name.as_str() == name;
        if let Some(admitted) = admission.admitted.iter().find(|one| one.name().as_str() == name) {
            report.verdict = Verdict::NotTried;
            report.winner = Some(place(config, admitted.spec()));
            report.policy = Some(("allowed", None));
        } else if let Some(off) = admission.disabled.iter().find(is_it) {
            report.verdict = Verdict::Disabled;
            report.words = off.reason.clone();
            report.state = Some(StateView::Disabled { by: "entry" });
            report.hint = Some("take \"disabled\" out of the entry, or set \"enabled\" to true".into());
            report.winner = Some(place(config, &off.spec));
        } else if let Some(refused) = admission.refused.iter().find(is_it) {
            report.verdict = Verdict::Blocked;
            report.words = refused.reason.clone();
            report.hint = Some("`callboard config show` says what each entry came to".into());
            report.winner = Some(place(config, &refused.spec));
            report.policy = Some(("denied", Some(refused.reason.clone())));
        } else if let Some(problem) = config.problems.iter().find(|one| one.entry.as_deref() == Some(name)) {
            report.verdict = Verdict::Invalid;
            report.words = problem.message.clone();
            report.hint = Some(problem.hint.clone());
            report.winner = Some(Place {
                file: problem.file.as_ref().map(|file| file.display().to_string()),
                line: problem.line,
                dialect: None,
                scope: None,
                target: None,
                entry: None,
                reason: Some(problem.message.clone()),
            });
        } else {
            report.hint = unknown_hint(config, name);
        }
        report
    }

    /// What came of trying.
    pub(super) fn connected(&mut self, server: &ConnHandle) {
        let state = server.state();
        self.words = brief(&detail(&state)).to_owned();
        if let StateView::Failed { hint, .. } = &state {
            self.hint = hint.clone();
        }
        if let StateView::NeedsAuth { how } = &state {
            self.hint = Some(how.clone());
        }
        self.timeline = server.timeline();
        self.stderr_tail = server.stderr_tail();
        self.state = Some(state);
    }

    /// Prints it in either form.
    pub(super) fn print(&self, app: &App) -> Result<(), CliError> {
        let scrubber = &app.config().scrubber;
        if app.screen.is_json() {
            let mut document = self.json(app.config());
            scrubber.clean_json(&mut document);
            return match app.screen.width() {
                Some(_) => Ok(app.screen.document(&document)?),
                None => Ok(app.screen.result(&json_line(&document))?),
            };
        }
        for (tone, text) in self.text() {
            let text = printable(&scrubber.clean(&text));
            let text = tone.map_or(text.clone(), |tone| app.screen.paint(tone, &text));
            app.screen.result(&text)?;
        }
        Ok(())
    }

    fn json(&self, config: &Config) -> Value {
        let http_status = match &self.state {
            Some(StateView::Failed { http_status, .. }) => *http_status,
            _ => None,
        };
        let problems = config.problems.iter().filter(|one| one.entry.as_deref() == Some(&self.name));
        json!({
            "name": self.name,
            "verdict": self.verdict.as_str(),
            "message": self.words,
            "hint": self.hint,
            "state": self.state,
            "timeline": self.timeline,
            "config": {
                "winner": self.winner.as_ref().map(Place::json),
                "losers": self.losers.iter().map(Place::json).collect::<Vec<Value>>(),
                "problems": problems.map(problem_json).collect::<Vec<Value>>(),
            },
            "policy": self.policy.as_ref().map(|(decision, reason)| json!({ "decision": decision, "reason": reason })),
            "http_status": http_status,
            "stderr_tail": self.stderr_tail,
        })
    }

    /// Lines, each with its tone.
    fn text(&self) -> Vec<(Option<Tone>, String)> {
        let mut lines =
            vec![(Some(self.verdict.tone()), format!("{}: {}", escaped(&self.name), self.verdict.as_str()))];
        let mut say = |text: String| lines.push((None, text));
        say(format!("  {}", self.words));
        say("\nconfiguration".into());
        match &self.winner {
            Some(winner) => say(format!("  {}", winner.text())),
            None => say("  nothing".into()),
        }
        self.losers.iter().for_each(|loser| say(format!("  does not count: {}", loser.text())));
        if let Some((decision, reason)) = &self.policy {
            say("\npolicy".into());
            say(format!(
                "  {decision}{}",
                reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
            ));
        }
        if !self.timeline.is_empty() {
            say("\nwhat happened".into());
            steps(&self.timeline).into_iter().for_each(&mut say);
        }
        let tail = self.stderr_tail.trim_end();
        if !tail.is_empty() {
            say("\nits last words on stderr".into());
            tail.lines().for_each(|line| say(format!("  {}", escaped(line))));
        }
        if let Some(hint) = self.hint.as_ref().filter(|_| self.verdict != Verdict::Connected) {
            say("\nwhat to do".into());
            say(format!("  {}", hint.replace('\n', "\n  ")));
        }
        lines
    }
}

/// Each step with the moment, the gap since the one before, and its cause.
fn steps(timeline: &[TimelineEntry]) -> Vec<String> {
    let mut before = timeline.first().map_or(0, |entry| entry.at_ms);
    let step = |entry: &TimelineEntry| {
        let gap = entry.at_ms.saturating_sub(std::mem::replace(&mut before, entry.at_ms));
        let cause = entry.cause.as_ref().map(|cause| format!("  {}", brief(cause)));
        let (at, gap) =
            (format!("{}.{:03}", entry.at_ms / 1_000, entry.at_ms % 1_000), format!("+{}", seconds(gap)));
        format!("  {at:>8}  {gap:>9}  #{} {}{}", entry.generation, entry.event, cause.unwrap_or_default())
    };
    timeline.iter().map(step).collect()
}

/// A cause without the words of the child that follow it: those have a part of their own.
fn brief(cause: &str) -> &str {
    let first = cause.lines().next().unwrap_or_default();
    first.strip_suffix("; its last words on stderr:").unwrap_or(first)
}

fn place(config: &Config, spec: &ServerSpec) -> Place {
    let file = spec.source.file.clone();
    let key = file.clone().map(|file| (file, spec.name.to_string()));
    Place {
        line: key.and_then(|key| config.lines.get(&key).copied()),
        file,
        dialect: Some(spec.source.dialect.clone()),
        scope: Some(spec.scope.as_str()),
        target: Some(target(spec)),
        entry: Some(spec_json(spec)),
        reason: None,
    }
}

/// Entries of the same name that do not count, and why.
fn losers(config: &Config, name: &str) -> Vec<Place> {
    let shadowed = config.admission.shadowed.iter().filter(|one| one.loser.name.as_str() == name);
    let mut losers: Vec<Place> = shadowed
        .map(|one| {
            let (loser, winner) = (&one.loser, &one.winner);
            let file = winner.source.file.as_deref().unwrap_or("code");
            let reason = match loser.scope == winner.scope {
                true => {
                    format!("of two entries in scope {} the one in {file} comes first", loser.scope.as_str())
                }
                false => {
                    format!("scope {} comes before scope {}", winner.scope.as_str(), loser.scope.as_str())
                }
            };
            Place { reason: Some(reason), ..place(config, loser) }
        })
        .collect();
    // An entry behind one that is refused is no entry any more, but a warning.
    let behind =
        config.warnings.iter().filter(|one| one.code == "shadowed" && one.entry.as_deref() == Some(name));
    losers.extend(behind.map(|warning| Place {
        file: warning.file.as_ref().map(|file| file.display().to_string()),
        line: warning.line,
        dialect: None,
        scope: None,
        target: None,
        entry: None,
        reason: Some(warning.message.clone()),
    }));
    losers
}

fn unknown_hint(config: &Config, name: &str) -> Option<String> {
    let names: Vec<&str> = config.entries().into_iter().map(|entry| entry.name.as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => Some(format!("did you mean {near:?}?")),
        None => Some("`callboard config paths` shows every place that was looked at".into()),
    }
}

impl Place {
    fn json(&self) -> Value {
        let members = [
            ("file", json!(self.file)),
            ("line", json!(self.line)),
            ("dialect", json!(self.dialect)),
            ("scope", json!(self.scope)),
            ("reason", json!(self.reason)),
            ("entry", self.entry.clone().unwrap_or_default()),
        ];
        let present = members.into_iter().filter(|(_, value)| !value.is_null());
        Value::Object(present.map(|(name, value)| (name.to_owned(), value)).collect::<Map<String, Value>>())
    }

    fn text(&self) -> String {
        let mut text = self.file.clone().unwrap_or_else(|| "given in code".into());
        if let Some(line) = self.line {
            text.push_str(&format!(":{line}"));
        }
        let about: Vec<String> = [
            self.scope.map(|scope| format!("scope {scope}")),
            self.dialect.as_ref().map(|dialect| format!("dialect {dialect}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !about.is_empty() {
            text.push_str(&format!(" ({})", about.join(", ")));
        }
        for more in [&self.target, &self.reason].into_iter().flatten() {
            text.push_str(&format!("\n    {}", escaped(more)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_show_their_gaps() {
        let entry = |at_ms, event: &str, cause: Option<&str>| TimelineEntry {
            at_ms,
            generation: 1,
            event: event.into(),
            cause: cause.map(str::to_owned),
        };
        let lines = steps(&[
            entry(5, "dialing", None),
            entry(12, "link-lost", Some("x; its last words on stderr:\ny")),
            entry(1_012, "dialing", None),
        ]);
        assert_eq!(lines[0], "     0.005      +0 ms  #1 dialing");
        assert_eq!(lines[1], "     0.012      +7 ms  #1 link-lost  x");
        assert_eq!(lines[2], "     1.012     +1.0 s  #1 dialing");
    }
}
