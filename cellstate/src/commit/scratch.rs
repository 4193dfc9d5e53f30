//! The buffers of a commit: its steps, its conflicts, and the data to undo it.

use crate::held::Values;
use crate::jobs::{OwnerId, TaskRecord};
use crate::map::FastMap;
use crate::policy::{Notes, PolicySet};
use omega_core::transaction::Item;
use omega_core::{Conflict, NodeCores, TaskId, Transaction};

/// A change that was made for a transaction, and can be undone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Placed { task: TaskId, slot: u32, owner: OwnerId },
    Removed { task: TaskId, slot: u32, owner: OwnerId, before: TaskRecord },
    Resized { task: TaskId, slot: u32, owner: OwnerId },
}

impl Step {
    pub(crate) fn slot(&self) -> u32 {
        match self {
            Step::Placed { slot, .. } | Step::Removed { slot, .. } | Step::Resized { slot, .. } => {
                *slot
            }
        }
    }
}

/// The part of an allocation that a task's record does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Had {
    /// The amounts, if they were not its group's request.
    pub(crate) amounts: Option<Values>,
    /// The cores that it had to itself.
    pub(crate) cores: NodeCores,
}

/// The buffers of one commit, which the next uses again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) steps: Vec<Step>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(super) touched: Vec<u32>,
    pub(super) bytes: Vec<u8>,
    /// Allocations of tasks that were resized, or were removed and had more than their record says: for the undo, in
    /// the order of the steps.
    pub(super) had: Vec<(TaskId, Had)>,
    /// The policies that concern the transaction or a task of it.
    pub(super) met: PolicySet,
    /// Notes of policies, for their counters.
    pub(super) notes: Notes,
}

impl Scratch {
    /// Forgets all steps and conflicts.
    pub(super) fn clear(&mut self, met: PolicySet) {
        self.steps.clear();
        self.conflicts.clear();
        self.had.clear();
        self.met = met;
        self.notes = Notes::default();
    }

    /// The transaction as a whole, and the notes of policies.
    pub(super) fn review<'a>(
        &'a mut self,
        txn: &'a Transaction,
        scope: Scope,
    ) -> (Review<'a>, &'a mut Notes) {
        let Scratch { steps, conflicts, had, notes, .. } = self;
        (Review { txn, steps, conflicts, had, scope }, notes)
    }
}

/// The items that a check of a whole transaction rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that break its rule.
    Breaking,
    /// All that could break it, because there were too many rounds.
    All,
}

/// A transaction each of whose items has been checked, for checks of the whole.
pub(crate) struct Review<'a> {
    pub(crate) txn: &'a Transaction,
    /// The steps of the items without a conflict, in the order of the items.
    pub(crate) steps: &'a [Step],
    pub(crate) conflicts: &'a [Conflict],
    had: &'a [(TaskId, Had)],
    pub(crate) scope: Scope,
}

impl Review<'_> {
    /// Whether an item has no conflict.
    pub(crate) fn is_taken(&self, item: Item) -> bool {
        self.conflicts.binary_search_by(|conflict| conflict.item.cmp(&item)).is_err()
    }

    /// The rows of machines from which tasks were removed.
    pub(crate) fn machines_before(&self) -> FastMap<TaskId, u32> {
        let removed = |step: &Step| match step {
            Step::Removed { task, slot, .. } => Some((*task, *slot)),
            Step::Placed { .. } | Step::Resized { .. } => None,
        };
        self.steps.iter().filter_map(removed).collect()
    }

    /// The amounts that a removed task had, if they were not its group's request.
    pub(crate) fn amounts_before(&self, task: TaskId) -> Option<&Values> {
        let of_task = self.had.iter().filter(|(had, _)| *had == task);
        of_task.into_iter().find_map(|(_, had)| had.amounts.as_ref())
    }
}
