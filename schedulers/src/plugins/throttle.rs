//! Makes room without evictions: shrinks tasks of lower precedence to their requests.
//!
//! A throttled task continues with fewer resources, but an evicted task starts over. So a profile has this plugin
//! before the plugins that evict.

use crate::framework::events::Events;
use crate::framework::plugin::News;
use crate::framework::plugin::Tasks;
use crate::framework::points::{Lack, MadeRoom, PostFilter};
use crate::plugins::cheapest::{Cheapest, RandomStart};
use crate::preemption::{Preemptor, has_lower};
use omega_cellstate::{PlacedTask, View};
use omega_core::{Precedence, Preemption};

/// The plugin `throttle`; see the head of the file.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    start: RandomStart,
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
        has_lower(tasks.view, tasks.job) && !tasks.view.rows_with_allocation_overrides().is_empty()
    }

    fn make_room(&mut self, view: &mut View, lack: &Lack<'_>) -> Option<MadeRoom> {
        if !has_lower(view, lack.job) {
            return None;
        }
        let mut rows = view.rows_with_allocation_overrides();
        let start = self.start.draw(view, rows.len());
        rows.rotate_left(start);
        let Lack { evaluator, group, .. } = *lack;
        let preemptor = Preemptor { evaluator, group, budgets: &[], expected: &[] };
        let mut cheapest = Cheapest::default();
        for row in rows {
            if cheapest.has_tried_enough() {
                break;
            }
            let lower = surplus_below(view, row, view.preemptible_below(lack.job.precedence));
            if lower.is_empty() {
                continue;
            }
            cheapest.count();
            let Some(throttled) = fewest(view, &preemptor, row, &lower) else { continue };
            cheapest.add(row, throttled);
        }
        let (row, throttled) = cheapest.into_best()?;
        Some(MadeRoom { machine: view.machine_id(row), evictions: Vec::new(), throttled })
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
