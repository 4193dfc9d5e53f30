//! Eight schedulers on eight threads share one cell. No task is lost, and no task is placed twice.

use omega_cellstate::{Cell, CellHandle, GroupRef, SharedCell, View};
use omega_core::{
    Amounts, Command, Granularity, Job, JobId, Kinds, Labels, Machine, Outcome, Port, Rejection,
    TaskGroup, TaskId, TaskReport, TaskRule, TaskSelector, TaskState, TopologyLevel,
};
use omega_tests::random::Dice;
use std::sync::Arc;

const THREADS: u64 = 8;
const MACHINES: usize = 200;
const TASKS: u32 = 600;
const ROUNDS: usize = 300;

/// Results reported to one scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    placed: usize,
    finished: usize,
    refused: usize,
}

/// A cell with machines in ten racks. For each scheduler, it has a job with a port and a maximum share per rack.
fn shared_cell() -> SharedCell {
    let cell = SharedCell::new(Cell::with_change_limit(Kinds::standard(), 5000));
    for i in 0..MACHINES {
        let mut machine = Machine::new(format!("m{i}"), Amounts::new([4000, 64]));
        machine.labels = Labels::new([("rack", format!("r{}", i % 10))]);
        cell.apply(Command::RegisterMachine(machine)).unwrap();
    }
    for thread in 0..THREADS {
        let mut group = TaskGroup::new(TASKS, Amounts::new([500, 1]));
        // Each port is requested by two schedulers.
        group.rules.ports.push(Port::tcp((thread / 2) as u16));
        let level = TopologyLevel::Label("rack".into());
        group.rules.tasks.push(TaskRule::MaxPerDomain {
            of: TaskSelector::SameJob,
            level,
            count: 15,
        });
        cell.apply(Command::SubmitJob(Job::batch(format!("job{thread}"), group))).unwrap();
    }
    cell
}

/// One scheduler, which claims random machines, commits, and ends some tasks.
struct Scheduler {
    cell: SharedCell,
    view: View,
    group: GroupRef,
    job: JobId,
    dice: Dice,
    pending: Vec<TaskId>,
    placed: Vec<TaskId>,
    counts: Counts,
}

impl Scheduler {
    fn new(cell: &SharedCell, thread: u64) -> Scheduler {
        let (id, number) = cell.register(format!("s{thread}").into()).unwrap();
        let mut view = View::new(id, number);
        view.sync(cell).unwrap();
        let job = JobId(thread);
        let spec: Arc<Job> = cell.read(|cell| cell.job(job).unwrap().clone());
        let group = view.compile(job, &spec, 0);
        let pending = (0..TASKS).map(|index| TaskId { job, index }).collect();
        let (placed, counts) = (Vec::new(), Counts::default());
        let dice = Dice::new(thread);
        Scheduler { cell: cell.clone(), view, group, job, dice, pending, placed, counts }
    }

    fn round(&mut self) {
        self.view.sync(&self.cell).unwrap();
        for _ in 0..1 + self.dice.below(8) {
            let Some(task) = self.pending.pop() else { break };
            let machine = self.view.machine_id(self.dice.below(MACHINES));
            if self.view.claim(task, machine, self.group).is_err() {
                self.pending.push(task);
            }
        }
        if self.view.open_claims() > 0 {
            self.commit();
        }
        if self.dice.chance(50) && !self.placed.is_empty() {
            let task = self.placed.swap_remove(self.dice.below(self.placed.len()));
            self.finish(task);
        }
    }

    fn commit(&mut self) {
        let mut txn = self.view.take_transaction();
        if self.dice.chance(30) {
            txn.granularity = Granularity::AllOrNothing;
        }
        let commit = self.cell.commit(&txn).unwrap();
        // Some replies are lost, and the retry of the transaction must not place a task twice.
        assert!(!self.dice.chance(20) || self.cell.commit(&txn) == Ok(commit.clone()));
        if self.dice.chance(30) {
            self.view.sync(&self.cell).unwrap();
        }
        self.view.settle(&txn, &commit);
        for (i, claim) in txn.claims.iter().enumerate() {
            match commit.conflict_of_claim(i) {
                None => self.placed.push(claim.task),
                Some(_) => self.pending.push(claim.task),
            }
        }
        self.counts.placed += txn.claims.len() - commit.conflicts.len();
        self.counts.refused += commit.conflicts.len();
    }

    fn finish(&mut self, task: TaskId) {
        let state = self.cell.read(|cell| cell.task(task)).unwrap();
        let machine = state.machine().expect("what was acknowledged is placed");
        let report =
            Command::ReportTask { task, machine, placed_ms: 0, report: TaskReport::Finished };
        assert!(matches!(self.cell.apply(report.clone()), Ok(Outcome::Done(_))));
        assert!(matches!(self.cell.apply(report), Err(Rejection::TaskNotThere(..))));
        self.counts.finished += 1;
    }

    /// Checks that the results of a scheduler agree with the cell.
    fn check(mut self) -> Counts {
        self.view.sync(&self.cell).unwrap();
        let mut fresh = View::new(self.view.scheduler(), 0);
        fresh.sync(&self.cell).unwrap();
        let spec = self.cell.read(|cell| cell.job(self.job).unwrap().clone());
        let group = fresh.compile(self.job, &spec, 0);
        for row in 0..MACHINES {
            for (kind, _) in fresh.kinds().iter() {
                assert_eq!(self.view.free(row, kind), fresh.free(row, kind), "row {row}");
            }
            assert_eq!(self.view.sequence(row), fresh.sequence(row), "row {row}");
            assert_eq!(
                self.view.check_fit(row, self.group),
                fresh.check_fit(row, group),
                "row {row}"
            );
        }
        let mut placed = self.cell.read(|cell| {
            let on_machine = |(id, state): (TaskId, TaskState)| state.machine().map(|_| id);
            cell.tasks(self.job).filter_map(on_machine).collect::<Vec<_>>()
        });
        placed.sort_unstable();
        self.placed.sort_unstable();
        assert_eq!(placed, self.placed);
        assert_eq!(self.counts.placed, self.placed.len() + self.counts.finished);
        self.counts
    }
}

#[test]
fn eight_schedulers_share_a_cell_and_nothing_is_lost() {
    let cell = shared_cell();
    let counts: Vec<Counts> = std::thread::scope(|scope| {
        let worker = |thread| {
            let cell = cell.clone();
            move || {
                let mut scheduler = Scheduler::new(&cell, thread);
                for round in 0..ROUNDS {
                    scheduler.round();
                    if round % 60 == 59 {
                        cell.read(|cell| cell.audit_no_overcommit()).expect("the cell is right");
                    }
                }
                scheduler
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(worker(thread))).collect();
        let schedulers: Vec<Scheduler> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        schedulers.into_iter().map(Scheduler::check).collect()
    });
    cell.read(|cell| cell.audit_no_overcommit()).expect("the cell is right");
    let running: usize = cell.read(|cell| cell.machines().map(|m| m.tasks.len()).sum());
    let sum = |of: fn(&Counts) -> usize| counts.iter().map(of).sum::<usize>();
    assert_eq!(running, sum(|t| t.placed) - sum(|t| t.finished));
    assert!(sum(|t| t.placed) > 1000, "too little happened: {counts:?}");
}
