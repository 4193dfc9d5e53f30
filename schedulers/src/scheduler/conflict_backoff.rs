//! Conflict backoff: a scheduler with many conflicts chooses among more machines.

/// Conflict backoff: the recent conflict rate of claims widens the choice of machines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConflictBackoff {
    claims: usize,
    conflicts: usize,
    level: u32,
}

/// Number of claims between two checks of the conflict rate. The level rises if more than one claim in 20 conflicts,
/// that is, more than 50 claims of a window. Chance alone seldom causes so many conflicts.
const WINDOW: usize = 1000;

/// Maximum number of doublings: up to 64 times as many candidate machines.
const LEVEL_MAX: u32 = 6;

impl ConflictBackoff {
    /// Counts the claims and conflicts of a transaction.
    pub(super) fn note(&mut self, claims: usize, conflicts: usize) {
        self.claims += claims;
        self.conflicts += conflicts;
        if self.claims < WINDOW {
            return;
        }
        if self.conflicts * 20 > self.claims {
            self.level = (self.level + 1).min(LEVEL_MAX);
        } else if self.conflicts * 100 < self.claims {
            self.level = self.level.saturating_sub(1);
        }
        (self.claims, self.conflicts) = (0, 0);
    }

    /// Returns the number of times that the set of candidate machines is doubled.
    pub(super) fn level(self) -> u32 {
        self.level
    }
}
