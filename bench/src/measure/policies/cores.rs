//! Question: what do exclusive cores cost, for tasks that have exclusive cores and for other tasks?
//!
//! A commit of a claim with exclusive cores chooses and records NUMA nodes; a search compares one more column. Other
//! tasks on machines with NUMA nodes pay for a check. Its cost is the difference between the rows for machines with and
//! without NUMA nodes.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Row, Unit};
use crate::measure::{Options, commit, scan};
use omega_core::{Amounts, CoreRequest, Job, JobId, Machine, NodeCores, TaskGroup};

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
    let (exclusive, shared) = (wide(Some(CoreRequest::on_one_node(WIDE))), wide(None));
    let searched = by_turns(
        runs,
        || scan::placed(options, &mut with, &exclusive),
        || scan::placed(options, &mut other, &shared),
    );
    rows.push(Row::time("a full search, 16 cores of one node", Unit::Micros, searched.0));
    rows.push(Row::time("  for 16 that it shares", Unit::Micros, searched.1));
    let searched = by_turns(
        runs,
        || scan::placed(options, &mut other, &shared),
        || scan::placed(options, &mut without, &shared),
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
        let commits = txns.iter().map(|txn| cell.commit(txn).expect("it is checked"));
        commits.map(|commit| commit.conflicts.len()).sum::<usize>()
    });
    assert_eq!(refused, 0, "every machine has room for many more");
    span.each(claims)
}

/// The job of a task of `WIDE` cores.
fn wide(cores: Option<CoreRequest>) -> Job {
    let request = Amounts::new([u64::from(WIDE) * 1000]);
    Job::batch("wide", TaskGroup { cores, ..TaskGroup::new(1, request) })
}
