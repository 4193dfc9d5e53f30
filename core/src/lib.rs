//! Types of Omega: machines, jobs, claims, transactions and commands of a cell.
//!
//! ```text
//!   Machine ──┐                        ┌── Job ── TaskGroup ── rules
//!             ├── Amounts, Kinds ──────┤
//!             │   (cpu, memory, ...)   │
//!             └────── Claim ───────────┘   "task T on machine M"
//!                       │
//!                 Transaction  ──commit──▶  Commit { committed | conflicts }
//! ```
//!
//! The types have no behaviour except for their own invariants. Schedulers, servers, agents and simulators all use this
//! crate.
//!
//! ```
//! use omega_core::{Amounts, KindId};
//!
//! let request = Amounts::new([500, 2 << 30]); // half a core, 2 GiB
//! let free = Amounts::new([4000, 16 << 30]);
//! assert!(request.fits_in(&free));
//! assert_eq!(request.get(KindId::CPU), 500);
//! ```
//!
//! In reading order: [`ids`], [`amounts`], [`machine`], [`cores`], [`selector`], [`rules`], [`job`], [`tenant`],
//! [`bands`], [`reservation`], [`peaks`], [`transaction`], [`command`], [`build`], [`size`], [`limits`].

pub mod amounts;
pub mod bands;
pub mod build;
pub mod command;
pub mod cores;
pub mod ids;
pub mod job;
pub mod limits;
pub mod machine;
#[doc(hidden)]
pub mod misread;
pub mod peaks;
pub mod ports;
mod reason_text;
pub mod reservation;
pub mod rules;
pub mod selector;
pub mod size;
pub mod tenant;
pub mod text;
pub mod transaction;

pub use amounts::{Amounts, KindId, Kinds, KindsError, ResourceKind, Unit};
pub use bands::{Band, EvictionCap};
pub use command::{Command, Lease, Outcome, Policy, Rejection, TaskReport};
pub use cores::{CorePlace, CoreRequest, NodeCores};
pub use ids::{
    HolderId, JobId, MachineId, Precedence, SchedulerId, SequenceNumber, TaskId, TransactionId,
    Version,
};
pub use job::demand_profile::DemandProfile;
pub use job::group::{DeviceRequest, OptionalResources, TaskGroup};
pub use job::run::{EnvVar, HealthCheck, Mount, NamedPort, Payload, Probe, RestartPolicy, Run};
pub use job::run_end::{EndReason, RunEnd};
pub use job::shared_group::{Groups, SharedGroup};
pub use job::task_use::TaskUse;
pub use job::update::{GroupGrowth, OnFailure, RollStep, UpdateResult, UpdateRules};
pub use job::{Job, JobKind, Preemption, TaskState};
pub use machine::{
    DeviceSet, Image, Labels, Machine, Overcommit, Taint, TaintEffect, Toleration,
    TolerationOperator, TopologyLevel,
};
pub use peaks::{DAY_MS, KindShare, Peak, PeakCalendar};
pub use ports::{BadPortRange, PortRange};
pub use reservation::Reservation;
pub use rules::{
    Affinity, Near, PlacementRules, Port, Preferred, Protocol, Spread, TaskRule, WhenUnsatisfiable,
};
pub use selector::{LabelSelector, MachineSelector, Operator, Requirement, TaskSelector, Tenants};
pub use size::bytes_at_most;
pub use tenant::TenantConfig;
pub use text::Text;
pub use transaction::{
    Claim, Commit, Conflict, ConflictCheck, Granularity, Item, Reason, Resize, Take, Transaction,
    TransactionError,
};
