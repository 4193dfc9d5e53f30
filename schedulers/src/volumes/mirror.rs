//! A list that mirrors volumes of another system, such as a Kubernetes cluster. External controllers bind, provision
//! and attach these volumes.
//!
//! A report of a controller overrides any choice of this list, so no report is an error. A reservation is only a
//! choice: the claim keeps the chosen volume until a controller reports another volume, or until the task with the
//! reservation is gone.
//!
//! | reported | rule |
//! |---|---|
//! | a claim whose volume is provisioned for a machine | the claim can get a volume on this machine only, and the volume is a new one |
//! | free space of a driver | volumes are provisioned only where there is enough space; without such reports, everywhere |
//! | an attachment | its volume counts as attached to the machine, even if no task uses it |
//! | a claim for one machine | tasks on other machines may use it too: the controller attaches the volume when it can |

use super::Volumes;
use super::catalog::{Catalog, Held};
use super::mirrored::Space;
use super::objects::{StorageClass, Volume, VolumeClaim};
use omega_core::{Machine, Text};

/// A claim as a controller reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedClaim {
    /// The claim; its `volume` is the one that a controller bound to it, if any.
    pub claim: VolumeClaim,
    /// The machine for which a controller provisions the claim's volume, if any.
    pub selected: Option<Text>,
}

impl Volumes {
    /// Returns an empty list that mirrors the volumes of another system, whose controllers bind and attach them.
    #[must_use]
    pub fn mirror() -> Volumes {
        let volumes = Volumes::default();
        volumes.catalog.write().mirrored = Some(Box::default());
        volumes
    }

    /// Records a reported volume.
    pub fn mirror_volume(&self, volume: Volume) {
        self.change(|catalog| catalog.mirror_volume(volume));
    }

    /// Records the removal of a volume.
    pub fn mirror_volume_gone(&self, name: &str) {
        self.change(|catalog| {
            if let Some(of) = catalog.whose.get(name).cloned()
                && !catalog.names(&of, name)
            {
                catalog.set_volume(&of, None);
            }
            catalog.forget_volume(name);
        });
    }

    /// Records a reported claim.
    pub fn mirror_claim(&self, claim: SelectedClaim) {
        self.change(|catalog| catalog.mirror_claim(claim));
    }

    /// Records the removal of a claim. Tasks that use the claim still count as its users.
    pub fn mirror_claim_gone(&self, name: &str) {
        self.change(|catalog| {
            catalog.select(name, None);
            catalog.set_volume(name, None);
            if let Some(claim) = catalog.claims.get_mut(name) {
                claim.spec = None;
                if claim.users.is_empty() {
                    catalog.claims.remove(name);
                }
            }
        });
    }

    /// Records the removal of a class.
    pub fn mirror_class_gone(&self, name: &str) {
        self.change(|catalog| drop(catalog.classes.remove(name)));
    }

    /// Records whether a driver reports its free space.
    pub fn mirror_measured(&self, driver: &str, measured: Measured) {
        self.change(|catalog| {
            let Some(mirrored) = &mut catalog.mirrored else { return };
            match measured {
                Measured::Yes => mirrored.measured.insert(driver.into()),
                Measured::No => mirrored.measured.remove(driver),
            };
        });
    }

    /// Records a report of free space, by the name of the report; `None` means that the report was removed.
    pub fn mirror_space(&self, name: impl Into<Text>, space: Option<Space>) {
        let name = name.into();
        self.change(|catalog| {
            if let Some(mirrored) = &mut catalog.mirrored {
                mirrored.set_space(name, space);
            }
        });
    }

    /// Records that a volume is attached to a machine, by the name of the attachment; `None` means that the attachment
    /// was removed.
    pub fn mirror_attachment(&self, name: impl Into<Text>, of: Option<Attached>) {
        let name = name.into();
        self.change(|catalog| {
            let Some(mirrored) = &mut catalog.mirrored else { return };
            let new = of.map(|of| (of.machine, of.volume));
            let old = match &new {
                Some(new) => mirrored.attachments.insert(name, new.clone()),
                None => mirrored.attachments.remove(&name),
            };
            if let Some((machine, volume)) = new {
                catalog.attach(&machine, &volume, 1);
            }
            if let Some((machine, volume)) = old {
                catalog.attach(&machine, &volume, -1);
            }
        });
    }
}

/// Whether a driver reports its free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The driver reports its free space: volumes are provisioned only where enough space is free.
    Yes,
    /// The driver does not report its free space: every machine counts as having enough free space.
    No,
}

/// A volume that is attached to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Name of the machine.
    pub machine: Text,
    /// Name of the volume.
    pub volume: Text,
}

impl Catalog {
    /// Returns the machine for which a controller provisions the volume of a claim, if any.
    pub(super) fn selected(&self, claim: &str) -> Option<&Text> {
        self.mirrored.as_ref()?.selected.get(claim)
    }

    fn select(&mut self, claim: &str, machine: Option<Text>) {
        let Some(mirrored) = &mut self.mirrored else { return };
        match machine {
            Some(machine) => mirrored.selected.insert(claim.into(), machine),
            None => mirrored.selected.remove(claim),
        };
    }

    /// Whether the class's driver has space for a volume of the claim that could be reached from the machine.
    pub(super) fn has_space(
        &self,
        claim: &VolumeClaim,
        class: &StorageClass,
        machine: &Machine,
    ) -> bool {
        let Some(mirrored) = &self.mirrored else { return true };
        if !mirrored.measured.contains(&class.driver) {
            return true;
        }
        let reaches = |name: &Text| {
            mirrored.spaces.get(name).is_some_and(|space| space.reach.includes(machine))
        };
        let of_class = mirrored.of_class.get(&class.name);
        of_class.is_some_and(|of_class| of_class.smallest(claim, machine, reaches).is_some())
    }

    fn mirror_volume(&mut self, volume: Volume) {
        let (name, claim) = (volume.name.clone(), volume.claim.clone());
        if let Some(of) = self.whose.get(&name).filter(|of| Some(*of) != claim.as_ref()).cloned() {
            if self.names(&of, &name) {
                // The claim names the volume, but the volume names no claim or another claim. So the volume is
                // recorded, but is not free.
                self.forget_volume(&name);
                self.volumes.insert(name, Held { volume, made: false });
                return;
            }
            // The claim keeps a volume that this list has chosen for it, until another claim has the volume.
            if claim.is_some() || self.claims.get(&of).is_some_and(|claim| claim.is_final) {
                self.set_volume(&of, None);
            }
        }
        if let Some(claim) = &claim {
            let known = self.claims.get(claim);
            let other = known.is_some_and(|known| {
                !known.is_final && known.volume.as_ref().is_some_and(|volume| *volume != name)
            });
            if other {
                self.set_volume(claim, None);
            }
        }
        // At this point no other claim has the volume, so the call cannot fail.
        let _ = self.put_volume(volume);
    }

    /// Whether the controllers' report of the claim names this volume.
    fn names(&self, claim: &str, volume: &str) -> bool {
        let spec = self.claims.get(claim).and_then(|claim| claim.spec.as_ref());
        spec.is_some_and(|spec| spec.volume.as_deref() == Some(volume))
    }

    fn mirror_claim(&mut self, SelectedClaim { claim, selected }: SelectedClaim) {
        let (name, wanted) = (claim.name.clone(), claim.volume.clone());
        self.select(&name, selected);
        let known = self.claims.entry(name.clone()).or_default();
        known.spec = Some(claim);
        if let Some(volume) = wanted {
            if let Some(other) = self.whose.get(&volume).filter(|other| **other != name).cloned() {
                self.set_volume(&other, None);
            }
            self.set_volume(&name, Some(volume));
            self.make_final(&name);
            return;
        }
        known.is_final = false;
        if known.users.is_empty() {
            self.set_volume(&name, None);
        }
        self.take_kept(&name);
    }
}
