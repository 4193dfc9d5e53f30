//! Commands: their checks, and the changes of the state that they make.

pub mod bounds;
pub mod jobs;
pub mod leases;
pub mod machines;
pub mod programs;
pub mod resize;
pub mod shrink_order;
pub mod tenants;
pub mod texts;
pub mod validate;
pub mod versions;
