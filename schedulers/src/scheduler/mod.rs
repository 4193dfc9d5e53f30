//! A scheduler: a loop of sync, decide, commit and settle.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │
//!     sync ──▶ queue ──▶ decide (place jobs on the view) ──▶ commit ──▶ settle
//!     delta    next job   until the transaction is full       │           │ accepted: done
//!                                                             ▼           │ conflict: queue
//!                                                           cell          │ no room: queue
//! ```
//!
//! `scheduler/submit.rs` submits transactions, several at once where useful. `scheduler/binding_cycle.rs` calls plugins
//! between the decision and the commit. `scheduler/sync.rs` applies the changes of a sync.
//!
//! One step is one round. A scheduler reads no clock and has no random source: the caller passes the time to each step,
//! and the seed in the settings. The caller (a thread, a simulator) can measure the scheduler through an [`Observer`].

mod backfilling;
mod binding_cycle;
mod conflict_backoff;
mod decided;
mod fault;
mod finder;
mod observer;
mod optional;
mod recovery;
mod round_state;
mod rounds;
mod settings;
mod submit;
mod sync;
mod waits;

use crate::delay::Waits;
use crate::framework::events::Events;
use crate::framework::plugin::tasks;
use crate::framework::points::{Lack, MadeRoom, Queued, Refused};
use crate::framework::profile::Profile;
use crate::framework::waiting::Waiting;
use crate::placing::outsized;
use crate::placing::refusals::RejectingPlugins;
use crate::queue::{Basis, Nanos, Queue, Verdict};
use binding_cycle::{NewClaims, Permits};
use decided::{Decided, Decisions};
use fault::{Fault, depends_on_machine};
use finder::Finder;
use omega_cellstate::{CellHandle, GroupRef, HandleError, View};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Commit, Job, JobId, Reason, TaskId, Transaction, TransactionId};
use recovery::{SetAside, first_view};
use round_state::RoundState;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

pub use observer::{Observer, Unobserved};
pub use settings::{Placement, Settings};

/// Results of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Number of tasks that were placed.
    pub placed: usize,
    /// Number of rejected claims.
    pub conflicts: usize,
    /// Whether there was no work. If so, the caller waits for changes, or until `until`.
    pub idle: bool,
    /// If idle: the earliest time, on the caller's clock, at which there is work even if nothing changes. `None` if no
    /// job waits for a time.
    pub until: Option<Nanos>,
    /// Whether the open transaction is held back: see [`Settings::hold`].
    pub holds: bool,
}

/// A scheduler of a cell. See the head of the file.
#[derive(Debug)]
pub struct Scheduler {
    view: View,
    profile: Profile,
    settings: Settings,
    queue: Queue,
    finder: Finder,
    round_state: RoundState,
    /// The decisions for jobs with tasks in the open transaction.
    decisions: Decisions,
    /// Jobs that wait for machines that they prefer.
    waits: Waits,
    permits: Permits,
    set_aside: SetAside,
    /// Jobs whose compiled data in the view is outdated.
    stale: Vec<JobId>,
    /// A buffer for the tasks of a decision.
    tasks: Vec<TaskId>,
}

impl Scheduler {
    /// Registers a scheduler with a cell.
    ///
    /// # Errors
    /// If the cell cannot be reached or rejects the name.
    pub fn new(
        cell: &(impl CellHandle + ?Sized),
        mut profile: Profile,
        settings: Settings,
    ) -> Result<Scheduler, HandleError> {
        let (id, next) = cell.register(settings.name.clone())?;
        let view = first_view(View::new(id, next), &profile, &settings);
        let waiting = Waiting::default();
        profile.chain.reserve.iter_mut().for_each(|plugin| plugin.start(&settings, &waiting));
        Ok(Scheduler {
            view,
            queue: Queue::new(settings.backoff, profile.chain.order.clone()),
            finder: Finder::new(&settings),
            settings,
            round_state: RoundState::default(),
            decisions: Decisions::default(),
            waits: Waits::default(),
            permits: Permits::new(waiting, &profile.chain),
            set_aside: SetAside::default(),
            stale: Vec::new(),
            tasks: Vec::new(),
            profile,
        })
    }

    /// The scheduler's view at the last step.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The scheduler's queue at the last step.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The first transaction with an unknown outcome, if any. The next step first resends it.
    #[must_use]
    pub fn unanswered(&self) -> Option<TransactionId> {
        self.round_state.unknown().map(|one| one.txn.id)
    }

    /// Returns a handle to the tasks that wait for a permit. Any thread may use it.
    #[must_use]
    pub fn waiting(&mut self) -> Waiting {
        self.permits.share()
    }

    /// Level of conflict backoff. Each level doubles the number of candidate machines.
    #[must_use]
    pub fn conflict_backoff_level(&self) -> u32 {
        self.finder.conflict_backoff_level()
    }

    /// Settings of the scheduler.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Counts the reasons for which machines reject the tasks of a job's group.
    #[must_use]
    pub fn explain(&mut self, job: JobId, group: usize) -> Option<crate::explain::Explanation> {
        self.explain_while(job, group, &|| true)
    }

    /// Counts reasons like [`Scheduler::explain`], until `goes_on` returns false.
    #[must_use]
    pub fn explain_while(
        &mut self,
        job: JobId,
        group: usize,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<crate::explain::Explanation> {
        let spec = self.queue.job(job).filter(|job| group < job.groups.len())?.clone();
        let group = self.view.compile(job, &spec, group);
        crate::explain::explain_while(&self.view, &self.profile, group, goes_on)
    }

    /// Obstacles that keep the tasks of a group of a job from being placed now, and remedies.
    #[must_use]
    pub fn diagnose(&mut self, job: JobId, group: usize) -> Option<crate::explain::Diagnosis> {
        self.diagnose_while(job, group, &|| true)
    }

    /// Obstacles and remedies like those of [`Scheduler::diagnose`], unless `goes_on` returns false.
    #[must_use]
    pub fn diagnose_while(
        &mut self,
        job: JobId,
        group: usize,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<crate::explain::Diagnosis> {
        let spec = self.queue.job(job).filter(|job| group < job.groups.len())?.clone();
        let group = self.view.compile(job, &spec, group);
        crate::explain::diagnose_while(&self.view, &self.profile, group, goes_on)
    }

    /// Returns the number of a job's pending tasks that would fit together now. For this, the tasks are placed on the
    /// view and removed again.
    pub fn room_for(&mut self, id: JobId) -> usize {
        self.room_for_while(id, &|| true)
    }

    /// Counts tasks like [`Scheduler::room_for`], until `goes_on` returns false.
    pub fn room_for_while(&mut self, id: JobId, goes_on: &dyn Fn() -> bool) -> usize {
        let Some(job) = self.queue.job(id).cloned() else { return 0 };
        let mut tasks = Vec::new();
        let mut taken = Vec::new();
        let mut placed = 0;
        for index in 0..job.groups.len() {
            if !goes_on() {
                break;
            }
            self.queue.take(id, index, TRANSACTION_ITEMS_MAX - placed, &mut tasks);
            let group = self.view.compile(id, &job, index);
            // Tasks with a search of their own are placed one by one in any case.
            let at_once = self.finder.tasks_of_a_search(&self.view, &self.profile, group);
            for part in tasks.chunks(at_once).take_while(|_| goes_on()) {
                let found = self.finder.try_to_place(&mut self.view, &self.profile, group, part);
                placed += found;
                if found < part.len() {
                    break;
                }
            }
            taken.append(&mut tasks);
        }
        self.view.drop_claims(placed);
        self.queue.put_back(taken.into_iter());
        placed
    }

    /// Places jobs on the view until the transaction is full or no job has its turn.
    fn decide(&mut self, now: Nanos, observer: &mut impl Observer) {
        self.decide_in_turn(now, observer);
        self.set_aside.end();
    }

    fn decide_in_turn(&mut self, now: Nanos, observer: &mut impl Observer) {
        let limit = self.settings.claims_max.clamp(1, TRANSACTION_ITEMS_MAX);
        loop {
            self.release_permitted(now, observer);
            let open = self.open_items();
            let next = if open < limit { self.queue.next(now) } else { None };
            let Some(id) = next else { return };
            let Some(job) = self.queue.job(id).cloned() else { return };
            if self.set_aside.contains(id) {
                self.queue.gate(id, Events::NONE, now);
                continue;
            }
            self.set_aside.begin(id);
            if let Err(Refused(until)) = self.admit(Queued { id, job: &job }) {
                self.queue.gate(id, until, now);
                continue;
            }
            let room = if !job.is_placed_at_once() {
                self.turn(id, &job, limit - open)
            } else if open == 0 {
                // A gang that is placed at once goes into one transaction, which may exceed the usual limit.
                TRANSACTION_ITEMS_MAX
            } else {
                return;
            };
            self.queue.begin(id);
            observer.deciding();
            let first = self.view.open_claims();
            self.begin_turn(id, &job);
            let mut decided = self.decide_job(Queued { id, job: &job }, room, now);
            observer.decided(id, decided.asked, decided.placed);
            if decided.placed >= decided.asked {
                self.queue.pass_on(id);
            }
            if decided.placed > 0 && self.profile.chain.guards() {
                self.bind(&mut decided, NewClaims { spec: &job, first }, now, observer);
            }
            match decided.placed {
                0 => self.missed_out(&decided, now),
                _ => self.decisions.add(decided),
            }
            self.end_turn(&decided, &job, now);
        }
    }

    /// Number of a job's tasks that may go into the rest of a transaction. With fair shares, all tenants get a part of
    /// each transaction; otherwise a tenant with one large job would fill the transaction at each turn. Shares are not
    /// computed for a job with a single pending task.
    fn turn(&mut self, id: JobId, job: &Job, left: usize) -> usize {
        if self.queue.waiting_count(id) <= 1 {
            return left;
        }
        self.queue.shares().map_or(left, |shares| shares.turn(job, left))
    }

    /// Number of items in the open transaction.
    fn open_items(&self) -> usize {
        self.view.open_claims() + self.view.open_evictions()
    }

    /// Calls the admission plugins for a job.
    fn admit(&mut self, queued: Queued<'_>) -> Result<(), Refused> {
        let view = &self.view;
        self.profile.chain.admit.iter_mut().try_for_each(|plugin| plugin.admit(queued, view))
    }

    /// Ends the turn of a job without claims in the transaction. A job that lacked room is recorded, because the job
    /// may find room if the cell rejects claims of other jobs.
    fn missed_out(&mut self, decided: &Decided, now: Nanos) {
        let verdict = match decided.verdict() {
            // No task was tried, so it is unknown which events may help, and the job waits for any event.
            Verdict::More if decided.held == 0 => Verdict::Refused {
                by: RejectingPlugins::waiting_for(Events::ALL),
                news: decided.news,
                basis: Basis::Job,
            },
            verdict => verdict,
        };
        self.queue.end(decided.job, verdict, now);
        if (self.view.open_claims() > 0 || self.round_state.has_in_flight()) && decided.short {
            self.decisions.miss(decided.job);
        }
    }

    fn decide_job(&mut self, queued: Queued<'_>, room: usize, now: Nanos) -> Decided {
        let Queued { id, job } = queued;
        let mut decided = Decided::new(id, self.queue.news());
        if self.queue.failures(id) > 0 && self.is_outsized(queued) {
            decided.asked = self.queue.waiting_count(id) as usize;
            (decided.short, decided.by) = (true, outsized::rejecting_plugins());
            return decided;
        }
        self.finder.begin_job();
        let mut tasks = std::mem::take(&mut self.tasks);
        let mut placed_tasks = Vec::new();
        let mut by_group: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for index in 0..job.groups.len() {
            self.queue.take(id, index, room - decided.placed, &mut tasks);
            if tasks.is_empty() {
                continue;
            }
            let group = self.view.compile(id, job, index);
            let placed = self.place(queued, group, &tasks, now);
            if placed < tasks.len() || job.is_placed_at_once() && job.groups.len() > 1 {
                decided.by = decided.by.and(self.rejecting_plugins(queued, group));
                decided.basis = self.basis(group);
                if let Some(until) = self.waits_until(id, group, now) {
                    decided.by = decided.by.and(RejectingPlugins::until(until));
                }
            }
            self.queue.put_back(tasks[placed..].iter().copied());
            by_group.push((index, placed));
            decided.asked += tasks.len();
            decided.placed += placed;
            if job.is_placed_at_once() {
                placed_tasks.extend_from_slice(&tasks[..placed]);
            }
        }
        self.tasks = tasks;
        if job.is_placed_at_once() && !self.queue.gang_suffices(id, decided.placed) {
            self.view.drop_claims(decided.placed);
            self.queue.put_back(placed_tasks.into_iter());
            decided.placed = 0;
        } else if let Some(shares) = self.queue.shares() {
            for (index, placed) in by_group {
                shares.claim(&job.tenant, &job.groups[index].request, placed);
            }
        }
        decided.short = decided.placed < decided.asked && decided.placed < room;
        decided
    }

    /// Claims machines for tasks of a group, in the given order. If none is feasible, uses room that plugins make.
    /// Returns the number of placed tasks.
    fn place(
        &mut self,
        Queued { id, job }: Queued<'_>,
        group: GroupRef,
        tasks: &[TaskId],
        now: Nanos,
    ) -> usize {
        let (mut placed, waits) = self.place_within_reach(id, group, tasks, now);
        if waits {
            return placed;
        }
        loop {
            placed += self.place_in_room(group, &tasks[placed..]);
            let Some(task) = tasks.get(placed) else { return placed };
            // Evictions by plugins also need space in the transaction.
            if self.profile.chain.post_filter.is_empty()
                || !self.make_room(*task, job, group, tasks.len() - placed)
            {
                return placed;
            }
            placed += 1;
        }
    }

    /// Places tasks in free resources.
    fn place_in_room(&mut self, group: GroupRef, tasks: &[TaskId]) -> usize {
        match self.with_optional(group) {
            None => self.place_alike(group, tasks),
            Some(with) => self.place_with_optional(group, with, tasks),
        }
    }

    /// Places tasks that all have the group's request.
    fn place_alike(&mut self, group: GroupRef, tasks: &[TaskId]) -> usize {
        self.finder.place(&mut self.view, &self.profile, group, tasks)
    }

    /// Calls the post filters for a task, and claims the room that they make. `left` is the number of tasks that still
    /// need space in the transaction. Returns whether the task was placed.
    #[inline(never)]
    fn make_room(&mut self, task: TaskId, job: &Arc<Job>, group: GroupRef, left: usize) -> bool {
        let mut plugins = std::mem::take(&mut self.profile.chain.post_filter);
        let lack = Lack { task, group, job, evaluator: &self.profile.evaluator };
        let view = &mut self.view;
        // The plugins are put back into the profile even after a panic, because the next decision needs them.
        let made = catch_unwind(AssertUnwindSafe(|| {
            plugins.iter_mut().find_map(|plugin| plugin.make_room(view, &lack))
        }));
        self.profile.chain.post_filter = plugins;
        let made = made.unwrap_or_else(|panic| resume_unwind(panic));
        debug_assert_eq!(self.view.lifted(), 0, "a plugin puts back what it takes off");
        let Some(made) = made else { return false };
        // Evictions may free more room than the task needs.
        self.finder.forget_failures();
        let MadeRoom { machine, evictions, throttled } = made;
        let items = self.open_items() + evictions.len() + throttled.len() + left;
        if items > TRANSACTION_ITEMS_MAX {
            return false;
        }
        let claimed = if throttled.is_empty() {
            self.view.claim_evicting(task, machine, group, &evictions)
        } else {
            self.view.claim_throttling(task, machine, group, &throttled)
        };
        claimed.is_ok()
    }

    /// Whether empty machines could hold no pending task of a job or, if it is a gang, fewer tasks than it lacks.
    fn is_outsized(&mut self, Queued { id, job }: Queued<'_>) -> bool {
        let lacks = if job.is_placed_at_once() { self.queue.gang_lacks(id) } else { None };
        let mut wanted = u64::from(lacks.unwrap_or(1));
        for (index, waiting) in self.queue.waiting_tasks(id) {
            if wanted == 0 {
                break;
            }
            let group = self.view.compile(id, job, index);
            let most = wanted.min(waiting.into());
            wanted -= outsized::held_at_most(&self.view, &self.profile.evaluator, group, most);
        }
        wanted > 0
    }

    /// Returns the plugins that reject a job's tasks without a machine. At the job's first failure, these are all
    /// plugins that might reject the tasks. After further failures, a second search finds the exact plugins, because it
    /// then is worth its cost.
    fn rejecting_plugins(
        &mut self,
        Queued { id, job }: Queued<'_>,
        group: GroupRef,
    ) -> RejectingPlugins {
        let is_again = self.queue.failures(id) > 0;
        if is_again && outsized::held_at_most(&self.view, &self.profile.evaluator, group, 1) == 0 {
            return outsized::rejecting_plugins();
        }
        // In a gang of several groups, a different choice for one group may help another group.
        let entangled = job.is_placed_at_once() && job.groups.len() > 1;
        let filters = if entangled || !is_again {
            RejectingPlugins::suspects(&self.profile, &tasks(&self.view, group))
        } else {
            self.finder.rejecting_plugins(&self.view, &self.profile, group)
        };
        filters.with_makers(&self.profile, &tasks(&self.view, group))
    }

    /// Basis of a group's rejection. Plugins that admit, guard or delay jobs, or make room for them, may treat equal jobs
    /// differently, and so do backfill plans.
    fn basis(&self, group: GroupRef) -> Basis {
        let Profile { chain, delay, backfill, .. } = &self.profile;
        let differ = chain.guards() || !chain.admit.is_empty() || !chain.post_filter.is_empty();
        if differ || delay.is_some() || backfill.is_some() {
            return Basis::Job;
        }
        self.finder.basis(&self.view, group)
    }

    fn settle(&mut self, txn: &Transaction, commit: &Commit, now: Nanos) -> Step {
        self.view.settle(txn, commit);
        self.count_preferences(txn, commit);
        self.count_backfilled(txn, commit);
        self.follow(txn, |index| commit.conflict_of_claim(index).is_none());
        let mut faults: SmallVec<[Fault; 8]> = SmallVec::new();
        let (mut of_machines, mut conflicts) = (0, 0);
        for (index, claim) in txn.claims.iter().enumerate() {
            let conflict = commit.conflict_of_claim(index);
            conflicts += usize::from(conflict.is_some());
            match conflict {
                None => self.queue.placed(claim.task),
                // The task was placed or has ended meanwhile. The next sync brings its state.
                Some(Reason::TaskPlaced | Reason::TaskEnded | Reason::UnknownTask) => {}
                // A claim of another job caused the conflict. If this job got a backoff as well, both jobs would be
                // tried again together, and conflict again.
                Some(Reason::OthersConflict) => {}
                Some(reason) => {
                    of_machines += usize::from(depends_on_machine(reason));
                    Fault::note(&mut faults, claim.task.job, reason);
                }
            }
        }
        if conflicts > 0 {
            self.finder.forget_failures();
            // All of these tasks are put back, because tasks that were placed meanwhile may be pending again.
            let back = txn.claims.iter().map(|claim| claim.task).enumerate();
            let back = back.filter(|(index, _)| commit.conflict_of_claim(*index).is_some());
            self.queue.put_back(back.map(|(_, task)| task));
        }
        // Evictions may free more room than was needed. A sync causes no event for that room, because the victims were
        // already removed from the view.
        let missed_events =
            conflicts > 0 && (self.decisions.is_resumed() || self.round_state.is_late());
        if missed_events || !txn.evictions.is_empty() || !txn.resizes.is_empty() {
            self.wake_after_undo(txn.claims.iter().map(|claim| claim.machine.slot), now);
        }
        if conflicts > 0 {
            self.round_state.note_returned();
        }
        self.end_turns(now, self.round_state.has_returned().then_some(&faults));
        self.finder.note_conflicts(txn.claims.len(), of_machines);
        Step { placed: txn.claims.len() - conflicts, conflicts, ..Step::default() }
    }

    /// Ends the turns of the jobs in the transaction. If claims were rejected, their jobs get a backoff, and their room
    /// is free again on the view. Jobs that lacked this room are retried at once, before the jobs with a backoff can
    /// claim it again.
    fn end_turns(&mut self, now: Nanos, refused: Option<&[Fault]>) {
        let mut turns = std::mem::take(&mut self.decisions);
        let (decided, missed) = turns.parts();
        if refused.is_some() {
            missed.iter().for_each(|job| self.queue.wake(*job));
        }
        let at_fault = refused.unwrap_or_default();
        for part in decided {
            let verdict = match () {
                () if let Some(fault) = at_fault.iter().find(|fault| fault.job == part.job) => {
                    fault.verdict(part)
                }
                // The room that the job lacked may be free again.
                () if part.short && refused.is_some() => Verdict::More,
                () => part.verdict(),
            };
            if !self.queue.end(part.job, verdict, now) {
                // Compiled data of a job without pending tasks only uses memory. If a task of the job loses its
                // machine, the job is compiled again.
                self.view.forget_job(part.job);
                self.waits.end(part.job, now);
            }
        }
        turns.clear();
        self.decisions = turns;
    }
}
