//! What the words of the command line ask for.

use std::time::Duration;

/// Servers over stdio, servers over HTTP and callers at scale 1.
const FULL: (f64, f64, f64) = (40.0, 60.0, 64.0);
/// How often each server is hurt, on average, in milliseconds.
const HURT_EVERY_MS: f64 = 25_000.0;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) time: Duration,
    pub(crate) stdio: u32,
    pub(crate) http: u32,
    pub(crate) callers: u32,
    pub(crate) seed: u64,
    pub(crate) json: bool,
}

impl Options {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let (mut minutes, mut scale, mut seed, mut json) = (30.0, 1.0, 1, false);
        while let Some(word) = words.next() {
            if word == "--json" {
                json = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let number = || value.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1_440.0);
            let positive = || number().ok_or_else(|| format!("{word}: {value:?} is not usable"));
            match word.as_str() {
                "--minutes" => minutes = positive()?,
                "--scale" => scale = positive()?,
                "--seed" => seed = value.parse().map_err(|_| format!("{value:?} is no seed"))?,
                _ => return Err(format!("what is {word:?}?")),
            }
        }
        let of = |full: f64| (full * scale).round().max(1.0) as u32;
        let time = Duration::from_secs_f64(minutes * 60.0);
        Ok(Options { time, stdio: of(FULL.0), http: of(FULL.1), callers: of(FULL.2), seed, json })
    }

    /// What every process of this run has in its command line, and no other has.
    pub(crate) fn tag(&self) -> String {
        format!("callboard-chaos-{}", std::process::id())
    }

    /// How long a server lives at most: the run, and what comes before and after it.
    pub(crate) fn life(&self) -> Duration {
        self.time + Duration::from_secs(300)
    }

    /// Between two faults, on average.
    pub(crate) fn fault_gap_ms(&self) -> f64 {
        HURT_EVERY_MS / f64::from(self.stdio + self.http)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options, String> {
        Options::read(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn the_scale_scales() {
        let options = read(&["--minutes", "1", "--scale", "0.1"]).expect("is right");
        assert_eq!((options.stdio, options.http, options.callers), (4, 6, 6));
        assert_eq!(options.time, Duration::from_secs(60));
        assert!(read(&["--minutes", "0"]).is_err() && read(&["--wrong", "1"]).is_err());
    }
}
