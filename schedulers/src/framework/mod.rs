//! The framework of plugins: extension points, profiles, and the calls of plugins.

pub(crate) mod chain;
pub mod disruption;
pub mod evaluator;
pub mod events;
pub mod meter;
pub(crate) mod nanos;
pub mod plugin;
pub mod points;
pub mod profile;
pub(crate) mod reads;
pub mod relative;
pub mod waiting;
