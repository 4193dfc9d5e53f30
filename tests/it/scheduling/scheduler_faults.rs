//! The scheduler's loop with faster competitors, with changing jobs, and with connections that break.

use crate::cell::histories::seeds;
use crate::cell::small::{
    LONG, assert_settled, cell, cell_that_remembers, job, placed, report, rows, run, scheduler,
    step, submit, task,
};
use omega_cellstate::{CellHandle, HandleError, SharedCell};
use omega_core::{Amounts, Command, JobId, Machine, TaskGroup, TaskId, TaskReport, TaskState};
use omega_schedulers::{Profile, Scheduler, Search, Settings, Unobserved};
use omega_tests::faulty::{Fault, FaultyCell};
use omega_tests::random::Dice;

fn try_step(scheduler: &mut Scheduler, cell: &impl CellHandle) -> Result<usize, HandleError> {
    scheduler.step(cell, 0, &mut Unobserved).map(|step| step.placed)
}

/// A job that has the name of its scheduler.
fn own_job(name: &str, tasks: u32, cores: u64) -> omega_core::Job {
    let mut job = job(name, tasks, cores);
    job.scheduler = name.into();
    job
}

/// Steps a scheduler until it has decided, before its transaction arrives. What a test does next happens between the
/// decision and the commit.
fn decided(scheduler: &mut Scheduler, cell: &SharedCell) {
    let lost = FaultyCell::scripted(cell, &[Fault::RequestLost]);
    assert_eq!(try_step(scheduler, &lost), Err(HandleError::Unknown));
}

#[test]
fn one_of_two_wins_the_last_room_and_the_other_waits_for_it() {
    let cell = cell(&[1]);
    let (a, b) = (submit(&cell, own_job("a", 1, 1)), submit(&cell, own_job("b", 1, 1)));
    let (mut slow, mut fast) = (scheduler(&cell, "a"), scheduler(&cell, "b"));
    decided(&mut slow, &cell);
    assert_eq!(step(&mut fast, &cell, 0).placed, 1);
    let refused = step(&mut slow, &cell, 0);
    assert_eq!((refused.placed, refused.conflicts), (0, 1));
    assert_eq!(run(&mut slow, &cell, 0), 0);
    assert_eq!(slow.queue().unplaceable(), [(a, 1)]);
    report(&cell, task(b, 0), TaskReport::Finished);
    assert_eq!(run(&mut slow, &cell, LONG), 1);
    assert_settled(&mut slow, &cell, LONG);
    assert_settled(&mut fast, &cell, LONG);
}

#[test]
fn a_job_killed_or_resized_after_the_decision_is_let_go() {
    for count in [0, 2] {
        let cell = cell(&[8]);
        let id = submit(&cell, job("job", 4, 1));
        let mut scheduler = scheduler(&cell, "default");
        decided(&mut scheduler, &cell);
        let command = match count {
            0 => Command::KillJob { job: id },
            _ => Command::ResizeGroup { job: id, group: "main".into(), count },
        };
        cell.apply(command).unwrap();
        assert_eq!(try_step(&mut scheduler, &cell), Ok(count as usize));
        assert_settled(&mut scheduler, &cell, 0);
        assert_eq!(scheduler.queue().pending_tasks(), 0);
        assert_eq!(placed(&cell, id), count as usize);
    }
}

/// Another scheduler places the task first, and the task loses its machine before the next sync.
#[test]
fn a_task_placed_by_another_and_lost_again_is_placed() {
    let cell = cell(&[8]);
    let id = submit(&cell, job("job", 1, 1));
    let mut slow = scheduler(&cell, "default");
    decided(&mut slow, &cell);
    let settings = Settings { takes: "default".into(), ..Settings::new("other") };
    let mut other = Scheduler::new(&cell, Profile::batch(), settings).unwrap();
    assert_eq!(run(&mut other, &cell, 0), 1);
    let refused = step(&mut slow, &cell, 0);
    assert_eq!(refused.conflicts, 1);
    report(&cell, task(id, 0), TaskReport::Lost);
    assert_eq!(run(&mut slow, &cell, LONG), 1);
    assert_settled(&mut slow, &cell, LONG);
}

#[test]
fn an_unknown_outcome_is_asked_for_with_the_same_transaction() {
    for fault in [Fault::RequestLost, Fault::AnswerLost, Fault::Delayed] {
        let cell = cell(&[8]);
        let id = submit(&cell, job("job", 5, 1));
        let handle = FaultyCell::scripted(&cell, &[fault, Fault::Refused, fault]);
        let mut scheduler = scheduler(&handle, "default");
        assert_eq!(try_step(&mut scheduler, &handle), Err(HandleError::Unknown), "{fault:?}");
        assert_eq!(try_step(&mut scheduler, &handle), Err(HandleError::Unavailable));
        assert_eq!(try_step(&mut scheduler, &handle), Err(HandleError::Unknown));
        assert_eq!(try_step(&mut scheduler, &handle), Ok(5), "{fault:?}");
        let sent = handle.sent();
        assert_eq!(sent.len(), 4);
        assert!(sent.iter().all(|txn| *txn == sent[0]));
        handle.heal();
        assert_settled(&mut scheduler, &cell, 0);
        assert_eq!(placed(&cell, id), 5);
    }
}

#[test]
fn a_look_with_an_unknown_outcome_keeps_the_view_of_the_decision() {
    // The cell remembers so few changes that the next delta is full.
    let cell = cell_that_remembers(1, &[8]);
    submit(&cell, job("job", 5, 1));
    let mut scheduler = scheduler(&cell, "default");
    decided(&mut scheduler, &cell);
    let version = scheduler.view().version();
    (0..3).for_each(|number| _ = submit(&cell, job(&format!("later-{number}"), 1, 1)));
    scheduler.look(&cell, 0).unwrap();
    assert_eq!(scheduler.view().version(), version);
    assert_eq!(try_step(&mut scheduler, &cell), Ok(5));
    scheduler.look(&cell, 0).unwrap();
    assert!(scheduler.view().version() > version);
    assert_eq!(run(&mut scheduler, &cell, 0), 3);
    assert_settled(&mut scheduler, &cell, 0);
}

#[test]
fn a_cell_that_is_away_loses_nothing() {
    let cell = cell(&[8]);
    let id = submit(&cell, job("job", 5, 1));
    let mut gang = job("gang", 3, 1);
    gang.gang_min = Some(3);
    let gang = submit(&cell, gang);
    let handle = FaultyCell::scripted(&cell, &[Fault::Refused, Fault::Refused]);
    let mut scheduler = scheduler(&handle, "default");
    assert_eq!(try_step(&mut scheduler, &handle), Err(HandleError::Unavailable));
    assert_eq!(scheduler.queue().pending_tasks(), 8);
    assert_eq!(try_step(&mut scheduler, &handle), Err(HandleError::Unavailable));
    run(&mut scheduler, &handle, LONG);
    assert_eq!((placed(&cell, id), placed(&cell, gang)), (5, 3));
    assert_settled(&mut scheduler, &cell, LONG);
}

/// The view falls behind the change log while a transaction is in flight.
#[test]
fn a_snapshot_in_mid_run_doubles_and_loses_nothing() {
    for answer in [Fault::None, Fault::RequestLost, Fault::AnswerLost, Fault::Refused] {
        let cell = cell_that_remembers(1, &[8, 8]);
        let id = submit(&cell, job("job", 5, 1));
        let handle = FaultyCell::scripted(&cell, &[answer]);
        let mut scheduler = scheduler(&handle, "default");
        let _ = try_step(&mut scheduler, &handle);
        for i in 0..5 {
            submit(&cell, job(&format!("more{i}"), 1, 1));
        }
        run(&mut scheduler, &handle, LONG);
        assert!(scheduler.view().delta().to > omega_core::Version(0));
        assert_settled(&mut scheduler, &cell, 2 * LONG);
        assert_eq!(rows(&cell, id).len(), 5);
        let all: usize = (0..6).map(|job| placed(&cell, JobId(job))).sum();
        assert_eq!(all, 10, "{answer:?}");
    }
}

#[test]
fn a_scheduler_whose_claims_conflict_chooses_more_widely() {
    let cell = cell(&[200]);
    let (mut slow, mut fast) = (scheduler(&cell, "slow"), scheduler(&cell, "fast"));
    submit(&cell, own_job("slow", 100, 2));
    for round in 0..12 {
        assert_eq!(slow.conflict_backoff_level(), round / 10, "after {round} rounds");
        let name = format!("fast{round}");
        let mut job = own_job("fast", 100, 2);
        job.name = name.into();
        let id = submit(&cell, job);
        decided(&mut slow, &cell);
        assert_eq!(run(&mut fast, &cell, 0), 100);
        assert_eq!(step(&mut slow, &cell, 0).conflicts, 100);
        cell.apply(Command::KillJob { job: id }).unwrap();
        let _ =
            slow.step(&FaultyCell::new(&cell, 0, 100), u64::from(round) * LONG, &mut Unobserved);
        let waited = FaultyCell::scripted(&cell, &[Fault::Refused]);
        let _ = slow.step(&waited, u64::from(round) * LONG, &mut Unobserved);
    }
}

/// A random world: jobs arrive, grow, shrink and end; tasks finish and are lost; machines are removed.
pub(crate) struct Turmoil {
    cell: SharedCell,
    pub(crate) dice: Dice,
    jobs: u32,
    machines: u32,
}

impl Turmoil {
    pub(crate) fn new(cell: &SharedCell, dice: Dice) -> Turmoil {
        Turmoil { cell: cell.clone(), dice, jobs: 0, machines: 10 }
    }

    fn add_machine(&mut self) {
        self.machines += 1;
        let mut machine = Machine::new(format!("m{}", self.machines), Amounts::new([8000, 64]));
        machine.devices = self.dice.below(3) as u8;
        drop(self.cell.apply(Command::RegisterMachine(machine)));
    }

    fn job(&mut self) -> omega_core::Job {
        self.jobs += 1;
        let mut job = job(&format!("j{}", self.jobs), 1 + self.dice.below(5) as u32, 1);
        job.scheduler = (*self.dice.pick(&["x", "y"])).into();
        job.precedence = omega_core::Precedence(self.dice.below(3) as i32);
        if self.dice.chance(30) {
            let mut group = TaskGroup::new(self.dice.below(4) as u32, Amounts::new([500, 3]));
            group.name = "other".into();
            job.groups.push(group.into());
        }
        if self.dice.chance(20) {
            job.gang_min = Some(job.groups[0].count);
        }
        if self.dice.chance(15) {
            job.groups[0].rules.ports.push(omega_core::Port::tcp(80));
        }
        if self.dice.chance(10) {
            job.groups[0].devices = Some(omega_core::DeviceRequest { count: 1, milli_each: 500 });
        }
        job
    }

    fn some_task(&mut self) -> Option<(TaskId, TaskState)> {
        let job = JobId(self.dice.below(self.jobs.max(1) as usize) as u64);
        let tasks: Vec<_> = self.cell.read(|cell| cell.tasks(job).collect());
        (!tasks.is_empty()).then(|| *self.dice.pick(&tasks))
    }

    pub(crate) fn step(&mut self) {
        let id = JobId(self.dice.below(self.jobs.max(1) as usize) as u64);
        let command = match self.dice.below(20) {
            0 => return self.add_machine(),
            1..7 => Command::SubmitJob(self.job()),
            7..10 => {
                let group = (*self.dice.pick(&["main", "main", "other"])).into();
                Command::ResizeGroup { job: id, group, count: self.dice.below(6) as u32 }
            }
            10 => Command::KillJob { job: id },
            11 => {
                let ids: Vec<_> = self.cell.read(|cell| cell.machines().map(|m| m.id).collect());
                match ids.len() {
                    0..4 => return,
                    _ => Command::RemoveMachine { id: *self.dice.pick(&ids) },
                }
            }
            _ => {
                let Some((task, state)) = self.some_task() else { return };
                let Some(machine) = state.machine() else { return };
                let reports = [TaskReport::Finished, TaskReport::Lost, TaskReport::Failed];
                Command::ReportTask {
                    task,
                    machine,
                    placed_ms: 0,
                    report: *self.dice.pick(&reports),
                }
            }
        };
        drop(self.cell.apply(command));
    }
}

#[test]
fn in_the_end_every_task_that_can_be_placed_is_placed_once() {
    for seed in seeds(150) {
        let mut dice = Dice::new(seed);
        let changes = *dice.pick(&[1, 4, 20, 1000]);
        let cell = cell_that_remembers(changes, &[8, 8, 8]);
        let handle = FaultyCell::new(&cell, seed, *dice.pick(&[0, 20, 50]));
        let mut turmoil = Turmoil::new(&cell, dice);
        let mut schedulers: Vec<Scheduler> = Vec::new();
        for (name, index, of) in [("x", 0, 2), ("x", 1, 2), ("y", 0, 1)] {
            let search = [Search::Full, Search::Indexed { feasible: 2 }, Search::Adaptive];
            let settings = Settings::worker(name, index, of).with_seed(seed);
            let mut settings = settings.with_search(*turmoil.dice.pick(&search));
            settings.claims_max = *turmoil.dice.pick(&[1, 3, 100]);
            settings.commits_in_flight = *turmoil.dice.pick(&[1, 2, 5]);
            let profile = turmoil.dice.pick(&[Profile::service, Profile::batch])();
            schedulers.push(Scheduler::new(&handle, profile, settings).unwrap());
        }
        for round in 0..60 {
            turmoil.step();
            for scheduler in &mut schedulers {
                let _ = scheduler.step(&handle, round * 700_000, &mut Unobserved);
            }
        }
        handle.heal();
        for round in 1..12 {
            for scheduler in &mut schedulers {
                run(scheduler, &handle, round * LONG);
            }
        }
        check_the_end(&cell, &mut schedulers, seed);
    }
}

/// Checks that the cell passes the audit, all views agree, and no pending task fits anywhere.
pub(crate) fn check_the_end(cell: &SharedCell, schedulers: &mut [Scheduler], seed: u64) {
    cell.read(|cell| cell.audit_no_overcommit()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    for scheduler in schedulers.iter_mut() {
        assert_settled(scheduler, cell, 20 * LONG);
        for (id, _) in scheduler.queue().waiting() {
            let spec = scheduler.queue().job(id).unwrap().clone();
            if spec.gang_min.is_some() {
                continue;
            }
            for group in 0..spec.groups.len() {
                let pending = cell.read(|cell| {
                    let mut tasks = cell.tasks(id).filter(|t| t.1 == TaskState::Pending);
                    tasks.any(|(task, _)| cell.task_group(task) == Some(group))
                });
                let feasible = scheduler.explain(id, group).unwrap().feasible;
                assert!(!pending || feasible == 0, "seed {seed}: {id:?} group {group} waits");
            }
        }
    }
}
