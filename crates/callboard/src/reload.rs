//! A configuration that changes while it is in use: notices that a file was written, reads all again, and makes a
//! board follow. A configuration with a new fault changes nothing.

mod prints;

use crate::board::{Applied, Board};
use crate::load::{LoadOptions, Loaded, Problem, STANDARD_INPUT, load, load_again, places};
use callboard_core::port::ServerSpec;
use prints::Prints;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Between two looks at the files. Looking again and again needs no library, and works on network drives, in
/// containers, and for editors that put a new file in the place of the old one.
const LOOK_INTERVAL: Duration = Duration::from_millis(400);

/// The configuration that a board runs with, and the files it came from.
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use callboard::{Board, load::LoadOptions, reload::Reloader};
///
/// let mut reloader = Reloader::new(LoadOptions::of_process()?);
/// let board = Board::builder().servers(reloader.loaded().entries.clone()).build().await?;
/// loop {
///     reloader.changed().await;
///     println!("{:?}", reloader.reload(&board, |loaded| loaded.entries.clone()).await);
/// }
/// # }
/// ```
pub struct Reloader {
    options: LoadOptions,
    loaded: Loaded,
    /// The files as they were when they were last read.
    prints: Prints,
    /// The files at the last look.
    seen: Prints,
    next_look: Instant,
    looking: Option<JoinHandle<Prints>>,
}

/// What came of reading everything again.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reloaded {
    /// It says the same as before.
    Same,
    /// The board has the new servers. Settings are read when a board is built: a change of theirs waits.
    Applied {
        /// What has changed.
        applied: Applied,
        /// The settings are other ones, and count from the next start.
        settings_wait: bool,
    },
    /// Something is wrong that was not wrong before: the servers stay as they are.
    Kept {
        /// What is wrong, with file, line and what to do.
        problems: Vec<Problem>,
    },
    /// It was read from standard input, which cannot be read twice.
    NotAgain,
}

impl Reloader {
    /// Reads what these options lead to, as [`load`] does. Files that change from now on are noticed. Blocks on file
    /// IO.
    pub fn new(options: LoadOptions) -> Reloader {
        let (prints, loaded) = read(&options, load);
        let seen = prints.clone();
        Reloader { options, loaded, prints, seen, next_look: Instant::now(), looking: None }
    }

    /// The configuration in use.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Waits until a file that was read or looked for is another one and has stayed so from one look to the next.
    /// Cancel safe. Never returns where only standard input was read.
    pub async fn changed(&mut self) {
        loop {
            // What is under way is kept here: one who waits for several things asks again and again.
            let looking = match &mut self.looking {
                Some(looking) => looking,
                None => {
                    sleep_until(self.next_look).await;
                    let paths = self.prints.paths();
                    self.looking.insert(tokio::task::spawn_blocking(move || Prints::of(paths)))
                }
            };
            // A runtime that is shut down looks no more.
            let Ok(now) = looking.await else { return std::future::pending().await };
            self.looking = None;
            self.next_look = Instant::now() + LOOK_INTERVAL;
            let is_still = now == self.seen;
            self.seen = now;
            if is_still && self.seen != self.prints {
                return;
            }
        }
    }

    /// Reads everything again and gives the board its servers, each as `prepare` leaves it.
    ///
    /// A problem that the configuration in use does not have keeps the old servers, all of them: half a change is
    /// worse than none, and an editor may be in the midst of one. A wrong setting is no such problem.
    pub async fn reload(
        &mut self,
        board: &Board,
        prepare: impl FnOnce(&Loaded) -> Vec<ServerSpec>,
    ) -> Reloaded {
        let Some((prints, loaded)) = self.read().await else { return Reloaded::NotAgain };
        self.seen = prints.clone();
        self.prints = prints;
        let problems = new_problems(&self.loaded.problems, &loaded.problems);
        if !problems.is_empty() {
            return Reloaded::Kept { problems };
        }
        if loaded == self.loaded {
            return Reloaded::Same;
        }
        let settings_wait = loaded.settings != self.loaded.settings;
        self.loaded = loaded;
        let applied = board.apply(prepare(&self.loaded)).await;
        Reloaded::Applied { applied, settings_wait }
    }

    async fn read(&self) -> Option<(Prints, Loaded)> {
        if self.options.config_files.iter().any(|file| file.as_os_str() == STANDARD_INPUT) {
            return None;
        }
        let (options, before) = (self.options.clone(), self.loaded.clone());
        tokio::task::spawn_blocking(move || read(&options, |options| load_again(options, &before))).await.ok()
    }
}

/// What the files hold, and how they were before they were read: what changes meanwhile is noticed afterwards.
fn read(options: &LoadOptions, load: impl Fn(&LoadOptions) -> Loaded) -> (Prints, Loaded) {
    let places = places::places(options).into_iter().map(|place| place.path);
    let prints = Prints::of(places.filter(|path| path.as_os_str() != STANDARD_INPUT));
    (prints, load(options))
}

/// What is wrong now and was not before. A line alone does not make a problem another one.
fn new_problems(before: &[Problem], now: &[Problem]) -> Vec<Problem> {
    let kind = |problem: &Problem| (problem.file.clone(), problem.entry.clone(), problem.code);
    let mut known: BTreeMap<_, usize> = BTreeMap::new();
    before.iter().for_each(|problem| *known.entry(kind(problem)).or_default() += 1);
    let mut news = Vec::new();
    for problem in now.iter().filter(|problem| !problem.is_of_setting()) {
        match known.get_mut(&kind(problem)).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => news.push(problem.clone()),
        }
    }
    news
}
