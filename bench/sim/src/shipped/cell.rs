//! The shipped cell behind the event loop's trait. Jobs are submitted by commands, claims are committed in
//! transactions, and ends of tasks are reported.
//!
//! The cell has a job from its arrival until its last task has ended, and then removes it.

use super::accounting::{Accounting, TenantUse};
use super::error::ShippedError;
use super::feed::Feed;
use super::groups::{Group, Groups, RunningTask};
use super::jobs::{Jobs, PresentJob};
use super::placer::{CellPlacer, Committed, PlacerSettings};
use super::rows::Rows;
use super::usage::Usage;
use crate::engine::{Access, Attempt, Cell, CommitMode, Ended, Lost, Running, Taken};
use omega_cellstate::SharedCell;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Command, Kinds, Machine, MachineId, Outcome, Policy, TaskId, TaskReport, Text};
use omega_workload::{Arrival, MachineEvent};
use std::collections::{BTreeMap, HashMap};

/// A cell in this process with the machines, jobs and schedulers of a workload.
pub struct ShippedCell<'a> {
    pub(super) cell: SharedCell,
    pub(super) jobs: Jobs<'a>,
    /// Jobs whose tasks run at the start and that have not arrived yet, each with the group of these tasks if it ends.
    pub(super) early: BTreeMap<usize, Option<Taken>>,
    /// Number of ended jobs that the cell still has.
    over: usize,
    pub(super) machines: Vec<MachineId>,
    /// The machines that the workload describes.
    pub(super) described: &'a [Machine],
    mode: CommitMode,
    /// The schedulers, by number.
    pub(super) placers: Vec<CellPlacer>,
    pub(super) groups: Groups,
    pub(super) usage: Usage,
    /// Accounting of tenants.
    pub(super) accounting: Accounting,
    /// Whether an offer is open.
    pub(super) offered: bool,
    /// The groups of tasks that were placed in the open offer, and start when it is answered.
    pub(super) unstarted: Vec<Taken>,
    /// Changes of machines during the run. The next field is an index of machines by name; it is empty if there are no
    /// changes.
    pub(super) changes: &'a [MachineEvent],
    pub(super) positions: HashMap<Text, usize>,
    /// Error of the first machine or job that the cell rejected.
    pub(super) rejected: Option<ShippedError>,
}

/// Number of ended jobs that are removed with one command. Fewer commands create fewer versions of the cell.
const FORGET_AT_ONCE: usize = 256;

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
        mode: CommitMode,
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
        Ok(ShippedCell {
            cell,
            jobs: Jobs::new(jobs),
            early: BTreeMap::new(),
            over: 0,
            machines,
            described,
            mode,
            placers: Vec::new(),
            groups: Groups::default(),
            usage: Usage::new(described),
            accounting: Accounting::default(),
            offered: false,
            unstarted: Vec::new(),
            changes: &[],
            positions: HashMap::new(),
            rejected: None,
        })
    }

    /// Adds a scheduler with the next number.
    pub fn add_scheduler(&mut self, settings: &PlacerSettings) {
        let name = format!("simulated-{}", self.placers.len());
        self.placers.push(CellPlacer::new(&self.cell, &name, settings));
        self.usage.add_scheduler();
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
        self.rejected.take().map_or(Ok(()), Err)
    }

    /// Number of pending tasks of a job; `None` if the job has not arrived or has ended.
    #[must_use]
    pub fn pending(&self, number: usize) -> Option<usize> {
        Some(self.jobs.get(number)?.pending().len())
    }

    /// Submits a job. Returns its tasks that already run, with their machines.
    fn submit(&mut self, number: usize) -> Result<Vec<(u32, u32)>, ShippedError> {
        let Arrival { job, run, placed, .. } = self.jobs.read(number)?;
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
        self.accounting.add_job(&job);
        self.jobs.insert(number, PresentJob::new(id, job, run));
        Ok(placed)
    }

    /// Submits a job, and adopts its running tasks.
    pub(super) fn submit_running(&mut self, number: usize) -> Running {
        let placed = self.submit(number).unwrap_or_else(|why| {
            // The event loop cannot handle a rejection, so the run continues, and fails at its end.
            self.rejected.get_or_insert(why);
            Vec::new()
        });
        let Some(job) = self.jobs.get(number) else { return Running::default() };
        let (id, mut adopted) = (job.id, Vec::new());
        for (index, machine) in placed {
            let task = TaskId { job: id, index };
            let machine = self.machines[machine as usize];
            if self.cell.apply(Command::AdoptTask { task, machine }).is_ok() {
                adopted.push((task, machine));
            }
        }
        let scheduler = self.placers.len() - 1;
        Running { tasks: adopted.len() as u32, run: self.begin(scheduler, number, &adopted) }
    }

    /// Returns the accounting of the tenants.
    pub fn take_accounting(&mut self) -> BTreeMap<Text, TenantUse> {
        std::mem::take(&mut self.accounting).close()
    }

    /// Returns the fragmentation of each resource kind by name: the share of its free amount that is on machines where
    /// a task does not fit, as the mean over the tasks that request the kind.
    #[must_use]
    pub fn fragmented(&self) -> BTreeMap<String, f64> {
        self.cell.read(|cell| self.accounting.fragmented(cell))
    }

    /// Returns the simulated cell.
    #[must_use]
    pub fn shared(&self) -> &SharedCell {
        &self.cell
    }

    /// The first pending task of a job, with the job.
    pub(super) fn next_task(&self, number: usize) -> Option<(TaskId, &PresentJob)> {
        let job = self.jobs.get(number)?;
        Some((*job.pending().first()?, job))
    }

    /// Claims machines for pending tasks of a job on a scheduler's view. Returns the number of claims.
    fn claim(&mut self, scheduler: usize, number: usize) -> usize {
        let Some(job) = self.jobs.get(number) else { return 0 };
        let placer = &mut self.placers[scheduler];
        let before = placer.open_claims();
        let room = TRANSACTION_ITEMS_MAX.saturating_sub(before);
        let mut tasks = Vec::new();
        for group in 0..job.job.groups.len() {
            let open = room.saturating_sub(placer.open_claims() - before);
            tasks.clear();
            tasks.extend(job.pending_of(group).take(open));
            placer.claim((job.id, &job.job), group, &tasks);
        }
        placer.open_claims() - before
    }

    /// Records started tasks, so that each ends at its time.
    pub(super) fn begin(
        &mut self,
        scheduler: usize,
        number: usize,
        placed: &[(TaskId, MachineId)],
    ) -> Option<Taken> {
        if placed.is_empty() {
            return None;
        }
        let job = self.jobs.get_mut(number).expect("a job that runs was submitted");
        self.accounting.mark_changed(&job.job.tenant);
        let mut tasks = Vec::new();
        for (task, machine) in placed {
            let group = &job.job.groups[job.group_of(*task)];
            if !group.rules.affinity.preferred.is_empty() {
                let machine =
                    self.cell.read(|cell| cell.machine(*machine).map(|m| m.machine.clone()));
                self.accounting.add_preferences(&job.job.tenant, group, machine.as_deref());
            }
            self.usage.allocate(scheduler, job.request(*task));
            tasks.push(RunningTask { id: *task, machine: *machine, run_ms: job.run_ms(*task) });
        }
        job.start(placed);
        Some(self.groups.add(Group::new(number, scheduler, tasks)))
    }

    /// Removes a job from a scheduler if the job is placed completely.
    pub(super) fn forget_placed(&mut self, scheduler: usize, number: usize) {
        let Some(job) = self.jobs.get(number) else { return };
        if job.pending().is_empty() {
            self.placers[scheduler].forget(job.id);
        }
    }

    /// Removes a job from the cell after all of its tasks have ended.
    fn forget_over(&mut self, number: usize) {
        self.jobs.remove(number);
        self.over += 1;
        if self.over >= FORGET_AT_ONCE {
            self.over = 0;
            let forgotten = self.cell.apply(Command::Expire { now_ms: 0 });
            forgotten.expect("a cell accepts any time");
        }
    }

    /// Commits a scheduler's claims. Returns the number of claims, and the claims that were accepted.
    pub(super) fn commit(&mut self, scheduler: usize) -> (usize, Vec<(TaskId, MachineId)>) {
        let CommitMode { check, granularity } = self.mode;
        let committed = self.placers[scheduler].commit(&self.cell, |txn| {
            (txn.check, txn.granularity) = (check, granularity);
        });
        let Some(Committed { txn, commit }) = committed else { return (0, Vec::new()) };
        let claims = txn.claims.iter().enumerate();
        let accepted = claims.filter(|(index, _)| commit.conflict_of_claim(*index).is_none());
        let placed = accepted.map(|(_, claim)| (claim.task, claim.machine)).collect();
        (txn.claims.len(), placed)
    }
}

impl Cell for ShippedCell<'_> {
    fn arrive(&mut self, number: usize) -> Running {
        self.adopted_first(number).unwrap_or_else(|| self.submit_running(number))
    }

    fn copy(&mut self, scheduler: usize) {
        self.placers[scheduler].sync(&self.cell);
    }

    fn attempt(&mut self, scheduler: usize, job: usize, _: u32, access: Access) -> Attempt {
        if access == Access::Live {
            self.placers[scheduler].sync(&self.cell);
        }
        let claims = self.claim(scheduler, job);
        if self.jobs.get(job).is_some_and(|job| job.gang_lacks(claims)) {
            self.placers[scheduler].drop_claims();
        }
        let (claimed, placed) = self.commit(scheduler);
        let run = self.begin(scheduler, job, &placed);
        self.forget_placed(scheduler, job);
        Attempt { claimed: claimed as u32, taken: placed.len() as u32, run }
    }

    fn has_rules(&self, job: usize) -> bool {
        let groups = self.jobs.get(job).map(|job| job.job.groups.iter());
        groups.into_iter().flatten().any(|group| !group.rules.tasks.is_empty())
    }

    fn end(&mut self, run: Taken) -> Ended {
        let group = self.groups.get_mut(run);
        let number = group.job;
        let Some(job) = self.jobs.get_mut(number) else {
            // The group's tasks lost their machines and ran elsewhere, and their job has ended. So the group's number
            // is free.
            self.groups.free(run);
            return Ended::default();
        };
        let mut ended = Ended::default();
        group.advance();
        while let Some(RunningTask { id: task, machine, .. }) = group.pop_ended() {
            let report =
                Command::ReportTask { task, machine, placed_ms: 0, report: TaskReport::Finished };
            self.cell.apply(report).expect("a task that was placed there can end there");
            self.usage.release(group.scheduler, job.request(task));
            ended.tasks += 1;
        }
        job.end(ended.tasks);
        self.accounting.mark_changed(&job.job.tenant);
        let is_over = job.has_ended();
        group.look_ahead();
        if let Some(again_ms) = group.until_next_ms() {
            ended.again_s = Some(again_ms as f64 / 1000.0);
        } else if group.is_empty() {
            self.groups.free(run);
        }
        if is_over {
            self.forget_over(number);
        }
        ended
    }

    fn runs_for(&self, run: Taken) -> Option<f64> {
        self.groups.get(run).next_ms().map(|run_ms| run_ms as f64 / 1000.0)
    }

    fn change(&mut self, number: usize) -> Vec<Lost> {
        self.accounting.forget_totals();
        self.change_machine(number)
    }

    fn pass(&mut self, now_s: f64) {
        let ShippedCell { cell, accounting, .. } = self;
        cell.read(|cell| accounting.pass(cell, now_s));
    }

    fn used(&self) -> [f64; 2] {
        self.usage.shares()
    }
}
