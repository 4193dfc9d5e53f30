//! The end of a run of a task's program, as it is printed.

use omega_client::convert;
use omega_client::proto;
use omega_core::{EndReason, RunEnd};
use serde::Serialize;

/// The end of a run of a task's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct EndShape {
    /// `exit_code`, `signal`, `out_of_memory`, `unhealthy`, `stopped`, `not_started` or `supervisor_lost`.
    reason: &'static str,
    /// The exit code or the signal.
    number: Option<i32>,
    message: Option<String>,
    /// Restarts of the program on this machine before this run.
    restarts: u32,
    #[serde(skip)]
    text: String,
}

impl EndShape {
    /// Reads the end of a run from a message. Returns `None` if the message has no end, or has an end of a kind that
    /// only newer cells define.
    pub(in crate::commands) fn new(response: &proto::RunEnd) -> Option<EndShape> {
        let RunEnd { reason, restarts } = convert::run_end(response)?;
        let text = reason.to_string();
        let (name, number, message) = match reason {
            EndReason::ExitCode(code) => ("exit_code", Some(code), None),
            EndReason::Signal(signal) => ("signal", Some(signal), None),
            EndReason::OutOfMemory => ("out_of_memory", None, None),
            EndReason::Unhealthy => ("unhealthy", None, None),
            EndReason::Stopped => ("stopped", None, None),
            EndReason::NotStarted(why) => ("not_started", None, Some(why.to_string())),
            EndReason::SupervisorLost => ("supervisor_lost", None, None),
            _ => return None,
        };
        Some(EndShape { reason: name, number, message, restarts, text })
    }

    /// Restarts of the program on this machine before this run.
    pub(in crate::commands) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The reason in words.
    pub(in crate::commands) fn text(&self) -> &str {
        &self.text
    }
}
