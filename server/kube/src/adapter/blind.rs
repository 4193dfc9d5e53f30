//! Closed nodes: nodes that accept no further pods, because the node itself or a pod on it cannot be mirrored.
//!
//! The requests of a bound pod are unknown if the pod could only be read in part. Its node might be full, so the node
//! is closed until the pod is gone or can be read. So is the node of a pod with more required anti-affinity or host
//! ports than a job may have. A node that could only be read in part, or that the cell rejects, keeps its last
//! description, and is closed, too.

use super::place::{REJECTED, node_of};
use super::shared::Closers;
use super::{Adapter, Effect, PodName, Remark, State};
use omega_cellstate::MachineStatus;
use omega_core::Command;
use std::collections::{BTreeMap, BTreeSet};

/// The closed nodes.
#[derive(Default)]
pub(super) struct Blind {
    /// Bound pods that close their nodes, by node.
    pods: BTreeMap<String, BTreeSet<PodName>>,
    /// Nodes whose last change could not be mirrored.
    nodes: BTreeSet<String>,
    closers: Closers,
}

impl Blind {
    /// Returns the nodes whose last change could not be mirrored.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.nodes.iter()
    }

    /// Returns the objects that close nodes, for messages.
    pub(super) fn closers(&self) -> Closers {
        self.closers.clone()
    }
}

impl Adapter {
    /// Returns the number of closed nodes.
    #[must_use]
    pub fn blind_nodes(&self) -> usize {
        let alone = self.blind.nodes.iter().filter(|node| !self.blind.pods.contains_key(*node));
        self.blind.pods.len() + alone.count()
    }

    /// Returns the number of pods and nodes that could not be read completely.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        let pods = self.pods.values().filter(|entry| entry.pod.metadata.unreadable.is_some());
        pods.count() + self.blind.nodes.len()
    }

    /// Closes the node of a bound pod if the pod's requests, or its requirements on other pods, are unknown. Opens the
    /// node when they are known again.
    pub(super) fn note_sight(&mut self, name: &PodName) {
        let Some(entry) = self.pods.get(name) else { return };
        let State::Bound(node) = &entry.state else { return };
        let node = node.clone();
        let is_rejected = entry.job.is_none() && self.nodes.contains_key(&node);
        let rejected = || is_rejected.then(|| REJECTED.to_owned());
        let why = entry.pod.metadata.unreadable.clone().or_else(|| entry.lacks.clone());
        let Some(why) = why.or_else(rejected) else {
            self.forget_sight(name);
            return;
        };
        if self.blind.pods.entry(node.clone()).or_default().insert(name.clone()) {
            tracing::error!(pod = %name, %node, %why, "a bound pod cannot be mirrored: its node is \
                 closed");
            self.blind.closers.add(format!("pod {name}"));
            let remark = Remark::Unreadable { node: node.clone(), why };
            self.effects.push(Effect::Tell(name.clone(), remark));
        }
        self.shut(&node);
    }

    /// Removes a pod from the pods that keep its node closed.
    pub(super) fn forget_sight(&mut self, name: &PodName) {
        let node = self.pods.get(name).and_then(|entry| node_of(&entry.state)).map(str::to_owned);
        let Some(node) = node else { return };
        let Some(pods) = self.blind.pods.get_mut(&node) else { return };
        pods.remove(name);
        self.blind.closers.remove(&format!("pod {name}"));
        if pods.is_empty() {
            self.blind.pods.remove(&node);
        }
        self.shut(&node);
    }

    /// Records whether a node could be mirrored, or the reason why not.
    pub(super) fn note_node_sight(&mut self, node: &str, obstacle: Option<&String>) {
        match obstacle {
            Some(why) => {
                self.blind.closers.add(format!("node {node}"));
                if self.blind.nodes.insert(node.to_owned()) {
                    tracing::error!(%node, %why, "the node cannot be mirrored: it is closed");
                }
            }
            None => {
                if self.blind.nodes.remove(node) {
                    self.blind.closers.remove(&format!("node {node}"));
                }
            }
        }
    }

    /// Makes the cell drain the machine of a closed node, and stop draining it when the node is open again.
    pub(super) fn shut(&mut self, node: &str) {
        let Some(id) = self.nodes.get(node).copied() else { return };
        let draining = self.blind.pods.contains_key(node) || self.blind.nodes.contains(node);
        let status = self.cell.read(|cell| cell.machine(id).map(|machine| machine.status));
        let drains = status == Some(MachineStatus::Draining);
        if drains != draining {
            let _ = self.cell.apply(Command::DrainMachine { id, draining });
        }
    }
}
