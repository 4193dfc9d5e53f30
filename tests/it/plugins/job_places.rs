//! Counts of each job's tasks by machine, as views keep them, compared with a recount after claims, evictions,
//! conflicts and syncs; and the plugins that use these counts, compared with their formulas.

use crate::cell::histories::seeds;
use crate::cell::small::{self, add_machine, amounts, submit};
use omega_cellstate::{Cell, CellHandle, GroupRef, Interest, SharedCell, View};
use omega_core::{
    Amounts, Command, Job, JobId, Kinds, Labels, Machine, MachineId, Precedence, Spread, TaskGroup,
    TaskId, TaskReport, TaskRule, TaskSelector, TaskState, TopologyLevel, WhenUnsatisfiable,
};
use omega_schedulers::appraise::{appraise_filter, appraise_relative};
use omega_schedulers::plugins::{SelectorSpread, ServiceAffinity};
use omega_schedulers::{Filter, RelativeScore};
use omega_tests::random::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const TASKS: u32 = 12;

/// A cell with jobs of some tasks each, and a view that counts the tasks by machine.
struct World {
    cell: SharedCell,
    view: View,
    dice: Dice,
    machines: Vec<Machine>,
    jobs: Vec<(JobId, Arc<Job>)>,
    /// The view's unanswered claims, with their evictions.
    open: Vec<(TaskId, usize, Vec<TaskId>)>,
    /// Machine of each task at the last sync.
    seen: BTreeMap<TaskId, usize>,
    seed: u64,
}

fn random_machine(dice: &mut Dice, index: usize) -> Machine {
    let mut machine = Machine::new(format!("m{index}"), amounts(6));
    let mut labels = Vec::new();
    for (key, values) in [("zone", &["z0", "z1", "z2"]), ("rack", &["r0", "r1", "r2"])] {
        if dice.chance(80) {
            labels.push((key, *dice.pick(values)));
        }
    }
    machine.labels = Labels::new(labels);
    machine
}

fn random_job(dice: &mut Dice, index: usize) -> Job {
    let mut group = TaskGroup::new(TASKS, Amounts::new([1000]));
    if dice.chance(30) {
        let spread = Spread::new(TaskSelector::SameGroup, TopologyLevel::Machine, 1);
        let when = WhenUnsatisfiable::ScheduleAnyway;
        group.rules.tasks.push(TaskRule::Spread(Spread { when, ..spread }));
    }
    let precedence = Precedence(if dice.chance(50) { 0 } else { 10 });
    Job { precedence, ..Job::batch(format!("j{index}"), group) }
}

impl World {
    fn new(seed: u64, keep: impl Fn(&mut View)) -> World {
        let mut dice = Dice::new(seed);
        let limit = [2, 10, 1000][dice.below(3)];
        let cell = SharedCell::new(Cell::with_change_limit(Kinds::standard(), limit));
        let machines: Vec<_> =
            (0..4 + dice.below(80)).map(|i| random_machine(&mut dice, i)).collect();
        for machine in &machines {
            add_machine(&cell, machine.clone());
        }
        let (id, number) = cell.register("s".into()).unwrap();
        let mut view = View::new(id, number).with_interest(Interest::AllJobs).with_placements();
        keep(&mut view);
        let (jobs, open, seen) = Default::default();
        World { cell, view, dice, machines, jobs, open, seen, seed }
    }

    fn sync(&mut self) {
        self.view.sync(&self.cell).unwrap();
        self.seen.clear();
        for (job, _) in &self.jobs {
            let tasks = self.cell.read(|cell| cell.tasks(*job).collect::<Vec<_>>());
            let placed = tasks.into_iter().filter_map(|(id, state)| Some((id, state.machine()?)));
            self.seen.extend(placed.map(|(id, machine)| (id, machine.row())));
        }
        // If the victim of a claim has ended by itself, the claim no longer evicts a task.
        for (_, row, victims) in &mut self.open {
            victims.retain(|victim| self.seen.get(victim) == Some(row));
        }
    }

    fn machine(&self, row: usize) -> MachineId {
        self.view.machine_id(row)
    }

    fn some_row(&mut self) -> usize {
        self.dice.below(self.machines.len())
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..8 if self.jobs.len() < 5 => {
                let job = random_job(&mut self.dice, self.jobs.len());
                let id = submit(&self.cell, job);
                let job = self.cell.read(|cell| cell.job(id).unwrap().clone());
                self.jobs.push((id, job));
            }
            0..35 => self.adopt(),
            35..50 => self.report(),
            50..60 => self.change_machine(),
            60..85 => self.claim(),
            85..95 => self.answer(),
            _ if self.dice.chance(10) => self.kill(),
            _ => self.sync(),
        }
    }

    fn some_task(&mut self) -> Option<(TaskId, Arc<Job>)> {
        let (id, job) = self.jobs.get(self.dice.below(self.jobs.len().max(1)))?.clone();
        Some((small::task(id, self.dice.below(TASKS as usize) as u32), job))
    }

    /// Places a task by adoption, in which the view's scheduler takes no part.
    fn adopt(&mut self) {
        let Some((task, _)) = self.some_task() else { return };
        let row = self.some_row();
        if row < self.view.rows() {
            let _ = self.cell.apply(Command::AdoptTask { task, machine: self.machine(row) });
        }
    }

    fn report(&mut self) {
        let Some((task, _)) = self.some_task() else { return };
        let state = self.cell.read(|cell| cell.task(task));
        let Some(machine) = state.and_then(TaskState::machine) else { return };
        let report = *self.dice.pick(&[TaskReport::Finished, TaskReport::Lost]);
        self.cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report }).unwrap();
    }

    fn change_machine(&mut self) {
        let row = self.some_row();
        if row >= self.view.rows() {
            return;
        }
        let id = self.machine(row);
        let machine = random_machine(&mut self.dice, row);
        if self.dice.chance(70) {
            if self.cell.apply(Command::UpdateMachine { id, machine: machine.clone() }).is_ok() {
                self.machines[row] = machine;
            }
        } else if self.cell.apply(Command::RemoveMachine { id }).is_ok() {
            add_machine(&self.cell, machine.clone());
            self.machines[row] = machine;
        }
    }

    fn kill(&mut self) {
        let at = self.dice.below(self.jobs.len().max(1));
        let Some((job, _)) = self.jobs.get(at).cloned() else { return };
        // A scheduler removes a job from its view once all of the job's claims have results.
        if self.open.iter().all(|(task, ..)| task.job != job) {
            let _ = self.cell.apply(Command::KillJob { job });
        }
    }

    fn claim(&mut self) {
        let Some((task, job)) = self.some_task() else { return };
        let row = self.some_row();
        let is_open = self.open.iter().any(|(open, ..)| *open == task);
        if row >= self.view.rows() || is_open || self.seen.contains_key(&task) {
            return;
        }
        let group = self.view.compile(task.job, &job, 0);
        let lower =
            self.view.tasks_on(row).iter().find(|victim| {
                victim.precedence < job.precedence && !self.view.is_evicted(victim.id)
            });
        let victims: Vec<_> = lower.filter(|_| self.dice.chance(50)).copied().into_iter().collect();
        let machine = self.machine(row);
        if self.view.claim_evicting(task, machine, group, &victims).is_ok() {
            self.open.push((task, row, victims.iter().map(|victim| victim.id).collect()));
        }
    }

    /// Delivers or loses the result of the transaction, or drops the last claim.
    fn answer(&mut self) {
        match self.dice.below(4) {
            0 => {
                self.view.drop_claims(1);
                self.open.pop();
                return;
            }
            1 if self.view.open_claims() > 0 => {
                let txn = self.view.take_transaction();
                self.view.abandon(&txn);
            }
            _ if self.view.open_claims() > 0 => {
                let txn = self.view.take_transaction();
                if self.dice.chance(30) {
                    self.view.sync(&self.cell).unwrap();
                }
                let commit = self.cell.commit(&txn).unwrap();
                self.view.settle(&txn, &commit);
            }
            _ => {}
        }
        self.open.clear();
        self.sync();
    }

    /// Whether a claim is on a removed machine. Such a claim is not counted, even if another machine now has its row.
    fn any_lost(&self) -> bool {
        let claims = (0..self.view.open_claims()).filter_map(|i| self.view.open_claim(i));
        let mut machines = claims.map(|claim| claim.machine);
        machines.any(|machine| self.machine(machine.row()) != machine)
    }

    /// Counts the tasks of a job on each row again.
    fn recount(&self, job: JobId) -> BTreeMap<usize, u32> {
        let evicted: BTreeSet<_> = self.open.iter().flat_map(|(.., victims)| victims).collect();
        let seen = self.seen.iter().filter(|(task, _)| !evicted.contains(task));
        let seen = seen.map(|(task, row)| (*task, *row));
        let claimed = self.open.iter().map(|(task, row, _)| (*task, *row));
        let mut counts = BTreeMap::new();
        for (_, row) in seen.chain(claimed).filter(|(task, _)| task.job == job) {
            *counts.entry(row).or_default() += 1;
        }
        counts
    }
}

#[test]
fn places_are_those_of_a_recount() {
    for seed in seeds(200) {
        let mut world = World::new(seed, View::keep_job_places);
        world.sync();
        for step in 0..120 {
            world.step();
            while world.any_lost() {
                world.answer();
            }
            for (job, _) in &world.jobs {
                let places = world.view.places_of(*job);
                let ours: BTreeMap<usize, u32> = places.iter().collect();
                let expected = world.recount(*job);
                assert_eq!(ours, expected, "seed {} step {step} {job:?}", world.seed);
                assert_eq!(places.is_empty(), expected.is_empty());
                assert!(expected.iter().all(|(row, count)| places.on(*row) == *count));
            }
        }
    }
}

impl World {
    fn value(&self, row: usize, key: &str) -> Option<String> {
        let machine = self.view.machine(row)?;
        machine.labels.get(key).map(|value| value.to_string())
    }

    /// The scores of `selector_spread`, computed by its formula.
    fn spread(&self, job: JobId, rows: &[u32]) -> Vec<i64> {
        let on = |row: &u32| i64::from(*self.recount(job).get(&(*row as usize)).unwrap_or(&0));
        let zone = |row: &u32| self.value(*row as usize, "zone");
        let most = rows.iter().map(on).max().unwrap_or(0);
        let mut zones = BTreeMap::new();
        for row in rows {
            if let Some(zone) = zone(row) {
                *zones.entry(zone).or_insert(0) += on(row);
            }
        }
        let most_of_zone = zones.values().copied().max().unwrap_or(0);
        let share = |count: i64, most: i64| match most {
            0 => 100.0,
            most => 100.0 * ((most - count) as f64 / most as f64),
        };
        let points = rows.iter().map(|row| match zone(row) {
            None => share(on(row), most),
            Some(zone) => {
                let third = 1.0 - 2.0 / 3.0;
                share(on(row), most) * third + 2.0 / 3.0 * share(zones[&zone], most_of_zone)
            }
        });
        points.map(|points| points as i64 * 100).collect()
    }

    /// The scores of `service_affinity`, computed by its formula.
    fn apart(&self, job: JobId, rows: &[u32], keys: &[&str]) -> Vec<i64> {
        let counts = self.recount(job);
        let on = |row: &u32| i64::from(*counts.get(&(*row as usize)).unwrap_or(&0));
        let total: i64 = rows.iter().map(on).sum();
        let points = rows.iter().map(|row| {
            let of_key = |key: &&str| {
                let value = self.value(*row as usize, key)?;
                let alike =
                    |other: &&u32| self.value(**other as usize, key).as_ref() == Some(&value);
                let here: i64 = rows.iter().filter(alike).map(on).sum();
                let part = (total - here) as f64 / total.max(1) as f64;
                Some(if total == 0 { 100.0 } else { 100.0 * part } / keys.len() as f64)
            };
            keys.iter().filter_map(of_key).fold(0.0, |sum, part| sum + part)
        });
        points.map(|points| points as i64 * 100).collect()
    }

    fn check_plugins(&mut self, spread: &SelectorSpread, apart: &ServiceAffinity) {
        let rows = 0..self.machines.len() as u32;
        let rows: Vec<u32> = rows.filter(|_| self.dice.chance(80)).collect();
        for (id, job) in self.jobs.clone() {
            let group = self.view.compile(id, &job, 0);
            let context = format!("seed {} {id:?}", self.seed);
            let ours = appraise_relative(&self.view, spread, group, &rows).unwrap();
            assert_eq!(ours.scores, self.spread(id, &rows), "{context}");
            let ours = appraise_relative(&self.view, apart, group, &rows).unwrap();
            assert_eq!(ours.scores, self.apart(id, &rows, &["zone", "rack"]), "{context}");
            self.check_filter(id, group);
        }
    }

    fn check_filter(&self, job: JobId, group: GroupRef) {
        let same = ServiceAffinity::same(vec!["zone".into(), "rack".into()]);
        let refused = appraise_filter(&self.view, &same, group);
        let base = self.recount(job).keys().next().copied();
        for row in 0..self.machines.len() {
            let agrees = |key: &&str| {
                let value = base.and_then(|base| self.value(base, key));
                value.is_none() || value == self.value(row, key)
            };
            let allowed = ["zone", "rack"].iter().all(agrees);
            let ours = refused.iter().all(|refusal| refusal.row as usize != row);
            assert_eq!(ours, allowed, "seed {} {job:?} row {row}", self.seed);
        }
    }
}

#[test]
fn plugins_that_read_places_answer_as_their_formulas() {
    let spread = SelectorSpread::new("zone");
    let apart = ServiceAffinity::spreading(vec!["zone".into(), "rack".into()]);
    for seed in seeds(100) {
        let mut world = World::new(seed, |view| {
            spread.keep(view);
            Filter::keep(&ServiceAffinity::same(vec!["rack".into()]), view);
            RelativeScore::keep(&apart, view);
        });
        for _ in 0..60 {
            world.step();
        }
        world.sync();
        while world.any_lost() {
            world.answer();
        }
        world.check_plugins(&spread, &apart);
    }
}
