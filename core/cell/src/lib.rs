//! The facade of Omega's libraries. The crate's README is the front page of this documentation.

#![doc = include_str!("../README.md")]

/// Types: machines, jobs, amounts, claims, transactions, commands.
pub use omega_core as types;

/// The cell's state machine, the views of schedulers, and the deltas that update views.
pub use omega_cellstate as state;

/// Plugins, placement, queues, preemption, backfill, and the schedulers that use them.
#[cfg(feature = "schedulers")]
pub use omega_schedulers as schedulers;

/// Access to cells of other processes: a handle for schedulers, interfaces for agents and applications, and the
/// generated gRPC clients.
#[cfg(feature = "client")]
pub use omega_client as client;

/// Replicated cells in this process: log, snapshots, Raft.
#[cfg(feature = "store")]
pub use omega_store as store;

/// A cell; `CellHandle`, the interface of schedulers to a cell, with its errors; `SharedCell`, which threads of this
/// process share; and `View`, a private copy of the cell's state.
pub use omega_cellstate::{Cell, CellHandle, HandleError, SharedCell, View};

/// Amounts of resource kinds.
pub use omega_core::{Amounts, KindId, Kinds};

/// Machines, jobs and their groups of equal tasks.
pub use omega_core::{Job, Machine, TaskGroup};

/// Changes of a cell and their outcomes.
pub use omega_core::{Command, Outcome, Rejection};

/// Placements: transactions of claims, their results, and the reasons of conflicts.
pub use omega_core::{Claim, Commit, Conflict, Reason, Transaction};

/// Identifiers of jobs, tasks and machines.
pub use omega_core::{JobId, MachineId, TaskId};

/// A ready-made scheduler: a loop over a profile of plugins.
#[cfg(feature = "schedulers")]
pub use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};

/// Plugins that look at one machine at a time.
#[cfg(feature = "schedulers")]
pub use omega_schedulers::{MachineFilter, MachineRef, MachineScore, PerMachine, Tasks};
