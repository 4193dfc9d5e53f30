//! Fitted data of a trace: its daily curve, and a sample of runs of its jobs.
//!
//! The trace is read twice, because the curve must be known before it can be removed from the gaps. Jobs that are
//! present at the start have no order, and are sampled one by one. A run is [`RUN_ROWS`] consecutive rows. The order of
//! rows within a run is kept, and runs are joined at random.

use super::chance::{Chance, Sample};
use super::clock::{Curve, Hours};
use super::draft::{self, Draft, Drafter, Gap, Lost};
use super::lives::Lives;
use super::marginals::Marginals;
use crate::trace::collector::Collector;
use crate::trace::info::Info;
use crate::trace::values::Values;
use omega_core::JobKind;
use omega_workload::stream::{Event, Stream};
use omega_workload::{Arrival, LoadError};

/// Rows per run: longer than nearly all bursts, but short enough that a trace has hundreds of runs.
const RUN_ROWS: usize = 64;

/// Number of runs in the sample: 65,536 rows in about 20 MB, which is more rows than most traces have.
const RUNS_MAX: usize = 1024;

/// A gap is short if it is at most the mean gap divided by this. With random arrivals, a tenth of the gaps are short,
/// which is too few to blur the daily curve. If a program submits jobs one after the other, nearly all gaps are short.
const SHORT: u64 = 8;

/// Maximum number of rows in the sample of jobs that are present at the start.
const START_ROWS_MAX: usize = 65_536;

/// The fitted data of a trace.
pub(super) struct Fit {
    pub(super) curve: Curve,
    /// Sample of the jobs that are present at the start.
    pub(super) start: Sample<Draft>,
    /// Sample of runs of the later jobs.
    pub(super) runs: Sample<Vec<Draft>>,
    marginals: Marginals,
    lost: Lost,
    machine_events: u64,
    endless: u64,
}

/// Results of the first pass.
pub(super) struct Look {
    pub(super) info: Info,
    curve: Curve,
    lives: Lives,
    /// Longest gap that is treated as short.
    gap_ms_short: u64,
}

/// Reads the trace the first time, for its statistics.
pub(super) fn look(stream: &mut dyn Stream) -> Result<Look, LoadError> {
    let mut collector = Collector::new(stream.head());
    let (mut hours, mut ended, mut end_ms) = (Hours::default(), Values::default(), 0);
    while let Some(event) = stream.next_event()? {
        end_ms = event.at_ms();
        if let Event::Job(job) = &event {
            if end_ms > 0 {
                hours.add(end_ms);
            }
            count_ended(&job.arrival, &mut ended);
        }
        collector.add(&event);
    }
    let info = collector.finish(stream.notes());
    let arrived = info.jobs.all - info.jobs.at_start;
    let gap_ms_short = (end_ms - info.first_ms) / arrived.max(1) / SHORT;
    let curve = hours.curve(info.first_ms, end_ms);
    Ok(Look { info, curve, lives: Lives::new(&ended, end_ms), gap_ms_short })
}

/// Counts the run times of a batch job's tasks.
fn count_ended(arrival: &Arrival, ended: &mut Values) {
    if arrival.job.kind == JobKind::Batch {
        let tasks = u32::try_from(arrival.job.task_count()).unwrap_or(u32::MAX);
        (0..tasks).filter_map(|task| arrival.run.of(task)).for_each(|run_ms| ended.add(run_ms, 1));
    }
}

impl Fit {
    /// Reads the trace the second time, for the samples.
    pub(super) fn of(
        stream: &mut dyn Stream,
        look: &Look,
        chance: &mut Chance,
    ) -> Result<Fit, LoadError> {
        let marginals = Marginals::new(&stream.head().kinds);
        let mut fit = Fit {
            curve: look.curve.clone(),
            start: Sample::new(START_ROWS_MAX),
            runs: Sample::new(RUNS_MAX),
            marginals,
            lost: Lost::default(),
            machine_events: 0,
            endless: 0,
        };
        // The time before the first job is not counted as a gap. Otherwise it could be drawn anywhere in the new trace,
        // or not at all.
        let (mut run, mut last_ms) = (Vec::new(), look.info.first_ms);
        while let Some(event) = stream.next_event()? {
            let Event::Job(job) = event else {
                fit.machine_events += 1;
                continue;
            };
            let at_ms = job.arrival.at_ms;
            let gap = match at_ms.saturating_sub(last_ms) {
                gap_ms if gap_ms <= look.gap_ms_short => Gap::Short(gap_ms),
                _ => Gap::Long(fit.curve.shows(at_ms) - fit.curve.shows(last_ms)),
            };
            last_ms = last_ms.max(at_ms);
            let drafter = Drafter { lives: &look.lives, chance, lost: &mut fit.lost };
            for row in draft::rows(&job.arrival, gap, drafter) {
                fit.marginals.add(at_ms, &row);
                if at_ms == 0 {
                    fit.start.offer(row, chance);
                    continue;
                }
                fit.endless += u64::from(row.run_ms.is_none());
                run.push(row);
                if run.len() == RUN_ROWS {
                    fit.runs.offer(std::mem::take(&mut run), chance);
                }
            }
        }
        if !run.is_empty() {
            fit.runs.offer(run, chance);
        }
        Ok(fit)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start.kept.is_empty() && self.runs.kept.is_empty()
    }

    pub(super) fn has_endless_arrivals(&self) -> bool {
        self.endless > 0
    }

    pub(super) fn marginals(&self) -> &Marginals {
        &self.marginals
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.lost.notes();
        if self.machine_events > 0 {
            let events = self.machine_events;
            notes.push(format!(
                "changes of machines are left out, because the tables cannot \
                 express them: {events}"
            ));
        }
        let (seen, kept) = (self.runs.seen(), self.runs.kept.len());
        if seen > kept as u64 {
            notes.push(format!("{kept} of {seen} runs of {RUN_ROWS} rows were drawn from"));
        }
        let (seen, kept) = (self.start.seen(), self.start.kept.len());
        if seen > kept as u64 {
            notes.push(format!("{kept} of {seen} rows of the start were drawn from"));
        }
        notes
    }
}
