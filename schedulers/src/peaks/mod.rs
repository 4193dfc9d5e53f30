//! Peak controller: a scheduler that throttles batch tasks when a peak begins, and restores them after it.
//!
//! ```text
//!   a peak begins                                        the peak ends
//!   batch exceeds its share of a machine                 optional resources are free
//!      ├─ tasks are throttled to their requests,            └─ throttled tasks get them back
//!      │  and continue to run
//!      └─ if that is not enough, tasks are released:
//!         they are pending, and placed elsewhere
//! ```
//!
//! The cell rejects claims beyond the share of batch, but removes no task from a machine: a scheduler decides which
//! tasks to release. Each step syncs with the cell and submits one transaction of releases and resizes. Changes that
//! are wrong or too late conflict, and the next step corrects them. So a controller has no state that could be lost,
//! and a cell may have several controllers.
//!
//! - [`plan`](mod@plan): the changes, computed from a view.

pub mod plan;

pub use plan::{Plan, plan};

use crate::framework::disruption::DisruptionBudget;
use omega_cellstate::{CellHandle, HandleError, View};
use omega_core::{Item, TaskId, Text, Version};
use std::collections::BTreeMap;

/// Settings of the peak controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name under which the controller commits.
    pub name: Text,
    /// Maximum number of changes in one transaction.
    pub changes_max: usize,
    /// Disruption budgets. The controller respects them even if batch tasks then exceed their share.
    pub disruptions: Vec<DisruptionBudget>,
}

impl Settings {
    /// Settings with the name `peaks`, 256 changes per transaction, and no budgets.
    #[must_use]
    pub fn new() -> Settings {
        Settings { name: "peaks".into(), changes_max: 256, disruptions: Vec::new() }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new()
    }
}

/// Counters of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Tasks that were shrunk to their request.
    pub throttled: u64,
    /// Tasks that were released.
    pub released: u64,
    /// Tasks that got their optional resources back.
    pub restored: u64,
    /// Changes that the cell rejected.
    pub rejected: u64,
    /// Machines on which batch tasks still exceed their share, because more changes are needed or budgets forbid them.
    pub machines_over_share: u64,
}

impl StepCounts {
    /// Adds the counters of a later step. `machines_over_share` is replaced by the later value.
    pub fn add(&mut self, later: StepCounts) {
        self.throttled += later.throttled;
        self.released += later.released;
        self.restored += later.restored;
        self.rejected += later.rejected;
        self.machines_over_share = later.machines_over_share;
    }
}

/// Time for which a task is left alone after a rejected change, in milliseconds of cell time. The cause may be a quota
/// or another task's runtime affinity, and such causes usually last about as long.
const REST_MS: u64 = 60_000;

/// The peak controller; see the head of the file.
#[derive(Debug)]
pub struct PeakController {
    view: View,
    settings: Settings,
    /// Tasks that are left alone after a rejected change, each with the time until which they are left alone.
    resting: BTreeMap<TaskId, u64>,
    /// Version of the cell after the last commit. The view of a remote cell may be older, and then lacks the commit's
    /// changes.
    answered: Version,
}

impl PeakController {
    /// Registers with a cell.
    ///
    /// # Errors
    /// If the cell cannot be reached or rejects the name.
    pub fn new(
        cell: &(impl CellHandle + ?Sized),
        settings: Settings,
    ) -> Result<PeakController, HandleError> {
        let (id, number) = cell.register(settings.name.clone())?;
        let mut view = View::new(id, number).with_placements();
        settings.disruptions.iter().for_each(|budget| view.count_tasks(&budget.set));
        let (resting, answered) = (BTreeMap::new(), Version(0));
        Ok(PeakController { view, settings, resting, answered })
    }

    /// The controller's view of the cell at the last step.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether the view does not yet include the last step's changes. If so, [`PeakController::step`] does nothing;
    /// call it again soon.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.view.version() < self.answered
    }

    /// Syncs, and throttles or restores tasks as needed, in at most one transaction.
    ///
    /// # Errors
    /// If the cell cannot be reached, or the outcome of the transaction is unknown. The next step
    /// syncs and finds the outcome.
    pub fn step(&mut self, cell: &(impl CellHandle + ?Sized)) -> Result<StepCounts, HandleError> {
        self.view.sync(cell)?;
        if self.view.delta().full {
            // A full delta may come from a restored cell with a lower version.
            self.answered = Version(0);
        }
        if self.is_behind() {
            return Ok(StepCounts::default());
        }
        let now_ms = self.view.now_ms();
        self.resting.retain(|_, until| *until > now_ms);
        let budgets = self.settings.disruptions.iter().map(|budget| budget.now(&self.view));
        let rests = |task: TaskId| self.resting.contains_key(&task);
        let plan = plan(&self.view, budgets.collect(), self.settings.changes_max, &rests);
        let machines_over_share = plan.over as u64;
        let mut counts = StepCounts { machines_over_share, ..StepCounts::default() };
        if plan.is_empty() {
            return Ok(counts);
        }
        let mut txn = self.view.take_transaction();
        let throttles = plan.throttles.len();
        txn.releases = plan.releases;
        txn.resizes = plan.throttles.into_iter().chain(plan.grows).collect();
        let commit = match cell.commit(&txn) {
            Ok(commit) => commit,
            Err(error) => {
                self.view.abandon(&txn);
                return Err(error);
            }
        };
        self.view.settle(&txn, &commit);
        self.answered = commit.version;
        let mut count = |task: TaskId, item: Item, of: fn(&mut StepCounts) -> &mut u64| {
            if commit.conflict_of(item).is_none() {
                *of(&mut counts) += 1;
            } else {
                counts.rejected += 1;
                self.resting.insert(task, now_ms.saturating_add(REST_MS));
            }
        };
        for (task, i) in txn.releases.iter().zip(0..) {
            count(*task, Item::Release(i), |counts| &mut counts.released);
        }
        for (resize, i) in txn.resizes.iter().zip(0..) {
            if (i as usize) < throttles {
                count(resize.task, Item::Resize(i), |counts| &mut counts.throttled)
            } else {
                count(resize.task, Item::Resize(i), |counts| &mut counts.restored)
            }
        }
        Ok(counts)
    }
}
