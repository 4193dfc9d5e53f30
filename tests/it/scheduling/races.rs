//! Two schedulers, each of which has room for its own task, but whose tasks together would break a rule. Whichever
//! commits first wins, and the other gets the reason.

use crate::cell::small::{add_machine, amounts, cell, job, placed, step, submit};
use omega_cellstate::{Cell, CellHandle, SharedCell, View};
use omega_core::{
    Job, JobId, LabelSelector, Labels, Machine, Near, Port, Reason, Requirement, Spread, TaskId,
    TaskRule, TaskSelector, Tenants, TopologyLevel,
};
use omega_schedulers::{Profile, Scheduler, Search, Settings};
use std::sync::Barrier;

fn zone() -> TopologyLevel {
    TopologyLevel::Label("zone".into())
}

fn web() -> TaskSelector {
    let requirements = vec![Requirement::equals("app", "web")];
    TaskSelector::Labels { tenants: Tenants::Any, labels: LabelSelector { requirements } }
}

/// Four machines in two zones.
fn two_zones() -> SharedCell {
    let cell = cell(&[]);
    for i in 0..4 {
        let mut machine = Machine::new(format!("m{i}"), amounts(8));
        machine.labels = Labels::new([("zone", format!("z{}", i / 2))]);
        add_machine(&cell, machine);
    }
    cell
}

/// A job with one web task that has this rule, for this scheduler.
fn ruled(name: &str, rule: TaskRule) -> Job {
    let mut job = Job { scheduler: name.into(), ..job(name, 1, 1) };
    job.groups[0].labels = Labels::new([("app", "web")]);
    job.groups[0].rules.tasks.push(rule);
    job
}

/// Claims of two schedulers, and the reason for which the second is rejected.
fn races() -> Vec<(&'static str, [Job; 2], Reason)> {
    let both = |rule: TaskRule| [ruled("a", rule.clone()), ruled("b", rule)];
    let with_port = |name: &str| {
        let mut job = Job { scheduler: name.into(), ..job(name, 1, 1) };
        job.groups[0].rules.ports.push(Port::tcp(80));
        job
    };
    let apart = TaskRule::AntiAffinity { from: web(), level: zone() };
    let mut plain = ruled("b", apart.clone());
    plain.groups[0].rules.tasks.clear();
    let spread = TaskRule::Spread(Spread::new(web(), zone(), 1));
    let most = TaskRule::MaxPerDomain { of: web(), level: zone(), count: 1 };
    let beside = TaskRule::MaxColocated { of: web(), level: zone(), count: 1 };
    let mut other = ruled("b", beside.clone());
    other.groups[0].rules.tasks.clear();
    // The first task of its kind may run anywhere; a second one must run near it.
    let near = TaskRule::Affinity(vec![Near { tasks: web(), level: zone() }]);
    vec![
        ("ports", [with_port("a"), with_port("b")], Reason::PortTaken),
        ("anti-affinity", both(apart.clone()), Reason::AntiAffinity),
        ("anti-affinity of the one that runs", [ruled("a", apart), plain], Reason::AntiAffinity),
        ("spread", both(spread), Reason::Skew),
        ("most in a domain", both(most), Reason::DomainFull),
        ("so many beside", both(beside.clone()), Reason::DomainFull),
        ("so many beside the one that runs", [ruled("a", beside), other], Reason::DomainFull),
        ("affinity, in different zones", both(near), Reason::TaskAffinityUnmet),
    ]
}

#[test]
fn of_two_claims_that_break_a_rule_together_exactly_one_is_taken() {
    for (what, jobs, reason) in races() {
        for first in [0, 1] {
            let cell = two_zones();
            let apart = reason == Reason::TaskAffinityUnmet;
            let mut claims = Vec::new();
            for (index, job) in jobs.iter().enumerate() {
                let id = submit(&cell, job.clone());
                let (scheduler, next) = cell.register(job.name.clone()).unwrap();
                claims.push((id, View::new(scheduler, next), if apart { index * 2 } else { 0 }));
            }
            // Both sync before either commits.
            let mut transactions = Vec::new();
            for (id, view, row) in &mut claims {
                view.sync(&cell).unwrap();
                let spec = cell.read(|cell| cell.job(*id).unwrap().clone());
                let group = view.compile(*id, &spec, 0);
                let task = TaskId { job: *id, index: 0 };
                view.claim(task, view.machine_id(*row), group).unwrap();
                transactions.push(view.take_transaction());
            }
            if first == 1 {
                transactions.reverse();
            }
            let winner = cell.commit(&transactions[0]).unwrap();
            let loser = cell.commit(&transactions[1]).unwrap();
            assert_eq!(winner.conflicts, [], "{what}");
            assert_eq!(loser.conflict_of_claim(0), Some(reason), "{what}");
            cell.read(Cell::audit).unwrap();
        }
    }
}

/// Checks many times with whole schedulers on threads that the rule is not broken at the end.
#[test]
fn schedulers_that_race_never_break_a_rule() {
    for (what, jobs, reason) in races() {
        for round in 0..40 {
            let cell = two_zones();
            let start = Barrier::new(2);
            let ids: Vec<JobId> = jobs.iter().map(|job| submit(&cell, job.clone())).collect();
            std::thread::scope(|scope| {
                for job in &jobs {
                    let (cell, start) = (&cell, &start);
                    scope.spawn(move || {
                        let settings = Settings::new(job.name.clone()).with_search(Search::Full);
                        let profile = Profile::first_fit();
                        let mut scheduler = Scheduler::new(cell, profile, settings).unwrap();
                        start.wait();
                        for now in 0..5 {
                            step(&mut scheduler, cell, now * 1_000_000_000);
                        }
                    });
                }
            });
            cell.read(Cell::audit).unwrap();
            let rows: Vec<usize> = ids
                .iter()
                .filter_map(|id| cell.read(|cell| cell.task(TaskId { job: *id, index: 0 })))
                .filter_map(|state| Some(state.machine()?.row()))
                .collect();
            // In the end, both tasks are placed, because both fit.
            assert_eq!(rows.len(), 2, "{what}, round {round}");
            assert_eq!(ids.iter().map(|id| placed(&cell, *id)).sum::<usize>(), 2);
            let holds = match reason {
                Reason::PortTaken => rows[0] != rows[1],
                Reason::TaskAffinityUnmet => rows[0] / 2 == rows[1] / 2,
                _ => rows[0] / 2 != rows[1] / 2,
            };
            assert!(holds, "{what}, round {round}: rows {rows:?}");
        }
    }
}
