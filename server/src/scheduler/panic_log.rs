//! Event for operators about a job on which its scheduler has panicked.

use omega_core::{JobId, Text};
use omega_schedulers::Observer;

/// Observer of a scheduler's workers that logs panics, with the name of the scheduler.
#[derive(Debug)]
pub(super) struct PanicLog(pub(super) Text);

impl Observer for PanicLog {
    fn set_aside(&mut self, job: JobId, panic: &str) {
        log_panic(&self.0, job, panic);
    }
}

/// Logs that a job is set aside, with the reason and the remedy.
pub(super) fn log_panic(scheduler: &str, job: JobId, panic: &str) {
    tracing::error!(
        scheduler,
        job = job.0,
        panic,
        "a decision has panicked: this process does not try its job again until it is restarted; \
         please report this bug"
    );
}
