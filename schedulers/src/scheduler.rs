//! A scheduler: sync, decide, commit, settle, again.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │
//!     sync ──▶ queue ──▶ decide (place jobs on the view) ──▶ commit ──▶ settle
//!     delta    next job   until the transaction is full       │           │ taken: done
//!                                                             ▼           │ conflict: queue
//!                                                           cell          │ no room: queue
//! ```
//!
//! One step is one round. A scheduler reads no clock and draws no chance of its own: the time
//! comes in with the step, the seed with the settings. Whoever drives it (a thread, a simulator)
//! can measure it through an [`Observer`].

use crate::crowding::{Crowding, is_of_a_place};
use crate::place::{Placement, Placer};
use crate::plugin::Reads;
use crate::profile::Profile;
use crate::queue::{Nanos, Queue, Verdict};
use crate::search::{Home, Search};
use omega_cellstate::{CellHandle, HandleError, Interest, Share, View};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{
    Commit, ConflictCheck, Granularity, Job, JobId, Reason, TaskId, Text, Transaction, Version,
};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use smallvec::SmallVec;
use std::sync::Arc;

/// What happens in a step, for whoever measures. Every method does nothing by default.
pub trait Observer {
    /// A decision begins.
    fn deciding(&mut self) {}

    /// A decision has ended: so many tasks of a job were asked for, and so many have a machine in
    /// the view.
    fn decided(&mut self, _job: JobId, _asked: usize, _placed: usize) {}

    /// A transaction was answered.
    fn committed(&mut self, _txn: &Transaction, _commit: &Commit) {}

    /// There is nothing to do as of this version: no job has its turn.
    fn idle(&mut self, _version: Version, _queue: &Queue) {}
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// How a scheduler works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name under which it registers; each running scheduler needs one of its own.
    pub name: Text,
    /// The scheduler name of the jobs that it takes.
    pub takes: Text,
    /// Which of those jobs, if several workers divide them.
    pub share: Share,
    /// How it places.
    pub placement: Placement,
    /// How many claims it puts into one transaction.
    pub claims_max: usize,
    /// What happens to the rest of a transaction of which a part conflicts.
    pub granularity: Granularity,
    /// What counts as a conflict.
    pub check: ConflictCheck,
    /// The seed of its choices.
    pub seed: u64,
}

/// Claims in one transaction by default: enough that sync and commit no longer count, few enough
/// that what a transaction collides with stays small.
const CLAIMS_DEFAULT: usize = 100;

impl Settings {
    /// The settings of the only scheduler of this name.
    pub fn new(name: impl Into<Text>) -> Settings {
        let name = name.into();
        Settings {
            takes: name.clone(),
            name,
            share: Share::ALL,
            placement: Placement::default(),
            claims_max: CLAIMS_DEFAULT,
            granularity: Granularity::Incremental,
            check: ConflictCheck::ResourceFit,
            seed: 0,
        }
    }

    /// The settings of worker `index` of `of`, which divide the jobs of this name. Each has a
    /// home in the cell, so that they seldom meet.
    #[must_use]
    pub fn worker(name: &str, index: u32, of: u32) -> Settings {
        let placement = Placement { home: Home { index, of }, reuse: true, ..Placement::default() };
        Settings {
            name: format!("{name}-{index}").into(),
            takes: name.into(),
            share: Share { index, of },
            placement,
            seed: u64::from(index),
            ..Settings::new(name)
        }
    }

    /// The same with another search.
    #[must_use]
    pub fn with_search(mut self, search: Search) -> Settings {
        self.placement.search = search;
        self
    }

    /// The same with another seed; workers of one seed still choose differently.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Settings {
        self.seed = self.seed.wrapping_add(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        self
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// How many tasks were placed.
    pub placed: usize,
    /// How many claims were refused.
    pub conflicts: usize,
    /// Whether there was nothing to do: then wait for changes or for time to pass.
    pub idle: bool,
}

/// A scheduler over a cell. See the head of the file.
#[derive(Debug)]
pub struct Scheduler {
    view: View,
    profile: Profile,
    queue: Queue,
    placer: Placer,
    rng: Pcg64,
    settings: Settings,
    /// A transaction whose outcome is unknown, to be sent again first.
    unknown: Option<Transaction>,
    decided: Vec<Decided>,
    /// Jobs that found no room beside the claims of the open transaction.
    missed: Vec<JobId>,
    /// Counts what may have made room although no machine has more: see [`Scheduler::news`].
    other_news: u64,
    crowding: Crowding,
    tasks: Vec<TaskId>,
    /// Jobs of which what the view compiled is out of date.
    stale: Vec<JobId>,
}

/// A job's part of the open transaction.
#[derive(Clone, Copy, Debug)]
struct Decided {
    job: JobId,
    asked: usize,
    placed: usize,
    /// How many there was room for in the transaction: if all of it was used, tasks may be left for
    /// which there is room in the cell, of this group or the next.
    most: usize,
}

impl Decided {
    fn found_no_room(&self) -> bool {
        self.placed < self.asked && self.placed < self.most
    }
}

impl Scheduler {
    /// Registers a scheduler at a cell.
    ///
    /// # Errors
    /// If the cell cannot be reached or refuses the name.
    pub fn new(
        cell: &(impl CellHandle + ?Sized),
        profile: Profile,
        settings: Settings,
    ) -> Result<Scheduler, HandleError> {
        let (id, next) = cell.register(settings.name.clone())?;
        let interest = Interest::JobsOf(settings.takes.clone(), settings.share);
        let mut view = View::new(id, next).with_interest(interest);
        profile.prepare(&mut view);
        Ok(Scheduler {
            view,
            profile,
            queue: Queue::default(),
            placer: Placer::default(),
            rng: Pcg64::seed_from_u64(settings.seed),
            settings,
            unknown: None,
            decided: Vec::new(),
            missed: Vec::new(),
            other_news: 0,
            crowding: Crowding::default(),
            tasks: Vec::new(),
            stale: Vec::new(),
        })
    }

    /// Its view, as of the last step.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Its queue, as of the last step.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// How far it has widened its choice because its claims conflict: 0 is not at all, and each
    /// level doubles the number of machines that it chooses among.
    #[must_use]
    pub fn crowding(&self) -> u32 {
        self.crowding.level()
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Why the tasks of a group of a job find no machine now.
    #[must_use]
    pub fn explain(&mut self, job: JobId, group: usize) -> Option<crate::explain::Explanation> {
        let spec = self.queue.job(job).filter(|job| group < job.groups.len())?.clone();
        let group = self.view.compile(job, &spec, group);
        Some(crate::explain::explain(&self.view, &self.profile, group))
    }

    /// What keeps the tasks of a group of a job from finding a machine now, and what would help.
    #[must_use]
    pub fn diagnose(&mut self, job: JobId, group: usize) -> Option<crate::explain::Diagnosis> {
        let spec = self.queue.job(job).filter(|job| group < job.groups.len())?.clone();
        let group = self.view.compile(job, &spec, group);
        Some(crate::explain::diagnose(&self.view, &self.profile, group))
    }

    /// For how many of a job's waiting tasks there is room now, all at once: what a gang lacks is
    /// seen from it. It tries them on the view and takes them off again.
    pub fn room_for(&mut self, id: JobId) -> usize {
        let Some(job) = self.queue.job(id).cloned() else { return 0 };
        let mut tasks = Vec::new();
        let mut taken = Vec::new();
        let mut placed = 0;
        for index in 0..job.groups.len() {
            self.queue.take(id, index, TRANSACTION_ITEMS_MAX - placed, &mut tasks);
            let group = self.view.compile(id, &job, index);
            let how = (&self.profile, self.placement());
            placed += self.placer.place(&mut self.view, how, (group, &tasks), &mut self.rng);
            taken.append(&mut tasks);
        }
        self.view.drop_claims(placed);
        self.queue.put_back(taken.into_iter());
        placed
    }

    /// One round. `now` is the time in nanoseconds since any fixed moment; it must not go back.
    ///
    /// # Errors
    /// If the cell cannot be reached. The scheduler stays whole: step again later.
    pub fn step(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        if let Some(txn) = self.unknown.take() {
            let answer = cell.commit(&txn);
            if answer == Err(HandleError::Unavailable) {
                // This time nothing was done; what became of the first time is as unknown as ever.
                self.unknown = Some(txn);
                return Err(HandleError::Unavailable);
            }
            return self.answered(txn, answer, now, observer);
        }
        self.sync(cell)?;
        self.decide(now, observer);
        if self.view.open_claims() == 0 {
            let idle = self.queue.active_jobs() == 0;
            if idle {
                observer.idle(self.view.version(), &self.queue);
            }
            return Ok(Step { idle, ..Step::default() });
        }
        let mut txn = self.view.take_transaction();
        txn.granularity = self.settings.granularity;
        txn.check = self.settings.check;
        let answer = cell.commit(&txn);
        self.answered(txn, answer, now, observer)
    }

    fn sync(&mut self, cell: &(impl CellHandle + ?Sized)) -> Result<(), HandleError> {
        self.view.sync(cell)?;
        let delta = self.view.delta();
        self.stale.clear();
        if delta.full {
            // It does not tell which jobs ended: what is still there is compiled again.
            self.stale.extend(self.queue.ids());
            self.stale.sort_unstable();
            self.queue.clear();
        }
        for change in &delta.jobs {
            if self.queue.job(change.id).is_some() {
                self.stale.push(change.id);
            }
            match &change.job {
                Some(job) => self.queue.add_job(change.id, job.clone()),
                None => self.queue.remove_job(change.id),
            }
        }
        delta.tasks.iter().for_each(|change| self.queue.set_task(change));
        // A rule may now allow what it forbade: what ran there ended, or what it wants there runs.
        let rules = delta.changes_rules();
        let loads = !delta.loads.is_empty() && self.profile.filters_read(Reads::LOAD);
        self.other_news += u64::from(rules || loads);
        if delta.full {
            self.profile.prepare(&mut self.view);
        }
        for job in &self.stale {
            self.view.forget_job(*job);
        }
        Ok(())
    }

    /// Counts what may make room: while it stays the same, what found no room would find none.
    fn news(&self) -> u64 {
        self.view.freed() + self.other_news
    }

    /// Places jobs on the view until the transaction is full or no job has its turn.
    fn decide(&mut self, now: Nanos, observer: &mut impl Observer) {
        let limit = self.settings.claims_max.clamp(1, TRANSACTION_ITEMS_MAX);
        while self.view.open_claims() < limit {
            let Some(id) = self.queue.next(now, self.news()) else { return };
            let Some(job) = self.queue.job(id).cloned() else { return };
            let room = match job.gang_min {
                None => limit - self.view.open_claims(),
                // A gang goes into one transaction, which may exceed the usual limit for it.
                Some(_) if self.view.open_claims() == 0 => TRANSACTION_ITEMS_MAX,
                Some(_) => return,
            };
            self.queue.begin(id);
            observer.deciding();
            let decided = self.decide_job((id, &job), room);
            observer.decided(id, decided.asked, decided.placed);
            match decided.placed {
                0 => self.missed_out(id, now),
                _ => self.decided.push(decided),
            }
        }
    }

    /// A job found no room, maybe because of claims that will be refused.
    fn missed_out(&mut self, id: JobId, now: Nanos) {
        self.queue.end(id, self.no_room(), now);
        if self.view.open_claims() > 0 {
            self.missed.push(id);
        }
    }

    fn decide_job(&mut self, (id, job): (JobId, &Arc<Job>), room: usize) -> Decided {
        let mut decided = Decided { job: id, asked: 0, placed: 0, most: room };
        let mut tasks = std::mem::take(&mut self.tasks);
        let mut placed_tasks = Vec::new();
        for index in 0..job.groups.len() {
            self.queue.take(id, index, room - decided.placed, &mut tasks);
            if tasks.is_empty() {
                continue;
            }
            let group = self.view.compile(id, job, index);
            let how = (&self.profile, self.placement());
            let group = (group, tasks.as_slice());
            let placed = self.placer.place(&mut self.view, how, group, &mut self.rng);
            self.queue.put_back(tasks[placed..].iter().copied());
            decided.asked += tasks.len();
            decided.placed += placed;
            if job.gang_min.is_some() {
                placed_tasks.extend_from_slice(&tasks[..placed]);
            }
        }
        self.tasks = tasks;
        let gang_min = job.gang_min.unwrap_or(0) as usize;
        if gang_min > 0 && decided.placed + self.queue.placed_tasks(id) < gang_min {
            self.view.drop_claims(decided.placed);
            self.queue.put_back(placed_tasks.into_iter());
            decided.placed = 0;
        }
        decided
    }

    fn no_room(&self) -> Verdict {
        Verdict::NoRoom { news: self.news() }
    }

    /// The placement of the settings, wider while many claims conflict.
    fn placement(&self) -> Placement {
        let near_best = self.settings.placement.near_best.max(1);
        let near_best = near_best.saturating_mul(1 << self.crowding.level());
        Placement { near_best, ..self.settings.placement }
    }

    fn answered(
        &mut self,
        txn: Transaction,
        answer: Result<Commit, HandleError>,
        now: Nanos,
        observer: &mut impl Observer,
    ) -> Result<Step, HandleError> {
        match answer {
            Ok(commit) => {
                observer.committed(&txn, &commit);
                Ok(self.settle(&txn, &commit, now))
            }
            Err(HandleError::Unknown) => {
                self.unknown = Some(txn);
                Err(HandleError::Unknown)
            }
            Err(error) => {
                // Nothing was taken, or the next sync tells what was.
                self.view.abandon(&txn);
                self.queue.put_back(txn.claims.iter().map(|claim| claim.task));
                self.end_turns(now, Some(&[]));
                Err(error)
            }
        }
    }

    fn settle(&mut self, txn: &Transaction, commit: &Commit, now: Nanos) -> Step {
        self.view.settle(txn, commit);
        let mut refused: SmallVec<[JobId; 8]> = SmallVec::new();
        let mut crowded = 0;
        for (index, claim) in txn.claims.iter().enumerate() {
            match commit.conflict_of_claim(index) {
                None => self.queue.placed(claim.task),
                // It was placed or ended in the meantime: the next sync tells.
                Some(Reason::TaskPlaced | Reason::TaskEnded | Reason::UnknownTask) => {}
                // Not its job's fault: if that waited too, it would wake with the one at fault.
                Some(Reason::OthersConflict) => {}
                Some(reason) => {
                    crowded += usize::from(is_of_a_place(reason));
                    refused.push(claim.task.job);
                }
            }
        }
        let conflicts = commit.conflicts.len();
        if conflicts > 0 {
            // All of them: what was placed in the meantime may be pending again by now.
            let back = txn.claims.iter().map(|claim| claim.task).enumerate();
            let back = back.filter(|(index, _)| commit.conflict_of_claim(*index).is_some());
            self.queue.put_back(back.map(|(_, task)| task));
            refused.dedup();
        }
        self.end_turns(now, (conflicts > 0).then_some(&refused));
        self.crowding.note(txn.claims.len(), crowded);
        Step { placed: txn.claims.len() - conflicts, conflicts, idle: false }
    }

    /// Ends the turns of the jobs in the transaction. If claims were refused, these jobs are at
    /// fault, and the room went back to the view: whoever missed it tries again at once. If that
    /// one waited too, it would wake with those at fault, and miss the room again.
    fn end_turns(&mut self, now: Nanos, refused: Option<&[JobId]>) {
        for job in self.missed.drain(..) {
            if refused.is_some() {
                self.queue.wake(job);
            }
        }
        let at_fault = refused.unwrap_or_default();
        let mut decided = std::mem::take(&mut self.decided);
        for part in decided.drain(..) {
            let verdict = match () {
                () if at_fault.contains(&part.job) => Verdict::Conflict,
                () if part.found_no_room() && refused.is_none() => self.no_room(),
                () => Verdict::More,
            };
            if !self.queue.end(part.job, verdict, now) {
                // What was compiled for a job that is placed would only take room; should one of
                // its tasks lose its machine, it is compiled again.
                self.view.forget_job(part.job);
            }
        }
        self.decided = decided;
    }
}
