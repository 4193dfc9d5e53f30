//! Expected departures: the times at which the tasks on each machine should end, for schedulers that plan ahead.
//!
//! A view that keeps departures receives the jobs of all schedulers. A task's departure is at its placement time plus
//! its job's runtime estimate, and frees its allocation. The view's own claims are included, because they are subtracted
//! from the free amounts. When a delta includes an accepted claim, its departure is kept, and only its time changes.
//!
//! Invariant: the amounts of a row's departures, except those marked `lifted`, add up to the machine's claims in the
//! view.

use crate::delta::{Delta, Interest, TaskDelta};
use crate::state::map::FastMap;
use crate::view::View;
use omega_core::{Amounts, DeviceRequest, DeviceSet, Job, JobId, TaskId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
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
    /// Time of the placement.
    placed_ms: u64,
    /// Whether the allocation differs from the request of the task's group.
    was_resized: bool,
    /// Whether the task is removed from the view, because it is lifted or to be evicted.
    lifted: bool,
}

impl Departure {
    fn new(task: TaskId, job: &Job, placed_ms: u64) -> Departure {
        let at_ms = job.runtime_estimate_ms.map(|run| placed_ms.saturating_add(run));
        let (amounts, devices) = (SmallVec::new(), None);
        let (was_resized, lifted) = (false, false);
        Departure { task, at_ms, amounts, devices, placed_ms, was_resized, lifted }
    }

    /// Whether a placed task frees its group's request, as before.
    fn frees_the_same(&self, task: &TaskDelta, held: Option<&Amounts>) -> bool {
        let is_simple = !self.was_resized && self.devices.is_none();
        is_simple && held.is_none() && task.devices.is_empty()
    }

    fn set_placed(&mut self, placed_ms: u64) {
        if let Some(at_ms) = &mut self.at_ms {
            *at_ms = (*at_ms - self.placed_ms).saturating_add(placed_ms);
        }
        self.placed_ms = placed_ms;
        self.lifted = false;
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

/// A departure, and its row.
#[derive(Debug)]
struct Entry {
    departure: Departure,
    row: u32,
}

/// Number of entries in a chunk of the list.
const CHUNK: usize = 1024;

/// A list of entries in chunks, because copying all entries to a longer list would take too much time.
#[derive(Debug, Default)]
struct Entries {
    chunks: Vec<Vec<Entry>>,
    /// Positions whose entries were removed.
    vacant: Vec<u32>,
}

impl Entries {
    fn get(&self, position: u32) -> &Entry {
        &self.chunks[position as usize / CHUNK][position as usize % CHUNK]
    }

    fn get_mut(&mut self, position: u32) -> &mut Entry {
        &mut self.chunks[position as usize / CHUNK][position as usize % CHUNK]
    }

    /// Adds an entry, and returns its position.
    fn add(&mut self, entry: Entry) -> u32 {
        if let Some(position) = self.vacant.pop() {
            *self.get_mut(position) = entry;
            return position;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        self.chunks[last].push(entry);
        (last * CHUNK + self.chunks[last].len() - 1) as u32
    }

    fn remove(&mut self, position: u32) {
        self.vacant.push(position);
    }
}

/// The departures of all rows. See the module documentation.
///
/// Rows and tasks have positions in a list of all departures. So a claim writes to the end of the list or to memory that
/// was used last, and not to memory of its row.
#[derive(Debug, Default)]
pub(in crate::view) struct Departures {
    jobs: FastMap<JobId, Arc<Job>>,
    entries: Entries,
    /// Positions of the departures from each row.
    rows: Vec<Vec<u32>>,
    /// Positions of placed tasks.
    placed: BTreeMap<TaskId, u32>,
    /// Positions of own claims that no delta has included yet. During a sync, they are those that the delta includes.
    claimed: FastMap<TaskId, u32>,
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
        for (_, position) in std::mem::take(&mut self.claimed) {
            self.vacate(position);
        }
        for job in ended {
            if self.jobs.remove(&job.id).is_some() {
                self.remove_tasks(job.id);
            }
        }
    }

    /// Removes the tasks of a job. A delta does not list the tasks of a job that ended and was forgotten between two
    /// syncs.
    fn remove_tasks(&mut self, job: JobId) {
        let of_job = TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX };
        let tasks: SmallVec<[TaskId; 4]> =
            self.placed.range(of_job).map(|(task, _)| *task).collect();
        for position in tasks.iter().filter_map(|task| self.placed.remove(task)).collect::<Vec<_>>()
        {
            self.vacate(position);
        }
    }

    fn set_task(&mut self, task: &TaskDelta, held: Option<&Amounts>) {
        let machine = task.state.machine();
        if let Some(position) = self.find(task.id) {
            let Entry { departure, row } = self.entries.get_mut(position);
            let stays = machine.is_some_and(|machine| machine.slot == *row);
            if stays && departure.frees_the_same(task, held) {
                departure.set_placed(task.placed_ms);
                return;
            }
            self.placed.remove(&task.id);
            self.vacate(position);
        }
        let Some(machine) = machine else { return };
        let Some(departure) = self.departure(task, held) else { return };
        if let Some(position) = self.add(machine.row(), departure) {
            self.placed.insert(task.id, position);
        }
    }

    /// Returns the position of a placed task. An own claim becomes a placed task, because the delta includes it.
    fn find(&mut self, task: TaskId) -> Option<u32> {
        let Some(position) = self.claimed.remove(&task) else {
            return self.placed.get(&task).copied();
        };
        if let Some(before) = self.placed.insert(task, position) {
            self.vacate(before);
        }
        Some(position)
    }

    fn departure(&self, task: &TaskDelta, held: Option<&Amounts>) -> Option<Departure> {
        let job = self.jobs.get(&task.id.job)?;
        let group = job.groups.get(usize::from(task.group))?;
        let amounts = held.unwrap_or(&group.request).as_slice();
        let wanted = group.optional.as_ref().and_then(|optional| optional.devices);
        let devices = group.devices.or(wanted).filter(|_| !task.devices.is_empty());
        Some(Departure {
            amounts: amounts.iter().map(|amount| *amount as i64).collect(),
            devices: devices.map(|request| (request, task.devices)),
            was_resized: held.is_some(),
            ..Departure::new(task.id, job, task.placed_ms)
        })
    }

    /// Adds a departure from a row, and returns its position. `None` if there is no such row.
    fn add(&mut self, row: usize, departure: Departure) -> Option<u32> {
        let positions = self.rows.get_mut(row)?;
        let position = self.entries.add(Entry { departure, row: row as u32 });
        positions.push(position);
        Some(position)
    }

    fn vacate(&mut self, position: u32) {
        let row = self.entries.get(position).row;
        self.entries.remove(position);
        let Some(positions) = self.rows.get_mut(row as usize) else { return };
        if let Some(at) = positions.iter().rposition(|other| *other == position) {
            positions.swap_remove(at);
        }
    }

    /// Adds the task of an own claim to a row, as if it were placed now.
    pub(in crate::view) fn claim(&mut self, row: usize, claimed: Claimed<'_>) {
        let Claimed { task, job, now_ms, request, devices } = claimed;
        let amounts = SmallVec::from_slice(request);
        let departure = Departure { amounts, devices, ..Departure::new(task, job, now_ms) };
        if let Some(position) = self.add(row, departure) {
            self.claimed.insert(task, position);
        }
    }

    /// Removes the task of an own claim.
    pub(in crate::view) fn drop_claim(&mut self, task: TaskId) {
        if let Some(position) = self.claimed.remove(&task) {
            self.vacate(position);
        }
    }

    /// Records whether a placed task is removed from the view for now.
    pub(in crate::view) fn set_lifted(&mut self, task: TaskId, lifted: bool) {
        if let Some(position) = self.placed.get(&task) {
            self.entries.get_mut(*position).departure.lifted = lifted;
        }
    }

    fn of_row(&self, row: usize) -> impl Iterator<Item = &Departure> {
        let positions = self.rows.get(row).into_iter().flatten();
        positions.map(|position| &self.entries.get(*position).departure)
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
        let departures = self.indexes.departures().into_iter();
        departures.flat_map(move |all| all.of_row(row)).filter(|departure| !departure.lifted)
    }
}
