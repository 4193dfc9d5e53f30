//! Demand that varies over the day: schedulers that race for the same hours, and preemption.

use crate::cell::small::{LONG, amounts, cell, placed, report, run, scheduler, submit, task};
use omega_cellstate::{SharedCell, View};
use omega_core::{
    Claim, Command, DemandProfile, Job, JobId, KindId, Kinds, Machine, MachineId, Outcome,
    Precedence, SchedulerId, SequenceNumber, Take, TaskGroup, TaskReport, Transaction,
    TransactionId, Version,
};
use omega_schedulers::preemption::Preemptor;
use omega_schedulers::{Profile, Scheduler, Search, Settings};
use omega_tests::history::Trio;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Barrier;

/// A job whose tasks claim these cores, with one value for each part of the day.
fn service(name: &str, tasks: u32, cores: &[u64]) -> Job {
    let points = cores.iter().map(|cores| cores * 1000).collect();
    let demand_profile = DemandProfile { kind: KindId::CPU, points };
    let request = omega_core::Amounts::new([demand_profile.peak()]);
    let group =
        TaskGroup { demand_profiles: vec![demand_profile], ..TaskGroup::new(tasks, request) };
    Job::batch(name, group)
}

fn free_cores(cell: &SharedCell) -> i64 {
    cell.read(|cell| cell.machines().map(|machine| machine.free[0]).sum::<i64>() / 1000)
}

/// Two schedulers on threads, each with its own services, compete for a machine of ten cores. Returns the number of
/// running tasks of each.
fn race(days: &[u64], nights: &[u64]) -> [usize; 2] {
    let cell = cell(&[10]);
    let owned = |name: &str, cores| Job { scheduler: name.into(), ..service(name, 8, cores) };
    let jobs = [("days", days), ("nights", nights)].map(|(name, cores)| {
        let job = submit(&cell, owned(name, cores));
        (name, job)
    });
    let together = Barrier::new(2);
    std::thread::scope(|scope| {
        for (name, _) in jobs {
            let (cell, together) = (&cell, &together);
            scope.spawn(move || {
                let mut settings = Settings::new(name).with_search(Search::Full);
                settings.claims_max = 1;
                let mut scheduler = Scheduler::new(cell, Profile::first_fit(), settings).unwrap();
                together.wait();
                run(&mut scheduler, cell, 0);
                run(&mut scheduler, cell, LONG);
            });
        }
    });
    assert!(cell.read(|cell| cell.audit_no_overcommit()).is_ok());
    jobs.map(|(_, job)| placed(&cell, job))
}

#[test]
fn services_in_anti_phase_share_what_neither_peak_would_leave() {
    for _ in 0..20 {
        // With `d` tasks of the one service and `n` of the other, 3d + n <= 10 by day and d + 3n <= 10 by night, so at
        // most five tasks run at the same time.
        let [days, nights] = race(&[3, 1], &[1, 3]);
        assert!(days + nights >= 4 && 3 * days + nights <= 10 && days + 3 * nights <= 10);
        assert!(3 * (days + nights) > 10, "more than the peaks would allow");
        // One more task of either service would not fit, so no scheduler stopped too early.
        assert!(3 * (days + 1) + nights > 10 || days + 1 + 3 * nights > 10);
        assert!(3 * days + nights + 1 > 10 || days + 3 * (nights + 1) > 10);
    }
}

#[test]
fn services_in_phase_share_no_more_than_their_peaks() {
    for _ in 0..20 {
        let [days, nights] = race(&[3, 1], &[3, 0]);
        assert_eq!(days + nights, 3);
    }
}

#[test]
fn a_service_wakes_when_its_hours_become_free_though_the_peak_stays() {
    let cell = cell(&[4]);
    let mut scheduler = scheduler(&cell, "default");
    let (day, night) =
        (submit(&cell, service("d", 1, &[4, 0])), submit(&cell, service("n", 1, &[0, 4])));
    run(&mut scheduler, &cell, 0);
    let next = submit(&cell, service("next", 1, &[0, 4]));
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, day), placed(&cell, night), placed(&cell, next)), (1, 1, 0));
    report(&cell, task(night, 0), TaskReport::Finished);
    assert_eq!(free_cores(&cell), 0, "by day the machine is as full as before");
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!(placed(&cell, next), 1);
}

/// The victims of a task of precedence 1, on a machine of ten cores that is full of tasks of precedence 0.
fn victims(low: &[(&str, &[u64])], high: &[u64]) -> Vec<JobId> {
    let cell = cell(&[10]);
    let mut scheduler = scheduler(&cell, "default");
    for (name, cores) in low {
        let job = submit(&cell, service(name, 1, cores));
        run(&mut scheduler, &cell, 0);
        assert_eq!(placed(&cell, job), 1, "{name}");
    }
    let job = Job { precedence: Precedence(1), ..service("high", 1, high) };
    let id = submit(&cell, job.clone());
    let mut view = View::new(omega_core::SchedulerId(0), 0).with_placements();
    view.sync(&cell).unwrap();
    let group = view.compile(id, &std::sync::Arc::new(job), 0);
    let profile = Profile::first_fit();
    let preemptor =
        Preemptor { evaluator: profile.evaluator(), group, budgets: &[], expected: &[] };
    let candidate = preemptor.candidate(&mut view, 0);
    candidate.into_iter().flat_map(|one| one.victims.into_iter().map(|task| task.id.job)).collect()
}

#[test]
fn only_those_go_whose_hours_are_wanted() {
    let [day, night] = [("day", &[6, 1][..]), ("night", &[1, 8][..])];
    assert_eq!(victims(&[day, night], &[7, 1]), [JobId(0)], "by day there is no room for both");
    assert_eq!(victims(&[day, night], &[1, 5]), [JobId(1)]);
    assert_eq!(victims(&[day, night], &[9, 9]), [JobId(0), JobId(1)]);
    assert_eq!(victims(&[day, night], &[11, 0]), [], "that is more than there is");
    // A constant demand is checked against the highest point of the sum of the others' demands.
    assert_eq!(victims(&[day, night], &[4]), [JobId(1)]);
}

/// A load report is stored with the machine's claims at that time. For two services with different peak hours, these
/// are less than the sum of their requests.
#[test]
fn what_was_claimed_when_a_load_came_is_what_the_highest_hour_claims() {
    let mut cells = Trio::new(&Kinds::standard());
    let mut done = |command: Command| cells.answer(&command).unwrap().unwrap();
    done(Command::RegisterScheduler { name: "default".into() });
    done(Command::RegisterMachine(Machine::new("m", amounts(8))));
    let id = MachineId::default();
    done(Command::SubmitJob(service("days", 1, &[4, 1])));
    done(Command::SubmitJob(service("nights", 1, &[1, 4])));
    let claim = |job| Claim::new(task(JobId(job), 0), id, SequenceNumber(1));
    let txn = TransactionId { scheduler: SchedulerId(0), number: 1 };
    done(Command::Commit(Transaction::new(txn, Version(4), vec![claim(0), claim(1)])));
    done(Command::ReportLoad { id, load: amounts(2) });
    let cell = cells.cell();
    let machine = cell.machines().next().unwrap();
    assert_eq!(machine.tasks.len(), 2);
    assert_eq!(machine.load.unwrap().claimed.get(KindId::CPU), 5000);
}

/// If a group has no optional resources, a claim with optional resources claims the group's request with its demand
/// profile.
#[test]
fn a_claim_with_optional_resources_of_a_group_without_any_varies_over_the_day() {
    let mut cells = Trio::new(&Kinds::standard());
    let mut done = |command: Command| cells.answer(&command).unwrap().unwrap();
    done(Command::RegisterScheduler { name: "default".into() });
    done(Command::RegisterMachine(Machine::new("m", amounts(5))));
    done(Command::SubmitJob(service("days", 1, &[4, 1])));
    done(Command::SubmitJob(service("nights", 1, &[1, 4])));
    let claim = |job| Claim {
        take: Take::WithOptional,
        ..Claim::new(task(JobId(job), 0), MachineId::default(), SequenceNumber(1))
    };
    let txn = TransactionId { scheduler: SchedulerId(0), number: 1 };
    let txn = Transaction::new(txn, Version(4), vec![claim(0), claim(1)]);
    let Outcome::Commit(commit) = done(Command::Commit(txn)) else { panic!("a commit") };
    assert!(commit.is_complete(), "{commit:?}");
}

/// A task for 66 machines with up to 10 cores and 64 GiB each: whether it fits is computed for a block at once, and must
/// be the same as for each machine alone. Tasks and machines have profiles for both kinds, with different numbers of
/// points.
#[test]
fn a_block_has_room_where_its_machines_have() {
    let mut rng = Pcg64::seed_from_u64(31);
    let (mut refused, mut tight) = (0, 0);
    for round in 0..40 {
        let cores: Vec<u64> = (0..66).map(|_| rng.random_range(1..=10)).collect();
        let cell = cell(&cores);
        let mut varying = |name: &str, most: u64| {
            let by_day = rng.random_bool(0.5);
            let mut profile = |kind, unit| {
                let points = [1, 2, 24, 96, 288][rng.random_range(0..5)];
                let is_busy = |at: u64| (at * 2 / points == 0) == by_day;
                let mut amount = |at| rng.random_range(1..=if is_busy(at) { most } else { 1 });
                let points = (0..points).map(|at| amount(at) * unit).collect();
                DemandProfile { kind, points }
            };
            let mut demand_profiles =
                vec![profile(KindId::CPU, 500), profile(KindId::MEMORY, 2 << 30)];
            let request = demand_profiles.iter().map(DemandProfile::peak).collect::<Vec<_>>();
            demand_profiles.truncate(1 + round % 2);
            let group = TaskGroup {
                demand_profiles,
                ..TaskGroup::new(1, omega_core::Amounts::new(request))
            };
            Job::batch(name, group)
        };
        for row in 0..150 {
            let job = submit(&cell, varying(&format!("job-{row}"), 8));
            // Some tasks do not fit and stay pending.
            let _ = cell.apply(Command::AdoptTask {
                task: task(job, 0),
                machine: MachineId::first(row % 66),
            });
        }
        let job = varying("more", 12);
        let mut view = View::new(SchedulerId(0), 0);
        view.sync(&cell).unwrap();
        let group = view.compile(JobId(9999), &std::sync::Arc::new(job), 0);
        let need = view.need(group);
        for block in 0..view.blocks() {
            let word = view.block(block).room_among(need, &need.request, u64::MAX);
            for row in block * 64..(block * 64 + 64).min(66) {
                let has = |kind| view.taken(row, need, kind) <= view.free(row, kind);
                let fits = [KindId::CPU, KindId::MEMORY].into_iter().all(has);
                assert_eq!(word >> (row % 64) & 1 == 1, fits, "machine {row} in round {round}");
                let flat = need.request[0] <= view.free(row, KindId::CPU);
                refused += usize::from(!fits);
                tight += usize::from(fits && !flat);
            }
        }
    }
    assert!(
        refused > 100 && tight > 100,
        "{refused} refused, and {tight} only fit beside profiles"
    );
}
