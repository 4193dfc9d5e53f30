//! The world of a case as a cell, made by the adapter that reads Kubernetes clusters.

use crate::oracle::case::{Labels, Node, Pod};
use crate::oracle::objects;
use omega_cellstate::{Cell, CellHandle, GroupRef, SharedCell, View};
use omega_core::{Command, JobId, Kinds, MachineId, Outcome, TaskId};
use omega_workload::kube::{self, input::Input};
use omega_workload::{Arrival, LoadError};
use std::collections::BTreeMap;
use std::path::Path;

/// Nodes and pods of a case.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) namespaces: &'a BTreeMap<String, Labels>,
    /// Running and pending pods.
    pub(super) pods: &'a [&'a Pod],
}

/// A cell with the recorded objects, and a scheduler's view of it.
pub(super) struct World {
    cell: SharedCell,
    pub(super) view: View,
    /// The job of each pod, by namespace and name.
    jobs: BTreeMap<String, JobId>,
}

/// Reason for which the cell rejected the objects, in one line. A rejection is a difference, because the real scheduler
/// accepted the objects.
pub(super) struct Refused(pub(super) String);

impl World {
    /// Makes the cell of a setting. Pods with a node run on it; the others are pending.
    pub(super) fn new(setting: Setting<'_>) -> Result<World, Refused> {
        let Setting { nodes, namespaces, pods } = setting;
        let input = Input::of(
            nodes.iter().map(objects::node).collect(),
            pods.iter().map(|pod| objects::pod(pod)).collect(),
            namespaces.iter().map(|(name, labels)| objects::namespace(name, labels)).collect(),
        );
        let fault = |fault: kube::input::Fault| {
            let LoadError { field, message, .. } = fault.of(Path::new(""));
            Refused(format!("{} {message}", field.unwrap_or_default()))
        };
        let workload = kube::workload(input).map_err(fault)?;
        let cell = SharedCell::new(Cell::new(workload.kinds));
        let mut machines = Vec::new();
        for machine in workload.machines {
            match apply(&cell, Command::RegisterMachine(machine))? {
                Outcome::Machine(id) => machines.push(id),
                other => return Err(Refused(format!("registering a machine gave {other:?}"))),
            }
        }
        let mut jobs = BTreeMap::new();
        let by_name: BTreeMap<String, &Pod> = pods.iter().map(|pod| (name_of(pod), *pod)).collect();
        for arrival in workload.arrivals {
            let name = arrival.job.name.to_string();
            let pod = by_name.get(&name).ok_or_else(|| Refused(format!("{name} is no pod")))?;
            jobs.insert(name, submit(&cell, arrival, pod, &machines)?);
        }
        let view = view(&cell)?;
        Ok(World { cell, view, jobs })
    }

    /// The cell's resource kinds.
    pub(super) fn kinds(&self) -> Kinds {
        self.view.kinds().clone()
    }

    /// The tasks of a pod, compiled for the view.
    pub(super) fn group(&mut self, pod: &Pod) -> Result<GroupRef, Refused> {
        let missing = || Refused(format!("the pod {} is no job", name_of(pod)));
        let id = *self.jobs.get(&name_of(pod)).ok_or_else(missing)?;
        let job = self.cell.read(|cell| cell.job(id).cloned()).ok_or_else(missing)?;
        Ok(self.view.compile(id, &job, 0))
    }

    /// Drains machines.
    pub(super) fn drain(&mut self, names: &[String]) -> Result<(), Refused> {
        for name in names {
            let Some(id) = self.view.machine_by_name(name) else { continue };
            apply(&self.cell, Command::DrainMachine { id, draining: true })?;
        }
        self.sync()
    }

    fn sync(&mut self) -> Result<(), Refused> {
        self.view.sync(&self.cell).map_err(|why| Refused(why.to_string()))
    }

    /// Places a pod that was pending.
    pub(super) fn place(&mut self, pod: &Pod, node: &str) -> Result<(), Refused> {
        let machine = self.view.machine_by_name(node);
        let (Some(machine), Some(job)) = (machine, self.jobs.get(&name_of(pod))) else {
            return Err(Refused(format!("{} cannot be placed on {node:?}", name_of(pod))));
        };
        let task = TaskId { job: *job, index: 0 };
        apply(&self.cell, Command::AdoptTask { task, machine })?;
        self.sync()
    }

    /// The name of the pod from which a job was made.
    pub(super) fn pod_of(&self, job: JobId) -> String {
        let of_job = self.jobs.iter().find(|(_, id)| **id == job);
        let name = of_job.and_then(|(name, _)| name.split_once('/'));
        name.map_or_else(|| format!("job {job}"), |(_, pod)| pod.to_owned())
    }

    /// The name of the machine in a row.
    pub(super) fn name(&self, row: u32) -> String {
        self.view.machine(row as usize).map_or_else(String::new, |m| m.name.to_string())
    }

    /// The rows of all machines.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        let there = |row: &u32| self.view.machine(*row as usize).is_some();
        (0..self.view.rows() as u32).filter(there)
    }
}

/// Submits the job of a pod. The task of a running pod is adopted.
fn submit(
    cell: &SharedCell,
    arrival: Arrival,
    pod: &Pod,
    machines: &[MachineId],
) -> Result<JobId, Refused> {
    let mut job = arrival.job;
    // If the pod's object has `node_name`, the pod runs on that node.
    for group in &mut job.groups {
        group.rules.machine = pod.required_node_name.as_deref().map(Into::into);
    }
    let job = match apply(cell, Command::SubmitJob(job))? {
        Outcome::Job(id) => id,
        other => return Err(Refused(format!("submitting a job gave {other:?}"))),
    };
    for (index, machine) in arrival.placed {
        let (task, machine) = (TaskId { job, index }, machines[machine as usize]);
        apply(cell, Command::AdoptTask { task, machine })?;
    }
    Ok(job)
}

fn apply(cell: &SharedCell, command: Command) -> Result<Outcome, Refused> {
    cell.apply(command).map_err(|why| Refused(why.to_string()))
}

fn view(cell: &SharedCell) -> Result<View, Refused> {
    let refused = |why: omega_cellstate::HandleError| Refused(why.to_string());
    let (scheduler, number) = cell.register("replay".into()).map_err(refused)?;
    let mut view = View::new(scheduler, number).with_placements();
    view.sync(cell).map_err(refused)?;
    Ok(view)
}

fn name_of(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
