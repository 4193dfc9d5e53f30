//! The filters and scores of kube-scheduler, computed for one machine at a time from their formulas.
//!
//! This code shares nothing with the plugins, and scans all machines and tasks.

use crate::plugins::kube_world::{World, of};
use omega_core::{
    Machine, Spread, TaintEffect, TaskGroup, TaskRule, TaskSelector, TopologyLevel,
    WhenUnsatisfiable,
};

fn selects(tasks: &TaskSelector, group: &TaskGroup) -> bool {
    match tasks {
        TaskSelector::Labels { labels, .. } => labels.matches(&group.labels),
        TaskSelector::SameGroup | TaskSelector::SameJob => false,
    }
}

fn domain(machine: &Machine, level: &TopologyLevel) -> Option<String> {
    machine.domain(level).map(|name| name.to_string())
}

fn tolerates(group: &TaskGroup, machine: &Machine, effect: impl Fn(TaintEffect) -> bool) -> usize {
    let covered = |taint| group.rules.tolerations.iter().any(|toleration| toleration.covers(taint));
    let taints = machine.taints.iter().filter(|taint| effect(taint.effect));
    taints.filter(|taint| !covered(taint)).count()
}

fn hard(effect: TaintEffect) -> bool {
    effect != TaintEffect::PreferNoSchedule
}

fn matches_required(group: &TaskGroup, machine: &Machine) -> bool {
    let required = group.rules.affinity.required.as_ref();
    required.is_none_or(|any| any.iter().any(|selector| selector.matches(machine)))
}

/// The reason why a machine rejects a task, and whether the task could fit if fewer tasks ran there.
pub(crate) fn refusal(
    world: &World,
    group: &TaskGroup,
    row: usize,
) -> Option<(&'static str, bool)> {
    let machine = &world.machines[row];
    let closed = |taint: &&omega_core::Taint| &*taint.key == "node.kubernetes.io/unschedulable";
    let closed = machine.taints.iter().find(closed);
    if closed.is_some_and(|taint| !group.rules.tolerations.iter().any(|t| t.covers(taint))) {
        return Some(("node_unschedulable", false));
    }
    if group.rules.machine.as_ref().is_some_and(|name| *name != machine.name) {
        return Some(("node_name", false));
    }
    if tolerates(group, machine, hard) > 0 {
        return Some(("taint_toleration", false));
    }
    if !matches_required(group, machine) {
        return Some(("node_affinity", false));
    }
    let mut here = world.placed.iter().filter(|(at, _)| *at == row).map(|(_, group)| group);
    let collides = |other: &TaskGroup| {
        let own = &group.rules.ports;
        own.iter().any(|port| other.rules.ports.iter().any(|taken| taken.collides(port)))
    };
    if here.any(collides) {
        return Some(("node_ports", true));
    }
    if let Some(curable) = short(world, group, row) {
        return Some(("node_resources_fit", curable));
    }
    if let Some(curable) = uneven(world, group, row) {
        return Some(("pod_topology_spread", curable));
    }
    beside(world, group, row).map(|curable| ("inter_pod_affinity", curable))
}

fn used(world: &World, row: usize, kind: &str) -> i64 {
    let here = world.placed.iter().filter(|(at, _)| *at == row);
    here.map(|(_, group)| of(&group.request, kind)).sum()
}

fn short(world: &World, group: &TaskGroup, row: usize) -> Option<bool> {
    let kinds = ["cpu", "memory", "example.com/fpga", "pods", "cpu (nominal)", "memory (nominal)"];
    let capacity = |kind: &str| of(&world.machines[row].capacity, kind);
    let request = |kind: &str| of(&group.request, kind);
    let short =
        |kind: &&str| request(kind) > 0 && request(kind) > capacity(kind) - used(world, row, kind);
    let never = |kind: &&str| *kind != "pods" && request(kind) > capacity(kind);
    kinds.iter().any(short).then(|| !kinds.iter().any(never))
}

/// Whether a spread includes a machine.
fn counts(world: &World, group: &TaskGroup, spread: &Spread, row: usize) -> bool {
    let machine = &world.machines[row];
    spreads(group, spread.when).all(|other| domain(machine, &other.level).is_some())
        && (!spread.honors_affinity || matches_required(group, machine))
        && (!spread.honors_taints || tolerates(group, machine, hard) == 0)
}

fn spreads(group: &TaskGroup, when: WhenUnsatisfiable) -> impl Iterator<Item = &Spread> {
    group.rules.tasks.iter().filter_map(move |rule| match rule {
        TaskRule::Spread(spread) if spread.when == when => Some(spread),
        _ => None,
    })
}

/// Number of matching tasks in a domain, on machines that the spread includes.
fn matched(world: &World, group: &TaskGroup, spread: &Spread, place: &str) -> i64 {
    let here = world.placed.iter().filter(|(row, other)| {
        selects(&spread.of, other)
            && counts(world, group, spread, *row)
            && domain(&world.machines[*row], &spread.level).as_deref() == Some(place)
    });
    here.count() as i64
}

fn uneven(world: &World, group: &TaskGroup, row: usize) -> Option<bool> {
    for spread in spreads(group, WhenUnsatisfiable::DoNotSchedule) {
        let Some(place) = domain(&world.machines[row], &spread.level) else { return Some(false) };
        let rows = (0..world.machines.len()).filter(|row| counts(world, group, spread, *row));
        let mut domains: Vec<String> =
            rows.filter_map(|row| domain(&world.machines[row], &spread.level)).collect();
        domains.sort();
        domains.dedup();
        let fewest = domains.iter().map(|place| matched(world, group, spread, place)).min();
        let fewest = if domains.len() < spread.domains_min as usize {
            0
        } else {
            fewest.unwrap_or(i64::MAX)
        };
        let here = matched(world, group, spread, &place) + i64::from(spread.counts_itself);
        if here.saturating_sub(fewest) > i64::from(spread.skew_max) {
            return Some(true);
        }
    }
    None
}

/// Whether a task runs in the same domain as a machine.
fn near(world: &World, level: &TopologyLevel, row: usize, at: usize) -> bool {
    let here = domain(&world.machines[row], level);
    here.is_some() && here == domain(&world.machines[at], level)
}

fn beside(world: &World, group: &TaskGroup, row: usize) -> Option<bool> {
    for rule in &group.rules.tasks {
        let TaskRule::Affinity(terms) = rule else { continue };
        if terms.iter().any(|term| domain(&world.machines[row], &term.level).is_none()) {
            return Some(false);
        }
        let all = |other: &TaskGroup| terms.iter().all(|term| selects(&term.tasks, other));
        let meant: Vec<_> = world.placed.iter().filter(|(_, other)| all(other)).collect();
        let met = |level| meant.iter().any(|(at, _)| near(world, level, row, *at));
        // Tasks on machines without a domain are not counted.
        let has_place = |at: &usize| {
            terms.iter().any(|term| domain(&world.machines[*at], &term.level).is_some())
        };
        let none = !meant.iter().any(|(at, _)| has_place(at));
        let first = none && all(group);
        if !(first || terms.iter().all(|term| met(&term.level))) {
            return Some(false);
        }
    }
    let keeps_off = |rules: &TaskGroup, other: &TaskGroup, at: usize| {
        rules.rules.tasks.iter().any(|rule| match rule {
            TaskRule::AntiAffinity { from, level } => {
                selects(from, other) && near(world, level, row, at)
            }
            _ => false,
        })
    };
    let mut placed = world.placed.iter();
    let meets = |(at, other): &(usize, TaskGroup)| {
        keeps_off(group, other, *at) || keeps_off(other, group, *at)
    };
    placed.any(meets).then_some(true)
}

/// The raw value of the score for taints.
pub(crate) fn tainted(world: &World, group: &TaskGroup, row: usize) -> i64 {
    tolerates(group, &world.machines[row], |effect| !hard(effect)) as i64
}

pub(crate) fn preferred(world: &World, group: &TaskGroup, row: usize) -> i64 {
    let wishes = group.rules.affinity.preferred.iter();
    let met = wishes.filter(|wish| wish.machines.matches(&world.machines[row]));
    met.map(|wish| i64::from(wish.weight)).sum()
}

pub(crate) fn drawn(world: &World, group: &TaskGroup, row: usize) -> i64 {
    let mut sum = 0;
    for (at, other) in &world.placed {
        for rule in &group.rules.tasks {
            if let TaskRule::Prefer { near: term, weight } = rule
                && selects(&term.tasks, other)
                && near(world, &term.level, row, *at)
            {
                sum += i64::from(*weight);
            }
        }
        for rule in &other.rules.tasks {
            let meets = |term: &omega_core::Near| {
                selects(&term.tasks, group) && near(world, &term.level, row, *at)
            };
            sum += match rule {
                TaskRule::Prefer { near: term, weight } if meets(term) => i64::from(*weight),
                TaskRule::Affinity(terms) => terms.iter().filter(|term| meets(term)).count() as i64,
                _ => 0,
            };
        }
    }
    sum
}

/// The raw value of the score for preferred spreads; `None` for a machine that no spread includes.
pub(crate) fn spread(
    world: &World,
    group: &TaskGroup,
    feasible: &[u32],
    row: usize,
) -> Option<i64> {
    let when = WhenUnsatisfiable::ScheduleAnyway;
    let place = |row: u32, spread: &Spread| domain(&world.machines[row as usize], &spread.level);
    let takes_part = |row: u32| spreads(group, when).all(|spread| place(row, spread).is_some());
    if !takes_part(row as u32) {
        return None;
    }
    let mut sum = 0.0;
    for spread in spreads(group, when) {
        let mut domains: Vec<_> = feasible
            .iter()
            .filter(|row| takes_part(**row))
            .filter_map(|row| place(*row, spread))
            .collect();
        domains.sort();
        domains.dedup();
        let here = place(row as u32, spread).unwrap();
        let count = match &spread.level {
            TopologyLevel::Machine => {
                let here = world.placed.iter().filter(|(at, _)| *at == row);
                here.filter(|(_, other)| selects(&spread.of, other)).count() as i64
            }
            TopologyLevel::Label(_) => matched(world, group, spread, &here),
        };
        let weight = ((domains.len() + 2) as f64).ln();
        sum += count as f64 * weight + f64::from(spread.skew_max - 1);
    }
    Some(sum.round() as i64)
}

/// Scores of the resource kinds for the usage with the new task, each with its weight. `points` computes a score from
/// usage and capacity.
pub(crate) fn fit(
    world: &World,
    group: &TaskGroup,
    row: usize,
    points: impl Fn(i64, i64) -> i64,
    weights: [i64; 3],
) -> Vec<(i64, i64)> {
    let kinds = [("cpu", "cpu (nominal)"), ("memory", "memory (nominal)")];
    let fpga = "example.com/fpga";
    let kinds = kinds.into_iter().chain([(fpga, fpga)]);
    let mut parts = Vec::new();
    for ((kind, counted), weight) in kinds.zip(weights) {
        let capacity = of(&world.machines[row].capacity, kind);
        let request = of(&group.request, counted);
        if weight == 0 || capacity == 0 || kind == fpga && request == 0 {
            continue;
        }
        parts.push((points(used(world, row, counted) + request, capacity), weight));
    }
    parts
}

/// Scores for the balance of usage between resource kinds.
pub(crate) fn balanced(world: &World, group: &TaskGroup, row: usize, kinds: &[&str]) -> i64 {
    let points = |with: i64| {
        let mut shares = Vec::new();
        for kind in kinds {
            let capacity = of(&world.machines[row].capacity, kind);
            let request = of(&group.request, kind);
            if capacity == 0 || kind.contains('/') && request == 0 {
                continue;
            }
            let used = used(world, row, kind) + with * request;
            shares.push((used as f64 / capacity as f64).min(1.0));
        }
        let deviation = match shares.len() {
            0 | 1 => 0.0,
            2 => ((shares[0] - shares[1]) / 2.0).abs(),
            count => {
                let mean = shares.iter().fold(0.0, |sum, share| sum + share) / count as f64;
                let squares = shares.iter().fold(0.0, |sum, s| sum + (s - mean) * (s - mean));
                (squares / count as f64).sqrt()
            }
        };
        ((1.0 - deviation) * 100.0) as i64
    };
    50 + (50 + points(1) - points(0)) / 2
}

pub(crate) fn images(world: &World, group: &TaskGroup, row: usize) -> i64 {
    let mut sum = 0;
    for name in &group.images {
        let holds = |machine: &Machine| {
            machine.images.iter().find(|image| image.name == *name).map(|image| image.bytes)
        };
        let holders = world.machines.iter().filter(|machine| holds(machine).is_some()).count();
        let bytes = holds(&world.machines[row]).unwrap_or(0);
        sum += (bytes as f64 * (holders as f64 / world.machines.len() as f64)) as i64;
    }
    let (least, most) = (23 << 20, (1000 << 20) * group.images.len() as i64);
    100 * (sum.clamp(least, most) - least) / (most - least)
}
