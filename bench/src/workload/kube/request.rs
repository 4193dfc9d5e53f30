//! What a pod claims: the rule by which Kubernetes adds up its containers.

use super::api::{Container, PodSpec, Requirements, Resources};

/// What a pod claims of its machine.
///
/// Containers run together, so they add up. Init containers run before them, one after another,
/// so only the largest counts; but a sidecar (an init container that restarts always) stays, and
/// adds to all that come after it. Amounts for the whole pod replace that sum, and overhead is on
/// top.
pub(super) fn pod_request(spec: &PodSpec) -> Resources {
    let mut sum = Resources::new();
    for container in &spec.containers {
        add(&mut sum, &requests(&container.resources));
    }
    let mut sidecars = Resources::new();
    let mut start = Resources::new();
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
    sum.extend(for_pod.map(|(name, amount)| (name.clone(), *amount)));
    add(&mut sum, &spec.overhead);
    sum
}

/// Whether an init container keeps running beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
}

/// The resources that a pod may claim as a whole.
fn counts_for_whole_pod(resource: &str) -> bool {
    resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-")
}

/// Requests; where there is only a limit it is the request, as the API server sets it.
fn requests(requirements: &Requirements) -> Resources {
    let mut requests = requirements.limits.clone();
    requests.extend(requirements.requests.iter().map(|(name, amount)| (name.clone(), *amount)));
    requests
}

/// Adds each amount.
fn add(sum: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.plus(*amount);
    }
}

/// Raises each amount to the other's.
fn raise(sum: &mut Resources, least: &Resources) {
    for (name, amount) in least {
        let entry = sum.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}
