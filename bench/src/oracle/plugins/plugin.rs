//! A case about one plugin: a world, a pod, and the plugin's result.

use crate::oracle::case::{Labels, Node, Pod};
use crate::oracle::cordon::without_taints;
use crate::oracle::difference::Found;
use crate::oracle::expect::Expect;
use crate::oracle::pod_requests;
use crate::oracle::world::{Refused, Setting, World};
use omega_cellstate::GroupRef;
use omega_workload::kube::api::or_default;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A case, with the plugin's arguments of type `A` and the recorded results of type `E`.
#[derive(Deserialize)]
pub(in crate::oracle) struct Case<A = NoArgs, E = Expect> {
    #[serde(rename = "id")]
    _id: String,
    #[serde(
        default,
        deserialize_with = "or_default",
        bound(deserialize = "A: Deserialize<'de> + Default")
    )]
    pub(in crate::oracle) args: A,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::oracle) namespaces: BTreeMap<String, Labels>,
    pub(in crate::oracle) nodes: Vec<Node>,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::oracle) pods: Vec<Pod>,
    pub(in crate::oracle) pod: Pod,
    pub(in crate::oracle) expect: E,
}

/// Placeholder for the arguments of a plugin that has none.
#[derive(Default, Deserialize)]
pub(in crate::oracle) struct NoArgs {}

impl<A, E> Case<A, E> {
    /// Replays the case. `ask` calls the plugin for the pod in the case's world.
    pub(in crate::oracle) fn replay(
        &self,
        ask: impl FnOnce(&mut Found, &mut World, GroupRef) -> Result<(), Refused>,
    ) -> Found {
        self.replay_on(&self.nodes, ask)
    }

    /// Replays the case with other nodes than its own.
    pub(in crate::oracle) fn replay_on(
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
