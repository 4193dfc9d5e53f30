//! Tests of the simulator's public interface.

mod architectures;
mod capacity;
mod changes;
mod closed;
mod compat;
mod faults;
mod fgd;
mod invariants;
mod paper;
mod shards;
mod start;
mod stdin;
mod support;
mod sweep;
mod sweep_results;
mod tenants;
mod trace_input;
mod vectors;
mod what_if;
