//! The loop of schedulers, and their decisions.
//!
//! - `placement.rs`, `placement_plugins.rs`: decisions of schedulers, compared with a naive search.
//! - `diagnosis.rs`: diagnoses of pending tasks, checked by applying their remedies.
//! - `scheduler.rs`, `scheduler_wakes.rs`, `scheduler_faults.rs`: the scheduler loop, step by step.
//! - `preemption.rs`: victims of preemption.
//! - `evicting.rs`, `evicting_random.rs`, `evicting_rules.rs`: the plugin that preempts, in the loop.
//! - `peaks.rs`, `peak_controller.rs`: peak hours: rejected tasks, throttling, and the controller.
//! - `waits.rs`: delay scheduling, and transactions that wait for more claims.
//! - `wakes.rs`: an event wakes only the jobs that it may help, and yet no job stays unscheduled.
//! - `failures.rs`: the cache of unschedulable classes.
//! - `pool.rs`, `examples.rs`: the loop on threads; the examples of `omega-schedulers`.
//! - `tenants.rs`: fair shares, limits and reclaiming.
//! - `threads.rs`, `races.rs`, `misbehaving.rs`: schedulers on threads, two schedulers that together would break a
//!   rule, and misbehaving schedulers.
//! - `backfill.rs`: plans of batch queues.
//! - `rounds.rs`: rounds without a pause between them.
//! - `placement_world.rs`: random cells for tests of placement.

pub(crate) mod backfill;
pub(crate) mod diagnosis;
pub(crate) mod evicting;
pub(crate) mod evicting_random;
pub(crate) mod evicting_rules;
pub(crate) mod examples;
pub(crate) mod failures;
pub(crate) mod misbehaving;
pub(crate) mod peak_controller;
pub(crate) mod peaks;
pub(crate) mod placement;
pub(crate) mod placement_plugins;
pub(crate) mod placement_world;
pub(crate) mod pool;
pub(crate) mod preemption;
pub(crate) mod races;
pub(crate) mod rounds;
pub(crate) mod scheduler;
pub(crate) mod scheduler_faults;
pub(crate) mod scheduler_wakes;
pub(crate) mod tenants;
pub(crate) mod threads;
pub(crate) mod waits;
pub(crate) mod wakes;
