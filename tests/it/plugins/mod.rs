//! Plugins and profiles.
//!
//! - `load.rs`: load reports, and the plugins that use them.
//! - `profiles.rs`, `profile_docs.rs`: profile files, and their documentation.
//! - `kube_plugins.rs`, `kube_old.rs`, `job_places.rs`: the plugins of present and earlier kube-schedulers,
//!   against their formulas.
//! - `kube_naive.rs`, `kube_world.rs`: these formulas, and random cells for them.
//! - `points.rs`, `points_random.rs`, `points_fixtures.rs`: plugins that reject, wait and fail at each extension point
//!   around a decision.
//! - `volumes.rs`, `volumes_reference.rs`: tasks with volumes, and the list of volumes against a naive one.

pub(crate) mod job_places;
pub(crate) mod kube_naive;
pub(crate) mod kube_old;
pub(crate) mod kube_plugins;
pub(crate) mod kube_world;
pub(crate) mod load;
pub(crate) mod points;
pub(crate) mod points_fixtures;
pub(crate) mod points_random;
pub(crate) mod profile_docs;
pub(crate) mod profiles;
pub(crate) mod volumes;
pub(crate) mod volumes_reference;
