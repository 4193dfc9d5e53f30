//! The buffers of a commit: its steps, its conflicts, and the data for undoing the steps.

use crate::policy::{Notes, PolicySet};
use crate::state::allocation_overrides::Values;
use crate::state::job_record::{OwnerId, TaskRecord};
use crate::state::map::FastMap;
use omega_core::transaction::Item;
use omega_core::{Conflict, NodeCores, TaskId, Transaction};

/// A change that an item of a transaction made, in a form that can be undone.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Placed { task: TaskId, slot: u32, owner: OwnerId },
    Removed { task: TaskId, slot: u32, owner: OwnerId, before: TaskRecord },
    Resized { task: TaskId, slot: u32, owner: OwnerId },
}

impl Step {
    pub fn slot(&self) -> u32 {
        match self {
            Step::Placed { slot, .. } | Step::Removed { slot, .. } | Step::Resized { slot, .. } => {
                *slot
            }
        }
    }
}

/// Parts of a task's former allocation that are not in its `TaskRecord`.
#[derive(Clone, Debug, Default)]
pub struct Had {
    /// The allocated amounts, if they differed from the request of the task's group.
    pub amounts: Option<Values>,
    /// The task's exclusive cores.
    pub cores: NodeCores,
    /// The ports that the cell had chosen for the task.
    pub ports: Vec<u16>,
}

/// The buffers of one commit, which the next one reuses.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    pub steps: Vec<Step>,
    pub conflicts: Vec<Conflict>,
    pub(super) touched: Vec<u32>,
    /// Former allocations, needed by the undo, in the order of the steps: those of resized tasks, and those of removed
    /// tasks whose amounts or cores are not in the task record.
    pub(super) had: Vec<(TaskId, Had)>,
    /// The policies that apply to the transaction, or to at least one of its tasks.
    pub(super) met: PolicySet,
    /// Notes of the policies about this transaction, for their counters.
    pub(super) notes: Notes,
}

impl Scratch {
    /// Clears all steps and conflicts.
    pub(super) fn clear(&mut self, met: PolicySet) {
        self.steps.clear();
        self.conflicts.clear();
        self.had.clear();
        self.met = met;
        self.notes = Notes::default();
    }

    /// The transaction as a whole, and the notes of the policies.
    pub(super) fn review<'a>(
        &'a mut self,
        txn: &'a Transaction,
        scope: Scope,
    ) -> (Review<'a>, &'a mut Notes) {
        let Scratch { steps, conflicts, had, notes, .. } = self;
        (Review { txn, steps, conflicts, had, scope }, notes)
    }
}

/// The scope of a check of the whole transaction: the items that the check rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The items that break the rule of the check.
    Breaking,
    /// All items that could break the rule of the check. Used when there were too many rounds.
    All,
}

/// A transaction that is checked as a whole, after each of its items was checked alone.
pub struct Review<'a> {
    pub txn: &'a Transaction,
    /// The steps of the items without a conflict, in the order of the items.
    pub steps: &'a [Step],
    pub conflicts: &'a [Conflict],
    had: &'a [(TaskId, Had)],
    pub scope: Scope,
}

impl Review<'_> {
    /// Whether an item has no conflict.
    pub fn is_accepted(&self, item: Item) -> bool {
        self.conflicts.binary_search_by(|conflict| conflict.item.cmp(&item)).is_err()
    }

    /// For each removed task, the row of the machine that it left.
    pub fn machines_before(&self) -> FastMap<TaskId, u32> {
        let removed = |step: &Step| match step {
            Step::Removed { task, slot, .. } => Some((*task, *slot)),
            Step::Placed { .. } | Step::Resized { .. } => None,
        };
        self.steps.iter().filter_map(removed).collect()
    }

    /// For each removed task whose amounts differed from the request of its group, these amounts.
    pub fn amounts_before(&self) -> FastMap<TaskId, &Values> {
        let mut amounts = FastMap::default();
        for (task, had) in self.had {
            if let Some(had) = &had.amounts {
                amounts.entry(*task).or_insert(had);
            }
        }
        amounts
    }
}
