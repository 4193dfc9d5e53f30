//! Commands: their checks, and the changes of the state that they make.

pub(crate) mod admission;
pub(crate) mod bounds;
pub(crate) mod holders;
pub(crate) mod job_commands;
pub(crate) mod machine_commands;
pub(crate) mod programs;
pub(crate) mod tenant_commands;
pub(crate) mod texts;
pub(crate) mod validate;
pub(crate) mod versions;
