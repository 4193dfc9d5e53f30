//! Views with their own claims. Until a claim is rejected or the synced cell state contains it, the view subtracts the
//! claim exactly once, no matter when the view is synced and when the result of the claim arrives.

use crate::cell::histories::seeds;
use crate::cell::views::{World, assert_equal_views};
use omega_cellstate::{Cell, CellHandle, Delta, Interest, SharedCell, View};
use omega_core::{
    Amounts, Command, Commit, ConflictCheck, DeviceRequest, Granularity, Job, JobId, KindId, Kinds,
    Labels, Machine, MachineId, TaskGroup, TaskId, TaskRule, TaskSelector, TaskState,
    TopologyLevel, Transaction,
};
use omega_tests::random::Dice;
use std::collections::VecDeque;
use std::sync::Arc;

/// A claim that is subtracted from the view, as recorded by the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    number: Option<u64>,
    pub(crate) machine: MachineId,
    job: JobId,
    group: usize,
}

/// A scheduler with a view, and its unanswered transactions.
pub(crate) struct Scheduler {
    pub(crate) view: View,
    pub(crate) kept: Vec<Kept>,
    sent: Vec<(Transaction, Option<Commit>)>,
}

impl Scheduler {
    pub(crate) fn new(view: View) -> Scheduler {
        Scheduler { view, kept: Vec::new(), sent: Vec::new() }
    }

    /// Takes a random step: claims, submits, delivers, or drops everything. Returns whether the view was synced.
    pub(crate) fn step(&mut self, world: &mut World) -> bool {
        (0..world.dice.below(4)).for_each(|_| self.claim(world));
        if world.dice.chance(50) {
            self.submit(world);
        }
        if world.dice.chance(60) {
            self.advance(world);
        }
        if world.dice.chance(10) && self.sent.is_empty() {
            self.finish(world);
        }
        let syncs = world.dice.chance(50);
        if syncs {
            self.sync(world);
        }
        syncs
    }

    /// Claims a machine for a pending task, if the check accepts it.
    fn claim(&mut self, world: &mut World) {
        let open: Vec<TaskId> =
            self.sent.iter().flat_map(|(t, _)| &t.claims).map(|c| c.task).collect();
        let pending: Vec<_> = world
            .reference
            .tasks()
            .filter(|(id, _, task)| task.state == TaskState::Pending && !open.contains(id))
            .map(|(id, _, task)| (id, task.group))
            .collect();
        if pending.is_empty() || self.view.rows() == 0 {
            return;
        }
        let (task, group) = *world.dice.pick(&pending);
        let compiled = world.compile(&mut self.view, (task.job, group));
        let machine = self.view.machine_id(world.dice.below(self.view.rows()));
        if self.view.claim(task, machine, compiled).is_ok() {
            self.kept.push(Kept { number: None, machine, job: task.job, group });
        }
    }

    fn submit(&mut self, world: &mut World) {
        if self.view.open_claims() == 0 {
            return;
        }
        let mut txn = self.view.take_transaction();
        if world.dice.chance(30) {
            txn.granularity = Granularity::AllOrNothing;
        }
        if world.dice.chance(30) {
            txn.check = ConflictCheck::SequenceNumber;
        }
        let number = txn.id.number;
        self.kept.iter_mut().for_each(|kept| kept.number = kept.number.or(Some(number)));
        self.sent.push((txn, None));
    }

    /// Delivers a transaction to the cell, or its result to the scheduler.
    fn advance(&mut self, world: &mut World) {
        if self.sent.is_empty() {
            return;
        }
        let index = world.dice.below(self.sent.len());
        let (txn, answer) = self.sent.swap_remove(index);
        match answer {
            None => {
                let commit = world.commit(&txn);
                self.sent.push((txn, Some(commit)));
            }
            Some(commit) => self.settle(&txn, &commit),
        }
    }

    fn settle(&mut self, txn: &Transaction, commit: &Commit) {
        let seen = commit.version <= self.view.version();
        self.view.settle(txn, commit);
        let mut index = 0;
        self.kept.retain(|kept| {
            let this = kept.number == Some(txn.id.number);
            index += usize::from(this);
            !this || (!seen && commit.conflict_of_claim(index - 1).is_none())
        });
        // An accepted claim stays subtracted until the next sync.
        let number = Some(txn.id.number);
        self.kept.iter_mut().filter(|k| k.number == number).for_each(|k| k.number = Some(TAKEN));
    }

    pub(crate) fn sync(&mut self, world: &World) {
        self.view.sync(&world.cell).unwrap();
        self.kept.retain(|kept| kept.number != Some(TAKEN));
    }

    /// Checks that the view's free amounts are those of the cell minus the claims that are kept.
    fn check_free(&self, world: &World) {
        let reference = &world.reference;
        for row in 0..reference.rows().len() {
            let on_row = self.kept.iter().filter(|kept| kept.machine == reference.machine_id(row));
            let claimed = on_row
                .map(|kept| TaskGroup::clone(&reference.jobs()[&kept.job].spec.groups[kept.group]));
            for (kind, expected) in (0..).map(KindId).zip(reference.free_with(row, claimed)) {
                let free = i128::from(self.view.free(row, kind));
                assert_eq!(free, expected, "seed {} {row}", world.seed);
            }
        }
    }

    /// Checks that tenants may claim in the view exactly as much as in the cell with the claims that are kept.
    fn check_quotas(&mut self, world: &World) {
        let reference = &world.reference;
        let is_there = |kept: &&Kept| {
            (0..reference.rows().len()).any(|row| reference.machine_id(row) == kept.machine)
        };
        let kept: Vec<_> =
            self.kept.iter().filter(is_there).map(|kept| (kept.job, kept.group)).collect();
        for group in world.groups() {
            let compiled = world.compile(&mut self.view, group);
            let expected = reference.quota_room(group, kept.iter().copied());
            for tasks in [1, 3, usize::MAX] {
                let expected = expected.map_or(tasks, |room| tasks.min(room as usize));
                let room = self.view.quota_room(compiled, tasks);
                assert_eq!(room, expected, "seed {} {group:?}", world.seed);
            }
        }
    }

    /// Delivers everything that is in flight.
    pub(crate) fn finish(&mut self, world: &mut World) {
        self.view.drop_claims(usize::MAX);
        self.kept.retain(|kept| kept.number.is_some());
        while !self.sent.is_empty() {
            self.advance(world);
        }
    }
}

/// Marks claims that were accepted and not yet synced.
const TAKEN: u64 = u64::MAX;

#[test]
fn a_claim_is_off_the_view_exactly_once() {
    for seed in seeds(400) {
        let mut world = World::new(seed);
        // Jobs must not be removed while their claims are in flight.
        world.keep_jobs();
        let (id, number) = world.register("claims");
        let mut me = Scheduler::new(View::new(id, number));
        me.sync(&world);
        for _ in 0..80 {
            world.step();
            if me.step(&mut world) {
                me.check_free(&world);
                me.check_quotas(&world);
            }
        }
        me.finish(&mut world);
        me.sync(&world);
        assert!(me.kept.is_empty());
        assert_equal_views(&world, &mut me.view);
    }
}

#[test]
fn dropped_claims_leave_the_view_as_it_was() {
    for seed in seeds(150) {
        let mut world = World::new(seed);
        world.keep_jobs();
        (0..50).for_each(|_| world.step());
        let (id, number) = world.register("claims");
        let mut me = Scheduler::new(View::new(id, number));
        me.sync(&world);
        (0..20).for_each(|_| me.claim(&mut world));
        me.view.drop_claims(me.view.open_claims() / 2);
        me.view.drop_claims(usize::MAX);
        assert_equal_views(&world, &mut me.view);
        // Claims that were submitted and never committed are removed by the next sync, too.
        me.kept.clear();
        (0..20).for_each(|_| me.claim(&mut world));
        let txn = me.view.take_transaction();
        me.view.abandon(&txn);
        assert_equal_views(&world, &mut me.view);
    }
}

/// Two machines in one zone, and a job whose tasks have anti-affinity to each other by zone.
#[test]
fn a_claim_whose_machine_moved_counts_where_the_machine_went() {
    let machine = |name: &str, zone: &str| {
        let mut machine = Machine::new(name, Amounts::new([4]));
        machine.labels = Labels::new([("zone", zone)]);
        machine
    };
    let mut group = TaskGroup::new(2, Amounts::new([1]));
    let level = TopologyLevel::Label("zone".into());
    group.rules.tasks.push(TaskRule::AntiAffinity { from: TaskSelector::SameJob, level });
    let job = std::sync::Arc::new(Job::batch("apart", group));
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    let (moved, stays) = (MachineId::first(0), MachineId::first(1));
    cell.apply(Command::RegisterMachine(machine("moved", "z1"))).unwrap();
    cell.apply(Command::RegisterMachine(machine("stays", "z1"))).unwrap();
    cell.apply(Command::SubmitJob(Job::clone(&job))).unwrap();
    let (me, number) = cell.register("me".into()).unwrap();
    let mut view = View::new(me, number);
    view.sync(&cell).unwrap();
    let group = view.compile(JobId(0), &job, 0);
    view.claim(TaskId::default(), moved, group).unwrap();
    assert!(view.check_fit(stays.row(), group).is_err(), "the claim counts in the zone");
    let txn = view.take_transaction();
    let update = Command::UpdateMachine { id: moved, machine: machine("moved", "z2") };
    cell.apply(update).unwrap();
    let commit = cell.commit(&txn).unwrap();
    assert!(commit.is_complete());
    view.settle(&txn, &commit);
    view.sync(&cell).unwrap();
    assert!(view.check_fit(moved.row(), group).is_err());
    assert!(view.check_fit(stays.row(), group).is_ok(), "the claim was taken in another zone");
}

/// Over a network, results arrive before deltas. If there are no other schedulers, a view that has not synced its own
/// commits nevertheless has exactly the cell's free amounts.
#[test]
fn a_view_that_lags_behind_its_own_commits_sees_no_room_that_is_gone() {
    for seed in seeds(300) {
        let mut dice = Dice::new(seed);
        let (cell, jobs) = small_cell(&mut dice);
        let (me, number) = cell.register("a".into()).unwrap();
        let mut view = View::new(me, number);
        view.sync(&cell).unwrap();
        let mut on_the_way = VecDeque::new();
        let mut last = (view.version(), view.delta().lineage);
        let mut next = [0, 0];
        for _ in 0..60 {
            match dice.below(4) {
                0 => {
                    let mut delta = Delta { lineage: last.1, ..Delta::default() };
                    cell.sync(last.0, &Interest::Machines, &mut delta).unwrap();
                    last = (delta.to, delta.lineage);
                    on_the_way.push_back(delta);
                }
                1 => on_the_way.pop_front().iter().for_each(|delta| view.apply(delta)),
                _ => {
                    let which = dice.below(2);
                    let job = JobId(which as u64);
                    let group = view.compile(job, &jobs[which], 0);
                    for _ in 0..1 + dice.below(3) {
                        let machine = view.machine_id(dice.below(view.rows()));
                        let task = TaskId { job, index: next[which] };
                        next[which] += u32::from(view.claim(task, machine, group).is_ok());
                    }
                    if view.open_claims() == 0 {
                        continue;
                    }
                    let txn = view.take_transaction();
                    let commit = cell.commit(&txn).unwrap();
                    assert!(commit.is_complete(), "seed {seed}: {commit:?}");
                    view.settle(&txn, &commit);
                    view.forget_job(job);
                }
            }
            for row in 0..view.rows() {
                let machine = view.machine_id(row);
                let (free, devices) = cell.read(|cell| {
                    let state = cell.machine(machine).unwrap();
                    (state.free.to_vec(), state.devices_left.to_vec())
                });
                let shown: Vec<i64> =
                    view.kinds().iter().map(|(kind, _)| view.free(row, kind)).collect();
                assert_eq!(shown, free, "seed {seed}, {machine}");
                let shown = view.devices(row).map_or(Vec::new(), |devices| devices.left().to_vec());
                assert_eq!(shown, devices, "seed {seed}, {machine}");
            }
        }
    }
}

/// Three machines with devices, and two jobs of many tasks. The tasks of one job request devices.
fn small_cell(dice: &mut Dice) -> (SharedCell, [Arc<Job>; 2]) {
    let kinds = Kinds::standard();
    let gpu = kinds.by_name("gpu").unwrap();
    let cell = SharedCell::new(Cell::new(kinds));
    for i in 0..3 {
        let machine = Machine::new(format!("m{i}"), Amounts::new([100, 1 << 30]));
        cell.apply(Command::RegisterMachine(machine.with_devices(gpu, 3))).unwrap();
    }
    let plain = TaskGroup::new(1000, Amounts::new([1 + dice.below(30) as u64]));
    let mut with_devices = plain.clone();
    let milli_each = *dice.pick(&[300, 1000]);
    with_devices.devices = Some(DeviceRequest { count: 1, milli_each });
    with_devices.request.set(gpu, milli_each.into());
    let jobs = [("plain", plain), ("carded", with_devices)];
    let jobs = jobs.map(|(name, group)| Arc::new(Job::batch(name, group)));
    for job in &jobs {
        cell.apply(Command::SubmitJob((**job).clone())).unwrap();
    }
    (cell, jobs)
}
