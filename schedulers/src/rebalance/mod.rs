//! Rebalancing: a pass that finds better machines for running tasks.
//!
//! ```text
//!            sync                      plan                           carry out
//!   cell ───────────▶ view ──▶ what does it cost? ──▶ waves of steps ──────────▶ cell
//!                              which move gains?       release + claim,          checks each,
//!                              until nothing does,     all or nothing            or says why not
//!                              or a bound is reached
//! ```
//!
//! A move is an ordinary transaction, which releases a task and claims another machine for it, all or nothing. The cell
//! checks the transaction like any other, so a wrong or stale plan breaks no rule: its transactions conflict.
//! [`Objectives`] define which placement is better: weighted costs of load above a safety level, of imbalance, of
//! fragments, of crowding, and of moves ([`objective`]). [`Bounds`] limit what a pass may disturb.
//!
//! The rebalancer is a scheduler, by default with the name `rebalance`. It considers the jobs of all schedulers, and
//! uses the filters of one profile.
//!
//! - [`objective`] has the terms, and [`aims`] the objectives for single machines, kinds and jobs. `valuation.rs`
//!   computes the cost of one machine. `account.rs` has the sums, which are updated with each move.
//! - [`plan`] is the result of a pass. `budget.rs` has the bounds of a pass, and `hold.rs` the room that is still
//!   occupied until the next wave.
//! - `dense.rs` converts the cell to an instance of machine reassignment, for annealing.
//! - `sweep.rs` determines the order of the tasks, `search.rs` finds a machine for one task, and `exchange.rs` moves
//!   two tasks together.
//! - `score.rs` has the score by which schedulers place new tasks according to the objectives.
//! - [`carry`] applies a wave. `pursue.rs` applies a plan, and makes new plans after conflicts.

mod account;
pub mod aims;
mod budget;
pub mod carry;
mod dense;
mod exchange;
mod hold;
pub mod objective;
pub mod plan;
mod pursue;
mod score;
mod search;
mod sweep;
mod valuation;

pub use budget::Bounds;
pub use carry::{Done, Fate};
pub use objective::{Costs, Objectives, Pair, Ratio, Safety, Term};
pub use plan::{Ended, Hindrance, Move, Picture, Plan, Step, Stuck, Why};
pub use pursue::{Pursued, Pursuit};
pub use score::ObjectivesScore;

use crate::explain::{Explanation, explain};
use crate::framework::disruption::DisruptionBudget;
use crate::framework::profile::Profile;
use dense::Dense;
use omega_cellstate::{CellHandle, HandleError, View};
use omega_core::{JobKind, KindId, Text};
use search::Search;
use sweep::Sweep;

/// Settings of a rebalancer.
#[derive(Debug)]
pub struct Settings {
    /// The scheduler name under which the rebalancer commits.
    pub name: Text,
    /// Objectives by which placements are compared.
    pub objectives: Objectives,
    /// Limits on disturbance and on the search.
    pub bounds: Bounds,
    /// Disruption budgets to respect.
    pub disruptions: Vec<DisruptionBudget>,
    /// Transient kinds: a moving task occupies them on both machines until the move is done.
    pub transient: Vec<KindId>,
    /// Type of the jobs (service or batch) whose tasks may move; `None` allows both.
    pub only: Option<JobKind>,
    /// Profile. A machine must pass the profile's filters and the cell's check. The profile's scores are not used.
    pub profile: Profile,
    /// Number of feasible machines that are compared for a task. For misplaced tasks, all feasible machines are
    /// compared.
    pub machines_each: usize,
    /// Whether two tasks may exchange their machines if no single move gains.
    pub exchanges: bool,
    /// Seed of the search. Equal seeds and equal cells give equal plans.
    pub seed: u64,
}

impl Settings {
    /// Returns settings with the cell's own filters and without transient kinds. With these settings, a pass may move
    /// tasks of all jobs, compares 64 machines for each task, and has the default bounds.
    #[must_use]
    pub fn new(objectives: Objectives) -> Settings {
        Settings {
            name: "rebalance".into(),
            objectives,
            bounds: Bounds::default(),
            disruptions: Vec::new(),
            transient: Vec::new(),
            only: None,
            profile: Profile::first_fit(),
            machines_each: 64,
            exchanges: true,
            seed: 1,
        }
    }
}

/// Parameters of annealing, with its clock.
pub struct Annealing<'a> {
    /// Seed, number of walks and budget.
    pub settings: omega_reassign::Settings,
    /// Clock and observer.
    pub watch: &'a dyn omega_reassign::Watch,
}

/// Finds the best assignment of an instance, and moves tasks towards it. Does nothing if an instance cannot express the
/// cell.
fn anneal(search: &mut Search<'_>, annealing: Annealing<'_>) {
    let Some(dense) = Dense::new(search) else { return };
    // If costs are too large for an instance, annealing is skipped, and only the search of the pass is used.
    if let Ok((moves, tried)) = dense.solve(annealing.settings, annealing.watch) {
        search.annealed = tried;
        dense::follow(search, moves);
    }
}

/// A scheduler that plans and applies moves.
#[derive(Debug)]
pub struct Rebalancer {
    view: View,
    settings: Settings,
}

impl Rebalancer {
    /// Registers a rebalancer with a cell.
    ///
    /// # Errors
    /// If the cell cannot be reached or rejects the name.
    pub fn new(
        cell: &(impl CellHandle + ?Sized),
        settings: Settings,
    ) -> Result<Rebalancer, HandleError> {
        let (id, number) = cell.register(settings.name.clone())?;
        let mut view = View::new(id, number).with_placements();
        settings.disruptions.iter().for_each(|budget| view.count_tasks(&budget.set));
        Ok(Rebalancer { view, settings })
    }

    /// The rebalancer's view of the cell, as of the last plan or the last applied wave.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Settings of this rebalancer.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Syncs the view, and plans moves without changing the cell.
    ///
    /// `go_on` is called before each machine and returns whether to continue. If it returns false, the plan has the
    /// moves found so far.
    ///
    /// # Errors
    /// If the cell cannot be reached.
    pub fn plan(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Plan, HandleError> {
        self.plan_with(cell, None, go_on)
    }

    /// Plans like [`Rebalancer::plan`], but first searches by annealing, if an instance of machine reassignment can
    /// express the cell's rules and objectives. The plan then begins with moves towards the best assignment found.
    ///
    /// # Errors
    /// If the cell cannot be reached.
    pub fn plan_annealed(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        annealing: Annealing<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Plan, HandleError> {
        self.plan_with(cell, Some(annealing), go_on)
    }

    fn plan_with(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        annealing: Option<Annealing<'_>>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Plan, HandleError> {
        self.sync(cell)?;
        let disruptions = self.settings.disruptions.iter().map(|budget| budget.now(&self.view));
        let disruptions = disruptions.collect();
        let mut search = Search::new(&mut self.view, &self.settings, disruptions);
        let before = search.account.costs().clone();
        let first = search.account.picture(search.view);
        let misplaced = search.misplaced.len();
        if let Some(annealing) = annealing {
            anneal(&mut search, annealing);
        }
        let mut sweep = Sweep::default();
        let ended = sweep.run(&mut search, go_on);
        let (stuck, hindered) = sweep.into_hindrances(&search);
        let after = search.account.costs().clone();
        let pictures = [first, search.account.picture(search.view)];
        let considered = search.considered + search.annealed;
        let mut waves = std::mem::take(&mut search.done);
        waves.push(std::mem::take(&mut search.wave));
        waves.retain(|wave| !wave.is_empty());
        search.restore();
        let tasks = (0..self.view.rows()).map(|row| self.view.tasks_on(row).len()).sum();
        let objectives = self.settings.objectives.clone();
        Ok(Plan {
            objectives,
            before,
            after,
            pictures,
            waves,
            stuck,
            hindered,
            tasks,
            misplaced,
            considered,
            ended,
        })
    }

    /// Applies a plan, wave by wave, without a pause between them. If tasks take long to start, call
    /// [`Rebalancer::apply_plan_wave`] for each wave instead, as soon as the tasks moved by the previous wave run.
    ///
    /// # Errors
    /// If the cell cannot be reached; steps before the failure remain applied.
    pub fn apply_plan(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        plan: &Plan,
    ) -> Result<Done, HandleError> {
        let mut done = Done::default();
        for wave in &plan.waves {
            done.fates.extend(self.apply_plan_wave(cell, wave)?);
        }
        Ok(done)
    }

    /// Applies the steps of one wave, and returns the fate of each step.
    ///
    /// # Errors
    /// As for [`Rebalancer::apply_plan`].
    pub fn apply_plan_wave(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        steps: &[Step],
    ) -> Result<Vec<Fate>, HandleError> {
        carry::wave(self, cell, steps)
    }

    /// Syncs the view, and returns the present cost of each term. The terms of moves are zero.
    ///
    /// # Errors
    /// If the cell cannot be reached.
    pub fn measure(&mut self, cell: &(impl CellHandle + ?Sized)) -> Result<Costs, HandleError> {
        self.sync(cell)?;
        let mut search = Search::new(&mut self.view, &self.settings, Vec::new());
        let costs = search.account.costs().clone();
        search.restore();
        Ok(costs)
    }

    /// Explains why no machine in the view accepts a task that stays. The explanation has the reasons of the check and
    /// of the filters, each with the number of machines that it excludes.
    ///
    /// Returns `None` if the task no longer runs on its machine.
    #[must_use]
    pub fn explain(&mut self, stuck: &Stuck) -> Option<Explanation> {
        let row = stuck.machine.row();
        let task = *self.view.tasks_on(row).iter().find(|task| task.id == stuck.task)?;
        let job = self.view.job_of(task.id)?.clone();
        let group = self.view.compile(task.id.job, &job, usize::from(task.group));
        self.view.lift(row, task);
        let explanation = explain(&self.view, &self.settings.profile, group);
        self.view.put_back(row, task);
        self.view.forget_job(task.id.job);
        Some(explanation)
    }

    fn sync(&mut self, cell: &(impl CellHandle + ?Sized)) -> Result<(), HandleError> {
        self.view.sync(cell)?;
        if self.view.delta().full {
            self.settings.profile.prepare(&mut self.view);
        }
        Ok(())
    }
}
