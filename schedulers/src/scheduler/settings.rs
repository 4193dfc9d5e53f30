//! Settings of a scheduler.

use crate::place::Placement;
use crate::queue::{Nanos, Patience};
use crate::search::{Home, Search};
use omega_cellstate::Share;
use omega_core::{ConflictCheck, Granularity, Text};

/// Settings of a scheduler.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name under which it registers, unique for each running scheduler.
    pub name: Text,
    /// Scheduler name of the jobs to place.
    pub takes: Text,
    /// This worker's share of the jobs, if several workers divide them.
    pub share: Share,
    /// Settings of placement.
    pub placement: Placement,
    /// Whether a rejection applies to all tasks of a class, until an event that may help them.
    pub failures: bool,
    /// Number of claims it puts into one transaction.
    pub claims_max: usize,
    /// Number of transactions between two syncs, submitted without waiting for earlier answers.
    /// More than one helps if a commit takes long because the cell is on disks: they share one
    /// wait. It is 1 if the profile evicts, reserves or permits.
    pub commits_in_flight: usize,
    /// Time for which it keeps a transaction with room open while no job has its turn, so that jobs
    /// that arrive soon share it. A job waits longer by this time; it saves commits, which cost a
    /// disk write each. 0 by default, and in profiles that evict, reserve or permit.
    pub hold: Nanos,
    /// Whether the other items of a transaction are committed when some conflict.
    pub granularity: Granularity,
    /// Changes that count as conflicts.
    pub check: ConflictCheck,
    /// Delays of jobs whose tasks could not be placed.
    pub patience: Patience,
    /// The seed of its choices.
    pub seed: u64,
}

/// Default number of claims of a transaction: enough to amortize sync and commit, few enough to
/// keep conflicts small.
const CLAIMS_DEFAULT: usize = 100;

impl Settings {
    /// The settings of the only scheduler of this name.
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
            patience: Patience::default(),
            seed: 0,
        }
    }

    /// The settings of worker `index` of `of`, which divide the jobs of this name. Each has a
    /// home in the cell, so that they seldom meet.
    #[must_use]
    pub fn worker(name: &str, index: u32, of: u32) -> Settings {
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

    /// Returns `self` with another seed; workers of one seed still choose differently.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Settings {
        self.seed = self.seed.wrapping_add(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        self
    }
}
