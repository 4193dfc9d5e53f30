//! A Kubernetes cluster as a workload, from the output of `kubectl get nodes,pods -A -o json`.
//!
//! ```text
//!  file ──input──▶ nodes ──node──────────────▶ machines
//!                  pods ──pod──▶ fate ─┐
//!                       ──request──────┼─jobs─▶ jobs, with the tasks that run already
//!                       ──rules────────┘
//! ```
//!
//! All jobs arrive at the start. Unsupported properties of pods become notes with counts, so that a user can judge
//! how well the result represents the cluster.
//!
//! In reading order: `input`, `api`, `quantity`, `kinds`, `node`, `avoid`, `pod`, `priority`, `request`, `selector`,
//! `rules`, `volumes`, `jobs`, `budget`, `notes`; for a cluster that is watched, `live`, `bounds` and `storage`.

pub mod api;
mod avoid;
pub mod bounds;
mod budget;
pub mod input;
mod jobs;
pub mod kinds;
pub mod live;
pub mod map;
pub mod node;
mod notes;
mod pod;
mod priority;
pub mod quantity;
pub mod request;
pub mod rules;
pub mod selector;
pub mod storage;
mod volumes;

use self::api::{Namespace, Node, Pod, Resources};
use self::input::{Fault, Input, Place};
use self::jobs::{Jobs, PodTask};
use self::kinds::{Chosen, KindTable};
use self::node::Topology;
use self::notes::Notes;
use self::pod::{Claims, Fate};
use self::request::{nominal_request, pod_request};
use self::rules::Surroundings;
use self::selector::Namespaces;
use crate::text::words::plural;
use crate::{LoadError, Workload};
use omega_core::{Machine, Policy};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Reads a cluster file: one or several `List`s of Nodes and Pods, plain or compressed.
///
/// If the file has volume claims, tasks get their volumes (see [`Workload::volumes`]). Namespaces are used if a rule
/// selects them by their labels, and PodDisruptionBudgets if a scheduler evicts.
///
/// # Errors
/// If the file cannot be read, is not such a list, or contains objects that the API server would reject.
pub fn load(file: &Path) -> Result<Workload, LoadError> {
    let read = || workload(input::parse(&input::read_text(file)?)?);
    let workload = read().map_err(|fault| fault.of(file))?;
    let name = match file.to_str() {
        Some("-") => "standard input".into(),
        _ => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy(),
    };
    Ok(Workload { name: format!("Kubernetes cluster of {name}"), ..workload })
}

/// A pod that becomes a task, with its request.
struct LivePod<'a> {
    pod: &'a Pod,
    machine: Option<u32>,
    request: Resources,
    /// Request of the pod that is used for scores.
    nominal: Resources,
}

/// Converts a file's objects into a workload.
pub fn workload(mut input: Input) -> Result<Workload, Fault> {
    priority::resolve(&mut input.pods, &input.priorities);
    let mut notes = Notes::default();
    for (kind, count) in &input.others {
        notes.sentence(format!("ignored items of kind {kind}, which omega does not read: {count}"));
    }
    let positions = positions(&input.nodes)?;
    let pods = live_pods(&input.pods, &positions, &mut notes)?;
    let kinds = kinds(&input.nodes, &pods, &mut notes)?;
    let mut machines: Vec<Machine> = Vec::new();
    for (_, node) in &input.nodes {
        let (machine, remarks) = node::machine(node, &kinds);
        notes.node(remarks);
        machines.push(machine);
    }
    let around = Surroundings {
        topology: Topology::of(&machines),
        namespaces: namespaces(&input.namespaces, &pods),
    };
    let claims = if volumes::has_any(&input) { Claims::Known } else { Claims::Unknown };
    let tasks = pods.into_iter().map(|pod| task(pod, &kinds, (&around, claims), &mut notes));
    let tasks = tasks.collect();
    let budgets = budget::budgets(&input.budgets, &mut notes)?;
    let Jobs { arrivals, of_controllers } = jobs::jobs(tasks, budget::keys(&budgets));
    for (machine, (_, node)) in machines.iter_mut().zip(&input.nodes) {
        notes.node(avoid::mark(machine, &node.metadata, &of_controllers));
    }
    let volumes = volumes::volumes(&input);
    volumes.list().1.iter().for_each(|fault| notes.sentence(format!("volumes: {fault}")));
    let built_in = volumes::of_built_in_drivers(&input);
    if built_in > 0 {
        notes.sentence(format!(
            "volumes of drivers that are built into Kubernetes are not counted against the limits \
             of nodes: {built_in}"
        ));
    }
    Ok(Workload {
        name: String::new(),
        kinds: kinds.into_kinds(),
        policy: Policy::default(),
        machines,
        machine_events: Vec::new(),
        arrivals,
        volumes,
        budgets,
        notes: notes.into_sentences(),
    })
}

/// The nodes' positions by name.
fn positions(nodes: &[(Place, Node)]) -> Result<BTreeMap<&str, u32>, Fault> {
    if nodes.is_empty() {
        let message = "has no Node: it must be the output of `kubectl get nodes,pods -A -o json`";
        return Err(Fault::file(message));
    }
    let mut positions = BTreeMap::new();
    for ((place, node), position) in nodes.iter().zip(0..) {
        let name = node.metadata.name.as_str();
        if positions.insert(name, position).is_some() {
            return Err(place.fault(
                "metadata.name",
                format!(
                    "the node {name:?} appears twice: \
                 remove one of the two"
                ),
            ));
        }
    }
    Ok(positions)
}

/// The pods that become tasks. Running pods come first, the oldest at the front, and then bound pods that have not
/// started. Pending pods follow in the order of kube-scheduler's queue: by priority, then by age, then as in the file. Jobs and tasks are numbered in this order, and
/// of equally important victims the younger one is evicted.
fn live_pods<'a>(
    pods: &'a [(Place, Pod)],
    positions: &BTreeMap<&str, u32>,
    notes: &mut Notes,
) -> Result<Vec<LivePod<'a>>, Fault> {
    let mut names = BTreeSet::new();
    let mut live = Vec::new();
    for (place, pod) in pods {
        let name = (pod::namespace(pod), pod.metadata.name.as_str());
        if !names.insert(name) {
            let message =
                format!("the pod \"{}/{}\" appears twice: remove one of the two", name.0, name.1);
            return Err(place.fault("metadata.name", message));
        }
        check_spreads(place, pod)?;
        let machine = match pod::fate(pod, positions) {
            Fate::Runs(machine) => Some(machine),
            Fate::Waits => None,
            Fate::LeftOut(remark) => {
                notes.pod([remark]);
                continue;
            }
        };
        let (request, nominal) = (pod_request(pod), nominal_request(pod));
        live.push(LivePod { pod, machine, request, nominal });
    }
    if pods.is_empty() {
        notes.sentence(
            "the file has no pods: it should be the output of `kubectl get nodes,pods \
             -A -o json`",
        );
    }
    live.sort_by_key(|live| {
        // Kubernetes writes all times in one format, so their alphabetical order is the order of time.
        let Pod { metadata, status, .. } = live.pod;
        let (started, created) = (status.started.as_str(), metadata.created.as_str());
        match live.machine {
            Some(_) if !started.is_empty() => (0, Reverse(0), false, started),
            Some(_) => (1, Reverse(0), created.is_empty(), created),
            None => (2, Reverse(live.pod.spec.priority()), created.is_empty(), created),
        }
    });
    Ok(live)
}

/// Rejects a spread without a skew, as the API server does.
fn check_spreads(place: &Place, pod: &Pod) -> Result<(), Fault> {
    match pod.spec.spreads.iter().position(|spread| spread.skew_max == 0) {
        Some(i) => Err(place.fault(
            &format!("spec.topologySpreadConstraints[{i}].maxSkew"),
            "is 0 or missing: must be a whole number from 1",
        )),
        None => Ok(()),
    }
}

/// The cell's kinds.
fn kinds(
    nodes: &[(Place, Node)],
    pods: &[LivePod<'_>],
    notes: &mut Notes,
) -> Result<KindTable, Fault> {
    let capacities = nodes.iter().map(|(_, node)| node::capacity(node));
    let Chosen { table, left_out } =
        KindTable::choose(capacities, pods.iter().map(|pod| &pod.request))?;
    if !left_out.is_empty() {
        notes.sentence(format!(
            "{} left out, because a cell counts a limited number of kinds and no pod requests \
             these: {}",
            plural(left_out.len() as u64, "resource kind"),
            left_out.join(", ")
        ));
    }
    Ok(table)
}

/// The namespaces of the file and of its pods.
fn namespaces(objects: &[Namespace], pods: &[LivePod<'_>]) -> Namespaces {
    Namespaces::new(objects, pods.iter().map(|pod| pod::namespace(pod.pod)))
}

/// Converts a pod to a task.
fn task<'a>(
    live: LivePod<'a>,
    kinds: &KindTable,
    (around, claims): (&Surroundings, Claims),
    notes: &mut Notes,
) -> PodTask<'a> {
    let LivePod { pod, machine, request, nominal } = live;
    let (request, capped) = kinds.request(&request, &nominal);
    let (rules, mut remarks) = rules::rules(pod, around);
    remarks.extend(pod::remarks(pod, claims));
    remarks.extend(capped);
    notes.pod(remarks);
    let volumes = match claims {
        Claims::Known => volumes::claims(pod::namespace(pod), &pod.metadata.name, &pod.spec),
        Claims::Unknown => Vec::new(),
    };
    PodTask { pod, request, images: pod::images(&pod.spec), rules, volumes, machine }
}
