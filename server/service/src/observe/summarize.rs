//! Computation of a summary of the cell.
//!
//! Commits wait while the cell is read, so some hundred machines or jobs are read per lock. The figures are therefore
//! from several versions close together, and are exact enough for people only.

use crate::host::Host;
use crate::observe::summary::{Counts, MachineSummary, Summary};
use omega_cellstate::{Cell, MachineStatus};
use omega_client::agent::is_unreachable;
use omega_core::{Job, JobId, TaskState, Version};
use std::collections::BTreeMap;

/// Number of machines that are read under one lock of the cell. Reading them takes some tens of microseconds.
const MACHINES_AT_ONCE: usize = 256;

/// Number of tasks, and of jobs, that are read per lock of the cell.
const TASKS_AT_ONCE: u64 = 8192;
const JOBS_AT_ONCE: usize = 256;

impl Summary {
    /// Sums up the cell. This takes some tens of milliseconds in the largest cells, so it is called outside of the
    /// commit path.
    pub(crate) fn of(host: &Host) -> Summary {
        let kinds = host.read(|cell| cell.kinds().clone());
        let mut summary = Summary {
            version: Version(0),
            next_job: JobId(0),
            machines: Vec::new(),
            claimable: vec![0; kinds.count()],
            claimed: vec![0; kinds.count()],
            waiting_of_cell: vec![0; kinds.count()],
            kinds,
            jobs: 0,
            tasks: Counts::default(),
            waiting: BTreeMap::new(),
        };
        let mut row = 0;
        while let Some(next) = summary.read_machines(host, row) {
            row = next;
        }
        let mut job = JobId(0);
        while let Some(next) = summary.read_jobs(host, job) {
            job = next;
        }
        (summary.version, summary.next_job) = host.read(|cell| (cell.version(), cell.next_job()));
        summary
    }

    /// Reads some machines. Returns the row to continue from, if there are more machines.
    fn read_machines(&mut self, host: &Host, row: usize) -> Option<usize> {
        let amount = |amount: i64| amount.max(0) as u64;
        let before = self.machines.len();
        host.read(|cell| {
            for state in cell.machines_from(row).take(MACHINES_AT_ONCE) {
                let both = state.claimable.iter().zip(state.free);
                self.machines.push(MachineSummary {
                    id: state.id,
                    machine: state.machine.clone(),
                    draining: state.status == MachineStatus::Draining,
                    unreachable: is_unreachable(state.machine),
                    claimed: both.map(|(all, free)| amount(all - free)).collect(),
                    claimable: state.claimable.iter().map(|all| amount(*all)).collect(),
                });
            }
        });
        for seen in &self.machines[before..] {
            let sums = self.claimable.iter_mut().zip(&mut self.claimed);
            for ((all, taken), (more, more_taken)) in
                sums.zip(seen.claimable.iter().zip(&seen.claimed))
            {
                // With the highest overcommit, a sum over all machines may exceed 64 bits.
                *all = all.saturating_add(*more);
                *taken = taken.saturating_add(*more_taken);
            }
        }
        let is_full = self.machines.len() - before == MACHINES_AT_ONCE;
        self.machines.last().filter(|_| is_full).map(|last| last.id.slot as usize + 1)
    }

    /// Reads some jobs. Returns the job to continue from, if there are more jobs.
    fn read_jobs(&mut self, host: &Host, first: JobId) -> Option<JobId> {
        host.read(|cell| {
            let mut read_count = 0;
            for (count, (id, job)) in cell.jobs_from(first).enumerate() {
                if read_count >= TASKS_AT_ONCE || count >= JOBS_AT_ONCE {
                    return Some(id);
                }
                let before = self.tasks.pending;
                self.tasks.add_job(cell.task_counts(id).unwrap_or_default());
                self.jobs += 1;
                let pending = self.tasks.pending - before;
                if pending > 0 {
                    let waiting = self.waiting.entry(job.scheduler.clone()).or_default();
                    waiting.jobs += 1;
                    waiting.tasks += pending;
                    waiting.oldest.get_or_insert_with(|| (id, job.name.clone()));
                    read_count += self.add_waiting_of_cell(cell, id, job);
                }
            }
            None
        })
    }

    /// Adds the cluster resources that the pending tasks of a job would claim. Returns the number of tasks that it
    /// read.
    fn add_waiting_of_cell(&mut self, cell: &Cell, id: JobId, job: &Job) -> u64 {
        if job.groups.iter().all(|group| group.cluster_request.is_zero()) {
            return 0;
        }
        let pending = cell.tasks(id).filter(|(_, state)| *state == TaskState::Pending);
        let groups = pending.filter_map(|(task, _)| job.groups.get(cell.task_group(task)?));
        for (kind, amount) in groups.flat_map(|group| group.cluster_request.iter()) {
            let sum = &mut self.waiting_of_cell[kind.index()];
            *sum = sum.saturating_add(amount);
        }
        job.task_count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::SharedCell;
    use omega_core::limits::{AMOUNT_MAX, OVERCOMMIT_PERCENT_MAX};
    use omega_core::{Amounts, Command, KindId, Kinds, Machine, Overcommit, Policy, TaskGroup};

    #[test]
    fn all_is_seen_however_much_there_is() {
        for count in [0, 1, 255, 256, 257, 700] {
            let mut cell = Cell::new(Kinds::standard());
            for i in 0..count {
                let machine = Machine::new(format!("m{i}").as_str(), Amounts::new([1000, 1 << 30]));
                cell.apply(Command::RegisterMachine(machine)).unwrap();
                let job = Job::batch(
                    format!("j{i}").as_str(),
                    TaskGroup::new(2, Amounts::new([100, 1 << 20])),
                );
                cell.apply(Command::SubmitJob(job)).unwrap();
            }
            let removed = cell.machine_by_name("m3");
            removed.map(|id| cell.apply(Command::RemoveMachine { id }));
            let machines = count - u64::from(removed.is_some());
            let summary = Summary::of(&Host::memory(SharedCell::new(cell)));
            assert_eq!(summary.machines.len() as u64, machines);
            assert_eq!(summary.claimable[0], 1000 * machines);
            assert_eq!((summary.jobs, summary.tasks.pending), (count, 2 * count));
            assert_eq!(summary.next_job, JobId(count));
            let waiting = summary.waiting.get("default").cloned().unwrap_or_default();
            assert_eq!((waiting.jobs, waiting.tasks), (count, 2 * count));
            assert_eq!(waiting.oldest.map(|(id, _)| id), (count > 0).then_some(JobId(0)));
        }
    }

    #[test]
    fn the_largest_machines_do_not_overflow_sums() {
        let mut cell = Cell::new(Kinds::standard());
        let overcommit = Overcommit::none().with(KindId::CPU, OVERCOMMIT_PERCENT_MAX);
        let policy = Policy { overcommit_max: overcommit.clone(), ..cell.policy().clone() };
        cell.apply(Command::SetPolicy(policy)).unwrap();
        for i in 0..1700 {
            let machine = Machine::new(format!("m{i}"), Amounts::new([AMOUNT_MAX]));
            let machine = Machine { overcommit: overcommit.clone(), ..machine };
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        let summary = Summary::of(&Host::memory(SharedCell::new(cell)));
        assert_eq!(summary.claimable[0], u64::MAX);
    }
}
