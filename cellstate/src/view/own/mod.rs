//! The view's own changes: claims and evictions that no delta includes yet.

pub(super) mod claims;
pub(super) mod evictions;
pub(super) mod own_claims;
pub(super) mod own_evictions;
