//! Resources that a task has used, as its agent measures them. They are kept in the log only, for accounting.

use crate::ids::TaskId;
use serde::{Deserialize, Serialize};

/// Resources that a task has used since the previous report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskUse {
    /// Id of the task.
    pub task: TaskId,
    /// Processor time in microseconds.
    pub cpu_us: u64,
    /// Bytes of memory times seconds.
    pub memory_byte_seconds: u64,
}
