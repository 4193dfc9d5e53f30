//! The view's own changes: claims and evictions that no delta includes yet.

pub(super) mod claim_list;
pub(super) mod claims;
pub(super) mod eviction_list;
pub(super) mod evictions;
