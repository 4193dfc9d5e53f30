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
//! Each policy is a folder with its state, checks, counting, columns of a delta, mirror in a view, part of a
//! snapshot, recount and commands. `list.rs` names each of them once. Macros derive from that list the sets, the state
//! of the cell and the mirrors of views, with static dispatch. The functions that need the whole cell are in
//! `in_cell.rs`, here and in the folder of each policy. `commit/` calls
//! only this interface, and names no policy.
//!
//! The policies of a group are determined when the group is compiled. The cell's sets `checking` and `counting` change
//! only with commands. A claim intersects the group's set with the cell's; if the result is empty, no policy is called.

#[macro_use]
mod macros;

pub mod allocations;
pub mod cluster_resources;
pub mod columns;
pub mod evictions;
pub mod gangs;
mod in_cell;
mod ledger;
mod list;
pub mod peaks;
mod placement;
pub mod ports;
mod quotas;
pub mod reservations;
mod runtime_affinity;
mod set;
pub mod tasks_per_machine;

pub use columns::{Columns, RowsAgain};
pub use in_cell::CellPolicy;
pub use ledger::{Checks, Ledger};
pub use list::PolicyColumns;
pub use list::{Mirrors, Notes, Policies};
pub use placement::{Context, Placement, TenantTree};
pub use set::PolicySet;

use crate::audit_error::AuditError;
use crate::index::machine_index::MachineIndex;
use crate::snapshot::{SnapshotState, SnapshotStateError};
use crate::state::tenants::TenantDelta;
use crate::view::ChangeCounts;
use omega_core::{Job, Kinds, Reason, TaskGroup, Transaction};
use std::hash::Hasher;

/// A policy, with its state in the cell. The state must depend only on the sequence of commands.
pub trait Policy: Ledger {
    /// The columns of the policy in a delta, or `()`.
    type Columns: Columns;
    /// The mirror of the policy in a view: often this type itself, or `()` if views need none.
    type Mirror: Mirror<Self::Columns>;
    /// Notes about one transaction. [`Policy::settle`] updates the policy's counters from them.
    type Note: Default + Copy;
    /// Whether [`Policy::write_row`] writes columns while the policy counts.
    const WRITES_ROWS: bool = false;

    /// Whether the policy concerns the tasks of a group. Evaluated once, when the group is compiled.
    fn concerns(job: &Job, group: &TaskGroup) -> bool;

    /// Whether the policy concerns a transaction, whatever tasks it has.
    fn concerns_transaction(_txn: &Transaction) -> bool {
        false
    }

    /// Checks whether a placed task may grow by these amounts. Called before amounts are compared.
    ///
    /// # Errors
    /// The reason against the growth.
    fn admit_resize(&self, _by: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Checks whether a placed task may grow by these amounts. Called if its machine has them free.
    ///
    /// # Errors
    /// The reason against the growth.
    fn check_resize(&self, _by: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Counts the growth of a placed task. It is negative if the task shrinks.
    fn resize(&mut self, _by: &Placement<'_>) {}

    /// Takes a note of a task that is about to be resized.
    fn note_resize(
        &self,
        _by: &Placement<'_>,
        _machine_index: &MachineIndex,
        _note: &mut Self::Note,
    ) {
    }

    /// Takes a note of a task that is about to be released or evicted.
    fn note_removal(
        &self,
        _at: &Placement<'_>,
        _machine_index: &MachineIndex,
        _note: &mut Self::Note,
    ) {
    }

    /// Writes the policy's columns of a changed row. Called only if [`Policy::WRITES_ROWS`] is true.
    #[inline]
    fn write_row(&self, _slot: u32, _columns: &mut Self::Columns) {}

    /// Writes the parts that every delta has.
    fn write_head(&self, _columns: &mut Self::Columns) {}

    /// Writes the parts that change by the policy's commands or by the passing of time. `rows` is the number of rows of
    /// the machine table.
    fn write_change(&self, _columns: &mut Self::Columns, _rows: usize) {}

    /// Writes the parts that only a full delta has, apart from its rows.
    fn write_whole(&self, _columns: &mut Self::Columns) {}

    /// Whether the passing of time alone will change the state soon. If so, the cell should receive `Expire` often.
    fn is_near_an_edge(&self, _now_ms: u64) -> bool {
        false
    }

    /// Whether outcomes of commands may depend on the time.
    fn depends_on_time(&self) -> bool {
        false
    }

    /// Whether the policy's effect at `now_ms` differs from that at `before_ms`.
    fn changes_between(&self, _before_ms: u64, _now_ms: u64) -> bool {
        false
    }

    /// Advances the policy to a time. Called only if its effect has changed by then.
    fn pass_time(&mut self, _machine_index: &mut MachineIndex, _now_ms: u64) {}

    /// Whether the policy's sums stay within their bounds with one more placement. Called for tasks of a snapshot.
    fn can_count(&self, _at: &Placement<'_>) -> bool {
        true
    }

    /// Adds the policy's part of a snapshot.
    fn capture(&self, _snapshot: &mut SnapshotState) {}

    /// Restores the policy's part of a snapshot, before any task is counted.
    ///
    /// # Errors
    /// No cell could have produced the part.
    fn restore(&mut self, _restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        Ok(())
    }

    /// Adds the policy's part of the state to the state hash. A policy that is not in use adds nothing.
    fn hash(&self, _into: &mut impl Hasher) {}

    /// Adds the policy's part of a snapshot to the state hash, exactly like [`Policy::hash`] of the restored state.
    fn hash_snapshot(_snapshot: &SnapshotState, _into: &mut impl Hasher) {}

    /// Compares the policy's sums with those of a recount of all placed tasks.
    ///
    /// # Errors
    /// The sums differ.
    fn audit(&self, _recount: &Self) -> Result<(), AuditError> {
        Ok(())
    }

    /// Creates a state with these settings and without any counts, for a recount.
    fn uncounted(&self) -> Self {
        Self::default()
    }
}

/// A policy's part of a view. `C` are the policy's columns of a delta.
pub trait Mirror<C>: Ledger {
    /// Clears all data about a view's machines, before a full delta.
    fn reset(&mut self) {}

    /// Applies the policy's columns of a delta.
    fn apply(&mut self, _columns: &C, _applying: Applying<'_>) {}
}

impl<C> Mirror<C> for () {}

/// The parts of a view that mirrors change when a delta is applied.
pub struct Applying<'a> {
    /// The changed rows.
    pub slots: &'a [u32],
    /// The changed tenants.
    pub tenants: &'a [TenantDelta],
    /// The cell's time in milliseconds.
    pub now_ms: u64,
    pub machine_index: &'a mut MachineIndex,
    pub kinds: usize,
    pub change_counts: &'a mut ChangeCounts,
    /// A mirror sets this if its change may make cached results of any machine outdated.
    pub stale: &'a mut bool,
}

impl Applying<'_> {
    /// Borrows the parts again, for the next mirror.
    fn again(&mut self) -> Applying<'_> {
        let Applying { slots, tenants, now_ms, machine_index, kinds, change_counts, stale } = self;
        Applying {
            slots,
            tenants,
            now_ms: *now_ms,
            machine_index,
            kinds: *kinds,
            change_counts,
            stale,
        }
    }
}

/// The parts of a cell that is being restored.
pub struct Restoring<'a> {
    pub snapshot: &'a SnapshotState,
    pub machine_index: &'a mut MachineIndex,
    pub kinds: &'a Kinds,
}

impl Restoring<'_> {
    /// Borrows the parts again, for the next policy.
    fn again(&mut self) -> Restoring<'_> {
        let Restoring { snapshot, machine_index, kinds } = self;
        Restoring { snapshot, machine_index, kinds }
    }
}
