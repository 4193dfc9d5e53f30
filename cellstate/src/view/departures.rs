//! When the tasks on each machine are expected to leave it, for schedulers that plan ahead.
//!
//! A view that keeps departures hears of every job, whoever places it. What a task leaves behind is what it holds;
//! when, is when it was placed and how long its job says that its tasks run. Own claims that were not answered yet
//! are there, too: they are off the view, and so they leave it some day like all else.
//!
//! Invariant: what is on a row, but for what was lifted, is what is claimed of it as the view shows it.

use super::View;
use crate::delta::{Delta, Interest, TaskDelta};
use crate::map::FastMap;
use omega_core::{Amounts, DeviceRequest, DeviceSet, Job, JobId, TaskId};
use smallvec::SmallVec;
use std::sync::Arc;

/// A task that leaves a machine some day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Which.
    pub task: TaskId,
    /// When it is expected to, by the cell's time; `None` if nobody says how long it runs. It may be over.
    pub at_ms: Option<u64>,
    /// What it leaves, by kind.
    pub amounts: SmallVec<[i64; 4]>,
    /// The devices that it leaves, and what of each.
    pub devices: Option<(DeviceRequest, DeviceSet)>,
    /// Whether it is off the view, because it was lifted or is to be evicted.
    lifted: bool,
}

impl Departure {
    fn new(task: TaskId, (placed_ms, job): (u64, &Job)) -> Departure {
        let at_ms = job.runtime_estimate_ms.map(|run| placed_ms.saturating_add(run));
        Departure { task, at_ms, amounts: SmallVec::new(), devices: None, lifted: false }
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Departures {
    jobs: FastMap<JobId, Arc<Job>>,
    /// The row of each task that the cell has placed.
    rows_of: FastMap<TaskId, u32>,
    rows: Vec<Vec<Departure>>,
}

impl Departures {
    /// Takes in what a delta tells.
    pub(super) fn apply(&mut self, delta: &Delta) {
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
            // Of a job that ended and was forgotten since the last sync, no task is in the delta.
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
            ..Departure::new(task.id, (task.placed_ms, job))
        };
        self.rows_of.insert(task.id, machine.slot);
        self.add(machine.row(), departure);
    }

    fn add(&mut self, row: usize, departure: Departure) {
        if let Some(row) = self.rows.get_mut(row) {
            row.push(departure);
        }
    }

    /// Drops the task of an own claim, or one that has left.
    pub(super) fn remove(&mut self, row: usize, task: TaskId) {
        let Some(row) = self.rows.get_mut(row) else { return };
        if let Some(at) = row.iter().rposition(|departure| departure.task == task) {
            row.swap_remove(at);
        }
    }

    /// Adds the task of an own claim, that would be placed now.
    pub(super) fn claim(
        &mut self,
        (row, task): (usize, TaskId),
        (now_ms, job): (u64, &Job),
        (amounts, devices): (&[i64], Option<(DeviceRequest, DeviceSet)>),
    ) {
        let amounts = SmallVec::from_slice(amounts);
        let departure = Departure { amounts, devices, ..Departure::new(task, (now_ms, job)) };
        self.add(row, departure);
    }

    /// Notes that a placed task is off the view, or on it again.
    pub(super) fn set_lifted(&mut self, row: usize, task: TaskId, lifted: bool) {
        let Some(row) = self.rows.get_mut(row) else { return };
        if let Some(departure) = row.iter_mut().find(|departure| departure.task == task) {
            departure.lifted = lifted;
        }
    }
}

impl View {
    /// The same, keeping when the tasks on each machine are expected to leave it. It hears of every job then.
    #[must_use]
    pub fn with_departures(mut self) -> View {
        self.interest = Interest::AllJobs;
        self.departures = Some(Box::default());
        self
    }

    /// Whether it hears of every job, whichever scheduler is to place it.
    #[must_use]
    pub fn hears_of_all_jobs(&self) -> bool {
        self.interest == Interest::AllJobs
    }

    /// The tasks that leave the machine in a row some day, own claims among them, in no order. None unless the
    /// view was made by [`View::with_departures`].
    pub fn departures_from(&self, row: usize) -> impl Iterator<Item = &Departure> {
        let rows = self.departures.as_deref().map_or(&[][..], |departures| &departures.rows);
        rows.get(row).into_iter().flatten().filter(|departure| !departure.lifted)
    }
}
