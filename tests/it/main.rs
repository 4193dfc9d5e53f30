//! The integration tests across crates, in one binary.
//!
//! - `histories.rs`: a cell and its naive reference model agree on random histories.
//! - `history.rs`: replay of every version from a directory, compared with applying the commands.
//! - `images.rs`, `backups.rs`: cells that are saved and restored.
//! - `views.rs`, `claims.rs`, `held_claims.rs`, `wishes.rs`, `lifted.rs`: views follow deltas, check like the
//!   cell, keep their claims, count what preferences select, and predict the cell without some tasks.
//! - `scripts.rs`: behaviour over several steps, as text in `tests/scripts/`.
//! - `traps.rs`: edge cases that scripts cannot express.
//! - `placement.rs`, `placement_plugins.rs`: decisions of schedulers, compared with a naive search.
//! - `load.rs`: load reports, and the plugins that use them.
//! - `profiles.rs`, `profile_docs.rs`: profile files, and their documentation.
//! - `diagnosis.rs`: diagnoses of pending tasks, checked by applying their remedies.
//! - `kube_plugins.rs`, `kube_old.rs`, `job_places.rs`: the plugins of present and earlier kube-schedulers,
//!   against their formulas.
//! - `scheduler.rs`, `scheduler_wakes.rs`, `scheduler_faults.rs`: the scheduler loop, step by step.
//! - `preemption.rs`: victims of preemption.
//! - `evicting.rs`, `evicting_random.rs`, `evicting_rules.rs`: the plugin that preempts, in the loop.
//! - `peaks.rs`, `peak_controller.rs`: peak hours: rejected tasks, throttling, and the controller.
//! - `points.rs`, `points_random.rs`: plugins that reject, wait and fail at each extension point around a
//!   decision.
//! - `volumes.rs`, `volumes_reference.rs`: tasks with volumes, and the list of volumes against a naive one.
//! - `reassign.rs`: machine reassignment against a checker of the contest.
//! - `rebalance.rs`, `rebalance_reference.rs`, `rebalance_annealed.rs`, `rebalance_retries.rs`,
//!   `rebalance_objectives.rs`: rebalancing, computed by hand and naively; plans by annealing, and on cells that lose
//!   replies.
//! - `rebalance_score.rs`: the score that places new tasks by the objectives of rebalancing.
//! - `waits.rs`: delay scheduling, and transactions that wait for more claims.
//! - `wakes.rs`: an event wakes only the jobs that it may help, and yet no job stays unscheduled.
//! - `failures.rs`: the cache of unschedulable classes.
//! - `pool.rs`, `examples.rs`: the loop on threads; the examples of `omega-schedulers`.
//! - `runtime_affinity.rs`: one scheduler removes tasks that tasks of another scheduler need.
//! - `bands.rs`: precedence bands, which keep preemption from cascading.
//! - `reservations.rs`, `backfill.rs`: reserved machines, and plans of batch queues.
//! - `tenants.rs`: fair shares, limits and reclaiming.
//! - `cluster_resources.rs`, `cores.rs`, `demand_profiles.rs`: resources outside of machines, exclusive cores, and
//!   demand by time of day.
//! - `any_ports.rs`: ports that the cell chooses.
//! - `tasks_per_machine.rs`: maximum number of a tenant's tasks on one machine.
//! - `gangs.rs`: gangs placed by several transactions.
//! - `held.rs`: allocations that differ from the request.
//! - `threads.rs`, `races.rs`, `misbehaving.rs`: schedulers on threads, two schedulers that together would break a
//!   rule, and misbehaving schedulers.
//! - `codec.rs`, `wire.rs`, `messages.rs`: encoding of commands and messages.
//! - `upgrades.rs`: compatibility with files of earlier versions, and of the API.
//! - `fuzz.rs`: random bytes in every decoder.
//! - `log.rs`, `log_rot.rs`, `log_bound.rs`: logs after power failures, on failing and full disks, with
//!   damaged files, and without snapshots.
//! - `torn_ends.rs`: starts on a log that may have lost its end, with one voter or several.
//! - `rocks.rs`: the log in RocksDB, damaged in every file (with the feature `rocksdb`).
//! - `model/`: a model of the commit protocol, in every order of events.
//! - `retries.rs`: requests that the pre-check rejects, and requests that it never rejects.
//! - `elections.rs`: elections, and membership changes that a leader rejects.
//! - `diverged.rs`: replicas whose outcomes differ.
//! - `replicated.rs`, `remote.rs`: a replicated cell, and one behind a socket, as a scheduler sees them.
//! - `misled.rs`: clients of a replica that breaks streams, skips deltas or replies out of order.
//! - `watches.rs`: watches of jobs against the cell.
//! - `followers.rs`: calls that a follower answers while it is behind its leader.
//! - `forwarded.rs`: requests that a follower forwarded, when the leader changes.
//! - `attached.rs`: streams of agents that break a rule of the transport.
//! - `directory.rs`: the directory of a replica, and its lock.
//! - `nth_failure.rs`, `moody_disk.rs`: replicas on disks that fail, fill up, are damaged, or are slow.
//! - `kills.rs`: a replica's process that is killed repeatedly.
//! - `simulated_disk.rs`: the simulated disk itself.
//! - `snapshot_files.rs`, `snapshot_transfer.rs`: snapshots in a folder, damaged in every way, and in
//!   transfer to a peer.
//! - `chaos.rs`, `linearizable.rs`, `corrupted_histories.rs`, `planted.rs`: whole cells of replicas under
//!   faults; checks of their histories; and injected bugs that must be found (with the feature `planted`).
//! - `wrong_clocks.rs`: the clocks of the test kit.
//! - `supply_chain.rs`: sources, licenses and accepted advisories of the dependencies.
//! - `book.rs`, `tidy.rs`, `structure.rs`: the documentation as a book, and the repository's own rules.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod any_ports;
mod attached;
mod backfill;
mod backups;
mod bands;
mod book;
mod chaos;
mod circles;
mod claims;
mod cluster_resources;
mod codec;
mod cores;
mod corrupted_histories;
mod demand_profiles;
mod diagnosis;
mod directory;
mod diverged;
mod elections;
mod evicting;
mod evicting_random;
mod evicting_rules;
mod examples;
mod failures;
mod followers;
mod forwarded;
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
mod rebalance_annealed;
mod rebalance_objectives;
mod rebalance_reference;
mod rebalance_retries;
mod rebalance_score;
mod remote;
mod replicated;
mod reservations;
mod retries;
#[cfg(feature = "rocksdb")]
mod rocks;
mod rounds;
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
mod structure;
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
mod wrong_clocks;
