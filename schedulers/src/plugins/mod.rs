//! The filters and scores that come with the library.
//!
//! The filters ask for the facts that the cell's judge asks for, each as a word of 64 machines;
//! together they allow exactly what the judge allows, which a test compares.

mod affinity;
mod resources;
mod rules;
mod taints;

pub use affinity::{MachineAffinity, PreferredAffinity};
pub use resources::{
    Balanced, LeastAllocated, MostAllocated, PackedCards, ResourcesFit, SCORED_KINDS_MAX,
    Schedulable,
};
pub use rules::{SpreadWishes, TaskRules};
pub use taints::{AvoidMarked, Taints};
