//! Commands: their checks, and the changes of the state that they make.

pub mod admission;
pub mod bounds;
pub mod holders;
pub mod job_commands;
pub mod machine_commands;
pub mod programs;
pub mod tenant_commands;
pub mod texts;
pub mod validate;
pub mod versions;
