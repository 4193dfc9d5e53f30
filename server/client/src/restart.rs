//! Restarts of services: the label by which an update replaces all tasks without another change.
//!
//! A restart is an update to a description in which each group has the time of the restart in the label
//! [`RESTARTED_AT`]. The label is no content: descriptions that differ only in it describe the same programs, and files
//! of jobs do not have it.

use omega_core::{Job, Labels, TaskGroup};

/// Label of the groups of a restarted job. Its value is the time of the restart, in milliseconds since 1970.
pub const RESTARTED_AT: &str = "omega.io/restarted-at";

/// Returns the description that restarts all tasks of a job with this one. Its label differs from the present one even
/// if the clock does not advance.
#[must_use]
pub fn restarted(job: &Job, now_ms: u64) -> Job {
    let before = |group: &TaskGroup| group.labels.get(RESTARTED_AT)?.parse::<u64>().ok();
    let latest = job.groups.iter().filter_map(|group| before(group)).max();
    let at = latest.map_or(now_ms, |latest| now_ms.max(latest.saturating_add(1))).to_string();
    let mut job = job.clone();
    for group in &mut job.groups {
        set_label(group, Some(&at));
    }
    job
}

/// Returns the description without the time of a restart.
#[must_use]
pub fn content(job: &Job) -> Job {
    let mut job = job.clone();
    for group in job.groups.iter_mut().filter(|group| is_labelled(group)) {
        set_label(group, None);
    }
    job
}

/// Whether two descriptions are equal apart from restarts.
#[must_use]
pub fn has_equal_content(one: &Job, other: &Job) -> bool {
    one == other || content(one) == content(other)
}

/// Whether two descriptions are equal apart from restarts and the counts of their groups.
#[must_use]
pub fn has_equal_programs(one: &Job, other: &Job) -> bool {
    one == other || content(one).equals_but_counts(&content(other))
}

/// Whether a description only restarts tasks of the description before it.
#[must_use]
pub fn is_restart(job: &Job, before: &Job) -> bool {
    let differs = |group: &TaskGroup| {
        let known = before.groups.iter().find(|known| known.name == group.name);
        known.is_some_and(|known| label_of(known) != label_of(group))
    };
    job.groups.iter().any(|group| differs(group)) && has_equal_programs(job, before)
}

/// Returns a description in which the groups that have the content of the present ones were restarted when these were,
/// so that an update to it does not replace the tasks of these groups.
#[must_use]
pub fn without_restart(job: &Job, present: &Job) -> Job {
    let mut job = job.clone();
    for group in &mut job.groups {
        let Some(known) = present.groups.iter().find(|known| known.name == group.name) else {
            continue;
        };
        if label_of(group) != label_of(known) && has_equal_group(group, known) {
            set_label(group, label_of(known));
        }
    }
    job
}

/// Returns the description to which an update from the present one goes. If the update's sender gives no time of a
/// restart, unchanged groups keep theirs.
#[must_use]
pub fn updated(job: Job, present: &Job) -> Job {
    if job.groups.iter().any(|group| is_labelled(group)) {
        job
    } else {
        without_restart(&job, present)
    }
}

/// Whether two groups are equal apart from count, version and the time of a restart.
fn has_equal_group(one: &TaskGroup, other: &TaskGroup) -> bool {
    let bare = |group: &TaskGroup| {
        let mut group = TaskGroup { count: 0, version: 0, ..group.clone() };
        set_label(&mut group, None);
        group
    };
    bare(one) == bare(other)
}

fn label_of(group: &TaskGroup) -> Option<&str> {
    group.labels.get(RESTARTED_AT).map(|at| &**at)
}

fn is_labelled(group: &TaskGroup) -> bool {
    label_of(group).is_some()
}

fn set_label(group: &mut TaskGroup, at: Option<&str>) {
    let others = group.labels.iter().filter(|(key, _)| ***key != *RESTARTED_AT);
    let others = others.map(|(key, value)| (key.clone(), value.clone()));
    group.labels = others.chain(at.map(|at| (RESTARTED_AT.into(), at.into()))).collect::<Labels>();
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::Amounts;

    fn service() -> Job {
        let group = |name: &str| TaskGroup {
            labels: Labels::new([("app", "web"), ("zone", "a")]),
            ..TaskGroup::new(2, Amounts::new([1])).named(name)
        };
        Job::service("web", group("main")).with_group(group("db"))
    }

    #[test]
    fn a_restart_changes_the_label_alone() {
        let job = service();
        let first = restarted(&job, 1000);
        let second = restarted(&first, 1000);
        let times = |job: &Job| {
            let of = |group: &omega_core::SharedGroup| {
                group.labels.get(RESTARTED_AT).map(|at| at.to_string())
            };
            job.groups.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(times(&first), [Some("1000".to_owned()), Some("1000".to_owned())]);
        assert_eq!(times(&second), [Some("1001".to_owned()), Some("1001".to_owned())]);
        assert_eq!(times(&restarted(&first, 5000))[0].as_deref(), Some("5000"));
        assert_eq!((content(&second), content(&job)), (job.clone(), job.clone()));
        assert!(has_equal_content(&first, &second) && has_equal_content(&job, &second));
        let mut larger = first.clone();
        larger.groups[0].count = 5;
        assert!(!has_equal_content(&larger, &job) && has_equal_programs(&larger, &job));
    }

    #[test]
    fn an_update_restarts_no_unchanged_group() {
        let present = restarted(&service(), 1000);
        assert_eq!(updated(service(), &present), present);
        let mut job = service();
        (job.groups[0].count, job.groups[1].restarts) = (7, 3);
        let job = updated(job, &present);
        assert_eq!(job.groups[0].labels, present.groups[0].labels, "only its count has changed");
        assert_eq!(job.groups[1].labels, service().groups[1].labels, "it is replaced anyway");
        let again = restarted(&present, 2000);
        assert_eq!(updated(again.clone(), &present), again, "it is a restart");
        assert_eq!(without_restart(&again, &present), present);
        assert!(is_restart(&again, &present) && !is_restart(&again, &again));
        let mut larger = again.clone();
        larger.groups[0].count = 9;
        assert!(is_restart(&larger, &present) && !is_restart(&larger, &again), "it has grown");
        assert!(!is_restart(&job, &present), "a group has changed");
    }
}
