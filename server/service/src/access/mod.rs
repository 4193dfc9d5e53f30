//! Callers and their permissions, and the audit log.

pub mod audit;
pub(crate) mod gate;
pub(crate) mod grants;
pub mod identity;
pub(crate) mod reach;
pub mod roles;
