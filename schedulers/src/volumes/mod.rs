//! Volumes: storage of tasks, and the machines that can reach it.
//!
//! Volumes are not part of the cell, and no scheduler creates or attaches them: a storage controller does, as in
//! Kubernetes. A [`Volumes`] is the list of volumes that all schedulers of a process share. The list checks the use of
//! volumes as the cell checks the use of machines: a scheduler reads the list, chooses a machine, and *reserves*
//! volumes. If two schedulers choose the same volume, only one of the reservations succeeds.
//!
//! ```text
//!   class  ── early or late, makes volumes or not ──┐
//!   volume ── class, bytes, modes, reach, driver    ├─▶ obstacle: may a task with these claims
//!   claim  ── class, bytes, modes ──▶ its volume    │   run on this machine?
//!   limit  ── machine, driver, how many             ┘
//!
//!   reserve ─▶ bind ─▶ runs ─▶ left          a task's use of its claims
//!      └─────────┴───▶ unreserve
//! ```
//!
//! A claim of a late-binding class gets its volume when a task that uses the claim reserves it. This is the smallest
//! sufficient free volume that the machine can reach, or a new volume. `bind` makes the choice final; until then,
//! `unreserve` makes the volume free again.
//!
//! The volumes of a Kubernetes cluster are bound by the cluster's controllers. [`Volumes::mirror`] returns a list that
//! follows the reports of these controllers.
//!
//! In reading order: `objects`, `free`, `mirrored`, `catalog`, `check`, `uses`, `mirror`, this file.

mod catalog;
mod check;
mod free;
mod mirror;
mod mirrored;
mod objects;
mod uses;

pub use catalog::VolumeError;
pub use check::{Aspect, VolumeObstacle, VolumeReason};
pub use mirror::{Attached, Measured, SelectedClaim};
pub use mirrored::Space;
pub use objects::{
    AccessModes, BindingTime, Provisioning, Reach, StorageClass, Volume, VolumeClaim, VolumeMode,
};

use crate::framework::events::Events;
use crate::framework::waiting::Waiting;
use catalog::Catalog;
use omega_core::{Machine, TaskId, Text};
use parking_lot::RwLock;
use std::sync::Arc;

/// The list of volumes of a process. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    /// The list. A lock is held for one query or one change only. Listeners are notified while the lock is held, so it
    /// is taken before the lock of a [`Waiting`].
    catalog: Arc<RwLock<Catalog>>,
}

/// Present state of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimState {
    /// The claim as requested; `None` if the claim does not exist, but tasks use it.
    pub claim: Option<VolumeClaim>,
    /// Volume that the claim has.
    pub volume: Option<Text>,
    /// Whether the claim keeps its volume when no task uses the claim.
    pub is_final: bool,
    /// The tasks that use the claim, ascending.
    pub users: Vec<TaskId>,
}

impl Volumes {
    // --- Volumes and claims ----------------------------------------------------------------------

    /// Adds a class, or replaces the class with the same name.
    pub fn put_class(&self, class: StorageClass) {
        self.change(|catalog| catalog.put_class(class));
    }

    /// Adds a volume, or replaces the volume with the same name. A replaced volume stays with its claim.
    ///
    /// # Errors
    /// If a claim has the volume, but the new description reserves it for another claim.
    pub fn put_volume(&self, volume: Volume) -> Result<(), VolumeError> {
        self.try_change(|catalog| catalog.put_volume(volume))
    }

    /// Removes a volume.
    ///
    /// # Errors
    /// If there is no volume of this name, or a claim has it.
    pub fn remove_volume(&self, name: &str) -> Result<(), VolumeError> {
        self.try_change(|catalog| catalog.remove_volume(name))
    }

    /// Adds a claim, or replaces the claim with the same name. A replaced claim keeps its volume.
    ///
    /// # Errors
    /// If another claim has the volume that the claim names, or if the claim already has a different volume.
    pub fn put_claim(&self, claim: VolumeClaim) -> Result<(), VolumeError> {
        self.try_change(|catalog| catalog.put_claim(claim))
    }

    /// Removes a claim. Its volume is free again, or is removed if it was provisioned for the claim.
    ///
    /// # Errors
    /// If there is no claim of this name, or tasks use it.
    pub fn remove_claim(&self, name: &str) -> Result<(), VolumeError> {
        self.try_change(|catalog| catalog.remove_claim(name))
    }

    /// Sets the maximum number of a driver's volumes that can be attached to the machine of this name; `None` means no
    /// limit.
    pub fn set_limit(&self, machine: impl Into<Text>, driver: impl Into<Text>, limit: Option<u32>) {
        let (machine, driver) = (machine.into(), driver.into());
        self.change(|catalog| catalog.set_limit(machine, driver, limit));
    }

    /// The present state of a claim, by its name; `None` if the claim neither exists nor is used.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<ClaimState> {
        self.catalog.read().claim_state(name)
    }

    /// A volume, by its name. Its field `claim` is the claim that has the volume.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<Volume> {
        self.catalog.read().volume(name)
    }

    /// The names of the volumes that are attached to the machine of this name, ascending.
    #[must_use]
    pub fn attached(&self, machine: &str) -> Vec<Text> {
        self.catalog.read().attached(machine)
    }

    /// Registers a scheduler, by its handle, for notifications of changes that may help a job:
    /// [`Events::VOLUMES_CHANGED`].
    pub fn add_listener(&self, waiting: &Waiting) {
        self.catalog.write().listeners.push(waiting.clone());
    }

    // --- Queries of filters ----------------------------------------------------------------------

    /// First obstacle that keeps a task with these claims off a machine, if there is one.
    #[must_use]
    pub fn obstacle(&self, claims: &[Text], machine: &Machine) -> Option<VolumeObstacle> {
        let catalog = self.catalog.read();
        let use_of = catalog.resolve(claims, None);
        Aspect::ALL.into_iter().find_map(|aspect| use_of.check(aspect, machine).err())
    }

    /// First obstacle of one aspect that keeps a task with these claims off a machine, if there is one.
    #[must_use]
    pub fn obstacle_of(
        &self,
        claims: &[Text],
        aspect: Aspect,
        machine: &Machine,
    ) -> Option<VolumeObstacle> {
        self.catalog.read().resolve(claims, None).check(aspect, machine).err()
    }

    /// An obstacle that keeps a task with these claims off every machine, if there is one.
    #[must_use]
    pub fn obstacle_everywhere(&self, claims: &[Text]) -> Option<VolumeObstacle> {
        self.catalog.read().resolve(claims, None).obstacle_everywhere()
    }

    /// Returns the bits of `among` whose machines pass the check of one aspect for a task with these claims.
    pub(crate) fn allows<'a>(
        &self,
        claims: &[Text],
        aspect: Aspect,
        among: u64,
        machine: impl Fn(usize) -> Option<&'a Machine>,
    ) -> u64 {
        let catalog = self.catalog.read();
        let use_of = catalog.resolve(claims, None);
        let allowed = |lane: &usize| {
            machine(*lane).is_some_and(|machine| use_of.check(aspect, machine).is_ok())
        };
        crate::framework::plugin::lanes(among)
            .filter(allowed)
            .fold(0, |word, lane| word | 1 << lane)
    }

    // --- Use of claims by tasks ------------------------------------------------------------------

    /// Reserves the claims of a task on a machine, and chooses a volume for each unbound claim.
    ///
    /// All aspects are checked again. Either all claims are reserved, or none.
    ///
    /// # Errors
    /// The first obstacle that keeps the task off the machine.
    pub fn reserve(
        &self,
        task: TaskId,
        claims: &[Text],
        machine: &Machine,
    ) -> Result<(), VolumeObstacle> {
        self.catalog.write().reserve(task, claims, machine)
    }

    /// Makes the volumes of a reserved task's claims final, so that the claims keep them.
    pub fn bind(&self, task: TaskId) {
        self.catalog.write().bind(task);
    }

    /// Releases the reservation of a task that will not run. A volume becomes free again, unless its claim is final or
    /// used by another task.
    pub fn unreserve(&self, task: TaskId) {
        self.change_if(|catalog| catalog.unreserve(task));
    }

    /// Records that a task with these claims runs on the machine of this name.
    pub fn runs(&self, task: TaskId, claims: &[Text], machine: &Text) {
        self.change_if(|catalog| catalog.runs(task, claims, machine));
    }

    /// Records that a task no longer runs. If the task has reserved claims since it ran, the reservation is not
    /// affected.
    pub fn left(&self, task: TaskId) {
        self.change_if(|catalog| catalog.left(task));
    }

    // --- Listeners -------------------------------------------------------------------------------

    fn change(&self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = self.catalog.write();
        change(&mut catalog);
        catalog.raise();
    }

    fn try_change(
        &self,
        change: impl FnOnce(&mut Catalog) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let mut catalog = self.catalog.write();
        change(&mut catalog)?;
        catalog.raise();
        Ok(())
    }

    /// Notifies the listeners if the change may help a job.
    fn change_if(&self, change: impl FnOnce(&mut Catalog) -> bool) {
        let mut catalog = self.catalog.write();
        if change(&mut catalog) {
            catalog.raise();
        }
    }
}

impl Catalog {
    /// Notifies the schedulers that still exist.
    fn raise(&mut self) {
        self.listeners.retain(|listener| !listener.is_alone());
        self.listeners.iter().for_each(|listener| listener.raise(Events::VOLUMES_CHANGED));
    }
}
