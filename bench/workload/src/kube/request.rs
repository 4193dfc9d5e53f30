//! The request of a pod, computed from its containers as in Kubernetes.
//!
//! A running pod can be resized in place. Until its node has done so, the specified amounts, the amounts that the node
//! has allocated and the amounts in use differ. As in kube-scheduler, the largest of them counts. If the node can never
//! do it, the specified amounts do not count.

use super::api::{Container, Pod, PodStatus, Requirements, Resources};
use super::quantity::Quantity;

/// The request of a pod.
///
/// Containers run together, so their requests add up. Init containers run before them, one after another, so only their
/// largest request matters. A sidecar (an init container that always restarts) keeps running, so its request is added
/// to the requests of all later containers. Amounts for the whole pod replace that sum, and overhead is added.
pub fn pod_request(pod: &Pod) -> Resources {
    sum(pod, |requests| requests)
}

/// The request of a pod that is used for scores. A container without a CPU or memory request has a small default
/// amount, because such pods would otherwise all be placed on one machine. An explicit 0 remains 0.
///
/// If there are amounts for the whole pod, defaults apply only to resources that the pod does not mention at all.
pub fn nominal_request(pod: &Pod) -> Resources {
    let for_pod = pod.spec.resources.requests.iter().any(|(name, _)| counts_for_whole_pod(name));
    let known = if for_pod { pod_request(pod) } else { Resources::default() };
    let guessed = GUESSES.iter().filter(|(name, _)| !known.contains_key(name));
    let guessed: Vec<_> = guessed.collect();
    let mut nominal = sum(pod, |mut requests| {
        for (name, amount) in &guessed {
            if !requests.contains_key(name) {
                *requests.get_or_default(name) = *amount;
            }
        }
        requests
    });
    nominal.retain(|name| GUESSES.iter().any(|(guessed, _)| *guessed == name));
    nominal
}

/// Amounts that Kubernetes assumes in scores for containers without a request.
const GUESSES: [(&str, Quantity); 2] =
    [("cpu", Quantity::from_milli(100)), ("memory", Quantity::from_value(200 << 20))];

/// Sum of the containers' requests, each of which is changed by `adapt`.
fn sum(pod: &Pod, adapt: impl Fn(Resources) -> Resources) -> Resources {
    let Pod { spec, status, .. } = pod;
    let mut sum = Resources::default();
    for container in &spec.containers {
        add(&mut sum, &adapt(of_container(container, status)));
    }
    let mut sidecars = Resources::default();
    let mut start = Resources::default();
    for container in &spec.init_containers {
        let own = adapt(of_container(container, status));
        let mut together = sidecars.clone();
        add(&mut together, &own);
        raise(&mut start, &together);
        if is_sidecar(container) {
            add(&mut sum, &own);
            sidecars = together;
        }
    }
    raise(&mut sum, &start);
    for (name, amount) in &of_whole_pod(pod) {
        *sum.get_or_default(name) = *amount;
    }
    add(&mut sum, &spec.overhead);
    sum
}

/// The requests of a container, which may be being resized.
fn of_container(container: &Container, status: &PodStatus) -> Resources {
    let specified = requests(&container.resources);
    let mut all = status.containers.iter().chain(&status.init_containers);
    let Some(known) = all.find(|known| known.name == container.name) else { return specified };
    let (used, allocated) = (&known.resources.requests, &known.allocated);
    if used.is_empty() && allocated.is_empty() {
        return specified;
    }
    largest(specified, status, [used, allocated])
}

/// The requests for the whole pod, which may be being resized. Its status includes the overhead.
fn of_whole_pod(pod: &Pod) -> Resources {
    let Pod { spec, status, .. } = pod;
    let counted = |requests: &Resources| {
        let mut counted = requests.clone();
        counted.retain(counts_for_whole_pod);
        counted
    };
    let specified = counted(&spec.resources.requests);
    let (used, allocated) = (counted(&status.resources.requests), counted(&status.allocated));
    if specified.is_empty() || (used.is_empty() && allocated.is_empty()) {
        return specified;
    }
    let plain = |requests: Resources| {
        let plain = requests.iter().map(|(name, amount)| {
            let overhead = spec.overhead.get(name).copied().unwrap_or_default();
            (name.clone(), amount.less(overhead))
        });
        plain.collect()
    };
    largest(specified, status, [&plain(used), &plain(allocated)])
}

/// The largest amounts of a pod or container with this status. An impossible resize does not count.
fn largest(specified: Resources, status: &PodStatus, present: [&Resources; 2]) -> Resources {
    let mut largest = if status.conditions.infeasible { Resources::default() } else { specified };
    present.into_iter().for_each(|amounts| raise(&mut largest, amounts));
    largest
}

/// Whether an init container is a sidecar, which keeps running.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
}

/// Whether a resource can be requested for the whole pod.
fn counts_for_whole_pod(resource: &str) -> bool {
    resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-")
}

/// The requests. As in the API server, a limit without a request is also the request.
fn requests(requirements: &Requirements) -> Resources {
    let mut requests = requirements.limits.clone();
    for (name, amount) in &requirements.requests {
        *requests.get_or_default(name) = *amount;
    }
    requests
}

/// Adds each amount in `more` to `sum`.
fn add(sum: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        let entry = sum.get_or_default(name);
        *entry = entry.plus(*amount);
    }
}

/// Raises each amount to at least the amount in `least`.
pub(super) fn raise(sum: &mut Resources, least: &Resources) {
    for (name, amount) in least {
        let entry = sum.get_or_default(name);
        *entry = (*entry).max(*amount);
    }
}
