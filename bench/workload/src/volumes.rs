//! Volumes of a workload at the start.

use omega_core::Text;
use omega_schedulers::Volumes;
use omega_schedulers::volumes::{StorageClass, Volume, VolumeClaim, VolumeError};

/// Volumes at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumesAtStart {
    /// The classes.
    pub classes: Vec<StorageClass>,
    /// The volumes.
    pub volumes: Vec<Volume>,
    /// The claims.
    pub claims: Vec<VolumeClaim>,
    /// Number of volumes of a driver that can be attached to a machine: its name, the driver, how many.
    pub limits: Vec<(Text, Text, u32)>,
}

impl VolumesAtStart {
    /// A new list of the volumes, and inconsistencies.
    #[must_use]
    pub fn list(&self) -> (Volumes, Vec<VolumeError>) {
        let list = Volumes::default();
        self.classes.iter().for_each(|class| list.put_class(class.clone()));
        for (machine, driver, limit) in &self.limits {
            list.set_limit(machine.clone(), driver.clone(), Some(*limit));
        }
        let volumes = self.volumes.iter().map(|volume| list.put_volume(volume.clone()));
        let claims = self.claims.iter().map(|claim| list.put_claim(claim.clone()));
        let faults = volumes.chain(claims).filter_map(Result::err).collect();
        (list, faults)
    }
}
