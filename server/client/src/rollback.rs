//! The version to which a job goes back: one rule for the controller of updates and for the commands.

use crate::restart;
use omega_core::{Job, UpdateResult};

/// A version of a job.
#[derive(Clone, Copy, Debug)]
pub struct KnownVersion<'a> {
    /// Description of the job in this version.
    pub job: &'a Job,
    /// Result of the update to the version; `None` if it has none.
    pub result: Option<UpdateResult>,
}

impl KnownVersion<'_> {
    fn has_failed(&self) -> bool {
        self.result == Some(UpdateResult::Failed)
    }
}

/// Returns the position of the version to which a job goes back from the last of these versions, which are in order.
///
/// It is the latest version whose content differs from that of the last one, and from that of each version whose update
/// failed. Counts of groups and restarts are no content: they are not undone.
#[must_use]
pub fn version_to_restore(versions: &[KnownVersion<'_>]) -> Option<usize> {
    let (present, earlier) = versions.split_last()?;
    let has_failed = |job: &Job| {
        (0..versions.len()).any(|at| {
            versions[at].has_failed()
                && restart::has_equal_programs(versions[at].job, job)
                && !restarts_complete(&versions[..=at])
        })
    };
    let is_usable = |one: &KnownVersion<'_>| {
        // Failed tasks of a failed restart are not replaced, so its own description is not restored.
        !one.has_failed()
            && !restart::has_equal_programs(one.job, present.job)
            && !has_failed(one.job)
    };
    earlier.iter().rposition(is_usable)
}

/// Whether the last of these versions only restarts tasks of programs to which an update was complete.
#[must_use]
pub fn restarts_complete(versions: &[KnownVersion<'_>]) -> bool {
    let [earlier @ .., last] = versions else { return false };
    let is_complete = |one: &KnownVersion<'_>| {
        one.result == Some(UpdateResult::Complete) && restart::has_equal_programs(one.job, last.job)
    };
    let is_restart = |before: &KnownVersion<'_>| restart::is_restart(last.job, before.job);
    earlier.last().is_some_and(is_restart) && earlier.iter().any(is_complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    fn service(cores: u64) -> Job {
        Job::service("web", TaskGroup::new(2, Amounts::new([cores])))
    }

    fn restored(versions: &[(&Job, Option<UpdateResult>)]) -> Option<usize> {
        let known = versions.iter().map(|(job, result)| KnownVersion { job, result: *result });
        version_to_restore(&known.collect::<Vec<_>>())
    }

    #[test]
    fn a_job_goes_back_to_the_latest_other_content_that_has_not_failed() {
        use UpdateResult::{Complete, Failed};
        let [one, two, three] = [1, 2, 3].map(service);
        let mut larger = three.clone();
        larger.groups[0].count = 9;
        assert_eq!(restored(&[]), None);
        assert_eq!(restored(&[(&one, Some(Complete))]), None);
        let good = [(&one, Some(Complete)), (&two, Some(Complete))];
        assert_eq!(restored(&[good[0], good[1], (&three, Some(Failed))]), Some(1));
        let versions = [good[0], (&two, Some(Failed)), (&two, None), (&three, Some(Failed))];
        assert_eq!(restored(&versions), Some(0), "the content of the second one has failed");
        let versions = [good[0], (&three, None), (&larger, Some(Failed))];
        assert_eq!(restored(&versions), Some(0), "a count is no content");
    }

    #[test]
    fn a_failed_restart_does_not_make_its_content_bad() {
        use UpdateResult::{Complete, Failed};
        let [one, two] = [1, 2].map(service);
        let again = restart::restarted(&one, 5);
        let versions = [(&one, Some(Complete)), (&again, Some(Failed)), (&two, Some(Failed))];
        assert_eq!(restored(&versions), Some(0));
    }
}
