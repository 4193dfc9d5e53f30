//! The undo of a commit. It reverts the steps in reverse order. Policies restore their counts exactly, so no trace is
//! left.

use super::scratch::{Had, Scratch, Step};
use crate::cell::Cell;
use crate::fit::Grant;
use crate::state::job_record::TaskRecord;
use omega_core::{TaskId, TaskState};

impl Cell {
    /// Undoes every step, the last one first.
    pub(super) fn undo(&mut self, scratch: &mut Scratch) {
        if crate::injected!(GangHalfUndone) {
            scratch.steps.pop();
        }
        while let Some(step) = scratch.steps.pop() {
            match step {
                Step::Placed { task, .. } => {
                    if let Some(parts) = self.parts(task.job) {
                        Cell::unplace(parts, task, TaskState::Pending);
                    }
                }
                Step::Removed { task, before, .. } => {
                    let had = scratch.had.pop_if(|(had, _)| *had == task);
                    self.put_back(task, before, had.map_or_else(Had::default, |(_, had)| had));
                }
                Step::Resized { task, slot, .. } => {
                    let (_, had) = scratch.had.pop().expect("each resize noted what was held");
                    self.set_allocation(task, slot, had.amounts.expect("a resize notes amounts"));
                }
            }
        }
    }

    fn put_back(&mut self, task: TaskId, before: TaskRecord, had: Had) {
        let Some(machine) = before.state.machine() else { return };
        if let Some(parts) = self.parts(task.job) {
            if let Some(amounts) = had.amounts {
                parts.job.set_allocation(task.index, amounts);
            }
            parts.job.ports.put(task.index, had.ports);
            let grant = Grant { devices: before.devices, cores: had.cores };
            Cell::place(parts, task, machine, grant);
        }
        if let Some(job) = self.jobs.get_mut(task.job) {
            let now = std::mem::replace(&mut job.tasks[task.index as usize], before);
            job.tally.change(usize::from(before.group), now.state, before.state);
        }
    }
}
