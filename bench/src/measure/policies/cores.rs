//! Question: what do exclusive cores cost, for tasks that have exclusive cores and for other tasks?
//!
//! A commit of a claim with exclusive cores chooses and records NUMA nodes; a search compares one more column. Other
//! tasks on machines with NUMA nodes pay for a check. Its cost is the difference between the rows for machines with and
//! without NUMA nodes.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Row, Unit};
use crate::measure::{Options, SEED, commit, scan};
use omega_cellstate::View;
use omega_core::{Amounts, CoreRequest, Job, JobId, Machine, NodeCores, TaskGroup, TaskId};
use omega_schedulers::{Placement, Placer, Search};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str = "10,000 machines of 64 cores, without NUMA nodes or with two of 32; commits of a claim of one core; a task of 16 cores placed by a full search and taken back";

const MACHINES: usize = 10_000;

/// Number of cores of each of two NUMA nodes.
const NODE: u16 = 32;

/// Number of cores of the task for which a machine is searched.
const WIDE: u16 = 16;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let (plain, nodes) =
        (empty(NodeCores::NONE), empty(NodeCores::NONE.with(0, NODE).with(1, NODE)));
    // About ten claims go to each machine, so all fit.
    let claims = options.work(100_000);
    let one = Some(CoreRequest::on_one_node(1));
    let mut rows = Vec::new();
    let mut commits = |what: &str, (ours, than): (Figure, Figure), other: &str| {
        rows.push(Row::time(what, Unit::Nanos, ours));
        rows.push(Row::time(other, Unit::Nanos, than));
    };
    let runs = options.runs();
    let used = by_turns(runs, || claimed(&nodes, claims, one), || claimed(&nodes, claims, None));
    commits("commits of a claim, a core to itself", used, "  that shares, on machines with nodes");
    let unused = by_turns(runs, || claimed(&nodes, claims, None), || claimed(&plain, claims, None));
    commits("commits of a claim, with nodes", unused, "  without nodes");
    let (_, mut with) = cells::viewed(&nodes);
    let (_, mut other) = cells::viewed(&nodes);
    let (_, mut without) = cells::viewed(&plain);
    let wide = Some(CoreRequest::on_one_node(WIDE));
    let searched =
        by_turns(runs, || placed(options, &mut with, wide), || placed(options, &mut other, None));
    rows.push(Row::time("a full search, 16 cores of one node", Unit::Micros, searched.0));
    rows.push(Row::time("  for 16 that it shares", Unit::Micros, searched.1));
    let searched = by_turns(
        runs,
        || placed(options, &mut other, None),
        || placed(options, &mut without, None),
    );
    rows.push(Row::time("a full search, with nodes", Unit::Micros, searched.0));
    rows.push(Row::time("  without nodes", Unit::Micros, searched.1));
    rows
}

/// A cell of machines with these NUMA nodes.
fn empty(numa: NodeCores) -> Made {
    let capacity = Amounts::new([u64::from(NODE) * 2000, 256 << 30]);
    let machine = |i| Machine { numa, ..Machine::new(format!("m{i}"), capacity.clone()) };
    cells::empty((0..MACHINES).map(machine).collect())
}

/// Commit time per claim of one core, shared or exclusive.
fn claimed(made: &Made, claims: usize, cores: Option<CoreRequest>) -> Figure {
    let mut cell = made.copy();
    let job = |i: usize| {
        let group = TaskGroup { cores, ..TaskGroup::new(1, Amounts::new([1000, 1 << 30])) };
        Job::batch(format!("j{i}"), group)
    };
    let jobs: Vec<JobId> = (0..claims).map(|i| cells::submit(&mut cell, job(i))).collect();
    let txns = commit::claims_of(&mut cell, made.machines, &jobs, commit::Sizes::ONE);
    let (refused, span) = timed(|| {
        let commits = txns.iter().map(|txn| cell.commit(txn).expect("it is judged"));
        commits.map(|commit| commit.conflicts.len()).sum::<usize>()
    });
    assert_eq!(refused, 0, "every machine has room for many more");
    span.each(claims)
}

/// Time to find a machine for a wide task, and to undo the claim.
fn placed(options: &Options, view: &mut View, cores: Option<CoreRequest>) -> Figure {
    let profile = scan::profile();
    profile.prepare(view);
    let request = Amounts::new([u64::from(WIDE) * 1000]);
    let job = Job::batch("wide", TaskGroup { cores, ..TaskGroup::new(1, request) });
    let id = JobId(u64::MAX);
    let group = view.compile(id, &Arc::new(job), 0);
    let how = Placement { search: Search::Full, ..Placement::default() };
    let tasks = [TaskId { job: id, index: 0 }];
    let (mut placer, mut rng) = (Placer::default(), Pcg64::seed_from_u64(SEED));
    let count = options.work(200);
    let ((), span) = timed(|| {
        for _ in 0..count {
            let placed = placer.place(view, (&profile, how), (group, &tasks), &mut rng);
            assert_eq!(placed, 1, "every machine takes the task");
            view.drop_claims(1);
        }
    });
    view.forget_job(id);
    span.each(count)
}
