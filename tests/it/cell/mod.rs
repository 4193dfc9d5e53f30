//! The cell and its views, compared with naive models.
//!
//! - `histories.rs`: a cell and its naive reference model agree on random histories.
//! - `history.rs`: replay of every version from a directory, compared with applying the commands.
//! - `snapshot_states.rs`, `backups.rs`: cells that are saved and restored.
//! - `views.rs`, `claims.rs`, `deferred_claims.rs`, `soft_spreads.rs`, `lifted.rs`: views follow deltas, check like the
//!   cell, keep their claims, count what preferences select, and predict the cell without some tasks.
//! - `shared_deltas.rs`: deltas that the cell makes once for many readers.
//! - `departures.rs`: views expect the ends of all tasks.
//! - `scripts.rs`: behaviour over several steps, as text in `tests/scripts/`.
//! - `traps.rs`: edge cases that scripts cannot express.
//! - `runtime_affinity.rs`: one scheduler removes tasks that tasks of another scheduler need.
//! - `bands.rs`: precedence bands, which keep preemption from cascading.
//! - `reservations.rs`: reserved machines.
//! - `small.rs`: small cells for other tests.
//! - `cluster_resources.rs`, `cores.rs`, `demand_profiles.rs`: resources outside of machines, exclusive cores, and
//!   demand by time of day.
//! - `any_ports.rs`: ports that the cell chooses.
//! - `tasks_per_machine.rs`: maximum number of a tenant's tasks on one machine.
//! - `gangs.rs`: gangs placed by several transactions.
//! - `allocation_overrides.rs`: allocations that differ from the request.
//! - `model/`: a model of the commit protocol, in every order of events.
//! - `retries.rs`: requests that the pre-check rejects, and requests that it never rejects.

pub(crate) mod allocation_overrides;
pub(crate) mod any_ports;
pub(crate) mod backups;
pub(crate) mod bands;
pub(crate) mod claims;
pub(crate) mod cluster_resources;
pub(crate) mod cores;
pub(crate) mod deferred_claims;
pub(crate) mod demand_profiles;
pub(crate) mod departures;
pub(crate) mod gangs;
pub(crate) mod histories;
pub(crate) mod history;
pub(crate) mod lifted;
pub(crate) mod model;
pub(crate) mod reservations;
pub(crate) mod retries;
pub(crate) mod runtime_affinity;
pub(crate) mod scripts;
pub(crate) mod shared_deltas;
pub(crate) mod small;
pub(crate) mod snapshot_states;
pub(crate) mod soft_spreads;
pub(crate) mod tasks_per_machine;
pub(crate) mod traps;
pub(crate) mod views;
