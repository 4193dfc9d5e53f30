//! Keeps the tasks of a job on machines with equal label values, or spreads them over the values. (Kubernetes' former
//! ServiceAffinity.)
//!
//! The cell does not check this filter; a scheduler applies it with its own view of the job's tasks. If two schedulers
//! with one name place tasks of a job at once, the job's first two tasks may get different values; later tasks then
//! follow the task on the machine with the lowest row. For a rule that the cell checks, use an affinity of the job to
//! its own tasks.

use crate::framework::plugin::{Filter, Reads, Tasks, lanes};
use crate::framework::relative::{Feasible, Ranking, RelativeScore, Stance};
use crate::plugins::kube::normalize::POINT;
use omega_cellstate::{BLOCK, Block, JobPlaces, Level, View};
use omega_core::{Operator, TaskGroup, Text};
use smallvec::SmallVec;

/// Filter: the machine has the same values of given labels as the job's running tasks. Score: higher if fewer tasks of
/// the job run on machines with the same values of other given labels.
#[derive(Clone, Debug, Default)]
pub struct ServiceAffinity {
    labels: Vec<Text>,
    spread_by: Vec<Text>,
}

impl ServiceAffinity {
    /// A filter: all tasks of a job have the same values of the labels with these keys. The machine of the first task
    /// determines the values; labels that this machine lacks are ignored.
    #[must_use]
    pub fn same(labels: Vec<Text>) -> ServiceAffinity {
        ServiceAffinity { labels, spread_by: Vec::new() }
    }

    /// A score: the tasks of a job are spread over the values of each of the labels with these keys. The labels have
    /// equal weights.
    #[must_use]
    pub fn spreading(spread_by: Vec<Text>) -> ServiceAffinity {
        ServiceAffinity { labels: Vec::new(), spread_by }
    }

    fn keep_all(&self, view: &mut View) {
        view.keep_job_places();
        self.labels.iter().chain(&self.spread_by).for_each(|key| view.keep_level(key));
    }
}

/// Whether the group's own required affinity allows only one value of a label. If so, other tasks of the job do not
/// determine the value.
fn fixes(group: &TaskGroup, key: &str) -> bool {
    let Some(required) = &group.rules.affinity.required else { return false };
    let one = |values: &[Text]| match values {
        [value] => Some(value.clone()),
        _ => None,
    };
    let mut values = required.iter().map(|machines| {
        let equal = |operator| operator == Operator::In;
        let mut on_key = machines.labels.iter().filter(|label| *label.key == *key);
        on_key.find_map(|label| one(&label.values).filter(|_| equal(label.operator)))
    });
    let Some(Some(first)) = values.next() else { return false };
    values.all(|value| value.as_ref() == Some(&first))
}

impl Filter for ServiceAffinity {
    fn name(&self) -> &'static str {
        "service_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES | Reads::JOB
    }

    fn applies(&self, _: &Tasks<'_>) -> bool {
        !self.labels.is_empty()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let Some((base, _)) = tasks.view.places_of(tasks.id).iter().next() else { return among };
        let mut word = among;
        for key in self.labels.iter().filter(|key| !fixes(tasks.group, key)) {
            let Some(level) = tasks.view.level(key) else { continue };
            let Some(value) = level.of(base) else { continue };
            let same = |lane: &usize| level.of(block.first_row() + lane) == Some(value);
            word = lanes(word).filter(same).fold(0, |word, lane| word | 1 << lane);
        }
        word
    }

    /// Evictions never help, because the tasks that determine the values belong to the same job, for which they are
    /// not evicted.
    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn keep(&self, view: &mut View) {
        self.keep_all(view);
    }
}

impl RelativeScore for ServiceAffinity {
    fn name(&self) -> &'static str {
        "service_affinity"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES | Reads::JOB
    }

    fn applies(&self, _: &Tasks<'_>) -> Stance {
        if self.spread_by.is_empty() { Stance::Silent } else { Stance::Ranks }
    }

    fn keep(&self, view: &mut View) {
        self.keep_all(view);
    }

    fn prepare<'a>(
        &'a self,
        tasks: Tasks<'a>,
        feasible: Feasible<'a>,
    ) -> Option<Box<dyn Ranking + 'a>> {
        let levels = self.spread_by.iter().filter_map(|key| tasks.view.level(key)).collect();
        Some(Box::new(Spread { places: tasks.view.places_of(tasks.id), levels, feasible }))
    }
}

/// One decision of [`ServiceAffinity::spreading`].
struct Spread<'a> {
    places: JobPlaces<'a>,
    levels: SmallVec<[Level<'a>; 2]>,
    feasible: Feasible<'a>,
}

impl Spread<'_> {
    /// The value of a label on each feasible machine, in the order of the machines.
    fn values<'a>(&'a self, level: &'a Level<'_>) -> impl Iterator<Item = Option<usize>> + 'a {
        let rows = self.feasible.blocks().flat_map(|(block, among)| {
            let first = block.first_row();
            lanes(among).map(move |lane| first + lane)
        });
        rows.map(|row| level.of(row).map(|value| value as usize))
    }
}

impl Ranking for Spread<'_> {
    fn raw(&self, block: Block<'_>, _: u64, raw: &mut [i64; BLOCK]) {
        let counts = self.places.of_block(block);
        raw.iter_mut().zip(counts).for_each(|(raw, count)| *raw = i64::from(count));
    }

    /// Computes with doubles in the order of operations of Kubernetes, so that rounding is equal. A machine without a
    /// label gets no points for this label.
    fn normalize(&self, raw: &[i64], scores: &mut [i32]) {
        let total: i64 = raw.iter().sum();
        let mut points = vec![0.0; raw.len()];
        for level in &self.levels {
            let mut counts: Vec<i64> = Vec::new();
            for (value, count) in self.values(level).zip(raw) {
                let Some(value) = value else { continue };
                if counts.len() <= value {
                    counts.resize(value + 1, 0);
                }
                counts[value] += count;
            }
            for (points, value) in points.iter_mut().zip(self.values(level)) {
                let Some(value) = value else { continue };
                let part = match total {
                    0 => 100.0,
                    total => 100.0 * ((total - counts[value]) as f64 / total as f64),
                };
                *points += part / self.levels.len() as f64;
            }
        }
        for (score, points) in scores.iter_mut().zip(points) {
            *score = points as i32 * POINT;
        }
    }
}
