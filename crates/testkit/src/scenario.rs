//! What is going to happen, as data: servers and their faults, callers, what the user does.

mod generate;

use callboard_core::settings::Settings;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A world before it begins. Times are virtual milliseconds since its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it calls itself.
    #[serde(default)]
    pub title: String,
    /// The seed of everything that is drawn.
    #[serde(default)]
    pub seed: u64,
    /// How long its faults and callers go on.
    pub duration_ms: u64,
    /// All servers are asked to connect at the start, not only when somebody calls them.
    #[serde(default)]
    pub connect_all: bool,
    /// Settings of the board that are not as by default: key and text, as in configuration files.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The servers.
    pub servers: Vec<ServerPlan>,
    /// Who calls their tools.
    #[serde(default)]
    pub callers: Vec<CallerPlan>,
    /// What the user does.
    #[serde(default)]
    pub actions: Vec<UserAction>,
}

/// One server, or several alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPlan {
    /// Its name; with a `count`, the start of their names.
    pub name: String,
    /// How many of them.
    #[serde(default = "one")]
    pub count: u32,
    /// How it is reached.
    #[serde(default)]
    pub transport: Transport,
    /// The era it speaks.
    #[serde(default)]
    pub era: SimEra,
    /// Its tools: `t0`, `t1`, …
    #[serde(default = "three")]
    pub tools: u32,
    /// How long it takes to answer: the least and the most.
    #[serde(default = "soon")]
    pub answer_ms: [u64; 2],
    /// How long it takes to open a link: the least and the most.
    #[serde(default = "soon")]
    pub dial_ms: [u64; 2],
    /// Calls that the board may have in flight to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_max: Option<usize>,
    /// The limit of an attempt to connect to it; else that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ms: Option<u64>,
    /// Policy keeps it out: it must never be dialed.
    #[serde(default)]
    pub denied: bool,
    /// What goes wrong with it.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn soon() -> [u64; 2] {
    [1, 20]
}

fn always() -> u64 {
    100
}

/// How a simulated server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A child process.
    #[default]
    Stdio,
    /// Streamable HTTP.
    Http,
    /// WebSocket.
    Ws,
}

impl Transport {
    /// Its word in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Stdio => "stdio",
            Transport::Http => "http",
            Transport::Ws => "ws",
        }
    }
}

/// The era that a simulated server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SimEra {
    /// `initialize` and a session.
    #[default]
    Legacy,
    /// `server/discover`, each request by itself.
    Modern,
}

/// What goes wrong with a server, and when. `until_ms` is the first moment at which it is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Away: its links end, and it cannot be reached.
    Down {
        /// Its start.
        from_ms: u64,
        /// How long.
        for_ms: u64,
    },
    /// Away again and again.
    Flap {
        /// First time.
        from_ms: u64,
        /// No later than this.
        until_ms: u64,
        /// From one time to the next.
        every_ms: u64,
        /// How long each time; 0 just ends its links.
        down_ms: u64,
    },
    /// Each of its links ends after so long.
    CrashLoop {
        /// Links opened from here on.
        from_ms: u64,
        /// Links opened before this.
        until_ms: u64,
        /// How long each one lives.
        lives_ms: u64,
    },
    /// Answers slowly, or too late.
    Slow {
        /// Its start.
        from_ms: u64,
        /// Its end.
        until_ms: u64,
        /// How many of a hundred requests.
        #[serde(default = "always")]
        percent: u64,
        /// How long an answer takes.
        answer_ms: [u64; 2],
    },
    /// Answers 503 and does nothing. HTTP only.
    Busy {
        /// Its start.
        from_ms: u64,
        /// Its end.
        until_ms: u64,
        /// How many of a hundred requests.
        #[serde(default = "always")]
        percent: u64,
        /// What it asks for in `Retry-After`, in whole seconds; 0 for nothing.
        retry_after_s: u64,
    },
    /// Says what is not true.
    Lie {
        /// Its start.
        from_ms: u64,
        /// Its end.
        until_ms: u64,
        /// How many of a hundred answers.
        percent: u64,
        /// What.
        how: Untruth,
    },
    /// Takes a request and does not answer, or does not get further.
    Hang {
        /// Its start.
        from_ms: u64,
        /// Its end.
        until_ms: u64,
        /// How many of a hundred times.
        percent: u64,
        /// Where.
        phase: HangPhase,
    },
    /// Takes a call and dies of it.
    DieInCall {
        /// Its start.
        from_ms: u64,
        /// Its end.
        until_ms: u64,
        /// How many of a hundred calls.
        percent: u64,
    },
    /// Forgets its sessions. HTTP of the legacy era only.
    ExpireSessions {
        /// First time.
        from_ms: u64,
        /// No later than this.
        until_ms: u64,
        /// From one time to the next.
        every_ms: u64,
    },
    /// Takes no credentials any more: 401 to everything. Remote servers only.
    RotateTokens {
        /// Its start.
        from_ms: u64,
        /// Its end.
        until_ms: u64,
    },
    /// Has other tools from time to time, and says so.
    ChangeTools {
        /// First time.
        from_ms: u64,
        /// No later than this.
        until_ms: u64,
        /// From one time to the next.
        every_ms: u64,
    },
    /// Says that its tools have changed, many times at once.
    Storm {
        /// When.
        at_ms: u64,
        /// How many times.
        notices: u32,
    },
}

/// What a server says that is not true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Untruth {
    /// Answers under an id that nobody waits for.
    WrongId,
    /// Answers twice under one id.
    DoubleId,
    /// Sends text that is no message before the answer.
    Garbage,
    /// Declares tools and refuses to list them.
    WrongCapability,
}

/// Where a server hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HangPhase {
    /// The link does not open.
    Dial,
    /// No answer to the first request.
    Handshake,
    /// No answer to a list.
    List,
    /// No answer to a call.
    Call,
    /// Closing takes seconds.
    Close,
}

/// One caller, or several alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerPlan {
    /// How many of them.
    #[serde(default = "one")]
    pub count: u32,
    /// The servers it calls, by the names of their entries; all when empty.
    #[serde(default)]
    pub servers: Vec<String>,
    /// Between the end of a call and the next one: the least and the most.
    pub think_ms: [u64; 2],
    /// The absolute limit of a call: the least and the most.
    pub timeout_ms: [u64; 2],
    /// How many of a hundred calls it gives up before their end.
    #[serde(default)]
    pub cancel_percent: u64,
}

/// What the user does at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserAction {
    /// When.
    pub at_ms: u64,
    /// The server's name.
    pub server: String,
    /// What.
    #[serde(rename = "do")]
    pub what: UserWish,
}

/// What a user may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserWish {
    /// A new connection.
    Reconnect,
    /// Switch it off.
    Disable,
    /// Switch it on.
    Enable,
}

/// Why a scenario cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The text is no scenario.
    #[error("the text is no scenario: {0}")]
    Text(String),
    /// Its parts do not fit together: every problem that was found.
    #[error("the scenario does not fit together: {}", .0.join("; "))]
    Problems(Vec<String>),
}

/// Longest life of a world: what a timer can hold with ease.
const DURATION_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;

/// Most servers, and most callers, of a world: ten times what is measured, and still within the memory of a laptop.
const CROWD_MAX: u64 = 100_000;

/// Most tools of a server.
const TOOLS_MAX: u32 = 100_000;

/// Between two moments at which a storm strikes: time enough to connect ten thousand.
const STORM_EVERY_MS: u64 = 600_000;

impl Scenario {
    /// Reads a scenario from TOML.
    ///
    /// # Errors
    /// When the text is no TOML, a key is unknown or missing, or the parts do not fit together.
    pub fn from_toml(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario =
            toml::from_str(text).map_err(|error| ScenarioError::Text(error.to_string()))?;
        let problems = scenario.problems();
        if problems.is_empty() { Ok(scenario) } else { Err(ScenarioError::Problems(problems)) }
    }

    /// The scenario as TOML that [`Scenario::from_toml`] reads.
    pub fn to_toml(&self) -> String {
        // Tables of plain values have nothing that TOML cannot hold.
        toml::to_string(self).unwrap_or_default()
    }

    /// So many servers of all transports, every one of them connected, that all lose their links at once, twice.
    pub fn storm(servers: u32) -> Scenario {
        let moments = [STORM_EVERY_MS, 2 * STORM_EVERY_MS];
        let plan = |name: &str, transport, count| ServerPlan {
            count,
            tools: 1,
            faults: moments.iter().map(|at_ms| Fault::Down { from_ms: *at_ms, for_ms: 0 }).collect(),
            ..ServerPlan::new(name, transport)
        };
        let (children, sockets) = (servers / 4, servers / 4);
        let plans = [
            plan("web", Transport::Http, servers - children - sockets),
            plan("child", Transport::Stdio, children),
            plan("socket", Transport::Ws, sockets),
        ];
        Scenario {
            title: format!("{servers} servers that all drop at once"),
            seed: 1,
            duration_ms: 3 * STORM_EVERY_MS,
            connect_all: true,
            settings: BTreeMap::new(),
            servers: plans.into_iter().filter(|plan| plan.count > 0).collect(),
            callers: vec![CallerPlan {
                count: 64,
                servers: Vec::new(),
                think_ms: [1_000, 9_000],
                timeout_ms: [60_000, 120_000],
                cancel_percent: 0,
            }],
            actions: Vec::new(),
        }
    }

    /// Everything that keeps it from being played.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.duration_ms == 0 || self.duration_ms > DURATION_MS_MAX {
            problems.push(format!("duration_ms must be between 1 and {DURATION_MS_MAX}"));
        }
        if self.seed > i64::MAX as u64 {
            problems.push("seed must be at most 9223372036854775807".into());
        }
        let mut settings = Settings::default();
        for (key, text) in &self.settings {
            problems.extend(settings.set(key, text).err().map(|error| error.to_string()));
        }
        let servers: u64 = self.servers.iter().map(|plan| u64::from(plan.count)).sum();
        let callers: u64 = self.callers.iter().map(|caller| u64::from(caller.count)).sum();
        for (all, what) in [(servers, "servers"), (callers, "callers")] {
            if all > CROWD_MAX {
                problems.push(format!("{all} {what} are more than {CROWD_MAX}"));
            }
        }
        if servers > CROWD_MAX {
            // Their names alone could fill the memory.
            return problems;
        }
        let mut names = BTreeSet::new();
        for plan in &self.servers {
            for name in plan.names() {
                if name.trim().is_empty() || !names.insert(name.clone()) {
                    problems.push(format!("server name {name:?} is empty or stands twice"));
                }
            }
            for range in [plan.answer_ms, plan.dial_ms] {
                problems.extend(upside_down(range, &plan.name));
            }
            if plan.connect_timeout_ms == Some(0) {
                problems.push(format!("{}: connect_timeout_ms must be more than 0", plan.name));
            }
            if plan.tools > TOOLS_MAX {
                problems.push(format!("{}: {} tools are more than {TOOLS_MAX}", plan.name, plan.tools));
            }
            problems.extend(plan.never_connected(&settings));
            problems.extend(plan.faults.iter().filter_map(|fault| fault.problem(plan)));
        }
        if names.is_empty() {
            problems.push("there is no server".into());
        }
        for caller in &self.callers {
            problems.extend(upside_down(caller.think_ms, "a caller"));
            problems.extend(upside_down(caller.timeout_ms, "a caller"));
            if caller.timeout_ms[0] == 0 {
                problems.push("a caller's timeout_ms must be more than 0".into());
            }
            if caller.cancel_percent > 100 {
                problems.push("a caller's cancel_percent must be at most 100".into());
            }
            let unknown = caller.servers.iter().filter(|name| !self.servers.iter().any(|s| s.name == **name));
            problems.extend(unknown.map(|name| format!("a caller calls {name:?}, which is no server")));
        }
        let unknown = self.actions.iter().filter(|action| !names.contains(&action.server));
        problems.extend(
            unknown.map(|action| format!("an action is for {:?}, which is no server", action.server)),
        );
        problems
    }
}

fn upside_down([least, most]: [u64; 2], whose: &str) -> Option<String> {
    (least > most).then(|| format!("{whose}: {least} to {most} is no range"))
}

impl ServerPlan {
    /// A healthy server.
    pub fn new(name: impl Into<String>, transport: Transport) -> ServerPlan {
        ServerPlan {
            name: name.into(),
            count: one(),
            transport,
            era: SimEra::default(),
            tools: three(),
            answer_ms: soon(),
            dial_ms: soon(),
            in_flight_max: None,
            connect_timeout_ms: None,
            denied: false,
            faults: Vec::new(),
        }
    }

    /// Why it would never be connected, faults or not: dialing it and its first answer take too long.
    fn never_connected(&self, settings: &Settings) -> Option<String> {
        let limit_ms = self.connect_timeout_ms.unwrap_or(settings.connect_timeout.as_millis() as u64);
        let takes_ms = self.dial_ms[1].saturating_add(self.answer_ms[1]);
        (limit_ms > 0 && takes_ms >= limit_ms).then(|| {
            format!(
                "{}: dial_ms and answer_ms may take {takes_ms} ms together and it is given {limit_ms} ms to \
                 connect; use the faults slow and hang, which end",
                self.name
            )
        })
    }

    /// The names of the servers that it stands for.
    pub fn names(&self) -> Vec<String> {
        match self.count {
            1 => vec![self.name.clone()],
            count => (0..count).map(|number| format!("{}-{number:05}", self.name)).collect(),
        }
    }
}

impl Fault {
    /// The time in which it is at work by itself; none for what is done to a server at certain moments.
    pub(crate) fn window(&self) -> Option<std::ops::Range<u64>> {
        match self {
            Fault::Down { .. }
            | Fault::Flap { .. }
            | Fault::ExpireSessions { .. }
            | Fault::ChangeTools { .. }
            | Fault::Storm { .. } => None,
            Fault::CrashLoop { from_ms, until_ms, .. }
            | Fault::Slow { from_ms, until_ms, .. }
            | Fault::Busy { from_ms, until_ms, .. }
            | Fault::Lie { from_ms, until_ms, .. }
            | Fault::Hang { from_ms, until_ms, .. }
            | Fault::DieInCall { from_ms, until_ms, .. }
            | Fault::RotateTokens { from_ms, until_ms } => Some(*from_ms..*until_ms),
        }
    }

    fn problem(&self, plan: &ServerPlan) -> Option<String> {
        let name = &plan.name;
        match self {
            Fault::Flap { every_ms, .. }
            | Fault::ExpireSessions { every_ms, .. }
            | Fault::ChangeTools { every_ms, .. }
                if *every_ms < 100 =>
            {
                Some(format!("{name}: every_ms must be at least 100"))
            }
            Fault::Busy { .. } | Fault::ExpireSessions { .. } if plan.transport != Transport::Http => {
                Some(format!(
                    "{name}: only HTTP can be busy or have sessions that expire; its transport is another"
                ))
            }
            Fault::Slow { percent, .. }
            | Fault::Busy { percent, .. }
            | Fault::Hang { percent, .. }
            | Fault::Lie { percent, .. }
            | Fault::DieInCall { percent, .. }
                if *percent > 100 =>
            {
                Some(format!("{name}: percent must be at most 100"))
            }
            Fault::RotateTokens { .. } if plan.transport == Transport::Stdio => {
                Some(format!("{name}: a child has no credentials"))
            }
            Fault::Slow { answer_ms, .. } => upside_down(*answer_ms, name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_survives_its_own_text() {
        let scenario = Scenario::generated(5, 20, std::time::Duration::from_secs(600));
        assert_eq!(Scenario::from_toml(&scenario.to_toml()), Ok(scenario));
    }

    #[test]
    fn unknown_keys_and_all_problems_are_named() {
        let text = "duration_ms = 5\n[[servers]]\nname = \"a\"\nfault = 1\n";
        assert!(matches!(Scenario::from_toml(text), Err(ScenarioError::Text(_))));
        let text = "duration_ms = 5\n[[servers]]\nname = \"a\"\n[[servers.faults]]\nkind = \"storm\"\nat_ms = 1\nnotices = 2\nx = 3\n";
        assert!(matches!(Scenario::from_toml(text), Err(ScenarioError::Text(_))));
        let text = "duration_ms = 0\n[settings]\n\"x.y\" = \"1\"\n[[servers]]\nname = \"a\"\n[[servers]]\nname = \"a\"\nanswer_ms = [5, 1]\n";
        let Err(ScenarioError::Problems(problems)) = Scenario::from_toml(text) else { panic!("taken") };
        assert_eq!(problems.len(), 4, "{problems:?}");
    }

    #[test]
    fn what_could_never_be_so_is_refused() {
        for (keys, is_taken) in [
            ("dial_ms = [1, 20000]\nanswer_ms = [1, 9000]", true),
            ("dial_ms = [1, 20000]\nanswer_ms = [1, 10000]", false),
            ("answer_ms = [1, 2000]\nconnect_timeout_ms = 2000", false),
            ("dial_ms = [1, 9223372036854775807]\nanswer_ms = [1, 9223372036854775807]", false),
            ("tools = 100001", false),
            ("faults = [{ kind = 'hang', from_ms = 0, until_ms = 1, percent = 100, phase = 'call' }]", true),
            ("faults = [{ kind = 'hang', from_ms = 0, until_ms = 1, percent = 101, phase = 'call' }]", false),
        ] {
            let text = format!("duration_ms = 5\n[[servers]]\nname = \"a\"\n{keys}\n");
            assert_eq!(Scenario::from_toml(&text).is_ok(), is_taken, "{keys}");
        }
    }

    #[test]
    fn a_crowd_is_refused_before_it_is_built() {
        let text = "duration_ms = 5\n[[servers]]\nname = \"a\"\ncount = 4000000000\n[[callers]]\ncount = 100001\nthink_ms = [1, 2]\ntimeout_ms = [1, 2]\n";
        let Err(ScenarioError::Problems(problems)) = Scenario::from_toml(text) else { panic!("taken") };
        let expected = ["4000000000 servers are more than 100000", "100001 callers are more than 100000"]
            .map(str::to_owned);
        assert_eq!(problems, expected);
    }
}
