//! The nodes of the API server as machines of the cell.

use super::starts::started;
use super::{Adapter, Entry, PodName, State};
use omega_core::limits::KINDS_MAX;
use omega_core::{Command, Outcome, Rejection};
use omega_workload::kube::api::{Node, Pod};
use omega_workload::kube::kinds::EXTENDED_MAX;
use std::collections::BTreeSet;

impl Adapter {
    /// Handles a node that is new or has changed.
    pub fn node_changed(&mut self, node: &Node) {
        let name = &node.metadata.name;
        let obstacle = match &node.metadata.unreadable {
            Some(why) => Some(why.clone()),
            None => self.mirror_node(node).err().map(|why| why.to_string()),
        };
        // With an obstacle, the machine keeps its last form. If there was no other form, there is no machine, so the
        // node gets no pods.
        self.note_node_sight(name, obstacle.as_ref());
        self.shut(name);
    }

    /// Registers or updates the machine of a node.
    fn mirror_node(&mut self, node: &Node) -> Result<(), Rejection> {
        let name = &node.metadata.name;
        self.note_untracked(name, self.converter.untracked_on(node));
        let machine = self.converter.machine(node);
        if let Some(id) = self.nodes.get(name).copied() {
            let same =
                self.cell.read(|cell| cell.machine(id).is_some_and(|m| **m.machine == machine));
            // Kubelets write a node's status every few minutes, usually without a change. If the machine is equal, it
            // is not updated.
            if !same {
                self.cell.apply(Command::UpdateMachine { id, machine })?;
            }
            return Ok(());
        }
        let Outcome::Machine(id) = self.cell.apply(Command::RegisterMachine(machine))? else {
            return Ok(());
        };
        self.nodes.insert(name.clone(), id);
        self.names.insert(id, name.clone());
        let mut pods = self.pods_on(name);
        let start = |pod: &PodName| started(&self.pods.get(pod)?.pod);
        pods.sort_by_key(|pod| start(pod).unwrap_or(u64::MAX));
        for pod in pods {
            if let Some(job) = self.placed_job(&pod) {
                self.place(&pod, job);
            }
            self.order_by_start(&pod);
            self.note_sight(&pod);
        }
        Ok(())
    }

    /// Records the resources of a node that the cell does not count. The pods that request one of them are held for
    /// another reason from then on.
    fn note_untracked(&mut self, node: &str, resources: BTreeSet<String>) {
        if self.untracked.get(node).unwrap_or(&BTreeSet::new()) == &resources {
            return;
        }
        if resources.is_empty() {
            self.untracked.remove(node);
        } else {
            self.untracked.insert(node.to_owned(), resources);
        }
        let waits = |entry: &Entry| {
            matches!(entry.state, State::Held(_)) && self.converter.untracked(&entry.pod).is_some()
        };
        let waiting = self.pods.iter().filter(|(_, entry)| waits(entry));
        let waiting: Vec<PodName> = waiting.map(|(name, _)| name.clone()).collect();
        waiting.iter().for_each(|pod| self.settle(pod));
    }

    /// Returns the reason why a pod is held that requests a resource which the cell does not count. If no node has the
    /// resource, the words are those of kube-scheduler.
    pub(super) fn lacks_resource(&self, pod: &Pod) -> Option<String> {
        let resource = self.converter.untracked(pod)?;
        if !self.untracked.values().any(|resources| resources.contains(&resource)) {
            let nodes = self.nodes.len();
            return Some(match nodes {
                0 => "no nodes available to schedule pods".into(),
                _ => format!("0/{nodes} nodes are available: {nodes} Insufficient {resource}."),
            });
        }
        Some(if self.converter.kinds().count() == KINDS_MAX {
            format!(
                "omega-kube tracks at most {EXTENDED_MAX} extended resources, and not {resource}: restart omega-kube, \
                 so that it chooses them again, or name another scheduler in spec.schedulerName"
            )
        } else {
            format!("no node had {resource} when omega-kube started: restart omega-kube")
        })
    }

    /// Handles the deletion of a node. Its pods stay bound to it, as in the API server, but are no longer placed in the
    /// cell.
    pub fn node_deleted(&mut self, name: &str) {
        self.note_node_sight(name, None);
        self.note_untracked(name, BTreeSet::new());
        let Some(id) = self.nodes.remove(name) else { return };
        self.forget_nominations_to(name);
        // If the machine was removed first, the cell would make its tasks pending again. Parked pods are on no node,
        // but room is kept for them.
        let mut pods = self.pods_on(name);
        let parked = |entry: &Entry| matches!(entry.state, State::Parked { .. });
        let parked = self.pods.iter().filter(|(_, entry)| parked(entry));
        let with_room = parked.filter(|(_, entry)| self.machine_of(entry) == Some(id));
        pods.extend(with_room.map(|(name, _)| name.clone()));
        pods.iter().for_each(|pod| self.replace(pod, None));
        self.names.remove(&id);
        let _ = self.cell.apply(Command::RemoveMachine { id });
    }

    /// Handles a list of all nodes.
    pub fn nodes_listed(&mut self, nodes: &[Node]) {
        let listed: BTreeSet<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        let known = self.nodes.keys().chain(self.blind.nodes());
        let gone: BTreeSet<String> =
            known.filter(|name| !listed.contains(name.as_str())).cloned().collect();
        gone.iter().for_each(|name| self.node_deleted(name));
        nodes.iter().for_each(|node| self.node_changed(node));
    }

    fn pods_on(&self, node: &str) -> Vec<PodName> {
        self.on_node.get(node).into_iter().flatten().cloned().collect()
    }
}
