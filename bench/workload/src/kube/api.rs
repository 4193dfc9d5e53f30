//! The part of Kubernetes' objects that placement depends on, with the names of Kubernetes.
//!
//! Every other field is skipped. A field that is absent or `null` is empty, as in the API server.
#![expect(
    missing_docs,
    reason = "objects and fields are Kubernetes' own, and its API reference describes them"
)]

use super::map::Map;
use super::quantity::Quantity;
use serde::{Deserialize, Deserializer};

/// Amounts by resource name.
pub type Resources = Map<Quantity>;

/// Deserializes `null` as the default value.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Declares objects whose fields may all be absent or `null`.
macro_rules! objects {
    ($($(#[$doc:meta])* $object:ident { $($name:literal $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default, expecting = "an object")]
        pub struct $object {
            $(
                #[serde(rename = $name, deserialize_with = "or_default")]
                pub $field: $type,
            )*
        }
    )*};
}

/// Metadata of every object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct Metadata {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    #[serde(rename = "resourceVersion", deserialize_with = "or_default")]
    pub version: String,
    #[serde(deserialize_with = "or_default")]
    pub labels: Map<String>,
    #[serde(deserialize_with = "or_default")]
    pub annotations: Annotations,
    #[serde(rename = "ownerReferences", deserialize_with = "or_default")]
    pub owners: Box<[Owner]>,
    #[serde(rename = "creationTimestamp", deserialize_with = "or_default")]
    pub created: String,
    #[serde(rename = "deletionTimestamp", deserialize_with = "or_default")]
    pub deleted: Option<String>,
    /// The error that prevented reading the whole object. Kubernetes has no such field.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

objects! {
    /// The annotations that placement depends on.
    Annotations {
        "volume.kubernetes.io/selected-node" selected_node: Option<String>,
        "pv.kubernetes.io/bind-completed" bind_completed: Option<String>,
        "storageclass.kubernetes.io/is-default-class" is_default_class: String,
        "scheduler.alpha.kubernetes.io/preferAvoidPods" avoid_pods: Option<String>,
    }
    /// Owner of an object.
    Owner {
        "kind" kind: String,
        "name" name: String,
        "uid" uid: String,
        "controller" controller: bool,
    }
    Namespace {
        "metadata" metadata: Metadata,
    }
    Node {
        "metadata" metadata: Metadata,
        "spec" spec: NodeSpec,
        "status" status: NodeStatus,
    }
    NodeSpec {
        "unschedulable" unschedulable: bool,
        "taints" taints: Vec<Taint>,
    }
    Taint {
        "key" key: String,
        "value" value: String,
        "effect" effect: Effect,
    }
    NodeStatus {
        "allocatable" allocatable: Resources,
        "capacity" capacity: Resources,
        "images" images: Vec<Image>,
    }
    Image {
        "names" names: Vec<String>,
        "sizeBytes" bytes: u64,
    }
    Pod {
        "metadata" metadata: Metadata,
        "spec" spec: PodSpec,
        "status" status: PodStatus,
    }
    PodStatus {
        "phase" phase: String,
        "startTime" started: String,
        "nominatedNodeName" nominated_node: String,
        "containerStatuses" containers: Box<[ContainerStatus]>,
        "initContainerStatuses" init_containers: Box<[ContainerStatus]>,
        "resources" resources: Requirements,
        "allocatedResources" allocated: Resources,
        "conditions" conditions: PodConditions,
    }
    /// The amounts of a running container, which differ from those in its specification while it is resized.
    ContainerStatus {
        "name" name: String,
        "resources" resources: Requirements,
        "allocatedResources" allocated: Resources,
    }
    PodSpec {
        "nodeName" node_name: String,
        "priority" priority: Option<i32>,
        "priorityClassName" priority_class: String,
        "preemptionPolicy" preemption_policy: String,
        "schedulerName" scheduler_name: String,
        "restartPolicy" restart_policy: String,
        "runtimeClassName" runtime_class: String,
        "hostNetwork" host_network: bool,
        "containers" containers: Box<[Container]>,
        "initContainers" init_containers: Box<[Container]>,
        "resources" resources: Requirements,
        "overhead" overhead: Resources,
        "nodeSelector" node_selector: Map<String>,
        "affinity" affinity: Affinity,
        "tolerations" tolerations: Box<[Toleration]>,
        "topologySpreadConstraints" spreads: Box<[SpreadConstraint]>,
        "volumes" volumes: Box<[PodVolume]>,
        "schedulingGates" gates: Vec<serde::de::IgnoredAny>,
        "resourceClaims" claims: Vec<serde::de::IgnoredAny>,
        "schedulingGroup" scheduling_group: Option<SchedulingGroup>,
        "workloadRef" workload: Option<serde::de::IgnoredAny>,
    }
    PriorityClass {
        "metadata" metadata: Metadata,
        "value" value: i32,
        "globalDefault" is_default: bool,
        "preemptionPolicy" preemption_policy: String,
    }
    SchedulingGroup {
        "podGroupName" name: String,
    }
    PodGroup {
        "metadata" metadata: Metadata,
        "spec" spec: PodGroupSpec,
        "status" status: PodGroupStatus,
    }
    PodGroupSpec {
        "schedulingPolicy" policy: SchedulingPolicy,
        "schedulingConstraints" constraints: Option<SchedulingConstraints>,
    }
    SchedulingPolicy {
        "gang" gang: Option<GangPolicy>,
    }
    GangPolicy {
        "minCount" min: u32,
    }
    SchedulingConstraints {
        "topology" topology: Vec<serde::de::IgnoredAny>,
    }
    PodGroupStatus {
        "conditions" conditions: Vec<Condition>,
    }
    Condition {
        "type" kind: String,
        "status" status: String,
        "reason" reason: String,
        "message" message: String,
        "lastTransitionTime" changed: String,
    }
    /// A volume of a pod, by its source.
    PodVolume {
        "name" name: String,
        "persistentVolumeClaim" claim: Option<PodClaim>,
        "ephemeral" ephemeral: Option<serde::de::IgnoredAny>,
        "csi" csi: Option<serde::de::IgnoredAny>,
        "awsElasticBlockStore" aws: Option<serde::de::IgnoredAny>,
        "azureDisk" azure: Option<serde::de::IgnoredAny>,
        "cinder" cinder: Option<serde::de::IgnoredAny>,
        "gcePersistentDisk" gce: Option<serde::de::IgnoredAny>,
        "iscsi" iscsi: Option<serde::de::IgnoredAny>,
        "rbd" rbd: Option<serde::de::IgnoredAny>,
    }
    PodClaim {
        "claimName" name: String,
    }
    PersistentVolume {
        "metadata" metadata: Metadata,
        "spec" spec: PersistentVolumeSpec,
        "status" status: PersistentVolumeStatus,
    }
    PersistentVolumeSpec {
        "capacity" capacity: Resources,
        "accessModes" modes: Vec<AccessMode>,
        "volumeMode" mode: VolumeMode,
        "storageClassName" class: String,
        "claimRef" claim: Option<ObjectReference>,
        "nodeAffinity" affinity: VolumeNodeAffinity,
        "csi" csi: Option<CsiSource>,
        "awsElasticBlockStore" aws: Option<serde::de::IgnoredAny>,
        "azureDisk" azure: Option<serde::de::IgnoredAny>,
        "cinder" cinder: Option<serde::de::IgnoredAny>,
        "gcePersistentDisk" gce: Option<serde::de::IgnoredAny>,
        "portworxVolume" portworx: Option<serde::de::IgnoredAny>,
        "vsphereVolume" vsphere: Option<serde::de::IgnoredAny>,
    }
    PersistentVolumeStatus {
        "phase" phase: String,
    }
    ObjectReference {
        "namespace" namespace: String,
        "name" name: String,
        "uid" uid: String,
    }
    VolumeNodeAffinity {
        "required" required: Option<NodeSelector>,
    }
    CsiSource {
        "driver" driver: String,
    }
    PersistentVolumeClaim {
        "metadata" metadata: Metadata,
        "spec" spec: PersistentVolumeClaimSpec,
    }
    PersistentVolumeClaimSpec {
        "storageClassName" class: Option<String>,
        "accessModes" modes: Vec<AccessMode>,
        "volumeMode" mode: VolumeMode,
        "selector" selector: Option<LabelSelector>,
        "resources" resources: Requirements,
        "volumeName" volume: String,
    }
    StorageClass {
        "metadata" metadata: Metadata,
        "provisioner" provisioner: String,
        "volumeBindingMode" binding_mode: BindingMode,
        "allowedTopologies" allowed_topologies: Vec<TopologyTerm>,
    }
    TopologyTerm {
        "matchLabelExpressions" labels: Vec<TopologyLabel>,
    }
    TopologyLabel {
        "key" key: String,
        "values" values: Vec<String>,
    }
    /// Capabilities of volume drivers on a node.
    CsiNode {
        "metadata" metadata: Metadata,
        "spec" spec: CsiNodeSpec,
    }
    CsiNodeSpec {
        "drivers" drivers: Vec<CsiDriver>,
    }
    CsiDriver {
        "name" name: String,
        "topologyKeys" topology_keys: Vec<String>,
        "allocatable" allocatable: Option<CsiAllocatable>,
    }
    CsiAllocatable {
        "count" count: Option<u32>,
    }
    /// A volume driver. Placement depends on whether it reports its free capacity. `CsiDriver` is the entry of a driver
    /// in a `CsiNode`.
    CsiDriverObject {
        "metadata" metadata: Metadata,
        "spec" spec: CsiDriverSpec,
    }
    CsiDriverSpec {
        "storageCapacity" storage_capacity: bool,
    }
    CsiStorageCapacity {
        "metadata" metadata: Metadata,
        "nodeTopology" topology: Option<LabelSelector>,
        "storageClassName" class: String,
        "capacity" capacity: Option<Quantity>,
        "maximumVolumeSize" volume_size_max: Option<Quantity>,
    }
    VolumeAttachment {
        "metadata" metadata: Metadata,
        "spec" spec: VolumeAttachmentSpec,
    }
    VolumeAttachmentSpec {
        "nodeName" node: String,
        "source" source: VolumeAttachmentSource,
    }
    VolumeAttachmentSource {
        "persistentVolumeName" volume: String,
    }
    /// Value of an old annotation: the controllers whose pods should avoid the node.
    AvoidPods {
        "preferAvoidPods" avoid: Vec<AvoidPod>,
    }
    AvoidPod {
        "podSignature" signature: PodSignature,
    }
    PodSignature {
        "podController" controller: Owner,
    }
    Container {
        "name" name: String,
        "image" image: String,
        "resources" resources: Requirements,
        "restartPolicy" restart_policy: String,
        "ports" ports: Vec<ContainerPort>,
    }
    Requirements {
        "requests" requests: Resources,
        "limits" limits: Resources,
    }
    ContainerPort {
        "containerPort" container_port: u16,
        "hostPort" host_port: u16,
        "hostIP" host_ip: String,
        "protocol" protocol: Protocol,
    }
    Toleration {
        "key" key: String,
        "operator" operator: TolerationOperator,
        "value" value: String,
        "effect" effect: ToleratedEffect,
    }
    SpreadConstraint {
        "maxSkew" skew_max: u32,
        "minDomains" domains_min: u32,
        "topologyKey" topology_key: String,
        "whenUnsatisfiable" when: WhenUnsatisfiable,
        "labelSelector" selector: Option<LabelSelector>,
        "matchLabelKeys" match_label_keys: Vec<String>,
        "nodeAffinityPolicy" node_affinity_policy: Option<InclusionPolicy>,
        "nodeTaintsPolicy" node_taints_policy: Option<InclusionPolicy>,
    }
    Affinity {
        "nodeAffinity" node: NodeAffinity,
        "podAffinity" pod: PodAffinity,
        "podAntiAffinity" anti: PodAffinity,
    }
    NodeAffinity {
        "requiredDuringSchedulingIgnoredDuringExecution" required: Option<NodeSelector>,
        "preferredDuringSchedulingIgnoredDuringExecution" preferred: Vec<PreferredTerm>,
    }
    NodeSelector {
        "nodeSelectorTerms" terms: Vec<NodeSelectorTerm>,
    }
    PreferredTerm {
        "weight" weight: u32,
        "preference" preference: NodeSelectorTerm,
    }
    NodeSelectorTerm {
        "matchExpressions" expressions: Vec<Expression>,
        "matchFields" fields: Vec<Expression>,
    }
    /// Expression of a node selector or a label selector. The API server rejects `Gt` and `Lt` in label selectors.
    Expression {
        "key" key: String,
        "operator" operator: Operator,
        "values" values: Vec<String>,
    }
    PodAffinity {
        "requiredDuringSchedulingIgnoredDuringExecution" required: Vec<PodAffinityTerm>,
        "preferredDuringSchedulingIgnoredDuringExecution" preferred: Vec<WeightedTerm>,
    }
    WeightedTerm {
        "weight" weight: i32,
        "podAffinityTerm" term: PodAffinityTerm,
    }
    PodAffinityTerm {
        "labelSelector" selector: Option<LabelSelector>,
        "namespaces" namespaces: Vec<String>,
        "namespaceSelector" namespace_selector: Option<LabelSelector>,
        "topologyKey" topology_key: String,
        "matchLabelKeys" match_label_keys: Vec<String>,
        "mismatchLabelKeys" mismatch_label_keys: Vec<String>,
    }
    DisruptionBudget {
        "metadata" metadata: Metadata,
        "spec" spec: DisruptionBudgetSpec,
        "status" status: DisruptionBudgetStatus,
    }
    DisruptionBudgetStatus {
        "disruptionsAllowed" allowed: i64,
        "disruptedPods" disrupted: Map<serde::de::IgnoredAny>,
    }
    DisruptionBudgetSpec {
        "selector" selector: Option<LabelSelector>,
        "minAvailable" min_available: Option<NumberOrShare>,
        "maxUnavailable" max_unavailable: Option<NumberOrShare>,
    }
    LabelSelector {
        "matchLabels" labels: Map<String>,
        "matchExpressions" expressions: Vec<Expression>,
    }
}

/// Facts from the conditions of a pod. The conditions themselves are not kept.
#[derive(Clone, Debug, Default)]
pub struct PodConditions {
    /// Whether the node can never give the amounts that a resize in place specifies.
    pub infeasible: bool,
    /// Time since which `PodScheduled` is `False`; empty if it is not.
    pub unscheduled_since: Box<str>,
}

impl<'de> Deserialize<'de> for PodConditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PodConditions, D::Error> {
        let mut facts = PodConditions::default();
        for condition in Vec::<Condition>::deserialize(deserializer)? {
            match (condition.kind.as_str(), condition.status.as_str()) {
                ("PodResizePending", _) => facts.infeasible |= condition.reason == "Infeasible",
                ("PodScheduled", "False") => facts.unscheduled_since = condition.changed.into(),
                _ => {}
            }
        }
        Ok(facts)
    }
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub enum Effect {
    #[default]
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// The effect that a toleration matches.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub enum ToleratedEffect {
    #[default]
    #[serde(rename = "")]
    Any,
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A number or a percentage.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a number or a percentage")]
pub enum NumberOrShare {
    Number(i64),
    Share(String),
}

/// Operator of an expression.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub enum Operator {
    #[default]
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// Operator of a toleration; `Gt` and `Lt` compare numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TolerationOperator {
    #[default]
    #[serde(alias = "")]
    Equal,
    Exists,
    Gt,
    Lt,
}

/// Access mode of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AccessMode {
    #[serde(rename = "ReadWriteOnce")]
    OneMachine,
    #[serde(rename = "ReadOnlyMany")]
    ManyReaders,
    #[serde(rename = "ReadWriteMany")]
    ManyWriters,
    #[serde(rename = "ReadWriteOncePod")]
    OneTask,
}

/// Binding time of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum BindingMode {
    #[default]
    Immediate,
    WaitForFirstConsumer,
}

/// Content of a volume: a file system or a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeMode {
    #[default]
    Filesystem,
    Block,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    #[default]
    #[serde(alias = "")]
    Tcp,
    Udp,
    Sctp,
}

/// Whether nodes that the pod itself may not use are included in a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum InclusionPolicy {
    Honor,
    Ignore,
}

/// Treatment of a pod whose spread cannot be satisfied.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub enum WhenUnsatisfiable {
    #[default]
    DoNotSchedule,
    ScheduleAnyway,
}
