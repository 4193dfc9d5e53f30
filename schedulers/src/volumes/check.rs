//! The check of a task's volume claims on a machine, used by the filters and by the reservation.
//!
//! The claims are looked up once. After that, the check of each machine only compares labels.

use super::catalog::{Catalog, Claim, Held};
use super::objects::{BindingTime, StorageClass, VolumeClaim};
use omega_core::{Machine, TaskId, Text};
use smallvec::SmallVec;
use std::fmt;

/// An aspect of the check of a task's volumes on a machine. Each aspect has its own filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aspect {
    /// Each claim has a volume that the machine reaches, or can get such a volume.
    Binding,
    /// The machine reaches the volumes of the claims that have one.
    Zone,
    /// The machine stays within each driver's limit of attached volumes.
    Limits,
    /// No other task uses a volume against its access modes.
    Restrictions,
}

impl Aspect {
    /// All aspects, in the order of their checks.
    pub const ALL: [Aspect; 4] =
        [Aspect::Restrictions, Aspect::Limits, Aspect::Binding, Aspect::Zone];
}

/// Reason why a claim excludes a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VolumeReason {
    /// The claim does not exist. Add it.
    UnknownClaim,
    /// The claim is being deleted, so no task may begin to use it.
    IsEnding,
    /// The claim names a class that does not exist.
    UnknownClass,
    /// The claim has no volume, and its class binds early. The volume controller must bind a volume.
    NotBound,
    /// The claim's volume does not exist.
    NoSuchVolume,
    /// The machine cannot reach the claim's volume.
    OutOfReach,
    /// No free volume of the class is suitable, large enough and reachable from the machine, and the class provisions
    /// no volumes for this machine.
    NoVolume,
    /// The claim allows only one task at a time, and another task uses it.
    UsedByTask,
    /// The claim allows only one machine at a time, and a task on another machine uses it.
    UsedElsewhere,
    /// The machine has the maximum number of volumes of the driver.
    TooMany,
    /// The claim's volume is being provisioned for another machine.
    SelectedElsewhere,
    /// The driver has no space for a volume of this size that could be reached from the machine.
    NoSpace,
}

impl fmt::Display for VolumeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VolumeReason::UnknownClaim => "is not known",
            VolumeReason::IsEnding => "is being deleted",
            VolumeReason::UnknownClass => "has an unknown storage class",
            VolumeReason::NotBound => {
                "has no volume yet, and its storage class does not wait for \
                 a scheduler's choice"
            }
            VolumeReason::NoSuchVolume => "has an unknown volume",
            VolumeReason::OutOfReach => "has a volume that this machine cannot reach",
            VolumeReason::NoVolume => {
                "has no volume yet, and no suitable one can be reached from \
                 this machine"
            }
            VolumeReason::UsedByTask => "allows a single task, and another one uses it",
            VolumeReason::UsedElsewhere => "allows a single machine, and is used on another one",
            VolumeReason::TooMany => "needs one more volume than can be attached to this machine",
            VolumeReason::SelectedElsewhere => {
                "has a volume that is being created for another \
                 machine"
            }
            VolumeReason::NoSpace => {
                "has no volume yet, and no storage that this machine can \
                 reach has room for it"
            }
        })
    }
}

/// Obstacle that keeps a task off a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the claim {claim:?} {reason}")]
pub struct VolumeObstacle {
    /// The claim that excludes the machine.
    pub claim: Text,
    /// The reason.
    pub reason: VolumeReason,
}

/// Source of the volume for an unbound claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The free volume of this name.
    Free(Text),
    /// A new volume, which the class provisions.
    Made,
}

/// An unbound claim, which gets its volume when the task gets a machine.
struct Late<'a> {
    claim: &'a Text,
    spec: &'a VolumeClaim,
    class: &'a StorageClass,
}

/// The claims of a task, with their volumes and classes looked up.
pub(super) struct Resolved<'a> {
    catalog: &'a Catalog,
    task: Option<TaskId>,
    /// Claims that have a volume, each with its volume.
    bound: SmallVec<[(&'a Text, &'a Claim, &'a Held); 4]>,
    /// Unbound claims, the smallest first, so that a small claim does not take a volume that a
    /// larger one needs.
    late: SmallVec<[Late<'a>; 2]>,
    /// Claims whose volume a controller provisions for a certain machine, each with this machine.
    selected: SmallVec<[(&'a Text, &'a Text); 2]>,
    /// The first claim that no machine can satisfy.
    hopeless: Option<(&'a Text, VolumeReason)>,
}

impl Catalog {
    /// Looks up the claims of a task. Uses of the claims by `task` itself do not count as uses by other tasks.
    pub(super) fn resolve<'a>(&'a self, claims: &'a [Text], task: Option<TaskId>) -> Resolved<'a> {
        let (bound, late, selected, hopeless) = Default::default();
        let mut resolved = Resolved { catalog: self, task, bound, late, selected, hopeless };
        for (i, name) in claims.iter().enumerate() {
            // A claim that the task names twice counts once.
            if !claims[..i].contains(name)
                && let Err(reason) = resolved.add(name)
            {
                resolved.hopeless.get_or_insert((name, reason));
            }
        }
        resolved.late.sort_by_key(|late| (late.spec.bytes, late.claim));
        resolved
    }
}

impl<'a> Resolved<'a> {
    fn add(&mut self, name: &'a Text) -> Result<(), VolumeReason> {
        let catalog = self.catalog;
        let claim = catalog.claims.get(name).ok_or(VolumeReason::UnknownClaim)?;
        let spec = claim.spec.as_ref().ok_or(VolumeReason::UnknownClaim)?;
        if spec.is_ending {
            self.hopeless.get_or_insert((name, VolumeReason::IsEnding));
        }
        if let Some(machine) = catalog.selected(name).filter(|_| !claim.is_final) {
            self.selected.push((name, machine));
        }
        if let Some(volume) = &claim.volume {
            let held = catalog.volumes.get(volume).ok_or(VolumeReason::NoSuchVolume)?;
            self.bound.push((name, claim, held));
            return Ok(());
        }
        let class = catalog.classes.get(&spec.class);
        match class {
            None if spec.class.is_empty() => Err(VolumeReason::NotBound),
            None => Err(VolumeReason::UnknownClass),
            Some(class) if class.binding == BindingTime::Early => Err(VolumeReason::NotBound),
            Some(class) => {
                self.late.push(Late { claim: name, spec, class });
                Ok(())
            }
        }
    }

    /// Checks one aspect of the claims on a machine.
    pub(super) fn check(&self, aspect: Aspect, machine: &Machine) -> Result<(), VolumeObstacle> {
        match aspect {
            Aspect::Binding => self.choices(machine).map(drop),
            Aspect::Zone => self.reaches(machine),
            Aspect::Limits => self.fits(machine),
            Aspect::Restrictions => self.is_free(&machine.name),
        }
    }

    pub(super) fn obstacle_everywhere(&self) -> Option<VolumeObstacle> {
        self.hopeless.map(|(claim, reason)| VolumeObstacle { claim: claim.clone(), reason })
    }

    fn reaches(&self, machine: &Machine) -> Result<(), VolumeObstacle> {
        let mut bound = self.bound.iter();
        let far = bound.find(|(.., held)| !held.volume.reach.includes(machine));
        far.map_or(Ok(()), |(claim, ..)| refuse(claim, VolumeReason::OutOfReach))
    }

    /// Returns the sources from which the unbound claims would get volumes if the task were placed on a machine.
    pub(super) fn choices(
        &self,
        machine: &Machine,
    ) -> Result<SmallVec<[(&'a Text, Choice); 2]>, VolumeObstacle> {
        if let Some((claim, reason)) = self.hopeless {
            return refuse(claim, reason);
        }
        self.reaches(machine)?;
        if let Some((claim, _)) = self.selected.iter().find(|(_, other)| **other != machine.name) {
            return refuse(claim, VolumeReason::SelectedElsewhere);
        }
        let mut choices: SmallVec<[(&Text, Choice); 2]> = SmallVec::new();
        for late in &self.late {
            let taken = |name: &Text| {
                choices.iter().any(|(_, c)| matches!(c, Choice::Free(f) if f == name))
            };
            let is_selected = self.selected.iter().any(|(claim, _)| *claim == late.claim);
            let free = || late.existing(self.catalog, machine, taken);
            let makes = || {
                late.class.provisions.as_ref().is_some_and(|makes| makes.within.includes(machine))
            };
            let choice = match if is_selected { None } else { free() } {
                Some(volume) => Choice::Free(volume.clone()),
                None if !makes() => return refuse(late.claim, VolumeReason::NoVolume),
                None if !self.catalog.has_space(late.spec, late.class, machine) => {
                    return refuse(late.claim, VolumeReason::NoSpace);
                }
                None => Choice::Made,
            };
            choices.push((late.claim, choice));
        }
        Ok(choices)
    }

    /// Checks that all volumes can be attached to a machine. A volume that the machine already has is not counted
    /// again.
    fn fits(&self, machine: &Machine) -> Result<(), VolumeObstacle> {
        let Some(limits) = self.catalog.limits.get(&machine.name) else { return Ok(()) };
        let on = self.catalog.on.get(&machine.name);
        let is_on = |volume: &Text| on.is_some_and(|on| on.contains_key(volume));
        let bound = self.bound.iter().filter(|(.., held)| !is_on(&held.volume.name));
        let bound = bound.map(|(claim, _, held)| (*claim, &held.volume.driver));
        let late = self.late.iter().map(|late| (late.claim, &late.class.driver));
        let mut used: SmallVec<[(&Text, u32); 2]> = SmallVec::new();
        for (claim, driver) in bound.chain(late) {
            let Some(limit) = limits.get(driver) else { continue };
            let at = used.iter().position(|(known, _)| *known == driver).unwrap_or_else(|| {
                used.push((driver, self.catalog.attached_of(machine, driver)));
                used.len() - 1
            });
            used[at].1 += 1;
            if used[at].1 > *limit {
                return refuse(claim, VolumeReason::TooMany);
            }
        }
        Ok(())
    }

    fn is_free(&self, machine: &Text) -> Result<(), VolumeObstacle> {
        for (name, claim, _) in &self.bound {
            let modes = claim.spec.as_ref().map(|spec| spec.modes).unwrap_or_default();
            let others = claim.users.iter().any(|user| Some(*user) != self.task);
            if others && modes.is_for_one_task() {
                return refuse(name, VolumeReason::UsedByTask);
            }
            let elsewhere = claim.machines.keys().any(|used_on| used_on != machine);
            // In a mirror, the task may be placed although another machine uses the volume: the controller that
            // attaches volumes waits until that machine has released it.
            let waits = self.catalog.mirrored.is_some();
            if others && elsewhere && modes.is_for_one_machine() && !waits {
                return refuse(name, VolumeReason::UsedElsewhere);
            }
        }
        Ok(())
    }
}

impl<'a> Late<'a> {
    /// Returns the existing volume that the claim would get on a machine, if any: a volume reserved for the claim, or
    /// else a free volume for which `taken` is false.
    fn existing(
        &self,
        catalog: &'a Catalog,
        machine: &Machine,
        taken: impl Fn(&Text) -> bool,
    ) -> Option<&'a Text> {
        let spec = self.spec;
        let kept = catalog.kept(self.claim);
        if !kept.is_empty() {
            let volumes = kept.iter().filter_map(|name| catalog.volumes.get(name));
            let volumes = volumes.map(|held| &held.volume).filter(|volume| {
                volume.bytes >= spec.bytes
                    && volume.mode == spec.mode
                    && volume.reach.includes(machine)
            });
            return volumes.min_by_key(|volume| volume.bytes).map(|volume| &volume.name);
        }
        let suits = |name: &Text| {
            let volume = catalog.volumes.get(name).map(|held| &held.volume);
            volume.is_some_and(|volume| {
                volume.modes.includes(spec.modes)
                    && volume.mode == spec.mode
                    && spec.selector.matches(&volume.labels)
                    && volume.reach.includes(machine)
            }) && !taken(name)
        };
        catalog.free.get(&spec.class)?.smallest(spec, machine, suits)
    }
}

impl Catalog {
    /// Number of volumes of a driver that a machine has.
    fn attached_of(&self, machine: &Machine, driver: &Text) -> u32 {
        let volumes = self.on.get(&machine.name).into_iter().flat_map(|on| on.keys());
        let is_of = |volume: &&Text| {
            self.volumes.get(*volume).is_some_and(|held| held.volume.driver == *driver)
        };
        volumes.filter(is_of).count() as u32
    }
}

fn refuse<T>(claim: &Text, reason: VolumeReason) -> Result<T, VolumeObstacle> {
    Err(VolumeObstacle { claim: claim.clone(), reason })
}
