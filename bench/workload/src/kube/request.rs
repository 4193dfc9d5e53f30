//! The request of a pod, computed from its containers as in Kubernetes.

use super::api::{Container, PodSpec, Requirements, Resources};
use super::quantity::Quantity;

/// The request of a pod.
///
/// Containers run together, so their requests add up. Init containers run before them, one after another, so only their
/// largest request matters. A sidecar (an init container that always restarts) keeps running, so its request is added
/// to the requests of all later containers. Amounts for the whole pod replace that sum, and overhead is added.
pub fn pod_request(spec: &PodSpec) -> Resources {
    sum(spec, requests)
}

/// The request of a pod that is used for scores. A container without a CPU or memory request has a small default
/// amount, because such pods would otherwise all be placed on one machine. An explicit 0 remains 0.
///
/// If there are amounts for the whole pod, defaults apply only to resources that the pod does not mention at all.
pub fn nominal_request(spec: &PodSpec) -> Resources {
    let for_pod = spec.resources.requests.iter().any(|(name, _)| counts_for_whole_pod(name));
    let known = if for_pod { pod_request(spec) } else { Resources::default() };
    let guessed = GUESSES.iter().filter(|(name, _)| !known.contains_key(name));
    let guessed: Vec<_> = guessed.collect();
    let mut nominal = sum(spec, |container| {
        let mut requests = requests(container);
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

/// Sum of the containers' requests.
fn sum(spec: &PodSpec, requests: impl Fn(&Requirements) -> Resources) -> Resources {
    let mut sum = Resources::default();
    for container in &spec.containers {
        add(&mut sum, &requests(&container.resources));
    }
    let mut sidecars = Resources::default();
    let mut start = Resources::default();
    for container in &spec.init_containers {
        let own = requests(&container.resources);
        let mut together = sidecars.clone();
        add(&mut together, &own);
        raise(&mut start, &together);
        if is_sidecar(container) {
            add(&mut sum, &own);
            sidecars = together;
        }
    }
    raise(&mut sum, &start);
    let for_pod = spec.resources.requests.iter().filter(|(name, _)| counts_for_whole_pod(name));
    for_pod.for_each(|(name, amount)| *sum.get_or_default(name) = *amount);
    add(&mut sum, &spec.overhead);
    sum
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
