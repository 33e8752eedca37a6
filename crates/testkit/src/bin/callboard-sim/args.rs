//! The words of the command line.

use callboard_testkit::{Detail, Scenario};
use std::path::{Path, PathBuf};

pub(crate) const HELP: &str = "\
usage: callboard-sim [--seeds A..B] [--servers N] [--hours H] [--scenario FILE]… [--replay FILE] [--storm N]
                     [--twice] [--json] [--quiet] [--sums] [--memory] [--shrink] [--trace FILE]
                     [--report DIR] [--first]

  --seeds A..B     generated scenarios of these seeds, both included (1..10)
  --servers N      servers of each (50)
  --hours H        virtual hours of each (1)
  --scenario FILE  this scenario instead; may be given more than once
  --replay FILE    scenarios listed in a file, before the seeds if they are named: a line is SEED SERVERS HOURS, or the path of a
                   scenario beside it; # begins a comment
  --storm N        so many servers that all drop at once, instead
  --twice          runs each once more in another process and compares the digests of their traces
  --json           a line of JSON for each run
  --quiet          tells of bad runs alone, and the sums
  --sums           keeps no record of single calls
  --memory         looks for growth of memory (and keeps no record of single calls)
  --shrink         makes the scenario of a bad run smaller and prints it
  --trace FILE     writes the lines of the trace
  --first          ends with the first bad run
  --report DIR     writes a page and a JSON file for each run, to open without a network
";

/// The seeds that are run when none are named.
const SEEDS: (u64, u64) = (1, 10);

/// What was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    seeds: Option<(u64, u64)>,
    servers: u32,
    hours: f64,
    scenarios: Vec<PathBuf>,
    replay: Option<PathBuf>,
    storm: Option<u32>,
    pub(crate) twice: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    sums: bool,
    memory: bool,
    pub(crate) shrink: bool,
    pub(crate) first: bool,
    pub(crate) trace: Option<String>,
    pub(crate) report: Option<PathBuf>,
}

/// One scenario to run.
pub(crate) struct Task {
    pub(crate) name: String,
    /// The words that ask for it alone.
    pub(crate) words: Vec<String>,
    pub(crate) scenario: Scenario,
}

impl Args {
    /// Reads the words; none for help.
    pub(crate) fn read(words: &[String]) -> Result<Option<Args>, String> {
        let mut args = Args {
            seeds: None,
            servers: 50,
            hours: 1.0,
            scenarios: Vec::new(),
            replay: None,
            storm: None,
            twice: false,
            json: false,
            quiet: false,
            sums: false,
            memory: false,
            shrink: false,
            first: false,
            trace: None,
            report: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "--seeds" => args.seeds = Some(seeds(&value()?)?),
                "--servers" => args.servers = number(&value()?)?,
                "--hours" => args.hours = number(&value()?)?,
                "--scenario" => args.scenarios.push(value()?.into()),
                "--replay" => args.replay = Some(value()?.into()),
                "--storm" => args.storm = Some(number(&value()?)?),
                "--trace" => args.trace = Some(value()?),
                "--report" => args.report = Some(value()?.into()),
                "--first" => args.first = true,
                "--twice" => args.twice = true,
                "--json" => args.json = true,
                "--quiet" => args.quiet = true,
                "--sums" => args.sums = true,
                "--memory" => args.memory = true,
                "--shrink" => args.shrink = true,
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("no such option: {other}")),
            }
        }
        Ok(Some(args))
    }

    pub(crate) fn detail(&self) -> Detail {
        if self.sums || self.memory { Detail::Sums } else { Detail::Full }
    }

    pub(crate) fn watches_memory(&self) -> bool {
        self.memory
    }

    /// Every scenario to run.
    pub(crate) fn tasks(&self) -> Result<Vec<Task>, String> {
        if let Some(servers) = self.storm {
            let scenario = Scenario::storm(servers);
            let words = vec!["--storm".to_owned(), servers.to_string()];
            return Ok(vec![Task { name: scenario.title.clone(), words, scenario }]);
        }
        if let Some(replay) = &self.replay {
            let mut tasks = replayed(replay)?;
            tasks.extend(self.seeds.iter().flat_map(|seeds| self.generated(*seeds)));
            return Ok(tasks);
        }
        if !self.scenarios.is_empty() {
            let read = |path: &PathBuf| {
                let scenario = crate::read(path)?;
                Ok(of_file(path.display().to_string(), path, scenario))
            };
            return self.scenarios.iter().map(read).collect();
        }
        Ok(self.generated(self.seeds.unwrap_or(SEEDS)))
    }

    fn generated(&self, (first, last): (u64, u64)) -> Vec<Task> {
        (first..=last).map(|seed| generated(seed, self.servers, self.hours)).collect()
    }
}

fn generated(seed: u64, servers: u32, hours: f64) -> Task {
    let scenario = crate::generated(seed, servers, hours);
    let words =
        ["--seeds", &seed.to_string(), "--servers", &servers.to_string(), "--hours", &hours.to_string()];
    let words = words.map(str::to_owned).to_vec();
    Task { name: format!("seed {seed}, {servers} servers, {hours} h"), words, scenario }
}

fn of_file(name: String, path: &Path, scenario: Scenario) -> Task {
    Task { name, words: vec!["--scenario".to_owned(), path.display().to_string()], scenario }
}

fn replayed(path: &Path) -> Result<Vec<Task>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [seed, servers, hours] => Ok(generated(number(seed)?, number(servers)?, number(hours)?)),
            [file] => {
                let path = folder.join(file);
                let scenario = crate::read(&path)?;
                Ok(of_file((*file).to_owned(), &path, scenario))
            }
            _ => Err(format!("{}: {line:?} is neither SEED SERVERS HOURS nor a file", path.display())),
        })
        .collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number that fits here"))
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    match text.split_once("..") {
        Some((first, last)) => Ok((number(first)?, number(last.trim_start_matches('='))?)),
        None => number(text).map(|seed| (seed, seed)),
    }
}
