//! Common parts of recorded cases: nodes and pods in their short form.
//!
//! Amounts are whole numbers: cpu in thousandths of a core, memory and disk in bytes, everything else in units. As in
//! Kubernetes' API, `null` means that a field is absent.

use omega_workload::kube::api::{
    Affinity, ContainerPort, Image, SpreadConstraint, Taint, Toleration, or_default,
};
use omega_workload::kube::map::Map;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Amounts by resource name.
pub(super) type Amounts = BTreeMap<String, u64>;

/// Labels by key.
pub(super) type Labels = Map<String>;

/// A node.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) labels: Labels,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) taints: Vec<Taint>,
    #[serde(default)]
    pub(super) unschedulable: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) allocatable: Amounts,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) images: Vec<Image>,
}

/// A pod, pending or placed.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) namespace: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) labels: Labels,
    /// Name of the node that the pod runs on.
    pub(super) node: Option<String>,
    /// Name of the node on which the pod is to run after its victims have ended.
    pub(super) nominated_node: Option<String>,
    #[serde(default)]
    pub(super) priority: i32,
    #[serde(default)]
    pub(super) preemption_policy_never: bool,
    /// Start time, in seconds since 1970.
    pub(super) start_time: Option<i64>,
    /// Whether the pod is being deleted.
    #[serde(default)]
    pub(super) terminating: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) containers: Vec<Container>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) init_containers: Vec<Container>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) pod_level_requests: Amounts,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) overhead: Amounts,
    /// The only node on which the pod may run.
    pub(super) required_node_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) node_selector: Labels,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) affinity: Affinity,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) tolerations: Box<[Toleration]>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) topology_spread_constraints: Box<[SpreadConstraint]>,
    /// Request that kube-scheduler computed for its filters, without zero amounts.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) computed_request: Amounts,
    /// Request that kube-scheduler computed for its scores.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) computed_non_zero_request: Amounts,
}

/// A container.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    #[serde(default)]
    pub(super) image: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) requests: Amounts,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    #[serde(default)]
    pub(super) restart_policy: String,
}
