//! Results of each combination of settings, averaged over the seeds.

use super::file::SETTINGS;
use super::kept::Done;
use crate::scenario::{Report, SchedulerReport};
use crate::sheet::Cell;
use std::collections::BTreeMap;

/// The schedulers of a group of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    /// One scheduler has all jobs.
    All,
    Batch,
    Service,
}

impl Whose {
    /// Returns the group of a scheduler, from its name.
    fn of(name: &str) -> Whose {
        match name {
            _ if name.starts_with("batch") => Whose::Batch,
            _ if name.starts_with("service") => Whose::Service,
            _ => Whose::All,
        }
    }
}

/// Mean, minimum and maximum of a value over all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Returns the spread of the values that are present; `None` if no value is present.
    fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Spread> {
        let values: Vec<f64> = values.flatten().collect();
        let first = *values.first()?;
        Some(Spread {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            least: values.iter().copied().fold(first, f64::min),
            most: values.iter().copied().fold(first, f64::max),
        })
    }
}

/// Results of a group of schedulers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures<T> {
    /// Mean share of the time that the schedulers spent deciding.
    pub(super) busy: T,
    /// Mean wait of the group's jobs for their first attempt, in seconds.
    pub(super) wait_s: T,
    /// Ratio of transactions with a conflict to transactions without.
    pub(super) conflicts: T,
    /// The share of the group's jobs that were placed completely.
    pub(super) placed: T,
}

/// A combination of settings.
pub(super) struct Combination {
    /// Settings in the order of [`SETTINGS`], without the seed.
    pub(super) settings: Vec<Cell>,
    /// Number of seeds with which the combination was run.
    pub(super) seeds: usize,
    /// Figures of the combination by group.
    pub(super) figures: BTreeMap<Whose, Figures<Option<Spread>>>,
}

/// The combinations, in order of first appearance.
pub(super) fn combinations(done: &[Done]) -> Vec<Combination> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(Vec<Cell>, Vec<&Report>)> = Vec::new();
    for Done { point, report } in done {
        let mut settings = point.cells();
        settings.truncate(SETTINGS.len() - 1);
        let number = *numbers.entry(format!("{settings:?}")).or_insert(groups.len());
        match groups.get_mut(number) {
            Some((_, reports)) => reports.push(report),
            None => groups.push((settings, vec![report])),
        }
    }
    groups.into_iter().map(|(settings, reports)| Combination::new(settings, &reports)).collect()
}

impl Combination {
    fn new(settings: Vec<Cell>, reports: &[&Report]) -> Combination {
        let mut runs: BTreeMap<Whose, Vec<Figures<Option<f64>>>> = BTreeMap::new();
        for report in reports {
            for (whose, figures) in of_run(report) {
                runs.entry(whose).or_default().push(figures);
            }
        }
        let over = |runs: Vec<Figures<Option<f64>>>| Figures {
            busy: Spread::of(runs.iter().map(|run| run.busy)),
            wait_s: Spread::of(runs.iter().map(|run| run.wait_s)),
            conflicts: Spread::of(runs.iter().map(|run| run.conflicts)),
            placed: Spread::of(runs.iter().map(|run| run.placed)),
        };
        let figures = runs.into_iter().map(|(whose, runs)| (whose, over(runs))).collect();
        Combination { settings, seeds: reports.len(), figures }
    }
}

/// Results of a run, with all schedulers of a kind together.
fn of_run(report: &Report) -> BTreeMap<Whose, Figures<Option<f64>>> {
    let mut kinds: BTreeMap<Whose, Vec<&SchedulerReport>> = BTreeMap::new();
    for scheduler in &report.schedulers {
        kinds.entry(Whose::of(&scheduler.name)).or_default().push(scheduler);
    }
    kinds.into_iter().map(|(whose, schedulers)| (whose, together(&schedulers))).collect()
}

fn together(schedulers: &[&SchedulerReport]) -> Figures<Option<f64>> {
    let sum = |of: &dyn Fn(&SchedulerReport) -> f64| schedulers.iter().map(|s| of(s)).sum::<f64>();
    let share = |part: f64, of: f64| (of > 0.0).then(|| part / of);
    let (failed, succeeded) = (sum(&|s| s.failed as f64), sum(&|s| s.succeeded as f64));
    Figures {
        busy: share(sum(&|s| s.busy), schedulers.len() as f64),
        // Every job has the same weight, whichever scheduler places it.
        wait_s: share(sum(&|s| s.wait.mean_s * s.jobs_tried as f64), sum(&|s| s.jobs_tried as f64)),
        conflicts: (succeeded > 0.0).then(|| failed / succeeded),
        placed: share(sum(&|s| s.jobs_placed as f64), sum(&|s| s.jobs as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Waits;

    fn scheduler(
        name: &str,
        (busy, wait_s, tried): (f64, f64, u64),
        failed: u64,
    ) -> SchedulerReport {
        SchedulerReport {
            name: name.to_owned(),
            jobs: tried + 1,
            jobs_tried: tried,
            jobs_placed: tried,
            busy,
            useful: busy,
            wasted: 0.0,
            succeeded: 10,
            failed,
            conflict_fraction: Some(failed as f64 / 10.0),
            no_room: 0,
            tasks_placed: 0,
            abandoned: 0,
            left_in_queue: 0,
            wait: Waits { mean_s: wait_s, ..Waits::default() },
            placed: Waits::default(),
        }
    }

    #[test]
    fn schedulers_of_a_kind_are_one_figure_in_which_every_job_counts_the_same() {
        let [one, two] =
            [scheduler("batch-1", (0.2, 1.0, 3), 5), scheduler("batch-2", (0.4, 5.0, 1), 0)];
        let figures = together(&[&one, &two]);
        assert!((figures.busy.unwrap() - 0.3).abs() < 1e-12);
        assert_eq!((figures.wait_s, figures.conflicts), (Some(2.0), Some(0.25)));
        assert_eq!(figures.placed, Some(4.0 / 6.0));
        let idle = SchedulerReport { succeeded: 0, ..scheduler("batch-1", (0.0, 0.0, 0), 0) };
        let figures = together(&[&idle]);
        assert_eq!((figures.wait_s, figures.conflicts), (None, None), "a mean of nothing");
    }

    #[test]
    fn a_spread_is_of_those_that_are_there() {
        let of = |values: &[Option<f64>]| Spread::of(values.iter().copied());
        assert_eq!(of(&[None]), None);
        let expected = Spread { mean: 2.0, least: 1.0, most: 3.0 };
        assert_eq!(of(&[Some(1.0), None, Some(3.0)]), Some(expected));
    }
}
