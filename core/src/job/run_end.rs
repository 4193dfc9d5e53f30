//! The end of a run of a task's program, as its agent reports it.
//!
//! The end is only displayed and counted. The agent reports it together with a [`TaskReport`](crate::TaskReport), which
//! alone decides the state of the task.

use crate::text::{self, Text};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum bytes of a message in an [`EndReason`]. Longer messages are cut.
pub const END_MESSAGE_BYTES_MAX: usize = 200;

/// Reason for which a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// The program exited with this code.
    ExitCode(i32),
    /// A signal with this number ended the program.
    Signal(i32),
    /// The kernel killed the program, because it exceeded its memory limit.
    OutOfMemory,
    /// The program's health check failed.
    Unhealthy,
    /// The agent stopped the program.
    Stopped,
    /// The program could not be started, as the text explains.
    NotStarted(Text),
    /// The supervisor of the program was killed.
    SupervisorLost,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunEnd {
    /// Reason for which the run ended.
    pub reason: EndReason,
    /// Number of restarts of the program on this machine before this run ended.
    pub restarts: u32,
}

impl EndReason {
    /// Returns the reason for a task that could not be started. `why` may be any text; it is cut and made printable.
    #[must_use]
    pub fn not_started(why: &str) -> EndReason {
        let mut why = text::shown(why);
        if why.len() > END_MESSAGE_BYTES_MAX {
            let end = (0..=END_MESSAGE_BYTES_MAX).rev().find(|end| why.is_char_boundary(*end));
            why.truncate(end.unwrap_or_default());
        }
        EndReason::NotStarted(why.into())
    }

    /// Returns the reason with its message cut and made printable. This is needed because a message may come from any
    /// sender.
    #[must_use]
    pub fn cleaned(self) -> EndReason {
        match self {
            EndReason::NotStarted(why) => EndReason::not_started(&why),
            other => other,
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::ExitCode(code) => write!(f, "exit code {code}"),
            EndReason::Signal(signal) => write!(f, "signal {signal}"),
            EndReason::OutOfMemory => f.write_str("out of memory"),
            EndReason::Unhealthy => f.write_str("health check failed"),
            EndReason::Stopped => f.write_str("stopped"),
            EndReason::NotStarted(why) => write!(f, "not started: {why}"),
            EndReason::SupervisorLost => f.write_str("supervisor lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_short_and_printable() {
        let message = |why: &str| EndReason::NotStarted(why.into()).cleaned().to_string();
        assert_eq!(message("no \u{1b}[31mfile"), "not started: no \u{fffd}[31mfile");
        let long = message(&"é".repeat(END_MESSAGE_BYTES_MAX));
        assert_eq!(long, format!("not started: {}", "é".repeat(END_MESSAGE_BYTES_MAX / 2)));
        assert_eq!(EndReason::Signal(9).cleaned().to_string(), "signal 9");
    }
}
