//! The objective of a rebalancing pass, computed naively from the cell's list of placed tasks; and passes on random
//! cells, which are compared with it after each step.
//!
//! `OMEGA_SEED=7 cargo test -p omega-tests rebalance` runs a single history.

use crate::cell::histories::seeds;
use crate::cell::small::submit;
use crate::cell::views::World;
use crate::rebalancing::rebalance_objectives::objectives;
use omega_cellstate::{Cell, CellHandle, MachineStatus, SharedCell, View};
use omega_core::{
    Amounts, Command, DeviceRequest, Job, JobId, KindId, Kinds, Labels, Machine, MachineId,
    Outcome, Reason, SchedulerId, TaskGroup, TaskId, TaskRule, TaskSelector, Text, TopologyLevel,
};
use omega_schedulers::rebalance::aims::curve::Point;
use omega_schedulers::rebalance::aims::machines::{MachineAims, MachineSet};
use omega_schedulers::rebalance::aims::rules::{Limit, Rule};
use omega_schedulers::rebalance::objective::{MACHINE, MOVE, PAIR, PARTS_MAX};
use omega_schedulers::rebalance::{
    Bounds, Fate, Move, Objectives, Plan, Ratio, Rebalancer, Settings, Step, Why,
};
use omega_tests::random::Dice;
use omega_tests::reference::claimed_together;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Capacity of a machine in each kind, and the claims of its tasks.
struct Use<'c> {
    id: MachineId,
    takes_tasks: bool,
    claimable: Vec<i128>,
    claimed: Vec<i128>,
    /// The groups of the machine's tasks.
    groups: Vec<Cow<'c, TaskGroup>>,
}

fn request(job: &Job, group: usize, kind: usize) -> i128 {
    i128::from(job.groups[group].request.get(KindId(kind as u8)))
}

/// Every running task, with its group and machine.
pub(crate) fn running(cell: &Cell) -> Vec<(TaskId, usize, MachineId)> {
    let tasks = cell.jobs().flat_map(|(id, _)| cell.tasks(id));
    let placed = tasks.filter_map(|(id, state)| Some((id, state.machine()?)));
    placed.map(|(id, machine)| (id, cell.task_group(id).unwrap(), machine)).collect()
}

fn uses(cell: &Cell) -> Vec<Use<'_>> {
    let kinds = cell.kinds().count();
    let tasks = running(cell);
    let of = |state: omega_cellstate::MachineState<'_>| {
        let here = tasks.iter().filter(|(.., machine)| *machine == state.id);
        let group = |(task, group, _): &(TaskId, usize, _)| {
            let group = &cell.job(task.job).unwrap().groups[*group];
            match cell.task_allocation_override(*task) {
                Some(held) => Cow::Owned(TaskGroup::new(1, held)),
                None => Cow::Borrowed(&**group),
            }
        };
        let groups: Vec<Cow<'_, TaskGroup>> = here.map(group).collect();
        Use {
            id: state.id,
            takes_tasks: state.status == MachineStatus::Schedulable,
            claimable: state.claimable.iter().map(|amount| i128::from(*amount)).collect(),
            claimed: (0..kinds).map(|kind| claimed_together(&groups, kind)).collect(),
            groups,
        }
    };
    cell.machines().map(of).collect()
}

/// Mean capacity in a kind of the machines that have the kind. [`parts`] expresses amounts as millionths of this mean.
fn mean(uses: &[Use<'_>], kind: usize) -> i128 {
    let some: Vec<i128> = uses.iter().map(|u| u.claimable[kind]).filter(|c| *c > 0).collect();
    if some.is_empty() { 1 } else { (some.iter().sum::<i128>() / some.len() as i128).max(1) }
}

fn parts(amount: i128, of: i128) -> i128 {
    (amount.max(0) * i128::from(MACHINE) / of).min(i128::from(PARTS_MAX))
}

/// Whether the machine would reject the task by its labels and taints.
fn is_misplaced(cell: &Cell, task: TaskId, machine: MachineId) -> bool {
    let mut alone = cell.clone();
    // If no other task runs and the task fits, only the machine itself can reject it.
    let others: Vec<JobId> = alone.jobs().map(|(id, _)| id).collect();
    let mut job = (**cell.job(task.job).unwrap()).clone();
    let group = cell.task_group(task).unwrap();
    others.into_iter().for_each(|job| drop(alone.apply(Command::KillJob { job })));
    // Reservations are removed, because tasks that already run stay on a reserved machine.
    let reserved: Vec<_> = alone.reservations().map(|one| one.name.clone()).collect();
    reserved.into_iter().for_each(|name| drop(alone.apply(Command::Unreserve { name })));
    job.name = "alone".into();
    (job.gang_min, job.gang_timeout_ms) = (None, None);
    job.tenant = "a tenant without a quota".into();
    job.groups = [job.groups[group].clone()].into();
    job.groups[0].count = 1;
    job.groups[0].request = Amounts::zero();
    (job.groups[0].devices, job.groups[0].cores) = (None, None);
    job.groups[0].cluster_request = Amounts::zero();
    job.groups[0].demand_profiles.clear();
    job.groups[0].rules.tasks.clear();
    job.groups[0].rules.ports.clear();
    job.groups[0].any_ports.clear();
    // `per_machine` is switched off, because it requires a rule, and the rules are removed here.
    job.groups[0].per_machine = false;
    job.groups[0].version = Default::default();
    // The program is removed, because it may refer to ports that are removed here.
    job.groups[0].run = None;
    let id = match alone.apply(Command::SubmitJob(job)) {
        Ok(Outcome::Job(id)) => id,
        answer => panic!("a job that was there is not taken again: {answer:?}"),
    };
    let shared = SharedCell::new(alone);
    let spec = shared.read(|cell| cell.job(id).unwrap().clone());
    let mut view = View::new(SchedulerId(0), 0);
    view.sync(&shared).unwrap();
    let group = view.compile(id, &spec, 0);
    view.check_fit(machine.row(), group).is_err()
}

/// The weighted costs of the present cell, without the costs of moves.
pub(crate) fn naive(cell: &Cell, objectives: &Objectives) -> i128 {
    let uses = uses(cell);
    let kinds = cell.kinds().count();
    let means: Vec<_> = (0..kinds).map(|kind| (kind, mean(&uses, kind))).collect();
    let mut sum = 0;
    for u in uses.iter().filter(|u| u.takes_tasks) {
        let mut fullest = 0;
        for (kind, mean) in means.iter().copied() {
            let weight = i128::from(objectives.safety(KindId(kind as u8)).weight);
            let uses = uses_over_time(cell, objectives, u, kind);
            let load = |used: &i128| parts(naive_load(cell, objectives, u, (kind, *used)), mean);
            sum += uses.iter().map(load).sum::<i128>() / uses.len() as i128 * weight;
            if u.claimable[kind] > 0 {
                fullest = fullest.max(parts(u.claimed[kind], u.claimable[kind]));
            }
        }
        let fullest = fullest.min(i128::from(MACHINE));
        let fragments = 4 * fullest * (i128::from(MACHINE) - fullest) / i128::from(MACHINE);
        sum += fragments * i128::from(objectives.fragments);
        for pair in &objectives.pairs {
            let (one, other) = (pair.free.index(), pair.beside.index());
            if one < kinds && other < kinds {
                let free = |kind: usize| parts(u.claimable[kind] - u.claimed[kind], means[kind].1);
                let wanted = match pair.ratio {
                    Ratio::Percent(percent) => free(one) * i128::from(percent) / 100,
                    Ratio::Amounts { want, per } => {
                        let units = (u.claimable[one] - u.claimed[one]).max(0);
                        parts(units * i128::from(want) / i128::from(per), means[other].1)
                    }
                };
                sum += (wanted - free(other)).max(0) * i128::from(objectives.balance);
            }
        }
        if u.claimed.iter().any(|amount| *amount > 0) {
            let percent = own(cell, objectives, u, |aims| aims.in_use).unwrap_or(100);
            sum += i128::from(percent) * i128::from(MACHINE) / 100 * i128::from(objectives.in_use);
        }
    }
    sum + naive_crowding(cell, objectives) + naive_misplaced(cell, objectives)
}

/// The value for a machine, from the last objective for single machines that includes the machine.
fn own<T>(
    cell: &Cell,
    objectives: &Objectives,
    of: &Use<'_>,
    value: impl Fn(&MachineAims) -> Option<T>,
) -> Option<T> {
    let machine = &cell.machine(of.id).unwrap().machine;
    let names = |set: &MachineSet| set.names.is_empty() || set.names.contains(&machine.name);
    let labels = |set: &MachineSet| {
        set.labels.iter().all(|(key, value)| machine.labels.get(key) == Some(value))
    };
    let aims = objectives.machines.iter().rev();
    aims.filter(|aims| names(&aims.of) && labels(&aims.of)).find_map(value)
}

/// The usage of a kind at each point in time of its demand.
fn uses_over_time(cell: &Cell, objectives: &Objectives, of: &Use<'_>, kind: usize) -> Vec<i128> {
    let demand = objectives.demand.get(&KindId(kind as u8));
    let points = demand.map_or(1, |demand| demand.points());
    let tasks = running(cell);
    let here = tasks.iter().filter(|(task, _, machine)| {
        *machine == of.id && cell.task_allocation_override(*task).is_none()
    });
    let mut uses = vec![of.claimed[kind]; points];
    for (task, group, _) in here {
        let job = cell.job(task.job).unwrap();
        let Some(profile) = demand.and_then(|demand| demand.of(&job.name)) else { continue };
        let amount = request(job, *group, kind);
        for (used, percent) in uses.iter_mut().zip(profile) {
            *used += (amount * (i128::from(*percent) - 100)).div_euclid(100);
        }
    }
    uses
}

/// The cost of a machine's load: the amount above the safety level, or by the curve.
fn naive_load(
    cell: &Cell,
    objectives: &Objectives,
    of: &Use<'_>,
    (kind, used): (usize, i128),
) -> i128 {
    let all = of.claimable[kind];
    let id = KindId(kind as u8);
    let Some(curve) = objectives.curves.get(&id) else {
        let own = own(cell, objectives, of, |aims| aims.safety.get(&id).copied());
        let percent = own.unwrap_or(objectives.safety(id).percent);
        return used - all * i128::from(percent) / 100;
    };
    // A convex function is the maximum of its lines, and of the cost of its first point.
    let [first, ..] = curve.points() else { unreachable!("a curve has points") };
    let line = |pair: &[Point]| {
        let [run, rise] = [pair[1].used - pair[0].used, pair[1].cost - pair[0].cost];
        let beyond = 100 * used - all * i128::from(pair[0].used);
        let cost = all * i128::from(pair[0].cost) * i128::from(run) + beyond * i128::from(rise);
        cost.div_euclid(100 * i128::from(run))
    };
    let lines = curve.points().windows(2).map(line);
    lines.fold(all * i128::from(first.cost) / 100, i128::max)
}

fn naive_crowding(cell: &Cell, objectives: &Objectives) -> i128 {
    let tasks = running(cell);
    let domain =
        |machine| cell.machine(machine).unwrap().machine.domain(&objectives.level).cloned();
    let mut pairs = 0;
    for (i, (one, _, here)) in tasks.iter().enumerate() {
        for (other, _, there) in &tasks[..i] {
            let same = one.job == other.job && domain(*here).is_some();
            pairs += i128::from(same && domain(*here) == domain(*there));
        }
    }
    pairs * i128::from(PAIR) * i128::from(objectives.crowding)
}

fn naive_misplaced(cell: &Cell, objectives: &Objectives) -> i128 {
    if objectives.misplaced == 0 {
        return 0;
    }
    let tasks = running(cell);
    let misplaced = tasks.iter().filter(|(task, _, machine)| is_misplaced(cell, *task, *machine));
    misplaced.count() as i128 * i128::from(MACHINE) * i128::from(objectives.misplaced)
}

/// Weighted cost of moves.
pub(crate) fn naive_moves<'a>(
    cell: &Cell,
    objectives: &Objectives,
    moves: impl Iterator<Item = &'a Move>,
) -> i128 {
    let uses = uses(cell);
    let mut by_job: BTreeMap<JobId, i128> = BTreeMap::new();
    let mut sum = 0;
    for m in moves {
        let job = cell.job(m.task.job).unwrap();
        let part = |kind| parts(request(job, usize::from(m.group), kind), mean(&uses, kind));
        let largest = (0..cell.kinds().count()).map(part).max().unwrap();
        let of_job = objectives.move_costs.jobs.get(&job.name).copied().unwrap_or(0);
        let own = i128::from(MOVE) * (1 + i128::from(of_job)) + largest;
        sum += own * i128::from(objectives.moves);
        sum += naive_between(cell, objectives, m);
        *by_job.entry(m.task.job).or_default() += i128::from(MOVE);
    }
    sum + by_job.into_values().max().unwrap_or(0) * i128::from(objectives.job_moves)
}

/// Amount by which each rule is broken in each domain. The entry without a domain is for machines outside of all
/// domains, or, if the rule requires a number of domains, for the missing domains.
fn naive_broken(cell: &Cell, rules: &[Rule]) -> BTreeMap<(usize, Text), usize> {
    let tasks = running(cell);
    let mut broken = BTreeMap::new();
    for (number, rule) in rules.iter().enumerate() {
        let mut counts: BTreeMap<Text, BTreeMap<Text, usize>> = BTreeMap::new();
        for (task, _, machine) in &tasks {
            let machine = &cell.machine(*machine).unwrap().machine;
            let domain = machine.domain(&rule.level).cloned().unwrap_or_default();
            let job = cell.job(task.job).unwrap().name.clone();
            *counts.entry(domain).or_default().entry(job).or_default() += 1;
        }
        let of = |counts: &BTreeMap<Text, usize>, job: &Text| counts.get(job).copied().unwrap_or(0);
        if let Limit::Domains(least) = rule.limit {
            let named = counts
                .iter()
                .filter(|(domain, jobs)| !domain.is_empty() && of(jobs, &rule.job) > 0);
            broken
                .insert((number, Text::default()), (least as usize).saturating_sub(named.count()));
        }
        for (domain, jobs) in &counts {
            let excess = match &rule.limit {
                Limit::Domains(_) => continue,
                Limit::Needs(other) if domain.is_empty() || of(jobs, other) == 0 => {
                    of(jobs, &rule.job)
                }
                Limit::MaxColocated { other, count }
                    if !domain.is_empty() && of(jobs, other) > 0 =>
                {
                    of(jobs, &rule.job).saturating_sub(*count as usize)
                }
                _ => 0,
            };
            broken.insert((number, domain.clone()), excess);
        }
    }
    broken
}

/// Weighted cost of a move, from the costs between its two machines.
fn naive_between(cell: &Cell, objectives: &Objectives, m: &Move) -> i128 {
    let [from, to] = [m.from, m.to].map(|id| cell.machine(id).unwrap());
    let [from, to] = [from.machine, to.machine];
    let mut cost = 0;
    for entry in &objectives.move_costs.entries {
        let crosses = entry.across.as_ref().is_none_or(|level| {
            let [old, new] = [from, to].map(|machine| machine.domain(level));
            old.is_none() || old != new
        });
        if entry.from.includes(from) && entry.to.includes(to) && crosses {
            cost += i128::from(entry.cost);
        }
    }
    let pair = (from.name.clone(), to.name.clone());
    cost += i128::from(objectives.move_costs.table.get(&pair).copied().unwrap_or(0));
    cost * i128::from(MOVE) * i128::from(objectives.machine_moves)
}

fn settings(dice: &mut Dice) -> Settings {
    let bounds = Bounds {
        moves: [1, 3, 1000][dice.below(3)],
        moves_per_job: [1, 2, u32::MAX][dice.below(3)],
        waves: 1 + dice.below(4),
        ..Bounds::default()
    };
    let transient = (0..4).filter(|_| dice.chance(30)).map(KindId).collect();
    let machines_each = 1 + dice.below(64);
    Settings {
        bounds,
        transient,
        machines_each,
        seed: dice.below(9) as u64,
        ..Settings::new(objectives(dice))
    }
}

/// Whether only the cell can reject a move for this reason, because views check neither gangs nor quotas.
fn is_of_the_cell_alone(fate: Fate) -> bool {
    matches!(fate, Fate::Refused(Reason::GangIncomplete | Reason::QuotaExceeded(_)))
}

/// Counts of a pass: steps, steps with two moves, steps that make room, and waves.
#[derive(Debug, Default)]
struct Tried {
    steps: usize,
    pairs: usize,
    room: usize,
    waves: usize,
}

/// Runs a pass step by step, and compares its costs with the naive computation after each step.
fn check(cell: &SharedCell, dice: &mut Dice, seed: u64) -> Tried {
    let settings = settings(dice);
    let (objectives, bounds) = (settings.objectives.clone(), settings.bounds);
    let transient = settings.transient.clone();
    let mut rebalancer = Rebalancer::new(cell, settings).unwrap();
    let plan = rebalancer.plan(cell, &mut || true).unwrap();
    let start = cell.read(Cell::clone);
    let mut total = naive(&start, &objectives);
    assert_eq!(plan.before.total(&objectives), total, "seed {seed}: {plan:?}");
    assert!(
        plan.moves().count() <= bounds.moves && plan.waves.len() <= bounds.waves,
        "seed {seed}"
    );
    assert_eq!(plan.gain(), plan.steps().map(|step| step.gain).sum::<i128>(), "seed {seed}");
    assert!(plan.steps().all(|step| step.gain > 0 || step.why == Why::MakesRoom), "seed {seed}");
    assert_moves_once(&plan, bounds.moves_per_job);
    let (mut done, mut tried) = (Vec::new(), Tried::default());
    let mut broken = naive_broken(&start, &objectives.rules);
    let mut made_room = false;
    for wave in &plan.waves {
        assert_fits_with_sources_held(&cell.read(Cell::clone), wave, &transient);
        for step in wave {
            let fate = rebalancer.apply_plan_wave(cell, std::slice::from_ref(step)).unwrap()[0];
            if is_of_the_cell_alone(fate) {
                return tried;
            }
            assert_eq!(fate, Fate::Moved, "seed {seed} {step:?}");
            done.extend(&step.moves);
            let after = cell.read(|cell| naive_broken(cell, &objectives.rules));
            for (place, excess) in &after {
                let before = broken.get(place).copied().unwrap_or(0);
                assert!(
                    *excess <= before,
                    "seed {seed} {step:?}: rule {place:?} {before} {excess}"
                );
            }
            broken = after;
            let moving = naive_moves(&start, &objectives, done.iter());
            let now = cell.read(|cell| naive(cell, &objectives)) + moving;
            let makes_room = step.why == Why::MakesRoom;
            let both = made_room || makes_room;
            assert!(both || total - now == step.gain, "seed {seed} {step:?} {total} {now}");
            (made_room, total) = (makes_room, now);
            tried.steps += 1;
            tried.pairs += usize::from(step.moves.len() == 2);
            tried.room += usize::from(makes_room);
        }
        tried.waves += 1;
    }
    assert_eq!(total, plan.after.total(&objectives), "seed {seed}");
    cell.read(Cell::audit).unwrap();
    tried
}

/// Checks many passes. Returns the sums of their counts.
fn check_all(count: u64, make: impl Fn(u64, &mut Dice) -> SharedCell) -> Tried {
    let mut all = Tried::default();
    for seed in seeds(count) {
        let mut dice = Dice::new(seed ^ 0x1_4970);
        let cell = make(seed, &mut dice);
        let tried = check(&cell, &mut dice, seed);
        all.steps += tried.steps;
        all.pairs += tried.pairs;
        all.room += tried.room;
        all.waves += tried.waves;
    }
    all
}

#[test]
fn a_pass_over_a_random_cell_costs_what_the_reference_reckons_after_each_step() {
    let tried = check_all(1000, |seed, dice| {
        let mut world = World::new(seed);
        (0..40 + dice.below(120)).for_each(|_| world.step());
        world.cell
    });
    assert!(seeds(1000) != (0..1000) || tried.steps > 100, "enough is tried: {tried:?}");
}

/// A cell in which most machines have several tasks, and some machines are draining.
fn dense(dice: &mut Dice) -> SharedCell {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    let machines = 2 + dice.below(10);
    for i in 0..machines {
        let capacity = Amounts::new([8, 16, 32].map(|most| 1 + dice.below(most) as u64));
        let mut machine =
            Machine::new(format!("m{i}"), capacity).with_devices(KindId::GPU, dice.below(3) as u8);
        machine.labels = Labels::new([("zone", format!("z{}", dice.below(3)))]);
        cell.apply(Command::RegisterMachine(machine)).unwrap();
    }
    for i in 0..1 + dice.below(8) {
        let tasks = 1 + dice.below(8);
        let mut amounts = Amounts::new([4, 6, 8].map(|most| dice.below(most) as u64));
        let share = dice
            .chance(20)
            .then(|| DeviceRequest { count: 1, milli_each: 1 + dice.below(1000) as u16 });
        share.iter().for_each(|share| amounts.set(KindId::GPU, share.milli_each.into()));
        let mut group = TaskGroup { devices: share, ..TaskGroup::new(tasks as u32, amounts) };
        if dice.chance(30) {
            let (of, level) = (TaskSelector::SameJob, TopologyLevel::Label("zone".into()));
            group.rules.tasks.push(TaskRule::MaxPerDomain {
                of,
                level,
                count: 1 + dice.below(4) as u32,
            });
        }
        let job = submit(&cell, Job::batch(format!("j{i}"), group));
        let (id, number) = cell.register("first".into()).unwrap();
        let mut view = View::new(id, number);
        view.sync(&cell).unwrap();
        let spec = cell.read(|cell| cell.job(job).unwrap().clone());
        let group = view.compile(job, &spec, 0);
        for index in 0..tasks as u32 {
            let machine = view.machine_id(dice.below(machines));
            let _ = view.claim(TaskId { job, index }, machine, group);
        }
        if view.open_claims() > 0 {
            cell.commit(&view.take_transaction()).unwrap();
        }
    }
    for slot in (0..machines as u32).filter(|_| dice.chance(15)) {
        let id = MachineId::first(slot);
        cell.apply(Command::DrainMachine { id, draining: true }).unwrap();
    }
    cell
}

#[test]
fn a_pass_over_a_dense_cell_costs_what_the_reference_reckons_after_each_step() {
    let tried = check_all(1000, |_, dice| dense(dice));
    let Tried { steps, pairs, room, waves } = tried;
    let enough = steps > 800 && pairs > 25 && room > 5 && waves > 400;
    assert!(seeds(1000) != (0..1000) || enough, "enough is tried: {tried:?}");
}

fn assert_moves_once(plan: &Plan, per_job: u32) {
    let mut tasks: Vec<TaskId> = plan.moves().map(|m| m.task).collect();
    tasks.sort_unstable();
    assert!(tasks.is_sorted_by(|a, b| a < b), "a task moves once");
    let mut by_job: BTreeMap<JobId, u32> = BTreeMap::new();
    tasks.iter().for_each(|task| *by_job.entry(task.job).or_default() += 1);
    assert!(by_job.into_values().all(|count| count <= per_job));
}

/// Checks that in transient kinds, all moves of a wave fit in addition to everything that is allocated at the wave's
/// start.
fn assert_fits_with_sources_held(cell: &Cell, wave: &[Step], transient: &[KindId]) {
    let uses = uses(cell);
    for kind in transient.iter().map(|kind| kind.index()).filter(|k| *k < cell.kinds().count()) {
        for u in &uses {
            let to = wave.iter().flat_map(|step| &step.moves).filter(|m| m.to == u.id);
            let come = to.map(|m| &*cell.job(m.task.job).unwrap().groups[usize::from(m.group)]);
            let come: Vec<Cow<'_, TaskGroup>> = come.map(Cow::Borrowed).collect();
            let wanted = claimed_together(&come, kind);
            let together = claimed_together(&[&u.groups[..], &come].concat(), kind);
            assert!(wanted == 0 || together <= u.claimable[kind], "{:?} {wave:?}", u.id);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_plan_and_a_plan_changes_nothing() {
    for seed in seeds(100) {
        let mut world = World::new(seed);
        (0..100).for_each(|_| world.step());
        let plan =
            |rebalancer: &mut Rebalancer| rebalancer.plan(&world.cell, &mut || true).unwrap();
        let settings = || settings(&mut Dice::new(seed));
        let mut one = Rebalancer::new(&world.cell, settings()).unwrap();
        let version = world.cell.read(Cell::version);
        let first = plan(&mut one);
        assert_eq!(first, plan(&mut one), "seed {seed}: the view is as before");
        assert_eq!(
            first,
            plan(&mut Rebalancer::new(&world.cell, settings()).unwrap()),
            "seed {seed}"
        );
        assert_eq!(world.cell.read(Cell::version), version, "seed {seed}");
    }
}
