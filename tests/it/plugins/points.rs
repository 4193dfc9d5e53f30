//! Extension points around a decision, with plugins that reject, wait and fail at each point.

use crate::cell::small::{
    LONG, add_machine, amounts, assert_settled, cell, cell_that_remembers, job, placed, report,
    rows, run, step, submit, task,
};
use crate::plugins::points_fixtures::{Ledger, Says, wait, with_both};
use omega_cellstate::{HandleError, SharedCell, View};
use omega_core::{Command, Job, JobId, KindId, Machine, MachineId, Precedence, TaskId, TaskReport};
use omega_schedulers::{
    Events, Lack, MadeRoom, Nanos, Order, Permission, PostFilter, Profile, Queued, Refused,
    Scheduler, Search, Settings, Unobserved, Waiting,
};
use omega_tests::faulty::{Fault, FaultyCell};
use std::cmp::Ordering;

/// A scheduler with plugins at every point, and their state shared with the test.
struct Stage {
    cell: SharedCell,
    scheduler: Scheduler,
    ledger: Ledger,
    says: Says,
}

impl Stage {
    fn new(cell: SharedCell) -> Stage {
        let (ledger, says) = (Ledger::default(), Says::default());
        let profile = with_both(Profile::first_fit(), &ledger, &says);
        let settings = Settings::new("default").with_search(Search::Full);
        let scheduler = Scheduler::new(&cell, profile, settings).unwrap();
        Stage { cell, scheduler, ledger, says }
    }

    fn run(&mut self, now: Nanos) -> usize {
        run(&mut self.scheduler, &self.cell, now)
    }

    fn waiting(&mut self) -> Waiting {
        self.scheduler.waiting()
    }

    /// Checks that nothing is claimed, reserved or waiting, so that the view equals the cell.
    fn assert_clean(&mut self, now: Nanos) {
        assert_settled(&mut self.scheduler, &self.cell, now);
        assert_eq!(self.ledger.book().open, Default::default());
        assert_eq!(self.scheduler.waiting().list(), []);
        assert_eq!(self.scheduler.view().deferred_claims(), 0);
        let book = self.ledger.book();
        assert_eq!(book.reserved, book.unreserved + book.bound);
    }

    fn free_cores(&self, row: usize) -> i64 {
        self.scheduler.view().free(row, KindId::CPU) / 1000
    }
}

const NOT_NOW: Refused = Refused(Events::TIME);

#[test]
fn a_refusal_at_any_point_gives_all_back_and_the_job_comes_again() {
    let refuses: [fn(&Says); 3] = [
        |says| says.lines().reserve.push_back(Some(NOT_NOW)),
        |says| says.lines().permit.push_back(Permission::Refuse(NOT_NOW)),
        |says| says.lines().pre_bind.push_back(Some(NOT_NOW)),
    ];
    for refuse in refuses {
        let mut stage = Stage::new(cell(&[4]));
        let id = submit(&stage.cell, job("job", 3, 1));
        refuse(&stage.says);
        assert_eq!(stage.run(0), 2, "the others of its tasks go on");
        assert_eq!(stage.scheduler.queue().unplaceable(), [(id, 1)]);
        assert_eq!((stage.free_cores(0), stage.ledger.book().unreserved), (2, 1));
        assert_eq!(stage.run(LONG), 1);
        stage.assert_clean(LONG);
    }
}

#[test]
fn a_refused_gang_goes_back_whole() {
    let refuses: [fn(&Says); 3] = [
        |says| says.lines().reserve.extend([None, Some(NOT_NOW)]),
        |says| {
            says.lines().permit.extend([wait(LONG), Permission::Refuse(NOT_NOW)]);
        },
        |says| says.lines().pre_bind.extend([None, None, Some(NOT_NOW)]),
    ];
    for refuse in refuses {
        let mut stage = Stage::new(cell(&[4]));
        let mut gang = job("gang", 3, 1);
        gang.gang_min = Some(3);
        let id = submit(&stage.cell, gang);
        refuse(&stage.says);
        assert_eq!(stage.run(0), 0);
        assert_eq!((stage.free_cores(0), stage.ledger.book().unreserved), (4, 3));
        assert_eq!(stage.run(LONG), 3);
        assert_eq!(placed(&stage.cell, id), 3);
        stage.assert_clean(LONG);
    }
}

#[test]
fn a_task_waits_with_its_room_until_it_is_allowed() {
    let mut stage = Stage::new(cell(&[2]));
    stage.says.lines().permit.push_back(wait(100 * LONG));
    let first = submit(&stage.cell, job("first", 1, 2));
    assert_eq!(stage.run(0), 0);
    assert_eq!((stage.free_cores(0), stage.scheduler.queue().held_tasks()), (0, 1));
    let second = submit(&stage.cell, job("second", 1, 1));
    assert_eq!(stage.run(LONG), 0, "the room is kept through every sync");
    let waiting = stage.waiting();
    let list = waiting.list();
    assert_eq!(
        (list.len(), list[0].task, &list[0].plugins[..]),
        (1, task(first, 0), &["says"][..])
    );
    assert!(!waiting.allow(task(second, 0), "says") && !waiting.allow(task(first, 0), "other"));
    assert!(waiting.allow(task(first, 0), "says"));
    assert_eq!(stage.run(LONG), 1);
    assert_eq!((placed(&stage.cell, first), placed(&stage.cell, second)), (1, 0));
    stage.assert_clean(LONG);
}

#[test]
fn a_wait_that_ends_unschedulable_gives_the_room_to_the_next() {
    for by_hand in [false, true] {
        let mut stage = Stage::new(cell(&[2]));
        let refusal = Refused(Events::EXTERNAL);
        stage.says.lines().permit.push_back(Permission::Wait { at_most: LONG, then: refusal });
        let first = submit(&stage.cell, job("first", 1, 2));
        let second = submit(&stage.cell, job("second", 1, 1));
        assert_eq!(stage.run(0), 0);
        let now = if by_hand { 1_000_000 } else { LONG };
        assert!(!by_hand || stage.waiting().refuse(task(first, 0), "me"));
        assert_eq!(stage.run(now) + stage.run(LONG), 1);
        assert_eq!((placed(&stage.cell, first), placed(&stage.cell, second)), (0, 1));
        stage.assert_clean(2 * LONG);
        report(&stage.cell, task(second, 0), TaskReport::Finished);
        assert_eq!(stage.run(3 * LONG), 0, "room is not what it waits for");
        stage.waiting().raise(Events::EXTERNAL);
        assert_eq!(stage.run(4 * LONG), 1);
        stage.assert_clean(4 * LONG);
    }
}

#[test]
fn nobody_waits_longer_than_the_bound() {
    let mut stage = Stage::new(cell(&[2]));
    stage.says.lines().permit.push_back(wait(Nanos::MAX));
    submit(&stage.cell, job("job", 1, 1));
    assert_eq!(stage.run(5), 0);
    assert_eq!(stage.waiting().list()[0].until, 5 + omega_schedulers::PERMIT_WAIT_MAX);
}

#[test]
fn a_gang_waits_together() {
    let mut stage = Stage::new(cell(&[4]));
    let mut gang = job("gang", 3, 1);
    gang.gang_min = Some(3);
    let id = submit(&stage.cell, gang);
    stage.says.lines().permit.extend([Permission::Allow, wait(LONG), wait(LONG)]);
    assert_eq!((stage.run(0), stage.waiting().list().len(), stage.free_cores(0)), (0, 3, 1));
    stage.waiting().allow(task(id, 1), "says");
    assert_eq!((stage.run(0), stage.waiting().list().len()), (0, 3));
    stage.waiting().allow(task(id, 2), "says");
    assert_eq!(stage.run(0), 3);
    stage.assert_clean(0);
}

/// When the task for which the gang waits ends, the other tasks continue; if they are too few, the gang is retried.
#[test]
fn a_gang_does_not_wait_for_one_that_is_gone() {
    for min in [2, 3] {
        let mut stage = Stage::new(cell(&[4]));
        let mut gang = job("gang", 3, 1);
        gang.gang_min = Some(min);
        let id = submit(&stage.cell, gang);
        stage.says.lines().permit.extend([Permission::Allow, Permission::Allow, wait(100 * LONG)]);
        assert_eq!((stage.run(0), stage.waiting().list().len()), (0, 3));
        let resize = Command::ResizeGroup { job: id, group: "main".into(), count: 2 };
        stage.cell.apply(resize).unwrap();
        assert_eq!(stage.run(0) + stage.run(LONG), 2);
        stage.assert_clean(LONG);
    }
}

#[test]
fn a_claim_that_the_cell_refuses_is_unreserved() {
    let mut stage = Stage::new(cell(&[2]));
    stage.says.lines().permit.push_back(wait(LONG));
    let first = submit(&stage.cell, job("first", 1, 2));
    assert_eq!(stage.run(0), 0);
    // Another scheduler's view does not have the waiting tasks.
    let mut other = job("other", 1, 1);
    other.scheduler = "other".into();
    let other = submit(&stage.cell, other);
    assert_eq!(run(&mut crate::cell::small::scheduler(&stage.cell, "other"), &stage.cell, 0), 1);
    stage.waiting().allow(task(first, 0), "says");
    let refused = step(&mut stage.scheduler, &stage.cell, 0);
    assert_eq!((refused.placed, refused.conflicts, stage.ledger.book().unreserved), (0, 1, 1));
    stage.run(LONG);
    report(&stage.cell, task(other, 0), TaskReport::Finished);
    assert_eq!(stage.run(2 * LONG), 1);
    stage.assert_clean(2 * LONG);
}

/// The claim of a waiting task is dropped if the task ends or loses its machine.
#[test]
fn a_task_that_ends_or_loses_its_machine_waits_no_longer() {
    let kill = |job| Command::KillJob { job };
    let resize = |job| Command::ResizeGroup { job, group: "main".into(), count: 0 };
    let remove = |_| Command::RemoveMachine { id: MachineId { slot: 0, incarnation: 0 } };
    let commands: [fn(JobId) -> Command; 3] = [kill, resize, remove];
    for (command, changes) in commands.iter().flat_map(|c| [(c, 1000), (c, 1)]) {
        let mut stage = Stage::new(cell_that_remembers(changes, &[4]));
        stage.says.lines().permit.push_back(wait(100 * LONG));
        let id = submit(&stage.cell, job("job", 1, 2));
        assert_eq!(stage.run(0), 0);
        let machine = stage.cell.read(|cell| cell.machine_by_name("m0")).unwrap();
        let command = match command(id) {
            Command::RemoveMachine { .. } => Command::RemoveMachine { id: machine },
            command => command,
        };
        stage.cell.apply(command).unwrap();
        stage.run(LONG);
        stage.assert_clean(LONG);
        assert_eq!(stage.ledger.book().unreserved, 1);
    }
}

#[test]
fn what_waits_survives_a_snapshot() {
    let mut stage = Stage::new(cell_that_remembers(1, &[4]));
    stage.says.lines().permit.push_back(wait(100 * LONG));
    let id = submit(&stage.cell, job("job", 1, 2));
    assert_eq!(stage.run(0), 0);
    for i in 0..5 {
        submit(&stage.cell, job(&format!("more{i}"), 1, 0));
    }
    assert_eq!(stage.run(LONG), 5);
    assert_eq!((stage.free_cores(0), stage.scheduler.queue().held_tasks()), (2, 1));
    stage.waiting().allow(task(id, 0), "says");
    assert_eq!(stage.run(2 * LONG), 1);
    stage.assert_clean(2 * LONG);
}

#[test]
fn a_transaction_that_is_turned_away_is_unreserved_and_an_unknown_one_is_not() {
    for (fault, unreserved) in
        [(Fault::Refused, 1), (Fault::RequestLost, 0), (Fault::AnswerLost, 0)]
    {
        let mut stage = Stage::new(cell(&[4]));
        submit(&stage.cell, job("job", 1, 2));
        let handle = FaultyCell::scripted(&stage.cell, &[fault]);
        let error = stage.scheduler.step(&handle, 0, &mut Unobserved).unwrap_err();
        assert!(matches!(error, HandleError::Unavailable | HandleError::Unknown));
        assert_eq!(stage.ledger.book().unreserved, unreserved, "{fault:?}");
        assert_eq!(stage.run(LONG), 1, "{fault:?}");
        stage.assert_clean(LONG);
    }
}

#[test]
fn a_gated_job_is_let_in_by_its_event_alone() {
    let mut stage = Stage::new(cell(&[4]));
    stage.says.lines().admit.extend([Refused(Events::MACHINE_ADDED); 2]);
    let id = submit(&stage.cell, job("job", 1, 1));
    assert_eq!(stage.run(0), 0);
    assert_eq!(stage.scheduler.queue().gated(), [id]);
    let other = submit(&stage.cell, job("other", 1, 1));
    assert_eq!((stage.run(0), placed(&stage.cell, other)), (0, 0), "gated, too");
    report_nothing(&stage.cell);
    assert_eq!(stage.run(LONG), 0, "a load is not what they wait for");
    add_machine(&stage.cell, Machine::new("more", amounts(1)));
    assert_eq!(stage.run(LONG), 2, "at once");
    stage.assert_clean(LONG);
}

/// A change that frees no resources.
fn report_nothing(cell: &SharedCell) {
    let id = cell.read(|cell| cell.machine_by_name("m0")).unwrap();
    cell.apply(Command::ReportLoad { id, load: amounts(1) }).unwrap();
}

#[test]
fn a_gate_hears_of_quotas() {
    let mut stage = Stage::new(cell(&[4]));
    stage.says.lines().admit.push_back(Refused(Events::QUOTA_CHANGED));
    submit(&stage.cell, job("job", 1, 1));
    assert_eq!(stage.run(0), 0);
    stage.cell.apply(Command::SetQuota { tenant: "any".into(), limit: None }).unwrap();
    assert_eq!(stage.run(0), 1);
}

/// A queue order by size, regardless of precedence.
struct SmallFirst;

impl Order for SmallFirst {
    fn name(&self) -> &'static str {
        "small_first"
    }

    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
        a.job.task_count().cmp(&b.job.task_count())
    }
}

#[test]
fn an_order_of_ones_own_decides_who_comes_first() {
    let cell = cell(&[6]);
    let of = |name: &str, tasks, precedence| {
        let mut job = job(name, tasks, 1);
        job.precedence = Precedence(precedence);
        submit(&cell, job)
    };
    let (large, small, middle) = (of("large", 5, 9), of("small", 1, 0), of("middle", 3, 5));
    let profile = Profile::first_fit().with_order(SmallFirst);
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    let resize = Command::ResizeGroup { job: large, group: "main".into(), count: 4 };
    step(&mut scheduler, &cell, 0);
    assert_eq!([large, small, middle].map(|id| placed(&cell, id)), [2, 1, 3]);
    cell.apply(resize).unwrap();
    assert_settled(&mut scheduler, &cell, LONG);
}

/// Post filter that evicts the least important tasks of the first machine that would then have room.
struct Pushy;

impl PostFilter for Pushy {
    fn name(&self) -> &'static str {
        "pushy"
    }

    fn make_room(&mut self, view: &mut View, lack: &Lack<'_>) -> Option<MadeRoom> {
        for row in 0..view.rows() {
            let weaker = |task: &&omega_cellstate::PlacedTask| {
                task.precedence < lack.job.precedence && !view.is_evicted(task.id)
            };
            let victims: Vec<_> = view.tasks_on(row).iter().rev().filter(weaker).copied().collect();
            let mut evictions = Vec::new();
            for victim in victims {
                view.lift(row, victim);
                evictions.push(victim);
                if view.check_fit(row, lack.group).is_ok() {
                    break;
                }
            }
            let fits = view.check_fit(row, lack.group).is_ok();
            evictions.iter().for_each(|victim| view.put_back(row, *victim));
            if fits && !evictions.is_empty() {
                let (machine, throttled) = (view.machine_id(row), Vec::new());
                return Some(MadeRoom { machine, evictions, throttled });
            }
        }
        None
    }
}

fn important(name: &str, tasks: u32, cores: u64) -> Job {
    let mut job = job(name, tasks, cores);
    job.precedence = Precedence(1);
    job
}

#[test]
fn a_task_that_finds_no_machine_takes_one_by_evicting() {
    let cell = cell(&[4, 4]);
    let low = submit(&cell, job("low", 8, 1));
    let profile = Profile::first_fit().with_post_filter(Pushy);
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    assert_eq!(run(&mut scheduler, &cell, 0), 8);
    let high = submit(&cell, important("high", 2, 3));
    assert_eq!(run(&mut scheduler, &cell, 0), 2);
    assert_eq!((placed(&cell, low), placed(&cell, high)), (2, 2));
    assert_settled(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.queue().unplaceable(), [(low, 6)], "they are pending again");
}

/// The victims of a rejected claim are restored in the view, and the next decision sees them.
#[test]
fn evictions_go_back_with_their_claim() {
    let cell = cell(&[4]);
    let low = submit(&cell, job("low", 4, 1));
    let says = Says::default();
    let profile = Profile::first_fit().with_post_filter(Pushy).with_permit(says.clone());
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    assert_eq!(run(&mut scheduler, &cell, 0), 4);
    says.lines().permit.extend([Permission::Refuse(NOT_NOW), wait(LONG)]);
    let high = submit(&cell, important("high", 1, 2));
    assert_eq!(run(&mut scheduler, &cell, 0), 0);
    assert_eq!(scheduler.view().free(0, KindId::CPU), 0);
    assert_eq!(run(&mut scheduler, &cell, LONG), 0, "it waits, and so do its evictions");
    assert_eq!((placed(&cell, low), scheduler.view().open_evictions()), (4, 2));
    let victim = TaskId { job: low, index: 3 };
    report(&cell, victim, TaskReport::Finished);
    run(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.view().open_evictions(), 1, "one has left by itself");
    assert!(scheduler.waiting().allow(task(high, 0), "says"));
    assert_eq!(run(&mut scheduler, &cell, LONG), 1);
    assert_eq!((placed(&cell, low), placed(&cell, high)), (2, 1));
    assert_settled(&mut scheduler, &cell, 2 * LONG);
}

#[test]
fn what_is_left_of_a_gang_is_placed() {
    let cell = cell(&[4, 4]);
    let mut gang = job("gang", 4, 2);
    gang.gang_min = Some(4);
    let id = submit(&cell, gang);
    let mut scheduler = crate::cell::small::scheduler(&cell, "default");
    assert_eq!(run(&mut scheduler, &cell, 0), 4);
    report(&cell, task(id, 0), TaskReport::Finished);
    (1..4).for_each(|index| report(&cell, task(id, index), TaskReport::Lost));
    assert_eq!(run(&mut scheduler, &cell, LONG), 3);
    assert_eq!(rows(&cell, id).iter().flatten().count(), 3);
    assert_settled(&mut scheduler, &cell, LONG);
}
