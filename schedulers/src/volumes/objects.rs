//! Objects of the list of volumes.

use omega_core::{LabelSelector, Labels, Machine, MachineSelector, Text};
use std::ops::BitOr;

/// Machines from which something is reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All machines.
    #[default]
    Everywhere,
    /// Machines that match one of these.
    Matching(Vec<MachineSelector>),
}

impl Reach {
    /// Whether a machine can reach the volume.
    #[must_use]
    pub fn includes(&self, machine: &Machine) -> bool {
        match self {
            Reach::Everywhere => true,
            Reach::Matching(any) => any.iter().any(|selector| selector.matches(machine)),
        }
    }
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessModes(u8);

impl AccessModes {
    /// Tasks of one machine read and write. (Kubernetes' `ReadWriteOnce`.)
    pub const ONE_MACHINE: AccessModes = AccessModes(1);
    /// Tasks of many machines read. (`ReadOnlyMany`.)
    pub const MANY_READERS: AccessModes = AccessModes(2);
    /// Tasks of many machines read and write. (`ReadWriteMany`.)
    pub const MANY_WRITERS: AccessModes = AccessModes(4);
    /// One task reads and writes. (`ReadWriteOncePod`.)
    pub const ONE_TASK: AccessModes = AccessModes(8);

    /// Whether all of `other` is in it.
    #[must_use]
    pub fn includes(self, other: AccessModes) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a claim with these modes is used by one task at a time.
    pub(super) fn is_for_one_task(self) -> bool {
        self.includes(AccessModes::ONE_TASK)
    }

    /// Whether a claim with these modes is used on one machine at a time.
    pub(super) fn is_for_one_machine(self) -> bool {
        self.0 & (AccessModes::MANY_READERS | AccessModes::MANY_WRITERS).0 == 0
    }
}

impl BitOr for AccessModes {
    type Output = AccessModes;

    fn bitor(self, other: AccessModes) -> AccessModes {
        AccessModes(self.0 | other.0)
    }
}

/// Content of a volume: a file system or a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeMode {
    /// Files.
    #[default]
    Filesystem,
    /// A bare disk.
    Block,
}

/// Time at which a claim of a class is bound to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingTime {
    /// At once, by the volume controller: no scheduler chooses.
    Early,
    /// When a task that uses it is placed. (Kubernetes' `WaitForFirstConsumer`.)
    Late,
}

/// Volumes that a class makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// Machines for whose tasks it provisions volumes.
    pub within: Reach,
    /// Keys of labels. A provisioned volume is reachable from machines whose values equal those of
    /// the machine it was provisioned for. Without keys, the reachability of the class applies.
    pub by: Vec<Text>,
}

impl Provisioning {
    /// Reachability of a volume provisioned for a machine.
    pub(super) fn reach_from(&self, machine: &Machine) -> Reach {
        let value = |key: &Text| Some((key.clone(), machine.labels.get(key)?.clone()));
        let labels: Vec<_> = self.by.iter().filter_map(value).collect();
        let equals = |(key, value): (Text, Text)| omega_core::Requirement::equals(key, value);
        match labels.is_empty() {
            true => self.within.clone(),
            false => Reach::Matching(vec![MachineSelector {
                labels: labels.into_iter().map(equals).collect(),
                names: Vec::new(),
            }]),
        }
    }
}

/// Common properties of volumes of one sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// Its name.
    pub name: Text,
    /// The driver of the volumes that it makes.
    pub driver: Text,
    /// Binding time of claims.
    pub binding: BindingTime,
    /// Volumes that it makes; `None` if it makes none.
    pub provisions: Option<Provisioning>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub name: Text,
    /// Labels by which claims may select it.
    pub labels: Labels,
    /// The class that it is of; empty if it is of none.
    pub class: Text,
    /// Driver that attaches it to machines.
    pub driver: Text,
    /// Size.
    pub bytes: u64,
    /// Access modes that the volume supports.
    pub modes: AccessModes,
    /// Content: a file system or a block device.
    pub mode: VolumeMode,
    /// Reachability.
    pub reach: Reach,
    /// The only claim that may use it, if it is reserved. If several volumes are reserved for one
    /// claim, any suitable one may be used.
    pub claim: Option<Text>,
}

/// A claim to a volume, which tasks refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaim {
    /// Its name.
    pub name: Text,
    /// Class of its volume.
    pub class: Text,
    /// Minimum size.
    pub bytes: u64,
    /// Access modes that the claim requests.
    pub modes: AccessModes,
    /// Required content: a file system or a block device.
    pub mode: VolumeMode,
    /// Labels that its volume must have, unless the volume is provisioned or kept for it.
    pub selector: LabelSelector,
    /// The volume that it has.
    pub volume: Option<Text>,
    /// Whether it is being deleted: tasks that run use it to their end, and no other may.
    pub is_ending: bool,
}
