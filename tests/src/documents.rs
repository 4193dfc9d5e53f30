//! Examples of the README and of the pages about libraries, compiled and run by `cargo test --doc`.
//!
//! They are in this crate because the packages of the described crates do not contain the pages.

#![cfg(doctest)]
#![doc = include_str!("../../README.md")]
#![doc = include_str!("../../docs/plugins.md")]
#![doc = include_str!("../../docs/profiles.md")]
#![doc = include_str!("../../docs/gangs.md")]
#![doc = include_str!("../../docs/preemption.md")]
#![doc = include_str!("../../docs/quotas.md")]
#![doc = include_str!("../../docs/load.md")]
#![doc = include_str!("../../docs/backfill.md")]
#![doc = include_str!("../../docs/delay.md")]
#![doc = include_str!("../../docs/reservations.md")]
#![doc = include_str!("../../docs/time.md")]
#![doc = include_str!("../../docs/allocation.md")]
#![doc = include_str!("../../docs/cores.md")]
#![doc = include_str!("../../docs/cluster-resources.md")]
#![doc = include_str!("../../docs/colocation.md")]
#![doc = include_str!("../../docs/offers.md")]
#![doc = include_str!("../../docs/asks.md")]
#![doc = include_str!("../../docs/demand-profiles.md")]
#![doc = include_str!("../../core/cell/README.md")]
