//! Running tasks whose placement a scheduler would not choose. They are not moved. The workload gets notes on them,
//! because their usual cause is an error in the input.

use crate::text::words::plural;
use crate::{Arrival, Workload};
use omega_core::{Amounts, Job, Kinds, Machine, TaskGroup, TaskRule, TaskSelector, TopologyLevel};
use std::collections::HashSet;

/// The number of faults of one kind, and the first of them.
#[derive(Debug, Default)]
struct Found {
    count: u64,
    first: String,
}

impl Found {
    fn add(&mut self, fault: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = fault();
        }
        self.count += 1;
    }
}

/// Notes about the tasks that run at the start.
pub(crate) fn notes(workload: &Workload) -> Vec<String> {
    let machines = &workload.machines;
    let mut used = vec![Amounts::zero(); machines.len()];
    let (mut elsewhere, mut together) = (Found::default(), Found::default());
    for arrival in &workload.arrivals {
        let mut taken = HashSet::new();
        for (index, group, machine) in placed(arrival) {
            group.request.iter().for_each(|(kind, more)| {
                let sum = used[machine].get(kind).saturating_add(more);
                used[machine].set(kind, sum);
            });
            let task = || format!("{}/{index} on {}", arrival.job.name, machines[machine].name);
            if !may_run(group, &machines[machine]) {
                elsewhere.add(task);
            }
            if keeps_apart(group) && !taken.insert(machine) {
                together.add(task);
            }
        }
    }
    let mut full = Found::default();
    for (machine, used) in machines.iter().zip(&used) {
        if let Some(excess) = excess(machine, used, &workload.kinds) {
            full.add(|| format!("{} ({excess})", machine.name));
        }
    }
    let told = |found: Found, what: &str, [one, more]: [&str; 2]| {
        let Found { count, first } = found;
        let rule = if count == 1 { one } else { more };
        (count > 0).then(|| format!("{} {rule}, the first {first}", plural(count, what)))
    };
    const FULL: &str = "cannot hold all tasks that run there";
    let excluded = [
        "is on a machine that the rules of its job exclude",
        "are on a machine that the rules of their job exclude",
    ];
    let shared = [
        "is on a machine of another task against the job's anti-affinity",
        "are on a machine of another task against the job's anti-affinity",
    ];
    let notes = [
        told(full, "machine", [FULL, FULL]),
        told(elsewhere, "running task", excluded),
        told(together, "running task", shared),
    ];
    notes.into_iter().flatten().collect()
}

/// The tasks of a job that run at the start: index, group, and position of the machine.
fn placed(arrival: &Arrival) -> impl Iterator<Item = (u32, &TaskGroup, usize)> {
    let group = |index: u32| group_of(&arrival.job, index);
    let placed = arrival.placed.iter();
    placed.filter_map(move |(index, machine)| Some((*index, group(*index)?, *machine as usize)))
}

fn group_of(job: &Job, index: u32) -> Option<&TaskGroup> {
    let mut left = index;
    let group = job.groups.iter().find(|group| {
        let is_here = left < group.count;
        left = left.saturating_sub(group.count);
        is_here
    });
    group.map(|group| &**group)
}

fn may_run(group: &TaskGroup, machine: &Machine) -> bool {
    let rules = &group.rules;
    let required = rules.affinity.required.as_ref();
    rules.machine.as_ref().is_none_or(|name| *name == machine.name)
        && required.is_none_or(|any| any.iter().any(|selector| selector.matches(machine)))
}

/// Whether two tasks of the group may not share a machine.
fn keeps_apart(group: &TaskGroup) -> bool {
    group.rules.tasks.iter().any(|rule| {
        matches!(
            rule,
            TaskRule::AntiAffinity {
                from: TaskSelector::SameGroup | TaskSelector::SameJob,
                level: TopologyLevel::Machine
            }
        )
    })
}

/// The first resource kind of which a machine's tasks use more than the machine has, with both amounts.
fn excess(machine: &Machine, used: &Amounts, kinds: &Kinds) -> Option<String> {
    kinds.iter().find_map(|(id, kind)| {
        let (used, has) = (used.get(id), machine.claimable(id));
        let show = |amount| kinds.display(id, amount);
        (used > has).then(|| format!("{} {} of {}", kind.name, show(used), show(has)))
    })
}
