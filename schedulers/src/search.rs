//! Where to look for machines, and how far.
//!
//! A search walks the view's blocks from a starting point and collects feasible machines with
//! their scores. How many it collects is the trade: all of them for the best machine, or just
//! enough for a good one. Schedulers that look at the same machines in the same order collide, so
//! each starts somewhere in its own *home shard*, at random (Omega's randomised search; Borg's
//! relaxed randomisation; shards after ParSync, ATC'21).
//!
//! Blocks that cannot have room are skipped by the bounds that the view keeps with them, 64
//! blocks at a time. A scan that found nothing has the bounds tightened, so a kind of task that
//! hardly any machine can take costs about a microsecond in a cell of a hundred thousand.

use crate::plugin::{Tasks, lanes};
use crate::profile::{Active, Profile};
use omega_cellstate::{BLOCK, GroupRef, View};
use rand::{Rng, RngExt};
use rayon::prelude::*;

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// At every machine: the best there is.
    Full,
    /// From a random place on until so many feasible machines are found, block by block.
    Sampled {
        /// How many are enough.
        feasible: u32,
    },
    /// The same, skipping blocks that cannot have room.
    Indexed {
        /// How many are enough.
        feasible: u32,
    },
    /// Full in small cells and indexed in large ones.
    Adaptive,
}

/// Up to so many machines, `Adaptive` looks at all of them: it takes a few microseconds.
const ADAPTIVE_FULL_ROWS: usize = 1024;

/// How many feasible machines `Adaptive` looks for. Two blocks' worth, so that there is a choice
/// even when few fit; in measurements more did not pack visibly better.
const ADAPTIVE_FEASIBLE: u32 = 64;

/// Cells with more blocks than this are scanned by several threads in a full search: below, the
/// hand-off costs as much as the scan.
const PARALLEL_BLOCKS: usize = 1024;

/// The part of the cell in which a scheduler looks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Which part, from 0.
    pub index: u32,
    /// Of how many equal parts. 1 is the whole cell.
    pub of: u32,
}

impl Home {
    /// The whole cell.
    pub const EVERYWHERE: Home = Home { index: 0, of: 1 };

    /// A block of the home to start from, chosen at random.
    fn start(self, blocks: usize, rng: &mut impl Rng) -> usize {
        let of = self.of.max(1) as usize;
        let index = self.index as usize % of;
        let (from, to) = (blocks * index / of, blocks * (index + 1) / of);
        if from >= to { from.min(blocks - 1) } else { rng.random_range(from..to) }
    }
}

/// A feasible machine with its score. Ordered by score; among equals the one that the search met
/// first is the greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Its score.
    pub score: i32,
    /// How early the search met it: the complement of its distance from the start.
    nearness: u32,
    /// Its row.
    pub row: u32,
}

/// The candidates of a search, reused between searches.
#[derive(Debug, Default)]
pub struct Candidates {
    /// What was found, in the order in which it was met.
    pub found: Vec<Candidate>,
    /// Blocks in which nothing fitted although their bounds said that something might.
    misled: Vec<u32>,
}

/// One search: what to look for and where.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The plugins.
    pub profile: &'a Profile,
    /// The tasks.
    pub group: GroupRef,
    /// How far to look.
    pub search: Search,
    /// How many tasks the candidates are for: a sampled search looks for at least as many.
    pub tasks: usize,
    /// Where to look first.
    pub home: Home,
}

/// Collects feasible machines.
pub fn search(view: &mut View, request: Request<'_>, rng: &mut impl Rng, into: &mut Candidates) {
    into.found.clear();
    into.misled.clear();
    if view.blocks() == 0 {
        return;
    }
    let start = request.home.start(view.blocks(), rng);
    let Limits { enough, indexed } = limits(request, view.rows());
    let tasks = tasks(view, request.group);
    let active = request.profile.active(&tasks);
    if enough == usize::MAX && view.blocks() > PARALLEL_BLOCKS {
        scan_parallel(&tasks, &active, start, into);
    } else {
        let scan = Scan { tasks: &tasks, active: &active, start };
        scan.until(enough, indexed, into);
    }
    tighten(view, into);
}

struct Limits {
    enough: usize,
    indexed: bool,
}

fn limits(request: Request<'_>, rows: usize) -> Limits {
    let at_least = |feasible: u32| (feasible as usize).max(request.tasks);
    match request.search {
        Search::Full => Limits { enough: usize::MAX, indexed: true },
        Search::Sampled { feasible } => Limits { enough: at_least(feasible), indexed: false },
        Search::Indexed { feasible } => Limits { enough: at_least(feasible), indexed: true },
        Search::Adaptive if rows <= ADAPTIVE_FULL_ROWS => {
            Limits { enough: usize::MAX, indexed: true }
        }
        Search::Adaptive => Limits { enough: at_least(ADAPTIVE_FEASIBLE), indexed: true },
    }
}

/// The tasks of a compiled group, as plugins see them.
#[must_use]
pub fn tasks(view: &View, group: GroupRef) -> Tasks<'_> {
    let (job, index) = view.job(group);
    Tasks { view, need: view.need(group), job, group: &job.groups[index] }
}

/// A walk over the blocks of a view.
struct Scan<'a, 'p> {
    tasks: &'a Tasks<'a>,
    active: &'a Active<'p>,
    start: usize,
}

impl Scan<'_, '_> {
    /// Walks all blocks once, from the start around, until there are enough candidates.
    fn until(&self, enough: usize, indexed: bool, into: &mut Candidates) {
        let blocks = self.tasks.view.blocks();
        self.range(self.start..blocks, enough, indexed, into);
        self.range(0..self.start, enough, indexed, into);
    }

    fn range(
        &self,
        blocks: std::ops::Range<usize>,
        enough: usize,
        indexed: bool,
        into: &mut Candidates,
    ) {
        for group in blocks.start / BLOCK..blocks.end.div_ceil(BLOCK) {
            let first = group * BLOCK;
            let from = blocks.start.max(first) - first;
            let to = (blocks.end - first).min(BLOCK);
            let part = u64::MAX << from & u64::MAX >> (BLOCK - to);
            if into.found.len() >= enough {
                return;
            }
            self.group(group, part, (enough, indexed), into);
        }
    }

    /// Walks those of the 64 blocks from `64 * group` on that are in `part`.
    fn group(
        &self,
        group: usize,
        part: u64,
        (enough, indexed): (usize, bool),
        into: &mut Candidates,
    ) {
        let Tasks { view, need, .. } = self.tasks;
        let allowed = part & view.blocks_allowed(group, need);
        if allowed == 0 || indexed && !view.blocks_may_fit(group, &need.request) {
            return;
        }
        for lane in lanes(allowed) {
            let block = group * BLOCK + lane;
            if !indexed || view.block_may_fit(block, &need.request) {
                self.block(block, into);
                if into.found.len() >= enough {
                    return;
                }
            }
        }
    }

    fn block(&self, index: usize, into: &mut Candidates) {
        let view = self.tasks.view;
        let block = view.block(index);
        let feasible = self.active.feasible(self.tasks, block, u64::MAX);
        if feasible == 0 {
            if block.fits(&self.tasks.need.request) == 0 {
                into.misled.push(index as u32);
            }
            return;
        }
        let scores = self.active.scores(self.tasks, block, feasible);
        let blocks = view.blocks();
        let distance = (index + blocks - self.start) % blocks * BLOCK;
        // Room for all of them at once, and then no question of room for each.
        let first = into.found.len();
        into.found.resize(first + feasible.count_ones() as usize, Candidate::default());
        for (candidate, lane) in into.found[first..].iter_mut().zip(lanes(feasible)) {
            *candidate = Candidate {
                score: scores[lane],
                nearness: u32::MAX - (distance + lane) as u32,
                row: (index * BLOCK + lane) as u32,
            };
        }
    }
}

/// A full search by all threads of rayon's pool. The result is that of one thread, whatever their
/// number: the parts are walked and put together in the order of a walk from the start around.
fn scan_parallel(tasks: &Tasks<'_>, active: &Active<'_>, start: usize, into: &mut Candidates) {
    let blocks = tasks.view.blocks();
    let scan = Scan { tasks, active, start };
    let part = |from: usize, end: usize| from..(from + PARALLEL_BLOCKS / 4).min(end);
    let before = (0..start).step_by(PARALLEL_BLOCKS / 4).map(|from| part(from, start));
    let after = (start..blocks).step_by(PARALLEL_BLOCKS / 4).map(|from| part(from, blocks));
    let ranges: Vec<_> = after.chain(before).collect();
    let walk = |range: std::ops::Range<usize>| {
        let mut found = Candidates::default();
        scan.range(range, usize::MAX, true, &mut found);
        found
    };
    let parts: Vec<Candidates> = ranges.into_par_iter().map(walk).collect();
    for mut part in parts {
        into.found.append(&mut part.found);
        into.misled.append(&mut part.misled);
    }
}

/// Has the bounds tightened that misled the search.
fn tighten(view: &mut View, candidates: &Candidates) {
    let mut group = None;
    for block in &candidates.misled {
        view.tighten_block(*block as usize);
        let next = *block as usize / BLOCK;
        if let Some(last) = group.replace(next).filter(|last| *last != next) {
            view.tighten_blocks(last);
        }
    }
    if let Some(last) = group {
        view.tighten_blocks(last);
    }
}
