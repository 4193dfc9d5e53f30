//! Volume claims in random histories, and the controllers that bind, make and attach volumes.

use super::NODES;
use super::world::World;
use crate::double::{CLAIMS as CLAIM_LIST, Double, PODS as POD_LIST, STORAGE, VOLUMES, text};
use crate::storage::{bind, claim, class, make, provision, volume};
use omega_kube::adapter::Binding;
use omega_kube::adapter::effects::ClaimChoice;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const CLAIMS: u32 = 10;

/// The number of the node of each disk.
const DISKS: [u32; 4] = [0, 0, 1, 2];

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

const DRIVER: &str = "csi.example.com";

/// Maximum number of the driver's volumes on the node with this number; `None` without a limit.
pub(super) fn limit(node: u32) -> Option<u32> {
    [Some(2), Some(3), None, Some(1)][node as usize]
}

/// Whether the driver has room for a volume on a node. The result matters only if the driver reports its room.
pub(super) fn has_space(node: u32) -> bool {
    node != 3
}

/// The state of the controllers.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    /// Whether the driver reports on which nodes it has room.
    pub(super) measured: bool,
    /// Number of volumes made so far.
    made: u32,
}

fn claim_path(name: &str) -> String {
    format!("/api/v1/namespaces/t/persistentvolumeclaims/{name}")
}

/// The names of the claims of a pod.
pub(super) fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
}

/// The number of a node.
pub(super) fn number(node: &str) -> u32 {
    node.trim_start_matches('n').parse().expect("a node")
}

/// The object of a resource with this name.
pub(super) fn find<'a>(server: &'a Double, resource: &str, name: &str) -> Option<&'a Arc<Value>> {
    server.all(resource).find(|known| text(known, "/metadata/name") == name)
}

/// The only node that reaches a volume.
pub(super) fn host(volume: &Value) -> &str {
    let terms = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
    text(volume, terms)
}

/// Creates a disk of a node. No driver manages the disk, so it counts towards no limit.
fn make_disk(server: &mut Double, name: &str, node: &str) {
    let object = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"], "storageClassName": "local",
        "local": {"path": "/disk"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "host", "operator": "In", "values": [node]}]}]}}},
        "status": {"phase": "Available"}});
    make(server, VOLUMES, &object);
}

/// The class of the claim with this number.
fn class_of(claim: u32) -> &'static str {
    ["early", "late", "local"][claim as usize % 3]
}

impl World {
    pub(super) fn set_storage_up(&mut self, seed: u64) {
        let server = &mut self.pair.server;
        for node in 0..NODES {
            let label = json!({"metadata": {"labels": {"host": format!("n{node}")}}});
            server.call("PATCH", &format!("/api/v1/nodes/n{node}"), &label);
            let count = limit(node).map_or(json!({}), |limit| json!({"count": limit}));
            let drivers = json!([{"name": DRIVER, "nodeID": "x", "topologyKeys": ["host"], "allocatable": count}]);
            let object =
                json!({"metadata": {"name": format!("n{node}")}, "spec": {"drivers": drivers}});
            make(server, &format!("{STORAGE}/csinodes"), &object);
        }
        class(server, "late", "WaitForFirstConsumer", DRIVER);
        class(server, "local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner");
        class(server, "early", "Immediate", DRIVER);
        for (disk, node) in DISKS.iter().enumerate() {
            make_disk(server, &format!("disk{disk}"), &format!("n{node}"));
        }
        self.controllers.measured = seed % 4 == 1;
        if self.controllers.measured {
            let driver = json!({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": true}});
            make(server, &format!("{STORAGE}/csidrivers"), &driver);
            for node in (0..NODES).filter(|node| has_space(*node)) {
                let name = format!("n{node}");
                let object = json!({"metadata": {"name": name}, "storageClassName": "late", "capacity": "5Gi",
                    "nodeTopology": {"matchLabels": {"host": name}}});
                let path = format!("{STORAGE}/namespaces/kube-system/csistoragecapacities");
                make(server, &path, &object);
            }
        }
        self.pair.deliver();
    }

    /// Returns the volumes of a new pod: none, or one or two claims.
    pub(super) fn pick_volumes(&mut self) -> Value {
        let count = [0, 1, 1, 2][self.chance(4) as usize];
        let names: BTreeSet<u32> = (0..count).map(|_| self.chance(CLAIMS)).collect();
        let volume = |claim: &u32| {
            let name = format!("c{claim}");
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        };
        names.iter().map(volume).collect()
    }

    /// Creates or deletes a claim, or lets a controller take a step.
    pub(super) fn turn_storage(&mut self) {
        let index = self.chance(CLAIMS);
        let name = format!("c{index}");
        match self.chance(6) {
            0 if find(&self.pair.server, CLAIM_LIST, &name).is_none() => {
                let mode = if index % 4 == 3 { "ReadWriteOncePod" } else { "ReadWriteOnce" };
                claim(&mut self.pair.server, &name, class_of(index), mode);
            }
            0 if self.chance(4) == 0 => self.delete_claim(&name),
            1 => self.attach(),
            2 => self.detach(),
            _ if self.chance(4) == 0 => self.fail_provisioning(&name),
            _ => self.bind_claim(&name),
        }
    }

    /// Runs all controllers until they have nothing to do.
    pub(super) fn run_controllers(&mut self) {
        (0..CLAIMS).for_each(|index| self.bind_claim(&format!("c{index}")));
        (0..PODS_AND_CLAIMS).for_each(|_| {
            self.attach();
            self.detach();
        });
    }

    /// Deletes a claim, unless a pod names it or its volume is attached. A real server, too, keeps a claim as long as a
    /// pod names it.
    fn delete_claim(&mut self, name: &str) {
        let server = &mut self.pair.server;
        let Some(object) = find(server, CLAIM_LIST, name).cloned() else { return };
        let of = text(&object, "/spec/volumeName");
        let is_used = server.all(POD_LIST).any(|pod| claims_of(pod).any(|claim| claim == name));
        let is_attached = attachments(server).any(|(_, volume)| volume == of);
        if is_used || is_attached {
            return;
        }
        server.call("DELETE", &claim_path(name), &Value::Null);
        // A volume that was chosen for the claim, but not yet bound, is free again.
        let chosen = |volume: &&Arc<Value>| text(volume, "/spec/claimRef/name") == name;
        let chosen: Vec<Value> =
            server.all(VOLUMES).filter(chosen).map(|volume| Value::clone(volume)).collect();
        for old in chosen {
            let called = text(&old, "/metadata/name");
            server.call("DELETE", &format!("{VOLUMES}/{called}"), &Value::Null);
            if text(&old, "/spec/storageClassName") == "local" {
                make_disk(server, called, host(&old));
            }
        }
    }

    /// Binds a claim, as the controller of volumes and the provisioner do.
    fn bind_claim(&mut self, name: &str) {
        let node = self.chance(NODES);
        let server = &mut self.pair.server;
        let Some(object) = find(server, CLAIM_LIST, name).cloned() else { return };
        if !text(&object, "/spec/volumeName").is_empty() {
            return;
        }
        let selected = "/metadata/annotations/volume.kubernetes.io~1selected-node";
        let uid = text(&object, "/metadata/uid");
        match text(&object, "/spec/storageClassName") {
            "early" => {
                self.controllers.made += 1;
                let made = format!("made{}", self.controllers.made);
                volume(server, &made, "early", &format!("n{node}"));
                bind(server, name, &made);
            }
            "late" if !text(&object, selected).is_empty() => provision(server, name),
            _ => {
                let reserved = |volume: &&Arc<Value>| text(volume, "/spec/claimRef/uid") == uid;
                let reserved = server.all(VOLUMES).find(reserved);
                if let Some(volume) =
                    reserved.map(|volume| text(volume, "/metadata/name").to_owned())
                {
                    bind(server, name, &volume);
                }
            }
        }
    }

    /// Removes the selected node from a volume claim, as a provisioner does if it cannot create the volume.
    fn fail_provisioning(&mut self, name: &str) {
        let server = &mut self.pair.server;
        let unbound = |claim: &&Arc<Value>| text(claim, "/spec/volumeName").is_empty();
        if find(server, CLAIM_LIST, name).filter(unbound).is_some() {
            let away =
                json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
            server.call("PATCH", &claim_path(name), &away);
        }
    }

    /// Attaches one volume of a bound pod, as the controller does.
    fn attach(&mut self) {
        let server = &mut self.pair.server;
        let known: BTreeSet<(String, String)> = attachments(server).collect();
        let missing = wanted(server).find(|wanted| !known.contains(wanted));
        if let Some((node, volume)) = missing {
            let object = json!({"metadata": {"name": format!("{node}-{volume}")}, "spec": {"attacher": DRIVER,
                "nodeName": node, "source": {"persistentVolumeName": volume}}});
            make(server, ATTACHMENTS, &object);
        }
    }

    /// Detaches one volume that no pod on the node uses.
    fn detach(&mut self) {
        let server = &mut self.pair.server;
        let wanted: BTreeSet<(String, String)> = wanted(server).collect();
        let idle = attachments(server).find(|known| !wanted.contains(known));
        if let Some((node, volume)) = idle {
            let path = format!("{ATTACHMENTS}/{node}-{volume}");
            server.call("DELETE", &path, &Value::Null);
        }
    }

    /// Panics if a new volume is requested from a class that provisions none.
    pub(super) fn check_choice(&self, choice: &ClaimChoice) {
        let object = find(&self.pair.server, CLAIM_LIST, &choice.claim);
        let class = object.map_or("", |claim| text(claim, "/spec/storageClassName"));
        assert!(class != "local" || choice.volume.is_some(), "{choice:?}");
    }

    /// Panics if a pod was bound to a node that does not reach its volumes or has too many volumes, or if the pod
    /// shares a claim that only one pod may use.
    pub(super) fn check_volumes(&self, binding: &Binding) {
        let (server, node) = (&self.pair.server, binding.node.as_str());
        let pod = find(server, POD_LIST, &binding.pod.name).expect("it was bound");
        for name in claims_of(pod) {
            let claim = find(server, CLAIM_LIST, name).expect("a bound pod's claim");
            let of = find(server, VOLUMES, text(claim, "/spec/volumeName"));
            assert_eq!(host(of.expect("a volume")), node, "{name} of {} is elsewhere", binding.pod);
            let users = server.all(POD_LIST).filter(|pod| {
                !text(pod, "/spec/nodeName").is_empty() && claims_of(pod).any(|other| other == name)
            });
            let one = claim["spec"]["accessModes"][0] == "ReadWriteOncePod";
            assert!(users.count() == 1 || !one, "{name} has two pods");
        }
        let known = self.decided.get(&binding.decision).copied().unwrap_or(0);
        let attached = server.all(ATTACHMENTS);
        let attached = attached.filter(|one| {
            text(one, "/metadata/resourceVersion").parse::<u64>().expect("a version") <= known
        });
        let attached = attached.map(|one| pair_of(one));
        let on: BTreeSet<_> = wanted(server).chain(attached).filter(|(at, _)| at == node).collect();
        let limit = limit(number(node)).unwrap_or(u32::MAX) as usize;
        // A pod without claims adds no volumes, so its node may have too many because of other pods.
        assert!(on.len() <= limit || claims_of(pod).next().is_none(), "{node} has {on:?}");
    }
}

/// Number of rounds in which the controllers attach and detach one volume each: more than there are volumes of pods.
const PODS_AND_CLAIMS: u32 = 20;

/// Node and volume of an attachment.
fn pair_of(attachment: &Value) -> (String, String) {
    let volume = text(attachment, "/spec/source/persistentVolumeName");
    (text(attachment, "/spec/nodeName").to_owned(), volume.to_owned())
}

/// Nodes and volumes that are attached.
pub(super) fn attachments(server: &Double) -> impl Iterator<Item = (String, String)> {
    let all = server.all(ATTACHMENTS).map(|one| pair_of(one));
    all.collect::<Vec<_>>().into_iter()
}

/// Nodes of the bound pods, with the volumes that are attached for them.
pub(super) fn wanted(server: &Double) -> impl Iterator<Item = (String, String)> {
    let bound = server.all(POD_LIST).filter(|pod| !text(pod, "/spec/nodeName").is_empty());
    let volumes = bound.flat_map(|pod| {
        let volume = |name| {
            let claim = find(server, CLAIM_LIST, name)?;
            let volume = text(claim, "/spec/volumeName");
            // Disks are not attached.
            let attached = !volume.is_empty() && !volume.starts_with("disk");
            attached.then(|| (text(pod, "/spec/nodeName").to_owned(), volume.to_owned()))
        };
        claims_of(pod).filter_map(volume)
    });
    volumes.collect::<Vec<_>>().into_iter()
}
