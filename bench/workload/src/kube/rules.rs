//! Conversion of a pod's constraints to placement rules, with remarks on unsupported constraints.

use super::api::{
    InclusionPolicy, NodeAffinity, Pod, PodAffinityTerm, PodSpec, SpreadConstraint,
    ToleratedEffect, TolerationOperator as TolerationOp, WhenUnsatisfiable as When,
};
use super::map::Map;
use super::node::Topology;
use super::notes::Remarks;
use super::pod::TERMINATING;
use super::request::is_sidecar;
use super::selector::{Namespaces, labels_or_nothing, machines, narrow, required_machines};
use omega_core::{
    Affinity, LabelSelector, Labels, Near, Operator, PlacementRules, Port, Preferred, Protocol,
    Requirement, Spread, Taint, TaintEffect, TaskRule, TaskSelector, Tenants, Toleration,
    TolerationOperator, WhenUnsatisfiable,
};

/// Objects, apart from the pod itself, to which a pod's rules refer.
pub(super) struct Surroundings {
    pub(super) topology: Topology,
    pub(super) namespaces: Namespaces,
}

/// The rules of a pod, and remarks on constraints that were left out.
pub(super) fn rules(pod: &Pod, around: &Surroundings) -> (PlacementRules, Remarks) {
    let spec = &pod.spec;
    let mut remarks = Remarks::new();
    let spreads = spec.spreads.iter().map(|constraint| spread(constraint, pod, around));
    let mut tasks: Vec<TaskRule> = spreads.collect();
    tasks.extend(neighbours(pod, around, &mut remarks));
    tasks.extend(wishes(pod, around, &mut remarks));
    let rules = PlacementRules {
        machine: None,
        affinity: affinity(&spec.node_selector, &spec.affinity.node, &mut remarks),
        tolerations: tolerations(spec, &mut remarks),
        tasks,
        ports: ports(spec),
    };
    (rules, remarks)
}

/// The machines that a scheduler's own node affinity requires, in addition to the affinity of each pod.
pub fn added_affinity(added: &NodeAffinity) -> Affinity {
    affinity(&Map::default(), added, &mut Remarks::new())
}

/// Required and preferred machines of the pod.
fn affinity(plain: &Map<String>, affinity: &NodeAffinity, remarks: &mut Remarks) -> Affinity {
    let required = affinity.required.iter().flat_map(|required| &required.terms);
    let all = required.chain(affinity.preferred.iter().map(|preferred| &preferred.preference));
    if all.flat_map(|term| &term.fields).any(|field| field.key != "metadata.name") {
        remarks.insert("a matchFields key other than metadata.name is read as metadata.name");
    }
    let preferred = affinity.preferred.iter().map(|preferred| Preferred {
        weight: preferred.weight,
        machines: machines(&preferred.preference),
    });
    Affinity {
        required: required_machines(plain, affinity.required.as_ref()),
        preferred: preferred.collect(),
    }
}

/// Whether the pod tolerates a taint.
pub fn tolerates(spec: &PodSpec, taint: &Taint) -> bool {
    tolerations(spec, &mut Remarks::new()).iter().any(|toleration| toleration.covers(taint))
}

/// The pod's tolerations, except those that compare numbers (operators `Gt` and `Lt`).
fn tolerations(spec: &PodSpec, remarks: &mut Remarks) -> Vec<Toleration> {
    let mut tolerations = Vec::new();
    for toleration in &spec.tolerations {
        let operator = match toleration.operator {
            TolerationOp::Equal => TolerationOperator::Equal,
            TolerationOp::Exists => TolerationOperator::Exists,
            TolerationOp::Gt | TolerationOp::Lt => {
                remarks.insert("a toleration with the operator Gt or Lt is ignored");
                continue;
            }
        };
        tolerations.push(Toleration {
            key: (!toleration.key.is_empty()).then(|| toleration.key.as_str().into()),
            operator,
            value: toleration.value.as_str().into(),
            effect: match toleration.effect {
                ToleratedEffect::Any => None,
                ToleratedEffect::NoSchedule => Some(TaintEffect::NoSchedule),
                ToleratedEffect::PreferNoSchedule => Some(TaintEffect::PreferNoSchedule),
                ToleratedEffect::NoExecute => Some(TaintEffect::NoExecute),
            },
        });
    }
    tolerations
}

/// The host ports of the pod's containers and sidecars. If the pod uses the host network, every container port is a
/// host port.
fn ports(spec: &PodSpec) -> Vec<Port> {
    let sidecars = spec.init_containers.iter().filter(|container| is_sidecar(container));
    let mut ports: Vec<Port> = Vec::new();
    for port in spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports) {
        let number = match port.host_port {
            0 if spec.host_network => port.container_port,
            number => number,
        };
        let port = Port {
            address: match port.host_ip.as_str() {
                // As in kube-scheduler, `::` is an address like others.
                "" | "0.0.0.0" => None,
                address => Some(address.into()),
            },
            protocol: match port.protocol {
                super::api::Protocol::Tcp => Protocol::Tcp,
                super::api::Protocol::Udp => Protocol::Udp,
                super::api::Protocol::Sctp => Protocol::Sctp,
            },
            number,
        };
        if number != 0 && !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}

/// Converts a topology spread constraint. As in Kubernetes, a constraint without a label selector counts no pod, and
/// one with an empty label selector counts only the pod itself.
fn spread(constraint: &SpreadConstraint, pod: &Pod, around: &Surroundings) -> TaskRule {
    let mut selector = labels_or_nothing(constraint.selector.as_ref());
    if constraint.selector.is_some() {
        narrow(&mut selector, &constraint.match_label_keys, Operator::In, &pod.metadata.labels);
    }
    let counts_itself = selector.matches(&own_labels(pod));
    if selector.requirements.is_empty() {
        selector = labels_or_nothing(None);
    }
    selector.requirements.push(Requirement {
        key: TERMINATING.into(),
        operator: Operator::DoesNotExist,
        values: Vec::new(),
    });
    let of = TaskSelector::Labels { tenants: Tenants::Own, labels: selector };
    let level = around.topology.level(&constraint.topology_key);
    TaskRule::Spread(Spread {
        domains_min: constraint.domains_min,
        when: match constraint.when {
            When::DoNotSchedule => WhenUnsatisfiable::DoNotSchedule,
            When::ScheduleAnyway => WhenUnsatisfiable::ScheduleAnyway,
        },
        counts_itself,
        honors_affinity: constraint.node_affinity_policy != Some(InclusionPolicy::Ignore),
        honors_taints: constraint.node_taints_policy == Some(InclusionPolicy::Honor),
        ..Spread::new(of, level, constraint.skew_max.max(1))
    })
}

/// Required affinity and anti-affinity of the pod.
fn neighbours(pod: &Pod, around: &Surroundings, remarks: &mut Remarks) -> Vec<TaskRule> {
    let mut rules = Vec::new();
    let mut near = Vec::new();
    for term in &pod.spec.affinity.pod.required {
        if term.selector.is_none() {
            remarks.insert(
                "a pod affinity without a label selector matches no pod, so the pod \
                 stays pending",
            );
        }
        near.push(selected(term, pod, around, remarks));
    }
    if !near.is_empty() {
        rules.push(TaskRule::Affinity(near));
    }
    for term in &pod.spec.affinity.anti.required {
        if term.selector.is_none() {
            remarks.insert("a pod anti-affinity without a label selector matches no pod");
        }
        let Near { tasks: from, level } = selected(term, pod, around, remarks);
        rules.push(TaskRule::AntiAffinity { from, level });
    }
    rules
}

/// Preferred affinity and anti-affinity of the pod.
///
/// A term without a label selector matches no pod, but it is kept as a preference, because a scheduler may ignore the
/// preferences of running pods when it places a pod that has no preference itself.
fn wishes(pod: &Pod, around: &Surroundings, remarks: &mut Remarks) -> Vec<TaskRule> {
    let affinity = &pod.spec.affinity;
    let near = affinity.pod.preferred.iter().map(|wish| (&wish.term, wish.weight));
    let far = affinity.anti.preferred.iter().map(|wish| (&wish.term, -wish.weight));
    let rules = near.chain(far).map(|(term, weight)| TaskRule::Prefer {
        near: selected(term, pod, around, remarks),
        weight,
    });
    rules.collect()
}

/// The pod's labels.
fn own_labels(pod: &Pod) -> Labels {
    pod.metadata.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// The pods that a term selects, and the topology level.
fn selected(
    term: &PodAffinityTerm,
    pod: &Pod,
    around: &Surroundings,
    remarks: &mut Remarks,
) -> Near {
    let own = &pod.metadata.labels;
    let mut labels: LabelSelector = labels_or_nothing(term.selector.as_ref());
    narrow(&mut labels, &term.match_label_keys, Operator::In, own);
    narrow(&mut labels, &term.mismatch_label_keys, Operator::NotIn, own);
    let tasks = TaskSelector::Labels { tenants: around.namespaces.tenants(term, remarks), labels };
    Near { tasks, level: around.topology.level(&term.topology_key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_all_ipv4_interfaces_is_every_address() {
        let port = |ip: &str| serde_json::json!({"hostPort": 80, "hostIP": ip});
        let container = serde_json::json!({"ports": [port(""), port("::"), port("0.0.0.0")]});
        let spec = serde_json::json!({"containers": [container]});
        let ports = ports(&serde_json::from_value(spec).expect("a specification"));
        let addresses: Vec<_> = ports.iter().map(|port| port.address.as_deref()).collect();
        assert_eq!(addresses, [None, Some("::")]);
    }
}
