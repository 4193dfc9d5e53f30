//! The agenda of a run: the workload's time, and the future events.

use crate::cell::RunCell;
use crate::driver::ends::{Ending, Ends, Since};
use crate::driver::waiting_gangs::WaitingGangs;
use omega_core::{Job, JobId, TaskId};
use omega_workload::{Arrival, MachineChange, MachineEvent, RunTime};
use std::collections::VecDeque;

/// Interval, in the workload's time, of the commands by which the cell removes ended jobs.
const EXPIRE_EACH_MS: u64 = 60_000;

/// The agenda of a run. See the module documentation.
pub(crate) struct Agenda {
    now_ms: u64,
    arrivals: VecDeque<Arrival>,
    machine_events: VecDeque<MachineEvent>,
    /// Run time of each job's tasks, by job number.
    runs: Vec<RunTime>,
    ends: Ends,
    /// Placed tasks whose ends are not known, because their gangs wait.
    gangs: WaitingGangs,
    /// The time of the last arrival or machine event.
    span_ms: u64,
    expired_ms: u64,
}

impl Agenda {
    /// Creates the agenda of a workload. Arrivals and machine events are each in the order of time.
    pub(crate) fn new(arrivals: Vec<Arrival>, machine_events: Vec<MachineEvent>) -> Agenda {
        let last = arrivals.last().map_or(0, |arrival| arrival.at_ms);
        let last_event = machine_events.last().map_or(0, |event| event.at_ms);
        Agenda {
            now_ms: 0,
            arrivals: arrivals.into(),
            machine_events: machine_events.into(),
            runs: Vec::new(),
            ends: Ends::default(),
            gangs: WaitingGangs::default(),
            span_ms: last.max(last_event),
            expired_ms: 0,
        }
    }

    /// The workload's time.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The time of the last arrival or machine event.
    pub(crate) fn span_ms(&self) -> u64 {
        self.span_ms
    }

    /// Number of jobs that have arrived.
    pub(crate) fn came(&self) -> usize {
        self.runs.len()
    }

    /// The time of the next event; `None` after the end of the workload.
    pub(crate) fn next(&self) -> Option<u64> {
        let arrival = self.arrivals.front().map(|arrival| arrival.at_ms);
        let machine = self.machine_events.front().map(|event| event.at_ms);
        let end = self.ends.next().filter(|at| *at <= self.span_ms);
        arrival.into_iter().chain(machine).chain(end).min()
    }

    /// Advances the time to an event.
    pub(crate) fn advance(&mut self, at_ms: u64) {
        self.now_ms = self.now_ms.max(at_ms);
    }

    /// Removes and returns the arrivals up to and including this time.
    pub(crate) fn arrived(&mut self, at_ms: u64) -> Vec<Arrival> {
        let mut arrived = Vec::new();
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.at_ms <= at_ms) {
            arrived.push(arrival);
        }
        arrived
    }

    /// Records the next job, with the run time of its tasks.
    pub(crate) fn add_job(&mut self, job: &Job, run: RunTime) {
        self.gangs.add_job(JobId(self.runs.len() as u64), job);
        self.runs.push(run);
    }

    /// Removes and returns the first machine change that is not later than this time.
    pub(crate) fn machine_change(&mut self, at_ms: u64) -> Option<MachineChange> {
        Some(self.machine_events.pop_front_if(|event| event.at_ms <= at_ms)?.change)
    }

    /// Removes and returns the tasks that end first, if their end is not later than this time.
    pub(crate) fn ended(&mut self, at_ms: u64) -> Option<Since> {
        self.ends.pop(at_ms)
    }

    /// Returns whether the cell must remove ended jobs now. If so, records the present time as that of the last
    /// removal.
    pub(crate) fn expires(&mut self) -> bool {
        let is_due = self.now_ms >= self.expired_ms + EXPIRE_EACH_MS;
        if is_due {
            self.expired_ms = self.now_ms;
        }
        is_due
    }

    /// Schedules the ends of tasks that were placed at this time. The run time of a waiting gang's tasks begins when the
    /// gang is complete.
    pub(crate) fn schedule_ends(&mut self, at_ms: u64, tasks: Since, cell: &RunCell) {
        let started = self.gangs.add(at_ms, tasks);
        self.add_ends(at_ms, started);
        self.start_gangs(cell);
    }

    /// Schedules the ends of tasks of gangs that have become complete.
    pub(crate) fn start_gangs(&mut self, cell: &RunCell) {
        if self.gangs.is_empty() {
            return;
        }
        for (at_ms, tasks) in cell.read(|cell| self.gangs.take_complete(cell)) {
            self.add_ends(at_ms, tasks);
        }
    }

    /// Adds the ends of tasks that started at this time. Tasks of one job that have equal run times end together.
    fn add_ends(&mut self, at_ms: u64, (version, tasks): Since) {
        let Agenda { runs, ends, .. } = self;
        let end_of = |task: TaskId| {
            let run = runs.get(task.job.0 as usize)?.of(task.index)?;
            Some(at_ms.saturating_add(run))
        };
        for of_job in tasks.chunk_by(|(a, _), (b, _)| a.job == b.job) {
            let mut rest: Ending = of_job.to_vec();
            // Usually the first pass takes all tasks, because in most jobs all tasks have one run time.
            while let Some((first, _)) = rest.first() {
                let at = end_of(*first);
                let (now, later) = rest.into_iter().partition(|(task, _)| end_of(*task) == at);
                rest = later;
                if let Some(at_ms) = at {
                    ends.add(at_ms, (version, now));
                }
            }
        }
    }
}
