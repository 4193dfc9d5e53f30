//! Usage of the machines, by place: `/api/v1/heat`.
//!
//! If there are few machines, they are listed singly. Otherwise the reply has the sums for each domain of a level (each
//! rack, each zone), and the machines of the requested domain. The data are columns of numbers, so ten thousand
//! machines take some hundred kilobytes.

use super::Shown;
use super::response::{JsonResult, Params, json};
use crate::observe::statistics::summary;
use crate::observe::summary::{MachineSummary, Summary};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of machines that are listed singly: as many as fit on a screen with a few pixels each.
const MACHINES_MAX: usize = 10_000;

/// Maximum number of domains in a reply. A level with more domains is no clearer than single machines.
const DOMAINS_MAX: usize = 2_000;

/// Number of machines that are sampled to find the levels.
const SAMPLE: usize = 1_000;

#[derive(Deserialize)]
pub(super) struct Which {
    /// Label whose values are the domains. By default, it is a label for racks or zones.
    level: Option<String>,
    /// Domain whose machines are requested.
    domain: Option<String>,
}

#[derive(Serialize)]
struct HeatShape {
    version: u64,
    resources: Vec<String>,
    /// Labels by which machines can be grouped, because several machines share a value.
    levels: Vec<String>,
    level: Option<String>,
    domains: Vec<DomainShape>,
    /// Whether there are further domains.
    more: bool,
    /// Single machines; `null` if there are too many. A request for one domain returns its machines.
    machines: Option<MachinesShape>,
}

#[derive(Serialize)]
struct DomainShape {
    /// Value of the label; empty for machines without it.
    name: String,
    machines: u32,
    draining: u32,
    unreachable: u32,
    /// Allocated share of each resource, in percent; `null` without capacity.
    taken: Vec<Option<u32>>,
}

/// Columns with one entry for each machine.
#[derive(Default, Serialize)]
struct MachinesShape {
    name: Vec<String>,
    /// Index of each machine's domain.
    domain: Vec<u32>,
    draining: Vec<u8>,
    unreachable: Vec<u8>,
    /// Claimed percentages: for each resource, in the order of `resources`, a list by machine. -1 without capacity.
    taken: Vec<Vec<i32>>,
}

pub(super) async fn heat(State(shown): State<Shown>, Params(params): Params<Which>) -> JsonResult {
    let summary = summary(&shown.web.host).await;
    // A hundred thousand machines take a while, so the reply is computed on another thread.
    let response = tokio::task::spawn_blocking(move || json(&shape(&summary, &params))).await;
    Ok(response.expect("counting machines does not panic"))
}

fn percent(claimed: u64, claimable: u64) -> Option<u32> {
    let percent = (u128::from(claimed) * 100).checked_div(u128::from(claimable))?;
    Some(percent.min(999) as u32)
}

/// Labels by which machines can be grouped, because several machines share a value.
fn levels(summary: &Summary) -> Vec<String> {
    let step = summary.machines.len().div_ceil(SAMPLE).max(1);
    let sample = summary.machines.iter().step_by(step);
    let mut seen: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    let mut count = 0;
    for machine in sample {
        count += 1;
        for (key, value) in machine.machine.labels.iter() {
            let (have, values) = seen.entry(key).or_default();
            *have += 1;
            values.insert(value);
        }
    }
    let is_shared =
        |have: usize, values: usize| have * 2 >= count && (values * 2 <= have || values == 1);
    let shared = seen.into_iter().filter(|(_, (have, values))| is_shared(*have, values.len()));
    shared.map(|(key, _)| key.to_owned()).collect()
}

/// The default level: a label whose key contains `rack`, or else `zone`, or else the first one.
fn usual(levels: &[String]) -> Option<&String> {
    let named = |word: &str| levels.iter().find(|level| level.contains(word));
    named("rack").or_else(|| named("zone")).or_else(|| levels.first())
}

fn shape(summary: &Summary, params: &Which) -> HeatShape {
    let levels = levels(summary);
    let level = match &params.level {
        Some(level) if level.is_empty() => None,
        Some(level) => Some(level.clone()),
        None => usual(&levels).cloned(),
    };
    let of = |seen: &MachineSummary| match &level {
        Some(level) => {
            seen.machine.labels.get(level).map_or_else(String::new, |value| value.to_string())
        }
        None => String::new(),
    };
    let mut by_domain: BTreeMap<String, Vec<&MachineSummary>> = BTreeMap::new();
    for seen in &summary.machines {
        by_domain.entry(of(seen)).or_default().push(seen);
    }
    let is_requested = |name: &String| params.domain.as_ref().is_none_or(|domain| domain == name);
    by_domain.retain(|name, _| is_requested(name));
    let more = by_domain.len() > DOMAINS_MAX;
    let listed: Vec<(String, Vec<&MachineSummary>)> =
        by_domain.into_iter().take(DOMAINS_MAX).collect();
    let count: usize = listed.iter().map(|(_, machines)| machines.len()).sum();
    let kinds = summary.kinds.count();
    HeatShape {
        version: summary.version.0,
        resources: summary.kinds.iter().map(|(_, kind)| kind.name.clone()).collect(),
        machines: (count <= MACHINES_MAX && !more).then(|| machines(&listed, kinds)),
        domains: listed.iter().map(|(name, of)| domain(name, of, kinds)).collect(),
        levels,
        level,
        more,
    }
}

fn domain(name: &str, machines: &[&MachineSummary], kinds: usize) -> DomainShape {
    let sum = |of: fn(&MachineSummary) -> &[u64], kind: usize| {
        machines.iter().fold(0_u64, |sum, seen| sum.saturating_add(of(seen)[kind]))
    };
    let taken = |kind| percent(sum(|seen| &seen.claimed, kind), sum(|seen| &seen.claimable, kind));
    DomainShape {
        name: name.to_owned(),
        machines: machines.len() as u32,
        draining: machines.iter().filter(|seen| seen.draining).count() as u32,
        unreachable: machines.iter().filter(|seen| seen.unreachable).count() as u32,
        taken: (0..kinds).map(taken).collect(),
    }
}

fn machines(listed: &[(String, Vec<&MachineSummary>)], kinds: usize) -> MachinesShape {
    let mut shape = MachinesShape { taken: vec![Vec::new(); kinds], ..MachinesShape::default() };
    for (index, (_, machines)) in listed.iter().enumerate() {
        for seen in machines {
            shape.name.push(seen.machine.name.to_string());
            shape.domain.push(index as u32);
            shape.draining.push(u8::from(seen.draining));
            shape.unreachable.push(u8::from(seen.unreachable));
            for (kind, taken) in shape.taken.iter_mut().enumerate() {
                let percent = percent(seen.claimed[kind], seen.claimable[kind]);
                taken.push(percent.map_or(-1, |percent| percent as i32));
            }
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use omega_cellstate::{Cell, SharedCell};
    use omega_core::{Amounts, Command, Kinds, Labels, Machine};
    use proptest::prelude::*;

    /// Summary of a cell whose machines each have a unique label, and a rack if one is given.
    fn summary_of(racks: &[Option<u8>]) -> Summary {
        let mut cell = Cell::new(Kinds::standard());
        for (index, rack) in racks.iter().enumerate() {
            let mut labels = vec![("host".to_owned(), format!("h{index}"))];
            labels.extend(rack.map(|rack| ("rack".to_owned(), format!("r{rack}"))));
            let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let mut machine = Machine::new(format!("m{index}").as_str(), Amounts::new([1000]));
            machine.labels = Labels::new(labels);
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        Summary::of(&Host::memory(SharedCell::new(cell)))
    }

    proptest! {
        #[test]
        fn every_machine_is_in_the_domain_of_its_label(
            racks in prop::collection::vec(prop::option::of(0..5_u8), 0..60)
        ) {
            let summary = summary_of(&racks);
            let which = Which { level: Some("rack".to_owned()), domain: None };
            let listed = shape(&summary, &which);
            let sum: u32 = listed.domains.iter().map(|domain| domain.machines).sum();
            prop_assert_eq!(sum as usize, racks.len());
            let machines = listed.machines.unwrap();
            for (index, name) in machines.name.iter().enumerate() {
                let rack = racks[name[1..].parse::<usize>().unwrap()];
                let expected = rack.map_or_else(String::new, |rack| format!("r{rack}"));
                prop_assert_eq!(&listed.domains[machines.domain[index] as usize].name, &expected);
                prop_assert_eq!(machines.taken[0][index], 0);
                prop_assert_eq!(machines.taken[1][index], -1);
            }
        }
    }

    #[test]
    fn labels_of_single_machines_are_no_level() {
        let summary = summary_of(&[Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!(levels(&summary), ["rack"]);
        assert_eq!(usual(&["a".into(), "x/zone".into(), "rack".into()]).unwrap(), "rack");
    }

    #[test]
    fn shares_of_nothing_are_none_and_large_ones_are_bounded() {
        assert_eq!(percent(0, 0), None);
        assert_eq!(percent(1, 3), Some(33));
        assert_eq!(percent(u64::MAX, 1), Some(999));
    }
}
