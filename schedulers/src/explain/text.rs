//! Texts of reasons, obstacles and remedies.

use super::obstacle::Obstacle;
use super::remedy::{Remedy, Shortage};
use omega_cellstate::View;
use omega_core::{Kinds, Reason, Taint, TaintEffect};

/// A reason in a few words for a person.
#[must_use]
pub fn describe(reason: Reason, kinds: &Kinds) -> String {
    reason.text(kinds)
}

/// An obstacle in a few words for a person.
#[must_use]
pub fn describe_obstacle(obstacle: &Obstacle, kinds: &Kinds) -> String {
    match obstacle {
        Obstacle::Draining => describe(Reason::MachineDraining, kinds),
        Obstacle::OtherMachine => describe(Reason::OtherMachine, kinds),
        Obstacle::Affinity => describe(Reason::AffinityUnmet, kinds),
        Obstacle::Taints(taints) => format!("not tolerated: {}", taint_list(taints)),
        Obstacle::Reserved(why) | Obstacle::Peak(why) => why.clone(),
        Obstacle::Room { kind, missing } => format!("{} short", amount(*kind, *missing, kinds)),
        Obstacle::Devices { missing } => format!("{} short", devices(*missing)),
        Obstacle::Cores { missing } => format!("{} short", cores(*missing)),
        Obstacle::Cell { kind, missing } => {
            format!("{} missing in the whole cell", amount(*kind, *missing, kinds))
        }
        Obstacle::Quota(lack) => {
            let more = amount(lack.kind, lack.missing, kinds);
            format!("{more} more than the quota of tenant {} has left", lack.tenant)
        }
        Obstacle::Rule(reason) => describe(*reason, kinds),
        Obstacle::Filter(name) => format!("removed by the filter {name}"),
        Obstacle::Told { why, .. } => why.clone(),
    }
}

/// Returns a description of the remedy: one sentence without a full stop.
#[must_use]
pub fn describe_remedy(remedy: &Remedy, view: &View) -> String {
    match remedy {
        Remedy::Room { shortage, hold } => format!(
            "{} more free on {}: {} could hold it if empty",
            missing(shortage, view.kinds()),
            name_of(shortage, view),
            machines(*hold),
        ),
        Remedy::LargerMachine { shortage } => format!(
            "a machine with {} more than the total of {}: no machine is large enough, even if \
             empty",
            missing(shortage, view.kinds()),
            name_of(shortage, view),
        ),
        Remedy::Lift { obstacle, machines: count } => {
            format!("{}: {} would take it", change(obstacle, view.kinds()), machines(*count))
        }
    }
}

/// Returns a clause that describes the removal of an obstacle, the only obstacle of some machines.
fn change(obstacle: &Obstacle, kinds: &Kinds) -> String {
    match obstacle {
        Obstacle::Draining => "if draining machines took tasks again".to_owned(),
        Obstacle::OtherMachine => "if it did not name its machine".to_owned(),
        Obstacle::Affinity => "without its required labels".to_owned(),
        Obstacle::Taints(taints) => {
            let s = if taints.len() == 1 { "" } else { "s" };
            format!("with a toleration for the taint{s} {}", taint_list(taints))
        }
        Obstacle::Reserved(why) | Obstacle::Peak(why) => format!("if it were not {why}"),
        Obstacle::Cell { kind, missing } => {
            format!("with {} more in the whole cell", amount(*kind, *missing, kinds))
        }
        Obstacle::Quota(lack) => {
            let more = amount(lack.kind, lack.missing, kinds);
            format!("with {more} more in the quota of tenant {}", lack.tenant)
        }
        Obstacle::Rule(reason) => format!("if it were not for {:?}", describe(*reason, kinds)),
        Obstacle::Filter(name) => format!("without the filter {name}"),
        Obstacle::Told { filter, why } => format!("if {filter} did not find that {why}"),
        Obstacle::Room { .. } | Obstacle::Devices { .. } | Obstacle::Cores { .. } => {
            format!("with what is {}", describe_obstacle(obstacle, kinds))
        }
    }
}

fn name_of(shortage: &Shortage, view: &View) -> String {
    view.machine(shortage.machine.row()).map_or_else(String::new, |m| m.name.to_string())
}

/// Returns the missing resources as text, such as `2 cpu, 1.5 GiB memory, 1 device and 4 exclusive cores`.
fn missing(shortage: &Shortage, kinds: &Kinds) -> String {
    let amounts = shortage.amounts.iter().map(|(kind, missing)| amount(*kind, *missing, kinds));
    let devices = (shortage.devices > 0).then(|| devices(shortage.devices));
    let cores = (shortage.cores > 0).then(|| cores(shortage.cores));
    let parts: Vec<String> = amounts.chain(devices).chain(cores).collect();
    match parts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "nothing".to_owned(),
    }
}

fn amount(kind: omega_core::KindId, amount: u64, kinds: &Kinds) -> String {
    let name = kinds.get(kind).map_or("units", |kind| kind.name.as_str());
    format!("{} {name}", kinds.display(kind, amount))
}

fn devices(count: u32) -> String {
    if count == 1 { "1 device".to_owned() } else { format!("{count} devices") }
}

fn cores(count: u32) -> String {
    if count == 1 { "1 exclusive core".to_owned() } else { format!("{count} exclusive cores") }
}

fn machines(count: usize) -> String {
    if count == 1 { "1 machine".to_owned() } else { format!("{count} machines") }
}

/// Returns taints in the form in which operators write them: `key=value:NoSchedule`.
fn taint_list(taints: &[Taint]) -> String {
    let texts: Vec<String> = taints.iter().map(taint).collect();
    texts.join(", ")
}

fn taint(taint: &Taint) -> String {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    };
    match &*taint.value {
        "" => format!("{}:{effect}", taint.key),
        value => format!("{}={value}:{effect}", taint.key),
    }
}
