//! The one integration binary: tests that concern more than one crate.
//!
//! - `history.rs`: every version from a directory, against the commands themselves.
//! - `histories.rs`: a cell and its naive reference agree on random histories.
//! - `images.rs`, `backups.rs`: cells that are saved and restored.
//! - `views.rs`, `claims.rs`, `held_claims.rs`, `wishes.rs`, `lifted.rs`: views keep up, judge as the
//!   cell does, keep their claims, count what tasks wish of each other, and what would be without
//!   some of them.
//! - `scripts.rs`: behaviour over several steps, as text in `tests/scripts/`.
//! - `traps.rs`: what wants more than a script.
//! - `placement.rs`: what schedulers propose, compared with doing it the long way.
//! - `load.rs`: what machines report as used, and the plugins that go by it.
//! - `profiles.rs`, `profile_docs.rs`: profiles as files, and what is written about them.
//! - `diagnosis.rs`: what is said of tasks that wait, tried out.
//! - `kube_plugins.rs`, `kube_old.rs`, `job_places.rs`: the plugins of Kubernetes' scheduler, of now
//!   and of old, against their formulas.
//! - `scheduler.rs`, `scheduler_wakes.rs`, `scheduler_faults.rs`: the loop, step by step.
//! - `preemption.rs`: whom a preemption evicts.
//! - `evicting.rs`, `evicting_random.rs`, `evicting_rules.rs`: the plugin that makes room by evicting, in the loop.
//! - `peaks.rs`, `peak_controller.rs`: hours in which batch steps back: who is held back, who makes room, and who keeps
//!   the calendar.
//! - `points.rs`, `points_random.rs`: plugins that refuse, wait and fail at each point around a
//!   decision.
//! - `volumes.rs`, `volumes_reference.rs`: tasks with volumes, and the list of volumes against a naive one.
//! - `reassign.rs`: machine reassignment against a checker of the contest.
//! - `rebalance_retries.rs`: plans on cells that lose answers or check against an older state.
//! - `rebalance.rs`, `rebalance_reference.rs`: rescheduling, reckoned by hand and the long way.
//! - `waits.rs`: jobs that wait for machines that they prefer, transactions that wait for more claims.
//! - `wakes.rs`: waking only whom an event may help places what waking everybody would.
//! - `pool.rs`, `examples.rs`: the loop on threads; the examples of `omega-schedulers`.
//! - `runtime_affinity.rs`: what one scheduler takes away and another one's tasks need near them.
//! - `bands.rs`: preemption that cannot cascade.
//! - `reservations.rs`: machines that are kept for some tenants, and queues that look at time.
//! - `cluster_resources.rs`: what belongs to no machine, such as licences.
//! - `tasks_per_machine.rs`: the most tasks of a tenant on one machine.
//! - `gangs.rs`: gangs that several transactions place.
//! - `held.rs`: what tasks hold beside their groups' requests.
//! - `threads.rs`, `races.rs`: schedulers on threads, and two that would break a rule together.
//! - `codec.rs`, `wire.rs`: commands and messages as bytes.
//! - `upgrades.rs`: what earlier versions wrote, and what the API has promised.
//! - `fuzz.rs`: bytes from anywhere.
//! - `log.rs`, `log_rot.rs`: logs, and what becomes of them when the power goes, the disk fails or
//!   runs full, and when their files are cut or damaged.
//! - `torn_ends.rs`: starts on a log that may have lost its end, by who votes.
//! - `rocks.rs`: the log in RocksDB, damaged in every file (with the feature `rocksdb`).
//! - `model/`: the commit protocol in the small, in every order of events.
//! - `retries.rs`: what a replica refuses early, and what never.
//! - `elections.rs`: whom replicas elect, and which changes of the members a leader refuses.
//! - `misled.rs`: clients of a replica that breaks off, skips or answers out of order.
//! - `watches.rs`: watches of jobs against the cell.
//! - `followers.rs`: calls that a follower answers while it is behind its leader.
//! - `directory.rs`: the directory of a replica, and who may not work in it.
//! - `nth_failure.rs`: a whole replica on a disk that fails, fills up and rots.
//! - `kills.rs`: a replica's process that is killed again and again.
//! - `simulated_disk.rs`: the disk that all of this is tried on.
//! - `snapshot_files.rs`, `snapshot_transfer.rs`: snapshots in a folder, damaged in every way, and on
//!   their way to a peer.
//! - `chaos.rs`, `linearizable.rs`, `corrupted_histories.rs`, `planted.rs`: whole cells of replicas under faults; that their
//!   histories are looked at closely; and that mistakes made on purpose are found (with the feature
//!   `planted`).
//! - `supply_chain.rs`: sources, licenses and accepted advisories of the dependencies.
//! - `tidy.rs`: the repository's own rules.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod backfill;
mod backups;
mod bands;
mod book;
mod chaos;
mod claims;
mod cluster_resources;
mod codec;
mod cores;
mod corrupted_histories;
mod demand_profiles;
mod diagnosis;
mod directory;
mod elections;
mod evicting;
mod evicting_random;
mod evicting_rules;
mod examples;
mod failures;
mod followers;
mod fuzz;
mod gangs;
mod held;
mod held_claims;
mod histories;
mod history;
mod images;
mod job_places;
mod json_schema;
mod kills;
mod kube_naive;
mod kube_old;
mod kube_plugins;
mod kube_world;
mod lifted;
mod linearizable;
mod load;
mod log;
mod log_bound;
mod log_rot;
mod messages;
mod misbehaving;
mod misled;
mod model;
mod moody_disk;
mod nth_failure;
mod peak_controller;
mod peaks;
mod placement;
mod placement_plugins;
mod placement_world;
mod planted;
mod points;
mod points_fixtures;
mod points_random;
mod pool;
mod preemption;
mod profile_docs;
mod profiles;
mod races;
mod reassign;
mod rebalance;
mod rebalance_reference;
mod rebalance_retries;
mod remote;
mod replicated;
mod reservations;
mod retries;
#[cfg(feature = "rocksdb")]
mod rocks;
mod runtime_affinity;
mod scheduler;
mod scheduler_faults;
mod scheduler_wakes;
mod scripts;
mod simulated_disk;
mod small;
mod snapshot_files;
mod snapshot_fixtures;
mod snapshot_transfer;
mod supply_chain;
mod tasks_per_machine;
mod tenants;
mod threads;
mod tidy;
mod torn_ends;
mod traps;
mod upgrades;
mod views;
mod volumes;
mod volumes_reference;
mod waits;
mod wakes;
mod watches;
mod wire;
mod wishes;
