//! The filters and scores that come with the library.
//!
//! The filters ask for the facts that the cell's judge asks for, each as a word of 64 machines;
//! together they allow exactly what the judge allows, which a test compares.

mod affinity;
mod balanced_allocation;
mod node_affinity;
mod node_resources_fit;
mod node_unschedulable;
mod normalize;
mod resources;
mod rules;
mod taint_toleration;
mod taints;
mod usage;

pub use affinity::{MachineAffinity, PreferredAffinity};
pub use balanced_allocation::BalancedAllocation;
pub use node_affinity::NodeAffinity;
pub use node_resources_fit::{FitArgs, NodeResourcesFit, ShapePoint, Strategy};
pub use node_unschedulable::NodeUnschedulable;
pub use resources::{
    Balanced, LeastAllocated, MostAllocated, PackedCards, ResourcesFit, Schedulable,
};
pub use rules::{SpreadWishes, TaskRules};
pub use taint_toleration::TaintToleration;
pub use taints::{AvoidMarked, Taints};
