//! Expected departures: the times at which the tasks on each machine should end, for schedulers that plan ahead.
//!
//! A view that keeps departures receives the jobs of all schedulers. A task's departure is at its placement time plus
//! its job's runtime estimate, and frees its allocation. The view's own claims are included, because they are subtracted
//! from the free amounts. When a delta includes an accepted claim, its departure is kept, and only its time changes.
//!
//! Invariant: unless a task on the row has demand profiles, the amounts of the row's departures, except those marked
//! `lifted`, add up to the machine's claims in the view.

use crate::delta::{Delta, Interest, TaskDelta};
use crate::state::map::FastMap;
use crate::view::View;
use omega_core::{Amounts, DeviceRequest, DeviceSet, Job, JobId, Take, TaskId};
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A task that will leave a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Id of the task.
    pub task: TaskId,
    /// Amounts that the task will free, by kind.
    pub amounts: SmallVec<[i64; 4]>,
    /// Device request of the task, and the devices that it will free.
    pub devices: Option<(DeviceRequest, DeviceSet)>,
    placed_ms: u64,
    run_ms: Option<u64>,
    /// Whether the allocation may differ from the request of the task's group.
    is_special: bool,
    /// Whether the task is removed from the view, because it is lifted or to be evicted.
    lifted: bool,
}

impl Departure {
    fn new(task: TaskId, job: &Job, placed_ms: u64) -> Departure {
        Departure {
            task,
            amounts: SmallVec::new(),
            devices: None,
            placed_ms,
            run_ms: job.runtime_estimate_ms,
            is_special: false,
            lifted: false,
        }
    }

    /// Expected time of departure, by the cell's clock. The time may be in the past. `None` if the job has no runtime
    /// estimate.
    #[must_use]
    pub fn at_ms(&self) -> Option<u64> {
        self.run_ms.map(|run_ms| self.placed_ms.saturating_add(run_ms))
    }

    /// Whether this departure and a placed task both free the request of the task's group, without devices.
    fn frees_the_same(&self, task: &TaskDelta, allocation: Option<&Amounts>) -> bool {
        let is_simple = !self.is_special && self.devices.is_none();
        is_simple && allocation.is_none() && task.devices.is_empty()
    }
}

/// The task of an own claim.
pub(in crate::view) struct Claimed<'a> {
    pub(in crate::view) task: TaskId,
    pub(in crate::view) job: &'a Job,
    /// The cell's present time.
    pub(in crate::view) now_ms: u64,
    pub(in crate::view) take: Take,
    pub(in crate::view) request: &'a [i64],
    /// Device request of the task, and the devices that it will get.
    pub(in crate::view) devices: Option<(DeviceRequest, DeviceSet)>,
}

/// A departure, and its row.
#[derive(Debug)]
struct Listed {
    departure: Departure,
    row: u32,
}

/// Number of entries in a chunk of the list.
const CHUNK: usize = 1024;

/// A list of entries in chunks, because copying all entries to a longer list would take too much time.
#[derive(Debug, Default)]
struct Entries {
    chunks: Vec<Vec<Listed>>,
    /// Positions whose entries were removed.
    vacant: Vec<u32>,
}

impl Entries {
    fn get(&self, position: u32) -> &Listed {
        &self.chunks[position as usize / CHUNK][position as usize % CHUNK]
    }

    fn get_mut(&mut self, position: u32) -> &mut Listed {
        &mut self.chunks[position as usize / CHUNK][position as usize % CHUNK]
    }

    /// Adds an entry, and returns its position.
    fn add(&mut self, entry: Listed) -> u32 {
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
/// Rows and tasks have positions in a list of all departures. So a claim writes its departure to the end of the list, or
/// to memory that was used last.
#[derive(Debug, Default)]
pub(in crate::view) struct Departures {
    jobs: FastMap<JobId, Arc<Job>>,
    /// Jobs whose runtime estimate has changed. An own claim may have an old one.
    estimated_anew: BTreeSet<JobId>,
    entries: Entries,
    /// Positions of the departures from each row.
    rows: Vec<Vec<u32>>,
    /// Positions of placed tasks.
    placed: BTreeMap<TaskId, u32>,
    /// Positions of own claims, by task and row, until a delta includes them. A task may have two claims: one that was
    /// accepted before the task left its machine, and a newer one.
    claimed: FastMap<(TaskId, u32), SmallVec<[u32; 1]>>,
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
            let before = self.jobs.insert(change.id, job.clone());
            let run_ms = job.runtime_estimate_ms;
            if before.is_some_and(|before| before.runtime_estimate_ms != run_ms) {
                self.estimated_anew.insert(change.id);
                for position in self.tasks_of(change.id) {
                    self.entries.get_mut(position).departure.run_ms = run_ms;
                }
            }
        }
        delta
            .tasks_with_allocations()
            .for_each(|placed| self.set_task(placed.task, placed.allocation));
        if !self.claimed.is_empty() {
            // The other claims were given back before the sync. The tasks of these have left their machines since.
            let left: Vec<_> = self.claimed.drain().collect();
            left.into_iter().flat_map(|(_, positions)| positions).for_each(|at| self.vacate(at));
        }
        for job in ended {
            self.estimated_anew.remove(&job.id);
            if self.jobs.remove(&job.id).is_some() {
                self.remove_tasks(job.id);
            }
        }
    }

    /// Positions of the placed tasks of a job.
    fn tasks_of(&self, job: JobId) -> SmallVec<[u32; 4]> {
        let tasks = TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX };
        self.placed.range(tasks).map(|(_, position)| *position).collect()
    }

    /// Removes the tasks of a job. A delta does not list the tasks of a job that ended and was forgotten between two
    /// syncs.
    fn remove_tasks(&mut self, job: JobId) {
        for position in self.tasks_of(job) {
            self.placed.remove(&self.entries.get(position).departure.task);
            self.vacate(position);
        }
    }

    fn set_task(&mut self, task: &TaskDelta, allocation: Option<&Amounts>) {
        let machine = task.state.machine();
        if let Some(position) = self.place(task.id, machine.map(|machine| machine.slot)) {
            let Listed { departure, row } = self.entries.get_mut(position);
            let stays = machine.is_some_and(|machine| machine.slot == *row);
            if stays && departure.frees_the_same(task, allocation) {
                (departure.placed_ms, departure.lifted) = (task.placed_ms, false);
                if self.estimated_anew.contains(&task.id.job) {
                    let job = self.jobs.get(&task.id.job);
                    departure.run_ms = job.and_then(|job| job.runtime_estimate_ms);
                }
                return;
            }
            self.placed.remove(&task.id);
            self.vacate(position);
        }
        let Some(machine) = machine else { return };
        let Some(departure) = self.departure(task, allocation) else { return };
        if let Some(position) = self.add(machine.row(), departure) {
            self.placed.insert(task.id, position);
        }
    }

    /// Makes an own claim for a task on a row, if there is one, a placed task. Returns the position of the placed task.
    fn place(&mut self, task: TaskId, row: Option<u32>) -> Option<u32> {
        let claimed = row.and_then(|row| self.take_claim(task, row));
        let Some(position) = claimed else { return self.placed.get(&task).copied() };
        if let Some(before) = self.placed.insert(task, position) {
            self.vacate(before);
        }
        Some(position)
    }

    fn take_claim(&mut self, task: TaskId, row: u32) -> Option<u32> {
        let mut claims = match self.claimed.entry((task, row)) {
            Entry::Occupied(claims) => claims,
            Entry::Vacant(_) => return None,
        };
        let position = claims.get_mut().pop();
        if claims.get().is_empty() {
            claims.remove();
        }
        position
    }

    fn departure(&self, task: &TaskDelta, allocation: Option<&Amounts>) -> Option<Departure> {
        let job = self.jobs.get(&task.id.job)?;
        let group = job.groups.get(usize::from(task.group))?;
        let amounts = allocation.unwrap_or(&group.request).as_slice();
        let wanted = group.optional.as_ref().and_then(|optional| optional.devices);
        let devices = group.devices.or(wanted).filter(|_| !task.devices.is_empty());
        Some(Departure {
            amounts: amounts.iter().map(|amount| *amount as i64).collect(),
            devices: devices.map(|request| (request, task.devices)),
            is_special: allocation.is_some(),
            ..Departure::new(task.id, job, task.placed_ms)
        })
    }

    /// Adds a departure from a row, and returns its position. `None` if there is no such row.
    fn add(&mut self, row: usize, departure: Departure) -> Option<u32> {
        let positions = self.rows.get_mut(row)?;
        let position = self.entries.add(Listed { departure, row: row as u32 });
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
        let Claimed { task, job, now_ms, take, request, devices } = claimed;
        let departure = Departure {
            amounts: SmallVec::from_slice(request),
            devices,
            is_special: take == Take::WithOptional,
            ..Departure::new(task, job, now_ms)
        };
        if let Some(position) = self.add(row, departure) {
            self.claimed.entry((task, row as u32)).or_default().push(position);
        }
    }

    /// Removes the task of an own claim.
    pub(in crate::view) fn drop_claim(&mut self, task: TaskId, row: usize) {
        if let Some(position) = self.take_claim(task, row as u32) {
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
    pub fn receives_all_jobs(&self) -> bool {
        *self.interest() == Interest::AllJobs
    }

    /// The tasks that will leave the machine in a row, including own claims, in no particular order. Empty unless the
    /// view was made by [`View::with_departures`].
    pub fn departures_from(&self, row: usize) -> impl Iterator<Item = &Departure> {
        let departures = self.indexes.departures().into_iter();
        departures.flat_map(move |all| all.of_row(row)).filter(|departure| !departure.lifted)
    }
}
