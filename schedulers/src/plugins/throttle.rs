//! Makes room without evictions: shrinks tasks of lower precedence to their requests.
//!
//! A throttled task continues with fewer resources, but an evicted task starts over. So a profile has this plugin
//! before the plugins that evict.

use crate::framework::events::Events;
use crate::framework::plugin::News;
use crate::framework::plugin::Tasks;
use crate::framework::points::{Lack, MadeRoom, PostFilter};
use crate::preemption::Preemptor;
use omega_cellstate::{PlacedTask, View};
use omega_core::{Job, Precedence, Preemption};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Maximum number of machines with throttleable tasks that are tried.
const MACHINES_TRIED: usize = 64;

/// The plugin `throttle`; see the head of the file.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    /// Random generator, seeded by the scheduler's number so that workers begin at different machines.
    rng: Option<Pcg64>,
}

impl Throttle {
    /// Returns a random number below `bound`.
    fn draw(&mut self, view: &View, bound: usize) -> usize {
        let seed = u64::from(view.scheduler().0);
        self.rng.get_or_insert_with(|| Pcg64::seed_from_u64(seed)).random_range(0..bound.max(1))
    }
}

/// Whether a task less important than a job runs, so that it might be throttled for the job.
fn has_lower(view: &View, job: &Job) -> bool {
    let bound = view.displaces_below(job.precedence);
    let lowest = view.lowest_precedence();
    job.preemption != Preemption::Never && lowest.is_some_and(|lowest| lowest < bound)
}

impl PostFilter for Throttle {
    fn name(&self) -> &'static str {
        "throttle"
    }

    fn wakes_on(&self, tasks: &Tasks<'_>, all: Events) -> Events {
        match tasks.job.preemption {
            // A less important task may have got optional resources, which the plugin can take away.
            Preemption::LowerPrecedence => all | Events::ROOM_FREED | Events::ROOM_TAKEN,
            Preemption::Never => Events::NONE,
        }
    }

    fn may_help(&self, tasks: &Tasks<'_>, _: &News<'_>) -> bool {
        has_lower(tasks.view, tasks.job) && !tasks.view.rows_with_own_holdings().is_empty()
    }

    fn make_room(&mut self, view: &mut View, lack: &Lack<'_>) -> Option<MadeRoom> {
        if !has_lower(view, lack.job) {
            return None;
        }
        let mut rows = view.rows_with_own_holdings();
        let start = self.draw(view, rows.len());
        rows.rotate_left(start);
        let Lack { evaluator, group, .. } = *lack;
        let preemptor = Preemptor { evaluator, group, budgets: &[], expected: &[] };
        let mut best: Option<(Cost, usize, Vec<PlacedTask>)> = None;
        let mut tried = 0;
        for row in rows {
            if tried == MACHINES_TRIED {
                break;
            }
            let lower = surplus_below(view, row, view.displaces_below(lack.job.precedence));
            if lower.is_empty() {
                continue;
            }
            tried += 1;
            let Some(throttled) = fewest(view, &preemptor, row, &lower) else { continue };
            let cost = Cost::of(&throttled);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, row, throttled));
            }
        }
        let (_, row, throttled) = best?;
        Some(MadeRoom { machine: view.machine_id(row), evictions: Vec::new(), throttled })
    }
}

/// Cost of throttling: the precedence of the most important task, then the number of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(Option<Precedence>, usize);

impl Cost {
    fn of(tasks: &[PlacedTask]) -> Cost {
        Cost(tasks.iter().map(|task| task.precedence).max(), tasks.len())
    }
}

/// Tasks in a row with a precedence below `bound` and with more than their request, the most important first.
fn surplus_below(view: &View, row: usize, bound: Precedence) -> Vec<PlacedTask> {
    let tasks = view.tasks_on(row).iter();
    let has = |task: &&PlacedTask| {
        task.precedence < bound && !view.is_evicted(task.id) && view.surplus(task).is_some()
    };
    tasks.filter(has).copied().collect()
}

/// Returns the tasks to throttle in a row so that the task fits there; `None` if it does not fit even if all of `lower`
/// are throttled. As many tasks as possible are spared, the most important first. After the call, the view is as
/// before.
fn fewest(
    view: &mut View,
    preemptor: &Preemptor<'_>,
    row: usize,
    lower: &[PlacedTask],
) -> Option<Vec<PlacedTask>> {
    lower.iter().for_each(|task| view.throttle(row, *task));
    let mut throttled = lower.to_vec();
    let fits = preemptor.fits(view, row);
    if fits {
        throttled.retain(|task| {
            view.unthrottle(row, *task);
            let spared = preemptor.fits(view, row);
            if !spared {
                view.throttle(row, *task);
            }
            !spared
        });
    }
    throttled.iter().for_each(|task| view.unthrottle(row, *task));
    (fits && !throttled.is_empty()).then_some(throttled)
}
