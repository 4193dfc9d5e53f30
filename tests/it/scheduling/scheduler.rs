//! The scheduler's loop without faults, step by step on small cells.

use crate::cell::small::{
    LONG, add_machine, amounts, assert_settled, cell, cell_that_remembers, job, placed, report,
    rows, run, scheduler, step, submit, task,
};
use omega_cellstate::{Cell, Share, SharedCell};
use omega_core::{
    Amounts, Command, Commit, Job, JobId, KindId, Kinds, Machine, Precedence, ResourceKind,
    TaskGroup, TaskReport, Transaction, Unit,
};
use omega_schedulers::plugins::LeastAllocated;
use omega_schedulers::{Observer, Profile, Scheduler, Search, Settings, Unobserved};

/// Records the jobs on which the scheduler decided, and the claims of each transaction.
#[derive(Default)]
struct Notes {
    decided: Vec<JobId>,
    claims: Vec<usize>,
}

impl Observer for Notes {
    fn decided(&mut self, job: JobId, _: usize, _: usize) {
        self.decided.push(job);
    }

    fn committed(&mut self, txn: &Transaction, _: &Commit) {
        self.claims.push(txn.claims.len());
    }
}

#[test]
fn jobs_go_by_precedence_and_then_by_age() {
    let cell = cell(&[100]);
    let mut expected = Vec::new();
    for (name, precedence) in [("a", 1), ("b", 7), ("c", 7), ("d", -3), ("e", 9)] {
        let mut job = job(name, 2, 1);
        job.precedence = Precedence(precedence);
        expected.push((-precedence, submit(&cell, job)));
    }
    expected.sort_unstable();
    let mut scheduler = scheduler(&cell, "default");
    let mut notes = Notes::default();
    scheduler.step(&cell, 0, &mut notes).unwrap();
    assert_eq!(notes.decided, expected.iter().map(|(_, id)| *id).collect::<Vec<_>>());
    assert_eq!(notes.claims, [10]);
    assert_settled(&mut scheduler, &cell, 0);
}

#[test]
fn the_last_room_goes_to_the_highest_precedence() {
    let cell = cell(&[1]);
    let low = submit(&cell, job("low", 1, 1));
    let mut high = job("high", 1, 1);
    high.precedence = Precedence(5);
    let high = submit(&cell, high);
    let mut scheduler = scheduler(&cell, "default");
    assert_eq!(run(&mut scheduler, &cell, 0), 1);
    assert_eq!((placed(&cell, low), placed(&cell, high)), (0, 1));
    assert_eq!(scheduler.queue().unplaceable(), [(low, 1)]);
}

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    let cell = cell(&[2, 2]);
    let mut gang = job("gang", 5, 1);
    gang.gang_min = Some(5);
    gang.precedence = Precedence(1);
    let gang = submit(&cell, gang);
    let small = submit(&cell, job("small", 3, 1));
    let mut scheduler = scheduler(&cell, "default");
    assert_eq!(run(&mut scheduler, &cell, 0), 3, "the gang gave its claims back");
    assert_eq!((placed(&cell, gang), placed(&cell, small)), (0, 3));
    assert_settled(&mut scheduler, &cell, 0);
    add_machine(&cell, Machine::new("more", amounts(3)));
    assert_eq!(run(&mut scheduler, &cell, LONG), 0, "four of five is none");
    add_machine(&cell, Machine::new("enough", amounts(1)));
    assert_eq!(run(&mut scheduler, &cell, 2 * LONG), 5);
    assert_eq!(placed(&cell, gang), 5);
    assert_settled(&mut scheduler, &cell, 2 * LONG);
}

#[test]
fn a_gang_that_runs_takes_back_single_tasks() {
    let cell = cell(&[2, 2]);
    let mut gang = job("gang", 4, 1);
    gang.gang_min = Some(4);
    let gang = submit(&cell, gang);
    let mut scheduler = scheduler(&cell, "default");
    assert_eq!(run(&mut scheduler, &cell, 0), 4);
    report(&cell, task(gang, 2), TaskReport::Lost);
    assert_eq!(run(&mut scheduler, &cell, 0), 1);
    assert_settled(&mut scheduler, &cell, 0);
}

#[test]
fn a_large_gang_is_one_transaction_and_a_large_job_is_several() {
    let cell = cell(&[100]);
    submit(&cell, job("large", 35, 1));
    let mut gang = job("gang", 25, 1);
    gang.gang_min = Some(25);
    submit(&cell, gang);
    let settings = Settings { claims_max: 10, ..Settings::new("default") };
    let mut scheduler = Scheduler::new(&cell, Profile::batch(), settings).unwrap();
    let mut notes = Notes::default();
    while !scheduler.step(&cell, 0, &mut notes).unwrap().idle {}
    assert_eq!(notes.claims, [10, 10, 10, 5, 25]);
    assert_settled(&mut scheduler, &cell, 0);
}

#[test]
fn the_tasks_of_a_lost_machine_are_placed_again() {
    let cell = cell(&[4, 4]);
    let id = submit(&cell, job("web", 6, 1));
    let mut scheduler = scheduler(&cell, "default");
    assert_eq!(run(&mut scheduler, &cell, 0), 6);
    let lost = cell.read(|cell| cell.machine_by_name("m0")).unwrap();
    cell.apply(Command::RemoveMachine { id: lost }).unwrap();
    run(&mut scheduler, &cell, LONG);
    assert_eq!(rows(&cell, id).iter().filter(|row| **row == Some(1)).count(), 4);
    assert_eq!(scheduler.queue().unplaceable(), [(id, 2)]);
    add_machine(&cell, Machine::new("m2", amounts(4)));
    assert_eq!(run(&mut scheduler, &cell, 2 * LONG), 2);
    assert_settled(&mut scheduler, &cell, 2 * LONG);
}

/// Groups grow and shrink while the scheduler gets all changes as deltas, or only snapshots.
#[test]
fn resized_groups_are_followed_by_deltas_and_by_snapshots() {
    for changes in [1000, 1] {
        let cell = cell_that_remembers(changes, &[40]);
        let mut two = job("two", 3, 1);
        let mut other = TaskGroup::new(2, Amounts::new([2000]));
        other.name = "other".into();
        two.groups.push(other.into());
        let id = submit(&cell, two);
        let settings = Settings { claims_max: 2, ..Settings::new("default") };
        let mut scheduler = Scheduler::new(&cell, Profile::batch(), settings).unwrap();
        let resize =
            |group: &str, count| Command::ResizeGroup { job: id, group: group.into(), count };
        let commands =
            [("main", 5), ("other", 4), ("main", 1), ("other", 0), ("main", 6), ("other", 3)];
        for (group, count) in commands {
            cell.apply(resize(group, count)).unwrap();
            step(&mut scheduler, &cell, 0);
        }
        assert_settled(&mut scheduler, &cell, 0);
        let tasks = |group| {
            let there = |t| cell.read(|cell| cell.task_group(t)) == Some(group);
            let placed = rows(&cell, id).into_iter().enumerate().filter(|(_, row)| row.is_some());
            placed.filter(|(index, _)| there(task(id, *index as u32))).count()
        };
        assert_eq!((tasks(0), tasks(1)), (6, 3), "with {changes} changes remembered");
        assert_eq!(scheduler.queue().pending_tasks(), 0);
    }
}

#[test]
fn a_group_without_room_does_not_keep_the_next_from_it() {
    let cell = cell(&[8]);
    let mut two = job("two", 2, 9);
    let mut small = TaskGroup::new(4, Amounts::new([1000]));
    small.name = "small".into();
    two.groups.push(small.into());
    let id = submit(&cell, two);
    let settings = Settings { claims_max: 1, ..Settings::new("default") };
    let mut scheduler = Scheduler::new(&cell, Profile::batch(), settings).unwrap();
    assert_eq!(run(&mut scheduler, &cell, 0), 4);
    assert_eq!(scheduler.queue().unplaceable(), [(id, 2)]);
    assert_settled(&mut scheduler, &cell, LONG);
}

#[test]
fn workers_divide_jobs_without_overlap() {
    let cell = cell(&[64, 64, 64]);
    let jobs: Vec<JobId> = (0..10).map(|i| submit(&cell, job(&format!("j{i}"), 2, 1))).collect();
    let mut decided = Vec::new();
    for index in 0..3 {
        let settings = Settings::worker("default", index, 3);
        assert_eq!(settings.share, Share { index, of: 3 });
        let mut worker = Scheduler::new(&cell, Profile::service(), settings).unwrap();
        let mut notes = Notes::default();
        while !worker.step(&cell, 0, &mut notes).unwrap().idle {}
        assert!(notes.decided.iter().all(|job| job.0 % 3 == u64::from(index)));
        decided.extend(notes.decided);
        assert_settled(&mut worker, &cell, 0);
    }
    decided.sort_unstable();
    assert_eq!(decided, jobs);
    assert!(jobs.iter().all(|job| placed(&cell, *job) == 2));
}

#[test]
fn scores_see_kinds_that_are_not_standard() {
    let kind =
        |name: &str| ResourceKind { name: name.into(), unit: Unit::Count, compressible: false };
    let kinds = Kinds::new(["a", "b", "c", "d", "licences"].map(kind).to_vec()).unwrap();
    let cell = SharedCell::new(Cell::new(kinds));
    for (name, licences) in [("few", 10), ("many", 100)] {
        add_machine(&cell, Machine::new(name, Amounts::new([9, 9, 9, 9, licences])));
    }
    let request = Amounts::new([1, 0, 0, 0, 5]);
    let id = submit(&cell, omega_core::Job::batch("j", TaskGroup::new(1, request)));
    let profile = Profile::first_fit().with_score(LeastAllocated::new(&[(KindId(4), 1)]), 1);
    let settings = Settings::new("default").with_search(Search::Full);
    let mut scheduler = Scheduler::new(&cell, profile, settings).unwrap();
    run(&mut scheduler, &cell, 0);
    assert_eq!(rows(&cell, id), [Some(1)]);
}

#[test]
fn an_explanation_is_given_of_groups_that_there_are() {
    let cell = cell(&[1, 2]);
    let id = submit(&cell, job("wide", 1, 3));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, 0);
    let explanation = scheduler.explain(id, 0).unwrap();
    assert_eq!((explanation.machines, explanation.feasible), (2, 0));
    assert_eq!(scheduler.explain(id, 1), None);
    assert_eq!(scheduler.explain(JobId(99), 0), None);
}

/// The built-in profiles score free processors and memory, but a cell may lack both kinds.
#[test]
fn the_built_in_profiles_serve_a_cell_of_one_kind() {
    let kind = ResourceKind { name: "slots".into(), unit: Unit::Count, compressible: false };
    for profile in [Profile::service(), Profile::batch()] {
        let cell = SharedCell::new(Cell::new(Kinds::new(vec![kind.clone()]).unwrap()));
        for name in ["a", "b"] {
            let machine = Machine::new(name, Amounts::new([2]));
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        let job = Job::batch("job", TaskGroup::new(4, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).unwrap();
        let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
        while !scheduler.step(&cell, 0, &mut Unobserved).unwrap().idle {}
        assert_eq!(cell.read(|cell| cell.machines().map(|m| m.tasks.len()).sum::<usize>()), 4);
    }
}
