//! Distributions of the jobs of the synthetic day: sizes, run times and arrivals.
//!
//! The numbers are measured on the first 83 minutes of the trace (190,926 tasks of 4,895 jobs);
//! amounts are fractions of the largest machine:
//!
//! | | 1 % | 25 % | 50 % | 75 % | 95 % | 99 % | most | log-normal fit (base 2) |
//! |---|---|---|---|---|---|---|---|---|
//! | service tasks' CPU | .005 | .063 | .069 | .125 | .25 | .375 | .5 | -3.73 ± 1.20 |
//! | their memory | .003 | .026 | .053 | .086 | .21 | .23 | .64 | -4.44 ± 1.43 |
//! | batch tasks' CPU | .0006 | .013 | .025 | .063 | .069 | .25 | .5 | -5.31 ± 1.41 |
//! | their memory | .0016 | .013 | .025 | .033 | .12 | .16 | .96 | -5.63 ± 1.55 |
//! | tasks per service job | 1 | 1 | 2 | 6 | 128 | 550 | 3,879 | |
//! | tasks per batch job | 1 | 1 | 1 | 2 | 100 | 1,050 | 20,010 | |
//! | batch run time, s | 36 | 191 | 370 | 605 | 1,785 | 2,896 | 3,728 | (cut at the window's end) |
//!
//! Disk is fitted likewise (-12.1 ± 2.1 and -12.6 ± 2.0). Run times are given a longer tail than was
//! measured, since the window cut off the long ones: median 480 s, mean 21 minutes.

use super::dice::{Dice, LogNormal, Quantiles};
use super::options::SynthOptions;
use super::sizes::{CPU_MILLIS, DISK_BYTES, MEMORY_BYTES, cpu_of};
use omega_core::{JobKind, Machine};

/// Share of all requested CPU that the initial jobs request, in percent. With the later service jobs, the share stays
/// below 80 %, the Omega paper's maximum for service jobs.
const PREFILL_PERCENT: u64 = 74;
/// One in this many later jobs is a service job. Including the initial jobs, about one in twenty jobs is a service job,
/// which agrees with the Omega paper's "more than 80 % are batch".
const SERVICE_ONE_IN: u64 = 50;
/// Number of machines per demanding job, whose tasks need most of a large machine each.
const DEMANDING_PER_MACHINES: u64 = 500;
/// Longest run time: a day.
const RUN_MS_MAX: u64 = 86_400_000;
/// Largest request of a task, in thousandths of the largest machine. Of the trace's tasks, 99.9 % request less, and
/// most machines have room for this request.
const TASK_MOST: [u64; 3] = [375, 450, 450];
/// Largest request of a task in jobs whose task count exceeds a twelfth of the machine count (1,000 in the trace). In
/// the trace, too, large jobs have no large tasks. Besides, one job should not determine how full the cell is.
const LARGE_JOB_TASK_MOST: [u64; 3] = [125, 160, 160];
const LARGE_JOB: u64 = 12;
/// Weight of a task's CPU in the draw of its memory. `MEMORY_ALONE` is the weight of the independent part. The squares
/// of both weights add up to 1, so the logarithms of CPU and memory have a correlation of 0.5.
const CPU_TO_MEMORY: f64 = 0.5;
const MEMORY_ALONE: f64 = 0.866;

/// Request of a service task for CPU, memory and disk, as fractions of the largest machine. The fit of memory has more
/// very large tasks than the trace. So memory is slightly below the fit here, and has the mean of the trace.
const SERVICE_REQUEST: [LogNormal; 3] = [
    LogNormal { mean: -3.73, deviation: 1.20 },
    LogNormal { mean: -4.55, deviation: 1.43 },
    LogNormal { mean: -12.1, deviation: 2.1 },
];
const BATCH_REQUEST: [LogNormal; 3] = [
    LogNormal { mean: -5.31, deviation: 1.41 },
    LogNormal { mean: -5.74, deviation: 1.55 },
    LogNormal { mean: -12.6, deviation: 2.0 },
];
/// Run times of batch tasks in seconds.
const BATCH_RUN: LogNormal = LogNormal { mean: 8.9, deviation: 2.0 };
const SERVICE_RUN: LogNormal = LogNormal { mean: 11.2, deviation: 1.4 };

/// Tasks per job, by the table above.
const SERVICE_TASKS: &Quantiles = &[
    (0.0, 0.0),
    (0.45, 0.0),
    (0.5, 1.0),
    (0.75, 2.58),
    (0.9, 5.32),
    (0.95, 7.0),
    (0.99, 9.1),
    (0.999, 11.6),
    (1.0, 11.92),
];
const BATCH_TASKS: &Quantiles = &[
    (0.0, 0.0),
    (0.65, 0.0),
    (0.75, 1.0),
    (0.9, 4.32),
    (0.95, 6.64),
    (0.99, 10.04),
    (0.999, 12.29),
    (1.0, 14.29),
];

/// A job without its name and rules.
pub(super) struct Draft {
    pub(super) at_ms: u64,
    pub(super) run_ms: Option<u64>,
    pub(super) kind: JobKind,
    pub(super) count: u32,
    pub(super) request: [u64; 3],
}

impl Draft {
    /// Work of the job within the span, in thousandths of a core times milliseconds.
    fn work(&self, span_ms: u64) -> u128 {
        self.work_of_one(span_ms) * u128::from(self.count)
    }

    fn work_of_one(&self, span_ms: u64) -> u128 {
        let left_ms = span_ms - self.at_ms;
        let run_ms = self.run_ms.map_or(left_ms, |run_ms| run_ms.min(left_ms));
        u128::from(self.request[0]) * u128::from(run_ms)
    }
}

/// All jobs, ascending by arrival.
pub(super) fn draw(machines: &[Machine], options: &SynthOptions, dice: &mut Dice) -> Vec<Draft> {
    let span_ms = u64::from(options.span_hours) * 3_600_000;
    let most = machines.len() as u64;
    let whole = u128::from(cpu_of(machines)) * u128::from(span_ms);
    let wanted = whole * u128::from(options.utilisation_percent) / 100;
    let at_start = wanted * u128::from(PREFILL_PERCENT) / 100;

    let mut drafts = Vec::new();
    draw_until(at_start, span_ms, &mut drafts, || prefill(most, dice));
    let demanding: Vec<Draft> =
        (0..most / DEMANDING_PER_MACHINES).map(|_| demanding(span_ms, dice)).collect();
    let taken: u128 = drafts.iter().chain(&demanding).map(|draft| draft.work(span_ms)).sum();
    drafts.extend(demanding);
    let rest = wanted.saturating_sub(taken);
    draw_until(rest, span_ms, &mut drafts, || arriving(most, span_ms, dice));
    drafts.sort_by_key(|draft| draft.at_ms);
    drafts
}

/// Draws jobs until their work reaches `budget`; the last one is reduced to fit. The jobs are added to an existing
/// list, because a second list of a month's jobs would take as much memory as the run.
fn draw_until(
    budget: u128,
    span_ms: u64,
    drafts: &mut Vec<Draft>,
    mut draw: impl FnMut() -> Draft,
) {
    let mut left = budget;
    while left > 0 {
        let mut draft = draw();
        let one = draft.work_of_one(span_ms).max(1);
        draft.count = u128::from(draft.count).min(left.div_ceil(one)) as u32;
        left = left.saturating_sub(one * u128::from(draft.count));
        drafts.push(draft);
    }
}

/// An initial service job.
fn prefill(machines: u64, dice: &mut Dice) -> Draft {
    // The largest initial service job of the trace has as many tasks as 31 % of the machines.
    let count = count(SERVICE_TASKS, machines * 31 / 100, dice);
    Draft {
        at_ms: 0,
        run_ms: None,
        kind: JobKind::Service,
        count,
        request: request(&SERVICE_REQUEST, task_most(count, machines), dice),
    }
}

/// A job that arrives during the span.
fn arriving(machines: u64, span_ms: u64, dice: &mut Dice) -> Draft {
    let at_ms = dice.below(span_ms);
    if dice.below(SERVICE_ONE_IN) == 0 {
        return Draft {
            at_ms,
            run_ms: Some(run_ms(SERVICE_RUN, dice)),
            kind: JobKind::Service,
            // The largest service that arrived during Google's trace had 128 tasks.
            count: count(SERVICE_TASKS, (machines / 4).min(128), dice),
            request: request(&SERVICE_REQUEST, TASK_MOST, dice),
        };
    }
    // The largest batch job of the trace has more tasks than the cell has machines. Here, one job should not be most of
    // the load.
    let count = count(BATCH_TASKS, machines / 2, dice);
    Draft {
        at_ms,
        run_ms: Some(run_ms(BATCH_RUN, dice)),
        kind: JobKind::Batch,
        count,
        request: request(&BATCH_REQUEST, task_most(count, machines), dice),
    }
}

/// A job with a few tasks that each need nearly all of a large machine, for one or two hours. Only one machine in
/// sixteen is large enough, so the scheduler must make room on such a machine.
fn demanding(span_ms: u64, dice: &mut Dice) -> Draft {
    Draft {
        at_ms: dice.below(span_ms),
        run_ms: Some(3_600_000 + dice.below(3_600_000)),
        kind: JobKind::Batch,
        count: 1 + dice.below(4) as u32,
        request: [CPU_MILLIS * 9 / 10, MEMORY_BYTES * 7 / 10, 0],
    }
}

fn count(quantiles: &Quantiles, most: u64, dice: &mut Dice) -> u32 {
    (dice.quantile(quantiles) as u64).clamp(1, most.max(1)) as u32
}

fn run_ms(of: LogNormal, dice: &mut Dice) -> u64 {
    ((dice.log_normal(of) * 1000.0) as u64).clamp(1000, RUN_MS_MAX)
}

/// Draws a request: thousandths of a core, and whole mebibytes of memory and disk, each at least one.
fn request(of: &[LogNormal; 3], most: [u64; 3], dice: &mut Dice) -> [u64; 3] {
    let units = [(CPU_MILLIS, 1), (MEMORY_BYTES, 1 << 20), (DISK_BYTES, 1 << 20)];
    let cpu = dice.normal();
    let memory = CPU_TO_MEMORY * cpu + MEMORY_ALONE * dice.normal();
    let draws = [cpu, memory, dice.normal()];
    let mut amounts = [0; 3];
    for (i, (whole, step)) in units.into_iter().enumerate() {
        let amount = (of[i].at(draws[i]) * whole as f64) as u64;
        amounts[i] = amount.clamp(1, whole * most[i] / 1000).div_ceil(step) * step;
    }
    amounts
}

/// Largest request of a task in a job of `count` tasks.
fn task_most(count: u32, machines: u64) -> [u64; 3] {
    if u64::from(count) > machines / LARGE_JOB { LARGE_JOB_TASK_MOST } else { TASK_MOST }
}
