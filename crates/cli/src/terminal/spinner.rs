//! A spinner, or a bar once a total is known: on a terminal only, and only for what takes its time.

use crate::output::Screen;
use callboard::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Nothing moves for what is over sooner.
const APPEARS_AFTER: Duration = Duration::from_millis(500);
/// Positions of the bar; progress comes as floating point numbers.
const BAR_STEPS: f64 = 1_000.0;

/// Goes away when it is dropped.
pub(crate) struct Spinner {
    screen: Arc<Screen>,
    bar: Option<ProgressBar>,
    starter: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Starts to wait; must be called within the runtime.
    pub(crate) fn start(screen: &Arc<Screen>, message: impl Into<String>) -> Spinner {
        if !screen.is_live() {
            return Spinner { screen: screen.clone(), bar: None, starter: None };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style("{spinner:.cyan} {msg} {elapsed:.dim}"));
        bar.set_message(message.into());
        screen.set_bar(Some(bar.clone()));
        let shown = screen.clone();
        let starter = tokio::spawn(async move {
            tokio::time::sleep(APPEARS_AFTER).await;
            shown.show_bar();
        });
        Spinner { screen: screen.clone(), bar: Some(bar), starter: Some(starter) }
    }

    /// Changes its words.
    pub(crate) fn say(&self, message: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.into());
        }
    }

    /// What a call reports its progress to.
    pub(crate) fn progress_sink(&self) -> Option<Arc<dyn Fn(Progress) + Send + Sync>> {
        let bar = self.bar.clone()?;
        Some(Arc::new(move |progress: Progress| show(&bar, &progress)))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(starter) = self.starter.take() {
            starter.abort();
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.screen.set_bar(None);
        }
    }
}

fn show(bar: &ProgressBar, progress: &Progress) {
    if let Some(total) = progress.total.filter(|total| *total > 0.0) {
        if bar.length().is_none() {
            bar.set_length(BAR_STEPS as u64);
            bar.set_style(style(
                "{spinner:.cyan} {bar:30.cyan/dim} {percent:>3} % {wide_msg} {elapsed:.dim}",
            ));
        }
        bar.set_position((progress.progress / total * BAR_STEPS).clamp(0.0, BAR_STEPS) as u64);
    }
    if let Some(message) = &progress.message {
        bar.set_message(crate::output::printable(message).replace('\n', " "));
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants above; a wrong one shows as the plain spinner.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
