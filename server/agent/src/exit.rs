//! Outcomes of tasks.

use omega_core::text::shown;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The outcome of a task that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The program exited with this code.
    Code(i32),
    /// A signal with this number ended the program.
    Signal(i32),
    /// The kernel killed the program, because the task used more memory than its limit.
    OutOfMemory,
    /// The task's health check failed.
    Unhealthy,
    /// The task was stopped, and has ended.
    Stopped,
    /// The program could not be started, for this reason.
    NotStarted(String),
    /// The task's supervisor ended without a report, and the remaining processes were killed.
    Lost,
}

impl Exit {
    /// Whether the task ended successfully.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Exit::Code(0))
    }
}

/// Writes one line of text. A reason may contain any text of the job, so its hidden characters are replaced.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::OutOfMemory => f.write_str("out of memory"),
            Exit::Unhealthy => f.write_str("unhealthy"),
            Exit::Stopped => f.write_str("stopped"),
            Exit::NotStarted(why) => write!(f, "not started: {}", shown(why)),
            Exit::Lost => f.write_str("supervisor lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_cannot_forge_lines_of_a_log() {
        let why = "a\u{1b}[2K\nINFO all is well\u{202e}: No such file".to_owned();
        let text = Exit::NotStarted(why).to_string();
        assert!(!text.contains(omega_core::text::is_hidden), "{text:?}");
        assert!(text.starts_with("not started: a") && text.ends_with("No such file"), "{text:?}");
    }
}
