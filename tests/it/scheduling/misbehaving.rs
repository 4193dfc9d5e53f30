//! Misbehaving schedulers next to two correct ones, while an operator changes machines, jobs, quotas and policies. The
//! cell accepts nothing that breaks a rule, agrees with its naive reference model, and serves the correct schedulers as
//! before.
//!
//! The misbehaving schedulers decide on long outdated states. They claim tasks of other schedulers, and machines that
//! are removed or full, with devices that are in use. They evict and release any task, and send transactions twice, and
//! with used and future numbers.

use crate::cell::histories::seeds;
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest};
use omega_core::{
    Amounts, Command, Commit, Job, KindId, Machine, Outcome, Rejection, SchedulerId, TaskGroup,
    TaskState, Text, Transaction, Version,
};
use omega_schedulers::plugins::{DefaultPreemption, FairShare, Reclaim};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
use omega_tests::history::Trio;
use omega_tests::random::{Dice, Generator};
use omega_tests::reference::Reference;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

const ROGUES: u64 = 3;
/// Number of requests of each misbehaving scheduler and of the operator.
const ROUNDS: usize = 60;

/// A cell, its replica and its reference model behind one lock, and the generator of the operator's commands.
struct Watched {
    inner: Mutex<(Trio, Generator)>,
    refused: AtomicUsize,
    taken: AtomicUsize,
}

impl Watched {
    fn new(seed: u64) -> Watched {
        let generator = Generator::new(seed);
        let trio = Trio::new(&generator.kinds());
        let count = || AtomicUsize::new(0);
        Watched { inner: Mutex::new((trio, generator)), refused: count(), taken: count() }
    }

    fn inner(&self) -> MutexGuard<'_, (Trio, Generator)> {
        self.inner.lock().expect("no thread panics with the lock held")
    }

    fn apply(&self, command: &Command) -> Result<Outcome, Rejection> {
        let (trio, _) = &mut *self.inner();
        let before = trio.reference().clone();
        let answer = trio.answer(command).unwrap_or_else(|what| panic!("{command:?}: {what}"));
        if let (Command::Commit(txn), Ok(Outcome::Commit(commit))) = (command, &answer) {
            // A repeated transaction gets its cached result, and must not change the cell.
            if commit.version > before.version() {
                keeps_rules(txn, commit, (&before, trio.reference()));
            }
            self.refused.fetch_add(commit.conflicts.len(), Ordering::Relaxed);
            let taken = txn.items() - commit.conflicts.len();
            self.taken.fetch_add(taken, Ordering::Relaxed);
        }
        answer
    }

    fn read<T>(&self, look: impl FnOnce(&Cell) -> T) -> T {
        look(self.inner().0.cell())
    }
}

impl CellHandle for Watched {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        match self.apply(&Command::RegisterScheduler { name }) {
            Ok(Outcome::Scheduler { id, next_transaction }) => Ok((id, next_transaction)),
            Ok(_) => unreachable!("registering a scheduler gives a scheduler"),
            Err(rejection) => Err(HandleError::NotRegistered(rejection)),
        }
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.read(|cell| cell.delta_since(since, interest, delta));
        Ok(())
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        match self.apply(&Command::Commit(txn.clone())) {
            Ok(Outcome::Commit(commit)) => Ok(commit),
            Ok(_) => unreachable!("a transaction is answered by a commit"),
            Err(Rejection::Transaction(error)) => Err(error.into()),
            Err(rejection) => panic!("a transaction is refused as one: {rejection}"),
        }
    }
}

/// Checks, from the documentation alone, that no commit exceeds a machine or a tenant's limit, uses a drained machine,
/// or assigns a port twice.
fn keeps_rules(txn: &Transaction, commit: &Commit, (before, after): (&Reference, &Reference)) {
    let claims = txn.claims.iter().enumerate();
    for (_, claim) in claims.filter(|(i, _)| commit.conflict_of_claim(*i).is_none()) {
        let (job, task) = after.task(claim.task).expect("a task that was claimed is there");
        assert_eq!(task.state, TaskState::Placed(claim.machine));
        let host = after.host(claim.machine).expect("its machine is there");
        assert!(!host.draining, "{claim:?}: on a machine that takes none");
        let asked = &job.spec.groups[task.group].request;
        for (kind, free) in after.free(claim.machine.row()).iter().enumerate() {
            let asks = asked.get(KindId(kind as u8)) > 0;
            assert!(*free >= 0 || !asks, "{claim:?}: {free} left of kind {kind}");
        }
        let ports = &job.spec.groups[task.group].rules.ports;
        let there =
            after.placed().filter(|(id, .., row)| *row == claim.machine.row() && *id != claim.task);
        for (id, other, task, _) in there {
            let theirs = &other.spec.groups[task.group].rules.ports;
            let collide = ports.iter().any(|port| theirs.iter().any(|one| one.collides(port)));
            assert!(!collide, "{claim:?}: has a port of {id}");
            let mine = after.task(claim.task).map_or(&[][..], |(_, task)| &task.ports);
            let taken = mine.iter().any(|port| {
                task.ports.contains(port) || theirs.iter().any(|one| one.number == *port)
            });
            assert!(!taken, "{claim:?}: was given a port of {id}");
        }
    }
    for tenant in after.tenants() {
        let used = |reference: &Reference| reference.tenant_used(tenant);
        let Some(limit) = after.quota(tenant) else { continue };
        let before = used(before);
        for (kind, used) in used(after).iter().enumerate() {
            let most = i128::from(limit.get(KindId(kind as u8)));
            let had = before.get(kind).copied().unwrap_or(0);
            assert!(*used <= most.max(had), "{tenant} has {used} of {most} of kind {kind}");
        }
    }
}

/// Sends invalid transactions.
fn misbehave(cell: &Watched, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut seen = cell.inner().0.reference().clone();
    for _ in 0..ROUNDS {
        let txn = {
            let (trio, generator) = &mut *cell.inner();
            if dice.chance(30) {
                seen = trio.reference().clone();
            }
            generator.transaction(&seen)
        };
        // The result does not matter here.
        drop(cell.commit(&txn));
        std::thread::yield_now();
    }
}

/// Changes machines, jobs, quotas and policies.
fn operate(cell: &Watched) {
    for _ in 0..ROUNDS {
        let command = {
            let (trio, generator) = &mut *cell.inner();
            generator.next(trio.reference())
        };
        drop(cell.apply(&command));
        std::thread::yield_now();
    }
}

/// The two correct schedulers; both preempt, and one has fair shares.
fn well_behaved(cell: &Watched) -> Vec<Scheduler> {
    let fair = Profile::batch().with_order(FairShare).with_post_filter(Reclaim::default());
    let usual = Profile::service().with_post_filter(DefaultPreemption::default());
    let mut schedulers = Vec::new();
    for (takes, profile) in [("first", fair), ("second", usual)] {
        let settings = Settings { takes: takes.into(), ..Settings::new(format!("good {takes}")) };
        let scheduler = Scheduler::new(cell, profile, settings).unwrap();
        let id = SchedulerId(schedulers.len() as u32);
        cell.inner().1.reserve(id);
        schedulers.push(scheduler);
    }
    schedulers
}

#[test]
fn nothing_that_a_scheduler_sends_breaks_a_rule() {
    let (mut refused, mut taken) = (0, 0);
    for seed in seeds(24) {
        let cell = Watched::new(seed);
        let mut schedulers = well_behaved(&cell);
        for name in ["first", "second", "third"] {
            cell.register(name.into()).unwrap();
        }
        let goes_on = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let rogues = (0..ROGUES).map(|rogue| {
                let cell = &cell;
                scope.spawn(move || misbehave(cell, seed ^ rogue << 32))
            });
            let others: Vec<_> = rogues.chain([scope.spawn(|| operate(&cell))]).collect();
            for scheduler in &mut schedulers {
                let (cell, goes_on) = (&cell, &goes_on);
                scope.spawn(move || {
                    let mut now = 0;
                    while goes_on.load(Ordering::Relaxed) {
                        now += 1_000_000;
                        scheduler.step(cell, now, &mut Unobserved).unwrap();
                        std::thread::yield_now();
                    }
                });
            }
            let ends: Vec<_> = others.into_iter().map(|thread| thread.join()).collect();
            goes_on.store(false, Ordering::Relaxed);
            ends.into_iter().for_each(|end| end.unwrap());
        });
        still_serves(&cell, &mut schedulers, seed);
        refused += cell.refused.into_inner();
        taken += cell.taken.into_inner();
    }
    assert!(refused > 500 && taken > 500, "{refused} refused, {taken} taken");
}

/// Ends the jobs whose rules might exclude other tasks, and then checks that the correct schedulers place all tasks
/// that fit.
fn still_serves(cell: &Watched, schedulers: &mut [Scheduler], seed: u64) {
    let choosy = |job: &Job| job.groups.iter().any(|group| !group.rules.tasks.is_empty());
    let choosy: Vec<_> = cell.read(|cell| {
        cell.jobs()
            .filter(|(_, job)| choosy(job))
            .map(|(job, _)| Command::KillJob { job })
            .collect()
    });
    choosy.iter().for_each(|kill| drop(cell.apply(kill).unwrap()));
    let kinds = cell.read(|cell| cell.kinds().count());
    let large = Amounts::new(vec![1 << 20; kinds]);
    cell.apply(&Command::RegisterMachine(Machine::new("untouched", large))).unwrap();
    for takes in ["first", "second"] {
        let group = TaskGroup::new(3, Amounts::new([1]));
        let job = Job::batch(format!("late {takes}"), group);
        let job = Job { scheduler: takes.into(), tenant: "late".into(), ..job };
        cell.apply(&Command::SubmitJob(job)).unwrap();
    }
    let hour = 3_600_000_000_000;
    for (scheduler, takes) in schedulers.iter_mut().zip(["first", "second"]) {
        let late = cell.read(|cell| cell.job_by_name(&format!("late {takes}")).unwrap());
        let placed =
            || cell.read(|cell| cell.tasks(late).filter(|(_, s)| s.machine().is_some()).count());
        // A job in the unschedulable queue is retried within an hour. If it cannot be placed then, it waits until the
        // others were tried.
        for round in 0..200 {
            let now = (1 + round / 50) * hour + round % 50;
            scheduler.step(cell, now, &mut Unobserved).unwrap();
            if placed() == 3 {
                break;
            }
        }
        assert_eq!(placed(), 3, "seed {seed}, {takes}: {:?}", scheduler.diagnose(late, 0));
    }
}
