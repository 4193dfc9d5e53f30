//! Extension points: the plugins before and after a decision.
//!
//! ```text
//!   Admit ─▶ Order ─▶ filters, scores ─▶ Reserve ─▶ Permit ─▶ PreBind ─▶ commit ─▶ PostBind
//!   gated    queue        │ no machine      │ no      │ no │     │ no       │ refused
//!                     PostFilter            ▼         ▼    ▼     ▼          ▼
//!                     evictions          Unreserve, all plugins, the last first
//!                                                          waits: Waiting
//! ```
//!
//! The points correspond to those of kube-scheduler: Admit is PreEnqueue, and Order is QueueSort. The commit takes the
//! place of Bind. A plugin implements the points that it needs. It may have state of its own, because only one
//! scheduler calls it, on one thread. The result of a call may depend only on the arguments and this state, so that two
//! runs with one seed are equal. A call must be quick, because the scheduler waits for it.
//!
//! From the decision to the result, a claim is subtracted from the free resources of the scheduler's view. Other
//! schedulers receive the claim only after the commit.

use crate::framework::disruption::DisruptionBudget;
use crate::framework::evaluator::Evaluator;
use crate::framework::events::Events;
use crate::framework::plugin::News;
use crate::framework::plugin::Tasks;
use crate::framework::waiting::Waiting;
use crate::queue::Nanos;
use crate::scheduler::Settings;
use omega_cellstate::{GroupRef, PlacedTask, View};
use omega_core::{Job, JobId, MachineId, TaskGroup, TaskId};
use std::cmp::Ordering;
use std::sync::Arc;

/// Longest wait for a permit: fifteen minutes, as in Kubernetes.
pub const PERMIT_WAIT_MAX: Nanos = 15 * 60 * 1_000_000_000;

/// A job in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Queued<'a> {
    /// Id of the job: older jobs have lower numbers.
    pub id: JobId,
    /// The job as submitted.
    pub job: &'a Arc<Job>,
}

/// A claim on the scheduler's view, for one task.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'a> {
    /// The view. It includes the claim until the claim is accepted or rejected.
    pub view: &'a View,
    /// Id of the task.
    pub task: TaskId,
    /// Id of the machine.
    pub machine: MachineId,
    /// The task's job.
    pub job: &'a Arc<Job>,
    /// The task's group.
    pub group: &'a TaskGroup,
}

/// A rejection, with the events after which the job may be tried again. With [`Events::TIME`] the job is retried after
/// its backoff; with [`Events::NONE`] only at the unconditional retry of [`Backoff`](crate::queue::Backoff).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Events);

/// Decides whether a job may be queued (PreEnqueue).
///
/// Called at each turn of the job, before all other plugins. A rejected job is *gated*: no plugin is called for the job
/// until one of the events that the rejection names. Then this plugin is called again. If there are several plugins,
/// the first one that rejects decides.
pub trait Admit: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Admits the job to its turn, or rejects it.
    ///
    /// # Errors
    /// If the job is rejected, the events after which it is tried again.
    fn admit(&mut self, queued: Queued<'_>, view: &View) -> Result<(), Refused>;
}

/// Decides which of two queued jobs has its turn first (QueueSort). A profile has at most one order; without one,
/// higher precedence goes first.
///
/// Called several times for each job that is added to the queue or removed. The result must be a total order that
/// depends on the two jobs alone, because queued jobs are not sorted again: if it changes while a job is queued, no job
/// is lost, but jobs have their turns in any order, and each removal may visit the whole queue. If the result is
/// `Equal`, the older job goes first.
///
/// For ageing, compare values that do not change, such as the id, which is lower for older jobs, minus a bonus for the
/// precedence. For shares of tenants, use [`Order::between_tenants`].
pub trait Order: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Compares two jobs; `Less` if `a` goes first.
    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering;

    /// Whether tenants share fairly. If so, the tenant with the smallest dominant share for its weight goes first, and
    /// only jobs of the same tenant are compared. In a cell without any [tenant
    /// configuration](omega_core::TenantConfig), tenants are ignored. The default is false.
    fn between_tenants(&self) -> bool {
        false
    }
}

/// Reserves external resources of a claim, such as a volume, a licence or an address.
pub trait Reserve: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Called once, when the scheduler starts. A plugin that depends on external events keeps a
    /// clone of the handle to [raise](Waiting::raise) them.
    fn start(&mut self, _of: &Settings, _waiting: &Waiting) {}

    /// Called after each sync. [`View::delta`] has the changes of the sync. A plugin releases the reservations of tasks
    /// that have ended. If the scheduler preempts, the changes include jobs of other schedulers. Those schedulers may
    /// receive the changes earlier than this one.
    fn synced(&mut self, _view: &View) {}

    /// Reserves external resources of a claimed task. Called once for each claim, before any permit
    /// plugin, in the order of the profile until one plugin rejects.
    ///
    /// # Errors
    /// If a resource is not available. The claim is undone, and the job sleeps until one of the returned events.
    fn reserve(&mut self, claimed: &Claimed<'_>) -> Result<(), Refused>;

    /// Releases the reservation of a claim that failed: a plugin rejected it, a permit timed out, the cell rejected it,
    /// or its outcome can no longer be determined. If the outcome is unknown, the task may run in spite of this call.
    ///
    /// Called once for each failed claim, for all plugins in reverse order. This includes plugins that were not called
    /// to reserve because an earlier plugin rejected the claim, so the call must be harmless without a reservation.
    fn unreserve(&mut self, claimed: &Claimed<'_>);
}

/// Answer of a permit plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Continues with the claim.
    Allow,
    /// Undoes the claim; the job waits for one of these events.
    Refuse(Refused),
    /// Keeps the claim on the view until this plugin allows it by [`Waiting::allow`]. The claim is not committed
    /// before. If the plugin does not allow it in time, the claim is rejected.
    Wait {
        /// Longest wait; at most [`PERMIT_WAIT_MAX`].
        at_most: Nanos,
        /// Events that may help the job if the wait times out.
        then: Refused,
    },
}

/// Allows, rejects or delays a reserved claim.
///
/// Called once for each claim, after all claims of the job's turn are reserved. Plugins are called until one rejects;
/// if several let the task wait, each of them must allow it. A gang waits as a whole; if rejections leave too few of
/// its tasks, all its claims are rejected. While a task waits, other schedulers may take the room; then the cell
/// rejects the claim at commit.
pub trait Permit: Send + Sync {
    /// Name in snake case, under which the plugin later allows waiting tasks.
    fn name(&self) -> &'static str;

    /// Decides whether the claim may continue. `waiting` has the tasks that already wait. A plugin may allow or reject
    /// these tasks here, or at any later time by a clone of `waiting` that it keeps.
    fn permit(&mut self, claimed: &Claimed<'_>, waiting: &Waiting) -> Permission;
}

/// Prepares a claim just before the commit.
///
/// Called once for each claim that all permits allow, in the order of the profile until one plugin fails. It must be
/// quick. Begin slow work in [`Permit::permit`]: return [`Permission::Wait`] there, and allow the task when the work is
/// done.
pub trait PreBind: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Prepares the machine for the task.
    ///
    /// # Errors
    /// If the machine cannot be prepared. The claim is undone, and the job sleeps until one of the returned events.
    fn pre_bind(&mut self, claimed: &Claimed<'_>) -> Result<(), Refused>;
}

/// Receives committed claims.
pub trait PostBind: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Called once for each accepted claim: the task has its machine.
    fn post_bind(&mut self, claimed: &Claimed<'_>);
}

/// A task without a feasible machine.
#[derive(Clone, Copy, Debug)]
pub struct Lack<'a> {
    /// Id of the task.
    pub task: TaskId,
    /// Group of the task, compiled in the view.
    pub group: GroupRef,
    /// Job of the task.
    pub job: &'a Arc<Job>,
    /// The filters that rejected every machine, and the scores.
    /// [`first_refusals`](crate::refusals::first_refusals) returns which filter rejected which machine.
    pub evaluator: &'a Evaluator,
}

/// Room for a task on one machine, made either by evictions or by throttling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeRoom {
    /// Id of the machine on which the task then fits.
    pub machine: MachineId,
    /// Tasks of lower precedence to evict from that machine, as listed by [`View::tasks_on`].
    pub evictions: Vec<PlacedTask>,
    /// Tasks to throttle to their request on that machine, if none is evicted.
    pub throttled: Vec<PlacedTask>,
}

/// Makes room for a task that found no machine, by preemption.
///
/// With such a plugin, the scheduler's view keeps placements (see [`View::with_placements`]) and receives every job.
/// Called once for each task without a feasible machine, in the order of the profile until one plugin finds room. The
/// view and the cell check the result like any claim. After the remaining extension points, the claim and the evictions
/// go into one transaction.
pub trait PostFilter: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Returns a machine for the task and the tasks to evict or throttle there; `None` if the plugin can make no room.
    ///
    /// The plugin may remove tasks from the view to try evictions ([`View::lift`]), and must put them back. Tasks that
    /// another claim evicts ([`View::is_evicted`]) have been removed already.
    fn make_room(&mut self, view: &mut View, lack: &Lack<'_>) -> Option<MadeRoom>;

    /// Events after which the plugin may make room for tasks that it could not help. The scheduler adds the events of
    /// the filters that were the first to reject a machine.
    ///
    /// `all` has the events of all applicable filters, because evictions may satisfy a machine's first rejecting filter
    /// while a later one still rejects. The default is `all`.
    fn wakes_on(&self, _tasks: &Tasks<'_>, all: Events) -> Events {
        all
    }

    /// Whether the plugin may make room for these tasks after the news. As with filters, a wrong `true` costs a search.
    /// The default is true.
    fn may_help(&self, _tasks: &Tasks<'_>, _news: &News<'_>) -> bool {
        true
    }

    /// Enables the columns of the view that the plugin reads (see [`crate::Profile::prepare`]).
    fn keep(&self, _view: &mut View) {}

    /// Adds the cell's disruption budgets to those in the plugin's own arguments. Called before the first
    /// [`PostFilter::keep`]. By default, the cell's budgets are ignored.
    fn protect(&mut self, _budgets: &[DisruptionBudget]) {}
}
