//! Fixtures of the tests: small cells, plans that own their data, the command as a process, and the real data.

use omega_core::{ConflictCheck, Granularity};
use omega_sim::engine::{CommitMode, DecisionTime, Job, Kind, Plan, Retries, Scheduler, Survey};
use omega_sim::reference::{CellPlacer, ReferenceCell, ReferenceJob, Request};
use std::process::{Command, Output};

/// A plan that owns its data.
pub(crate) struct Case {
    pub(crate) jobs: Vec<Job>,
    pub(crate) tasks: Vec<ReferenceJob>,
    pub(crate) arrivals: Vec<u32>,
    pub(crate) owners: Vec<u32>,
    pub(crate) schedulers: Vec<Scheduler>,
    pub(crate) end_s: f64,
    pub(crate) survey: Survey,
    pub(crate) retries: Retries,
}

/// A scheduler whose decision takes a second for a job, and another second for each task.
pub(crate) const SLOW: Scheduler = {
    let time = DecisionTime { job_s: 1.0, task_s: 1.0 };
    Scheduler { batch: time, service: time }
};

impl Case {
    /// Jobs (submission, tasks, duration) of one batch scheduler, whose tasks request a processor and a gigabyte each.
    pub(crate) fn new(jobs: impl IntoIterator<Item = (f64, u32, f64)>) -> Case {
        let request = Request { cpu: 1.0, memory: 1.0 };
        let job = |(submit_s, tasks, run_s)| {
            (Job { submit_s, tasks, kind: Kind::Batch }, ReferenceJob { request, run_s })
        };
        let (jobs, tasks): (Vec<Job>, Vec<ReferenceJob>) = jobs.into_iter().map(job).unzip();
        Case {
            tasks,
            arrivals: (0..jobs.len() as u32).collect(),
            owners: vec![0; jobs.len()],
            jobs,
            schedulers: vec![SLOW],
            end_s: f64::MAX,
            survey: Survey::Never,
            retries: Retries::Limited,
        }
    }

    pub(crate) fn plan(&self) -> Plan<'_> {
        Plan {
            jobs: &self.jobs,
            arrivals: &self.arrivals,
            owners: &self.owners,
            schedulers: &self.schedulers,
            changes: &[],
            end_s: self.end_s,
            survey: self.survey,
            used_until_s: f64::INFINITY,
            retries: self.retries,
        }
    }

    /// A cell with machines of ten processors and twenty gigabytes.
    pub(crate) fn cell(&self, machines: u32, mode: CommitMode) -> ReferenceCell<'_> {
        let placers = vec![CellPlacer { seed: 1, left_out: 0 }; self.schedulers.len()];
        let capacity = Request { cpu: 10.0, memory: 20.0 };
        ReferenceCell::new(machines, capacity, &placers, mode, &self.tasks)
    }
}

pub(crate) const FINE: CommitMode =
    CommitMode { check: ConflictCheck::ResourceFit, granularity: Granularity::Incremental };
pub(crate) const COARSE: CommitMode = CommitMode { check: ConflictCheck::SequenceNumber, ..FINE };

/// All conflict checks and granularities.
pub(crate) fn modes() -> Vec<CommitMode> {
    let whole = |mode| CommitMode { granularity: Granularity::AllOrNothing, ..mode };
    vec![FINE, COARSE, whole(FINE), whole(COARSE)]
}

/// The command with these arguments.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omega-sim"));
    command.args(args);
    command
}

/// Runs the command with these arguments.
pub(crate) fn omega_sim(args: &[&str]) -> Output {
    command(args).output().expect("the command starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}
