//! Schedulers for any `CellHandle`: plugins, search, placement of many tasks at once, ready-made
//! loops.
//!
//! ```text
//!   Scheduler ── Queue ── jobs with pending tasks
//!      │
//!      ├── Profile ── Filter, Filter, ...  Score, Score, ...      columns of 64 machines
//!      ├── Placer ── search (full, sampled, indexed) ── heap      one decision per group
//!      └── View ◀── sync ── any CellHandle ◀── commit
//! ```
//!
//! Your own scheduler takes twenty lines: a cell, a profile with your plugin, and calls of
//! [`Scheduler::step`].
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, KindId, Kinds, Machine, TaskGroup};
//! use omega_schedulers::{
//!     MachineRef, MachineScore, PerMachine, Profile, Scheduler, Settings, Tasks, Unobserved,
//! };
//!
//! /// Prefers machines with little memory left.
//! struct Snug;
//! impl MachineScore for Snug {
//!     fn name(&self) -> &'static str { "snug" }
//!     fn score(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> i32 {
//!         10_000 - (machine.free(KindId::MEMORY) >> 30) as i32
//!     }
//! }
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! for (name, gib) in [("large", 64), ("small", 8)] {
//!     let capacity = Amounts::new([8000, gib << 30]);
//!     cell.apply(Command::RegisterMachine(Machine::new(name, capacity)))?;
//! }
//! cell.apply(Command::SubmitJob(Job::batch("web", TaskGroup::new(3, Amounts::new([500])))))?;
//! let profile = Profile::first_fit().with_score(PerMachine(Snug), 1);
//! let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
//! let step = scheduler.step(&cell, 0, &mut Unobserved)?;
//! assert_eq!(step.placed, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The library reads no clock and has no random source: the caller passes the time to
//! [`Scheduler::step`] and the seed in [`Settings`]. In reading order: [`plugin`], [`relative`],
//! [`plugins`], [`profile`], [`search`], [`place`], [`delay`], [`backfill`](mod@backfill),
//! [`preemption`], [`disruption`], [`events`], [`refusals`], [`queue`], [`points`], [`meter`],
//! [`waiting`], [`volumes`], [`scheduler`], [`pool`], [`appraise`](mod@appraise),
//! [`explain`](mod@explain), `rebalance`, [`peaks`], `config`; for resource offers and resource
//! requests, [`dominant`], `mesos`, `yarn`. The [`cookbook`] has an example of each policy.

pub mod backfill;
#[cfg(feature = "profiles")]
pub mod config;
pub mod cookbook;
pub mod delay;
pub mod explain;
mod framework;
mod placing;

#[cfg(feature = "frontends")]
mod frontends;
pub mod lock_step;
pub mod peaks;
pub mod plugins;
pub mod pool;
pub mod preemption;
pub mod queue;
#[cfg(feature = "rebalance")]
pub mod rebalance;
pub mod scheduler;
pub mod volumes;

pub use backfill::{Backfill, BackfillFigures};
pub use delay::{Delay, WaitFigures};
pub use explain::{Diagnosis, Explanation, diagnose, explain};
pub use framework::evaluator::Evaluator;
pub use framework::events::Events;
pub use framework::meter::{Meter, Work};
pub use framework::plugin::{
    CellChecks, Filter, MachineFilter, MachineRef, MachineScore, News, PerMachine, Reads,
    SCORE_MAX, Score, Tasks, WEIGHT_SUM_MAX,
};
pub use framework::points::{
    Admit, Claimed, Lack, MadeRoom, Order, PERMIT_WAIT_MAX, Permission, Permit, PostBind,
    PostFilter, PreBind, Queued, Refused, Reserve,
};
pub use framework::profile::Profile;
pub use framework::relative::{Feasible, Ranking, RelativeScore, Stance};
pub use framework::waiting::{Waiting, WaitingTask};
pub use framework::{
    disruption, evaluator, events, meter, plugin, points, profile, relative, waiting,
};
#[cfg(feature = "frontends")]
pub use frontends::{mesos, yarn};
pub use lock_step::{LockStep, Round};
pub use placing::appraise::{Appraisal, Refusal, ScoreAccount, ScoreColumns, appraise};
pub use placing::place::{GroupPlacement, Placer};
pub use placing::search::{Home, Search};
pub use placing::{appraise, place, refusals, search};
pub use pool::{Clock, Pool, Worker};
pub use queue::dominant;
pub use queue::{Backoff, Nanos, Queue};
pub use scheduler::{Observer, Placement, Scheduler, Settings, Step, Unobserved};
pub use volumes::Volumes;
