//! Several schedulers that evict, racing in a random history. In the end no task is pending that an eviction would
//! help, no task is lost, and no budget was violated without need.

use crate::cell::histories::seeds;
use crate::cell::small::{LONG, assert_settled, cell_that_remembers, run};
use crate::scheduling::wakes::History;
use omega_cellstate::{Cell, CellHandle, CommitHook, PlacedTask, SharedCell, TaskSet, View};
use omega_core::{
    Command, JobId, Labels, Preemption, Requirement, SchedulerId, TaskId, TaskReport, TaskState,
    Transaction,
};
use omega_schedulers::disruption::{DisruptionBudget, Keep, Share};
use omega_schedulers::plugins::{CandidateMachines, DefaultPreemption};
use omega_schedulers::preemption::{Budget, Preemptor};
use omega_schedulers::{
    Events, Lack, MadeRoom, News, PostFilter, Profile, Scheduler, Search, Settings, Tasks,
    Unobserved,
};
use omega_tests::random::Dice;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of successful plans. The next counter is the number of these plans that violated a budget.
static MADE: AtomicUsize = AtomicUsize::new(0);
static BROKEN: AtomicUsize = AtomicUsize::new(0);

/// The plugin, with a check that compares its answers with a recount of the budgets.
struct Checked {
    plugin: DefaultPreemption,
    budgets: Vec<DisruptionBudget>,
    cell: SharedCell,
}

impl Checked {
    /// Counts the budgets in the cell again. The view was just synced, so it equals the cell.
    fn recount(&self, view: &View) -> Vec<Budget> {
        let budget = |budget: &DisruptionBudget| {
            let of = |id: TaskId| {
                self.cell.read(|cell| {
                    let group = cell.task_group(id).unwrap();
                    budget.set.includes(cell.job(id.job).unwrap(), group)
                })
            };
            let states: Vec<(TaskId, TaskState)> = self
                .cell
                .read(|cell| cell.jobs().flat_map(|(id, _)| cell.tasks(id)).collect::<Vec<_>>());
            let mine = || states.iter().filter(|(id, _)| of(*id));
            let alive = mine().filter(|(_, state)| !state.ended()).count();
            let placed = mine().filter(|(_, state)| state.machine().is_some()).count();
            let going = view.evicted().filter(|task| of(task.id)).count();
            let up = match budget.keep {
                Keep::MinAvailable(Share::Tasks(count)) => count as usize,
                Keep::MaxUnavailable(Share::Percent(p)) => {
                    alive - (alive * p as usize).div_ceil(100)
                }
                _ => unreachable!("the test has no such budgets"),
            };
            let allowed = (placed - going).saturating_sub(up) as u32;
            Budget { tasks: budget.set.clone(), allowed }
        };
        self.budgets.iter().map(budget).collect()
    }
}

impl PostFilter for Checked {
    fn name(&self) -> &'static str {
        "checked"
    }

    fn keep(&self, view: &mut View) {
        self.plugin.keep(view);
    }

    fn wakes_on(&self, tasks: &Tasks<'_>, all: Events) -> Events {
        self.plugin.wakes_on(tasks, all)
    }

    fn may_help(&self, tasks: &Tasks<'_>, news: &News<'_>) -> bool {
        self.plugin.may_help(tasks, news)
    }

    fn make_room(&mut self, view: &mut View, lack: &Lack<'_>) -> Option<MadeRoom> {
        let made = self.plugin.make_room(view, lack)?;
        let budgets = self.recount(view);
        let Lack { evaluator, group, .. } = *lack;
        let preemptor = Preemptor { evaluator, group, budgets: &budgets, expected: &[] };
        let all = preemptor.candidates(view, 0, usize::MAX);
        let chosen = all.iter().find(|candidate| candidate.row == made.machine.row());
        let chosen = chosen.expect("what it takes is a candidate");
        assert_eq!(chosen.victims.as_slice(), made.evictions.as_slice());
        assert!(made.evictions.iter().all(|task| task.precedence < lack.job.precedence));
        let least = all.iter().map(|candidate| candidate.violations).min();
        assert_eq!(Some(chosen.violations), least, "a budget was broken without need");
        MADE.fetch_add(1, Ordering::Relaxed);
        BROKEN.fetch_add(chosen.violations.min(1), Ordering::Relaxed);
        Some(made)
    }
}

fn budgets(dice: &mut Dice) -> Vec<DisruptionBudget> {
    let budget = |app: &str, keep| {
        let requirements = vec![Requirement::equals("app", app)];
        let tasks = omega_core::LabelSelector { requirements };
        DisruptionBudget { set: TaskSet { tenant: "default".into(), tasks }, keep }
    };
    let min = Keep::MinAvailable(Share::Tasks(1 + dice.below(3) as u32));
    let max = Keep::MaxUnavailable(Share::Percent(30));
    vec![budget("a", min), budget("b", max)]
}

fn scheduler(cell: &SharedCell, (seed, index): (u64, u32), takes: &str, of: u32) -> Scheduler {
    let mut dice = Dice::new(seed);
    let budgets = budgets(&mut dice);
    let plugin = DefaultPreemption::new(CandidateMachines::default(), budgets.clone());
    let base = [Profile::first_fit, Profile::batch, Profile::service][(seed % 3) as usize];
    let profile = base().with_post_filter(Checked { plugin, budgets, cell: cell.clone() });
    let settings = Settings::worker(takes, index, of).with_seed(seed);
    let mut settings = settings.with_search(Search::Full);
    settings.claims_max = *dice.pick(&[1, 5, 100]);
    settings.commits_in_flight = *dice.pick(&[1, 2, 5]);
    Scheduler::new(cell, profile, settings).unwrap()
}

/// Rows of the machines that would accept a task if all their less important tasks were removed, tested on copies of
/// the cell.
fn rows_after_eviction(cell: &SharedCell, view: &mut View, id: (JobId, usize)) -> Vec<usize> {
    let job = cell.read(|cell| cell.job(id.0).unwrap().clone());
    let helps = |row: &usize| {
        let lower = |task: &&PlacedTask| task.precedence < job.precedence;
        let lower: Vec<TaskId> =
            view.tasks_on(*row).iter().filter(lower).map(|task| task.id).collect();
        let mut copy = cell.read(Cell::clone);
        for task in lower {
            let machine = copy.task(task).and_then(TaskState::machine).unwrap();
            copy.apply(Command::ReportTask {
                task,
                machine,
                placed_ms: 0,
                report: TaskReport::Lost,
            })
            .unwrap();
        }
        let mut without = View::new(SchedulerId(0), 0);
        without.sync(&SharedCell::new(copy)).unwrap();
        let group = without.compile(id.0, &job, id.1);
        without.check_fit(*row, group).is_ok()
    };
    (0..view.rows()).filter(helps).collect()
}

fn nobody_waits_unschedulable(cell: &SharedCell, seed: u64) {
    let mut view = View::new(SchedulerId(0), 0).with_placements();
    view.sync(cell).unwrap();
    let jobs: Vec<_> = cell.read(|cell| cell.jobs().map(|(id, job)| (id, job.clone())).collect());
    for (id, job) in jobs {
        if job.gang_min.is_some() || job.preemption == Preemption::Never {
            continue;
        }
        let pending = |group: &usize| {
            cell.read(|cell| {
                let mut tasks = cell.tasks(id).filter(|task| task.1 == TaskState::Pending);
                tasks.any(|(task, _)| cell.task_group(task) == Some(*group))
            })
        };
        for group in (0..job.groups.len()).filter(pending) {
            let rows = rows_after_eviction(cell, &mut view, (id, group));
            assert!(rows.is_empty(), "seed {seed}: {id:?} group {group} could evict: {rows:?}");
        }
    }
}

/// Checks that every task that has not ended is placed or pending, and that the number of these tasks is the requested
/// number.
fn nothing_is_lost(cell: &SharedCell, seed: u64) {
    cell.read(Cell::audit).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let placed: usize = cell.read(|cell| cell.machines().map(|m| m.tasks.len()).sum());
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    cell.read(|cell| {
        for (_, state) in cell.jobs().flat_map(|(id, _)| cell.tasks(id)) {
            let name = match state {
                TaskState::Pending => "pending",
                state if state.ended() => "ended",
                _ => "placed",
            };
            *states.entry(name).or_default() += 1;
        }
    });
    assert_eq!(states.get("placed").copied().unwrap_or(0), placed, "seed {seed}");
}

#[test]
fn in_the_end_nobody_waits_whom_an_eviction_would_help() {
    for seed in seeds(400) {
        let mut dice = Dice::new(seed ^ 0xE71C);
        let cell = cell_that_remembers(if seed % 4 == 0 { 4 } else { 1000 }, &[]);
        let mut history = History::new(&cell, seed);
        let mut first = scheduler(&cell, (seed, 0), "default", 2);
        let second = scheduler(&cell, (seed, 1), "default", 2);
        let mut third = scheduler(&cell, (seed, 0), "other", 1);
        let other = Mutex::new((second, Dice::new(seed)));
        let now = AtomicU64::new(0);
        let commit = |cell: &SharedCell, txn: &Transaction| {
            // Another scheduler sometimes commits first.
            let (other, dice) = &mut *other.lock().unwrap();
            if dice.chance(60) {
                other.step(cell, now.load(Ordering::Relaxed), &mut Unobserved).unwrap();
            }
            cell.commit(txn)
        };
        let race = CommitHook::new(&cell, |cell: &SharedCell, txns: &[&Transaction]| {
            txns.iter().map(|txn| commit(cell, txn)).collect()
        });
        for round in 0..40 {
            history.step();
            now.store(round * 700_000, Ordering::Relaxed);
            for scheduler in [&mut first, &mut third] {
                if dice.chance(50) {
                    scheduler.step(&race, round * 700_000, &mut Unobserved).unwrap();
                }
            }
        }
        let (second, _) = other.into_inner().unwrap();
        let mut schedulers = [first, second, third];
        // Evicted tasks may in turn evict less important ones.
        for round in 1..12 {
            for scheduler in &mut schedulers {
                run(scheduler, &cell, round * LONG);
            }
        }
        let before = cell.read(Cell::version);
        for scheduler in &mut schedulers {
            assert_settled(scheduler, &cell, 20 * LONG);
        }
        assert_eq!(cell.read(Cell::version), before, "seed {seed}: there is an end to it");
        nothing_is_lost(&cell, seed);
        nobody_waits_unschedulable(&cell, seed);
    }
    let (made, broken) = (MADE.load(Ordering::Relaxed), BROKEN.load(Ordering::Relaxed));
    println!("room was made {made} times, {broken} times against a budget");
    assert!(made > 300 && broken > 30 && made > 2 * broken, "it is tried often: {made}, {broken}");
}

/// Checks that the budgets select jobs of the history by their labels.
#[test]
fn the_budgets_of_the_test_speak_of_its_tasks() {
    let labels = Labels::new([("app", "a")]);
    let speaks = |budget: &DisruptionBudget| budget.set.tasks.matches(&labels);
    assert!(budgets(&mut Dice::new(1)).iter().any(speaks));
}
