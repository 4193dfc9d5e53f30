//! Description of a machine that is registered again, by its agent or by an operator.
//!
//! The last registration must not undo what another one has set. Therefore operators keep the labels and taints that
//! Omega has set, and agents keep the labels that operators have set, and with a certificate also the amounts. A changed
//! description never stops an agent: its tasks would run on without it, and would be placed elsewhere, too.

use crate::access::identity::{Caller, Role};
use omega_client::ErrorCode;
use omega_client::agent::{AGENT, DISK_FULL, DRAIN_BY, UNREACHABLE, is_unreachable};
use omega_core::limits::{KINDS_MAX, NUMA_NODES_MAX};
use omega_core::{Amounts, KindId, Kinds, Labels, Machine, NodeCores, Overcommit, Taint, Text};

/// Labels that describe a machine's agent, so that only the agent sets them.
const AGENT_LABELS: [&str; 2] = [AGENT, "omega.io/podman"];

/// Keys of the taints that the leader sets.
const LEADER_TAINTS: [&str; 3] = [UNREACHABLE, DISK_FULL, DRAIN_BY];

/// Whether a description is from the machine's agent. Without certificates, only the label shows this.
pub(crate) fn is_of_agent(caller: &Caller, given: &Machine) -> bool {
    matches!(caller.role, Role::Agent(_)) || given.labels.get(AGENT).is_some()
}

/// Returns the new description of a registered machine, with the changes that the caller may make.
///
/// An agent's certificate allows lower amounts, and other images and ports. Larger amounts and labels require an
/// operator. An agent without a certificate may also raise amounts and add labels, but labels are not removed. An
/// operator's description of a machine with an agent keeps what the agent and the leader have set.
pub(crate) fn described(
    caller: &Caller,
    kinds: &Kinds,
    known: &Machine,
    given: Machine,
) -> Machine {
    if matches!(caller.role, Role::Agent(_)) {
        least(known, given)
    } else if given.labels.get(AGENT).is_some() {
        let kept = known.labels.iter().filter(|(key, _)| !is_agent_label(key));
        Machine { labels: joined(kept, given.labels.iter()), ..given }
    } else if known.labels.get(AGENT).is_some() || is_unreachable(known) {
        by_operator(kinds, known, given)
    } else {
        given
    }
}

/// Returns the description to register if the cell rejects one of an agent with this code, because tasks hold devices
/// or cores that it no longer contains. The known amounts stay until the agent registers the machine again.
pub(crate) fn while_in_use(code: ErrorCode, known: &Machine, given: &Machine) -> Option<Machine> {
    let is_in_use = matches!(code, ErrorCode::DevicesInUse | ErrorCode::CoresInUse);
    is_in_use.then(|| Machine {
        capacity: known.capacity.clone(),
        overcommit: known.overcommit.clone(),
        devices: known.devices,
        numa: known.numa,
        ..given.clone()
    })
}

/// The smaller amounts of two descriptions, with the known labels and taints, except for the agent's own labels.
fn least(known: &Machine, given: Machine) -> Machine {
    let (mut capacity, mut overcommit) = (Amounts::zero(), Overcommit::none());
    for kind in (0..KINDS_MAX).map(|kind| KindId(kind as u8)) {
        capacity.set(kind, known.capacity.get(kind).min(given.capacity.get(kind)));
        let percent = known.overcommit.percent(kind).min(given.overcommit.percent(kind));
        overcommit = overcommit.with(kind, percent);
    }
    let numa = (0..NUMA_NODES_MAX).fold(NodeCores::NONE, |numa, node| {
        numa.with(node, known.numa.of(node).min(given.numa.of(node)))
    });
    let kept = known.labels.iter().filter(|(key, _)| !is_agent_label(key));
    let own = given.labels.iter().filter(|(key, _)| is_agent_label(key));
    Machine {
        capacity,
        overcommit,
        labels: joined(kept, own),
        taints: known.taints.clone(),
        devices: known.devices.min(given.devices),
        numa,
        ..given
    }
}

/// An operator's description of a machine that has an agent. If it has no NUMA nodes, the known ones stay, unless the
/// machine's `cpu` is now too small for them.
fn by_operator(kinds: &Kinds, known: &Machine, given: Machine) -> Machine {
    let kept = known.labels.iter().filter(|(key, _)| is_agent_label(key));
    let set: Vec<&Taint> =
        known.taints.iter().filter(|taint| LEADER_TAINTS.contains(&&*taint.key)).collect();
    let others = given.taints.iter().filter(|taint| set.iter().all(|one| one.key != taint.key));
    let cpu = kinds.cpu().map_or(0, |cpu| given.capacity.get(cpu));
    let has_room = known.numa.cpu_milli() <= cpu;
    let numa = if given.numa.is_empty() && has_room { known.numa } else { given.numa };
    Machine {
        labels: joined(kept, given.labels.iter()),
        taints: others.chain(set.iter().copied()).cloned().collect(),
        numa,
        ..given
    }
}

fn is_agent_label(key: &str) -> bool {
    AGENT_LABELS.contains(&key)
}

/// Both lists of labels. If both have a key, the second list's value is used.
fn joined<'a>(
    first: impl Iterator<Item = (&'a Text, &'a Text)>,
    second: impl Iterator<Item = (&'a Text, &'a Text)>,
) -> Labels {
    Labels::new(first.chain(second).map(|(key, value)| (key.clone(), value.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::TaintEffect;

    const PODMAN: &str = AGENT_LABELS[1];

    fn agent() -> Caller {
        Caller { role: Role::Agent("m".into()), ..Caller::local() }
    }

    fn taint(key: &str) -> Taint {
        Taint { key: key.into(), value: "".into(), effect: TaintEffect::NoSchedule }
    }

    /// A machine that an agent has registered, and that an operator has changed.
    fn known() -> Machine {
        let mut known = Machine::new("m", Amounts::new([4000, 8 << 30]));
        known.labels = Labels::new([("zone", "a"), (AGENT, "1f"), (PODMAN, "5.4")]);
        known.taints = [taint("kept")].into();
        known.devices = 2;
        known.numa = NodeCores::new(&[2, 2]).unwrap();
        known
    }

    fn described_by(caller: &Caller, known: &Machine, given: &Machine) -> Machine {
        described(caller, &Kinds::standard(), known, given.clone())
    }

    #[test]
    fn an_agent_offers_less_of_its_machine_and_never_more() {
        let known = known();
        let mut less = known.clone();
        less.capacity = Amounts::new([3000, 8 << 30]);
        less.devices = 1;
        less.numa = NodeCores::new(&[2]).unwrap();
        assert_eq!(described_by(&agent(), &known, &less), less);
        let untainted = Machine { taints: Box::default(), ..less.clone() };
        assert_eq!(described_by(&agent(), &known, &untainted), less, "taints stay");
        type Change = fn(&mut Machine);
        let changes: [Change; 8] = [
            |machine| machine.capacity.set(KindId::CPU, 4001),
            |machine| machine.capacity.set(KindId(2), 1),
            |machine| machine.overcommit = Overcommit::none().with(KindId::CPU, 101),
            |machine| machine.devices = 3,
            |machine| machine.numa = NodeCores::new(&[2, 3]).unwrap(),
            |machine| machine.numa = NodeCores::new(&[2, 2, 1]).unwrap(),
            |machine| {
                machine.labels = Labels::new([("zone", "b"), (AGENT, "1f"), (PODMAN, "5.4")]);
            },
            |machine| machine.labels = Labels::new([("x", "y"), (AGENT, "1f"), (PODMAN, "5.4")]),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut more = known.clone();
            change(&mut more);
            assert_eq!(described_by(&agent(), &known, &more), known, "change {number}");
        }
        // Other amounts of the same description are still lowered.
        let mixed = Machine { capacity: Amounts::new([9000, 1 << 30]), ..known.clone() };
        let registered = described_by(&agent(), &known, &mixed);
        assert_eq!(registered.capacity, Amounts::new([4000, 1 << 30]));
    }

    #[test]
    fn the_labels_of_an_agent_are_its_own() {
        let known = known();
        let labelled = |labels: &[(&str, &str)]| {
            let labels = Labels::new(labels.iter().copied());
            Machine { labels, ..known.clone() }
        };
        let given = labelled(&[(AGENT, "1f"), (PODMAN, "5.5"), ("omega.io/other", "x")]);
        let expected = labelled(&[("zone", "a"), (AGENT, "1f"), (PODMAN, "5.5")]);
        assert_eq!(described_by(&agent(), &known, &given), expected);
        let without_podman = labelled(&[(AGENT, "1f")]);
        let expected = labelled(&[("zone", "a"), (AGENT, "1f")]);
        assert_eq!(described_by(&agent(), &known, &without_podman), expected);
    }

    #[test]
    fn an_agent_without_a_certificate_keeps_labels_and_may_change_amounts() {
        let (known, open) = (known(), Caller::local());
        let mut given = Machine::new("m", Amounts::new([9000, 1 << 30]));
        given.labels = Labels::new([("rack", "r"), (AGENT, "2e")]);
        let labels = Labels::new([("rack", "r"), ("zone", "a"), (AGENT, "2e")]);
        let expected = Machine { labels, ..given.clone() };
        assert_eq!(described_by(&open, &known, &given), expected);
        given.labels = Labels::new([("zone", "b"), (AGENT, "2e")]);
        assert_eq!(described_by(&open, &known, &given), given, "the agent's value is used");
    }

    #[test]
    fn an_operator_keeps_what_the_agent_and_the_leader_have_set() {
        let operator = Caller::local();
        let mut known = known();
        known.taints = [taint(UNREACHABLE), taint("old"), taint(DISK_FULL)].into();
        let mut given = Machine::new("m", Amounts::new([4000, 1 << 30]));
        given.labels = Labels::new([("zone", "b")]);
        given.taints = [taint("new"), Taint { value: "x".into(), ..taint(DISK_FULL) }].into();
        let registered = described_by(&operator, &known, &given);
        let expected = Machine {
            labels: Labels::new([("zone", "b"), (AGENT, "1f"), (PODMAN, "5.4")]),
            taints: [taint("new"), taint(UNREACHABLE), taint(DISK_FULL)].into(),
            numa: known.numa,
            ..given.clone()
        };
        assert_eq!(registered, expected);
        assert_eq!(described_by(&agent(), &registered, &known).labels, expected.labels);
        let numa = NodeCores::new(&[1]).unwrap();
        let named = Machine { numa, ..given.clone() };
        assert_eq!(described_by(&operator, &known, &named).numa, numa);
        let small = Machine { capacity: Amounts::new([3999]), ..given.clone() };
        assert_eq!(described_by(&operator, &known, &small).numa, NodeCores::NONE);
        // A machine without an agent is replaced as a whole.
        let plain = Machine { labels: Labels::default(), taints: Box::default(), ..known };
        assert_eq!(described_by(&operator, &plain, &given), given);
    }

    #[test]
    fn devices_and_cores_in_use_stay() {
        let known = known();
        let given = Machine { labels: Labels::default(), ..Machine::new("m", Amounts::zero()) };
        for code in [ErrorCode::DevicesInUse, ErrorCode::CoresInUse] {
            let kept = while_in_use(code, &known, &given).unwrap();
            let labels = Labels::default();
            assert_eq!(kept, Machine { labels, taints: Box::default(), ..known.clone() });
        }
        assert_eq!(while_in_use(ErrorCode::Denied, &known, &given), None);
    }
}
