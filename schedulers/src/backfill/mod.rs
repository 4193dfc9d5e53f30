//! Backfilling: a job without enough free machines gets machines planned for later, and jobs behind it may use them
//! until then. (Lifka, "The ANL/IBM SP Scheduling System", 1995; Mu'alem and Feitelson 2001; Slurm's `sched/backfill`.)
//!
//! ```text
//!   machines
//!    m2 ██ runs ██│ short │┌──────────┐
//!    m1 ███ runs ██████████││ the plan │   a job that ends before the plan begins may run on m2
//!    m0 ██ runs ██│       │└──────────┘   until then; a longer job may not
//!                now                  ▶ time
//! ```
//!
//! Each of the first `depth` jobs in the queue that lack room has a *plan*: machines, and the earliest time at which
//! these have room for all of the job's pending tasks (for a gang, for its minimum). The time is computed from the
//! runtime estimates of jobs.
//!
//! A job decided later may use a plan's machines only if the job is expected to end before the plan begins, or if the
//! machines have room for the job and the plan at once. So nothing that this scheduler places delays a plan, and small
//! jobs cannot keep a gang waiting for ever.
//!
//! A depth of 1 is EASY backfilling; a depth of at least the length of the queue is conservative backfilling. Plans are
//! private to a scheduler, and other schedulers may place tasks on planned machines. A reservation in the cell binds
//! all schedulers.
//!
//! - `timeline.rs`: free resources of a machine over time;
//! - `plan.rs`: search for the earliest time, and the machines;
//! - `plans.rs`: the plans, and the jobs they restrict;
//! - `scheduler/backfilling.rs`: when plans are made and dropped.

mod plan;
mod plans;
mod timeline;

pub(crate) use plan::{MissingInGroup, MissingTasks};
pub use plans::BackfillFigures;
pub(crate) use plans::Plans;

use crate::framework::events::Events;
use crate::framework::plugin::{Filter, Reads, Tasks, lanes};
use crate::framework::points::Order;
use omega_cellstate::{BLOCK, Block};
use parking_lot::{RwLock, RwLockReadGuard};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use timeline::{Hold, Part, Timeline, is_too_much};

/// Default interval: the shortest time between two searches for a job's plan.
const INTERVAL_MS: u64 = 10_000;

/// Name of the plugin in profiles.
const NAME: &str = "backfill";

/// Plans for the first pending jobs that lack room. As a filter, `Backfill` accepts only machines that a job may use
/// without delaying the plans of other jobs. See the head of the file.
///
/// Clones share their plans, so each scheduler needs its own instance.
#[derive(Clone)]
pub struct Backfill {
    depth: usize,
    interval_ms: u64,
    window_ms: u64,
    shared: Arc<Shared>,
}

/// The plans, shared by the clones of a [`Backfill`].
#[derive(Default)]
struct Shared {
    /// Written by the scheduler between decisions, read by the filter during them.
    plans: RwLock<Plans>,
    /// Whether a job lacks room or has a plan. Otherwise a decision needs no lock.
    is_used: AtomicBool,
}

impl fmt::Debug for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backfill").field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl Default for Backfill {
    /// Backfill with a plan for the first job alone.
    fn default() -> Backfill {
        Backfill::new(1)
    }
}

impl Backfill {
    /// Backfill with plans for the first `depth` jobs.
    #[must_use]
    pub fn new(depth: usize) -> Backfill {
        Backfill { depth, interval_ms: INTERVAL_MS, window_ms: u64::MAX, shared: Arc::default() }
    }

    /// Returns `self` with another interval: the shortest time between two searches for a job's plan, in milliseconds
    /// of the cell's time. A search examines the whole cell. (Slurm's `bf_interval`.) The default of 10 seconds is also
    /// the longest interval at which a server advances the time of its cell.
    #[must_use]
    pub fn with_interval_ms(mut self, interval_ms: u64) -> Backfill {
        self.interval_ms = interval_ms;
        self
    }

    /// Returns `self` with a window: the longest time from now until a plan begins, in milliseconds of the cell's time.
    /// The window bounds each search. (Slurm's `bf_window`.) By default, a plan may begin as late as the last expected
    /// end of a task.
    #[must_use]
    pub fn with_window_ms(mut self, window_ms: u64) -> Backfill {
        self.window_ms = window_ms;
        self
    }

    /// Maximum number of jobs with plans.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Drops all plans, and sets the order of the queue in which later plans are made.
    pub(crate) fn begin(&self, order: Option<Arc<dyn Order>>) {
        self.change(|plans| *plans = Plans::new(order, self.interval_ms, self.window_ms));
    }

    /// The plans.
    pub(crate) fn plans(&self) -> RwLockReadGuard<'_, Plans> {
        self.shared.plans.read()
    }

    /// Changes the plans.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Plans) -> T) -> T {
        let mut plans = self.shared.plans.write();
        let result = change(&mut plans);
        self.shared.is_used.store(plans.is_used(), Ordering::Release);
        result
    }

    /// Whether a job lacks room or has a plan.
    pub(crate) fn is_used(&self) -> bool {
        self.shared.is_used.load(Ordering::Acquire)
    }
}

impl Filter for Backfill {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Plans change without a change of machines, so the filter's results must not be cached.
    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_DESCRIPTIONS | Reads::JOB | Reads::TIME
    }

    fn wakes_on(&self) -> Events {
        Events::MACHINE_ADDED | Events::ROOM_FREED | Events::PLANS_CHANGED
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        self.is_used() && self.plans().binds(tasks.id)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let plans = self.plans();
        let held = among & plans.rows_held(block.first_row() / BLOCK);
        if held == 0 {
            return among;
        }
        let part = Part { amounts: tasks.need.request.clone(), devices: tasks.need.devices };
        let is_kept = |lane: &usize| {
            let row = block.first_row() + lane;
            let holds: SmallVec<[&Hold; 4]> = plans.holds_on(tasks.id, row).collect();
            !leaves_room(tasks, row, &part, &holds)
        };
        lanes(held).filter(is_kept).fold(among, |word, lane| word & !(1 << lane))
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn why(&self, tasks: &Tasks<'_>, row: usize) -> Option<String> {
        let plans = self.plans();
        let (job, from_ms) = plans.holder_of(tasks.id, row)?;
        let seconds = from_ms.saturating_sub(tasks.view.now_ms()).div_ceil(1000);
        Some(format!("kept free for {}, which is planned to start in {seconds} s", job.name))
    }
}

/// Whether a task that starts now on the machine in a row leaves enough room there for the plans in `holds`.
fn leaves_room(tasks: &Tasks<'_>, row: usize, part: &Part, holds: &[&Hold]) -> bool {
    let now_ms = tasks.view.now_ms();
    let end_ms = tasks.job.runtime_estimate_ms.map_or(u64::MAX, |run| now_ms.saturating_add(run));
    let meets = |hold: &&&Hold| hold.from_ms < end_ms && hold.until_ms > now_ms;
    if !holds.iter().any(|hold| meets(&hold)) {
        return true;
    }
    if holds.iter().filter(meets).any(|hold| is_too_much(tasks.view, row, hold, part)) {
        return false;
    }
    let timeline = Timeline::of(tasks.view, row, holds.iter().copied());
    holds.iter().filter(meets).all(|hold| {
        let period = hold.from_ms.max(now_ms)..hold.until_ms.min(end_ms);
        timeline.room(period, part, 1) == 1
    })
}
