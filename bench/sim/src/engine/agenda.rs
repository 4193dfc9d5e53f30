//! Event queue, ordered by time; events with equal times keep the order in which they were added.
//!
//! Three kinds of events are not in the heap, because they are sorted already: changes of machines, arrivals, and the
//! samples, one each second. If the use is measured at all times, there are no samples, and this event is the end of
//! the run, after the other events of its time. At equal times, changes of machines precede arrivals, and arrivals
//! precede other events.

use super::{Plan, Survey};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<E> {
    /// Machines change. The value is the number of the change.
    Change(u32),
    /// A job arrives. The value is the number of the job.
    Arrival(u32),
    /// The use of the cell is sampled.
    Look,
    /// A scheduled event.
    Event(E),
}

/// Bits of a time that is not negative. As integers, they have the same order as the times.
type TimeBits = u64;

/// Future events.
pub struct Agenda<'a, E> {
    plan: &'a Plan<'a>,
    changed: usize,
    arrived: usize,
    look: Option<(TimeBits, u64)>,
    asked: u64,
    heap: BinaryHeap<Reverse<(TimeBits, u64, E)>>,
    now_s: f64,
}

impl<'a, E: Ord + Copy> Agenda<'a, E> {
    /// Creates the agenda of a plan, at time zero.
    #[must_use]
    pub fn new(plan: &'a Plan<'a>) -> Agenda<'a, E> {
        let look = match plan.survey {
            Survey::EverySecond => Some((0, 0)),
            Survey::Always => Some((plan.end_s.to_bits(), u64::MAX)),
            Survey::Never => None,
        };
        let heap = BinaryHeap::new();
        Agenda { plan, changed: 0, arrived: 0, look, asked: 1, heap, now_s: 0.0 }
    }

    /// The time of the current event.
    #[must_use]
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Schedules an event in this many seconds.
    pub fn after(&mut self, seconds: f64, event: E) {
        let at = (self.now_s + seconds).to_bits();
        self.heap.push(Reverse((at, self.asked, event)));
        self.asked += 1;
    }
}

impl<E: Ord + Copy> Agenda<'_, E> {
    /// Returns the next change of machines, if it is not later than the time `first`.
    fn next_change(&mut self, first: TimeBits) -> Option<Next<E>> {
        let at = *self.plan.changes.get(self.changed)?;
        if at.to_bits() > first {
            return None;
        }
        self.changed += 1;
        self.now_s = at;
        Some(Next::Change(self.changed as u32 - 1))
    }
}

impl<E: Ord + Copy> Iterator for Agenda<'_, E> {
    type Item = Next<E>;

    /// Advances to the next event; `None` if there is no event before the end.
    fn next(&mut self) -> Option<Next<E>> {
        if self.now_s > self.plan.end_s {
            return None;
        }
        let mut at = (TimeBits::MAX, u64::MAX);
        if let Some(&job) = self.plan.arrivals.get(self.arrived) {
            at = (self.plan.jobs[job as usize].submit_s.to_bits(), 0);
        }
        let look = self.look.filter(|look| *look < at);
        let asked = self.heap.peek().map(|Reverse((time, asked, _))| (*time, *asked));
        let others = look.into_iter().chain(asked).map(|(time, _)| time);
        let first = others.chain([at.0]).min().unwrap_or(TimeBits::MAX);
        if let Some(change) = self.next_change(first) {
            return Some(change);
        }
        if let Some(asked) =
            asked.filter(|asked| *asked < at && look.is_none_or(|look| *asked < look))
        {
            self.now_s = f64::from_bits(asked.0);
            return self.heap.pop().map(|Reverse((_, _, event))| Next::Event(event));
        }
        if let Some(look) = look {
            self.now_s = f64::from_bits(look.0);
            if self.plan.survey == Survey::Always {
                return None;
            }
            self.look = Some(((self.now_s + 1.0).to_bits(), self.asked));
            self.asked += 1;
            return Some(Next::Look);
        }
        let job = *self.plan.arrivals.get(self.arrived)?;
        self.arrived += 1;
        self.now_s = f64::from_bits(at.0);
        Some(Next::Arrival(job))
    }
}
