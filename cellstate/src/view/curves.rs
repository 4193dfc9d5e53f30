//! Demand that varies over the day, as a view sees it.

use super::View;
use super::block::{Block, filter_bits};
use crate::curves::CurveSum;
use crate::delta::Delta;
use crate::facts::Need;
use omega_core::KindId;

impl View {
    /// Takes in the sums of the rows that a delta has: one that it has no sum of has no curves any more.
    pub(super) fn apply_curves(&mut self, delta: &Delta) {
        if self.curves.is_empty() && delta.curves.is_empty() {
            return;
        }
        let mut before = Vec::new();
        for slot in &delta.slots {
            before.extend(self.curves.remove(*slot).map(|sum| (*slot, sum)));
        }
        for (slot, sum) in &delta.curves {
            self.curves.set(*slot, sum.clone());
        }
        let none = CurveSum::default();
        for (slot, before) in before {
            let now = self.curves.get(slot as usize).map_or(&none, |sum| &**sum);
            self.tally.freed += u64::from(now.is_lower_somewhere(&before));
        }
    }

    /// Whether the demand of any task that is placed varies over the day.
    #[must_use]
    pub fn any_curves(&self) -> bool {
        !self.curves.is_empty()
    }

    /// The sum of the curves of the tasks in a row, own claims among them; `None` if none has a curve.
    #[must_use]
    pub fn curves_on(&self, row: usize) -> Option<&CurveSum> {
        self.curves.get(row).map(|sum| &**sum)
    }

    /// How much less of a kind the machine in a row would have free with one more of these tasks: what it requests,
    /// or what the highest point of all curves there would rise by.
    #[must_use]
    pub fn taken(&self, row: usize, need: &Need, kind: KindId) -> i64 {
        let varying = need.curves.as_ref().and_then(|c| c.taken(kind, self.curves_on(row)));
        varying.unwrap_or_else(|| requested(need, kind))
    }

    /// How much more of a kind it would have free without one of these tasks, which runs there.
    #[must_use]
    pub fn freed(&self, row: usize, need: &Need, kind: KindId) -> i64 {
        let varying = need.curves.as_ref().and_then(|c| c.freed(kind, self.curves_on(row)));
        varying.unwrap_or_else(|| requested(need, kind))
    }

    /// Whether the machine in a row has room for so much of each kind of what a task needs.
    fn has_room(&self, row: usize, need: &Need, request: &[i64]) -> bool {
        (0..).map(KindId).zip(request).all(|(kind, request)| {
            need.fits((kind, *request), self.free(row, kind), self.curves_on(row))
        })
    }
}

fn requested(need: &Need, kind: KindId) -> i64 {
    need.request.get(kind.index()).copied().unwrap_or(0)
}

impl Block<'_> {
    /// Of the machines in `among`, those with room for a task, whose `request` may leave out kinds that are not to
    /// count.
    #[must_use]
    pub fn room_among(&self, need: &Need, request: &[i64], among: u64) -> u64 {
        let fits = self.fits_among(request, among);
        if need.curves.is_none() {
            return fits;
        }
        // At its highest point it does not fit there: perhaps it does at each point of the day.
        let has_room = |lane| self.view().has_room(self.first_row() + lane, need, request);
        fits | filter_bits(among & !fits, has_room)
    }
}
