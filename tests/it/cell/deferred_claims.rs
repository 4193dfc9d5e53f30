//! Views with claims that evict, are held back, dropped, rejected or never committed, and with deltas that arrive after
//! results. After each step, a view equals the cell at the last sync, minus the view's claims, plus the resources of
//! their victims.

use crate::cell::histories::seeds;
use crate::cell::views::{World, assert_equal_views};
use omega_cellstate::{CellHandle, Delta, Interest, PlacedTask, View};
use omega_core::{
    Commit, ConflictCheck, Granularity, Item, JobId, KindId, MachineId, SchedulerId, TaskId,
    TaskState, Transaction, Version,
};
use std::collections::VecDeque;

/// State of a claim or an eviction, as recorded by the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    Held,
    Sent(u64),
    /// Committed at a version that the view has not synced yet.
    Taken(Version),
}

/// A claim that is subtracted from the view.
#[derive(Clone, Copy, Debug)]
struct Kept {
    task: TaskId,
    machine: MachineId,
    group: usize,
    way: Way,
}

/// A task that is evicted for a claim.
#[derive(Clone, Copy, Debug)]
struct Victim {
    of: TaskId,
    task: PlacedTask,
    machine: MachineId,
    way: Way,
    /// Whether the task is removed from the view, possibly by a sync.
    off: bool,
}

/// A view, the cell at its last sync, and a record of its claims.
struct Player {
    view: View,
    base: View,
    kept: Vec<Kept>,
    victims: Vec<Victim>,
    sent: Vec<(Transaction, Option<Commit>)>,
    /// Delayed deltas, each with the view that is expected after it.
    coming: VecDeque<(Delta, View)>,
    /// Version and lineage of the last sync.
    last: (Version, Version),
}

fn runs_on(view: &View, task: TaskId, machine: MachineId) -> bool {
    let row = machine.row();
    row < view.rows()
        && view.machine_id(row) == machine
        && view.tasks_on(row).iter().any(|placed| placed.id == task)
}

fn synced(world: &World) -> View {
    let mut view = View::new(SchedulerId(0), 0).with_placements();
    view.sync(&world.cell).unwrap();
    view
}

impl Player {
    fn new(world: &mut World) -> Player {
        let (id, number) = world.register("claims");
        let mut view = View::new(id, number).with_placements();
        view.sync(&world.cell).unwrap();
        let base = synced(world);
        let last = (view.version(), view.delta().lineage);
        let (kept, victims, sent) = (Vec::new(), Vec::new(), Vec::new());
        Player { view, base, kept, victims, sent, coming: VecDeque::new(), last }
    }

    fn some_pending(&self, world: &mut World) -> Option<(TaskId, usize)> {
        let claimed = |task: &TaskId| self.kept.iter().any(|kept| kept.task == *task);
        let pending = world
            .reference
            .tasks()
            .filter(|(id, _, task)| task.state == TaskState::Pending && !claimed(id));
        let pending: Vec<_> = pending.map(|(id, _, task)| (id, task.group)).collect();
        (!pending.is_empty()).then(|| *world.dice.pick(&pending))
    }

    /// Claims a random machine for a random task, and evicts random tasks there.
    fn claim(&mut self, world: &mut World) {
        let Some((task, group)) = self.some_pending(world) else { return };
        if self.view.rows() == 0 {
            return;
        }
        let row = world.dice.below(self.view.rows());
        let machine = self.view.machine_id(row);
        let percent = *world.dice.pick(&[0, 50, 100]);
        let mut chosen: Vec<PlacedTask> = self.view.tasks_on(row).to_vec();
        // The cell rejects the eviction of an equally important task.
        let precedence = world.reference.jobs()[&task.job].spec.precedence;
        let only_lower = world.dice.chance(80);
        chosen.retain(|victim| !only_lower || victim.precedence < precedence);
        chosen.retain(|_| world.dice.chance(percent));
        let compiled = world.compile(&mut self.view, (task.job, group));
        if self.view.claim_evicting(task, machine, compiled, &chosen).is_err() {
            return;
        }
        self.kept.push(Kept { task, machine, group, way: Way::Open });
        for victim in chosen {
            if !self.victims.iter().any(|known| known.task.id == victim.id) {
                let victim = Victim { of: task, task: victim, machine, way: Way::Open, off: true };
                self.victims.push(victim);
            }
        }
    }

    fn some_claim(&self, world: &mut World, ways: &[Way]) -> Option<TaskId> {
        let fit = self.kept.iter().filter(|kept| ways.contains(&kept.way));
        let fit: Vec<TaskId> = fit.map(|kept| kept.task).collect();
        (!fit.is_empty()).then(|| *world.dice.pick(&fit))
    }

    /// Moves a claim and its evictions to another state.
    fn moves(&mut self, task: TaskId, way: Way) {
        self.kept.iter_mut().filter(|kept| kept.task == task).for_each(|kept| kept.way = way);
        let own =
            |victim: &&mut Victim| victim.of == task && matches!(victim.way, Way::Open | Way::Held);
        self.victims.iter_mut().filter(own).for_each(|victim| victim.way = way);
    }

    fn hold_or_resume(&mut self, world: &mut World) {
        if world.dice.chance(60) {
            let Some(task) = self.some_claim(world, &[Way::Open]) else { return };
            assert!(self.view.defer_claim(task));
            self.moves(task, Way::Held);
        } else {
            let Some(task) = self.some_claim(world, &[Way::Held]) else { return };
            assert!(self.view.resume_claim(task));
            self.moves(task, Way::Open);
        }
    }

    fn drop_one(&mut self, world: &mut World) {
        let Some(task) = self.some_claim(world, &[Way::Open, Way::Held]) else { return };
        assert!(self.view.drop_claim(task));
        self.kept.retain(|kept| kept.task != task);
        let own =
            |victim: &Victim| victim.of == task && matches!(victim.way, Way::Open | Way::Held);
        self.victims.retain(|victim| !own(victim));
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
        let way = Way::Sent(txn.id.number);
        self.kept.iter_mut().filter(|k| k.way == Way::Open).for_each(|k| k.way = way);
        self.victims.iter_mut().filter(|v| v.way == Way::Open).for_each(|v| v.way = way);
        let submitted: Vec<TaskId> =
            self.victims.iter().filter(|v| v.way == way).map(|v| v.task.id).collect();
        assert_eq!(txn.evictions, submitted, "seed {}", world.seed);
        self.sent.push((txn, None));
    }

    /// Delivers a transaction to the cell, drops it, or delivers its result to the view.
    fn advance(&mut self, world: &mut World) {
        if self.sent.is_empty() {
            return;
        }
        let index = world.dice.below(self.sent.len());
        let (txn, answer) = self.sent.swap_remove(index);
        match answer {
            None if world.dice.chance(20) => {
                self.view.abandon(&txn);
                self.settle(&txn, |_| None);
            }
            None => {
                let commit = world.commit(&txn);
                self.sent.push((txn, Some(commit)));
            }
            Some(commit) => {
                let new = commit.version > self.view.version();
                self.view.settle(&txn, &commit);
                let taken = |item| new && commit.conflict_of(item).is_none();
                self.settle(&txn, |item| taken(item).then_some(commit.version));
            }
        }
    }

    fn settle(&mut self, txn: &Transaction, taken: impl Fn(Item) -> Option<Version>) {
        let way = Way::Sent(txn.id.number);
        for (index, claim) in (0..).zip(&txn.claims) {
            let mine = |kept: &Kept| kept.way == way && kept.task == claim.task;
            match taken(Item::Claim(index)).map(Way::Taken) {
                Some(way) => self.kept.iter_mut().filter(|k| mine(k)).for_each(|k| k.way = way),
                None => self.kept.retain(|kept| !mine(kept)),
            }
        }
        for (index, task) in (0..).zip(&txn.evictions) {
            let mine = |victim: &Victim| victim.way == way && victim.task.id == *task;
            match taken(Item::Eviction(index)).map(Way::Taken) {
                Some(way) => self.victims.iter_mut().filter(|v| mine(v)).for_each(|v| v.way = way),
                None => self.victims.retain(|victim| !mine(victim)),
            }
        }
    }

    /// Sends a delta with the changes since the last one.
    fn send_delta(&mut self, world: &World) {
        let mut delta = Delta { lineage: self.last.1, ..Delta::default() };
        world.cell.sync(self.last.0, &Interest::AllJobs, &mut delta).unwrap();
        self.last = (delta.to, delta.lineage);
        self.coming.push_back((delta, synced(world)));
    }

    /// Applies the next delta.
    fn sync(&mut self) {
        let Some((delta, base)) = self.coming.pop_front() else { return };
        self.view.apply(&delta);
        self.base = base;
        let reached = |way: Way| matches!(way, Way::Taken(version) if version <= delta.to);
        self.kept.retain(|kept| !reached(kept.way));
        self.victims.retain(|victim| !reached(victim.way));
        for victim in &mut self.victims {
            victim.off = runs_on(&self.base, victim.task.id, victim.machine);
        }
        self.victims.retain(|v| v.off || matches!(v.way, Way::Sent(_) | Way::Taken(_)));
    }

    /// Compares the view with a view of the cell at the last sync, with the claims subtracted and the victims removed.
    fn check(&mut self, world: &World) {
        let off: Vec<_> = self.victims.iter().filter(|victim| victim.off).copied().collect();
        off.iter().for_each(|victim| self.base.lift(victim.machine.row(), victim.task));
        let mut claims = Vec::new();
        for kept in &self.kept {
            let row = kept.machine.row();
            if row < self.base.rows() && self.base.machine_id(row) == kept.machine {
                let group = world.compile(&mut self.base, (kept.task.job, kept.group));
                claims.push((row, group));
            }
        }
        claims.iter().for_each(|(row, group)| self.base.assume(*row, *group, -1));
        self.compare(world);
        claims.iter().for_each(|(row, group)| self.base.assume(*row, *group, 1));
        off.iter().for_each(|victim| self.base.put_back(victim.machine.row(), victim.task));
    }

    fn compare(&mut self, world: &World) {
        let seed = world.seed;
        for row in 0..self.base.rows() {
            let context = format!("seed {seed} row {row} at {}", self.view.version());
            for kind in (0..self.base.kinds().count() as u8).map(KindId) {
                let (ours, theirs) = (self.view.free(row, kind), self.base.free(row, kind));
                assert_eq!(ours, theirs, "{context} {kind:?}");
            }
            assert_eq!(self.view.tasks_on(row), self.base.tasks_on(row), "{context}");
            let mut gone: Vec<TaskId> = self.view.evicted_from(row).collect();
            let here = |v: &&Victim| v.off && v.machine.row() == row;
            let mut booked: Vec<TaskId> =
                self.victims.iter().filter(here).map(|victim| victim.task.id).collect();
            gone.sort_unstable();
            booked.sort_unstable();
            assert_eq!(gone, booked, "{context}");
        }
        // With each sync, devices are chosen again. So only groups without devices must get the same check result.
        let no_pieces = |(job, group): &(JobId, usize)| {
            let group = &world.reference.jobs()[job].spec.groups[*group];
            // Devices and exclusive cores depend on the order of the claims.
            group.devices.is_none() && group.cores.is_none()
        };
        for id in world.groups().into_iter().filter(no_pieces) {
            let ours = world.compile(&mut self.view, id);
            let theirs = world.compile(&mut self.base, id);
            for row in 0..self.base.rows() {
                let judged = (self.view.check_fit(row, ours), self.base.check_fit(row, theirs));
                assert_eq!(judged.0, judged.1, "seed {seed} {id:?} row {row}");
            }
        }
    }

    fn finish(&mut self, world: &mut World) {
        while !self.sent.is_empty() {
            self.advance(world);
        }
        for kept in std::mem::take(&mut self.kept) {
            self.view.drop_claim(kept.task);
        }
        self.victims.clear();
    }
}

#[test]
fn a_view_is_the_cell_without_its_claims_and_their_victims() {
    let (mut evicting, mut held, mut lagging) = (0, 0, 0);
    for seed in seeds(350) {
        let mut world = World::new(seed);
        // Jobs must not be removed while their claims are in flight.
        world.keep_jobs();
        (0..30).for_each(|_| world.step());
        let mut player = Player::new(&mut world);
        for _ in 0..60 {
            world.step();
            match world.dice.below(10) {
                0..4 => player.claim(&mut world),
                4 | 5 => player.hold_or_resume(&mut world),
                6 => player.drop_one(&mut world),
                7 => player.submit(&mut world),
                _ => player.advance(&mut world),
            }
            player.check(&world);
            if world.dice.chance(50) {
                player.submit(&mut world);
                player.advance(&mut world);
                player.advance(&mut world);
                player.check(&world);
            }
            if world.dice.chance(25) {
                player.send_delta(&world);
            }
            if world.dice.chance(20) {
                player.sync();
                player.check(&world);
            }
            let late = |v: &&Victim| v.off && matches!(v.way, Way::Taken(_));
            lagging += player.victims.iter().filter(late).count();
            evicting += player.victims.len();
            held += player.view.deferred_claims();
        }
        player.finish(&mut world);
        player.send_delta(&world);
        while !player.coming.is_empty() {
            player.sync();
        }
        assert_equal_views(&world, &mut player.view);
    }
    let enough = evicting > 300 && held > 500 && lagging > 150;
    assert!(enough, "it is tried often: {evicting}, {held}, {lagging}");
}
