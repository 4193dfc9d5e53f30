//! Score: prefers the machine on which a new task raises the objectives of rebalancing least.
//!
//! So schedulers place new tasks where a rebalancer with the same objectives would leave them. Only terms that depend
//! on a placement count: load, balance, fragments, machines in use, and crowding. The terms of moves and misplaced
//! tasks do not apply to new tasks. Demand profiles in the objectives are ignored, and so are rules, which only limit
//! moves.

use super::aims::demand::Swings;
use super::objective::{MACHINE, Objectives, PAIR};
use super::valuation::{Objective, Spot, Weights};
use crate::framework::plugin::{Reads, SCORE_MAX, Score, Tasks, lanes};
use omega_cellstate::{BLOCK, Block, View};
use omega_core::limits::KINDS_MAX;
use omega_core::{KindId, Kinds, TopologyLevel};

/// Number of tasks of a job in one domain above which further tasks count as equally crowded. With a larger number, the
/// steps of the score would be too coarse for other terms.
const CROWD_MAX: u32 = 64;

/// The score. See the module documentation.
#[derive(Clone, Debug)]
pub struct ObjectivesScore {
    weights: Weights,
    /// The largest cost of a machine in use.
    in_use_max: i64,
}

/// Range of the changes of the objective that placing a task can cause. Larger and smaller changes count as its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    low: i64,
    high: i64,
}

impl Range {
    /// The score of a change: the highest at the low end.
    fn score(self, change: i64) -> i32 {
        let left = i128::from((self.high - change).clamp(0, self.high - self.low));
        let all = i128::from((self.high - self.low).max(1));
        (left * i128::from(SCORE_MAX) / all) as i32
    }
}

impl ObjectivesScore {
    /// Creates the score for a cell with these resource kinds.
    #[must_use]
    pub fn new(objectives: &Objectives, kinds: &Kinds) -> ObjectivesScore {
        let given = objectives.machines.iter().filter_map(|aims| aims.in_use);
        let in_use_max = i64::from(given.max().unwrap_or(0).max(100)) * MACHINE / 100;
        ObjectivesScore { weights: Weights::new(objectives, kinds.count()), in_use_max }
    }

    /// The mean amount of each kind over the machines of a view.
    fn means(&self, view: &View) -> [u64; KINDS_MAX] {
        let mut means = [1; KINDS_MAX];
        for (kind, mean) in (0..).map(KindId).zip(&mut means[..self.weights.kinds]) {
            *mean = view.mean_capacity(kind).unwrap_or(1).max(1);
        }
        means
    }

    /// Returns the range of the changes of the objective for a task with this request, of a job with `tasks` tasks.
    fn range(&self, objective: Objective<'_>, request: &[i64], tasks: u64) -> Range {
        let objectives = &self.weights.objectives;
        let (gain, loss) = objective.arrival_bounds(request);
        let in_use = self.in_use_max * i64::from(objectives.in_use);
        let others = tasks.saturating_sub(1).min(u64::from(CROWD_MAX)) as i64;
        let crowd = others * PAIR * i64::from(objectives.crowding);
        Range { low: -gain, high: loss + in_use + crowd }
    }

    /// The number of tasks of the job in the domain of each machine of a block.
    fn crowds(&self, tasks: &Tasks<'_>, block: Block<'_>) -> [u32; BLOCK] {
        let places = tasks.view.places_of(tasks.id);
        let key = match &self.weights.objectives.level {
            TopologyLevel::Machine => return places.of_block(block),
            TopologyLevel::Label(key) => key,
        };
        let mut counts = [0; BLOCK];
        let Some(level) = tasks.view.level(key).filter(|_| !places.is_empty()) else {
            return counts;
        };
        let domains: [Option<u32>; BLOCK] =
            std::array::from_fn(|lane| level.of(block.first_row() + lane));
        for (row, count) in places.iter() {
            let Some(domain) = level.of(row) else { continue };
            for (here, of_lane) in counts.iter_mut().zip(&domains) {
                *here += if *of_lane == Some(domain) { count } else { 0 };
            }
        }
        counts
    }
}

impl Score for ObjectivesScore {
    fn name(&self) -> &'static str {
        "objectives"
    }

    fn reads(&self) -> Reads {
        let machine = Reads::AMOUNTS | Reads::DESCRIPTION | Reads::OTHER_DESCRIPTIONS;
        match self.weights.objectives.crowding {
            0 => machine,
            _ => machine | Reads::OTHER_MACHINES | Reads::JOB,
        }
    }

    fn keep(&self, view: &mut View) {
        (0..self.weights.kinds as u8).for_each(|kind| view.keep_capacity(KindId(kind)));
        if self.weights.objectives.crowding > 0 {
            view.keep_job_places();
            if let TopologyLevel::Label(key) = &self.weights.objectives.level {
                view.keep_level(key);
            }
        }
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let kinds = self.weights.kinds;
        let means = self.means(tasks.view);
        let objective = Objective { weights: &self.weights, means: &means[..kinds] };
        let range = self.range(objective, &tasks.need.request, tasks.job.task_count());
        let crowding = self.weights.objectives.crowding;
        let crowds = if crowding > 0 { self.crowds(tasks, block) } else { [0; BLOCK] };
        let swings = Swings::default();
        for lane in lanes(among) {
            let row = block.first_row() + lane;
            let (mut capacity, mut before, mut after) =
                ([0; KINDS_MAX], [0; KINDS_MAX], [0; KINDS_MAX]);
            for (at, kind) in (0..kinds).zip((0..).map(KindId)) {
                capacity[at] = block.capacity(kind).map_or(0, |column| column[lane]);
                before[at] = block.free(kind)[lane];
                after[at] = before[at] - tasks.view.taken(row, tasks.need, kind);
            }
            let mut safe = [0; KINDS_MAX];
            let machine = block.machine(lane).map(|machine| &**machine);
            let capacity = &capacity[..kinds];
            let in_use = self.weights.levels(machine, capacity, &mut safe[..kinds]);
            let value = |free: &[i64; KINDS_MAX]| {
                let (free, safe, changes) = (&free[..kinds], &safe[..kinds], &[]);
                objective.value(Spot {
                    row,
                    capacity,
                    free,
                    safe,
                    in_use,
                    swings: &swings,
                    changes,
                })
            };
            let crowd = i64::from(crowds[lane].min(CROWD_MAX)) * PAIR * i64::from(crowding);
            scores[lane] = range.score(value(&after) - value(&before) + crowd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_falls_from_the_low_end_to_the_high_end() {
        let range = Range { low: -20, high: 80 };
        assert_eq!(range.score(-30), SCORE_MAX, "below the range");
        assert_eq!(range.score(-20), SCORE_MAX);
        assert_eq!(range.score(30), SCORE_MAX / 2);
        assert_eq!(range.score(80), 0);
        assert_eq!(range.score(i64::MAX / 2), 0, "above the range");
        assert_eq!(Range { low: 0, high: 0 }.score(0), 0, "nothing has a weight");
    }
}
