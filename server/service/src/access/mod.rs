//! Callers and their permissions, and the audit log.

pub mod audit;
pub(crate) mod audit_queue;
pub(crate) mod audited;
pub(crate) mod descriptions;
mod failed_calls;
pub(crate) mod gate;
pub(crate) mod grants;
pub mod identity;
pub mod roles;
pub(crate) mod visibility;
