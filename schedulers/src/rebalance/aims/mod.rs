//! Objectives for single machines, resource kinds or jobs, or for pairs of machines or jobs, as
//! plain data.

pub mod curve;
pub mod demand;
pub mod machines;
pub mod move_costs;
pub mod rules;
