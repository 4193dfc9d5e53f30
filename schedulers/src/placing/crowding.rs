//! Conflict backoff: a scheduler with many conflicts chooses among more machines.

use omega_core::Reason;

/// Whether a rejection depends on the machine. If so, the cell might accept the claim on another machine.
pub(crate) fn is_of_a_place(reason: Reason) -> bool {
    use Reason::{CellExhausted, GangIncomplete, QuotaExceeded};
    !matches!(reason, QuotaExceeded(_) | CellExhausted(_) | GangIncomplete)
}

/// Conflict backoff: the recent conflict rate of claims widens the choice of machines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crowding {
    claims: usize,
    conflicts: usize,
    level: u32,
}

/// Number of claims between two checks of the conflict rate. The level rises if more than one claim in 20 conflicts,
/// that is, more than 50 claims of a window. Chance alone seldom causes so many conflicts.
const CROWDING_WINDOW: usize = 1000;

/// Maximum number of doublings: up to 64 times as many candidate machines.
const CROWDING_LEVEL_MAX: u32 = 6;

impl Crowding {
    /// Counts the claims and conflicts of a transaction.
    pub(crate) fn note(&mut self, claims: usize, conflicts: usize) {
        self.claims += claims;
        self.conflicts += conflicts;
        if self.claims < CROWDING_WINDOW {
            return;
        }
        if self.conflicts * 20 > self.claims {
            self.level = (self.level + 1).min(CROWDING_LEVEL_MAX);
        } else if self.conflicts * 100 < self.claims {
            self.level = self.level.saturating_sub(1);
        }
        (self.claims, self.conflicts) = (0, 0);
    }

    /// Returns the number of times that the set of candidate machines is doubled.
    pub(crate) fn level(self) -> u32 {
        self.level
    }
}
