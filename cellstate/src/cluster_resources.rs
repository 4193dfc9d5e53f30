//! What the cell as a whole has, and what tasks claim of it: see
//! [`TaskGroup::cluster_request`](omega_core::TaskGroup::cluster_request).
//!
//! Licences, addresses, volumes of a cloud and connections of a database belong to no machine. Of each kind there
//! is a number for what the cell has, and a running sum of what its placed tasks claim. The master has both, and
//! every view its own with its own claims in it; both judge by [`ClusterResources::judge`].
//!
//! A task claims what its group says for as long as it has a machine, whatever it was resized to. So the sum moves
//! where tasks come and leave (`Cell::place`, `Cell::unplace`), with those of tenants, and nowhere else. No machine
//! is the place to make room on, so nobody is evicted for it: who waits for a licence waits until a task that has
//! one ends.

use crate::cell::Cell;
use crate::facts::Need;
use crate::held::values_of;
use crate::image::ImageError;
use crate::tenants::Tenants;
use crate::validate;
use omega_core::{Amounts, KindId, Outcome, Reason, Rejection};
use std::borrow::Cow;

/// See the head of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterResources {
    /// How much there is of each kind.
    pub capacity: Amounts,
    /// What placed tasks claim together; more than there is after a kind was made less, or a task was adopted.
    pub claimed: Amounts,
}

impl ClusterResources {
    /// What may still be claimed of a kind.
    #[must_use]
    pub fn free(&self, kind: KindId) -> u64 {
        self.capacity.get(kind).saturating_sub(self.claimed.get(kind))
    }

    /// Whether a task may claim so much.
    pub(crate) fn judge(&self, request: &Amounts) -> Result<(), Reason> {
        match request.iter().find(|(kind, amount)| *amount > self.free(*kind)) {
            Some((kind, _)) => Err(Reason::CellExhausted(kind)),
            None => Ok(()),
        }
    }

    /// How many tasks may claim so much each.
    pub(crate) fn room_for(&self, request: &Amounts) -> u64 {
        let counts = request.iter().map(|(kind, amount)| self.free(kind) / amount);
        counts.min().unwrap_or(u64::MAX)
    }

    /// Counts what a task claims, or with `sign` -1 what it gives back.
    pub(crate) fn count(&mut self, request: &Amounts, sign: i64) {
        for (kind, amount) in request.iter() {
            let claimed = self.claimed.get(kind);
            debug_assert!(sign > 0 || amount <= claimed, "what is given back was counted");
            self.claimed.set(kind, claimed.saturating_add_signed(sign * amount as i64));
        }
    }

    /// Whether there is more of some kind than before.
    pub(crate) fn exceeds(&self, before: &ClusterResources) -> bool {
        self.capacity.iter().any(|(kind, _)| self.free(kind) > before.free(kind))
    }
}

impl Need {
    /// What a task counts for its tenant that takes so much of its machine: that, and what it claims of the cell.
    #[inline]
    pub(crate) fn charged<'a>(&self, request: &'a [i64]) -> Cow<'a, [i64]> {
        let Some(of_cell) = &self.cluster_request else { return Cow::Borrowed(request) };
        let mut charged = request.to_vec();
        for (kind, amount) in of_cell.iter() {
            charged[kind.index()] += amount as i64;
        }
        Cow::Owned(charged)
    }
}

/// Counts what a task claims of the cell as a whole, for it and for its tenant, or with `sign` -1 what it gives back.
#[cold]
#[inline(never)]
pub(crate) fn count_of_cell(
    (resources, tenants): (&mut ClusterResources, &mut Tenants),
    (tenant, request): (u32, &Amounts),
    sign: i64,
) {
    resources.count(request, sign);
    tenants.count(tenant, &values_of(request, tenants.kinds), sign);
}

impl Cell {
    /// What the cell as a whole has, and what of it is claimed.
    #[must_use]
    pub fn resources(&self) -> &ClusterResources {
        &self.resources
    }

    pub(crate) fn set_cluster_capacity(
        &mut self,
        kind: KindId,
        amount: u64,
    ) -> Result<Outcome, Rejection> {
        validate::known_kind(kind, &self.kinds)?;
        let capacity = self.resources.capacity.clone().with(kind, amount);
        validate::cluster_capacity(&capacity, &self.kinds)?;
        if capacity == self.resources.capacity {
            return Ok(Outcome::Done(self.version));
        }
        self.resources.capacity = capacity;
        Ok(Outcome::Done(self.begin()))
    }

    pub(crate) fn restore_cluster_capacity(&mut self, capacity: Amounts) -> Result<(), ImageError> {
        validate::cluster_capacity(&capacity, &self.kinds)?;
        self.resources.capacity = capacity;
        Ok(())
    }

    /// What placed tasks claim of the cell, counted anew.
    pub(crate) fn recount_cell_claims(&self) -> Amounts {
        let mut counted = ClusterResources::default();
        for (_, job) in self.jobs.iter() {
            let placed = job.tasks.iter().filter(|task| task.state.machine().is_some());
            let requests = placed.filter_map(|task| job.need(task).cluster_request.as_deref());
            requests.for_each(|request| counted.count(request, 1));
        }
        counted.claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_beyond_what_there_is_leaves_nothing() {
        let mut cell =
            ClusterResources { capacity: Amounts::new([0, 7]), claimed: Amounts::new([0, 2]) };
        let two = Amounts::new([0, 2]);
        assert_eq!((cell.room_for(&two), cell.judge(&two)), (2, Ok(())));
        let before = cell.clone();
        cell.count(&Amounts::new([0, 9]), 1);
        assert_eq!((cell.free(KindId(1)), cell.room_for(&two)), (0, 0));
        assert_eq!(cell.judge(&two), Err(Reason::CellExhausted(KindId(1))));
        assert_eq!(cell.judge(&Amounts::new([1])), Err(Reason::CellExhausted(KindId(0))));
        assert_eq!(cell.judge(&Amounts::zero()), Ok(()));
        assert!(before.exceeds(&cell) && !cell.exceeds(&before));
    }
}
