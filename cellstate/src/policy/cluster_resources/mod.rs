//! Cluster resources: amounts that belong to no machine (see
//! [`TaskGroup::cluster_request`](omega_core::TaskGroup::cluster_request)), such as licences, floating addresses, cloud
//! volumes and database connections.
//!
//! For each kind there is a capacity, and a running sum of the claims of placed tasks. The cell and each view have both
//! values, and use one check. A view adds its own claims to the sum.
//!
//! A placed task claims its group's cluster request even if it was resized. So the sum changes only when tasks are
//! placed or leave. Cluster resources never cause preemption: a task that needs a licence stays pending until a task
//! with such a licence ends.

mod in_cell;
mod view;

use super::{Applying, Columns, Context, Ledger, Mirror, Placement, Policy, Restoring, RowsAgain};
use crate::audit_error::AuditError;
use crate::commands::validate;
use crate::index::need::Need;
use crate::snapshot::{SnapshotState, SnapshotStateError};
use omega_core::{Amounts, Job, KindId, Reason, TaskGroup};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};

/// The cluster resources. See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterResources {
    /// The capacity of each kind.
    pub capacity: Amounts,
    /// The claims of placed tasks. They may exceed the capacity if it was lowered or a task was adopted.
    pub claimed: Amounts,
}

impl ClusterResources {
    /// The unclaimed amount of a kind.
    #[must_use]
    pub fn free(&self, kind: KindId) -> u64 {
        self.capacity.get(kind).saturating_sub(self.claimed.get(kind))
    }

    /// Checks a request of one task.
    fn check_request(&self, request: &Amounts) -> Result<(), Reason> {
        match request.iter().find(|(kind, amount)| *amount > self.free(*kind)) {
            Some((kind, _)) => Err(Reason::CellExhausted(kind)),
            None => Ok(()),
        }
    }

    /// The number of tasks with this request for which enough is left.
    fn room_for(&self, request: &Amounts) -> u64 {
        let counts = request.iter().map(|(kind, amount)| self.free(kind) / amount);
        counts.min().unwrap_or(u64::MAX)
    }

    /// Adds the request of a task if `sign` is 1, or subtracts it if it is -1.
    fn count_request(&mut self, request: &Amounts, sign: i64) {
        for (kind, amount) in request.iter() {
            let claimed = self.claimed.get(kind);
            debug_assert!(sign > 0 || amount <= claimed, "what is given back was counted");
            self.claimed.set(kind, claimed.saturating_add_signed(sign * amount as i64));
        }
    }

    /// Whether more of some kind is left than in `before`.
    fn exceeds(&self, before: &ClusterResources) -> bool {
        self.capacity.iter().any(|(kind, _)| self.free(kind) > before.free(kind))
    }
}

impl Need {
    /// The amounts that a task adds to its tenant's use: its allocation on the machine plus its cluster request.
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

impl Ledger for ClusterResources {
    fn check(&self, at: &Placement<'_>, _: &Context<'_>) -> Result<(), Reason> {
        at.need.cluster_request.as_deref().map_or(Ok(()), |request| self.check_request(request))
    }

    fn count(&mut self, at: &Placement<'_>, sign: i64) {
        if let Some(request) = &at.need.cluster_request {
            self.count_request(request, sign);
        }
    }
}

impl Policy for ClusterResources {
    type Columns = ClusterResources;
    type Mirror = ClusterResources;
    type Note = ();

    fn concerns(_: &Job, group: &TaskGroup) -> bool {
        !group.cluster_request.is_zero()
    }

    fn write_head(&self, columns: &mut ClusterResources) {
        columns.clone_from(self);
    }

    fn can_count(&self, at: &Placement<'_>) -> bool {
        let request = at.need.cluster_request.as_deref();
        request.is_none_or(|request| self.claimed.checked_add(request).is_some())
    }

    fn capture(&self, snapshot: &mut SnapshotState) {
        snapshot.cluster_capacity.clone_from(&self.capacity);
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        validate::cluster_capacity(&restoring.snapshot.cluster_capacity, restoring.kinds)?;
        self.capacity.clone_from(&restoring.snapshot.cluster_capacity);
        Ok(())
    }

    fn hash(&self, into: &mut impl Hasher) {
        hash(&self.capacity, into);
    }

    fn hash_snapshot(snapshot: &SnapshotState, into: &mut impl Hasher) {
        hash(&snapshot.cluster_capacity, into);
    }

    fn audit(&self, recount: &ClusterResources) -> Result<(), AuditError> {
        if self.claimed == recount.claimed { Ok(()) } else { Err(AuditError::CellClaims) }
    }

    fn uncounted(&self) -> ClusterResources {
        ClusterResources { capacity: self.capacity.clone(), claimed: Amounts::zero() }
    }
}

impl Mirror<ClusterResources> for ClusterResources {
    fn apply(&mut self, now: &ClusterResources, applying: Applying<'_>) {
        applying.change_counts.cell_freed += u64::from(now.exceeds(self));
        self.clone_from(now);
    }
}

/// Every delta contains the values as of its version, so a later delta replaces them.
impl Columns for ClusterResources {
    fn clear(&mut self) {}

    fn append(&mut self, later: &ClusterResources, _: &RowsAgain<'_>) {
        self.clone_from(later);
    }

    fn nothing_since(&self) -> ClusterResources {
        self.clone()
    }
}

/// Hashes the capacity. Adds nothing if the cell has no cluster resources.
fn hash(capacity: &Amounts, into: &mut impl Hasher) {
    if !capacity.is_zero() {
        ("the cell has", capacity).hash(into);
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
        assert_eq!((cell.room_for(&two), cell.check_request(&two)), (2, Ok(())));
        let before = cell.clone();
        cell.count_request(&Amounts::new([0, 9]), 1);
        assert_eq!((cell.free(KindId(1)), cell.room_for(&two)), (0, 0));
        assert_eq!(cell.check_request(&two), Err(Reason::CellExhausted(KindId(1))));
        assert_eq!(cell.check_request(&Amounts::new([1])), Err(Reason::CellExhausted(KindId(0))));
        assert_eq!(cell.check_request(&Amounts::zero()), Ok(()));
        assert!(before.exceeds(&cell) && !cell.exceeds(&before));
    }
}
