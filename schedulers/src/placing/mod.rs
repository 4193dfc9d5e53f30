//! Placement: the search for machines, the choice among them, and the caches of both.

pub mod appraise;
pub(crate) mod best_of;
pub(crate) mod class;
pub(crate) mod failures;
pub(crate) mod outsized;
pub mod place;
pub(crate) mod rank;
pub mod refusals;
pub(crate) mod reuse;
pub mod search;
