//! Timeline of one machine's free resources: its expected departures and its plans.
//!
//! ```text
//!   free ─┐        ┌── a task leaves
//!         │   ┌────┘      ┌──── a plan's tasks have ended
//!         └───┘           │
//!             └── a plan ─┘
//!        now                    ▶ ms
//! ```
//!
//! Plans are the only future arrivals in a timeline. A task that may be placed now is not part of it; the task is
//! checked against the room that the timeline leaves.

use omega_cellstate::{Departure, Devices, View};
use omega_core::{DeviceRequest, DeviceSet, KindId};
use smallvec::SmallVec;
use std::ops::Range;

/// Amounts by kind.
pub(super) type Values = SmallVec<[i64; 4]>;

/// Resources of one task on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) amounts: Values,
    pub(super) devices: Option<DeviceRequest>,
}

/// Room that a plan keeps on a machine for a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) from_ms: u64,
    /// End of the period; the largest number if the run time is unknown.
    pub(super) until_ms: u64,
    /// Number of tasks.
    pub(super) tasks: u32,
    pub(super) part: Part,
}

/// First extension of the estimate of a task that runs longer than estimated.
const OVERRUN_MS: u64 = 10_000;

/// Expected end of a task. If a task runs longer than estimated, the estimate is extended by ten seconds. Each time
/// the task passes the new estimate, the extension doubles.
pub(super) fn expected_ms(at_ms: u64, now_ms: u64) -> u64 {
    let mut more = OVERRUN_MS;
    let mut expected = at_ms;
    while expected <= now_ms {
        expected = at_ms.saturating_add(more);
        more = more.saturating_mul(2);
    }
    expected
}

/// Free amounts of a machine from a time on.
#[derive(Clone, Debug)]
struct Step {
    at_ms: u64,
    free: Values,
    devices: Option<Devices>,
}

impl Step {
    /// Number of tasks that fit, at most `most`.
    fn room(&self, part: &Part, most: u32) -> u32 {
        let wanted = part.amounts.iter().zip(&self.free).filter(|(amount, _)| **amount > 0);
        let room = wanted.fold(i64::from(most), |room, (amount, free)| room.min(free / amount));
        let room = u32::try_from(room).unwrap_or(0);
        let Some(request) = part.devices else { return room };
        let Some(mut devices) = self.devices else { return 0 };
        let taken = |_: &u32| {
            let chosen = devices.choose(request, DeviceSet::default());
            chosen.inspect(|chosen| devices.take(request, *chosen)).is_some()
        };
        (0..room).take_while(taken).count() as u32
    }
}

/// Free resources in a row now.
fn now(view: &View, row: usize) -> Step {
    let kinds = (0..view.kinds().count() as u8).map(KindId);
    let free = kinds.map(|kind| view.free(row, kind)).collect();
    Step { at_ms: view.now_ms(), free, devices: view.devices(row).copied() }
}

/// Number of tasks that fit on a row now, at most `most`.
pub(super) fn room_now(view: &View, row: usize, part: &Part, most: u32) -> u32 {
    now(view, row).room(part, most)
}

/// Whether even the empty machine has too little room for a plan and a further task. If so, the expected departures
/// need not be examined.
pub(super) fn is_too_much(view: &View, row: usize, hold: &Hold, part: &Part) -> bool {
    part.amounts.iter().enumerate().any(|(kind, amount)| {
        let leaves = |gone: i64, departure: &Departure| {
            gone + departure.amounts.get(kind).copied().unwrap_or(0)
        };
        let kept = hold.part.amounts.get(kind).copied().unwrap_or(0) * i64::from(hold.tasks);
        *amount > 0 && kept > 0 && {
            let free = view.free(row, KindId(kind as u8));
            view.departures_from(row).fold(free, leaves) < kept + amount
        }
    })
}

/// Change on a machine at some time.
enum Change<'a> {
    /// A task ends, and frees these amounts and devices.
    Leaves(&'a [i64], Option<(DeviceRequest, DeviceSet)>),
    /// End of the plan at this position.
    Ends(usize),
    /// A plan begins.
    Begins(usize),
}

/// The timeline; see the head of the file.
///
/// Invariant: the steps ascend by time, and the first is now.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    steps: Vec<Step>,
}

impl Timeline {
    /// Timeline of the machine in a row, with these plans on it.
    pub(super) fn of<'a>(
        view: &View,
        row: usize,
        holds: impl Iterator<Item = &'a Hold> + Clone,
    ) -> Timeline {
        let now_ms = view.now_ms();
        let holds: SmallVec<[&Hold; 4]> = holds.filter(|hold| hold.until_ms > now_ms).collect();
        let mut changes: SmallVec<[(u64, u8, Change<'_>); 16]> = SmallVec::new();
        for departure in view.departures_from(row) {
            let Some(at_ms) = departure.at_ms() else { continue };
            let leaves = Change::Leaves(&departure.amounts, departure.devices);
            changes.push((expected_ms(at_ms, now_ms), 0, leaves));
        }
        for (position, hold) in holds.iter().enumerate() {
            changes.push((hold.from_ms.max(now_ms), 1, Change::Begins(position)));
            changes.push((hold.until_ms, 0, Change::Ends(position)));
        }
        // At equal times, departures come before arrivals.
        changes.sort_by_key(|(at_ms, order, _)| (*at_ms, *order));
        let mut last = now(view, row);
        let mut kept: SmallVec<[SmallVec<[DeviceSet; 4]>; 4]> =
            holds.iter().map(|_| SmallVec::new()).collect();
        let mut steps = Vec::with_capacity(changes.len() + 1);
        for (at_ms, _, change) in changes {
            if at_ms > last.at_ms {
                steps.push(last.clone());
                last.at_ms = at_ms;
            }
            match change {
                Change::Leaves(amounts, devices) => {
                    add(&mut last.free, amounts, 1);
                    if let (Some((request, set)), Some(left)) = (devices, &mut last.devices) {
                        left.give_back(request, set);
                    }
                }
                Change::Begins(position) => keep(&mut last, holds[position], &mut kept[position]),
                Change::Ends(position) => let_go(&mut last, holds[position], &mut kept[position]),
            }
        }
        steps.push(last);
        Timeline { steps }
    }

    /// Times of all changes, including now.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.steps.iter().map(|step| step.at_ms)
    }

    /// Number of tasks that fit during a period in milliseconds, at most `most`.
    pub(super) fn room(&self, period: Range<u64>, part: &Part, most: u32) -> u32 {
        let Range { start, end } = period;
        let first = self.steps.partition_point(|step| step.at_ms <= start).saturating_sub(1);
        let steps = self.steps[first..].iter().take_while(|step| step.at_ms < end);
        steps.fold(most, |room, step| if room == 0 { 0 } else { step.room(part, room) })
    }
}

fn add(free: &mut Values, amounts: &[i64], times: i64) {
    free.iter_mut().zip(amounts).for_each(|(free, amount)| *free += amount * times);
}

fn keep(step: &mut Step, hold: &Hold, kept: &mut SmallVec<[DeviceSet; 4]>) {
    add(&mut step.free, &hold.part.amounts, -i64::from(hold.tasks));
    let (Some(request), Some(devices)) = (hold.part.devices, &mut step.devices) else { return };
    for _ in 0..hold.tasks {
        let Some(chosen) = devices.choose(request, DeviceSet::default()) else { return };
        devices.take(request, chosen);
        kept.push(chosen);
    }
}

fn let_go(step: &mut Step, hold: &Hold, kept: &mut SmallVec<[DeviceSet; 4]>) {
    add(&mut step.free, &hold.part.amounts, i64::from(hold.tasks));
    let (Some(request), Some(devices)) = (hold.part.devices, &mut step.devices) else { return };
    kept.drain(..).for_each(|chosen| devices.give_back(request, chosen));
}

#[cfg(test)]
mod tests {
    use super::expected_ms;

    #[test]
    fn who_is_over_its_time_gets_twice_as_much_each_time() {
        assert_eq!(expected_ms(100, 99), 100);
        assert_eq!(expected_ms(100, 100), 10_100);
        assert_eq!(expected_ms(100, 10_099), 10_100);
        assert_eq!(expected_ms(100, 10_100), 20_100);
        assert_eq!(expected_ms(100, 40_099), 40_100);
        assert_eq!(expected_ms(100, 40_100), 80_100);
    }
}
