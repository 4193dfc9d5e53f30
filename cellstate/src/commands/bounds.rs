//! Bounds of counts in commands.

use omega_core::limits::{
    MACHINE_SELECTORS_PER_JOB_MAX, REQUIREMENTS_PER_JOB_MAX, SELECTOR_VALUES_PER_JOB_MAX,
};
use omega_core::{Job, MachineSelector, Rejection, Requirement, TaskRule, TaskSelector};
use smallvec::{SmallVec, smallvec};
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
    let is_of_others = |tasks: &&&TaskSelector| matches!(tasks, TaskSelector::Labels { .. });
    rules.into_iter().map(|rule| selectors_of(rule).iter().filter(is_of_others).count()).sum()
}

/// The selectors of tasks in a rule.
fn selectors_of(rule: &TaskRule) -> SmallVec<[&TaskSelector; 2]> {
    match rule {
        TaskRule::AntiAffinity { from: tasks, .. }
        | TaskRule::MaxPerDomain { of: tasks, .. }
        | TaskRule::MaxColocated { of: tasks, .. } => smallvec![tasks],
        TaskRule::Affinity(terms) => terms.iter().map(|near| &near.tasks).collect(),
        TaskRule::Prefer { near: to, .. } | TaskRule::RuntimeAffinity(to) => smallvec![&to.tasks],
        TaskRule::Spread(spread) => smallvec![&spread.of],
        _ => SmallVec::new(),
    }
}

/// Checks the number and size of a job's selectors. Equal selectors count once, because the cell evaluates them once.
pub fn check_selectors(job: &Job) -> Result<(), Rejection> {
    let rules = || job.groups.iter().map(|group| &group.rules);
    let required = rules().flat_map(|rules| rules.affinity.required.iter().flatten());
    let preferred = rules().flat_map(|rules| &rules.affinity.preferred);
    let machines: HashSet<&MachineSelector> =
        required.chain(preferred.map(|preferred| &preferred.machines)).collect();
    at_most("different machine selectors of a job", machines.len(), MACHINE_SELECTORS_PER_JOB_MAX)?;
    let tasks: HashSet<&TaskSelector> =
        rules().flat_map(|rules| &rules.tasks).flat_map(selectors_of).collect();
    let of_machines = machines.iter().flat_map(|one| one.labels.iter().chain(&one.names));
    let of_tasks = tasks.iter().flat_map(|one| match one {
        TaskSelector::Labels { labels, .. } => &labels.requirements[..],
        _ => &[],
    });
    let all: SmallVec<[&Requirement; 8]> = of_machines.chain(of_tasks).collect();
    at_most("requirements in the selectors of a job", all.len(), REQUIREMENTS_PER_JOB_MAX)?;
    let values = all.iter().map(|one| one.values.len()).sum();
    at_most("values in the selectors of a job", values, SELECTOR_VALUES_PER_JOB_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, LabelSelector, Near, Operator, TaskGroup, Tenants, TopologyLevel};

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

    #[test]
    fn the_size_of_selectors_is_bounded() {
        let named = |from: usize, values: usize| MachineSelector {
            labels: Vec::new(),
            names: vec![Requirement {
                key: "".into(),
                operator: Operator::NotIn,
                values: (from..from + values).map(|value| value.to_string().into()).collect(),
            }],
        };
        let checked = |selectors: Vec<MachineSelector>| {
            let mut group = TaskGroup::new(1, Amounts::zero());
            group.rules.affinity.required = Some(selectors);
            check_selectors(&Job::batch("web", group))
        };
        assert_eq!(checked(vec![named(0, SELECTOR_VALUES_PER_JOB_MAX)]), Ok(()));
        assert!(checked(vec![named(0, SELECTOR_VALUES_PER_JOB_MAX + 1)]).is_err());
        assert_eq!(checked(vec![named(0, 4000); 64]), Ok(()), "equal selectors count once");
        assert_eq!(checked((0..128).map(|from| named(from, 1)).collect()), Ok(()));
        assert!(checked((0..129).map(|from| named(from, 1)).collect()).is_err());
        let requirement = Requirement::equals("a", "b");
        let many =
            |count| MachineSelector { labels: vec![requirement.clone(); count], ..named(0, 0) };
        assert_eq!(checked(vec![many(REQUIREMENTS_PER_JOB_MAX - 1)]), Ok(()));
        assert!(checked(vec![many(REQUIREMENTS_PER_JOB_MAX)]).is_err());
    }
}
