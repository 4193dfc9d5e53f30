//! The state of the request frontend, and one step.
//!
//! ```text
//!   sync ─▶ ended containers ─▶ turns and machines ─▶ commit, with releases ─▶ settle
//! ```

use super::APPLICATIONS_MAX;
use super::messages::{
    Completed, Container, Counters, How, JoinError, Locality, Priority, Settings,
};
use super::places::Places;
use super::table::{Lines, Spot, Table};
use super::turns::Turns;
use crate::framework::profile::Profile;
use crate::frontends::{Left, Mark, Reply, Session};
use crate::placing::place::Placer;
use crate::queue::Nanos;
use crate::queue::dominant::{Share, Weight};
use omega_cellstate::{BLOCK, CellHandle, HandleError};
use omega_core::{Amounts, JobId, MachineId, TaskId, TaskState, Text, Transaction, Version};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, BTreeSet};

/// Priority and container size of a request. The size is given as the position of a group in its job.
pub(super) type Key = (Priority, usize);

/// State of an application that has joined.
#[derive(Debug, Default)]
pub(super) struct Application {
    pub(super) tables: BTreeMap<Key, Table>,
    /// Blacklisted machines, by name.
    pub(super) refused: BTreeSet<Text>,
    /// Containers that were allocated and not yet reported to the application in a heartbeat's answer.
    pub(super) untold: Vec<Given>,
    pub(super) completed: Vec<Completed>,
    pub(super) last_heartbeat: Nanos,
    pub(super) is_over: bool,
}

impl Application {
    /// Whether the application requests containers.
    pub(super) fn wants(&self) -> bool {
        !self.is_over && self.tables.values().any(|table| table.total() > 0)
    }
}

/// A container for which a machine was claimed. The cell's result, or the report to the application, is still to come.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: Key,
    pub(super) container: Container,
    pub(super) rack: Option<Text>,
    pub(super) lines: Lines,
    pub(super) since: Nanos,
}

impl Given {
    pub(super) fn spot(&self) -> Spot<'_> {
        Spot { machine: &self.container.machine_name, rack: self.rack.as_ref() }
    }
}

/// The request frontend: places containers that applications request. See [`crate::yarn`].
#[derive(Debug)]
pub struct Frontend {
    pub(super) session: Session,
    pub(super) settings: Settings,
    pub(super) profile: Profile,
    pub(super) placer: Placer,
    pub(super) rng: Pcg64,
    pub(super) applications: BTreeMap<JobId, Application>,
    pub(super) weights: BTreeMap<Text, Weight>,
    pub(super) places: Places,
    /// Turns at the end of the last round; `None` if requests, weights or machines have changed since.
    pub(super) turns: Option<Turns>,
    /// Containers for which a machine was claimed, while the cell has not answered; in the order of the view's claims.
    pub(super) given: Vec<Given>,
    /// Containers that their application has released, but that the cell still reports as running.
    pub(super) releasing: BTreeSet<TaskId>,
    /// Free resources as of the last step; computed when first needed.
    headroom: Option<Amounts>,
    pub(super) counters: Counters,
}

impl Frontend {
    /// Registers a frontend at a cell. If a request allows any machine, the profile chooses one.
    ///
    /// # Errors
    /// If the cell cannot be reached or rejects the name.
    pub fn new(
        cell: &(impl CellHandle + ?Sized),
        profile: Profile,
        settings: Settings,
    ) -> Result<Frontend, HandleError> {
        let mut session = Session::new(cell, settings.name.clone())?;
        profile.prepare(&mut session.view);
        Ok(Frontend {
            session,
            profile,
            placer: Placer::default(),
            rng: Pcg64::seed_from_u64(settings.seed),
            settings,
            applications: BTreeMap::new(),
            weights: BTreeMap::new(),
            places: Places::default(),
            turns: None,
            given: Vec::new(),
            releasing: BTreeSet::new(),
            headroom: None,
            counters: Counters::default(),
        })
    }

    /// Sets the weight of a queue, which is a tenant. The default is 1.
    pub fn set_weight(&mut self, tenant: Text, weight: Weight) {
        self.weights.insert(tenant, weight);
        self.turns = None;
    }

    /// Registers the application whose job has this name, and returns the job's id.
    ///
    /// If the application restarts, its containers are kept; [`Frontend::containers_of`] lists them.
    ///
    /// # Errors
    /// If the frontend has no such job, if the application has already joined, or if the maximum number of applications
    /// has joined.
    pub fn join(&mut self, job: &str, now: Nanos) -> Result<JobId, JoinError> {
        let mut jobs = self.session.task_index.jobs();
        let Some((id, _)) = jobs.find(|(_, entry)| *entry.job.name == *job) else {
            return Err(JoinError::UnknownJob(job.into()));
        };
        if self.applications.contains_key(&id) {
            return Err(JoinError::Joined(id));
        }
        if self.applications.len() >= APPLICATIONS_MAX {
            return Err(JoinError::TooMany);
        }
        self.applications.insert(id, Application { last_heartbeat: now, ..Application::default() });
        Ok(id)
    }

    /// Removes an application with all its requests. Its containers stay until their tasks end. Returns whether the
    /// application was registered.
    pub fn leave(&mut self, id: JobId) -> bool {
        self.releasing.retain(|task| task.job != id);
        self.applications.remove(&id).is_some()
    }

    /// Runs one round, and returns the number of allocated containers.
    ///
    /// `now` is the time in nanoseconds since any fixed time, and must not decrease from call to call.
    ///
    /// # Errors
    /// If the cell cannot be reached. The frontend stays consistent: call `step` again later.
    pub fn step(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
    ) -> Result<usize, HandleError> {
        let mut allocated = 0;
        if let Some((txn, reply)) = self.session.ask_again(cell)? {
            allocated += self.settle(&txn, reply, now)?;
        }
        self.session.sync(cell)?;
        self.headroom = None;
        let delta = self.session.view.delta();
        self.places.apply(delta, &self.settings.rack);
        if delta.full || !delta.machines.is_empty() {
            self.turns = None;
        }
        if delta.full {
            self.profile.prepare(&mut self.session.view);
        }
        self.record_ended();
        self.forget_silent(now);
        self.decide(now);
        let releases = self.releases();
        if let Some((txn, reply)) = self.session.submit(cell, releases)? {
            allocated += self.settle(&txn, reply, now)?;
        }
        self.counters.rounds += 1;
        Ok(allocated)
    }

    /// Records ended containers, and applications whose job has ended.
    fn record_ended(&mut self) {
        for Left { task, machine, state, .. } in self.session.task_index.take_left() {
            let was_released = self.releasing.remove(&task);
            let Some(application) = self.applications.get_mut(&task.job) else { continue };
            let how = match state {
                None => How::JobOver,
                Some(TaskState::Finished) => How::Finished,
                Some(TaskState::Failed) => How::Failed,
                Some(TaskState::Killed) => How::Killed,
                Some(_) if was_released => How::Released,
                Some(_) => How::Displaced,
            };
            self.counters.released += u64::from(how == How::Released);
            self.counters.completed += 1;
            application.completed.push(Completed { task, machine, how });
        }
        let delta = self.session.view.delta();
        if delta.full {
            let task_index = &self.session.task_index;
            for (id, application) in &mut self.applications {
                application.is_over |= task_index.job(*id).is_none();
            }
        }
        for change in delta.jobs.iter().filter(|change| change.job.is_none()) {
            if let Some(application) = self.applications.get_mut(&change.id) {
                application.is_over = true;
            }
        }
    }

    /// Removes applications whose job has ended, and which have sent no heartbeat for too long.
    fn forget_silent(&mut self, now: Nanos) {
        let Some(silence) = self.settings.silence_max else { return };
        self.applications.retain(|_, application| {
            !application.is_over || now.saturating_sub(application.last_heartbeat) < silence
        });
    }

    /// Returns the containers that applications have released, as many as fit into one transaction beside the claims.
    fn releases(&self) -> Vec<TaskId> {
        let most = omega_core::limits::TRANSACTION_ITEMS_MAX - self.session.view.open_claims();
        self.releasing.iter().take(most).copied().collect()
    }

    /// Handles the cell's answer to a transaction. Returns the number of containers allocated.
    fn settle(
        &mut self,
        txn: &Transaction,
        reply: Reply,
        now: Nanos,
    ) -> Result<usize, HandleError> {
        let mut allocated = 0;
        let given = std::mem::take(&mut self.given);
        let tasks = given.iter().map(|given| given.container.task);
        debug_assert!(tasks.eq(txn.claims.iter().map(|claim| claim.task)), "the same order");
        for (index, given) in given.into_iter().enumerate() {
            let is_taken = match &reply {
                Reply::Checked(commit) => {
                    let conflict = commit.conflict_of_claim(index);
                    self.counters.conflicts += u64::from(conflict.is_some());
                    conflict.is_none()
                }
                Reply::Dropped(_) => false,
            };
            allocated += usize::from(is_taken);
            if is_taken { self.allocated(given, now) } else { self.refused(&given) }
        }
        match reply {
            Reply::Checked(_) => Ok(allocated),
            Reply::Dropped(error) => Err(error),
        }
    }

    fn allocated(&mut self, given: Given, now: Nanos) {
        let locality = given.container.locality;
        match locality {
            Locality::Machine => self.counters.on_machine += 1,
            Locality::Rack => self.counters.in_rack += 1,
            Locality::Elsewhere => self.counters.elsewhere += 1,
        }
        let waited = now.saturating_sub(given.since);
        self.counters.waited = self.counters.waited.saturating_add(waited);
        self.counters.waited_max = self.counters.waited_max.max(waited);
        // If the application has left, the container is not reported.
        let Some(application) = self.applications.get_mut(&given.container.task.job) else {
            return;
        };
        if let Some(table) = application.tables.get_mut(&given.key) {
            table.served(locality);
        }
        application.untold.push(given);
    }

    /// Requests the container of a rejected claim again.
    fn refused(&mut self, given: &Given) {
        let Some(application) = self.applications.get_mut(&given.container.task.job) else {
            return;
        };
        application.tables.entry(given.key).or_default().give_back(given.spot(), given.lines);
    }

    // --- Queries ---------------------------------------------------------------------------------

    /// The containers of an application, ascending by task.
    pub fn containers_of(&self, id: JobId) -> impl Iterator<Item = (TaskId, MachineId)> + '_ {
        let entry = self.session.task_index.job(id).into_iter();
        entry.flat_map(move |entry| {
            (0..entry.task_count() as u32).filter_map(move |index| match entry.task(index) {
                Some((_, Mark::Placed(machine))) => Some((TaskId { job: id, index }, machine)),
                _ => None,
            })
        })
    }

    /// The dominant share of an application.
    #[must_use]
    pub fn share(&self, id: JobId) -> Option<Share> {
        let entry = self.session.task_index.job(id)?;
        Some(self.session.totals.share([&entry.used], Weight::ONE))
    }

    /// The weighted dominant share of a queue.
    #[must_use]
    pub fn queue_share(&self, tenant: &str) -> Share {
        let weight = self.weights.get(tenant).copied().unwrap_or(Weight::ONE);
        self.session.totals.share(self.session.task_index.used_by(tenant), weight)
    }

    /// The version of the cell that the frontend's view shows.
    #[must_use]
    pub fn version(&self) -> Version {
        self.session.view.version()
    }

    /// Counters since the frontend began.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the free resources of all machines that accept tasks. The first call after a step computes the sum.
    pub(super) fn headroom(&mut self) -> Amounts {
        let view = &self.session.view;
        let sum = || {
            let sum = |kind| {
                let mut sum = 0u64;
                for index in 0..view.blocks() {
                    let block = view.block(index);
                    let word = block.schedulable();
                    let lanes = (0..BLOCK).filter(|lane| word >> lane & 1 == 1);
                    let free = block.free(kind);
                    sum = lanes.fold(sum, |sum, lane| sum.saturating_add(free[lane].max(0) as u64));
                }
                sum
            };
            Amounts::new(view.kinds().iter().map(|(kind, _)| sum(kind)))
        };
        self.headroom.get_or_insert_with(sum).clone()
    }
}
