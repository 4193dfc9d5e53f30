//! The view's own changes: claims and evictions that the cell has not answered, and departures.

pub(super) mod claims;
pub(super) mod evictions;
pub(super) mod own_claims;
pub(super) mod own_evictions;
