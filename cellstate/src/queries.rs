//! Queries of the cell state.

use crate::cell::Cell;
use crate::fit::MachineStatus;
use crate::state::cores::{CoreCounts, CoresLeft};
use crate::state::job_record::{JobRecord, TaskRecord};
use crate::state::load::LoadReport;
use crate::state::missed_deadline::DeadlineCounts;
use crate::state::task_counts::{GroupTally, StateCounts};
use omega_core::{
    DeviceSet, Job, JobId, KindId, Kinds, Machine, MachineId, NodeCores, Policy, SchedulerId,
    SequenceNumber, TaskId, TaskState, TenantConfig, Text, Version,
};
use std::sync::Arc;

/// A machine and its state, as [`Cell::machine`] returns it.
#[derive(Clone, Debug)]
pub struct MachineState<'a> {
    /// Id of the machine.
    pub id: MachineId,
    /// Description of the machine.
    pub machine: &'a Arc<Machine>,
    /// Status of the machine.
    pub status: MachineStatus,
    /// Sequence number of the machine.
    pub sequence: SequenceNumber,
    /// Free amount of each kind. Negative if the claims exceed the claimable amount, for example because the machine
    /// shrank.
    pub free: &'a [i64],
    /// Claimable amount of each kind: the capacity times the overcommit.
    pub claimable: Vec<i64>,
    /// Free part of each device, in thousandths.
    pub devices_left: &'a [i16],
    /// Free exclusive cores by NUMA node; `None` if the machine has no exclusive cores.
    pub cores_left: Option<&'a CoresLeft>,
    /// The machine's last load report.
    pub load: Option<&'a LoadReport>,
    /// Tasks placed on the machine, in no particular order.
    pub tasks: &'a [TaskId],
}

/// Queries.
impl Cell {
    /// Whether the state will change soon by the passing of time alone. If so, the cell should receive `Expire` often.
    #[must_use]
    pub fn waits_for_time(&self) -> bool {
        let keep = self.policy.ttl_after_finished_ms;
        let is_over = |noticed: u64| noticed.saturating_add(keep) <= self.now_ms;
        // An `Expire` removes a bounded number of ended jobs, and the next one continues.
        self.policies.are_near_an_edge(self.now_ms)
            || self.ended.first_noticed().is_some_and(is_over)
    }

    /// Whether outcomes of commands may depend on the time. If so, `Expire` should be sent together with commands.
    #[must_use]
    pub fn depends_on_time(&self) -> bool {
        // Recorded events have the cell's time, so a cell that keeps events needs the time too.
        self.policy.eviction_cap.is_some()
            || self.policies.depend_on_time()
            || self.history.is_some()
    }

    /// The cell's version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Number of tasks that transactions moved to another machine since this process started.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.counters.moves
    }

    /// Counts of met and missed deadlines since this process started.
    #[must_use]
    pub fn deadline_counts(&self) -> DeadlineCounts {
        self.counters.deadlines
    }

    /// The cell's time in milliseconds, as last set by [`Command::Expire`](omega_core::Command::Expire).
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The cell's resource kinds.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The cell's policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The name of a scheduler that has registered.
    #[must_use]
    pub fn scheduler_name(&self, id: SchedulerId) -> Option<&Text> {
        self.schedulers.get(id.0 as usize).map(|scheduler| &scheduler.name)
    }

    /// The machine with this name.
    #[must_use]
    pub fn machine_by_name(&self, name: &str) -> Option<MachineId> {
        self.machines.by_name(name)
    }

    /// The machine with this id, if it exists.
    #[must_use]
    pub fn machine(&self, id: MachineId) -> Option<MachineState<'_>> {
        let row = self.machines.get(id)?;
        let machine = self.machine_index.machines[id.row()].as_ref()?;
        Some(MachineState {
            id,
            machine,
            status: row.status,
            sequence: row.sequence,
            free: self.machines.free(id.row()),
            claimable: crate::state::machines::claimable(machine, &self.kinds, &self.policy),
            devices_left: self.machines.devices(id.row()).map_or(&[], |devices| devices.left()),
            cores_left: self.machines.cores(id.row()),
            load: self.machines.load(id.row()),
            tasks: &row.tasks,
        })
    }

    /// Every machine, in ascending order of rows.
    pub fn machines(&self) -> impl Iterator<Item = MachineState<'_>> {
        self.machines_from(0)
    }

    /// Every machine in this row or a later row, in ascending order of rows.
    pub fn machines_from(&self, row: usize) -> impl Iterator<Item = MachineState<'_>> {
        (row..self.machines.row_count()).filter_map(|slot| self.machine(self.machines.id(slot)))
    }

    /// The job with this name.
    #[must_use]
    pub fn job_by_name(&self, name: &str) -> Option<JobId> {
        self.jobs.by_name(name)
    }

    /// The job with this id, if it exists.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(id).map(|record| &record.spec)
    }

    /// The id that the next job will get. A lower id without a job belongs to a job that has ended and was forgotten.
    #[must_use]
    pub fn next_job(&self) -> JobId {
        self.jobs.next_id()
    }

    /// Every job, in ascending order.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Arc<Job>)> {
        self.jobs.iter().map(|(id, record)| (id, &record.spec))
    }

    /// Every job with this id or a higher id, in ascending order.
    pub fn jobs_from(&self, first: JobId) -> impl Iterator<Item = (JobId, &Arc<Job>)> {
        self.jobs.iter_from(first).map(|(id, record)| (id, &record.spec))
    }

    /// The state of a task; `None` if its job or the task does not exist.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<TaskState> {
        self.jobs.task(id).map(|(_, task)| task.state)
    }

    /// The devices of a task.
    #[must_use]
    pub fn task_devices(&self, id: TaskId) -> Option<DeviceSet> {
        self.jobs.task(id).map(|(_, task)| task.devices)
    }

    /// The exclusive cores of a task, by NUMA node; zero for a task that is not placed.
    #[must_use]
    pub fn task_cores(&self, id: TaskId) -> NodeCores {
        let job = self.jobs.get(id.job);
        job.and_then(|job| job.cores.get(id.index)).copied().unwrap_or_default()
    }

    /// The ports that the cell chose for a task, in the order of [`TaskGroup::any_ports`](omega_core::TaskGroup); empty
    /// for a task that is not placed.
    #[must_use]
    pub fn task_ports(&self, id: TaskId) -> &[u16] {
        self.jobs.get(id.job).map_or(&[], |job| job.ports.get(id.index))
    }

    /// The number of exclusive cores of all machines, and how many are allocated.
    #[must_use]
    pub fn core_counts(&self) -> CoreCounts {
        self.machines.core_counts()
    }

    /// The cell's time at which a task was placed; 0 if it is not placed, and `None` if it does not exist.
    #[must_use]
    pub fn task_placed_ms(&self, id: TaskId) -> Option<u64> {
        self.jobs.task(id).map(|(_, task)| task.placed_ms)
    }

    /// The position of a task's group in its job.
    #[must_use]
    pub fn task_group(&self, id: TaskId) -> Option<usize> {
        self.jobs.task(id).map(|(_, task)| usize::from(task.group))
    }

    /// The cell's time at which a job was submitted, in milliseconds.
    #[must_use]
    pub fn job_submitted_ms(&self, job: JobId) -> Option<u64> {
        self.jobs.get(job).map(|record| record.submitted_ms)
    }

    /// The numbers of a job's tasks by state; `None` if the job does not exist. The cost does not depend on the number
    /// of tasks.
    #[must_use]
    pub fn task_counts(&self, job: JobId) -> Option<StateCounts> {
        self.jobs.get(job).map(JobRecord::state_counts)
    }

    /// Whether a job has a task that has not ended.
    #[must_use]
    pub fn is_alive(&self, job: JobId) -> bool {
        self.jobs.get(job).is_some_and(|record| record.alive > 0)
    }

    /// The numbers of the tasks of the group at a position in a job. If the group of a forgotten version had this
    /// position, its tasks count too.
    #[must_use]
    pub fn group_tally(&self, job: JobId, group: usize) -> GroupTally {
        self.jobs.get(job).map(|record| record.tally.group(group)).unwrap_or_default()
    }

    /// The states of a job's tasks, in order.
    pub fn tasks(&self, job: JobId) -> impl Iterator<Item = (TaskId, TaskState)> + '_ {
        self.tasks_from(job, 0)
    }

    /// Whether the machine that a group of a job names, or the group's required affinity, permits a machine.
    #[must_use]
    pub fn group_selects(&self, job: JobId, group: usize, machine: MachineId) -> bool {
        let job = self.jobs.get(job);
        let Some(group) = job.and_then(|job| job.groups.get(group)) else { return false };
        let mut sets = [group.need.machine, group.need.affinity].into_iter().flatten();
        sets.all(|set| self.machine_index.sets.contains(set, machine.row()))
    }

    /// The states of a job's tasks with this index or a higher index, in order.
    pub fn tasks_from(
        &self,
        job: JobId,
        first: u32,
    ) -> impl Iterator<Item = (TaskId, TaskState)> + '_ {
        let tasks: &[TaskRecord] = self.jobs.get(job).map_or(&[], |record| &record.tasks);
        let rest = tasks.get(first as usize..).unwrap_or_default();
        rest.iter().zip(first..).map(move |(task, index)| (TaskId { job, index }, task.state))
    }

    /// All tenants in order of first mention, each with its quota and with the amounts that its tasks and those of all
    /// tenants below it claim.
    pub fn tenants(&self) -> impl Iterator<Item = (&Text, Option<&omega_core::Amounts>, &[i64])> {
        self.tenants
            .iter()
            .map(|tenant| (&tenant.terms.name, tenant.terms.limit.as_ref(), tenant.used.as_slice()))
    }

    /// The configuration of a tenant, if any command ever named the tenant.
    #[must_use]
    pub fn tenant_config(&self, name: &str) -> Option<&TenantConfig> {
        self.tenants.get(name).map(|tenant| &tenant.terms.tenant_config)
    }

    /// The request limit of a tenant, for its own jobs and those of all tenants below it.
    #[must_use]
    pub fn admission(&self, name: &str) -> Option<&omega_core::Amounts> {
        self.tenants.get(name)?.admits.as_ref()
    }

    /// The amounts that the jobs of a tenant and of those below it request; `None` while no tenant has a request limit.
    /// Sums above 64 bits are capped.
    #[must_use]
    pub fn requested(&self, name: &str) -> Option<Vec<u64>> {
        let sums = self.tenants.requested(self.tenants.id(name)?)?;
        Some(sums.iter().map(|sum| (*sum).try_into().unwrap_or(u64::MAX)).collect())
    }

    /// The amounts that the tasks of a tenant and of all tenants below it claim.
    #[must_use]
    pub fn tenant_used(&self, name: &str) -> Option<&[i64]> {
        self.tenants.get(name).map(|tenant| tenant.used.as_slice())
    }

    /// Amount that demand profiles save on a machine, for each kind that varies there: the sum of the tasks' highest
    /// points minus the highest point of their sum.
    pub fn demand_profiles_saved(&self, machine: MachineId) -> impl Iterator<Item = (KindId, i64)> {
        let row = self.machines.get(machine);
        let sum = row.and_then(|_| self.machines.demand_profiles(machine.row()));
        let tasks = row.map_or(&[][..], |row| &row.tasks);
        sum.into_iter().flat_map(|sum| sum.peaks()).map(move |(kind, peak)| {
            let tasks = tasks.iter().filter_map(|task| self.jobs.task(*task));
            let demand_profiles =
                tasks.filter_map(|(job, task)| job.need(task).demand_profiles.as_ref());
            let alone: i64 = demand_profiles
                .filter_map(|demand_profiles| demand_profiles.taken(kind, None))
                .sum();
            (kind, alone - peak)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{
        Amounts, Claim, Command, Granularity, TaskGroup, TaskReport, Transaction, TransactionId,
    };

    /// The numbers of tasks, from each task's state.
    fn recount(cell: &Cell, job: JobId) -> StateCounts {
        let mut counts = StateCounts::default();
        for (task, state) in cell.tasks(job) {
            *match state {
                TaskState::Pending => &mut counts.pending,
                TaskState::Placed(_) => &mut counts.placed,
                TaskState::Running(_) => &mut counts.running,
                TaskState::Finished => &mut counts.finished,
                TaskState::Failed => &mut counts.failed,
                TaskState::Killed => &mut counts.killed,
            } += 1;
            counts.failures += u64::from(cell.task_failures(task));
        }
        counts
    }

    #[test]
    fn numbers_of_tasks_equal_a_recount_after_each_command() {
        let (job, machine) = (JobId(0), MachineId::first(0));
        let task = |index| TaskId { job, index };
        let adopt = |index| Command::AdoptTask { task: task(index), machine };
        let report = |index, report| Command::ReportTask {
            task: task(index),
            machine,
            placed_ms: 0,
            report,
        };
        let mut spec = Job::batch("j", TaskGroup::new(6, Amounts::new([1])));
        spec.groups[0].restarts = 1;
        let group = spec.groups[0].name.clone();
        // The release of a running task is undone, because the claim beside it names an unknown machine.
        let undone = Transaction {
            granularity: Granularity::AllOrNothing,
            releases: vec![task(1)],
            ..Transaction::new(
                TransactionId { scheduler: SchedulerId(0), number: 0 },
                Version(0),
                vec![Claim::new(task(5), MachineId::first(9), SequenceNumber::default())],
            )
        };
        let commands = [
            Command::RegisterScheduler { name: "me".into() },
            Command::RegisterMachine(Machine::new("m", Amounts::new([100]))),
            Command::SubmitJob(spec),
            adopt(0),
            adopt(1),
            report(0, TaskReport::Started),
            report(1, TaskReport::Started),
            report(0, TaskReport::Failed),
            adopt(0),
            report(0, TaskReport::Failed),
            Command::Commit(undone),
            adopt(2),
            report(2, TaskReport::Lost),
            adopt(3),
            report(3, TaskReport::Finished),
            Command::ResizeGroup { job, group: group.clone(), count: 9 },
            Command::ResizeGroup { job, group, count: 4 },
            Command::KillJob { job },
        ];
        let mut cell = Cell::new(Kinds::standard());
        let mut most = StateCounts::default();
        for command in commands {
            cell.apply(command.clone()).unwrap_or_else(|error| panic!("{command:?}: {error}"));
            let counts = cell.task_counts(job).unwrap_or_default();
            assert_eq!(counts, recount(&cell, job), "after {command:?}");
            cell.audit().unwrap_or_else(|error| panic!("after {command:?}: {error}"));
            let tally = cell.group_tally(job, 0);
            assert_eq!(u64::from(tally.alive), u64::from(counts.alive()));
            assert_eq!(tally.failures, counts.failures + u64::from(counts.failed));
            assert_eq!(cell.is_alive(job), counts.alive() > 0);
            most.running = most.running.max(counts.running);
        }
        let counts = cell.task_counts(job).expect("the job is known");
        assert_eq!((most.running, counts.failed, counts.finished, counts.failures), (2, 1, 1, 1));
        assert_eq!(cell.task_counts(JobId(1)), None);
    }
}
