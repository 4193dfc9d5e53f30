//! Persistent volumes, claims to them, storage classes, and what nodes can attach.
//!
//! Claims are named as Kubernetes does, with their namespace: `shop/data`. They are read where the
//! file has any; of a file of nodes and pods alone nobody can tell where the volumes are.

use super::api::{
    AccessMode, CsiNode, Metadata, PersistentVolume, PersistentVolumeClaim, PodSpec, Resources,
    StorageClass as Class, TopologyTerm,
};
use super::input::Input;
use super::selector;
use crate::workload::volumes::VolumesAtStart;
use omega_core::{MachineSelector, Operator, Requirement, Text};
use omega_schedulers::volumes::{
    AccessModes, BindingTime, Provisioning, Reach, StorageClass, Volume, VolumeClaim,
};

/// The provisioner of classes that make no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The annotation of the class of claims that name none.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// Labels of volumes that say where they are, as nodes have them.
const PLACES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The volumes of a file.
pub(super) fn volumes(input: &Input) -> VolumesAtStart {
    let default = input.classes.iter().find(|class| is_default(class));
    let default = default.map_or("", |class| class.metadata.name.as_str());
    VolumesAtStart {
        classes: input.classes.iter().map(|class| storage_class(class, &input.csi_nodes)).collect(),
        volumes: input.volumes.iter().map(volume).collect(),
        claims: input.claims.iter().map(|object| claim(object, default)).collect(),
        limits: input.csi_nodes.iter().flat_map(limits).collect(),
    }
}

/// The claims of a pod, by their names in its namespace.
pub(super) fn claims(namespace: &str, pod: &str, spec: &PodSpec) -> Vec<Text> {
    let names = spec.volumes.iter().filter_map(|volume| match &volume.claim {
        Some(claim) => Some(claim.name.clone()),
        // The claim of a volume that lives as long as the pod has the names of both.
        None => volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)),
    });
    names.map(|name| full_name(namespace, &name)).collect()
}

fn full_name(namespace: &str, name: &str) -> Text {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    format!("{namespace}/{name}").into()
}

fn is_default(class: &Class) -> bool {
    class.metadata.annotations.get(IS_DEFAULT).is_some_and(|value| value == "true")
}

fn storage_class(class: &Class, nodes: &[CsiNode]) -> StorageClass {
    let driver = class.provisioner.as_str();
    let drivers = || nodes.iter().flat_map(|node| &node.spec.drivers);
    let of_driver = drivers().find(|known| known.name == driver);
    let by = of_driver.map(|driver| driver.topology_keys.iter().map(|key| key.as_str().into()));
    let makes = || Provisioning {
        within: allowed(&class.allowed_topologies),
        by: by.into_iter().flatten().collect(),
    };
    let binding = match class.binding_mode.as_str() {
        "WaitForFirstConsumer" => BindingTime::Late,
        _ => BindingTime::Early,
    };
    StorageClass {
        name: class.metadata.name.as_str().into(),
        driver: driver.into(),
        binding,
        provisions: (driver != NO_PROVISIONER).then(makes),
    }
}

/// The machines for which a class makes volumes.
fn allowed(topologies: &[TopologyTerm]) -> Reach {
    let term = |term: &TopologyTerm| MachineSelector {
        labels: term.labels.iter().map(|label| is_in(&label.key, &label.values)).collect(),
        names: Vec::new(),
    };
    match topologies.is_empty() {
        true => Reach::Everywhere,
        false => Reach::Matching(topologies.iter().map(term).collect()),
    }
}

fn is_in<S: AsRef<str>>(key: &str, values: &[S]) -> Requirement {
    let values = values.iter().map(|value| value.as_ref().into()).collect();
    Requirement { key: key.into(), operator: Operator::In, values }
}

fn volume(object: &PersistentVolume) -> Volume {
    let spec = &object.spec;
    let driver = spec.csi.as_ref().map_or("", |csi| csi.driver.as_str());
    let claim = spec.claim.as_ref().map(|claim| full_name(&claim.namespace, &claim.name));
    Volume {
        name: object.metadata.name.as_str().into(),
        class: spec.class.as_str().into(),
        driver: driver.into(),
        bytes: storage(&spec.capacity),
        modes: modes(&spec.modes),
        reach: reach(object),
        claim,
    }
}

/// Where a volume's own requirement and its labels say that it is.
fn reach(object: &PersistentVolume) -> Reach {
    let required = object.spec.affinity.required.as_ref();
    let mut any: Vec<MachineSelector> = required
        .map_or(Vec::new(), |required| required.terms.iter().map(selector::machines).collect());
    let places: Vec<Requirement> = places(&object.metadata);
    match (required, places.is_empty()) {
        (None, true) => return Reach::Everywhere,
        (None, false) => any.push(MachineSelector { labels: places, names: Vec::new() }),
        (Some(_), _) => {
            // A term that requires nothing matches nothing, whatever else is required.
            any.retain(|term| *term != MachineSelector::default());
            any.iter_mut().for_each(|term| term.labels.extend(places.iter().cloned()));
        }
    }
    Reach::Matching(any)
}

/// What a volume's labels require of machines: one of the values that `__` separates.
fn places(metadata: &Metadata) -> Vec<Requirement> {
    let named = PLACES.into_iter().filter_map(|key| Some((key, metadata.labels.get(key)?)));
    named.map(|(key, value)| is_in(key, &value.split("__").collect::<Vec<_>>())).collect()
}

fn claim(object: &PersistentVolumeClaim, default: &str) -> VolumeClaim {
    let (metadata, spec) = (&object.metadata, &object.spec);
    VolumeClaim {
        name: full_name(&metadata.namespace, &metadata.name),
        class: spec.class.as_deref().unwrap_or(default).into(),
        bytes: storage(&spec.resources.requests),
        modes: modes(&spec.modes),
        volume: (!spec.volume.is_empty()).then(|| spec.volume.as_str().into()),
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

/// What the drivers of a node can attach.
fn limits(node: &CsiNode) -> impl Iterator<Item = (Text, Text, u32)> + '_ {
    let limited = node.spec.drivers.iter();
    limited.filter_map(|driver| {
        let limit = driver.allocatable.as_ref()?.count?;
        Some((node.metadata.name.as_str().into(), driver.name.as_str().into(), limit))
    })
}

/// Whether a file tells of claims.
pub(super) fn has_any(input: &Input) -> bool {
    !input.claims.is_empty()
}
