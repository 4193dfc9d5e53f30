//! The shipped cell behind the event loop's trait. Jobs are submitted by commands, claims are committed in
//! transactions, and ends of tasks are reported.
//!
//! The cell has a job from its arrival until its last task has ended, and then removes it. So memory depends on the
//! number of jobs present at one time, not on the length of a run.

use super::accounting::{Accounting, Got};
use super::feed::Feed;
use super::placer::{CellPlacer, PlacerSettings};
use super::rows::Rows;
use crate::engine::{Access, Attempt, Cell, Ended, Judgement, Lost, Running, Taken};
use omega_cellstate::SharedCell;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{
    Command, Job, JobId, KindId, Kinds, Machine, MachineId, Outcome, Policy, Rejection,
    SharedGroup, TaskId, TaskReport, Text,
};
use omega_schedulers::config::ConfigError;
use omega_workload::{Arrival, LoadError, MachineEvent, RunTime};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Error of a workload that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ShippedError {
    /// The cell rejects a machine. Correct the machine in the input.
    #[error("machine {name:?} is invalid: {why}")]
    Machine {
        /// Name of the machine.
        name: String,
        /// The reason.
        why: Rejection,
    },
    /// The cell rejects a job. Correct the job in the input.
    #[error("job {name:?} is invalid: {why}")]
    Job {
        /// Name of the job.
        name: String,
        /// The reason.
        why: Rejection,
    },
    /// A gang has more tasks than a transaction can place. Make the gang smaller.
    #[error(
        "job {name:?} is a gang of {tasks} tasks, but the simulator places at most \
         {TRANSACTION_ITEMS_MAX} at once: make the gang smaller, or use `omega run`"
    )]
    WideGang {
        /// Name of the job.
        name: String,
        /// Number of tasks to place together.
        tasks: u32,
    },
    /// The cell rejects the policy of the input. Correct the policy.
    #[error("the policy of the input is invalid: {0}")]
    Policy(Rejection),
    /// The cell rejects a quota of the input. Correct the quota.
    #[error("the quota of tenant {tenant:?} is invalid: {why}")]
    Quota {
        /// Name of the tenant.
        tenant: String,
        /// The reason.
        why: Rejection,
    },
    /// A profile names something that the cell does not have. Correct the profile.
    #[error("the profiles are invalid: {0}")]
    Profile(ConfigError),
    /// The input has no machines. Specify machines for the run.
    #[error(
        "the input has no machines: give them with --on, such as --on 2000,cpu=64,memory=256Gi"
    )]
    NoMachines,
    /// A part of the input cannot be read. Correct that part.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The input changed during the run. Do not change files while they are read.
    #[error(
        "the input was changed while it was read: it has fewer jobs than before, so start the \
         run again"
    )]
    Changed,
}

/// A job that has arrived and has not ended.
pub(super) struct Known {
    pub(super) id: JobId,
    pub(super) job: Arc<Job>,
    /// Run times of the job's tasks.
    run: RunTime,
    /// Pending tasks, in ascending order.
    pub(super) pending: Vec<TaskId>,
    /// Number of the job's placed tasks.
    pub(super) running: u32,
}

impl Known {
    /// Pending tasks, in ascending order.
    pub(super) fn pending(&self) -> &[TaskId] {
        &self.pending
    }

    /// Index of the task group that a task belongs to.
    pub(super) fn group_of(&self, task: TaskId) -> usize {
        let mut first = 0;
        let of = |group: &SharedGroup| {
            first += group.count;
            task.index < first
        };
        self.job.groups.iter().position(of).expect("a task of the job is in a group of it")
    }

    /// Request of a task in the reported kinds.
    pub(super) fn request(&self, task: TaskId) -> [u64; 2] {
        let request = &self.job.groups[self.group_of(task)].request;
        KINDS.map(|kind| request.get(kind))
    }

    /// Run time of a task; for a task that never ends, a time later than all ends.
    fn run_ms(&self, task: TaskId) -> u64 {
        self.run.of(task.index).unwrap_or(u64::MAX)
    }
}

/// Tasks that started together, in the order in which they end.
#[derive(Default)]
pub(super) struct Group {
    /// Task, machine, and run time in milliseconds.
    pub(super) tasks: VecDeque<(TaskId, MachineId, u64)>,
    elapsed_ms: u64,
    /// Time from the start of the group to the next end of a task; `u64::MAX` if no task will end.
    pub(super) next_ms: u64,
    pub(super) job: usize,
    pub(super) scheduler: usize,
}

impl Group {
    /// Creates a group of tasks that start now. They may be in any order.
    fn new(mut tasks: Vec<(TaskId, MachineId, u64)>, (job, scheduler): (usize, usize)) -> Group {
        tasks.sort_by_key(|(_, _, run_ms)| *run_ms);
        let mut group =
            Group { tasks: tasks.into(), elapsed_ms: 0, next_ms: u64::MAX, job, scheduler };
        group.look_ahead();
        group
    }

    /// Updates the time of the next end.
    fn look_ahead(&mut self) {
        self.next_ms = self.tasks.front().map_or(u64::MAX, |(_, _, run_ms)| *run_ms);
    }
}

/// A cell in this process with the machines, jobs and schedulers of a workload.
pub struct ShippedCell<'a> {
    pub(super) cell: SharedCell,
    /// Jobs that were not read yet, and the number of the first of them.
    feed: (Box<dyn Feed + 'a>, usize),
    /// Jobs that were read before their arrival, with their numbers.
    ahead: VecDeque<(usize, Arrival)>,
    /// Jobs by number; `None` before arrival and after their end.
    pub(super) known: Vec<Option<Box<Known>>>,
    /// Number of ended jobs that the cell still has.
    over: usize,
    pub(super) machines: Vec<MachineId>,
    /// The machines that the workload describes.
    pub(super) described: &'a [Machine],
    judgement: Judgement,
    pub(super) seats: Vec<CellPlacer>,
    pub(super) groups: Vec<Group>,
    pub(super) groups_free: Vec<u32>,
    pub(super) capacity: [u64; 2],
    /// Allocated processors and memory of the cell. The next field has the allocations of each scheduler's tasks.
    pub(super) used: [u64; 2],
    pub(super) owned: Vec<[u64; 2]>,
    /// Accounting of tenants.
    pub(super) ledger: Accounting,
    /// Whether an offer is open.
    pub(super) offered: bool,
    /// Changes of machines during the run. The next field is an index of machines by name; it is empty if there are no
    /// changes.
    pub(super) changes: &'a [MachineEvent],
    pub(super) positions: HashMap<Text, usize>,
    /// Error of the first machine or job that the cell rejected.
    pub(super) refused: Option<ShippedError>,
}

/// Number of ended jobs that are removed with one command. Fewer commands create fewer versions of the cell.
const FORGET_AT_ONCE: usize = 256;

/// The resource kinds that are reported.
pub(super) const KINDS: [KindId; 2] = [KindId::CPU, KindId::MEMORY];

/// The description of a cell without jobs.
#[derive(Clone, Copy, Debug)]
pub struct Described<'k, 'a> {
    /// The cell's resource kinds.
    pub kinds: &'k Kinds,
    /// The cell's policy.
    pub policy: &'k Policy,
    /// The cell's machines.
    pub machines: &'a [Machine],
}

impl<'a> ShippedCell<'a> {
    /// Creates a cell with the kinds, policy and machines of a workload, for these jobs. Schedulers are added later.
    ///
    /// # Errors
    /// If the cell rejects a part of the description.
    pub fn new(
        Described { kinds, policy, machines: described }: Described<'_, 'a>,
        jobs: Box<dyn Feed + 'a>,
        judgement: Judgement,
    ) -> Result<ShippedCell<'a>, ShippedError> {
        if described.is_empty() {
            return Err(ShippedError::NoMachines);
        }
        let cell = SharedCell::new(omega_cellstate::Cell::new(kinds.clone()));
        // The simulation never reads ended jobs, so the cell need not keep them.
        let policy = Policy { ttl_after_finished_ms: 0, ..policy.clone() };
        cell.apply(Command::SetPolicy(policy)).map_err(ShippedError::Policy)?;
        let register =
            |machine: &Machine| match cell.apply(Command::RegisterMachine(machine.clone())) {
                Ok(Outcome::Machine(id)) => Ok(id),
                Ok(_) => unreachable!("registering a machine gives a machine"),
                Err(why) => Err(ShippedError::Machine { name: machine.name.to_string(), why }),
            };
        let machines = described.iter().map(register).collect::<Result<Vec<_>, _>>()?;
        let sum = |kind| described.iter().map(|machine| machine.capacity.get(kind)).sum();
        Ok(ShippedCell {
            cell,
            feed: (jobs, 0),
            ahead: VecDeque::new(),
            known: Vec::new(),
            over: 0,
            machines,
            described,
            judgement,
            seats: Vec::new(),
            groups: Vec::new(),
            groups_free: Vec::new(),
            capacity: KINDS.map(sum),
            used: [0; 2],
            owned: Vec::new(),
            ledger: Accounting::default(),
            offered: false,
            changes: &[],
            positions: HashMap::new(),
            refused: None,
        })
    }

    /// Adds a scheduler with the next number.
    pub fn add_scheduler(&mut self, settings: &PlacerSettings) {
        let name = format!("simulated-{}", self.seats.len());
        self.seats.push(CellPlacer::new(&self.cell, &name, settings));
        self.owned.push([0; 2]);
    }

    /// The rows of all machines.
    #[must_use]
    pub fn rows(&self) -> Rows {
        Rows { from: 0, to: self.machines.len() }
    }

    /// Reports whether the run failed.
    ///
    /// # Errors
    /// The error of the first machine or job that the cell rejected.
    pub fn check(&mut self) -> Result<(), ShippedError> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Number of pending tasks of a job; `None` if the job has not arrived or has ended.
    #[must_use]
    pub fn pending(&self, number: usize) -> Option<usize> {
        Some(self.known(number)?.pending.len())
    }

    /// Lets a scheduler place these jobs before the run begins. `jobs` must be in ascending order. All other jobs are
    /// placed during the run, by the schedulers of the event loop.
    pub fn place_first(&mut self, scheduler: usize, jobs: &[u32]) {
        for &job in jobs {
            self.arrive(job as usize);
            let tasks = self.known(job as usize).map_or(0, |known| known.pending.len() as u32);
            self.attempt(scheduler, job as usize, tasks, Access::Live);
        }
    }

    /// The job with this number; `None` if it has not arrived or has ended.
    pub(super) fn known(&self, number: usize) -> Option<&Known> {
        self.known.get(number)?.as_deref()
    }

    /// Reads jobs up to and including the one with this number, and returns that job.
    fn read(&mut self, number: usize) -> Result<Arrival, ShippedError> {
        if let Ok(at) = self.ahead.binary_search_by_key(&number, |(ahead, _)| *ahead) {
            return self.ahead.remove(at).map(|(_, arrival)| arrival).ok_or(ShippedError::Changed);
        }
        loop {
            let (jobs, next) = &mut self.feed;
            let arrival = jobs.next_job()?.ok_or(ShippedError::Changed)?;
            *next += 1;
            if *next > number {
                return Ok(arrival);
            }
            self.ahead.push_back((*next - 1, arrival));
        }
    }

    /// Submits a job. Returns its tasks that already run, with their machines.
    fn submit(&mut self, number: usize) -> Result<Vec<(u32, u32)>, ShippedError> {
        let Arrival { job, run, placed, .. } = self.read(number)?;
        let name = job.name.clone();
        if let Some(tasks) = job.gang_min.filter(|min| *min as usize > TRANSACTION_ITEMS_MAX) {
            return Err(ShippedError::WideGang { name: name.to_string(), tasks });
        }
        let id = match self.cell.apply(Command::SubmitJob(job)) {
            Ok(Outcome::Job(id)) => id,
            Ok(_) => unreachable!("submitting a job gives a job"),
            Err(why) => return Err(ShippedError::Job { name: name.to_string(), why }),
        };
        let job = self.cell.read(|cell| cell.job(id).cloned()).expect("it was submitted just now");
        self.ledger.came(&job);
        let tasks = job.task_count() as u32;
        let pending = (0..tasks).map(|index| TaskId { job: id, index }).collect();
        if self.known.len() <= number {
            self.known.resize_with(number + 1, || None);
        }
        self.known[number] = Some(Box::new(Known { id, job, run, pending, running: 0 }));
        Ok(placed)
    }

    /// Returns the accounting of the tenants.
    pub fn take_got(&mut self) -> BTreeMap<Text, Got> {
        std::mem::take(&mut self.ledger).close()
    }

    /// Returns the fragmentation of each resource kind by name: the share of its free amount that is on machines where
    /// a task does not fit, as the mean over the tasks that request the kind.
    #[must_use]
    pub fn fragmented(&self) -> BTreeMap<String, f64> {
        self.cell.read(|cell| self.ledger.fragmented(cell))
    }

    /// Returns the simulated cell.
    #[must_use]
    pub fn shared(&self) -> &SharedCell {
        &self.cell
    }

    /// The first pending task of a job, with the job.
    pub(super) fn next_task(&self, number: usize) -> Option<(TaskId, &Known)> {
        let known = self.known(number)?;
        Some((*known.pending.first()?, known))
    }

    /// Claims machines for pending tasks of a job on a scheduler's view. Returns the number of claims.
    pub(super) fn claim(&mut self, scheduler: usize, number: usize) -> usize {
        let Some(Some(known)) = self.known.get(number) else { return 0 };
        let seat = &mut self.seats[scheduler];
        let before = seat.open_claims();
        let room = TRANSACTION_ITEMS_MAX.saturating_sub(before);
        let mut first = 0;
        let mut tasks = Vec::new();
        for (index, group) in known.job.groups.iter().enumerate() {
            let of_group = first..first + group.count;
            first += group.count;
            tasks.clear();
            let open = room.saturating_sub(seat.open_claims() - before);
            let mine = known.pending.iter().filter(|task| of_group.contains(&task.index));
            tasks.extend(mine.take(open).copied());
            seat.claim((known.id, &known.job), index, &tasks);
        }
        seat.open_claims() - before
    }

    /// Whether the job is a gang that is still incomplete if `tasks` more of its tasks are placed.
    pub(super) fn gang_lacks(&self, number: usize, tasks: usize) -> bool {
        let Some(known) = self.known(number) else { return false };
        let placed = known.job.task_count() as usize - known.pending.len();
        known.job.gang_min.is_some_and(|min| placed + tasks < min as usize)
    }

    /// Records started tasks, so that each ends at its time.
    pub(super) fn begin(
        &mut self,
        scheduler: usize,
        number: usize,
        taken: &[(TaskId, MachineId)],
    ) -> Option<Taken> {
        if taken.is_empty() {
            return None;
        }
        let known = self.known[number].as_mut().expect("a job that runs was submitted");
        let tasks: Vec<_> =
            taken.iter().map(|(task, machine)| (*task, *machine, known.run_ms(*task))).collect();
        known.running += taken.len() as u32;
        self.ledger.moved(&known.job.tenant);
        for (task, machine) in taken {
            let group = &known.job.groups[known.group_of(*task)];
            if !group.rules.affinity.preferred.is_empty() {
                let machine =
                    self.cell.read(|cell| cell.machine(*machine).map(|m| m.machine.clone()));
                self.ledger.placed(&known.job.tenant, group, machine.as_deref());
            }
            for (kind, amount) in known.request(*task).into_iter().enumerate() {
                self.used[kind] += amount;
                self.owned[scheduler][kind] += amount;
            }
        }
        let mut gone: Vec<u32> = taken.iter().map(|(task, _)| task.index).collect();
        gone.sort_unstable();
        if taken.len() == known.pending.len() {
            known.pending = Vec::new()
        } else {
            known.pending.retain(|task| gone.binary_search(&task.index).is_err())
        }
        let group = Group::new(tasks, (number, scheduler));
        let at = self.groups_free.pop().unwrap_or(self.groups.len() as u32);
        if at as usize == self.groups.len() {
            self.groups.push(Group::default());
        }
        self.groups[at as usize] = group;
        Some(Taken(at))
    }

    /// Removes a job from a scheduler if the job is placed completely.
    pub(super) fn forget_placed(&mut self, scheduler: usize, number: usize) {
        let Some(Some(known)) = self.known.get(number) else { return };
        if known.pending.is_empty() {
            self.seats[scheduler].forget(known.id);
        }
    }

    /// Removes a job from the cell if all of its tasks have ended.
    fn forget_over(&mut self, number: usize) {
        self.known[number] = None;
        self.over += 1;
        if self.over >= FORGET_AT_ONCE {
            self.over = 0;
            let forgotten = self.cell.apply(Command::Expire { now_ms: 0 });
            forgotten.expect("a cell can always be told what time it is");
        }
    }

    /// Commits a scheduler's claims. Returns the number of claims, and the claims that were accepted.
    pub(super) fn commit(&mut self, scheduler: usize) -> (usize, Vec<(TaskId, MachineId)>) {
        let Judgement { check, granularity } = self.judgement;
        let committed = self.seats[scheduler].commit(&self.cell, |txn| {
            (txn.check, txn.granularity) = (check, granularity);
        });
        let mut taken = Vec::new();
        let mut claimed = 0;
        for part in &committed {
            claimed += part.txn.claims.len();
            for (index, claim) in part.txn.claims.iter().enumerate() {
                if part.commit.conflict_of_claim(index).is_none() {
                    taken.push((claim.task, claim.machine));
                }
            }
        }
        (claimed, taken)
    }
}

impl Cell for ShippedCell<'_> {
    fn arrive(&mut self, job: usize) -> Running {
        let placed = self.submit(job).unwrap_or_else(|why| {
            // The event loop cannot handle a rejection, so the run continues, and fails at its end.
            self.refused.get_or_insert(why);
            Vec::new()
        });
        let Some(known) = self.known(job) else { return Running::default() };
        let (id, mut adopted) = (known.id, Vec::new());
        for (index, machine) in placed {
            let task = TaskId { job: id, index };
            let machine = self.machines[machine as usize];
            if self.cell.apply(Command::AdoptTask { task, machine }).is_ok() {
                adopted.push((task, machine));
            }
        }
        let scheduler = self.seats.len() - 1;
        Running { tasks: adopted.len() as u32, run: self.begin(scheduler, job, &adopted) }
    }

    fn copy(&mut self, scheduler: usize) {
        self.seats[scheduler].sync(&self.cell);
    }

    fn attempt(&mut self, scheduler: usize, job: usize, _: u32, access: Access) -> Attempt {
        if access == Access::Live {
            self.seats[scheduler].sync(&self.cell);
        }
        let claims = self.claim(scheduler, job);
        if self.gang_lacks(job, claims) {
            self.seats[scheduler].drop_claims();
        }
        let (claimed, taken) = self.commit(scheduler);
        let run = self.begin(scheduler, job, &taken);
        self.forget_placed(scheduler, job);
        Attempt { claimed: claimed as u32, taken: taken.len() as u32, run }
    }

    fn has_rules(&self, job: usize) -> bool {
        let groups = self.known(job).map(|known| known.job.groups.iter());
        groups.into_iter().flatten().any(|group| !group.rules.tasks.is_empty())
    }

    fn end(&mut self, run: Taken) -> Ended {
        let group = &mut self.groups[run.0 as usize];
        let Some(known) = &mut self.known[group.job] else {
            // The group's tasks lost their machines and ran elsewhere, and their job has ended. So the group's number
            // is free.
            self.groups_free.push(run.0);
            return Ended::default();
        };
        let mut ended = Ended::default();
        group.elapsed_ms = group.elapsed_ms.max(group.next_ms);
        while let Some((task, machine, _)) =
            group.tasks.pop_front_if(|(_, _, run_ms)| *run_ms <= group.elapsed_ms)
        {
            let report = Command::ReportTask { task, machine, report: TaskReport::Finished };
            self.cell.apply(report).expect("a task that was placed there can end there");
            for (kind, amount) in known.request(task).into_iter().enumerate() {
                self.used[kind] -= amount;
                self.owned[group.scheduler][kind] -= amount;
            }
            ended.tasks += 1;
        }
        known.running -= ended.tasks;
        self.ledger.moved(&known.job.tenant);
        let over = known.running == 0 && known.pending.is_empty();
        let job = group.job;
        group.look_ahead();
        if group.next_ms < u64::MAX {
            ended.again_s = Some((group.next_ms - group.elapsed_ms) as f64 / 1000.0);
        } else if group.tasks.is_empty() {
            self.groups_free.push(run.0);
        }
        if over {
            self.forget_over(job);
        }
        ended
    }

    fn runs_for(&self, run: Taken) -> Option<f64> {
        let run_ms = self.groups[run.0 as usize].next_ms;
        (run_ms < u64::MAX).then(|| run_ms as f64 / 1000.0)
    }

    fn change(&mut self, number: usize) -> Vec<Lost> {
        self.ledger.forget_totals();
        self.change_machine(number)
    }

    fn pass(&mut self, now_s: f64) {
        let ShippedCell { cell, ledger, .. } = self;
        cell.read(|cell| ledger.pass(cell, now_s));
    }

    fn used(&self) -> [f64; 2] {
        [0, 1].map(|kind| self.used[kind] as f64 / self.capacity[kind].max(1) as f64)
    }
}
