//! Demand over time: the use of a job's tasks at a number of points in time, in percent of their requests.
//!
//! The load of a machine is then the mean of its loads at all points. Tasks of jobs without a profile use their
//! requests at every point. These profiles affect only the cost of load. The cell's own demand profiles decide where
//! tasks fit.

use omega_cellstate::View;
use omega_core::{JobId, KindId, Text};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of points in time. With this number, a hundred thousand machines need 400 MB for each kind.
pub const POINTS_MAX: usize = 512;

/// Largest use in percent of the request.
pub const PERCENT_MAX: u16 = 1000;

/// Error in a demand profile of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DemandError {
    /// The profile has too few or too many points. Give a permitted number.
    #[error("has {0} points; give it 1 to {POINTS_MAX}")]
    Count(usize),
    /// The profile and the other profiles of this kind have different numbers of points. Give all of them the same
    /// number.
    #[error(
        "has {given} points, but another job's profile of this kind has {others}: give both the \
         same number"
    )]
    Different {
        /// Number of points of the profile.
        given: usize,
        /// Number of points of the other profiles.
        others: usize,
    },
    /// A value of the profile is too large. Lower the value.
    #[error("has the value {0}; give at most {PERCENT_MAX} percent")]
    TooLarge(u16),
    /// The job has two profiles of this kind. Remove one of them.
    #[error("is the second profile of this job and kind; remove one")]
    Second,
}

/// Demand profiles of one resource kind, by the job's name. All profiles have the same number of points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    jobs: BTreeMap<Text, Vec<u16>>,
}

impl Demand {
    /// Adds the profile of a job.
    ///
    /// # Errors
    /// If the number of points or a value is not permitted, or if the job has a profile already.
    pub fn add(&mut self, job: Text, percent: Vec<u16>) -> Result<(), DemandError> {
        let given = percent.len();
        if !(1..=POINTS_MAX).contains(&given) {
            return Err(DemandError::Count(given));
        }
        let others = self.points();
        if others > 0 && others != given {
            return Err(DemandError::Different { given, others });
        }
        if let Some(value) = percent.iter().find(|value| **value > PERCENT_MAX) {
            return Err(DemandError::TooLarge(*value));
        }
        match self.jobs.insert(job, percent) {
            None => Ok(()),
            Some(_) => Err(DemandError::Second),
        }
    }

    /// Number of points of each profile; 0 if there are no profiles.
    #[must_use]
    pub fn points(&self) -> usize {
        self.jobs.values().next().map_or(0, Vec::len)
    }

    /// The profile of a job, in percent of the request at each point; `None` if the job has none.
    #[must_use]
    pub fn of(&self, job: &str) -> Option<&[u16]> {
        self.jobs.get(job).map(Vec::as_slice)
    }
}

/// Arrival of a task on a machine (`sign` 1), or departure of a task (`sign` -1).
#[derive(Clone, Copy, Debug)]
pub(in crate::rebalance) struct Change<'a> {
    pub(in crate::rebalance) job: JobId,
    pub(in crate::rebalance) request: &'a [i64],
    pub(in crate::rebalance) sign: i64,
}

/// Differences between use over time and requests, by kind; `None` for kinds without profiles.
#[derive(Clone, Debug, Default)]
pub(in crate::rebalance) struct Swings {
    kinds: Vec<Option<Swing>>,
}

/// Differences between use over time and requests, of one kind.
#[derive(Clone, Debug)]
pub(in crate::rebalance) struct Swing {
    pub(in crate::rebalance) points: usize,
    kind: usize,
    /// The difference of each row at each point: the use of the row's tasks minus their requests.
    rows: Vec<i64>,
    /// Profiles of jobs, in percent. The map is only looked up, never iterated.
    jobs: HashMap<JobId, Vec<u16>, foldhash::fast::FixedState>,
}

impl Swings {
    /// Computes the differences of all rows from the tasks of a view.
    pub(in crate::rebalance) fn new(
        demand: &BTreeMap<KindId, Demand>,
        view: &View,
        kinds: usize,
    ) -> Swings {
        if demand.is_empty() {
            return Swings::default();
        }
        let of_kind = |kind: usize| {
            let profiles = demand.get(&KindId(kind as u8))?;
            let points = profiles.points();
            let swing = Swing {
                points,
                kind,
                rows: vec![0; view.rows() * points],
                jobs: HashMap::default(),
            };
            (points > 0).then_some(swing)
        };
        let mut swings = Swings { kinds: (0..kinds).map(of_kind).collect() };
        for row in 0..view.rows() {
            for task in view.tasks_on(row) {
                let Some(job) = view.job_of(task.id) else { continue };
                swings.know(task.id.job, &job.name, demand);
                let group = job.groups.get(usize::from(task.group));
                if let Some(group) = group.filter(|_| !view.has_allocation_override(task.id)) {
                    let amount = |kind: usize| group.request.get(KindId(kind as u8)) as i64;
                    let request: Vec<i64> = (0..kinds).map(amount).collect();
                    swings.count(row, Change { job: task.id.job, request: &request, sign: 1 });
                }
            }
        }
        swings
    }

    fn know(&mut self, job: JobId, name: &str, demand: &BTreeMap<KindId, Demand>) {
        for swing in self.kinds.iter_mut().flatten() {
            let profile = demand.get(&KindId(swing.kind as u8)).and_then(|of| of.of(name));
            if let Some(profile) = profile.filter(|_| !swing.jobs.contains_key(&job)) {
                swing.jobs.insert(job, profile.to_vec());
            }
        }
    }

    /// Differences of a kind; `None` if the kind has no profiles.
    #[inline]
    pub(in crate::rebalance) fn of(&self, kind: usize) -> Option<&Swing> {
        self.kinds.get(kind)?.as_ref()
    }

    /// Adds the arrival or departure of a task to the differences of a row.
    pub(in crate::rebalance) fn count(&mut self, row: usize, change: Change<'_>) {
        for swing in self.kinds.iter_mut().flatten() {
            let Some(profile) = swing.jobs.get(&change.job) else { continue };
            let rows = &mut swing.rows[row * swing.points..][..swing.points];
            for (sum, percent) in rows.iter_mut().zip(profile) {
                *sum += change.sign * difference(change.request[swing.kind], *percent);
            }
        }
    }
}

impl Swing {
    /// Returns the difference of a row at a point, as it would be after the changes.
    pub(in crate::rebalance) fn at(&self, row: usize, point: usize, changes: &[Change<'_>]) -> i64 {
        let more = |change: &Change<'_>| {
            let profile = self.jobs.get(&change.job);
            profile.map_or(0, |profile| {
                change.sign * difference(change.request[self.kind], profile[point])
            })
        };
        self.rows[row * self.points + point] + changes.iter().map(more).sum::<i64>()
    }
}

/// Returns the use at a point minus the request. The use is `percent` of the request.
fn difference(request: i64, percent: u16) -> i64 {
    // A request is at most 2^50, so the product does not overflow.
    (request * (i64::from(percent) - 100)).div_euclid(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_a_kind_have_as_many_points_each() {
        let mut demand = Demand::default();
        assert_eq!(demand.add("a".into(), vec![50; 98]), Ok(()));
        assert_eq!((demand.points(), demand.of("a").map(<[u16]>::len)), (98, Some(98)));
        let different = DemandError::Different { given: 96, others: 98 };
        assert_eq!(demand.add("b".into(), vec![50; 96]), Err(different));
        assert_eq!(demand.add("b".into(), vec![1001; 98]), Err(DemandError::TooLarge(1001)));
        assert_eq!(demand.add("a".into(), vec![50; 98]), Err(DemandError::Second));
        assert_eq!(Demand::default().add("a".into(), Vec::new()), Err(DemandError::Count(0)));
    }

    #[test]
    fn differences_are_rounded_down() {
        assert_eq!([0, 50, 99, 100, 133].map(|p| difference(10, p)), [-10, -5, -1, 0, 3]);
    }
}
