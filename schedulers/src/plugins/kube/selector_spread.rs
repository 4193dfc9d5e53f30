//! The tasks of a job spread over machines and zones. (Kubernetes' former SelectorSpread.)
//!
//! The score counts the tasks of the job, as Kubernetes counts the pods of a service or replica set. If the group has a
//! soft spread over machines, the tasks that the first such spread selects are counted instead. A decision does not
//! have to count tasks: the view keeps the number of a job's tasks on each machine, and the cell keeps the counts of
//! the spread.

use crate::framework::plugin::{Reads, Tasks, lanes};
use crate::framework::relative::{Feasible, Ranking, RelativeScore, Stance};
use crate::plugins::kube::normalize::POINT;
use omega_cellstate::{BLOCK, Block, JobPlaces, Level, SoftSpreadCounts, View};
use omega_core::Text;

/// Default label of a machine's zone, as in Kubernetes.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Part of the score that depends on the zone's tasks. The rest depends on the machine's tasks.
const ZONE_WEIGHT: f64 = 2.0 / 3.0;

/// Score: prefers machines with fewer tasks of the job, in zones with fewer tasks of the job.
#[derive(Clone, Debug)]
pub struct SelectorSpread {
    zone: Text,
}

impl Default for SelectorSpread {
    fn default() -> SelectorSpread {
        SelectorSpread::new(ZONE)
    }
}

impl SelectorSpread {
    /// Creates the score. The label with this key is the machine's zone.
    #[must_use]
    pub fn new(zone: impl Into<Text>) -> SelectorSpread {
        SelectorSpread { zone: zone.into() }
    }
}

/// Number of counted tasks on each machine.
enum Counts<'a> {
    OfJob(JobPlaces<'a>),
    OfWish(SoftSpreadCounts<'a>),
}

impl Counts<'_> {
    fn of_block(&self, block: Block<'_>) -> [u32; BLOCK] {
        match self {
            Counts::OfWish(counts) => counts.of_block(block),
            Counts::OfJob(places) => places.of_block(block),
        }
    }
}

impl RelativeScore for SelectorSpread {
    fn name(&self) -> &'static str {
        "selector_spread"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES | Reads::JOB
    }

    fn applies(&self, _: &Tasks<'_>) -> Stance {
        Stance::Ranks
    }

    fn keep(&self, view: &mut View) {
        view.keep_job_places();
        view.keep_level(&self.zone);
    }

    fn prepare<'a>(
        &'a self,
        tasks: Tasks<'a>,
        feasible: Feasible<'a>,
    ) -> Option<Box<dyn Ranking + 'a>> {
        let wish = tasks.need.soft_spreads().iter().find(|wish| wish.by_machine);
        let counts = match wish.and_then(|wish| tasks.view.soft_spread(wish)) {
            Some(wish) => Counts::OfWish(wish),
            None => Counts::OfJob(tasks.view.places_of(tasks.id)),
        };
        let zones = tasks.view.level(&self.zone);
        debug_assert!(zones.is_some(), "the profile was prepared for the view");
        Some(Box::new(Spread { counts, zones, feasible }))
    }
}

/// One decision of [`SelectorSpread`].
struct Spread<'a> {
    counts: Counts<'a>,
    zones: Option<Level<'a>>,
    feasible: Feasible<'a>,
}

impl Spread<'_> {
    /// The zone of each feasible machine, in the order of the machines.
    fn zones(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        let rows = self.feasible.blocks().flat_map(|(block, among)| {
            let first = block.first_row();
            lanes(among).map(move |lane| first + lane)
        });
        rows.map(|row| self.zones.as_ref()?.of(row).map(|zone| zone as usize))
    }

    /// The number of tasks of each zone on feasible machines.
    fn by_zone(&self, raw: &[i64]) -> Vec<i64> {
        let mut counts = Vec::new();
        for (zone, count) in self.zones().zip(raw) {
            let Some(zone) = zone else { continue };
            if counts.len() <= zone {
                counts.resize(zone + 1, 0);
            }
            counts[zone] += count;
        }
        counts
    }
}

/// The difference between a count and the largest count, in percent of the largest; 100 if the largest is 0. Computed
/// in doubles, as in Kubernetes.
fn share_missing(count: i64, most: i64) -> f64 {
    if most == 0 { 100.0 } else { 100.0 * ((most - count) as f64 / most as f64) }
}

impl Ranking for Spread<'_> {
    fn raw(&self, block: Block<'_>, _: u64, raw: &mut [i64; BLOCK]) {
        let counts = self.counts.of_block(block);
        raw.iter_mut().zip(counts).for_each(|(raw, count)| *raw = i64::from(count));
    }

    fn normalize(&self, raw: &[i64], scores: &mut [i32]) {
        let by_zone = self.by_zone(raw);
        let most = raw.iter().copied().max().unwrap_or(0);
        let most_of_zone = by_zone.iter().copied().max().unwrap_or(0);
        for ((score, count), zone) in scores.iter_mut().zip(raw).zip(self.zones()) {
            let mut points = share_missing(*count, most);
            if let Some(zone) = zone {
                let of_zone = share_missing(by_zone[zone], most_of_zone);
                points = points * (1.0 - ZONE_WEIGHT) + ZONE_WEIGHT * of_zone;
            }
            *score = points as i32 * POINT;
        }
    }
}
