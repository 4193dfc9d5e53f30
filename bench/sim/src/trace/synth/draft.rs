//! A row of the table of jobs, without its name and arrival time.

use super::chance::Chance;
use super::lives::Lives;
use omega_core::{Amounts, JobKind, Text};
use omega_workload::csv::write::Rules;
use omega_workload::{Arrival, RunTime};

/// Time between a row and the previous one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gap {
    /// Real milliseconds. Short gaps are between jobs submitted by a program, and do not depend on the time of day.
    Short(u64),
    /// Microseconds on the clock of the daily curve.
    Long(u128),
}

/// One row, made from a task group of a job of the trace.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) gap: Gap,
    pub(super) count: u32,
    pub(super) request: Amounts,
    /// Number of devices, and the requested part of each in thousandths.
    pub(super) devices: Option<(u8, u16)>,
    pub(super) run_ms: Option<u64>,
    pub(super) kind: JobKind,
    pub(super) precedence: i32,
    pub(super) tenant: Text,
    pub(super) gang: Option<u32>,
    pub(super) rules: Box<Rules>,
}

/// Numbers of jobs, tasks or rows with properties that the table cannot express.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    /// Jobs with several groups, which become several rows.
    pub(super) split: u64,
    /// Rows whose tasks have different run times.
    pub(super) uneven: u64,
    /// Rows of batch tasks with an unknown end.
    pub(super) endless: u64,
    /// Jobs with rules and preferences that the table cannot express.
    pub(super) rules: u64,
    /// Tasks that already run when their job arrives.
    pub(super) placed: u64,
}

/// Inputs for making rows: the run times for tasks without an end, the random generator, and the counts of properties
/// that the table cannot express.
pub(super) struct Drafter<'a> {
    pub(super) lives: &'a Lives,
    pub(super) chance: &'a mut Chance,
    pub(super) lost: &'a mut Lost,
}

/// Makes the rows of a job. The first row arrives `gap` after the last row of the previous job.
pub(super) fn rows(arrival: &Arrival, gap: Gap, drafter: Drafter<'_>) -> Vec<Draft> {
    let Drafter { lives, chance, lost } = drafter;
    let job = &arrival.job;
    lost.placed += arrival.placed.len() as u64;
    lost.split += u64::from(job.groups.len() > 1);
    let (mut rows, mut first) = (Vec::with_capacity(job.groups.len()), 0);
    for group in job.groups.iter().filter(|group| group.count > 0) {
        let rules = Rules::of(&group.labels, &group.rules);
        lost.rules += rules.left_out;
        let run_ms = match &arrival.run {
            RunTime::Each(_) => {
                let alike = |task| arrival.run.of(task) == arrival.run.of(first);
                lost.uneven += u64::from(!(first..first + group.count).all(alike));
                arrival.run.of(first + chance.below(u64::from(group.count)) as u32)
            }
            run => run.of(first),
        };
        let run_ms = match run_ms {
            None if job.kind == JobKind::Batch => {
                let drawn = lives.beyond(arrival.at_ms, chance);
                lost.endless += u64::from(drawn.is_some());
                drawn
            }
            run_ms => run_ms,
        };
        rows.push(Draft {
            gap: if rows.is_empty() { gap } else { Gap::Short(0) },
            count: group.count,
            request: group.request.clone(),
            devices: group.devices.map(|devices| (devices.count, devices.milli_each)),
            run_ms,
            kind: job.kind,
            precedence: job.precedence.0,
            tenant: job.tenant.clone(),
            gang: job.gang_min.map(|tasks| tasks.min(group.count)),
            rules: Box::new(rules),
        });
        first += group.count;
    }
    rows
}

impl Lost {
    /// Describes the lost properties in sentences.
    pub(super) fn notes(&self) -> Vec<String> {
        let said = [
            (self.split, "jobs have several groups: each group becomes a job of its own"),
            (
                self.uneven,
                "rows have tasks with different run times: all get the run time of one of them",
            ),
            (
                self.endless,
                "rows are of batch tasks whose end is not in the trace: they get the run time of \
                 a task that ran longer",
            ),
            (self.rules, "rules and preferences that the tables cannot express are left out"),
            (
                self.placed,
                "tasks are already running when their job arrives: they are pending \
                 here",
            ),
        ];
        let said = said.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} {what}")).collect()
    }
}
