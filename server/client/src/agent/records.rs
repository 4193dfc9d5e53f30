//! An agent's records of its tasks.
//!
//! A report may be lost with its stream. So the report of a task's end is kept, and sent again on each new stream,
//! until the cell confirms it with a directive to stop the task.

use super::{Found, LogRead, Order, Owner, RunId, Task};
use omega_core::{Amounts, MachineId, RunEnd, TaskId, TaskReport};
use std::collections::{BTreeMap, BTreeSet};

/// Phase of a task, as the agent has recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The cell has ordered the task, but no report says yet that it runs.
    Ordered,
    /// The task runs.
    Running,
    /// The task has ended in this way, and the cell has not confirmed it.
    Ended(TaskReport, Option<RunEnd>),
}

/// A report about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) run: RunId,
    pub(super) report: TaskReport,
    /// The end of a run of the program, if it is known.
    pub(super) end: Option<RunEnd>,
}

/// A task that the cell has ordered, and has not stopped.
#[derive(Debug)]
struct Record {
    phase: Phase,
    run: RunId,
    /// Owner of the task; `None` if an earlier agent process did not record it.
    owner: Option<Owner>,
    /// Amounts that the task is allocated.
    request: Amounts,
}

/// The tasks of all machines of an agent.
#[derive(Debug, Default)]
pub(super) struct Records {
    tasks: BTreeMap<(MachineId, TaskId), Record>,
}

/// Consequences of directives: new directives for the machine, and reports for the cell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Follows {
    pub(super) orders: Vec<Order>,
    pub(super) reports: Vec<Reported>,
}

/// Directives that the cell sent together.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) whole: BTreeSet<MachineId>,
    pub(super) stops: Vec<(MachineId, TaskId)>,
    /// Tasks to start. The flag of a task is true if the cell has already recorded that the task runs.
    pub(super) starts: Vec<(Task, bool)>,
    pub(super) detached: Vec<MachineId>,
    pub(super) reads: Vec<LogRead>,
}

impl Records {
    /// Compares directives of the cell with the records, and returns the differences.
    pub(super) fn hear(&mut self, told: Told) -> Follows {
        let mut follows = Follows::default();
        for (machine, task) in told.stops {
            self.stop(machine, task, &mut follows);
        }
        let wanted: BTreeSet<(MachineId, TaskId)> =
            told.starts.iter().map(|(task, _)| (task.machine, task.id)).collect();
        for machine in &told.whole {
            let left: Vec<TaskId> =
                self.of(*machine).filter(|task| !wanted.contains(&(*machine, *task))).collect();
            left.into_iter().for_each(|task| self.stop(*machine, task, &mut follows));
        }
        for (task, is_running) in told.starts {
            let is_new_stream = told.whole.contains(&task.machine);
            self.start(task, is_running, is_new_stream, &mut follows);
        }
        follows.orders.extend(told.reads.into_iter().map(Order::ReadLog));
        for machine in told.detached {
            let all: Vec<TaskId> = self.of(machine).collect();
            all.into_iter().for_each(|task| self.stop(machine, task, &mut follows));
            follows.orders.push(Order::Detached(machine));
        }
        follows
    }

    /// Records a task that was started before this process began.
    pub(super) fn found(&mut self, found: &Found) {
        if found.kill_in_ms.is_none() {
            let phase = if found.is_running { Phase::Running } else { Phase::Ordered };
            let (run, owner, request) = (found.run, found.owner.clone(), found.request.clone());
            self.tasks.insert((run.machine, run.task), Record { phase, run, owner, request });
        }
    }

    /// Records a task's outcome. Returns whether the outcome must be reported to the cell. No report is needed if the
    /// task was stopped, or if its end was reported before.
    pub(super) fn report(&mut self, reported: &Reported) -> bool {
        let place = (reported.run.machine, reported.run.task);
        let Some(Record { phase, run, .. }) = self.tasks.get_mut(&place) else { return false };
        if !run.may_be(&reported.run) {
            return false;
        }
        match (&*phase, reported.report) {
            (Phase::Ended(..), _) => return false,
            (_, TaskReport::Restarted) => {}
            (_, TaskReport::Started) => *phase = Phase::Running,
            (_, ended) => *phase = Phase::Ended(ended, reported.end.clone()),
        }
        true
    }

    /// Whether the cell has ordered this run, and has not stopped it.
    pub(super) fn contains(&self, run: RunId) -> bool {
        let record = self.tasks.get(&(run.machine, run.task));
        record.is_some_and(|record| record.run.may_be(&run))
    }

    fn of(&self, machine: MachineId) -> impl Iterator<Item = TaskId> {
        let (first, last) =
            (TaskId::default(), TaskId { job: omega_core::JobId(u64::MAX), index: u32::MAX });
        self.tasks.range((machine, first)..=(machine, last)).map(|((_, task), _)| *task)
    }

    fn stop(&mut self, machine: MachineId, task: TaskId, follows: &mut Follows) {
        let Some(Record { phase, run, .. }) = self.tasks.remove(&(machine, task)) else { return };
        follows.orders.push(match phase {
            // The grace period is not needed here, because `Endings` has it.
            Phase::Ordered | Phase::Running => Order::Stop { run, grace_ms: 0 },
            // The task had ended by itself, and the directive confirms its report.
            Phase::Ended(..) => Order::EndConfirmed(run),
        });
    }

    fn start(&mut self, task: Task, is_running: bool, is_new_stream: bool, follows: &mut Follows) {
        let (run, owner) = (task.run_id(), task.owner());
        let place = (run.machine, run.task);
        // A restored cell, or a restarted cell in memory, gives the number of an earlier job to another one. A task that
        // has left the machine may return to it.
        let is_another = |known: &Record| {
            known.owner.as_ref().is_some_and(|known| *known != owner) || !known.run.may_be(&run)
        };
        if self.tasks.get(&place).is_some_and(is_another) {
            self.stop(run.machine, run.task, follows);
        }
        let Some(record) = self.tasks.get_mut(&place) else {
            let request = task.request.clone();
            let record = Record { phase: Phase::Ordered, run, owner: Some(owner), request };
            self.tasks.insert(place, record);
            follows.orders.push(Order::Start(task));
            return;
        };
        // An agent that found the task may not know the owner or the time of the placement.
        (record.owner, record.run.placed_ms) =
            (Some(owner), record.run.placed_ms.max(task.placed_ms));
        let Record { phase, run, request, .. } = record;
        let run = *run;
        let said = |report, end| Reported { run, report, end };
        match phase {
            Phase::Running if !is_running => {
                follows.reports.push(said(TaskReport::Started, None));
            }
            Phase::Ended(ended, end) if is_new_stream => {
                follows.reports.push(said(*ended, end.clone()));
            }
            _ => {}
        }
        if !matches!(phase, Phase::Ended(..)) && *request != task.request {
            request.clone_from(&task.request);
            follows.orders.push(Order::Resize { run, to: task.request });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Program, sample};
    use super::*;
    use omega_core::{EndReason, JobId};
    use std::sync::Arc;

    const HERE: MachineId = MachineId { slot: 1, incarnation: 0 };

    fn task(index: u32) -> Task {
        sample(index, HERE)
    }

    fn id(index: u32) -> TaskId {
        TaskId { job: JobId(0), index }
    }

    fn run(index: u32) -> RunId {
        task(index).run_id()
    }

    fn whole(starts: Vec<(Task, bool)>) -> Told {
        Told { whole: [HERE].into(), starts, ..Told::default() }
    }

    /// A report about a task on this machine. If the task failed, it includes the end of the program.
    fn said(index: u32, report: TaskReport) -> Reported {
        let end = RunEnd { reason: EndReason::ExitCode(7), restarts: 2 };
        let end = (report == TaskReport::Failed).then_some(end);
        Reported { run: run(index), report, end }
    }

    fn stop(index: u32) -> Told {
        Told { stops: vec![(HERE, id(index))], ..Told::default() }
    }

    fn start(index: u32, is_running: bool) -> Told {
        Told { starts: vec![(task(index), is_running)], ..Told::default() }
    }

    /// A run of an earlier agent process, which did not record the owner.
    fn found(run: RunId, is_running: bool) -> Found {
        Found {
            run,
            owner: None,
            request: Amounts::default(),
            devices: Vec::new(),
            cores: Vec::new(),
            ports: Vec::new(),
            grace_ms: 0,
            is_running,
            kill_in_ms: None,
        }
    }

    #[test]
    fn a_new_stream_is_compared_with_what_runs() {
        let mut records = Records::default();
        let first = records.hear(whole(vec![(task(0), false), (task(1), false), (task(2), false)]));
        assert_eq!(first.orders.len(), 3);
        assert!((0..3).all(|index| records.report(&said(index, TaskReport::Started))));
        assert!(records.report(&said(1, TaskReport::Restarted)), "it runs on");
        assert!(records.report(&said(1, TaskReport::Failed)));
        let again = records.hear(whole(vec![(task(0), false), (task(1), true), (task(3), false)]));
        let stopped = Order::Stop { run: run(2), grace_ms: 0 };
        assert_eq!(again.orders, [stopped, Order::Start(task(3))]);
        let again_said = [said(0, TaskReport::Started), said(1, TaskReport::Failed)];
        assert_eq!(again.reports, again_said, "what the cell does not know is said again");
    }

    #[test]
    fn a_confirmed_end_lets_the_task_begin_anew() {
        let mut records = Records::default();
        records.hear(start(0, false));
        assert!(records.report(&said(0, TaskReport::Failed)));
        assert!(!records.report(&said(0, TaskReport::Finished)), "it has ended");
        assert_eq!(records.hear(start(0, false)), Follows::default(), "not confirmed yet");
        let both = Told { stops: vec![(HERE, id(0))], ..start(0, false) };
        let confirmed = Order::EndConfirmed(run(0));
        assert_eq!(records.hear(both).orders, [confirmed, Order::Start(task(0))]);
        assert_eq!(records.hear(stop(0)).orders, [Order::Stop { run: run(0), grace_ms: 0 }]);
        assert_eq!(records.hear(stop(0)), Follows::default());
        assert!(!records.report(&said(0, TaskReport::Finished)), "it concerns nobody");
    }

    #[test]
    fn a_found_task_that_does_not_run_yet_is_reported_once_it_runs() {
        let mut records = Records::default();
        records.found(&found(run(0), true));
        records.found(&found(run(1), false));
        let follows = records.hear(whole(vec![(task(0), false), (task(1), false)]));
        assert_eq!(follows.reports, [said(0, TaskReport::Started)]);
        assert_eq!(follows.orders, [], "both were started before");
        assert!(records.report(&said(1, TaskReport::Started)));
    }

    /// The cell may have recorded the end of a task, and placed it here again, while the agent was restarted.
    #[test]
    fn a_found_task_of_an_earlier_placement_is_not_taken_for_the_new_one() {
        let placed = |placed_ms| Task { placed_ms, ..task(0) };
        let (before, now) = (placed(7).run_id(), placed(8));
        // An agent or a server of an earlier version does not know the time.
        for (known, sent, is_another) in [(7, 8, true), (8, 8, false), (0, 8, false), (7, 0, false)]
        {
            let mut records = Records::default();
            records.found(&found(placed(known).run_id(), true));
            let orders = records.hear(whole(vec![(placed(sent), true)])).orders;
            let stopped = Order::Stop { run: before, grace_ms: 0 };
            let expected = [stopped, Order::Start(now.clone())];
            assert_eq!(orders, if is_another { &expected[..] } else { &[] }, "{known} {sent}");
        }
    }

    /// A restored cell may give the number of a lost job to another job, before the agent attaches.
    #[test]
    fn a_task_of_another_job_with_an_equal_id_is_not_taken_for_the_new_one() {
        let other = || Task { job_name: "other".into(), ..task(0) };
        let stopped = || Order::Stop { run: run(0), grace_ms: 0 };
        let mut records = Records::default();
        records.hear(start(0, false));
        assert!(records.report(&said(0, TaskReport::Started)));
        let follows = records.hear(whole(vec![(other(), false)]));
        assert_eq!(
            (follows.orders, follows.reports),
            (vec![stopped(), Order::Start(other())], vec![])
        );
        let tenant = Program { tenant: "theirs".into(), ..Program::default() };
        let theirs = || Task { program: Arc::new(tenant.clone()), ..other() };
        assert!(records.report(&said(0, TaskReport::Failed)));
        let follows = records.hear(whole(vec![(theirs(), true)]));
        let confirmed = Order::EndConfirmed(run(0));
        let expected = [confirmed, Order::Start(theirs())];
        assert_eq!(follows.orders, expected, "the other task had ended");
        assert_eq!(follows.reports, [], "its end is no end of the new one");
        assert_eq!(records.hear(whole(vec![(theirs(), true)])), Follows::default());
    }

    #[test]
    fn a_task_that_runs_is_given_what_it_holds_from_now_on() {
        let mut records = Records::default();
        records.hear(start(0, false));
        let resized = |amount: u64, is_running: bool| Told {
            starts: vec![(Task { request: Amounts::new([amount]), ..task(0) }, is_running)],
            ..Told::default()
        };
        let order = |amount| Order::Resize { run: run(0), to: Amounts::new([amount]) };
        assert_eq!(records.hear(resized(2, false)).orders, [order(2)], "before it runs");
        assert!(records.report(&said(0, TaskReport::Started)));
        assert_eq!(records.hear(resized(2, true)), Follows::default(), "as it is");
        assert_eq!(records.hear(resized(1, true)).orders, [order(1)]);
        assert!(records.report(&said(0, TaskReport::Finished)));
        assert_eq!(records.hear(resized(3, true)), Follows::default(), "it has ended");
    }

    #[test]
    fn a_detached_machine_stops_everything() {
        let mut records = Records::default();
        records.hear(start(0, false));
        let told = Told { detached: vec![HERE], ..Told::default() };
        let stopped = Order::Stop { run: run(0), grace_ms: 0 };
        assert_eq!(records.hear(told).orders, [stopped, Order::Detached(HERE)]);
    }
}
