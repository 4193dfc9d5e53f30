//! Settings of a scheduler.

use crate::placing::search::{Home, Search};
use crate::queue::{Backoff, Nanos};
use omega_cellstate::Share;
use omega_core::{ConflictCheck, Granularity, Text};

/// Settings of placement.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Extent of the search.
    pub search: Search,
    /// Number of best machines from which one is chosen at random, for single tasks. 1 takes the best machine. A higher
    /// number avoids conflicts with other schedulers that rank the same machine best.
    pub near_best: u32,
    /// Part of the cell in which searches start.
    pub home: Home,
    /// Whether single tasks use results of earlier searches. Set it only for a [`Placer`](crate::Placer) that is always
    /// called with the same profile and view.
    pub reuse: bool,
}

impl Default for Placement {
    fn default() -> Placement {
        Placement { search: Search::Adaptive, near_best: 1, home: Home::EVERYWHERE, reuse: false }
    }
}

/// Settings of a scheduler.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name under which the scheduler registers, unique for each running scheduler.
    pub name: Text,
    /// Scheduler name of the jobs that this scheduler places.
    pub takes: Text,
    /// This worker's share of the jobs, if several workers divide them.
    pub share: Share,
    /// Settings of placement.
    pub placement: Placement,
    /// Whether to use the unschedulable cache. With the cache, after a task found no machine, tasks of the same class
    /// are not tried until an event may help them.
    pub failures: bool,
    /// Maximum number of claims in one transaction.
    pub claims_max: usize,
    /// Number of transactions that are submitted between two syncs, without waiting for earlier answers. A number
    /// above 1 helps if a commit takes long because the cell is stored on disks: the transactions then share one wait.
    /// The number counts as 1 if the profile has plugins that make room, reserve, permit or prepare.
    pub commits_in_flight: usize,
    /// Time for which a transaction that is not full is kept open while no job has a turn, so that jobs that arrive
    /// soon share it. This saves commits, which cost a disk write each, but may delay a job by this time. The default
    /// is 0. The time counts as 0 if the profile has plugins that make room, reserve, permit or prepare.
    pub hold: Nanos,
    /// Whether the other items of a transaction are committed if some items conflict.
    pub granularity: Granularity,
    /// Changes that count as conflicts.
    pub check: ConflictCheck,
    /// Delays of jobs whose tasks could not be placed.
    pub backoff: Backoff,
    /// Seed of the scheduler's random choices.
    pub seed: u64,
}

/// Default number of claims in a transaction. It is large enough that sync and commit cost little per claim, and small
/// enough to keep conflicts rare.
const CLAIMS_DEFAULT: usize = 100;

impl Settings {
    /// Settings of a scheduler that is the only one for the jobs with this scheduler name.
    pub fn new(name: impl Into<Text>) -> Settings {
        let name = name.into();
        Settings {
            takes: name.clone(),
            name,
            share: Share::ALL,
            placement: Placement { reuse: true, ..Placement::default() },
            failures: true,
            claims_max: CLAIMS_DEFAULT,
            commits_in_flight: 1,
            hold: 0,
            granularity: Granularity::Incremental,
            check: ConflictCheck::ResourceFit,
            backoff: Backoff::default(),
            seed: 0,
        }
    }

    /// Settings of worker `index` of `of` workers, which divide the jobs of this name. Each worker starts its searches
    /// in its own part of the cell, so that their claims seldom conflict.
    ///
    /// # Panics
    /// If `index` is not below `of`: such a worker would get no jobs.
    #[must_use]
    pub fn worker(name: &str, index: u32, of: u32) -> Settings {
        assert!(index < of, "worker {index} of {of}: workers are numbered from 0");
        let placement = Placement { home: Home { index, of }, reuse: true, ..Placement::default() };
        Settings {
            name: format!("{name}-{index}").into(),
            takes: name.into(),
            share: Share { index, of },
            placement,
            seed: u64::from(index),
            ..Settings::new(name)
        }
    }

    /// Returns `self` with another search.
    #[must_use]
    pub fn with_search(mut self, search: Search) -> Settings {
        self.placement.search = search;
        self
    }

    /// Returns `self` with another seed. Workers with the same seed still make different choices.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Settings {
        self.seed = self.seed.wrapping_add(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "worker 2 of 2: workers are numbered from 0")]
    fn a_worker_without_a_share_is_rejected() {
        let _ = Settings::worker("s", 2, 2);
    }
}
