//! Conversion of persistent volumes, volume claims, storage classes, and nodes' limits of attached volumes.
//!
//! Claims are named with their namespace, as in Kubernetes: `shop/data`. They are converted only if the file contains
//! claims; a file with only nodes and pods does not contain the locations of volumes.

use super::api::{
    AccessMode, BindingMode, CsiNode, Metadata, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeSpec, Pod, PodSpec, Resources, StorageClass as Class, TopologyTerm,
    VolumeMode as Mode,
};
use super::input::Input;
use super::pod::namespace;
use super::selector;
use crate::volumes::VolumesAtStart;
use omega_core::{MachineSelector, Operator, Requirement, Text};
use omega_schedulers::volumes::{
    AccessModes, BindingTime, Provisioning, Reach, StorageClass, Volume, VolumeClaim, VolumeMode,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The provisioner of classes without dynamic provisioning.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Labels that describe the location of a volume, and that nodes also have. If a label was renamed, the second item is
/// its new name, which is used for a node that has only the new label.
const PLACES: [(&str, Option<&str>); 4] = [
    ("topology.kubernetes.io/zone", None),
    ("topology.kubernetes.io/region", None),
    ("failure-domain.beta.kubernetes.io/zone", Some("topology.kubernetes.io/zone")),
    ("failure-domain.beta.kubernetes.io/region", Some("topology.kubernetes.io/region")),
];

/// The volumes of a file.
pub(super) fn volumes(input: &Input) -> VolumesAtStart {
    // If there are several default classes, the newest is used; of equally new ones, the first by name.
    let defaults = input.classes.iter().filter(|class| is_default(class));
    let age = |class: &&Class| {
        let Metadata { created, name, .. } = &class.metadata;
        (Reverse(created.clone()), name.clone())
    };
    let default = defaults.min_by_key(age);
    let default = default.map_or("", |class| class.metadata.name.as_str());
    VolumesAtStart {
        classes: input.classes.iter().map(|class| storage_class(class, &input.csi_nodes)).collect(),
        volumes: usable(input).map(volume).collect(),
        claims: input.claims.iter().map(|object| claim(object, default)).collect(),
        limits: input.csi_nodes.iter().flat_map(limits).collect(),
    }
}

/// The volumes that claims may use. A volume that is being deleted, or not yet cleaned after its last claim, is only
/// usable by a claim that names it.
fn usable(input: &Input) -> impl Iterator<Item = &PersistentVolume> {
    let named: BTreeSet<&str> = input.claims.iter().map(|c| c.spec.volume.as_str()).collect();
    input.volumes.iter().filter(move |volume| {
        let gone = volume.metadata.deleted.is_some()
            || matches!(volume.status.phase.as_str(), "Failed" | "Released");
        !gone || named.contains(volume.metadata.name.as_str())
    })
}

/// Number of volumes whose drivers are built into Kubernetes; the limits of these drivers are not read.
pub(super) fn of_built_in_drivers(input: &Input) -> usize {
    let built_in = |volume: &&PersistentVolume| {
        let PersistentVolumeSpec { aws, azure, cinder, gce, portworx, vsphere, .. } = &volume.spec;
        [aws, azure, cinder, gce, portworx, vsphere].into_iter().any(Option::is_some)
    };
    input.volumes.iter().filter(built_in).count()
}

/// The names of a pod's claims, each with the namespace.
pub(super) fn claims(namespace: &str, pod: &str, spec: &PodSpec) -> Vec<Text> {
    let names = spec.volumes.iter().filter_map(|volume| match &volume.claim {
        Some(claim) => Some(claim.name.clone()),
        // The claim of an ephemeral volume is named after the pod and the volume.
        None => volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)),
    });
    names.map(|name| full_name(namespace, &name)).collect()
}

/// The names of the claims of a pod's ephemeral volumes, each with the namespace.
pub(super) fn ephemeral_claims(pod: &Pod) -> Vec<Text> {
    let ephemeral = pod.spec.volumes.iter().filter(|volume| volume.ephemeral.is_some());
    let names = ephemeral.map(|volume| format!("{}-{}", pod.metadata.name, volume.name));
    names.map(|name| full_name(namespace(pod), &name)).collect()
}

/// The name of a claim in the list of volumes.
pub(super) fn full_name(namespace: &str, name: &str) -> Text {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    format!("{namespace}/{name}").into()
}

fn is_default(class: &Class) -> bool {
    class.metadata.annotations.is_default_class == "true"
}

pub(super) fn storage_class<'a>(
    class: &Class,
    nodes: impl IntoIterator<Item = &'a CsiNode>,
) -> StorageClass {
    let driver = class.provisioner.as_str();
    let mut drivers = nodes.into_iter().flat_map(|node| &node.spec.drivers);
    let of_driver = drivers.find(|known| known.name == driver);
    let by = of_driver.map(|driver| driver.topology_keys.iter().map(|key| key.as_str().into()));
    let makes = || Provisioning {
        within: allowed(&class.allowed_topologies),
        by: by.into_iter().flatten().collect(),
    };
    let binding = match class.binding_mode {
        BindingMode::WaitForFirstConsumer => BindingTime::Late,
        BindingMode::Immediate => BindingTime::Early,
    };
    StorageClass {
        name: class.metadata.name.as_str().into(),
        driver: driver.into(),
        binding,
        provisions: (driver != NO_PROVISIONER).then(makes),
    }
}

/// Machines for which a class provisions volumes.
fn allowed(topologies: &[TopologyTerm]) -> Reach {
    let term = |term: &TopologyTerm| MachineSelector {
        labels: term.labels.iter().map(|label| is_in(&label.key, &label.values)).collect(),
        names: Vec::new(),
    };
    if topologies.is_empty() {
        Reach::Everywhere
    } else {
        Reach::Matching(topologies.iter().map(term).collect())
    }
}

fn is_in<S: AsRef<str>>(key: &str, values: &[S]) -> Requirement {
    let values = values.iter().map(|value| value.as_ref().into()).collect();
    Requirement { key: key.into(), operator: Operator::In, values }
}

pub(super) fn volume(object: &PersistentVolume) -> Volume {
    let spec = &object.spec;
    let driver = spec.csi.as_ref().map_or("", |csi| csi.driver.as_str());
    let claim = spec.claim.as_ref().map(|claim| full_name(&claim.namespace, &claim.name));
    Volume {
        name: object.metadata.name.as_str().into(),
        labels: object.metadata.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
        class: spec.class.as_str().into(),
        driver: driver.into(),
        bytes: storage(&spec.capacity),
        modes: modes(&spec.modes),
        mode: mode(spec.mode),
        reach: reach(object),
        claim,
    }
}

/// Returns the machines that can use a volume. A machine must match one term of the volume's own requirement, and one
/// of the alternatives that the volume's labels describe.
fn reach(object: &PersistentVolume) -> Reach {
    let required = object.spec.affinity.required.as_ref();
    let places = places(&object.metadata);
    let terms = match required {
        None if places.is_empty() => return Reach::Everywhere,
        None => return Reach::Matching(places.into_iter().map(in_place).collect()),
        Some(required) => required.terms.iter().map(selector::machines),
    };
    // A term without requirements matches nothing. It is removed, because it would match once the other requirements
    // are added.
    let terms = terms.filter(|term| *term != MachineSelector::default());
    if places.is_empty() {
        return Reach::Matching(terms.collect());
    }
    let both = |term: MachineSelector| {
        let places = places.clone();
        places.into_iter().map(move |place| {
            let labels = [term.labels.clone(), place].concat();
            MachineSelector { labels, ..term.clone() }
        })
    };
    Reach::Matching(terms.flat_map(both).collect())
}

fn in_place(labels: Vec<Requirement>) -> MachineSelector {
    MachineSelector { labels, names: Vec::new() }
}

/// The requirements on machines by a volume's labels, as alternatives; empty if there are no such labels. The value of
/// each label lists the allowed values, separated by `__`. A machine without the label is assumed to match.
fn places(metadata: &Metadata) -> Vec<Vec<Requirement>> {
    let absent = |key: &str| Requirement {
        key: key.into(),
        operator: Operator::DoesNotExist,
        values: Vec::new(),
    };
    let mut ways = vec![Vec::new()];
    for (key, later) in PLACES {
        let Some(value) = metadata.labels.get(key) else { continue };
        let values: Vec<&str> = value.split("__").collect();
        let own = vec![is_in(key, &values)];
        let later = later.map(|later| vec![absent(key), is_in(later, &values)]);
        let each: Vec<_> = [own].into_iter().chain(later).collect();
        let and = |way: &Vec<Requirement>| {
            let way = way.clone();
            each.iter().map(move |more| [way.as_slice(), more].concat()).collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(and).collect();
    }
    if ways == [Vec::new()] {
        return Vec::new();
    }
    ways.push(PLACES.iter().map(|(key, _)| absent(key)).collect());
    ways
}

pub(super) fn claim(object: &PersistentVolumeClaim, default: &str) -> VolumeClaim {
    let (metadata, spec) = (&object.metadata, &object.spec);
    VolumeClaim {
        name: full_name(&metadata.namespace, &metadata.name),
        class: spec.class.as_deref().unwrap_or(default).into(),
        bytes: storage(&spec.resources.requests),
        modes: modes(&spec.modes),
        mode: mode(spec.mode),
        selector: spec.selector.as_ref().map(selector::labels).unwrap_or_default(),
        volume: (!spec.volume.is_empty()).then(|| spec.volume.as_str().into()),
        is_ending: metadata.deleted.is_some(),
    }
}

fn mode(mode: Mode) -> VolumeMode {
    match mode {
        Mode::Filesystem => VolumeMode::Filesystem,
        Mode::Block => VolumeMode::Block,
    }
}

fn storage(amounts: &Resources) -> u64 {
    let bytes = amounts.get("storage").map_or(0, |quantity| quantity.value());
    bytes.clamp(0, i128::from(u64::MAX)) as u64
}

fn modes(modes: &[AccessMode]) -> AccessModes {
    let mode = |mode: &AccessMode| match mode {
        AccessMode::OneMachine => AccessModes::ONE_MACHINE,
        AccessMode::ManyReaders => AccessModes::MANY_READERS,
        AccessMode::ManyWriters => AccessModes::MANY_WRITERS,
        AccessMode::OneTask => AccessModes::ONE_TASK,
    };
    modes.iter().map(mode).fold(AccessModes::default(), |all, mode| all | mode)
}

/// Maximum numbers of volumes that the drivers of a node can attach.
pub(super) fn limits(node: &CsiNode) -> impl Iterator<Item = (Text, Text, u32)> + '_ {
    let limited = node.spec.drivers.iter();
    limited.filter_map(|driver| {
        let limit = driver.allocatable.as_ref()?.count?;
        Some((node.metadata.name.as_str().into(), driver.name.as_str().into(), limit))
    })
}

/// Whether a file has claims.
pub(super) fn has_any(input: &Input) -> bool {
    !input.claims.is_empty()
}
