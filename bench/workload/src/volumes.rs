//! Volumes of a workload at the start.

use omega_core::Text;
use omega_schedulers::Volumes;
use omega_schedulers::volumes::{StorageClass, Volume, VolumeClaim, VolumeError};

/// Volumes at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumesAtStart {
    /// The storage classes.
    pub classes: Vec<StorageClass>,
    /// The volumes of the cluster.
    pub volumes: Vec<Volume>,
    /// The volume claims.
    pub claims: Vec<VolumeClaim>,
    /// Maximum numbers of attached volumes: the machine's name, the driver, and the number.
    pub limits: Vec<(Text, Text, u32)>,
}

impl VolumesAtStart {
    /// Builds the list of volumes. Also returns the inconsistencies that were found.
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
