//! Commands without a served cell.
//!
//! - `runs.rs`: every kind of input and run, and the invariants of each result.
//! - `traces.rs`: the published traces; skipped if they are not on this computer.
//! - `bad_input.rs`: one-line errors for bad input, without changed files.
//! - `verb_help.rs`: the help of every verb.
//! - `workflows.rs`: CI workflows, and manifests of examples.
//! - `explain.rs`: explanations of pending jobs.
//! - `rebalance.rs`: better machines for running tasks.
//! - `outputs.rs`: files, pipes and terminals as outputs; `pipes.rs`: pipes and devices as inputs.

pub(crate) mod bad_input;
pub(crate) mod explain;
pub(crate) mod outputs;
pub(crate) mod pipes;
pub(crate) mod rebalance;
pub(crate) mod runs;
pub(crate) mod traces;
pub(crate) mod verb_help;
pub(crate) mod workflows;
