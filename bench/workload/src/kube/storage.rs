//! Conversion of single storage objects, for a cluster that is watched rather than read from a file.
//!
//! Claims are named with their namespace, like `shop/data`. A claim that names no class gets no default class here,
//! because the API server of a live cluster has already written the default class into the claim.

use super::api::{
    CsiNode, CsiStorageCapacity, LabelSelector, PersistentVolume, PersistentVolumeClaim,
    StorageClass as Class, VolumeAttachment,
};
use super::{selector, volumes};
use omega_core::{MachineSelector, Text};
use omega_schedulers::volumes::{Attached, Reach, SelectedClaim, Space, StorageClass, Volume};

/// Annotation with the node for which a claim's volume is to be created.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Annotation of a binding that was made by a controller or a scheduler, not by a user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Whether the controller has bound a claim to a volume.
#[must_use]
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    !claim.spec.volume.is_empty() && claim.metadata.annotations.bind_completed.is_some()
}

/// Converts a claim.
#[must_use]
pub fn claim(object: &PersistentVolumeClaim) -> SelectedClaim {
    let selected = object.metadata.annotations.selected_node.as_deref();
    let selected = selected.filter(|node| !node.is_empty()).map(Text::from);
    SelectedClaim { claim: volumes::claim(object, ""), selected }
}

/// Converts a volume. If the volume is being deleted, or its last claim is gone, it is only usable by a claim that
/// names it.
#[must_use]
pub fn volume(object: &PersistentVolume) -> Volume {
    let volume = volumes::volume(object);
    let phase = object.status.phase.as_str();
    if object.metadata.deleted.is_none() && !matches!(phase, "Failed" | "Released") {
        return volume;
    }
    // The name has a space, so no claim has this name.
    Volume { claim: Some("of no claim".into()), ..volume }
}

/// Converts a class; the topology of its driver is taken from `nodes`.
pub fn class<'a>(object: &Class, nodes: impl IntoIterator<Item = &'a CsiNode>) -> StorageClass {
    volumes::storage_class(object, nodes)
}

/// Returns the largest number of volumes that can be attached to a node, by driver.
pub fn limits(node: &CsiNode) -> impl Iterator<Item = (Text, u32)> + '_ {
    volumes::limits(node).map(|(_, driver, limit)| (driver, limit))
}

/// Converts the free capacity of a driver; `None` if there is none, or no node can use it.
#[must_use]
pub fn space(object: &CsiStorageCapacity) -> Option<Space> {
    let size = object.volume_size_max.as_ref().or(object.capacity.as_ref())?;
    let bytes = size.value().clamp(0, i128::from(u64::MAX)) as u64;
    let LabelSelector { labels, expressions } = object.topology.as_ref()?;
    let reach = if labels.is_empty() && expressions.is_empty() {
        Reach::Everywhere
    } else {
        let labels = selector::labels(object.topology.as_ref()?).requirements;
        Reach::Matching(vec![MachineSelector { labels, names: Vec::new() }])
    };
    Some(Space { class: object.class.as_str().into(), bytes, reach })
}

/// Converts an attachment; `None` if it is for a volume that is defined in a pod.
#[must_use]
pub fn attached(object: &VolumeAttachment) -> Option<Attached> {
    let volume = &object.spec.source.volume;
    let of =
        || Attached { machine: object.spec.node.as_str().into(), volume: volume.as_str().into() };
    (!volume.is_empty()).then(of)
}
