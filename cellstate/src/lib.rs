//! The cell state: machines, jobs, placements, and the checks of every change.
//!
//! ```text
//!    scheduler                                   cell
//!   ┌───────────┐      sync (delta)        ┌───────────────┐
//!   │   View    │ ◀─────────────────────── │     Cell      │
//!   │ (columns) │                          │               │
//!   │  decide   │      commit              │     check     │
//!   │  + check  │ ───────────────────────▶ │               │
//!   └───────────┘ ◀── result, conflicts ── └───────────────┘
//! ```
//!
//! [`Cell`] is a deterministic state machine. [`SharedCell`] shares it between the threads of a process. [`View`] is a
//! scheduler's private copy in columns, which each [`Delta`] brings up to date. The cell and the views use one check.
//!
//! ```
//! use omega_cellstate::{Cell, CellHandle, SharedCell, View};
//! use omega_core::{Amounts, Command, Job, Kinds, Machine, TaskGroup, TaskId, JobId};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! cell.apply(Command::RegisterMachine(Machine::new("a", Amounts::new([4000, 8 << 30]))))?;
//! cell.apply(Command::SubmitJob(Job::batch("hello", TaskGroup::new(1, Amounts::new([500])))))?;
//!
//! let (me, number) = cell.register("mine".into())?;
//! let mut view = View::new(me, number);
//! view.sync(&cell)?;
//! let machine = view.machine_by_name("a").expect("it was registered");
//! let job = cell.read(|c| c.job(JobId(0)).cloned()).expect("it was submitted");
//! let group = view.compile(JobId(0), &job, 0);
//! view.claim(TaskId { job: JobId(0), index: 0 }, machine, group).expect("it fits");
//! let txn = view.take_transaction();
//! let commit = cell.commit(&txn)?;
//! view.settle(&txn, &commit);
//! assert!(commit.is_complete());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: `cell.rs`, `state/`, `commands/`, `commit/`, `fit.rs`, `index/`, `rules/`, `policy/`, `delta/`,
//! `view/`, `handle.rs`, `shared.rs`, `queries.rs`, `history/`, `audit.rs`, `hash.rs`, `snapshot/`.

#![allow(
    unreachable_pub,
    reason = "all modules but one are private, so the exports below are the interface of the crate; `pub(crate)` marks \
              the functions and fields of exported types that are not part of it"
)]

mod audit;
mod audit_error;
mod cell;
mod commands;
mod commit;
mod delta;
mod fit;
mod handle;
mod hash;
mod history;
mod index;
pub mod injected_bugs;
mod policy;
mod queries;
mod rules;
mod shared;
mod snapshot;
mod state;
mod view;

pub use audit_error::AuditError;
pub use cell::Cell;
pub use commands::leases::SchedulerState;
pub use commands::shrink_order::shrink_order;
pub use delta::changed::{ChangePosition, Changed, Changes};
pub use delta::{AllocatedTask, Delta, Interest, JobDelta, MachineDelta, Share, TaskDelta};
pub use fit::{Grant, MachineStatus};
pub use handle::{CellHandle, CommitHook, CommitsAndSync, HandleError, Wake};
pub use history::{Event, EventKind, EventPosition, Events, EventsOf, HISTORY_BYTES};
pub use index::need::Need;
pub use index::sets::{CountingMachines, SetId};
pub use policy::PolicyColumns;
pub use policy::allocations::AllocationCounts;
pub use policy::cluster_resources::ClusterResources;
pub use policy::evictions::{EvictionColumns, EvictionCounts};
pub use policy::gangs::GangCounts;
pub use policy::peaks::{PeakColumns, PeakCounts, PeakLimit};
pub use policy::ports::{PortColumns, TakenPorts};
pub use policy::reservations::ReservationColumns;
pub use policy::tasks_per_machine::{TenantCount, TenantCounts};
pub use queries::MachineState;
pub use rules::{
    ColocationBound, Count, DomainName, RuleFamily, SoftSpread, Tracked, TrackerId, TrackerKey,
};
pub use shared::{PendingSync, SharedCell};
pub use snapshot::{
    Captured, SchedulerSnapshot, SnapshotState, SnapshotStateError, TenantSnapshot,
};
pub use state::cores::{CoreCounts, CoresLeft};
pub use state::demand_profiles::{DemandProfileSum, DemandProfiles};
pub use state::devices::Devices;
pub use state::job_record::{GangWait, JobSnapshot, JobVersion, TASK_BYTES, TaskRecord};
pub use state::load::LoadReport;
pub use state::machines::MachineSnapshot;
pub use state::missed_deadline::DeadlineCounts;
pub use state::reply_cache::CachedReply;
pub use state::task_counts::{GroupTally, StateCounts};
pub use state::tenants::{TenantDelta, TenantTerms};
pub use view::{
    BLOCK, Block, BlockLoad, ChangeCounts, Departure, Draws, FEW, GroupRef, ImageHolder, JobPlaces,
    LeftShare, Level, LocalityLevel, MachineSet, NEVER, OpenClaim, OwnClaim, PlacedTask, QuotaLack,
    SoftSpreadCounts, SubmitResult, TaskCounts, TaskSet, View,
};
