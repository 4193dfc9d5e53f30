//! A case about one plugin: a world, a pod, and the plugin's result.

use super::case::{Labels, Node, Pod};
use super::cordon::without_taints;
use super::difference::Found;
use super::expect::Expect;
use super::pod_requests;
use super::world::{Refused, Setting, World};
use omega_cellstate::GroupRef;
use omega_workload::kube::api::or_default;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A case, with the plugin's arguments of type `A` and the recorded results of type `E`.
#[derive(Deserialize)]
pub(super) struct Case<A = NoArgs, E = Expect> {
    #[serde(rename = "id")]
    _id: String,
    #[serde(
        default,
        deserialize_with = "or_default",
        bound(deserialize = "A: Deserialize<'de> + Default")
    )]
    pub(super) args: A,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) namespaces: BTreeMap<String, Labels>,
    pub(super) nodes: Vec<Node>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) pods: Vec<Pod>,
    pub(super) pod: Pod,
    pub(super) expect: E,
}

/// Placeholder for the arguments of a plugin that has none.
#[derive(Default, Deserialize)]
pub(super) struct NoArgs {}

impl<A, E> Case<A, E> {
    /// Replays the case. `ask` calls the plugin for the pod in the case's world.
    pub(super) fn replay(
        &self,
        ask: impl FnOnce(&mut Found, &mut World, GroupRef) -> Result<(), Refused>,
    ) -> Found {
        self.replay_on(&self.nodes, ask)
    }

    /// Replays the case with other nodes than its own.
    pub(super) fn replay_on(
        &self,
        nodes: &[Node],
        ask: impl FnOnce(&mut Found, &mut World, GroupRef) -> Result<(), Refused>,
    ) -> Found {
        let mut found = Found::default();
        for (place, pod) in (0..).map(|i| format!("pods[{i}]")).zip(&self.pods) {
            pod_requests::compare(&mut found, &place, pod);
        }
        pod_requests::compare(&mut found, "pod", &self.pod);
        let pods: Vec<&Pod> = self.pods.iter().chain([&self.pod]).collect();
        let (nodes, draining) = without_taints(nodes, &self.pod);
        let setting = Setting { nodes: &nodes, namespaces: &self.namespaces, pods: &pods };
        let asked = World::new(setting).and_then(|mut world| {
            world.drain(&draining)?;
            let group = world.group(&self.pod)?;
            ask(&mut found, &mut world, group)
        });
        if let Err(Refused(why)) = asked {
            found.note("world", "a cell".to_owned(), why);
        }
        found
    }
}
