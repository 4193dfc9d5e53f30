//! Objectives that concern single machines, resource kinds or jobs, or pairs of them, as plain data.

pub mod curve;
pub mod demand;
pub mod machines;
pub mod move_costs;
pub mod rules;
