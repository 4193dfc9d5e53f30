//! The built-in filters, scores, queue orders, and plugins that make room.
//!
//! The filters evaluate the conditions of the cell's check for 64 machines at a time, as bit words. Together they
//! accept exactly the machines that the check accepts, which a test verifies.

mod affinity;
mod cheapest;
mod cluster_resources;
mod device_fragments;
mod fair_share;
mod kube;
mod load;
mod peaks;
mod quota;
mod reclaim;
mod reservations;
mod resources;
mod rules;
mod taints;
mod tasks_per_machine;
mod throttle;
mod time;
mod usage;
mod volumes;

pub use affinity::{MachineAffinity, PreferredAffinity};
pub use cluster_resources::CellWide;
pub(crate) use cluster_resources::missing_of_cell;
pub use device_fragments::{DeviceFragments, DeviceShape};
pub use fair_share::FairShare;
pub use kube::balanced_allocation::BalancedAllocation;
pub use kube::default_preemption::{CandidateMachines, DefaultPreemption};
pub use kube::image_locality::ImageLocality;
pub use kube::inter_pod_affinity::{InterPodAffinity, Preferences};
pub use kube::node_affinity::NodeAffinity;
pub use kube::node_label::NodeLabel;
pub use kube::node_name::NodeName;
pub use kube::node_ports::NodePorts;
pub use kube::node_prefer_avoid::{NodePreferAvoid, PREFER_AVOID};
pub use kube::node_resources_fit::{FitArgs, NodeResourcesFit, ShapePoint, Strategy};
pub use kube::node_unschedulable::NodeUnschedulable;
pub use kube::pod_topology_spread::PodTopologySpread;
pub use kube::selector_spread::{SelectorSpread, ZONE};
pub use kube::service_affinity::ServiceAffinity;
pub use kube::taint_toleration::TaintToleration;
pub use load::{HalfLife, Limit, LoadAware, LoadLimit};
pub use peaks::PeakHours;
pub(crate) use peaks::why_held_back;
pub use quota::WithinQuota;
pub use reclaim::Reclaim;
pub use reservations::Reservations;
pub(crate) use reservations::why_reserved;
pub use resources::{
    Balanced, LeastAllocated, MostAllocated, PackedDevices, ResourcesFit, SCORED_KINDS_MAX,
    Schedulable,
};
pub use rules::{SpreadWishes, TaskLimits, TaskRules};
pub use taints::{AvoidMarked, Taints};
pub use tasks_per_machine::TasksPerMachine;
pub use throttle::Throttle;
pub use time::{LeastSlack, ShortestFirst};
pub use volumes::{VolumeBinding, VolumeFilter};
