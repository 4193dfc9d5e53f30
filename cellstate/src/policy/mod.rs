//! Policies: rules of the cell that depend on more than the free amounts of one machine.
//!
//! ```text
//!    group.policies & cell.checking          group.policies & cell.counting
//!            │ empty: nothing is called              │ empty: nothing is called
//!            ▼                                       ▼
//!    admit ─▶ (amounts fit?) ─▶ check  ──claim──▶  count +1  ⋯  count -1
//!            └── cell, and every view ──┘           └─ exact inverses: an undo replays them
//!                                                     backwards
//!    write ──▶ delta ──▶ apply (the mirror of a view)      capture / restore / hash / audit
//! ```
//!
//! Each policy is one file or folder with its state, checks, counting, columns of a delta, mirror in a view, part of a
//! snapshot, recount and commands. `list.rs` names each of them once. Macros derive from that list the sets, the state
//! of the cell and the mirrors of views, with static dispatch. `commit/` calls only this interface, and names no
//! policy.
//!
//! The policies of a group are determined when it is compiled; the cell's sets change only with commands. A claim
//! intersects both sets; if the result is empty, only amounts are compared.

#[macro_use]
mod macros;

pub(crate) mod allocations;
pub(crate) mod cluster_resources;
pub(crate) mod columns;
pub(crate) mod evictions;
pub(crate) mod gangs;
mod list;
pub(crate) mod peaks;
mod placement;
mod quotas;
pub(crate) mod reservations;
mod runtime_affinity;
mod set;
pub(crate) mod tasks_per_machine;

pub(crate) use columns::{Columns, RowsAgain};
pub use list::PolicyColumns;
pub(crate) use list::{Mirrors, Notes, Policies};
pub(crate) use placement::{Context, Placement, TenantTree};
pub(crate) use set::PolicySet;

use crate::audit::AuditError;
use crate::cell::Cell;
use crate::commit::Review;
use crate::delta::Delta;
use crate::facts::Facts;
use crate::image::{Image, ImageError};
use crate::view::Tally;
use omega_core::{Conflict, Job, Kinds, Reason, TaskGroup, TenantConfig, Text, Transaction};
use std::hash::Hasher;

/// The part of a policy that the cell and views share: it checks placements and counts them.
pub(crate) trait Ledger: Default {
    /// Whether it may reject a placement at present.
    fn is_checking(&self, _facts: &Facts) -> bool {
        true
    }

    /// Whether it counts placements at present.
    fn is_counting(&self) -> bool {
        true
    }

    /// Checks whether a machine accepts a task, before amounts are compared.
    ///
    /// # Errors
    /// The reason against it.
    #[inline]
    fn admit(&self, _at: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Checks a placement for which the machine has room.
    ///
    /// # Errors
    /// The reason against it.
    #[inline]
    fn check(&self, _at: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Counts a placed task, or with `sign` -1 a task that left. The two are exact inverses.
    #[inline]
    fn count(&mut self, _at: &Placement<'_>, _sign: i64) {}
}

/// The mirror of a policy that views do not need.
impl Ledger for () {
    fn is_checking(&self, _: &Facts) -> bool {
        false
    }

    fn is_counting(&self) -> bool {
        false
    }
}

impl Mirror for () {}

/// The checks of all policies, in the cell or in a view.
pub(crate) trait Checks {
    /// Checks whether a machine accepts a task.
    ///
    /// # Errors
    /// The first reason against it, in the order of the list.
    fn admit(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason>;

    /// Checks a placement for which the machine has room.
    ///
    /// # Errors
    /// The first reason against it, in the order of the list.
    fn check(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason>;
}

/// A policy, with its state in the cell. Equal sequences of commands give equal states.
pub(crate) trait Policy: Ledger {
    /// The mirror in a view: often the same type, or `()` where views need none.
    type Mirror: Mirror;
    /// Its notes of one transaction, for its counters.
    type Note: Default + Copy;

    /// Whether it concerns the tasks of a group. Evaluated once, when the group is compiled.
    fn concerns(job: &Job, group: &TaskGroup) -> bool;

    /// Whether it concerns a transaction whatever its tasks are.
    fn concerns_transaction(_txn: &Transaction) -> bool {
        false
    }

    /// Checks whether a placed task may grow by these amounts, before amounts are compared.
    ///
    /// # Errors
    /// The reason against it.
    fn admit_resize(&self, _by: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Checks whether a placed task may grow by these amounts, which its machine has free.
    ///
    /// # Errors
    /// The reason against it.
    fn check_resize(&self, _by: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Counts the growth of a placed task, negative for shrinking.
    fn resize(&mut self, _by: &Placement<'_>) {}

    /// Notes that a task is about to be resized.
    fn note_resize(&self, _by: &Placement<'_>, _facts: &Facts, _note: &mut Self::Note) {}

    /// Notes that a task is about to be released or evicted.
    fn note_removal(&self, _at: &Placement<'_>, _facts: &Facts, _note: &mut Self::Note) {}

    /// Checks a transaction as a whole, and adds the items to reject. The commit then undoes all steps and checks the
    /// transaction again without those items.
    fn check_all(
        _cell: &Cell,
        _review: &Review<'_>,
        _note: &mut Self::Note,
        _late: &mut Vec<Conflict>,
    ) {
    }

    /// Concludes a transaction, committed or fully rejected.
    fn settle(_cell: &mut Cell, _review: &Review<'_>, _note: Self::Note) {}

    /// Applies a tenant's configuration, in a version that has begun.
    fn configure_tenant(_cell: &mut Cell, _name: &Text, _config: &TenantConfig) {}

    /// Writes its columns of a changed row.
    #[inline]
    fn write_row(&self, _slot: u32, _delta: &mut Delta) {}

    /// Writes the parts that every delta has.
    fn write_head(&self, _delta: &mut Delta) {}

    /// Writes the parts that its commands and the time change.
    fn write_change(&self, _delta: &mut Delta) {}

    /// Writes the parts that only a full delta has beside its rows.
    fn write_whole(&self, _delta: &mut Delta) {}

    /// Whether a change that depends on time alone is near: then the cell should receive `Expire` often.
    fn is_near_an_edge(&self, _now_ms: u64) -> bool {
        false
    }

    /// Whether outcomes of commands depend on the time.
    fn goes_by_time(&self) -> bool {
        false
    }

    /// Whether its effect differs between two times.
    fn changes_between(&self, _before_ms: u64, _now_ms: u64) -> bool {
        false
    }

    /// Advances to a time at which its effect differs.
    fn pass_time(&mut self, _facts: &mut Facts, _now_ms: u64) {}

    /// Whether its sums stay in bounds with one more placement. Called for tasks of a snapshot.
    fn can_count(&self, _at: &Placement<'_>) -> bool {
        true
    }

    /// Adds its part of a snapshot.
    fn capture(&self, _image: &mut Image) {}

    /// Restores its part of a snapshot, before any task is counted.
    ///
    /// # Errors
    /// If the part is impossible.
    fn restore(&mut self, _restoring: Restoring<'_>) -> Result<(), ImageError> {
        Ok(())
    }

    /// Adds its part of a state to the state hash. A policy that is not in use adds nothing.
    fn hash(&self, _into: &mut impl Hasher) {}

    /// Adds its part of a snapshot to the state hash, with the result of [`Policy::hash`].
    fn hash_image(_image: &Image, _into: &mut impl Hasher) {}

    /// Compares its sums with those of a recount, in which only placed tasks were counted.
    ///
    /// # Errors
    /// If they differ.
    fn audit(&self, _recount: &Self) -> Result<(), AuditError> {
        Ok(())
    }

    /// Creates a state with the same settings and nothing counted, for a recount.
    fn uncounted(&self) -> Self {
        Self::default()
    }
}

/// A policy's part of a view.
pub(crate) trait Mirror: Ledger {
    /// Clears all data about a view's machines, before a full delta.
    fn reset(&mut self) {}

    /// Applies its columns of a delta.
    fn apply(&mut self, _applying: Applying<'_>) {}
}

/// The parts of a view that mirrors change when a delta is applied.
pub(crate) struct Applying<'a> {
    pub(crate) delta: &'a Delta,
    pub(crate) facts: &'a mut Facts,
    pub(crate) kinds: usize,
    pub(crate) tally: &'a mut Tally,
    /// Set if cached results of any machine may be outdated.
    pub(crate) stale: &'a mut bool,
}

impl Applying<'_> {
    /// Reborrows the parts for the next mirror.
    fn again(&mut self) -> Applying<'_> {
        let Applying { delta, facts, kinds, tally, stale } = self;
        Applying { delta, facts, kinds: *kinds, tally, stale }
    }
}

/// The parts of a cell that is being restored.
pub(crate) struct Restoring<'a> {
    pub(crate) image: &'a Image,
    pub(crate) facts: &'a mut Facts,
    pub(crate) kinds: &'a Kinds,
}

impl Restoring<'_> {
    /// Reborrows the parts for the next policy.
    fn again(&mut self) -> Restoring<'_> {
        let Restoring { image, facts, kinds } = self;
        Restoring { image, facts, kinds }
    }
}
