//! Score cache: the best machine of each block for a class of tasks.
//!
//! For each class of tasks the cache keeps the best machine of every block, with the block's change stamp. A search for
//! one task compares stamps and searches only changed blocks. A claim changes only one block, so the next full scan of
//! ten thousand machines costs a hundred and fifty comparisons. If the machine is to be chosen from the `n` best
//! machines, the search examines again only the `n` blocks whose best machines have the highest scores, because the `n`
//! best machines are in these blocks.
//!
//! The cache applies if the results of plugins depend on one machine only. Tasks with rules about other tasks, plugins
//! that read other machines, and relative scores need a new search each time.
//!
//! (Borg's score cache, EuroSys 2015; here one entry stands for 64 machines.)

use crate::framework::evaluator::{Active, Asked};
use crate::framework::plugin::tasks;
use crate::framework::plugin::{Reads, Tasks};
use crate::placing::best_of::best_of;
use crate::placing::class::{Class, ClassRef};
use crate::placing::search::{
    Bounds, Candidate, Candidates, Keep, Limits, PARALLEL_BLOCKS, Request, Scan, keep_best, limits,
};
use omega_cellstate::{BLOCK, View};
use rand::Rng;

/// Maximum number of classes in the cache; the least recently used one is dropped. A class costs 24 bytes for each
/// block of 64 machines.
const CLASSES_MAX: usize = 64;

/// Number of feasible machines up to which a search does not use the cache. Such a search examines so few blocks that
/// the cache would save no time.
const FEW_FEASIBLE: usize = 4 * BLOCK;

/// Cached result of one block.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    stamp: u64,
    /// The best score, and the first machine with this score.
    score: i32,
    lane: u8,
    /// Number of machines that are feasible.
    feasible: u8,
}

#[derive(Debug)]
struct Remembered {
    class: Class,
    /// Applicable plugins. Whether a plugin applies may depend on the whole cell: a score that one machine's taint
    /// activates is used in all blocks. If the set changes, the results are outdated.
    asked: Asked,
    /// The cell's time at the search, if any plugin reads it.
    moment: u64,
    used: u64,
    blocks: Vec<Option<Known>>,
}

/// The score cache for one profile and one view: results kept between searches.
#[derive(Debug, Default)]
pub(crate) struct Reuse {
    classes: Vec<Remembered>,
    searches: u64,
}

impl Reuse {
    /// Returns a random one of the best machines for one task; the inner `None` means that no machine is
    /// feasible. The outer `None` means that the cache does not apply, so the caller must search.
    pub(crate) fn best(
        &mut self,
        view: &View,
        request: Request<'_>,
        rng: &mut impl Rng,
        into: &mut Candidates,
    ) -> Option<Option<Candidate>> {
        let tasks = tasks(view, request.group);
        let active = request.evaluator.active(&tasks);
        let reads_job = is_local(&tasks, &active)?;
        let limits = limits(request, &active, view);
        if limits.enough <= FEW_FEASIBLE {
            return None;
        }
        let job = reads_job.then(|| view.job_id(request.group));
        let moment = if active.reads(Reads::TIME) { view.now_ms() } else { 0 };
        let class = ClassRef::new(tasks.group, tasks.job.kind, job);
        let index = self.class_of(class, active.asked(), moment);
        let class = &mut self.classes[index];
        if class.blocks.is_empty() && view.blocks() > PARALLEL_BLOCKS {
            // In a large cell, the first search of a class is left to the search with several threads, which is faster.
            class.blocks.resize(view.blocks(), None);
            return None;
        }
        class.blocks.resize(view.blocks(), None);
        let start = request.home.start(view.blocks().max(1), rng);
        let near_best = request.best();
        let keep = Keep::Best(near_best);
        let walk = Walk { view, scan: Scan { tasks: &tasks, active: &active, start, keep } };
        into.clear();
        walk.until(limits, &mut class.blocks, near_best, into);
        if near_best > 1 {
            walk.again(near_best, into);
        }
        Some(into.pick(near_best, rng))
    }

    /// The position of a class, which is added if it is new.
    fn class_of(&mut self, wanted: ClassRef<'_>, asked: Asked, moment: u64) -> usize {
        self.searches += 1;
        let is_it = |known: &Remembered| known.class.is(wanted);
        let index = self.classes.iter().position(is_it).unwrap_or_else(|| {
            let (class, blocks) = (wanted.to_class(), Vec::new());
            let class = Remembered { class, asked, moment, used: 0, blocks };
            if self.classes.len() < CLASSES_MAX {
                self.classes.push(class);
                return self.classes.len() - 1;
            }
            let oldest = self.classes.iter().enumerate().min_by_key(|(_, class)| class.used);
            let (oldest, _) = oldest.expect("there are as many as may be");
            self.classes[oldest] = class;
            oldest
        });
        let class = &mut self.classes[index];
        class.used = self.searches;
        if (class.asked, class.moment) != (asked, moment) {
            (class.asked, class.moment) = (asked, moment);
            class.blocks.clear();
        }
        index
    }
}

/// Returns `None` if the result of a plugin for one machine depends on other machines. Otherwise returns whether the
/// results depend on the job.
fn is_local(tasks: &Tasks<'_>, active: &Active<'_>) -> Option<bool> {
    let local = !tasks.need.has_rules()
        && active.relative().is_empty()
        && !active.reads_other_machines()
        && !active.reads(Reads::OTHER_DESCRIPTIONS);
    local.then(|| active.reads(Reads::JOB))
}

/// A walk over the blocks of a view.
struct Walk<'a, 'p> {
    view: &'a View,
    scan: Scan<'a, 'p>,
}

impl Walk<'_, '_> {
    /// Searches from the start, with wrap-around, until enough feasible machines are found. Collects the best machines
    /// of the `count` best blocks, and possibly others.
    fn until(
        &self,
        limits: Limits,
        known: &mut [Option<Known>],
        count: usize,
        into: &mut Candidates,
    ) {
        let mut feasible = 0;
        let (start, blocks) = (self.scan.start, self.view.blocks());
        for index in (start..blocks).chain(0..start) {
            let stamp = self.view.block_stamp(index);
            let block = match known[index].filter(|known| known.stamp == stamp) {
                Some(known) => known,
                None => *known[index].insert(self.look(index, stamp, limits.bounds)),
            };
            if block.feasible == 0 {
                continue;
            }
            into.offer(self.scan.candidate(index, usize::from(block.lane), block.score), count);
            feasible += usize::from(block.feasible);
            if feasible >= limits.enough {
                break;
            }
        }
    }

    /// Replaces the candidates, which are the best machines of blocks, by the `count` best machines of these blocks,
    /// and possibly others.
    fn again(&self, count: usize, into: &mut Candidates) {
        keep_best(&mut into.found, count);
        let blocks = std::mem::take(&mut into.found);
        into.clear();
        for best in &blocks {
            self.scan.block(best.row as usize / BLOCK, into);
        }
    }

    fn look(&self, index: usize, stamp: u64, bounds: Bounds) -> Known {
        let none = Known { stamp, ..Known::default() };
        if bounds == Bounds::Used && !self.view.block_may_fit(index, self.scan.tasks.need.least()) {
            return none;
        }
        let block = self.view.block(index);
        let feasible = self.scan.active.feasible(self.scan.tasks, block, u64::MAX);
        if feasible == 0 {
            return none;
        }
        let scores = self.scan.active.scores(self.scan.tasks, block, feasible);
        let (score, lane) = best_of(&scores, feasible);
        Known { score, lane: lane as u8, feasible: feasible.count_ones() as u8, ..none }
    }
}
