//! The progress bar of a run, which is shown on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use omega_run::Progress;
use std::time::Duration;

/// A bar that shows the progress of a run.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Creates a bar. It is not shown if standard error is not a terminal, or if `quiet` is set.
    pub(crate) fn new(quiet: bool) -> Bar {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = "placing {bar:40} {human_pos} of {human_len} tasks, {msg} waiting, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Bar(bar)
    }

    /// Shows the progress of the run.
    pub(crate) fn show(&self, progress: Progress) {
        if self.0.is_hidden() {
            return;
        }
        self.0.set_length(progress.tasks);
        self.0.set_position(progress.submitted.saturating_sub(progress.pending));
        self.0.set_message(progress.pending.to_string());
    }

    /// Removes the bar from the terminal.
    pub(crate) fn clear(self) {
        self.0.finish_and_clear();
    }
}

/// A bar for a search with a time limit, which shows the least objective so far.
pub(crate) struct SearchBar(ProgressBar);

impl SearchBar {
    /// Creates a bar for a search with an optional time limit. The bar is not shown if standard error is not a
    /// terminal, or if `quiet` is set.
    pub(crate) fn new(quiet: bool, limit: Option<Duration>) -> SearchBar {
        let SearchBar(bar) = SearchBar(Bar::new(quiet).0);
        let template = match limit {
            Some(limit) => {
                bar.set_length(limit.as_millis() as u64);
                "searching {bar:40} {elapsed}, objective {msg}"
            }
            None => "searching {spinner} {elapsed}, objective {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        SearchBar(bar)
    }

    /// Shows the spent time and the objective.
    pub(crate) fn show(&self, spent: Duration, objective: i64) {
        if !self.0.is_hidden() {
            self.0.set_position(spent.as_millis() as u64);
            self.0.set_message(objective.to_string());
        }
    }

    /// Removes the bar from the terminal.
    pub(crate) fn clear(self) {
        self.0.finish_and_clear();
    }
}
