//! An agent's records of its tasks.
//!
//! A report may be lost with its stream. So the report of a task's end is kept, and sent again on each new stream,
//! until the cell confirms it with a directive to stop the task.

use super::{Directive, LogRead, Owner, RecoveredTask, RunId, Task};
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
    /// Whether the task has run at some time.
    has_run: bool,
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
    pub(super) directives: Vec<Directive>,
    pub(super) reports: Vec<Reported>,
}

/// Directives that the cell sent together.
#[derive(Debug, Default)]
pub(super) struct DirectiveBatch {
    pub(super) whole: BTreeSet<MachineId>,
    pub(super) stops: Vec<(MachineId, TaskId)>,
    /// Tasks to start. The flag of a task is true if the cell has already recorded that the task runs.
    pub(super) starts: Vec<(Task, bool)>,
    pub(super) detached: Vec<MachineId>,
    pub(super) reads: Vec<LogRead>,
}

impl Records {
    /// Compares directives of the cell with the records, and returns the differences.
    pub(super) fn apply(&mut self, batch: DirectiveBatch) -> Follows {
        let mut follows = Follows::default();
        for (machine, task) in batch.stops {
            self.stop(machine, task, &mut follows);
        }
        let started: BTreeSet<(MachineId, TaskId)> =
            batch.starts.iter().map(|(task, _)| (task.machine, task.id)).collect();
        for machine in &batch.whole {
            let left: Vec<TaskId> =
                self.of(*machine).filter(|task| !started.contains(&(*machine, *task))).collect();
            left.into_iter().for_each(|task| self.stop(*machine, task, &mut follows));
        }
        for (task, is_running) in batch.starts {
            let is_new_stream = batch.whole.contains(&task.machine);
            self.start(task, is_running, is_new_stream, &mut follows);
        }
        follows.directives.extend(batch.reads.into_iter().map(Directive::ReadLog));
        for machine in batch.detached {
            let all: Vec<TaskId> = self.of(machine).collect();
            all.into_iter().for_each(|task| self.stop(machine, task, &mut follows));
            follows.directives.push(Directive::Detached(machine));
        }
        follows
    }

    /// Records a task that was started before this process began.
    pub(super) fn add_recovered(&mut self, recovered: &RecoveredTask) {
        if recovered.kill_in_ms.is_none() {
            let phase = if recovered.is_running { Phase::Running } else { Phase::Ordered };
            let (run, owner, request) =
                (recovered.run, recovered.owner.clone(), recovered.request.clone());
            let has_run = recovered.is_running;
            let record = Record { phase, has_run, run, owner, request };
            self.tasks.insert((run.machine, run.task), record);
        }
    }

    /// Records a task's outcome. Returns whether the outcome must be reported to the cell. No report is needed if the
    /// task was stopped, or if its end was reported before.
    pub(super) fn report(&mut self, reported: &Reported) -> bool {
        let place = (reported.run.machine, reported.run.task);
        let Some(Record { phase, has_run, run, .. }) = self.tasks.get_mut(&place) else {
            return false;
        };
        if !run.may_be(&reported.run) {
            return false;
        }
        match (&*phase, reported.report) {
            (Phase::Ended(..), _) => return false,
            (_, TaskReport::Restarted) => {}
            (_, TaskReport::Started) => (*phase, *has_run) = (Phase::Running, true),
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
        follows.directives.push(match phase {
            // The grace period is not needed here, because `Endings` has it.
            Phase::Ordered | Phase::Running => Directive::Stop { run, grace_ms: 0 },
            // The task had ended by itself, and the directive confirms its report.
            Phase::Ended(..) => Directive::EndConfirmed(run),
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
            let (phase, owner) = (Phase::Ordered, Some(owner));
            let record = Record { phase, has_run: false, run, owner, request };
            self.tasks.insert(place, record);
            follows.directives.push(Directive::Start(task));
            return;
        };
        // An agent that found the task may not know the owner or the time of the placement.
        (record.owner, record.run.placed_ms) =
            (Some(owner), record.run.placed_ms.max(task.placed_ms));
        let Record { phase, has_run, run, request, .. } = record;
        let run = *run;
        let reported = |report, end| Reported { run, report, end };
        match phase {
            Phase::Running if !is_running => {
                follows.reports.push(reported(TaskReport::Started, None));
            }
            Phase::Ended(ended, end) if is_new_stream => {
                // The report of the start may have been lost together with that of the end.
                if *has_run && !is_running {
                    follows.reports.push(reported(TaskReport::Started, None));
                }
                follows.reports.push(reported(*ended, end.clone()));
            }
            _ => {}
        }
        if !matches!(phase, Phase::Ended(..)) && *request != task.request {
            request.clone_from(&task.request);
            follows.directives.push(Directive::Resize { run, to: task.request });
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

    fn whole(starts: Vec<(Task, bool)>) -> DirectiveBatch {
        DirectiveBatch { whole: [HERE].into(), starts, ..DirectiveBatch::default() }
    }

    /// A report about a task on this machine. If the task failed, it includes the end of the program.
    fn reported(index: u32, report: TaskReport) -> Reported {
        let end = RunEnd { reason: EndReason::ExitCode(7), restarts: 2 };
        let end = (report == TaskReport::Failed).then_some(end);
        Reported { run: run(index), report, end }
    }

    fn stop(index: u32) -> DirectiveBatch {
        DirectiveBatch { stops: vec![(HERE, id(index))], ..DirectiveBatch::default() }
    }

    fn start(index: u32, is_running: bool) -> DirectiveBatch {
        DirectiveBatch { starts: vec![(task(index), is_running)], ..DirectiveBatch::default() }
    }

    /// A run of an earlier agent process, which did not record the owner.
    fn recovered(run: RunId, is_running: bool) -> RecoveredTask {
        RecoveredTask {
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
        let first =
            records.apply(whole(vec![(task(0), false), (task(1), false), (task(2), false)]));
        assert_eq!(first.directives.len(), 3);
        assert!((0..3).all(|index| records.report(&reported(index, TaskReport::Started))));
        assert!(records.report(&reported(1, TaskReport::Restarted)), "it runs on");
        assert!(records.report(&reported(1, TaskReport::Failed)));
        let again = records.apply(whole(vec![(task(0), false), (task(1), true), (task(3), false)]));
        let stopped = Directive::Stop { run: run(2), grace_ms: 0 };
        assert_eq!(again.directives, [stopped, Directive::Start(task(3))]);
        let repeated = [reported(0, TaskReport::Started), reported(1, TaskReport::Failed)];
        assert_eq!(again.reports, repeated, "what the cell does not know is said again");
    }

    #[test]
    fn a_start_that_the_cell_has_not_recorded_is_reported_before_the_end() {
        let (started, failed) = (reported(0, TaskReport::Started), reported(0, TaskReport::Failed));
        for (has_run, is_running) in [(false, false), (true, false), (true, true)] {
            let mut records = Records::default();
            records.add_recovered(&recovered(run(0), has_run));
            assert!(records.report(&failed));
            let follows = records.apply(whole(vec![(task(0), is_running)]));
            let is_missing = has_run && !is_running;
            let starts = is_missing.then(|| started.clone());
            let expected: Vec<Reported> = starts.into_iter().chain([failed.clone()]).collect();
            assert_eq!(follows.reports, expected, "{has_run} {is_running}");
        }
    }

    #[test]
    fn a_confirmed_end_lets_the_task_begin_anew() {
        let mut records = Records::default();
        records.apply(start(0, false));
        assert!(records.report(&reported(0, TaskReport::Failed)));
        assert!(!records.report(&reported(0, TaskReport::Finished)), "it has ended");
        assert_eq!(records.apply(start(0, false)), Follows::default(), "not confirmed yet");
        let both = DirectiveBatch { stops: vec![(HERE, id(0))], ..start(0, false) };
        let confirmed = Directive::EndConfirmed(run(0));
        assert_eq!(records.apply(both).directives, [confirmed, Directive::Start(task(0))]);
        assert_eq!(
            records.apply(stop(0)).directives,
            [Directive::Stop { run: run(0), grace_ms: 0 }]
        );
        assert_eq!(records.apply(stop(0)), Follows::default());
        assert!(!records.report(&reported(0, TaskReport::Finished)), "it concerns nobody");
    }

    #[test]
    fn a_found_task_that_does_not_run_yet_is_reported_once_it_runs() {
        let mut records = Records::default();
        records.add_recovered(&recovered(run(0), true));
        records.add_recovered(&recovered(run(1), false));
        let follows = records.apply(whole(vec![(task(0), false), (task(1), false)]));
        assert_eq!(follows.reports, [reported(0, TaskReport::Started)]);
        assert_eq!(follows.directives, [], "both were started before");
        assert!(records.report(&reported(1, TaskReport::Started)));
    }

    /// The cell may have recorded the end of a task, and placed it here again, while the agent was restarted.
    #[test]
    fn a_found_task_of_an_earlier_placement_is_not_taken_for_the_new_one() {
        let placed = |placed_ms| Task { placed_ms, ..task(0) };
        let (before, now) = (placed(7).run_id(), placed(8));
        // An agent or a server of an earlier version does not know the time.
        for (record, sent, is_another) in
            [(7, 8, true), (8, 8, false), (0, 8, false), (7, 0, false)]
        {
            let mut records = Records::default();
            records.add_recovered(&recovered(placed(record).run_id(), true));
            let directives = records.apply(whole(vec![(placed(sent), true)])).directives;
            let stopped = Directive::Stop { run: before, grace_ms: 0 };
            let expected = [stopped, Directive::Start(now.clone())];
            assert_eq!(directives, if is_another { &expected[..] } else { &[] }, "{record} {sent}");
        }
    }

    /// A restored cell may give the number of a lost job to another job, before the agent attaches.
    #[test]
    fn a_task_of_another_job_with_an_equal_id_is_not_taken_for_the_new_one() {
        let other = || Task { job_name: "other".into(), ..task(0) };
        let stopped = || Directive::Stop { run: run(0), grace_ms: 0 };
        let mut records = Records::default();
        records.apply(start(0, false));
        assert!(records.report(&reported(0, TaskReport::Started)));
        let follows = records.apply(whole(vec![(other(), false)]));
        assert_eq!(
            (follows.directives, follows.reports),
            (vec![stopped(), Directive::Start(other())], vec![])
        );
        let tenant = Program { tenant: "theirs".into(), ..Program::default() };
        let theirs = || Task { program: Arc::new(tenant.clone()), ..other() };
        assert!(records.report(&reported(0, TaskReport::Failed)));
        let follows = records.apply(whole(vec![(theirs(), true)]));
        let confirmed = Directive::EndConfirmed(run(0));
        let expected = [confirmed, Directive::Start(theirs())];
        assert_eq!(follows.directives, expected, "the other task had ended");
        assert_eq!(follows.reports, [], "its end is no end of the new one");
        assert_eq!(records.apply(whole(vec![(theirs(), true)])), Follows::default());
    }

    #[test]
    fn a_task_that_runs_is_given_what_it_holds_from_now_on() {
        let mut records = Records::default();
        records.apply(start(0, false));
        let resized = |amount: u64, is_running: bool| DirectiveBatch {
            starts: vec![(Task { request: Amounts::new([amount]), ..task(0) }, is_running)],
            ..DirectiveBatch::default()
        };
        let directive = |amount| Directive::Resize { run: run(0), to: Amounts::new([amount]) };
        assert_eq!(records.apply(resized(2, false)).directives, [directive(2)], "before it runs");
        assert!(records.report(&reported(0, TaskReport::Started)));
        assert_eq!(records.apply(resized(2, true)), Follows::default(), "as it is");
        assert_eq!(records.apply(resized(1, true)).directives, [directive(1)]);
        assert!(records.report(&reported(0, TaskReport::Finished)));
        assert_eq!(records.apply(resized(3, true)), Follows::default(), "it has ended");
    }

    #[test]
    fn a_detached_machine_stops_everything() {
        let mut records = Records::default();
        records.apply(start(0, false));
        let batch = DirectiveBatch { detached: vec![HERE], ..DirectiveBatch::default() };
        let stopped = Directive::Stop { run: run(0), grace_ms: 0 };
        assert_eq!(records.apply(batch).directives, [stopped, Directive::Detached(HERE)]);
    }
}
