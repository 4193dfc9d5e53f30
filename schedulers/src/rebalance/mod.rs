//! Rescheduling: a pass that finds better machines for tasks that run.
//!
//! ```text
//!            sync                      plan                           carry out
//!   cell ───────────▶ view ──▶ what does it cost? ──▶ waves of steps ──────────▶ cell
//!                              which move gains?       release + claim,          judges each,
//!                              until nothing does,     all or nothing            or says why not
//!                              or a bound is reached
//! ```
//!
//! A move is an ordinary transaction: it releases a task and claims another machine for it, all of it or
//! nothing. The cell judges it as it judges every claim, so a pass that is wrong breaks no rule: it conflicts.
//! What is better is said by [`Objectives`]: weighted costs of load above a safety level, of imbalance, of fragments,
//! of crowding, and of moving ([`objective`]). What a pass may disturb is bounded ([`Bounds`]).
//!
//! A scheduler of the name `rebalance` looks at every job, whoever placed it, and asks the filters of one profile.
//!
//! - [`objective`]: the terms; `account.rs`: the same, kept up with each move.
//! - [`plan`]: what is proposed; `budget.rs`, `hold.rs`: what is not allowed, and what not yet.
//! - `dense.rs`: the cell as an instance of machine reassignment, for annealing.
//! - `search.rs`, `sweep.rs`, `exchange.rs`: what is looked at, in which order; moves of two tasks.
//! - [`carry`]: what becomes of it; `pursue.rs`: until its end, through failures and conflicts.

mod account;
mod budget;
pub mod carry;
mod dense;
mod exchange;
mod hold;
pub mod objective;
pub mod plan;
mod pursue;
mod search;
mod sweep;

pub use budget::Bounds;
pub use carry::{Done, Fate};
pub use objective::{Costs, Objectives, Pair, Safety, Term};
pub use plan::{Ended, Hindrance, Move, Picture, Plan, Step, Stuck, Why};
pub use pursue::{Pursued, Pursuit};

use crate::disruption::DisruptionBudget;
use crate::explain::{Explanation, explain};
use crate::profile::Profile;
use dense::Dense;
use omega_cellstate::{CellHandle, HandleError, View};
use omega_core::{JobKind, KindId, Text};
use search::Search;
use sweep::Sweep;

/// Settings of a rebalancer.
#[derive(Debug)]
pub struct Settings {
    /// The name under which it commits.
    pub name: Text,
    /// Objectives to improve.
    pub objectives: Objectives,
    /// Amount that it may disturb, and how far it looks.
    pub bounds: Bounds,
    /// Number of tasks of a set that may be down at once.
    pub disruptions: Vec<DisruptionBudget>,
    /// Kinds of which a task has its part of both machines until its move is done.
    pub transient: Vec<KindId>,
    /// Only tasks of jobs of this kind move; `None` is all.
    pub only: Option<JobKind>,
    /// The filters that must allow a machine beside the cell's judge. Scores are not asked.
    pub profile: Profile,
    /// Number of machines that would take a task are looked at, before the best of them is taken. For tasks
    /// that must leave it is all.
    pub machines_each: usize,
    /// Whether two tasks may change places where no single move gains.
    pub exchanges: bool,
    /// The seed of where it looks. The same seed on the same cell gives the same plan.
    pub seed: u64,
}

impl Settings {
    /// The cell's own filters, no transient kinds, all jobs, 64 machines for each task, and the default bounds.
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
    /// Seed, walks and budget.
    pub settings: omega_reassign::Settings,
    /// Clock and observer.
    pub watch: &'a dyn omega_reassign::Watch,
}

/// Moves tasks towards the best assignment of an instance, if the cell can be said as one.
fn anneal(search: &mut Search<'_>, annealing: Annealing<'_>) {
    let Some(dense) = Dense::new(search) else { return };
    // Costs that are too large for an instance leave the cell to the other moves.
    if let Ok((moves, tried)) = dense.solve(annealing.settings, annealing.watch) {
        search.annealed = tried;
        dense::follow(search, moves);
    }
}

/// Makes plans for a cell, and carries them out. See the head of the file.
#[derive(Debug)]
pub struct Rebalancer {
    view: View,
    settings: Settings,
}

impl Rebalancer {
    /// Registers with a cell.
    ///
    /// # Errors
    /// If the cell cannot be reached or refuses the name.
    pub fn new(
        cell: &(impl CellHandle + ?Sized),
        settings: Settings,
    ) -> Result<Rebalancer, HandleError> {
        let (id, number) = cell.register(settings.name.clone())?;
        let mut view = View::new(id, number).with_placements();
        settings.disruptions.iter().for_each(|budget| view.count_tasks(&budget.set));
        Ok(Rebalancer { view, settings })
    }

    /// Its view of the cell: as of the last plan, or of the last wave that was applied.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Settings of this rebalancer.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Looks at the cell as it is, and proposes moves. Nothing is changed. Before each machine `go_on` is asked
    /// whether there is time; what was found until then is the plan.
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

    /// Anneals the cell first, as far as its rules and objectives can be said as an instance of machine reassignment, and
    /// proposes moves towards the best assignment; then looks for more, as [`Rebalancer::plan`] does.
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
        let (stuck, hindered) = sweep.told(&search);
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

    /// Carries a plan out, wave by wave, and waits for nothing between them: whoever has machines on which
    /// tasks take a while to start calls [`Rebalancer::apply_plan_wave`] when they run.
    ///
    /// # Errors
    /// If the cell cannot be reached; then what was taken before is done.
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

    /// Carries out the steps of one wave. The answer has one fate for each.
    ///
    /// # Errors
    /// As [`Rebalancer::apply_plan`].
    pub fn apply_plan_wave(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        steps: &[Step],
    ) -> Result<Vec<Fate>, HandleError> {
        carry::wave(self, cell, steps)
    }

    /// Costs of the terms in the cell as it is now, those of moving aside: nothing has moved.
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

    /// Why no machine takes a task that stays, as the view knows: the judge's reasons and the filters', each
    /// with how many machines it rules out. `None` if the task runs there no more.
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
