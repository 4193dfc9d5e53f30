//! Bounds of counts in commands.

use omega_core::{Job, Near, Rejection, TaskRule, TaskSelector};
use std::collections::HashSet;

pub fn too_many(what: &str, given: usize, max: usize) -> Rejection {
    Rejection::TooMany { what: what.into(), given: given as u64, max: max as u64 }
}

pub fn at_most(what: &str, given: usize, max: usize) -> Result<(), Rejection> {
    if given > max { Err(too_many(what, given, max)) } else { Ok(()) }
}

/// Number of different rules of a job about tasks of other jobs. Each term of an affinity counts.
pub fn rules_about_others(job: &Job) -> usize {
    let rules: HashSet<&TaskRule> =
        job.groups.iter().flat_map(|group| &group.rules.tasks).collect();
    rules.into_iter().map(of_others).sum()
}

/// Number of terms of a rule that are about tasks of other jobs.
fn of_others(rule: &TaskRule) -> usize {
    let one = |tasks: &TaskSelector| usize::from(matches!(tasks, TaskSelector::Labels { .. }));
    let near = |near: &Near| one(&near.tasks);
    match rule {
        TaskRule::AntiAffinity { from: tasks, .. }
        | TaskRule::MaxPerDomain { of: tasks, .. }
        | TaskRule::MaxColocated { of: tasks, .. } => one(tasks),
        TaskRule::Affinity(terms) => terms.iter().map(near).sum(),
        TaskRule::Prefer { near: to, .. } | TaskRule::RuntimeAffinity(to) => near(to),
        TaskRule::Spread(spread) => one(&spread.of),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, LabelSelector, TaskGroup, Tenants, TopologyLevel};

    #[test]
    fn each_rule_about_others_counts_once() {
        let level = TopologyLevel::Machine;
        let labels = |tenants| TaskSelector::Labels { tenants, labels: LabelSelector::default() };
        let near = |tasks| Near { tasks, level: level.clone() };
        let apart = |from| TaskRule::AntiAffinity { from, level: level.clone() };
        let others = apart(labels(Tenants::Any));
        let terms = vec![near(labels(Tenants::Own)), near(TaskSelector::SameJob)];
        let mut group = TaskGroup::new(1, Amounts::zero());
        group.rules.tasks =
            vec![others.clone(), apart(TaskSelector::SameGroup), TaskRule::Affinity(terms)];
        let mut second = group.clone().named("second");
        second.rules.tasks.push(apart(labels(Tenants::Own)));
        let job = Job::batch("web", group).with_group(second);
        assert_eq!(rules_about_others(&job), 3);
    }
}
