//! Policies: rules of the cell that look at more than the free amounts of one machine.
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
//! snapshot, recount and commands. `list.rs` names each of them once; from that list come the sets, the state of the
//! cell and the mirrors of views, with static dispatch. `commit.rs` knows this contract and no listed policy.
//!
//! A group's set is known when it is compiled; the cell's sets change only with commands. A claim intersects both, and
//! where nothing is left only amounts are compared.

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

/// The side of a policy that the cell and every view share: it checks a placement and counts it.
pub(crate) trait Ledger: Default {
    /// Whether it may reject a placement at present.
    fn is_checking(&self, _facts: &Facts) -> bool {
        true
    }

    /// Whether it counts placements at present.
    fn is_counting(&self) -> bool {
        true
    }

    /// Checks whether a machine is open to a task, before amounts are compared.
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

    /// Counts a placed task, or with `sign` -1 one that left: exact inverses.
    #[inline]
    fn count(&mut self, _at: &Placement<'_>, _sign: i64) {}
}

/// The mirror of a policy that schedulers need not know.
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
    /// Checks whether a machine is open to a task.
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
    /// Its part of a view: often the same type, `()` where schedulers need not know.
    type Mirror: Mirror;
    /// Its notes of one transaction, for its counters.
    type Note: Default + Copy;

    /// Whether it concerns the tasks of a group: asked once, when the group is compiled.
    fn concerns(job: &Job, group: &TaskGroup) -> bool;

    /// Whether it concerns a transaction whatever its tasks are.
    fn concerns_transaction(_txn: &Transaction) -> bool {
        false
    }

    /// Checks whether a placed task may be allocated so much more, before amounts are compared.
    ///
    /// # Errors
    /// The reason against it.
    fn admit_resize(&self, _by: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Checks whether a placed task may be allocated so much more, for which its machine has room.
    ///
    /// # Errors
    /// The reason against it.
    fn check_resize(&self, _by: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Counts a placed task that came to be allocated so much more, or less where that is below zero.
    fn resize(&mut self, _by: &Placement<'_>) {}

    /// Notes that a task is about to be resized.
    fn note_resize(&self, _by: &Placement<'_>, _facts: &Facts, _note: &mut Self::Note) {}

    /// Notes that a task is about to be released or evicted.
    fn note_removal(&self, _at: &Placement<'_>, _facts: &Facts, _note: &mut Self::Note) {}

    /// Checks a transaction as a whole, and adds the items to reject. Then its steps are undone, and it is checked
    /// again without those items.
    fn check_all(
        _cell: &Cell,
        _review: &Review<'_>,
        _note: &mut Self::Note,
        _late: &mut Vec<Conflict>,
    ) {
    }

    /// Concludes a transaction that was committed, or of which nothing was.
    fn settle(_cell: &mut Cell, _review: &Review<'_>, _note: Self::Note) {}

    /// Takes over what an operator said of a tenant, in a version that has begun.
    fn configure_tenant(_cell: &mut Cell, _name: &Text, _config: &TenantConfig) {}

    /// Writes its columns of a row that changed.
    #[inline]
    fn write_row(&self, _slot: u32, _delta: &mut Delta) {}

    /// Writes the parts that every delta has.
    fn write_head(&self, _delta: &mut Delta) {}

    /// Writes the parts that its commands and the time change.
    fn write_change(&self, _delta: &mut Delta) {}

    /// Writes what a full delta has beside its rows.
    fn write_whole(&self, _delta: &mut Delta) {}

    /// Whether the passing of time changes something soon: then the cell should hear the time often.
    fn is_near_an_edge(&self, _now_ms: u64) -> bool {
        false
    }

    /// Whether what commands do depends on the time.
    fn goes_by_time(&self) -> bool {
        false
    }

    /// Whether it has another effect at one time than at another.
    fn changes_between(&self, _before_ms: u64, _now_ms: u64) -> bool {
        false
    }

    /// Goes on to a time at which it has another effect.
    fn pass_time(&mut self, _facts: &mut Facts, _now_ms: u64) {}

    /// Whether its sums stay in bounds with one more placement: for tasks of a snapshot.
    fn can_count(&self, _at: &Placement<'_>) -> bool {
        true
    }

    /// Adds its part of a snapshot.
    fn capture(&self, _image: &mut Image) {}

    /// Takes over its part of a snapshot, before any task is counted.
    ///
    /// # Errors
    /// If no cell can have had it.
    fn restore(&mut self, _restoring: Restoring<'_>) -> Result<(), ImageError> {
        Ok(())
    }

    /// Adds its part of a state to the state hash. A policy that is not in use adds nothing.
    fn hash(&self, _into: &mut impl Hasher) {}

    /// Adds the same of a snapshot: both give one hash.
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
    /// Forgets all that refers to a view's machines, before a full delta.
    fn reset(&mut self) {}

    /// Takes over what a delta has of it.
    fn apply(&mut self, _applying: Applying<'_>) {}
}

/// The parts of a view that mirrors change when a delta is applied.
pub(crate) struct Applying<'a> {
    pub(crate) delta: &'a Delta,
    pub(crate) facts: &'a mut Facts,
    pub(crate) kinds: usize,
    pub(crate) tally: &'a mut Tally,
    /// Set where results that were cached of any machine may be outdated.
    pub(crate) stale: &'a mut bool,
}

impl Applying<'_> {
    /// Lends the parts to the next mirror.
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
    /// Lends the parts to the next policy.
    fn again(&mut self) -> Restoring<'_> {
        let Restoring { image, facts, kinds } = self;
        Restoring { image, facts, kinds }
    }
}
