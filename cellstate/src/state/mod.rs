//! The parts of the state: plain structures that contain no cell.

pub mod admission;
pub mod allocation_overrides;
pub mod attributes;
pub mod cores;
pub mod demand_profiles;
pub mod devices;
pub mod ended_jobs;
pub mod job_record;
pub mod jobs;
pub mod load;
pub mod machines;
pub mod map;
pub mod missed_deadline;
pub mod recent_groups;
pub mod registered;
pub mod reply_cache;
pub mod sparse;
pub mod task_counts;
pub mod task_places;
pub mod tenants;
