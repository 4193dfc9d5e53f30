//! Mirror of the API server's storage objects. It is the source of the list of volumes, in which workers make
//! reservations.
//!
//! Pods with claims are held until all kinds of objects are listed. Before that, the limits of nodes are not known, and
//! a decision could be wrong. Other pods are not held.

use super::place::PLACED;
use super::{Adapter, PodName, State};
use omega_core::{Job, MachineId, TaskId, Text};
use omega_schedulers::Volumes;
use omega_schedulers::volumes::Measured;
use omega_workload::kube::api::{
    CsiDriverObject, CsiNode, CsiStorageCapacity, Metadata, PersistentVolume,
    PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment,
};
use omega_workload::kube::live::Converter;
use omega_workload::kube::storage;
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of storage objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredKind {
    /// `PersistentVolumeClaim`.
    Claim,
    /// `PersistentVolume`.
    Volume,
    /// `StorageClass`.
    Class,
    /// `CSINode`: the drivers of a node, with their volume limits.
    CsiNode,
    /// `CSIDriver`.
    Driver,
    /// `CSIStorageCapacity`: free capacity of a driver.
    Capacity,
    /// `VolumeAttachment`.
    Attachment,
}

impl StoredKind {
    /// All kinds.
    pub const ALL: [StoredKind; 7] = [
        StoredKind::Claim,
        StoredKind::Volume,
        StoredKind::Class,
        StoredKind::CsiNode,
        StoredKind::Driver,
        StoredKind::Capacity,
        StoredKind::Attachment,
    ];
}

/// A storage object.
#[derive(Debug)]
pub enum Stored {
    /// A claim.
    Claim(Box<PersistentVolumeClaim>),
    /// A volume.
    Volume(Box<PersistentVolume>),
    /// A class.
    Class(Box<StorageClass>),
    /// The drivers of a node.
    CsiNode(Box<CsiNode>),
    /// A driver.
    Driver(Box<CsiDriverObject>),
    /// Free capacity of a driver.
    Capacity(Box<CsiStorageCapacity>),
    /// An attachment.
    Attachment(Box<VolumeAttachment>),
}

impl Stored {
    /// Returns the kind of the object.
    #[must_use]
    pub fn kind(&self) -> StoredKind {
        match self {
            Stored::Claim(_) => StoredKind::Claim,
            Stored::Volume(_) => StoredKind::Volume,
            Stored::Class(_) => StoredKind::Class,
            Stored::CsiNode(_) => StoredKind::CsiNode,
            Stored::Driver(_) => StoredKind::Driver,
            Stored::Capacity(_) => StoredKind::Capacity,
            Stored::Attachment(_) => StoredKind::Attachment,
        }
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        match self {
            Stored::Claim(it) => &it.metadata,
            Stored::Volume(it) => &it.metadata,
            Stored::Class(it) => &it.metadata,
            Stored::CsiNode(it) => &it.metadata,
            Stored::Driver(it) => &it.metadata,
            Stored::Capacity(it) => &it.metadata,
            Stored::Attachment(it) => &it.metadata,
        }
    }

    /// Returns the name of the object, preceded by its namespace if it has one.
    fn key(&self) -> Text {
        let Metadata { namespace, name, .. } = self.metadata();
        if namespace.is_empty() {
            name.as_str().into()
        } else {
            format!("{namespace}/{name}").into()
        }
    }
}

/// The mirrored storage objects.
pub(super) struct Storage {
    pub(super) list: Volumes,
    listed: BTreeSet<StoredKind>,
    known: BTreeSet<(StoredKind, Text)>,
    pub(super) claims: BTreeMap<Text, PersistentVolumeClaim>,
    pub(super) volumes: BTreeMap<Text, PersistentVolume>,
    pub(super) classes: BTreeMap<Text, StorageClass>,
    nodes: BTreeMap<Text, CsiNode>,
    /// For each claim, by name, the pods that wait until the claim is bound.
    pub(super) waiting: BTreeMap<Text, BTreeSet<PodName>>,
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
            list: Volumes::mirror(),
            listed: BTreeSet::new(),
            known: BTreeSet::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            classes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }
}

impl Storage {
    fn is_listed(&self) -> bool {
        StoredKind::ALL.iter().all(|kind| self.listed.contains(kind))
    }

    fn put(&mut self, object: Stored) {
        let (kind, key) = (object.kind(), object.key());
        if let Some(why) = &object.metadata().unreadable {
            tracing::error!(?kind, %key, %why, "a storage object has fields that omega-kube does \
                 not understand: it is ignored");
            self.remove(kind, &key);
            return;
        }
        self.known.insert((kind, key.clone()));
        match object {
            Stored::Claim(claim) => {
                self.list.mirror_claim(storage::claim(&claim));
                self.claims.insert(key, *claim);
            }
            Stored::Volume(volume) => {
                self.list.mirror_volume(storage::volume(&volume));
                self.volumes.insert(key, *volume);
            }
            Stored::Class(class) => {
                self.list.put_class(storage::class(&class, self.nodes.values()));
                self.classes.insert(key, *class);
            }
            Stored::CsiNode(node) => self.put_node(key, *node),
            Stored::Driver(driver) => {
                let measured =
                    if driver.spec.storage_capacity { Measured::Yes } else { Measured::No };
                self.list.mirror_measured(&driver.metadata.name, measured);
            }
            Stored::Capacity(capacity) => {
                self.list.mirror_space(key, storage::space(&capacity));
            }
            Stored::Attachment(attachment) => {
                self.list.mirror_attachment(key, storage::attached(&attachment));
            }
        }
    }

    /// Records the volume limits of the drivers on a node, and the drivers' topology for their storage classes.
    fn put_node(&mut self, name: Text, node: CsiNode) {
        self.drop_limits(&name);
        for (driver, limit) in storage::limits(&node) {
            self.list.set_limit(name.clone(), driver, Some(limit));
        }
        let news = node.spec.drivers.iter().map(|driver| driver.name.clone());
        let news: BTreeSet<String> = news.collect();
        self.nodes.insert(name, node);
        for class in self.classes.values().filter(|class| news.contains(&class.provisioner)) {
            let class = storage::class(class, self.nodes.values());
            self.list.put_class(class);
        }
    }

    fn drop_limits(&mut self, name: &Text) {
        let old = self.nodes.remove(name);
        for (driver, _) in old.iter().flat_map(storage::limits) {
            self.list.set_limit(name.clone(), driver, None);
        }
    }

    fn remove(&mut self, kind: StoredKind, key: &Text) {
        if !self.known.remove(&(kind, key.clone())) {
            return;
        }
        match kind {
            StoredKind::Claim => {
                self.claims.remove(key);
                self.list.mirror_claim_gone(key);
            }
            StoredKind::Volume => {
                self.volumes.remove(key);
                self.list.mirror_volume_gone(key);
            }
            StoredKind::Class => {
                self.classes.remove(key);
                self.list.mirror_class_gone(key);
            }
            StoredKind::CsiNode => self.drop_limits(key),
            StoredKind::Driver => self.list.mirror_measured(key, Measured::No),
            StoredKind::Capacity => self.list.mirror_space(key.clone(), None),
            StoredKind::Attachment => self.list.mirror_attachment(key.clone(), None),
        }
    }
}

impl Adapter {
    /// Returns the list of volumes that workers read, and in which they make reservations.
    #[must_use]
    pub fn volumes(&self) -> &Volumes {
        &self.storage.list
    }

    /// Handles a list of all storage objects of a kind.
    pub fn storage_listed(&mut self, kind: StoredKind, all: Vec<Stored>) {
        let listed: BTreeSet<Text> = all.iter().map(Stored::key).collect();
        let of_kind = self.storage.known.iter().filter(|(known, _)| *known == kind);
        let gone = of_kind.filter(|(_, key)| !listed.contains(key)).map(|(_, key)| key.clone());
        let gone: Vec<Text> = gone.collect();
        gone.iter().for_each(|key| self.storage.remove(kind, key));
        all.into_iter().for_each(|object| self.storage.put(object));
        let was_listed = self.storage.is_listed();
        self.storage.listed.insert(kind);
        if !was_listed && self.storage.is_listed() {
            self.settle_claiming();
        }
        let waiting: Vec<Text> = self.storage.waiting.keys().cloned().collect();
        waiting.iter().for_each(|claim| self.claim_changed(claim));
        if kind == StoredKind::Claim {
            listed.iter().chain(&gone).for_each(|claim| self.settle_user(claim));
            self.settle_groups();
        }
    }

    /// Handles a storage object that is new or has changed.
    pub fn storage_changed(&mut self, object: Stored) {
        let (kind, key) = (object.kind(), object.key());
        self.storage.put(object);
        if kind == StoredKind::Claim {
            self.claim_changed(&key);
            self.settle_user(&key);
        }
    }

    /// Handles the deletion of a storage object.
    pub fn storage_deleted(&mut self, object: &Stored) {
        let (kind, key) = (object.kind(), object.key());
        self.storage.remove(kind, &key);
        if kind == StoredKind::Claim {
            self.claim_changed(&key);
            self.settle_user(&key);
        }
    }

    /// Settles the unbound pod for whose ephemeral volume a claim is, if there is one. The claim is named after the pod
    /// and the volume, with a dash in between.
    fn settle_user(&mut self, claim: &Text) {
        let Some((namespace, name)) = claim.split_once('/') else { return };
        let of = |(at, _)| PodName { namespace: namespace.to_owned(), name: name[..at].to_owned() };
        let uses = |user: &PodName| {
            self.pods.get(user).is_some_and(|entry| {
                matches!(entry.state, State::Held(_) | State::Pending)
                    && Converter::ephemeral_claims(&entry.pod).contains(claim)
            })
        };
        let users: Vec<PodName> = name.match_indices('-').map(of).filter(uses).collect();
        users.iter().for_each(|user| self.settle(user));
    }

    /// Returns the reason why a pod must not use the claim of one of its ephemeral volumes: somebody else made a claim
    /// of this name. The words are those of kube-scheduler.
    pub(super) fn foreign_claim(&self, pod: &Pod) -> Option<String> {
        let is_foreign = |claim: &Text| {
            self.storage.claims.get(claim).is_some_and(|object| !Converter::owns(pod, object))
        };
        let claim = Converter::ephemeral_claims(pod).into_iter().find(is_foreign)?;
        let pod = PodName::of(pod);
        Some(format!("PVC {claim} was not created for pod {pod} (pod is not owner)"))
    }

    /// Queues the unbound pods with claims. They were held until the storage objects were listed.
    fn settle_claiming(&mut self) {
        let held = self.pods.iter().filter(|(_, entry)| {
            matches!(entry.state, State::Held(_)) && !Converter::claims(&entry.pod).is_empty()
        });
        let held: Vec<PodName> = held.map(|(name, _)| name.clone()).collect();
        held.iter().for_each(|name| self.settle(name));
        self.settle_groups();
    }

    /// Returns the reason why a pod with claims is not scheduled yet; `None` if there is no such reason.
    pub(super) fn storage_obstacle(&self, pod: &Pod) -> Option<String> {
        let waits = !self.storage.is_listed() && !Converter::claims(pod).is_empty();
        waits.then(|| {
            "the pod's volumes are not known yet: omega-kube has not read the lists of storage \
             objects"
                .into()
        })
    }

    /// Reserves the volumes of a pod's claims on a machine, as workers do. Returns whether all claims got a volume.
    pub(super) fn reserve(&self, name: &PodName, task: TaskId, machine: MachineId) -> bool {
        let Some(entry) = self.pods.get(name) else { return false };
        let claims = Converter::claims(&entry.pod);
        if claims.is_empty() {
            return true;
        }
        let machine = self.cell.read(|cell| cell.machine(machine).map(|it| it.machine.clone()));
        let Some(machine) = machine else { return false };
        match self.storage.list.reserve(task, &claims, &machine) {
            Ok(()) => true,
            Err(why) => {
                tracing::info!(pod = %name, %why, "the volumes of a nominated pod are elsewhere by now");
                false
            }
        }
    }

    /// Records that a bound pod's job uses its claims on a node, so that other jobs with these claims are checked
    /// against this use. Workers record this for their own jobs.
    pub(super) fn note_use(&self, task: TaskId, job: &Job, node: &str) {
        let claims = job.groups.first().map(|group| group.volumes.as_slice()).unwrap_or_default();
        if !claims.is_empty() && *job.scheduler == *PLACED {
            self.storage.list.runs(task, claims, &node.into());
        }
    }
}
