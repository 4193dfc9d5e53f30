//! Bounds of counts in commands.

use crate::index::machine_index::{MachineIndex, member, trackers_of};
use omega_core::limits::{
    COUNTERS_PER_GROUP_MAX, COUNTERS_PER_JOB_MAX, LEVELS_MAX, LEVELS_PER_JOB_MAX,
    LEVELS_WITHOUT_MACHINES_MAX, MACHINE_SELECTORS_PER_JOB_MAX, REQUIREMENTS_PER_JOB_MAX,
    RULES_ABOUT_OTHERS_MAX, SELECTOR_VALUES_PER_JOB_MAX,
};
use omega_core::{
    Job, JobId, MachineSelector, Rejection, Requirement, TaskRule, TaskSelector, Text, Toleration,
    TopologyLevel,
};
use smallvec::SmallVec;
use std::collections::HashSet;

pub fn too_many(what: &str, given: usize, max: usize) -> Rejection {
    Rejection::TooMany { what: what.into(), given: given as u64, max: max as u64 }
}

pub fn at_most(what: &str, given: usize, max: usize) -> Result<(), Rejection> {
    if given > max { Err(too_many(what, given, max)) } else { Ok(()) }
}

/// Number of different rules of a job about tasks of other jobs. Each term of an affinity counts.
fn rules_about_others(job: &Job) -> usize {
    let rules: HashSet<&TaskRule> =
        job.groups.iter().flat_map(|group| &group.rules.tasks).collect();
    let is_of_others =
        |(tasks, _): &&(&TaskSelector, _)| matches!(tasks, TaskSelector::Labels { .. });
    rules.into_iter().map(|rule| rule.terms().iter().filter(is_of_others).count()).sum()
}

/// Number of rules, where each term of an affinity counts.
pub fn rule_count(rules: &[TaskRule]) -> usize {
    rules.iter().map(|rule| rule.terms().len()).sum()
}

/// The labels that a job's rules use as topology levels.
fn levels_of(job: &Job) -> HashSet<&Text> {
    let terms = job.groups.iter().flat_map(|group| &group.rules.tasks).flat_map(TaskRule::terms);
    let labels = terms.filter_map(|(_, level)| match level {
        TopologyLevel::Label(label) => Some(label),
        TopologyLevel::Machine => None,
    });
    labels.collect()
}

/// Checks the number of levels and counters that a job's rules and ports need. Its groups may belong to as many
/// versions of the job as given.
pub fn check_counters(job: &Job, versions: usize) -> Result<(), Rejection> {
    let levels_max = versions * LEVELS_PER_JOB_MAX;
    at_most("topology levels in the rules of a job", levels_of(job).len(), levels_max)?;
    let max = versions * COUNTERS_PER_JOB_MAX;
    let trackers = trackers_of(job, max);
    at_most("counters for different rules and ports of a job", trackers.len(), max)?;
    let max = versions * COUNTERS_PER_GROUP_MAX;
    if trackers.len() <= max {
        return Ok(());
    }
    let of_group = |index| trackers.matching(member(JobId(0), job, index)).len();
    let most = (0..job.groups.len()).map(of_group).max().unwrap_or(0);
    at_most("rules and ports of a job that count the tasks of one group", most, max)
}

/// Checks the number of levels in use after this job is added. Levels whose label no machine has are bounded more
/// tightly, so that jobs with invented labels leave levels for the labels of machines.
pub fn check_new_levels(job: &Job, index: &MachineIndex) -> Result<(), Rejection> {
    let in_use = &index.rules;
    let mut new = levels_of(job);
    new.retain(|label| in_use.values(label).is_none());
    if new.is_empty() {
        return Ok(());
    }
    let what = "topology levels in the rules of all jobs";
    at_most(what, in_use.level_count() + new.len(), LEVELS_MAX)?;
    let without = in_use.levels_without_machines();
    for machine in index.machines.iter().flatten() {
        if without + new.len() <= LEVELS_WITHOUT_MACHINES_MAX || new.is_empty() {
            return Ok(());
        }
        new.retain(|label| machine.labels.get(label).is_none());
    }
    if new.is_empty() {
        return Ok(());
    }
    let what = "topology levels in the rules of all jobs whose label no machine has";
    at_most(what, without + new.len(), LEVELS_WITHOUT_MACHINES_MAX)
}

/// The different lists of tolerations of a job, except the empty list, which other jobs use, too.
fn tolerations_of(job: &Job) -> HashSet<Vec<Toleration>> {
    let lists = job.groups.iter().map(|group| &group.rules.tolerations);
    let sorted = |list: &Vec<Toleration>| {
        let mut list = list.clone();
        list.sort_unstable();
        list
    };
    lists.filter(|tolerations| !tolerations.is_empty()).map(sorted).collect()
}

/// Checks the number and size of a job's selectors. Equal selectors count once, because the cell evaluates them once.
pub fn check_selectors(job: &Job) -> Result<(), Rejection> {
    let of_others = rules_about_others(job);
    at_most("rules of a job about tasks of other jobs", of_others, RULES_ABOUT_OTHERS_MAX)?;
    let rules = || job.groups.iter().map(|group| &group.rules);
    let required = rules().flat_map(|rules| rules.affinity.required.iter().flatten());
    let preferred = rules().flat_map(|rules| &rules.affinity.preferred);
    let machines: HashSet<&MachineSelector> =
        required.chain(preferred.map(|preferred| &preferred.machines)).collect();
    let different = machines.len() + tolerations_of(job).len();
    let what = "different machine selectors and lists of tolerations of a job";
    at_most(what, different, MACHINE_SELECTORS_PER_JOB_MAX)?;
    let tasks: HashSet<&TaskSelector> = rules()
        .flat_map(|rules| &rules.tasks)
        .flat_map(TaskRule::terms)
        .map(|(tasks, _)| tasks)
        .collect();
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
    use crate::cell::Cell;
    use omega_core::limits::RULES_PER_GROUP_MAX;
    use omega_core::{
        Amounts, Command, Kinds, LabelSelector, Labels, Machine, Near, Operator, Outcome, Port,
        Spread, TaskGroup, Tenants, TolerationOperator,
    };

    fn submit(cell: &mut Cell, job: Job) -> Result<JobId, Rejection> {
        match cell.apply(Command::SubmitJob(job))? {
            Outcome::Job(id) => Ok(id),
            outcome => panic!("{outcome:?}"),
        }
    }

    /// The bound that a rejection names.
    fn exceeded(rejection: Rejection) -> (Text, u64) {
        let Rejection::TooMany { what, max, .. } = rejection else { panic!("{rejection}") };
        (what, max)
    }

    /// A group without tasks, with these rules.
    fn empty_group(name: usize, rules: Vec<TaskRule>) -> TaskGroup {
        let mut group = TaskGroup::new(0, Amounts::zero()).named(name.to_string());
        group.rules.tasks = rules;
        group
    }

    fn max_per_domain(label: String) -> TaskRule {
        let (of, level) = (TaskSelector::SameGroup, TopologyLevel::Label(label.into()));
        TaskRule::MaxPerDomain { of, level, count: 1 }
    }

    #[test]
    fn the_counters_of_a_job_are_bounded() {
        let most = |of: TaskSelector, count: usize| {
            let (level, count) = (TopologyLevel::Machine, 1 + count as u32);
            TaskRule::MaxColocated { of, level, count }
        };
        let with = |rules: Vec<TaskRule>| {
            let job = Job::batch("job", TaskGroup::new(1, Amounts::zero()));
            let groups = rules.chunks(RULES_PER_GROUP_MAX).enumerate();
            groups.fold(job, |job, (at, rules)| job.with_group(empty_group(at, rules.to_vec())))
        };
        let of_job =
            |rules: usize| with((0..rules).map(|at| most(TaskSelector::SameJob, at)).collect());
        let of_groups =
            |rules: usize| with((0..rules).map(|at| most(TaskSelector::SameGroup, at)).collect());
        let (of_one, of_all) = (COUNTERS_PER_GROUP_MAX, COUNTERS_PER_JOB_MAX);
        for (job, what, max) in [
            (
                of_job(of_one + 1),
                "rules and ports of a job that count the tasks of one group",
                of_one,
            ),
            (of_groups(of_all + 1), "counters for different rules and ports of a job", of_all),
            (of_job(200 * 64), "counters for different rules and ports of a job", of_all),
        ] {
            let mut cell = Cell::new(Kinds::standard());
            assert_eq!(exceeded(submit(&mut cell, job).unwrap_err()), (what.into(), max as u64));
            assert!(cell.machine_index.rules.is_empty());
        }
        for (job, counters) in [(of_job(of_one), of_one), (of_groups(of_all), of_all)] {
            let mut cell = Cell::new(Kinds::standard());
            submit(&mut cell, job).unwrap();
            assert_eq!(cell.machine_index.rules.len(), counters);
        }
    }

    #[test]
    fn each_term_of_an_affinity_counts_as_a_rule() {
        let mut cell = Cell::new(Kinds::standard());
        let terms = |terms| TaskRule::Affinity(vec![near(TaskSelector::SameJob); terms]);
        let groups = |rules| {
            Job::batch("terms", TaskGroup::new(1, Amounts::zero()))
                .with_group(empty_group(0, rules))
        };
        let refused = submit(&mut cell, groups(vec![terms(32), terms(33)])).unwrap_err();
        assert_eq!(exceeded(refused), ("rules of a group".into(), 64));
        submit(&mut cell, groups(vec![terms(32), terms(32)])).unwrap();
    }

    fn near(tasks: TaskSelector) -> Near {
        Near { tasks, level: TopologyLevel::Machine }
    }

    #[test]
    fn all_counters_of_rules_and_ports_count() {
        let rack = || TopologyLevel::Label("rack".into());
        let labels = || TaskSelector::Labels {
            tenants: Tenants::Own,
            labels: LabelSelector { requirements: vec![Requirement::equals("app", "web")] },
        };
        let mut group = TaskGroup::new(1, Amounts::zero());
        group.rules.ports = vec![Port::tcp(80), Port::tcp(81), Port::tcp(80)];
        group.rules.tasks = vec![
            TaskRule::AntiAffinity { from: TaskSelector::SameGroup, level: TopologyLevel::Machine },
            TaskRule::Affinity(vec![near(labels()), near(TaskSelector::SameJob)]),
            TaskRule::Prefer { near: near(labels()), weight: 5 },
            TaskRule::MaxPerDomain { of: labels(), level: rack(), count: 2 },
            TaskRule::MaxShare { level: rack(), percent: 50 },
            TaskRule::MaxColocated { of: labels(), level: rack(), count: 2 },
            TaskRule::RuntimeAffinity(near(labels())),
            TaskRule::Spread(Spread::new(TaskSelector::SameJob, rack(), 1)),
        ];
        let second = group.clone().named("second");
        let job = Job::batch("job", group).with_group(second);
        let counters = trackers_of(&job, usize::MAX).len();
        // Both groups share all counters, except those of the rules about their own tasks.
        assert_eq!(counters, 2 + 3 + 1 + 1 + 1 + 1 + 2 * 2);
        let mut cell = Cell::new(Kinds::standard());
        submit(&mut cell, job).unwrap();
        assert_eq!(cell.machine_index.rules.len(), counters);
        assert_eq!(cell.machine_index.rules.level_count(), 1);
    }

    #[test]
    fn topology_levels_are_bounded_and_forgotten() {
        let mut cell = Cell::new(Kinds::standard());
        let job = |name: usize, levels: usize| {
            let rules = (0..levels).map(|at| max_per_domain(format!("{name}.{at}"))).collect();
            let job = Job::batch(format!("job-{name}"), TaskGroup::new(1, Amounts::zero()));
            job.with_group(empty_group(0, rules))
        };
        let refused = submit(&mut cell, job(0, LEVELS_PER_JOB_MAX + 1)).unwrap_err();
        let what = "topology levels in the rules of a job".into();
        assert_eq!(exceeded(refused), (what, LEVELS_PER_JOB_MAX as u64));
        for round in 0..2 * LEVELS_MAX {
            let id = submit(&mut cell, job(round, LEVELS_PER_JOB_MAX)).unwrap();
            assert_eq!(cell.machine_index.rules.level_count(), LEVELS_PER_JOB_MAX);
            cell.apply(Command::DeleteJob { job: id }).unwrap();
            assert_eq!(cell.machine_index.rules.level_count(), 0);
        }
        let full = LEVELS_WITHOUT_MACHINES_MAX / LEVELS_PER_JOB_MAX;
        for at in 0..full {
            submit(&mut cell, job(at, LEVELS_PER_JOB_MAX)).unwrap();
        }
        let refused = submit(&mut cell, job(full, 1)).unwrap_err();
        let what = "topology levels in the rules of all jobs whose label no machine has".into();
        assert_eq!(exceeded(refused), (what, LEVELS_WITHOUT_MACHINES_MAX as u64));
        let known = job(0, LEVELS_PER_JOB_MAX);
        submit(&mut cell, Job { name: "again".into(), ..known }).expect("all levels are in use");
        // The labels of machines still become levels.
        let all = LEVELS_MAX / LEVELS_PER_JOB_MAX;
        let labels = (full..=all).flat_map(|name| (0..16).map(move |at| format!("{name}.{at}")));
        let labels = Labels::new(labels.map(|label| (label, "here")));
        let machine = Machine { labels, ..Machine::new("box", Amounts::zero()) };
        cell.apply(Command::RegisterMachine(machine)).unwrap();
        let ids: Vec<JobId> =
            (full..all).map(|at| submit(&mut cell, job(at, LEVELS_PER_JOB_MAX)).unwrap()).collect();
        let refused = submit(&mut cell, job(all, 1)).unwrap_err();
        let what = "topology levels in the rules of all jobs".into();
        assert_eq!(exceeded(refused), (what, LEVELS_MAX as u64));
        cell.apply(Command::KillJob { job: ids[1] }).unwrap();
        submit(&mut cell, job(all, LEVELS_PER_JOB_MAX)).unwrap();
        let restored = Cell::from_snapshot_state(cell.snapshot_state()).unwrap();
        assert_eq!(restored.state_hash(), cell.state_hash());
        assert_eq!(restored.machine_index.rules.level_count(), LEVELS_MAX);
        let without = restored.machine_index.rules.levels_without_machines();
        assert_eq!(without, LEVELS_WITHOUT_MACHINES_MAX);
        restored.audit().unwrap();
    }

    #[test]
    fn lists_of_tolerations_count_as_selectors() {
        let job = |lists: usize| {
            let job = Job::batch("job", TaskGroup::new(1, Amounts::zero()));
            (0..lists).fold(job, |job, at| {
                let mut group = empty_group(at, Vec::new());
                let (operator, value) = (TolerationOperator::Exists, "".into());
                let key = Some(at.to_string().into());
                group.rules.tolerations = vec![Toleration { key, operator, value, effect: None }];
                let same = TaskGroup { name: format!("same-{at}").into(), ..group.clone() };
                let job = job.with_group(group);
                if at == 0 { job.with_group(same) } else { job }
            })
        };
        assert_eq!(check_selectors(&job(MACHINE_SELECTORS_PER_JOB_MAX)), Ok(()));
        let refused = check_selectors(&job(MACHINE_SELECTORS_PER_JOB_MAX + 1)).unwrap_err();
        let what = "different machine selectors and lists of tolerations of a job".into();
        assert_eq!(exceeded(refused), (what, MACHINE_SELECTORS_PER_JOB_MAX as u64));
    }

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
