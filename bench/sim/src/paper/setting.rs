//! Settings of a run of an experiment: the size of the cell, the architecture, and the decision times.

use crate::compat::Architecture;
use crate::engine::DecisionTime;

/// Size of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellSize {
    /// 2,000 machines for a day.
    Medium,
    /// 10,000 machines for six hours.
    Large,
}

impl CellSize {
    pub(super) fn name(self) -> &'static str {
        match self {
            CellSize::Medium => "M",
            CellSize::Large => "L",
        }
    }

    pub(super) fn machines(self) -> u32 {
        match self {
            CellSize::Medium => 2_000,
            CellSize::Large => 10_000,
        }
    }

    pub(super) fn seconds(self) -> f64 {
        match self {
            CellSize::Medium => 86_400.0,
            CellSize::Large => 21_600.0,
        }
    }
}

/// The paper's decision time, unless an experiment varies it: 0.1 s per job and 5 ms per task.
pub(super) const USUAL: DecisionTime = DecisionTime { job_s: 0.1, task_s: 0.005 };

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) cell: CellSize,
    pub(super) architecture: Architecture,
    pub(super) batch: DecisionTime,
    pub(super) service: DecisionTime,
    pub(super) batch_schedulers: u32,
    /// Number of batch jobs, as a multiple of the usual number.
    pub(super) load: u32,
}

impl Setting {
    /// The usual settings with this architecture.
    pub(super) const fn of(architecture: Architecture) -> Setting {
        Setting {
            cell: CellSize::Medium,
            architecture,
            batch: USUAL,
            service: USUAL,
            batch_schedulers: 1,
            load: 1,
        }
    }
}
