//! A plan: the earliest time at which a job's pending tasks find room, and the machines for them.
//!
//! The search goes forward in time: it counts the tasks that fit on each machine now, and again at each expected
//! departure, until enough tasks fit. A machine counts only if it accepts the tasks, or would accept them if it had
//! more room. Rules about other tasks are checked against the tasks that run now.
//!
//! More machines than needed may have room at that time. The plan takes the machines that get their room last.
//! Machines with earlier room are left to jobs that end before the plan begins.

use super::NAME;
use super::timeline::{Hold, Part, Timeline, expected_ms, room_now};
use crate::framework::evaluator::Evaluator;
use crate::framework::plugin::tasks;
use crate::framework::plugin::{CellChecks, Tasks, lanes};
use omega_cellstate::{BLOCK, Departure, GroupRef, View};
use omega_core::MachineId;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Missing resources of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingTasks {
    /// Groups with pending tasks, in the order of the job.
    pub(crate) groups: SmallVec<[MissingInGroup; 2]>,
    /// Number of tasks that must be placed together: all, or the number missing from a gang's
    /// minimum.
    pub(crate) tasks: u32,
    /// Expected run time in milliseconds; the largest number if unknown.
    pub(crate) run_ms: u64,
}

/// Pending tasks of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingInGroup {
    /// The group, compiled.
    pub(crate) group: GroupRef,
    /// Position of the group in its job.
    pub(crate) index: usize,
    /// Number of tasks.
    pub(crate) tasks: u32,
}

/// Tasks of one group that are to run on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) machine: MachineId,
    /// The position of the group in its job.
    pub(super) group: usize,
    pub(super) hold: Hold,
}

/// The plan; see the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) start_ms: u64,
    pub(super) slots: Vec<Slot>,
}

impl Plan {
    /// Returns the plan reduced to the tasks that the job lacks now. Returns `None` if the job lacks more tasks than
    /// the plan covers, lacks none, or has another run time.
    pub(super) fn fit_to(mut self, before: &MissingTasks, now: &MissingTasks) -> Option<Plan> {
        if before == now {
            return Some(self);
        }
        let mut left = now.tasks;
        for slot in &mut self.slots {
            let group = now.groups.iter().find(|group| group.index == slot.group);
            let wanted = group.map_or(0, |group| group.tasks).min(left);
            slot.hold.tasks = slot.hold.tasks.min(wanted);
            left -= slot.hold.tasks;
        }
        self.slots.retain(|slot| slot.hold.tasks > 0);
        (left == 0 && !self.slots.is_empty() && before.run_ms == now.run_ms).then_some(self)
    }
}

/// Resources that plans keep on each machine, by row.
pub(super) type Holds<'a> = BTreeMap<usize, SmallVec<[&'a Hold; 4]>>;

/// Range of start times in which a plan is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    /// Earliest start.
    pub(super) from_ms: u64,
    /// End of the range; the start must be earlier.
    pub(super) before_ms: u64,
}

/// A search for a job's plan.
pub(super) struct Search<'a> {
    pub(super) view: &'a View,
    pub(super) evaluator: &'a Evaluator,
    pub(super) missing: &'a MissingTasks,
    /// Resources kept for other jobs.
    pub(super) holds: Holds<'a>,
}

/// Returns the machines of a block that accept the tasks, or reject them only for lack of room.
fn allowed(evaluator: &Evaluator, tasks: &Tasks<'_>, block: usize) -> u64 {
    let block = tasks.view.block(block);
    let filters =
        evaluator.filters().filter(|filter| filter.name() != NAME && filter.applies(tasks));
    filters.fold(u64::MAX, |among, filter| {
        if among == 0 {
            return 0;
        }
        let covers = filter.covers();
        if covers.overlaps(CellChecks::RESERVATIONS) && !covers.overlaps(CellChecks::ROOM) {
            // A reservation is checked for the time of the plan instead of now.
            return among;
        }
        let allowed = filter.filter(tasks, block, among);
        if covers.overlaps(CellChecks::ROOM) {
            allowed | filter.curable(tasks, block, among & !allowed)
        } else {
            allowed
        }
    })
}

/// A machine under examination.
struct Place {
    row: usize,
    /// Number of tasks of each group that fit at the time of the search.
    room: SmallVec<[u32; 2]>,
    /// Groups that may run on the machine, one bit each.
    groups: u64,
    /// Time since which `room` has had this value.
    since_ms: u64,
    /// Free resources over time; created at the first change.
    timeline: Option<Timeline>,
    /// The times at which `room` may change, created with the timeline.
    moments: Moments,
}

/// Times in ascending order, with a position that moves forward. So a search examines each time once.
#[derive(Debug, Default)]
struct Moments {
    times: Vec<u64>,
    /// Number of the times that are past.
    past: usize,
}

impl Moments {
    /// These times and, if a run time is given, the times at which a task begins that ends just after one of them.
    fn new(mut times: Vec<u64>, run_ms: Option<u64>) -> Moments {
        if let Some(run_ms) = run_ms {
            let begins = |at_ms: &u64| at_ms.saturating_sub(run_ms).saturating_add(1);
            let begins: Vec<u64> = times.iter().map(begins).collect();
            times.extend(begins);
            // Both halves ascend, which makes a stable sort fast.
            times.sort();
            times.dedup();
        }
        Moments { times, past: 0 }
    }

    /// Moves past a time, which is not before that of an earlier call. Returns the number of times passed.
    fn pass(&mut self, at_ms: u64) -> usize {
        let passed = self.rest().iter().take_while(|time| **time <= at_ms).count();
        self.past += passed;
        passed
    }

    /// The times that are not past.
    fn rest(&self) -> &[u64] {
        &self.times[self.past..]
    }
}

impl<'a> Search<'a> {
    /// The plan with the earliest start; `None` if there is none within the limit.
    pub(super) fn earliest(&self, when: When) -> Option<Plan> {
        // A place has one bit for each group.
        if self.missing.tasks == 0 || self.missing.groups.len() > u64::BITS as usize {
            return None;
        }
        let parts = self.parts();
        let mut places = self.places();
        let mut sums: SmallVec<[u64; 2]> = SmallVec::from_elem(0, parts.len());
        let mut coming: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let now_ms = self.view.now_ms();
        for (index, place) in places.iter_mut().enumerate() {
            self.begin(place, &parts);
            place.room.iter().zip(&mut sums).for_each(|(room, sum)| *sum += u64::from(*room));
            coming.extend(self.first_change(place, &parts).map(|at| Reverse((at, index))));
        }
        // The end of a reservation makes room without the departure of a task.
        let ends = self.view.reservations().map(|one| one.until_ms);
        coming.extend(ends.filter(|at| *at > now_ms).map(|at| Reverse((at, usize::MAX))));
        let mut at_ms = now_ms;
        while at_ms < when.before_ms {
            if at_ms >= when.from_ms
                && self.may_suffice(&sums)
                && let Some(slots) = self.assign(at_ms, &places, &parts)
            {
                return Some(Plan { start_ms: at_ms, slots });
            }
            at_ms = coming.peek()?.0.0;
            while let Some(Reverse((_, index))) =
                coming.peek().copied().filter(|next| next.0.0 == at_ms)
            {
                coming.pop();
                let Some(place) = places.get_mut(index) else { continue };
                let before = place.room.clone();
                let next = self.go_on(place, at_ms, &parts);
                for ((sum, before), room) in sums.iter_mut().zip(before).zip(&place.room) {
                    *sum = *sum + u64::from(*room) - u64::from(before);
                }
                coming.extend(next.map(|at| Reverse((at, index))));
            }
        }
        None
    }

    /// Whether these slots of a plan are still valid: their machines have room for them in addition to other plans. If
    /// one slot of a machine is given, all its slots must be given.
    pub(super) fn still_fit<'s>(&self, slots: impl IntoIterator<Item = &'s Slot>) -> bool {
        let parts = self.parts();
        let mut by_row: BTreeMap<usize, SmallVec<[&Slot; 2]>> = BTreeMap::new();
        slots.into_iter().for_each(|slot| by_row.entry(slot.machine.row()).or_default().push(slot));
        by_row.into_iter().all(|(row, slots)| {
            let mut holds: SmallVec<[&Hold; 8]> = self.on(row).collect();
            slots.into_iter().all(|slot| {
                let fits = self.fits_beside(slot, &holds, &parts);
                holds.push(&slot.hold);
                fits
            })
        })
    }

    fn fits_beside(&self, slot: &Slot, holds: &[&Hold], parts: &[Part]) -> bool {
        let row = slot.machine.row();
        let group = self.missing.groups.iter().position(|group| group.index == slot.group);
        let Some(group) = group else { return false };
        let is_there = row < self.view.rows()
            && self.view.machine(row).is_some()
            && self.view.machine_id(row) == slot.machine;
        if !is_there || parts[group] != slot.hold.part {
            return false;
        }
        let tasks = tasks(self.view, self.missing.groups[group].group);
        let period = slot.hold.from_ms..slot.hold.until_ms;
        let timeline = Timeline::of(self.view, row, holds.iter().copied());
        allowed(self.evaluator, &tasks, row / BLOCK) >> (row % BLOCK) & 1 == 1
            && timeline.room(period, &slot.hold.part, slot.hold.tasks) == slot.hold.tasks
            && !self.is_reserved(row, group, slot.hold.from_ms)
    }

    /// Returns the resources that one task of each group needs.
    fn parts(&self) -> SmallVec<[Part; 2]> {
        let part = |missing: &MissingInGroup| {
            let need = self.view.need(missing.group);
            Part { amounts: need.request.clone(), devices: need.devices }
        };
        self.missing.groups.iter().map(part).collect()
    }

    /// Resources kept for other jobs on the machine in a row.
    fn on<'s>(&'s self, row: usize) -> impl Iterator<Item = &'s Hold> + Clone + use<'s, 'a> {
        self.holds.get(&row).into_iter().flatten().map(|hold| -> &'s Hold { hold })
    }

    fn is_reserved(&self, row: usize, group: usize, at_ms: u64) -> bool {
        let (job, _) = self.view.job(self.missing.groups[group].group);
        self.view.is_reserved_at(row, job, at_ms)
    }

    /// The machines on which some of the tasks may run.
    fn places(&self) -> Vec<Place> {
        let groups: SmallVec<[Tasks<'_>; 2]> =
            self.missing.groups.iter().map(|missing| tasks(self.view, missing.group)).collect();
        let mut places = Vec::new();
        for block in 0..self.view.blocks() {
            let words: SmallVec<[u64; 2]> =
                groups.iter().map(|tasks| allowed(self.evaluator, tasks, block)).collect();
            for lane in lanes(words.iter().fold(0, |all, word| all | word)) {
                let row = block * BLOCK + lane;
                if self.view.machine(row).is_none() {
                    continue;
                }
                let bits = words.iter().enumerate();
                let groups = bits.fold(0, |all, (group, word)| all | (word >> lane & 1) << group);
                places.push(Place {
                    row,
                    room: SmallVec::from_elem(0, words.len()),
                    groups,
                    since_ms: 0,
                    timeline: None,
                    moments: Moments::default(),
                });
            }
        }
        places
    }

    /// Number of tasks of each group for which a machine has room at a time.
    fn room(&self, place: &Place, at_ms: u64, parts: &[Part]) -> SmallVec<[u32; 2]> {
        // On a machine without plans, room never shrinks, so only the start has to be checked.
        let until_ms = if self.holds.contains_key(&place.row) {
            at_ms.saturating_add(self.missing.run_ms)
        } else {
            at_ms.saturating_add(1)
        };
        let of_group = |(group, part): (usize, &Part)| {
            let most = self.missing.groups[group].tasks;
            if place.groups >> group & 1 == 0 {
                return 0;
            }
            match &place.timeline {
                Some(timeline) => timeline.room(at_ms..until_ms, part, most),
                None => room_now(self.view, place.row, part, most),
            }
        };
        parts.iter().enumerate().map(of_group).collect()
    }

    /// Reads the present state of a machine.
    fn begin(&self, place: &mut Place, parts: &[Part]) {
        if self.holds.contains_key(&place.row) {
            self.look_ahead(place);
        }
        place.room = self.room(place, self.view.now_ms(), parts);
    }

    /// Computes the free resources of a machine over time.
    fn look_ahead(&self, place: &mut Place) {
        let timeline = Timeline::of(self.view, place.row, self.on(place.row));
        let run_ms = self.holds.contains_key(&place.row).then_some(self.missing.run_ms);
        place.moments = Moments::new(timeline.times().collect(), run_ms);
        place.timeline = Some(timeline);
    }

    /// Time of the first change of a machine's room.
    fn first_change(&self, place: &mut Place, parts: &[Part]) -> Option<u64> {
        let now_ms = self.view.now_ms();
        if place.timeline.is_some() {
            return self.next_change(place, now_ms, parts);
        }
        let leaves = self.view.departures_from(place.row).filter_map(Departure::at_ms);
        leaves.map(|at_ms| expected_ms(at_ms, now_ms)).min()
    }

    /// Returns the next time at which the number of tasks that can begin on a machine may change; `None` if there is
    /// none.
    ///
    /// Room changes when a task leaves, or when a plan begins or ends. On a machine with plans, each of these changes
    /// also counts one expected run time of the job earlier, because a task that begins after that point still runs
    /// when the room changes.
    fn next_change(&self, place: &mut Place, after_ms: u64, parts: &[Part]) -> Option<u64> {
        place.moments.pass(after_ms);
        let place = &*place;
        let mut rest = place.moments.rest().iter().copied();
        if self.holds.contains_key(&place.row) {
            return rest.next();
        }
        rest.find(|at_ms| self.room(place, *at_ms, parts) != place.room)
    }

    /// Advances a machine's state to a time. Returns the time of its next change.
    fn go_on(&self, place: &mut Place, at_ms: u64, parts: &[Part]) -> Option<u64> {
        if place.timeline.is_none() {
            self.look_ahead(place);
        }
        let room = self.room(place, at_ms, parts);
        if room != place.room {
            place.room = room;
            place.since_ms = at_ms;
        }
        self.next_change(place, at_ms, parts)
    }

    fn may_suffice(&self, sums: &[u64]) -> bool {
        let groups = sums.iter().zip(&self.missing.groups);
        let room: u64 = groups.map(|(sum, missing)| (*sum).min(u64::from(missing.tasks))).sum();
        room >= u64::from(self.missing.tasks)
    }

    /// Returns slots for all missing tasks, with a start at `at_ms`, group by group; `None` if the machines have too
    /// little room.
    fn assign(&self, at_ms: u64, places: &[Place], parts: &[Part]) -> Option<Vec<Slot>> {
        let until_ms = at_ms.saturating_add(self.missing.run_ms);
        let mut order: Vec<&Place> =
            places.iter().filter(|place| place.room.iter().any(|room| *room > 0)).collect();
        order.sort_by_key(|place| (Reverse(place.since_ms), place.row));
        let mut left = self.missing.tasks;
        let mut slots: Vec<Slot> = Vec::new();
        for (group, part) in parts.iter().enumerate() {
            let missing = self.missing.groups[group];
            let mut wanted = missing.tasks.min(left);
            for place in &order {
                if wanted == 0 {
                    break;
                }
                let most = place.room[group].min(wanted);
                if most == 0 || self.is_reserved(place.row, group, at_ms) {
                    continue;
                }
                let here = |slot: &&Slot| slot.machine.row() == place.row;
                let tasks = if group > 0 && slots.iter().any(|slot| here(&slot)) {
                    let own = slots.iter().filter(here).map(|slot| &slot.hold);
                    let timeline =
                        Timeline::of(self.view, place.row, self.on(place.row).chain(own));
                    timeline.room(at_ms..until_ms, part, most)
                } else {
                    most
                };
                if tasks > 0 {
                    let hold = Hold { from_ms: at_ms, until_ms, tasks, part: part.clone() };
                    let machine = self.view.machine_id(place.row);
                    slots.push(Slot { machine, group: missing.index, hold });
                    (wanted, left) = (wanted - tasks, left - tasks);
                }
            }
        }
        (left == 0).then_some(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::Moments;

    #[test]
    fn a_search_passes_each_moment_once() {
        let times: Vec<u64> = (0..200).map(|number| number * number % 7 + 10 * number).collect();
        for run_ms in [None, Some(1), Some(35), Some(5000), Some(u64::MAX)] {
            let begins = |at_ms: u64| run_ms.map(|run| at_ms.saturating_sub(run).saturating_add(1));
            let naive: Vec<u64> =
                times.iter().flat_map(|at_ms| [Some(*at_ms), begins(*at_ms)]).flatten().collect();
            let mut moments = Moments::new(times.clone(), run_ms);
            let (mut at_ms, mut passed) = (0, moments.pass(0));
            while let Some(next) = moments.rest().first().copied() {
                assert_eq!(naive.iter().copied().filter(|one| *one > at_ms).min(), Some(next));
                at_ms = next;
                passed += moments.pass(at_ms);
            }
            assert!(naive.iter().all(|one| *one <= at_ms), "{run_ms:?}");
            assert!(passed <= naive.len(), "{run_ms:?}: {passed} steps");
        }
    }
}
