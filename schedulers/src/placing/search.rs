//! Search for feasible machines, in part of the cell or in all of it.
//!
//! A search walks the view's blocks from a starting point and collects feasible machines with their scores. To find the
//! best machine, it collects all feasible machines; to find a good machine fast, it collects a few. If schedulers
//! examine the same machines in the same order, their claims conflict. So each scheduler starts at a random position in
//! its own *home shard*. Random starts come from Omega and Borg, and shards come from ParSync (ATC'21).
//!
//! Blocks without enough room are skipped by their bounds in the view, 64 blocks at a time. A scan without a result
//! tightens the bounds, so a task that fits on hardly any machine costs about a microsecond in a cell of a hundred
//! thousand machines.

use crate::framework::evaluator::{Active, Evaluator};
use crate::framework::plugin::{Tasks, lanes, tasks};
use crate::placing::best_of::{at_least, best_of};
use crate::placing::rank::Standings;
use omega_cellstate::{BLOCK, GroupRef, View};
use rand::{Rng, RngExt};

/// Extent of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Searches all machines, which finds the best.
    Full,
    /// Searches block by block, from a random start, until enough feasible machines are found.
    Sampled {
        /// Number of feasible machines that suffices.
        feasible: u32,
    },
    /// Like `Sampled`, but skips blocks that cannot have room.
    Indexed {
        /// Number of feasible machines that suffices.
        feasible: u32,
    },
    /// `Full` in small cells and `Indexed` in large ones.
    Adaptive,
    /// Like `Indexed`, until this percentage of all machines, and at least 100 machines, are found feasible. If the
    /// value is 0, the size of the cell determines the percentage. The search stops at the end of a block. (Kubernetes'
    /// `percentageOfNodesToScore`.)
    Percentage(u8),
}

/// Number of machines up to which `Adaptive` searches the whole cell, which takes a few microseconds.
const ADAPTIVE_FULL_ROWS: usize = 1024;

/// Number of feasible machines that `Adaptive` searches for in a larger cell. Usually one or two blocks have so many.
///
/// A higher number packs tasks better only if devices are scarce: in a published cell of 1,523 machines, 92 % of the
/// GPUs are allocated instead of 89 %. In cells without devices, packing does not improve, or gets worse.
const ADAPTIVE_FEASIBLE: u32 = 64;

/// Number of blocks above which a full search uses several threads. In smaller cells, handing the work over costs as
/// much as the scan.
pub(crate) const PARALLEL_BLOCKS: usize = 1024;

/// The part of the cell in which a scheduler's searches start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Index of the part, from 0.
    pub index: u32,
    /// Number of equal parts; 1 is the whole cell.
    pub of: u32,
}

impl Home {
    /// The whole cell.
    pub const EVERYWHERE: Home = Home { index: 0, of: 1 };

    /// Returns a random block of this part of the cell, at which a search starts.
    pub(crate) fn start(self, blocks: usize, rng: &mut impl Rng) -> usize {
        let of = self.of.max(1) as usize;
        let index = self.index as usize % of;
        let (from, to) = (blocks * index / of, blocks * (index + 1) / of);
        if from >= to { from.min(blocks - 1) } else { rng.random_range(from..to) }
    }
}

/// A feasible machine with its score. Candidates are ordered by score; of two candidates with equal scores, the one
/// found first is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Score of the machine.
    pub score: i32,
    /// Order of discovery: the complement of the distance from the start, so that nearer machines have larger values.
    pub(crate) nearness: u32,
    /// Row of the machine.
    pub row: u32,
}

/// The candidates of a search. The buffers are reused between searches.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Candidates in the order found.
    pub found: Vec<Candidate>,
    /// Number of feasible machines found. If only the best are kept, this is more than the number of candidates.
    met: usize,
    /// Worst kept candidate, if only the best candidates are kept and their number has been reached. A candidate below
    /// it is not among the best.
    floor: Option<Candidate>,
    /// Blocks without a feasible machine, although the view's bounds allowed one.
    misled: Vec<u32>,
    /// Blocks with feasible machines, with a bit for each machine. Used only for relative scores.
    pub(crate) words: Vec<(u32, u64)>,
    pub(crate) standings: Standings,
}

impl Candidates {
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.met = 0;
        self.floor = None;
        self.misled.clear();
        self.words.clear();
        self.standings.clear();
    }

    /// Adds a candidate if it may be one of the `count` best. At most `2 * count` are kept.
    pub(crate) fn offer(&mut self, candidate: Candidate, count: usize) {
        if self.floor.is_some_and(|floor| candidate < floor) {
            return;
        }
        match self.found.first_mut() {
            Some(best) if count == 1 => *best = candidate.max(*best),
            _ => self.found.push(candidate),
        }
        if self.found.len() >= 2 * count {
            keep_best(&mut self.found, count);
            self.floor = self.found.last().copied();
        }
    }

    /// Returns a random one of the `count` best candidates; `None` if there are no candidates. The result does not
    /// depend on the order of the candidates.
    pub(crate) fn pick(&mut self, count: usize, rng: &mut impl Rng) -> Option<Candidate> {
        if count == 1 {
            return self.found.iter().max().copied();
        }
        let count = count.min(self.found.len());
        let place = (count > 0).then(|| rng.random_range(0..count))?;
        Some(*self.found.select_nth_unstable_by(place, |a, b| b.cmp(a)).1)
    }

    /// Whether the candidates' scores include relative scores.
    pub(crate) fn is_ranked(&self) -> bool {
        self.standings.total().len() == self.found.len() && !self.found.is_empty()
    }

    /// Position of a candidate in `found`.
    fn position(&self, of: &Candidate) -> usize {
        let by_nearness = |other: &Candidate| of.nearness.cmp(&other.nearness);
        self.found.binary_search_by(by_nearness).expect("a candidate was found")
    }

    /// Records a candidate's score after a claim: `score` plus the candidate's relative scores. Returns the sum.
    pub(crate) fn score_again(&mut self, candidate: &Candidate, score: i32) -> i32 {
        let position = self.position(candidate);
        let found = &mut self.found[position];
        found.score = score + self.standings.total()[position];
        found.score
    }

    /// Removes a candidate that has become full. Returns whether relative scores of other candidates changed.
    pub(crate) fn leave_out(
        &mut self,
        candidate: &Candidate,
        tasks: &Tasks<'_>,
        active: &Active<'_>,
    ) -> bool {
        let position = self.position(candidate);
        let row = candidate.row as usize;
        let word = self.words.iter_mut().find(|(block, _)| *block as usize == row / BLOCK);
        word.expect("a candidate was found").1 &= !(1 << (row % BLOCK));
        self.found.remove(position);
        let before = self.standings.leave_out(position, tasks, active, &self.words);
        let mut changed = false;
        for ((found, before), now) in self.found.iter_mut().zip(before).zip(self.standings.total())
        {
            changed |= before != *now;
            found.score += now - before;
        }
        changed
    }
}

/// Drops all candidates except the `count` best. If any is dropped, the worst remaining candidate becomes the last one.
pub(crate) fn keep_best(candidates: &mut Vec<Candidate>, count: usize) {
    if candidates.len() > count {
        candidates.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
        candidates.truncate(count);
    }
}

/// Parameters of one search.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The filters and scores.
    pub evaluator: &'a Evaluator,
    /// The tasks' group, compiled.
    pub group: GroupRef,
    /// Extent of the search.
    pub search: Search,
    /// Number of tasks to place. A sampled search finds at least as many candidates.
    pub tasks: usize,
    /// Part of the cell in which the search starts.
    pub home: Home,
    /// Number of best machines from which the machine of a single task is chosen at random.
    pub near_best: u32,
}

impl Request<'_> {
    /// Number of best machines to keep.
    pub(crate) fn best(&self) -> usize {
        self.near_best.max(1) as usize
    }
}

/// Collects feasible machines.
pub fn search(view: &mut View, request: Request<'_>, rng: &mut impl Rng, into: &mut Candidates) {
    search_for(view, request, Keep::All, rng, into);
}

/// Searches for one task, and returns a random one of the best machines; `None` if no machine is feasible.
pub(crate) fn search_best(
    view: &mut View,
    request: Request<'_>,
    rng: &mut impl Rng,
    into: &mut Candidates,
) -> Option<Candidate> {
    search_for(view, request, Keep::Best(request.best()), rng, into);
    into.pick(request.best(), rng)
}

/// Selection of the candidates to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    All,
    /// This number of the best candidates, and possibly others.
    Best(usize),
}

fn search_for(
    view: &mut View,
    request: Request<'_>,
    keep: Keep,
    rng: &mut impl Rng,
    into: &mut Candidates,
) {
    into.clear();
    if view.blocks() == 0 {
        return;
    }
    let start = request.home.start(view.blocks(), rng);
    let tasks = tasks(view, request.group);
    let active = request.evaluator.active(&tasks);
    // Relative scores need all feasible machines.
    let keep = if active.relative().is_empty() { keep } else { Keep::All };
    let limits = limits(request, &active, view);
    let scan = Scan { tasks: &tasks, active: &active, start, keep };
    if limits.enough == usize::MAX && view.blocks() > PARALLEL_BLOCKS {
        scan_parallel(&scan, into);
    } else {
        scan.until(limits, into);
    }
    if !active.relative().is_empty() {
        let Candidates { found, words, standings, .. } = into;
        standings.rank(&tasks, &active, words);
        for (candidate, total) in found.iter_mut().zip(standings.total()) {
            candidate.score += total;
        }
    }
    tighten(view, into);
}

/// Use of the bounds of blocks, which show that no machine of a block has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    Used,
    Ignored,
}

/// The extent of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) enough: usize,
    pub(crate) bounds: Bounds,
}

/// The extent of a full search.
const ALL: Limits = Limits { enough: usize::MAX, bounds: Bounds::Used };

pub(crate) fn limits(request: Request<'_>, active: &Active<'_>, view: &View) -> Limits {
    let at_least = |feasible: u32| (feasible as usize).max(request.tasks);
    let rows = view.rows();
    match request.search {
        Search::Percentage(_) if !active.any_score() => {
            Limits { enough: at_least(1), bounds: Bounds::Used }
        }
        Search::Percentage(percent) => {
            let enough = enough_of(view.machine_count(), percent);
            Limits { enough: enough.map_or(usize::MAX, at_least), bounds: Bounds::Used }
        }
        Search::Full => ALL,
        Search::Sampled { feasible } => {
            Limits { enough: at_least(feasible), bounds: Bounds::Ignored }
        }
        Search::Indexed { feasible } => Limits { enough: at_least(feasible), bounds: Bounds::Used },
        Search::Adaptive if rows <= ADAPTIVE_FULL_ROWS => {
            Limits { enough: usize::MAX, bounds: Bounds::Used }
        }
        Search::Adaptive => Limits { enough: at_least(ADAPTIVE_FEASIBLE), bounds: Bounds::Used },
    }
}

/// Number of feasible machines that are enough; `None` if all are needed. For `percent` 0, Kubernetes' rule applies:
/// half of the machines in a small cell, a smaller part in a larger cell, and never below 5 %.
fn enough_of(machines: usize, percent: u8) -> Option<u32> {
    let percent = match usize::from(percent) {
        0 => 50usize.saturating_sub(machines / 125).max(5),
        percent => percent,
    };
    let enough = (machines * percent / 100).max(100);
    (machines >= 100 && percent < 100).then_some(enough as u32)
}

/// A walk over the blocks of a view.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a, 'p> {
    pub(crate) tasks: &'a Tasks<'a>,
    pub(crate) active: &'a Active<'p>,
    pub(crate) start: usize,
    pub(crate) keep: Keep,
}

impl Scan<'_, '_> {
    /// Visits each block at most once, from the block `start` with wrap-around, until there are enough candidates.
    fn until(&self, limits: Limits, into: &mut Candidates) {
        let blocks = self.tasks.view.blocks();
        self.range(self.start..blocks, limits, into);
        self.range(0..self.start, limits, into);
    }

    fn range(&self, blocks: std::ops::Range<usize>, limits: Limits, into: &mut Candidates) {
        for group in blocks.start / BLOCK..blocks.end.div_ceil(BLOCK) {
            let first = group * BLOCK;
            let from = blocks.start.max(first) - first;
            let to = (blocks.end - first).min(BLOCK);
            let part = u64::MAX << from & u64::MAX >> (BLOCK - to);
            if into.met >= limits.enough {
                return;
            }
            self.group(group, part, limits, into);
        }
    }

    /// Searches those blocks of a group of 64 whose bits are set in `part`. The group's first block is `64 * group`.
    fn group(
        &self,
        group: usize,
        part: u64,
        Limits { enough, bounds }: Limits,
        into: &mut Candidates,
    ) {
        let Tasks { view, need, .. } = self.tasks;
        let allowed = part & view.blocks_allowed(group, need);
        if allowed == 0 || bounds == Bounds::Used && !view.blocks_may_fit(group, need.least()) {
            return;
        }
        for lane in lanes(allowed) {
            let block = group * BLOCK + lane;
            if bounds == Bounds::Ignored || view.block_may_fit(block, need.least()) {
                self.block(block, into);
                if into.met >= enough {
                    return;
                }
            }
        }
    }

    /// Searches one block.
    pub(crate) fn block(&self, index: usize, into: &mut Candidates) {
        let view = self.tasks.view;
        let block = view.block(index);
        let feasible = self.active.feasible(self.tasks, block, u64::MAX);
        if feasible == 0 {
            if block.fits(self.tasks.need.least()) == 0 {
                into.misled.push(index as u32);
            }
            return;
        }
        into.met += feasible.count_ones() as usize;
        let scores = self.active.scores(self.tasks, block, feasible);
        if let Keep::Best(count) = self.keep {
            let (score, lane) = best_of(&scores, feasible);
            let best = self.candidate(index, lane, score);
            if count == 1 {
                into.offer(best, count);
            } else if into.floor.is_none_or(|floor| best > floor) {
                let floor = into.floor.map_or(i32::MIN, |floor| floor.score);
                for lane in lanes(feasible & at_least(&scores, floor)) {
                    into.offer(self.candidate(index, lane, scores[lane]), count);
                }
            }
            return;
        }
        if !self.active.relative().is_empty() {
            into.words.push((index as u32, feasible));
        }
        // The space is reserved at once, so that no push has to check the capacity.
        let first = into.found.len();
        into.found.resize(first + feasible.count_ones() as usize, Candidate::default());
        for (candidate, lane) in into.found[first..].iter_mut().zip(lanes(feasible)) {
            *candidate = self.candidate(index, lane, scores[lane]);
        }
    }

    pub(crate) fn candidate(&self, block: usize, lane: usize, score: i32) -> Candidate {
        let blocks = self.tasks.view.blocks();
        let distance = (block + blocks - self.start) % blocks * BLOCK + lane;
        let row = (block * BLOCK + lane) as u32;
        Candidate { score, nearness: u32::MAX - distance as u32, row }
    }
}

/// A full search by all threads of rayon's pool. The result equals that of one thread, whatever the number of threads,
/// because the results of all parts are joined in the order of a single walk.
#[cfg(feature = "parallel")]
fn scan_parallel(scan: &Scan<'_, '_>, into: &mut Candidates) {
    use rayon::prelude::*;
    let (blocks, start) = (scan.tasks.view.blocks(), scan.start);
    let part = |from: usize, end: usize| from..(from + PARALLEL_BLOCKS / 4).min(end);
    let before = (0..start).step_by(PARALLEL_BLOCKS / 4).map(|from| part(from, start));
    let after = (start..blocks).step_by(PARALLEL_BLOCKS / 4).map(|from| part(from, blocks));
    let ranges: Vec<_> = after.chain(before).collect();
    let walk = |range: std::ops::Range<usize>| {
        let mut found = Candidates::default();
        scan.range(range, ALL, &mut found);
        found
    };
    let parts: Vec<Candidates> = ranges.into_par_iter().map(walk).collect();
    for mut part in parts {
        into.found.append(&mut part.found);
        into.met += part.met;
        into.misled.append(&mut part.misled);
        into.words.append(&mut part.words);
    }
}

/// Scans all machines with one thread, in a build without rayon.
#[cfg(not(feature = "parallel"))]
fn scan_parallel(scan: &Scan<'_, '_>, into: &mut Candidates) {
    scan.until(ALL, into);
}

/// Tightens the bounds of blocks in which the search found no room, although the bounds allowed some.
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

#[cfg(test)]
mod tests {
    use super::enough_of;

    #[test]
    fn a_percentage_is_of_the_cell_and_at_least_a_hundred_machines() {
        let enough = [(99, None), (1000, Some(420)), (5000, Some(500)), (15_000, Some(750))];
        for (machines, expected) in enough {
            assert_eq!(enough_of(machines, 0), expected, "{machines} machines");
        }
        assert_eq!(enough_of(1000, 30), Some(300));
        assert_eq!(enough_of(200, 10), Some(100));
        assert_eq!(enough_of(200, 100), None);
    }
}
