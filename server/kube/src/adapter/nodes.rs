//! The nodes of the API server as machines of the cell.

use super::{Adapter, PodName};
use omega_core::{Command, Outcome};
use omega_workload::kube::api::Node;
use std::collections::BTreeSet;

impl Adapter {
    /// Handles a node that is new or has changed.
    pub fn node_changed(&mut self, node: &Node) {
        let name = &node.metadata.name;
        self.note_node_sight(name, node.metadata.unreadable.as_ref());
        if node.metadata.unreadable.is_some() {
            // The machine keeps its last form. If no form of the node could be read completely, there is no machine, so
            // the node gets no pods.
            self.shut(name);
            return;
        }
        let machine = self.converter.machine(node);
        if let Some(id) = self.nodes.get(name).copied() {
            let same =
                self.cell.read(|cell| cell.machine(id).is_some_and(|m| **m.machine == machine));
            // Kubelets write a node's status every few minutes, usually without a change. If the machine is equal, it
            // is not updated.
            if !same && let Err(why) = self.cell.apply(Command::UpdateMachine { id, machine }) {
                tracing::warn!(node = %name, %why, "the cell rejects the node's change");
            }
            self.shut(name);
            return;
        }
        match self.cell.apply(Command::RegisterMachine(machine)) {
            Ok(Outcome::Machine(id)) => {
                self.nodes.insert(name.clone(), id);
                self.names.insert(id, name.clone());
            }
            Ok(_) => return,
            Err(why) => {
                tracing::warn!(node = %name, %why, "the cell rejects the node");
                return;
            }
        }
        for pod in self.pods_on(name) {
            if let Some(job) = self.placed_job(&pod) {
                self.place(&pod, job);
            }
            self.note_sight(&pod);
        }
        self.shut(name);
    }

    /// Handles the deletion of a node. Its pods stay bound to it, as in the API server, but are no longer placed in the
    /// cell.
    pub fn node_deleted(&mut self, name: &str) {
        self.note_node_sight(name, None);
        let Some(id) = self.nodes.remove(name) else { return };
        self.forget_nominations_to(name);
        // If the machine was removed first, the cell would make its tasks pending again.
        self.pods_on(name).iter().for_each(|pod| self.replace(pod, None));
        self.names.remove(&id);
        let _ = self.cell.apply(Command::RemoveMachine { id });
    }

    /// Handles a list of all nodes.
    pub fn nodes_listed(&mut self, nodes: &[Node]) {
        let listed: BTreeSet<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        let gone = self.nodes.keys().filter(|name| !listed.contains(name.as_str()));
        let gone: Vec<String> = gone.cloned().collect();
        gone.iter().for_each(|name| self.node_deleted(name));
        nodes.iter().for_each(|node| self.node_changed(node));
    }

    fn pods_on(&self, node: &str) -> Vec<PodName> {
        self.on_node.get(node).into_iter().flatten().cloned().collect()
    }
}
