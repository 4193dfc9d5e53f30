//! Expected departures: the times at which the tasks on each machine should end, for schedulers that plan ahead.
//!
//! A view that keeps departures receives the jobs of all schedulers. A task's departure is at its placement time plus
//! its job's runtime estimate, and frees its allocation. The view's own claims without a result are included, because
//! they are subtracted from the free amounts.
//!
//! Invariant: the amounts of a row's departures, except those marked `lifted`, add up to the machine's claims in the
//! view.

use crate::delta::{Delta, Interest, TaskDelta};
use crate::state::map::FastMap;
use crate::view::View;
use omega_core::{Amounts, DeviceRequest, DeviceSet, Job, JobId, TaskId};
use smallvec::SmallVec;
use std::sync::Arc;

/// A task that will leave a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Id of the task.
    pub task: TaskId,
    /// Expected time of departure, by the cell's clock. The time may be in the past. `None` if the job has no runtime
    /// estimate.
    pub at_ms: Option<u64>,
    /// Amounts that the task will free, by kind.
    pub amounts: SmallVec<[i64; 4]>,
    /// Device request of the task, and the devices that it will free.
    pub devices: Option<(DeviceRequest, DeviceSet)>,
    /// Whether the task is removed from the view, because it is lifted or to be evicted.
    lifted: bool,
}

impl Departure {
    fn new(task: TaskId, job: &Job, placed_ms: u64) -> Departure {
        let at_ms = job.runtime_estimate_ms.map(|run| placed_ms.saturating_add(run));
        Departure { task, at_ms, amounts: SmallVec::new(), devices: None, lifted: false }
    }
}

/// The task of an own claim.
pub(in crate::view) struct Claimed<'a> {
    pub(in crate::view) task: TaskId,
    pub(in crate::view) job: &'a Job,
    /// The cell's present time.
    pub(in crate::view) now_ms: u64,
    pub(in crate::view) request: &'a [i64],
    /// Device request of the task, and the devices that it will get.
    pub(in crate::view) devices: Option<(DeviceRequest, DeviceSet)>,
}

/// The departures of all rows. See the module documentation.
#[derive(Debug, Default)]
pub(in crate::view) struct Departures {
    jobs: FastMap<JobId, Arc<Job>>,
    /// The row of each placed task.
    rows_of: FastMap<TaskId, u32>,
    rows: Vec<Vec<Departure>>,
}

impl Departures {
    /// Applies a delta.
    pub(in crate::view) fn apply(&mut self, delta: &Delta) {
        if delta.full {
            *self = Departures::default();
        }
        self.rows.resize_with(delta.rows, Vec::new);
        let (ended, known): (Vec<_>, Vec<_>) =
            delta.jobs.iter().partition(|change| change.job.is_none());
        for change in known {
            let Some(job) = &change.job else { continue };
            self.jobs.insert(change.id, job.clone());
        }
        delta.tasks_held().for_each(|holding| self.set_task(holding.task, holding.held));
        let ended = ended.into_iter().filter(|change| self.jobs.remove(&change.id).is_some());
        let ended: Vec<JobId> = ended.map(|change| change.id).collect();
        if !ended.is_empty() {
            // The delta does not list the tasks of a job that ended and was forgotten between two syncs.
            let strays = self.rows_of.extract_if(|task, _| ended.contains(&task.job));
            for (task, row) in strays.collect::<Vec<_>>() {
                self.remove(row as usize, task);
            }
        }
    }

    fn set_task(&mut self, task: &TaskDelta, held: Option<&Amounts>) {
        if let Some(row) = self.rows_of.remove(&task.id) {
            self.remove(row as usize, task.id);
        }
        let Some(machine) = task.state.machine() else { return };
        let Some(job) = self.jobs.get(&task.id.job) else { return };
        let Some(group) = job.groups.get(usize::from(task.group)) else { return };
        let amounts = held.unwrap_or(&group.request).as_slice();
        let wanted = group.optional.as_ref().and_then(|optional| optional.devices);
        let devices = group.devices.or(wanted).filter(|_| !task.devices.is_empty());
        let departure = Departure {
            amounts: amounts.iter().map(|amount| *amount as i64).collect(),
            devices: devices.map(|request| (request, task.devices)),
            ..Departure::new(task.id, job, task.placed_ms)
        };
        self.rows_of.insert(task.id, machine.slot);
        self.add(machine.row(), departure);
    }

    fn add(&mut self, row: usize, departure: Departure) {
        if let Some(row) = self.rows.get_mut(row) {
            row.push(departure);
        }
    }

    /// Removes the task of an own claim, or a task that has left.
    pub(in crate::view) fn remove(&mut self, row: usize, task: TaskId) {
        let Some(row) = self.rows.get_mut(row) else { return };
        if let Some(at) = row.iter().rposition(|departure| departure.task == task) {
            row.swap_remove(at);
        }
    }

    /// Adds the task of an own claim to a row, as if it were placed now.
    pub(in crate::view) fn claim(&mut self, row: usize, claimed: Claimed<'_>) {
        let Claimed { task, job, now_ms, request, devices } = claimed;
        let amounts = SmallVec::from_slice(request);
        let departure = Departure { amounts, devices, ..Departure::new(task, job, now_ms) };
        self.add(row, departure);
    }

    /// Records whether a placed task is removed from the view for now.
    pub(in crate::view) fn set_lifted(&mut self, row: usize, task: TaskId, lifted: bool) {
        let Some(row) = self.rows.get_mut(row) else { return };
        if let Some(departure) = row.iter_mut().find(|departure| departure.task == task) {
            departure.lifted = lifted;
        }
    }
}

impl View {
    /// Makes the view keep expected departures, for which it receives the jobs of all schedulers, and stamps of rows.
    #[must_use]
    pub fn with_departures(mut self) -> View {
        self.session.set_interest(Interest::AllJobs);
        self.rows.keep_row_stamps();
        self.indexes.keep_departures();
        self
    }

    /// Whether the view receives the jobs of all schedulers.
    #[must_use]
    pub fn hears_of_all_jobs(&self) -> bool {
        *self.interest() == Interest::AllJobs
    }

    /// The tasks that will leave the machine in a row, including own claims, in no particular order. Empty unless the
    /// view was made by [`View::with_departures`].
    pub fn departures_from(&self, row: usize) -> impl Iterator<Item = &Departure> {
        let rows = self.indexes.departures().map_or(&[][..], |departures| &departures.rows);
        rows.get(row).into_iter().flatten().filter(|departure| !departure.lifted)
    }
}
