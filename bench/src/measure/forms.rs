//! Question: what does a plugin that is called for one machine cost, compared with a plugin that is called for 64
//! machines at once?

use crate::measure::Options;
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use omega_cellstate::{BLOCK, Block, GroupRef, View};
use omega_core::KindId;
use omega_schedulers::plugin::tasks;
use omega_schedulers::{MachineRef, MachineScore, PerMachine, Reads, SCORE_MAX, Score, Tasks};
use std::hint::black_box;

/// Prefers machines with more free CPU, up to 100 cores.
fn score_of(free: i64) -> i32 {
    (free / 10).clamp(0, i64::from(SCORE_MAX)) as i32
}

struct ByBlock;

impl Score for ByBlock {
    fn name(&self) -> &'static str {
        "by_block"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS
    }

    fn score(&self, _: &Tasks<'_>, block: Block<'_>, _: u64, scores: &mut [i32; BLOCK]) {
        for (score, free) in scores.iter_mut().zip(block.free(KindId::CPU)) {
            *score = score_of(*free);
        }
    }
}

struct ByMachine;

impl MachineScore for ByMachine {
    fn name(&self) -> &'static str {
        "by_machine"
    }

    fn score(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> i32 {
        score_of(machine.free(KindId::CPU))
    }
}

/// Rows for a score that is called once for 64 machines, and for the same score called for each machine, on all
/// machines of a view.
pub(crate) fn rows(options: &Options, view: &View, group: GroupRef) -> Vec<Row> {
    let scans = options.work(2000);
    let (columns, machines) = by_turns(
        options.runs(),
        || scan(&ByBlock, view, group, scans),
        || scan(&PerMachine(ByMachine), view, group, scans),
    );
    let times = machines.cpu / columns.cpu;
    vec![
        Row::time("a score of your own, 64 machines a call", Unit::Nanos, columns),
        Row::time("  one machine a call, by the adapter", Unit::Nanos, machines),
        Row::value("  adapter to columns, time", Unit::Times, times).reach(Reach::AtMost(5.0)),
    ]
}

fn scan(score: &dyn Score, view: &View, group: GroupRef, scans: usize) -> Figure {
    let tasks = tasks(view, group);
    let mut scores = [0; BLOCK];
    let ((), span) = timed(|| {
        for _ in 0..scans {
            for index in 0..view.blocks() {
                score.score(&tasks, view.block(index), u64::MAX, black_box(&mut scores));
            }
        }
    });
    span.each(scans * view.rows())
}
