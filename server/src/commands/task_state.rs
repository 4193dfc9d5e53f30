//! Selection by the state of tasks.

use clap::ValueEnum;
use omega_client::proto;

/// State of a task, as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// Has no machine yet.
    Pending,
    /// Has a machine, and has not started.
    Placed,
    /// Runs.
    Running,
    /// Ended successfully.
    Finished,
    /// Ended with a failure.
    Failed,
    /// Was stopped.
    Killed,
}

impl State {
    /// Whether tasks in this state have ended.
    pub(super) fn is_end(self) -> bool {
        matches!(self, State::Finished | State::Failed | State::Killed)
    }

    /// Number of a job's tasks in this state.
    pub(super) fn count(self, of: &proto::JobStatus) -> u32 {
        match self {
            State::Pending => of.pending,
            State::Placed => of.placed,
            State::Running => of.running,
            State::Finished => of.finished,
            State::Failed => of.failed,
            State::Killed => of.killed,
        }
    }

    /// Whether a task is in this state.
    pub(super) fn is_of(self, task: &proto::TaskStatus) -> bool {
        let phase = match self {
            State::Pending => proto::TaskPhase::Pending,
            State::Placed => proto::TaskPhase::Placed,
            State::Running => proto::TaskPhase::Running,
            State::Finished => proto::TaskPhase::Finished,
            State::Failed => proto::TaskPhase::Failed,
            State::Killed => proto::TaskPhase::Killed,
        };
        task.phase() == phase
    }
}
