//! Objects in the list of volumes: volumes, claims, classes.

use omega_core::{LabelSelector, Labels, Machine, MachineSelector, Text};
use std::ops::BitOr;

/// Machines that can reach a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All machines.
    #[default]
    Everywhere,
    /// Machines that match one of these selectors.
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
    /// Tasks on one machine read and write. (Kubernetes' `ReadWriteOnce`.)
    pub const ONE_MACHINE: AccessModes = AccessModes(1);
    /// Tasks on many machines read. (`ReadOnlyMany`.)
    pub const MANY_READERS: AccessModes = AccessModes(2);
    /// Tasks on many machines read and write. (`ReadWriteMany`.)
    pub const MANY_WRITERS: AccessModes = AccessModes(4);
    /// One task reads and writes. (`ReadWriteOncePod`.)
    pub const ONE_TASK: AccessModes = AccessModes(8);

    /// Whether the set includes all of `other`.
    #[must_use]
    pub fn includes(self, other: AccessModes) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a claim with these modes may be used by only one task at a time.
    pub(super) fn is_for_one_task(self) -> bool {
        self.includes(AccessModes::ONE_TASK)
    }

    /// Whether a claim with these modes may be used on only one machine at a time.
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

/// Time at which the claims of a class are bound to volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingTime {
    /// When the claim is added. The volume controller binds it, so no scheduler chooses the volume.
    Early,
    /// When a task that uses the claim is placed. (Kubernetes' `WaitForFirstConsumer`.)
    Late,
}

/// Rules by which a class provisions volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// Machines for which the class provisions volumes.
    pub within: Reach,
    /// Keys of labels. A volume provisioned for a machine can be reached from all machines with the same values of
    /// these labels. Without keys, the volume can be reached from all machines in `within`.
    pub by: Vec<Text>,
}

impl Provisioning {
    /// Returns the machines that can reach a volume provisioned for this machine.
    pub(super) fn reach_from(&self, machine: &Machine) -> Reach {
        let value = |key: &Text| Some((key.clone(), machine.labels.get(key)?.clone()));
        let labels: Vec<_> = self.by.iter().filter_map(value).collect();
        let equals = |(key, value): (Text, Text)| omega_core::Requirement::equals(key, value);
        if labels.is_empty() {
            self.within.clone()
        } else {
            Reach::Matching(vec![MachineSelector {
                labels: labels.into_iter().map(equals).collect(),
                names: Vec::new(),
            }])
        }
    }
}

/// Common properties of a class of volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// Name of the class.
    pub name: Text,
    /// Driver of the volumes that the class provisions.
    pub driver: Text,
    /// Binding time of claims.
    pub binding: BindingTime,
    /// Volumes that the class provisions; `None` if it provisions none.
    pub provisions: Option<Provisioning>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Name of the volume.
    pub name: Text,
    /// Labels of the volume, by which claims may select it.
    pub labels: Labels,
    /// Class of the volume; empty if it has none.
    pub class: Text,
    /// Driver that attaches the volume to machines.
    pub driver: Text,
    /// Size in bytes.
    pub bytes: u64,
    /// Access modes that the volume supports.
    pub modes: AccessModes,
    /// Content: a file system or a block device.
    pub mode: VolumeMode,
    /// Machines that can reach the volume.
    pub reach: Reach,
    /// The claim for which the volume is reserved, if any; no other claim may use the volume. A claim for which several
    /// volumes are reserved may use any suitable one of them.
    pub claim: Option<Text>,
}

/// A claim to a volume, which tasks refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaim {
    /// Name of the claim.
    pub name: Text,
    /// Class of the claimed volume.
    pub class: Text,
    /// Minimum size of the volume in bytes.
    pub bytes: u64,
    /// Access modes that the claim requests.
    pub modes: AccessModes,
    /// Required content: a file system or a block device.
    pub mode: VolumeMode,
    /// Labels that the volume must have, unless it is provisioned or reserved for the claim.
    pub selector: LabelSelector,
    /// Volume to which the claim is bound, if any.
    pub volume: Option<Text>,
    /// Whether the claim is being deleted. Tasks that already use the claim may do so to their end, but no other task
    /// may begin to use it.
    pub is_ending: bool,
}
