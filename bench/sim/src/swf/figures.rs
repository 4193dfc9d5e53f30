//! Figures of a schedule: waits, slowdowns, and utilisation of the machine.

use super::trace::{SimJob, Trace};

/// Lower bound of the run time in a slowdown, as in the literature; without it, short jobs would dominate the mean.
const TAU_MS: u64 = 10_000;

/// A job is wide if it needs at least a quarter (1 / `WIDE`) of the machine.
const WIDE: u64 = 4;

/// The figures of one schedule. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Number of jobs.
    pub jobs: usize,
    /// Mean wait.
    pub wait_mean_s: f64,
    /// Median wait.
    pub wait_p50_s: f64,
    /// 90th percentile of the wait.
    pub wait_p90_s: f64,
    /// 99th percentile of the wait.
    pub wait_p99_s: f64,
    /// The longest wait.
    pub wait_max_s: f64,
    /// Mean wait of wide jobs, which need at least a quarter of the machine.
    pub wide_wait_mean_s: f64,
    /// The longest wait of wide jobs.
    pub wide_wait_max_s: f64,
    /// Mean of the jobs' slowdowns. A slowdown is (wait + run time) / max(run time, 10 s), and at least 1.
    pub slowdown_mean: f64,
    /// Processor time used by jobs, as a share of the machine's processor time from the first submission to the last
    /// end.
    pub utilisation: f64,
    /// Time from the first submission to the last end.
    pub makespan_s: f64,
}

impl Figures {
    /// Figures of a schedule in which jobs start at these times.
    #[must_use]
    pub fn of(trace: &Trace, starts_ms: &[u64]) -> Figures {
        let jobs: Vec<(SimJob, u64)> =
            trace.jobs.iter().copied().zip(starts_ms.iter().copied()).collect();
        figures(trace.processors, &jobs)
    }

    /// Figures of the schedule that the log records; `None` if the log has no waits.
    #[must_use]
    pub fn logged(trace: &Trace) -> Option<Figures> {
        let started = |job: &SimJob| Some((*job, job.submit_ms + job.waited_ms?));
        let jobs: Vec<(SimJob, u64)> = trace.jobs.iter().filter_map(started).collect();
        (!jobs.is_empty()).then(|| figures(trace.processors, &jobs))
    }
}

fn figures(processors: u64, jobs: &[(SimJob, u64)]) -> Figures {
    let mut waits_ms: Vec<u64> = jobs.iter().map(|(job, start)| start - job.submit_ms).collect();
    let slowdown = |(job, start): &(SimJob, u64)| {
        let response = (start - job.submit_ms + job.run_ms) as f64;
        (response / job.run_ms.max(TAU_MS) as f64).max(1.0)
    };
    let slowdowns: f64 = jobs.iter().map(slowdown).sum();
    let work: f64 = jobs.iter().map(|(job, _)| job.run_ms as f64 * job.processors as f64).sum();
    let first_ms = jobs.iter().map(|(job, _)| job.submit_ms).min().unwrap_or(0);
    let last_ms = jobs.iter().map(|(job, start)| start + job.run_ms).max().unwrap_or(0);
    let makespan_s = seconds(last_ms - first_ms);
    let count = jobs.len().max(1) as f64;
    let sum: f64 = waits_ms.iter().map(|wait| seconds(*wait)).sum();
    let wide = jobs.iter().filter(|(job, _)| job.processors * WIDE >= processors);
    let wide: Vec<u64> = wide.map(|(job, start)| start - job.submit_ms).collect();
    // The sum of no numbers would be -0.
    let wide_sum = wide.iter().map(|wait| seconds(*wait)).fold(0.0, |sum, wait| sum + wait);
    waits_ms.sort_unstable();
    Figures {
        jobs: jobs.len(),
        wait_mean_s: sum / count,
        wait_p50_s: quantile(&waits_ms, 50),
        wait_p90_s: quantile(&waits_ms, 90),
        wait_p99_s: quantile(&waits_ms, 99),
        wait_max_s: quantile(&waits_ms, 100),
        wide_wait_mean_s: wide_sum / wide.len().max(1) as f64,
        wide_wait_max_s: seconds(wide.iter().copied().max().unwrap_or(0)),
        slowdown_mean: slowdowns / count,
        utilisation: work / 1000.0 / (makespan_s * processors as f64).max(f64::MIN_POSITIVE),
        makespan_s,
    }
}

/// Returns the value at this percentile: the smallest value such that at least `percent` percent of the values are not
/// larger.
fn quantile(ascending_ms: &[u64], percent: usize) -> f64 {
    let rank = (ascending_ms.len() * percent).div_ceil(100).max(1);
    ascending_ms.get(rank - 1).map_or(0.0, |value| seconds(*value))
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_definitions() {
        let job = |submit_s: u64, run_s: u64, processors| SimJob {
            submit_ms: submit_s * 1000,
            run_ms: run_s * 1000,
            requested_ms: run_s * 1000,
            processors,
            waited_ms: None,
        };
        let jobs = vec![job(100, 20, 2), job(100, 1, 4), job(110, 30, 1)];
        let trace = Trace { processors: 4, jobs, ..Trace::default() };
        // The waits are 0, 20 and 11 seconds; the slowdowns are 1, 21/10 and 41/30.
        let figures = Figures::of(&trace, &[100_000, 120_000, 121_000]);
        assert_eq!(
            (figures.wait_p50_s, figures.wait_p90_s, figures.wait_max_s),
            (11.0, 20.0, 20.0)
        );
        assert_eq!((figures.wide_wait_mean_s, figures.wide_wait_max_s), (31.0 / 3.0, 20.0));
        assert!((figures.wait_mean_s - 31.0 / 3.0).abs() < 1e-9);
        assert!((figures.slowdown_mean - (1.0 + 2.1 + 41.0 / 30.0) / 3.0).abs() < 1e-9);
        assert!((figures.makespan_s - 51.0).abs() < 1e-9);
        assert!((figures.utilisation - 74.0 / 204.0).abs() < 1e-9);
        assert_eq!(Figures::logged(&trace), None);
    }

    #[test]
    fn quantiles_are_values_that_occur() {
        let values: Vec<u64> = (1..=10).map(|i| i * 1000).collect();
        let quantiles = [50, 90, 99, 100].map(|percent| quantile(&values, percent));
        assert_eq!(quantiles, [5.0, 9.0, 10.0, 10.0]);
        assert_eq!(quantile(&[7000], 50), 7.0);
    }
}
