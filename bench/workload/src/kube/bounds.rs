//! Machines and jobs within the limits of a cell. The API server bounds the size of an object, but a cell also bounds
//! each list and each text.
//!
//! Preferences and images only affect scores, so those beyond the limits are left out. A pod that is already on a node
//! uses room there in any case, so more is left out of its job, until the cell accepts it.

use super::pod::TERMINATING;
use omega_core::limits::{LABELS_MAX, RULES_ABOUT_OTHERS_MAX, RULES_PER_GROUP_MAX};
use omega_core::text::{check_name, check_value};
use omega_core::{
    Labels, Machine, PlacementRules, TaintEffect, TaskGroup, TaskRule, WhenUnsatisfiable,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Maximum number of images of a machine.
const MACHINE_IMAGES_MAX: usize = 16 * LABELS_MAX;

/// Maximum number of rules about other tasks. Each term of an affinity counts.
const TASK_RULES_MAX: usize = if RULES_PER_GROUP_MAX < RULES_ABOUT_OTHERS_MAX {
    RULES_PER_GROUP_MAX
} else {
    RULES_ABOUT_OTHERS_MAX
};

/// The consequence of a shorter job of a placed pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// The placement of other pods does not depend on anything that is left out, except for labels.
    Nothing,
    /// A required anti-affinity or a host port is left out, so another pod could be placed beside the pod by mistake.
    Requirements,
}

/// Leaves out images of a machine beyond the limits.
pub(super) fn fit_machine(machine: &mut Machine) {
    let is_valid = |name: &str| check_name(name).is_ok();
    if machine.images.len() > MACHINE_IMAGES_MAX
        || machine.images.iter().any(|image| !is_valid(&image.name))
    {
        let valid = machine.images.iter().filter(|image| is_valid(&image.name));
        machine.images = valid.take(MACHINE_IMAGES_MAX).cloned().collect();
    }
}

/// Leaves out preferences and images of a group beyond the limits. The preferences of the largest weights are kept.
pub(super) fn fit_group(group: &mut TaskGroup) {
    group.images.retain(|image| check_name(image).is_ok());
    group.images.truncate(RULES_PER_GROUP_MAX);
    let rules = &mut group.rules;
    keep_heaviest(&mut rules.affinity.preferred, RULES_PER_GROUP_MAX, |term| term.weight);
    if rules.tolerations.len() > RULES_PER_GROUP_MAX {
        let mut kept = Vec::new();
        for toleration in std::mem::take(&mut rules.tolerations) {
            let is_wish = toleration.effect == Some(TaintEffect::PreferNoSchedule);
            if !is_wish && !kept.contains(&toleration) {
                kept.push(toleration);
            }
        }
        rules.tolerations = kept;
    }
    if rules.tasks.iter().map(terms).sum::<usize>() > TASK_RULES_MAX {
        let tasks = std::mem::take(&mut rules.tasks);
        let (mut wishes, required): (Vec<_>, Vec<_>) = tasks.into_iter().partition(is_wish);
        let left = TASK_RULES_MAX.saturating_sub(required.iter().map(terms).sum());
        keep_heaviest(&mut wishes, left, weight);
        rules.tasks = required;
        rules.tasks.append(&mut wishes);
    }
}

/// Shortens the group of a placed pod. Its requirements on nodes are left out, because it has its node already; then
/// whatever exceeds a limit.
pub(super) fn shorten(group: &mut TaskGroup) -> Lacks {
    let labels = std::mem::take(&mut group.labels);
    let is_valid = |key: &str, value: &str| check_name(key).is_ok() && check_value(value).is_ok();
    let own = labels.iter().filter(|(key, value)| ***key != *TERMINATING && is_valid(key, value));
    let own = own.take(LABELS_MAX - 1).map(|(key, value)| (key.clone(), value.clone()));
    let terminating = labels.get(TERMINATING).map(|value| (TERMINATING.into(), value.clone()));
    group.labels = own.chain(terminating).collect();
    group.volumes.retain(|volume| check_name(volume).is_ok());
    group.volumes.truncate(RULES_PER_GROUP_MAX);
    let mut rules = std::mem::take(&mut group.rules);
    let is_apart = |rule: &TaskRule| matches!(rule, TaskRule::AntiAffinity { .. });
    let (mut tasks, others): (Vec<_>, Vec<_>) = rules.tasks.into_iter().partition(is_apart);
    let exceeds = tasks.len() > TASK_RULES_MAX || rules.ports.len() > RULES_PER_GROUP_MAX;
    tasks.truncate(TASK_RULES_MAX);
    rules.ports.truncate(RULES_PER_GROUP_MAX);
    let mut left = TASK_RULES_MAX - tasks.len();
    for rule in others.into_iter().filter(|rule| !matches!(rule, TaskRule::Spread(_))) {
        let Some(rest) = left.checked_sub(terms(&rule)) else { continue };
        left = rest;
        tasks.push(rule);
    }
    group.rules = PlacementRules { tasks, ports: rules.ports, ..PlacementRules::default() };
    if exceeds { Lacks::Requirements } else { Lacks::Nothing }
}

/// Leaves only the request of a placed pod's group.
pub(super) fn strip(group: &mut TaskGroup) -> Lacks {
    let rules = std::mem::take(&mut group.rules);
    group.labels = Labels::default();
    group.images.clear();
    group.volumes.clear();
    let is_apart = |rule: &TaskRule| matches!(rule, TaskRule::AntiAffinity { .. });
    if rules.tasks.iter().any(is_apart) || !rules.ports.is_empty() {
        Lacks::Requirements
    } else {
        Lacks::Nothing
    }
}

/// Number of terms of a rule.
fn terms(rule: &TaskRule) -> usize {
    match rule {
        TaskRule::Affinity(terms) => terms.len(),
        _ => 1,
    }
}

/// Whether a rule only affects scores.
fn is_wish(rule: &TaskRule) -> bool {
    match rule {
        TaskRule::Prefer { .. } => true,
        TaskRule::Spread(spread) => spread.when == WhenUnsatisfiable::ScheduleAnyway,
        _ => false,
    }
}

/// Weight of a preference. A spread counts more than any term.
fn weight(rule: &TaskRule) -> u32 {
    match rule {
        TaskRule::Prefer { weight, .. } => weight.unsigned_abs(),
        _ => u32::MAX,
    }
}

/// Keeps at most `max` items, those of the largest weights, in their order.
fn keep_heaviest<T>(items: &mut Vec<T>, max: usize, weight: impl Fn(&T) -> u32) {
    if items.len() <= max {
        return;
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| Reverse(weight(&items[*at])));
    let kept: BTreeSet<usize> = order.into_iter().take(max).collect();
    let mut at = 0..;
    items.retain(|_| at.next().is_some_and(|at: usize| kept.contains(&at)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{
        Amounts, LabelSelector, MachineSelector, Near, Preferred, TaskSelector, Tenants,
        TopologyLevel,
    };

    fn near(index: usize) -> Near {
        let labels = LabelSelector { requirements: Vec::new() };
        let tasks = TaskSelector::Labels { tenants: Tenants::Own, labels };
        Near { tasks, level: TopologyLevel::Label(format!("k{index}").into()) }
    }

    fn apart(index: usize) -> TaskRule {
        let Near { tasks: from, level } = near(index);
        TaskRule::AntiAffinity { from, level }
    }

    #[test]
    fn preferences_of_small_weight_and_long_images_are_left_out_first() {
        let mut group = TaskGroup::new(1, Amounts::zero());
        group.images = vec!["x".repeat(600).into(), "short".into()];
        let machines = MachineSelector::default();
        let preferred = |weight| Preferred { weight, machines: machines.clone() };
        group.rules.affinity.preferred = (1..=70).map(preferred).collect();
        let wish = |weight| TaskRule::Prefer { near: near(0), weight };
        group.rules.tasks = (1..=30).map(wish).chain((0..60).map(apart)).collect();
        fit_group(&mut group);
        assert_eq!(group.images, [omega_core::Text::from("short")]);
        let weights: Vec<u32> = group.rules.affinity.preferred.iter().map(|it| it.weight).collect();
        assert_eq!(weights, (7..=70).collect::<Vec<u32>>());
        let wishes: Vec<TaskRule> = (27..=30).map(wish).collect();
        assert_eq!(group.rules.tasks.len(), TASK_RULES_MAX);
        assert_eq!(group.rules.tasks[60..], wishes[..]);
    }

    #[test]
    fn a_placed_pod_keeps_its_anti_affinity_as_long_as_it_fits() {
        let mut group = TaskGroup::new(1, Amounts::zero());
        let affinity = TaskRule::Affinity((0..10).map(near).collect());
        group.rules.tasks = [affinity].into_iter().chain((0..60).map(apart)).collect();
        let names = (0..300).map(|index| (format!("l{index}"), ""));
        group.labels = names.chain([(TERMINATING.to_owned(), "")]).collect();
        assert_eq!(shorten(&mut group), Lacks::Nothing);
        assert_eq!(group.rules.tasks, (0..60).map(apart).collect::<Vec<_>>());
        assert_eq!(group.labels.len(), LABELS_MAX);
        assert!(group.labels.get(TERMINATING).is_some());
        group.rules.tasks = (0..65).map(apart).collect();
        assert_eq!(shorten(&mut group), Lacks::Requirements);
        assert_eq!(group.rules.tasks.len(), TASK_RULES_MAX);
        assert_eq!(strip(&mut group), Lacks::Requirements);
        assert_eq!(strip(&mut group), Lacks::Nothing);
    }
}
