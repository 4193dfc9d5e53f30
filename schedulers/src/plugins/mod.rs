//! The built-in filters and scores.
//!
//! The filters evaluate the conditions of the cell's check for 64 machines at a time, as bit words. Together they
//! accept exactly the machines that the check accepts, which a test verifies.

mod affinity;
mod balanced_allocation;
mod cluster_resources;
mod default_preemption;
mod device_fragments;
mod fair_share;
mod image_locality;
mod inter_pod_affinity;
mod load;
mod node_affinity;
mod node_label;
mod node_name;
mod node_ports;
mod node_prefer_avoid;
mod node_resources_fit;
mod node_unschedulable;
mod normalize;
mod peaks;
mod pod_topology_spread;
mod quota;
mod reclaim;
mod reservations;
mod resources;
mod rules;
mod selector_spread;
mod service_affinity;
mod taint_toleration;
mod taints;
mod tasks_per_machine;
mod throttle;
mod time;
mod usage;
mod volumes;

pub use affinity::{MachineAffinity, PreferredAffinity};
pub use balanced_allocation::BalancedAllocation;
pub use cluster_resources::CellWide;
pub(crate) use cluster_resources::missing_of_cell;
pub use default_preemption::{CandidateMachines, DefaultPreemption};
pub use device_fragments::{DeviceFragments, DeviceShape};
pub use fair_share::FairShare;
pub use image_locality::ImageLocality;
pub use inter_pod_affinity::{InterPodAffinity, Preferences};
pub use load::{HalfLife, Limit, LoadAware, LoadLimit};
pub use node_affinity::NodeAffinity;
pub use node_label::NodeLabel;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_prefer_avoid::{NodePreferAvoid, PREFER_AVOID};
pub use node_resources_fit::{FitArgs, NodeResourcesFit, ShapePoint, Strategy};
pub use node_unschedulable::NodeUnschedulable;
pub use peaks::PeakHours;
pub(crate) use peaks::why_held_back;
pub use pod_topology_spread::PodTopologySpread;
pub use quota::WithinQuota;
pub use reclaim::Reclaim;
pub use reservations::Reservations;
pub(crate) use reservations::why_reserved;
pub use resources::{
    Balanced, LeastAllocated, MostAllocated, PackedDevices, ResourcesFit, SCORED_KINDS_MAX,
    Schedulable,
};
pub use rules::{SpreadWishes, TaskLimits, TaskRules};
pub use selector_spread::{SelectorSpread, ZONE};
pub use service_affinity::ServiceAffinity;
pub use taint_toleration::TaintToleration;
pub use taints::{AvoidMarked, Taints};
pub use tasks_per_machine::TasksPerMachine;
pub use throttle::Throttle;
pub use time::{LeastSlack, ShortestFirst};
pub use volumes::{VolumeBinding, VolumeFilter};
