//! The parts of the state: plain structures that contain no cell.

pub(crate) mod answers;
pub(crate) mod attributes;
pub(crate) mod changes;
pub(crate) mod cores;
pub(crate) mod demand_profiles;
pub(crate) mod devices;
pub(crate) mod held;
pub(crate) mod job_record;
pub(crate) mod jobs;
pub(crate) mod load;
pub(crate) mod machines;
pub(crate) mod map;
pub(crate) mod missed_deadline;
pub(crate) mod recent_groups;
pub(crate) mod recent_rows;
pub(crate) mod registered;
pub(crate) mod sparse;
pub(crate) mod task_places;
pub(crate) mod tenants;
