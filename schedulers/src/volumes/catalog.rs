//! The list of volumes, claims and classes, and the changes of this list.
//!
//! Invariants: a volume is bound to at most one claim, and a claim to at most one volume. A class's free volumes are
//! its volumes that are neither bound nor reserved. A machine has the volumes of the claims that its tasks use, and
//! of reported attachments ([`mirror`](super::mirror)), each with a use count.

use super::ClaimState;
use super::free::Free;
use super::mirrored::Mirrored;
use super::objects::{BindingTime, StorageClass, Volume, VolumeClaim};
use crate::framework::waiting::Waiting;
use omega_core::{TaskId, Text};
use std::collections::{BTreeMap, BTreeSet};

/// Error in a change of the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The volume belongs to another claim. Release the volume from that claim first, or choose another volume.
    #[error("the volume {volume:?} belongs to another claim, {claim:?}: choose another volume")]
    OfAnotherClaim {
        /// The volume.
        volume: Text,
        /// Claim of the volume.
        claim: Text,
    },
    /// The claim already has a volume, and cannot change to another one. Remove the claim, and add it with the new
    /// volume.
    #[error("the claim {claim:?} already has another volume, {volume:?}: add another claim")]
    HasAnotherVolume {
        /// The claim.
        claim: Text,
        /// Volume that the claim has.
        volume: Text,
    },
    /// Tasks use the claim. Wait until they have ended.
    #[error("the claim {claim:?} is used by {tasks} tasks: remove it when they have ended")]
    InUse {
        /// The claim.
        claim: Text,
        /// Number of tasks that use the claim.
        tasks: usize,
    },
    /// There is no object of this name: it was removed, or never added. Check the name.
    #[error("there is no volume or claim {name:?}: check the name")]
    Unknown {
        /// The unknown name.
        name: Text,
    },
}

/// A volume, and whether it was provisioned.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) volume: Volume,
    /// Whether the volume was provisioned for its claim. If so, it is removed with the claim.
    pub(super) made: bool,
}

/// A claim, its volume and the tasks that use it. If tasks use a claim that does not exist, `spec` is `None`.
#[derive(Debug, Default)]
pub(super) struct Claim {
    pub(super) spec: Option<VolumeClaim>,
    pub(super) volume: Option<Text>,
    /// Whether the claim keeps its volume when no task uses the claim.
    pub(super) is_final: bool,
    pub(super) users: BTreeSet<TaskId>,
    /// Machines of the tasks that use the claim, and the number of these tasks on each machine.
    pub(super) machines: BTreeMap<Text, u32>,
}

/// Stage of a task's use of its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Reserved,
    Runs,
}

/// A task's use of its claims on a machine.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) machine: Text,
    pub(super) claims: Vec<Text>,
    pub(super) stage: Stage,
}

/// The list of volumes, claims and classes.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) classes: BTreeMap<Text, StorageClass>,
    pub(super) volumes: BTreeMap<Text, Held>,
    /// Claim to which each volume is bound. The description of the volume may arrive later.
    pub(super) whose: BTreeMap<Text, Text>,
    /// Volumes reserved for each claim. The claim may be added later.
    kept_for: BTreeMap<Text, BTreeSet<Text>>,
    pub(super) claims: BTreeMap<Text, Claim>,
    /// Free volumes by class.
    pub(super) free: BTreeMap<Text, Free>,
    /// Maximum number of attached volumes, by machine and driver.
    pub(super) limits: BTreeMap<Text, BTreeMap<Text, u32>>,
    /// Attached volumes of each machine, each with the number of tasks and reported attachments that use the volume
    /// on this machine.
    pub(super) on: BTreeMap<Text, BTreeMap<Text, u32>>,
    pub(super) uses: BTreeMap<TaskId, Use>,
    pub(super) listeners: Vec<Waiting>,
    /// State of a mirror; `None` if this list itself binds volumes to claims.
    pub(super) mirrored: Option<Box<Mirrored>>,
}

impl Catalog {
    pub(super) fn put_class(&mut self, class: StorageClass) {
        self.classes.insert(class.name.clone(), class);
    }

    pub(super) fn put_volume(&mut self, volume: Volume) -> Result<(), VolumeError> {
        let name = volume.name.clone();
        if let (Some(of), Some(wanted)) = (self.whose.get(&name), &volume.claim)
            && of != wanted
        {
            return Err(VolumeError::OfAnotherClaim { volume: name, claim: of.clone() });
        }
        self.forget_volume(&name);
        let (made, claim) = (false, volume.claim.clone());
        self.volumes.insert(name.clone(), Held { volume, made });
        self.set_free(&name);
        if let Some(claim) = claim {
            self.kept_for.entry(claim.clone()).or_default().insert(name);
            self.take_kept(&claim);
        }
        Ok(())
    }

    pub(super) fn remove_volume(&mut self, name: &str) -> Result<(), VolumeError> {
        if !self.volumes.contains_key(name) {
            return Err(unknown(name));
        }
        match self.whose.get(name) {
            Some(claim) => {
                Err(VolumeError::OfAnotherClaim { volume: name.into(), claim: claim.clone() })
            }
            None => {
                self.forget_volume(name);
                Ok(())
            }
        }
    }

    /// Removes the description of a volume, but not its binding to a claim.
    pub(super) fn forget_volume(&mut self, name: &str) {
        let Some(held) = self.volumes.remove(name) else { return };
        self.take_from_free(&held.volume);
        if let Some(claim) = &held.volume.claim
            && let Some(kept) = self.kept_for.get_mut(claim)
        {
            kept.remove(name);
            if kept.is_empty() {
                self.kept_for.remove(claim);
            }
        }
    }

    /// The volumes that are reserved for a claim.
    pub(super) fn kept(&self, claim: &str) -> &BTreeSet<Text> {
        static NONE: BTreeSet<Text> = BTreeSet::new();
        self.kept_for.get(claim).unwrap_or(&NONE)
    }

    /// Binds a claim that has no volume to the volume reserved for it. If several volumes are reserved and the class
    /// binds late, the claim stays unbound until a task is placed: the task's machine determines which of these
    /// volumes can be used.
    pub(super) fn take_kept(&mut self, name: &Text) {
        let Some(Claim { spec: Some(spec), volume: None, .. }) = self.claims.get(name) else {
            return;
        };
        let suits = |volume: &&Text| {
            self.volumes.get(*volume).is_some_and(|held| held.volume.mode == spec.mode)
        };
        let mut suitable = self.kept(name).iter().filter(suits);
        let Some(volume) = suitable.next().cloned() else { return };
        let class = self.classes.get(&spec.class);
        let waits = class.is_some_and(|class| class.binding == BindingTime::Late);
        if !waits || suitable.next().is_none() {
            self.set_volume(name, Some(volume));
            self.make_final(name);
        }
    }

    pub(super) fn make_final(&mut self, name: &Text) {
        if let Some(claim) = self.claims.get_mut(name) {
            claim.is_final = claim.volume.is_some();
        }
    }

    pub(super) fn put_claim(&mut self, claim: VolumeClaim) -> Result<(), VolumeError> {
        let (name, wanted) = (claim.name.clone(), claim.volume.clone());
        let known = self.claims.get(&name).and_then(|known| known.volume.clone());
        let owner = wanted.as_ref().and_then(|volume| self.owner(volume));
        let other = owner.filter(|owner| **owner != name).cloned();
        match (known, &wanted, other) {
            (Some(has), Some(wanted), _) if has != *wanted => {
                return Err(VolumeError::HasAnotherVolume { claim: name, volume: has });
            }
            (_, Some(volume), Some(claim)) => {
                return Err(VolumeError::OfAnotherClaim { volume: volume.clone(), claim });
            }
            _ => {}
        }
        self.claims.entry(name.clone()).or_default().spec = Some(claim);
        if let Some(volume) = wanted {
            self.set_volume(&name, Some(volume));
            self.make_final(&name);
        }
        self.take_kept(&name);
        Ok(())
    }

    pub(super) fn remove_claim(&mut self, name: &str) -> Result<(), VolumeError> {
        let claim = self.claims.get(name).filter(|claim| claim.spec.is_some());
        let Some(claim) = claim else { return Err(unknown(name)) };
        if !claim.users.is_empty() {
            return Err(VolumeError::InUse { claim: name.into(), tasks: claim.users.len() });
        }
        self.set_volume(name, None);
        self.claims.remove(name);
        Ok(())
    }

    pub(super) fn set_limit(&mut self, machine: Text, driver: Text, limit: Option<u32>) {
        let limits = self.limits.entry(machine.clone()).or_default();
        match limit {
            Some(limit) => limits.insert(driver, limit),
            None => limits.remove(&driver),
        };
        if limits.is_empty() {
            self.limits.remove(&machine);
        }
    }

    pub(super) fn claim_state(&self, name: &str) -> Option<ClaimState> {
        let claim = self.claims.get(name)?;
        Some(ClaimState {
            claim: claim.spec.clone(),
            volume: claim.volume.clone(),
            is_final: claim.is_final,
            users: claim.users.iter().copied().collect(),
        })
    }

    pub(super) fn volume(&self, name: &str) -> Option<Volume> {
        let held = self.volumes.get(name)?;
        Some(Volume { claim: self.owner(name).cloned(), ..held.volume.clone() })
    }

    pub(super) fn attached(&self, machine: &str) -> Vec<Text> {
        self.on.get(machine).into_iter().flat_map(|volumes| volumes.keys().cloned()).collect()
    }

    /// Binds a claim to a volume in place of its present one, which is released. `None` leaves the claim without a
    /// volume.
    pub(super) fn set_volume(&mut self, name: &str, volume: Option<Text>) {
        let Some(claim) = self.claims.get_mut(name) else { return };
        if claim.volume == volume {
            return;
        }
        let before = std::mem::replace(&mut claim.volume, volume.clone());
        claim.is_final = false;
        let machines: Vec<(Text, u32)> =
            claim.machines.iter().map(|(machine, tasks)| (machine.clone(), *tasks)).collect();
        for (machine, tasks) in machines {
            if let Some(before) = &before {
                self.attach(&machine, before, -(tasks as i32));
            }
            if let Some(volume) = &volume {
                self.attach(&machine, volume, tasks as i32);
            }
        }
        if let Some(before) = before {
            self.give_up(&before);
        }
        if let Some(volume) = volume {
            self.whose.insert(volume.clone(), name.into());
            self.set_free(&volume);
        }
    }

    /// Returns the claim to which a volume is bound, or else the claim for which it is reserved.
    fn owner(&self, volume: &str) -> Option<&Text> {
        let kept = || self.volumes.get(volume)?.volume.claim.as_ref();
        self.whose.get(volume).or_else(kept)
    }

    /// Releases a volume from its claim. A volume that was provisioned is removed.
    fn give_up(&mut self, volume: &Text) {
        self.whose.remove(volume);
        if self.volumes.get(volume).is_some_and(|held| held.made) {
            self.forget_volume(volume)
        } else {
            self.set_free(volume)
        }
    }

    /// Adds a volume to the free volumes of its class, or removes the volume from these if it is bound or reserved.
    fn set_free(&mut self, name: &str) {
        let is_free = self.owner(name).is_none();
        let Some(Held { volume, .. }) = self.volumes.get(name) else { return };
        if is_free {
            let free = self.free.entry(volume.class.clone()).or_default();
            free.insert(&volume.name, volume.bytes, &volume.reach);
        } else if let Some(free) = self.free.get_mut(&volume.class) {
            free.remove(&volume.name, volume.bytes, &volume.reach);
        }
    }

    fn take_from_free(&mut self, volume: &Volume) {
        if let Some(free) = self.free.get_mut(&volume.class) {
            free.remove(&volume.name, volume.bytes, &volume.reach);
        }
    }

    /// Changes the use count of a volume on a machine by `tasks`, which may be negative.
    pub(super) fn attach(&mut self, machine: &Text, volume: &Text, tasks: i32) {
        let on = self.on.entry(machine.clone()).or_default();
        let count = on.entry(volume.clone()).or_default();
        *count = count.checked_add_signed(tasks).expect("what is taken off was counted");
        if *count == 0 {
            on.remove(volume);
        }
        if on.is_empty() {
            self.on.remove(machine);
        }
    }
}

fn unknown(name: &str) -> VolumeError {
    VolumeError::Unknown { name: name.into() }
}
