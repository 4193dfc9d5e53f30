//! Cell-wide bounds of preemption: bands of precedence, and a rate limit of evictions.
//!
//! Without them a task that is evicted may evict one that is a little less important, and so on down: one
//! machine that fails then moves tasks all over the cell. In a band nobody evicts anybody, as in Borg, where
//! tasks of the production band do not preempt each other; and a cap bounds what is left.

use crate::ids::Precedence;
use serde::{Deserialize, Serialize};

/// A range of precedences, both ends included, within which no task makes room by evicting another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Band {
    /// The lowest.
    pub from: Precedence,
    /// The highest.
    pub to: Precedence,
}

impl Band {
    /// Whether a precedence is in it.
    #[must_use]
    pub fn includes(self, precedence: Precedence) -> bool {
        self.from <= precedence && precedence <= self.to
    }
}

/// The band of a precedence, of bands that are apart.
#[must_use]
pub fn band_of(bands: &[Band], precedence: Precedence) -> Option<Band> {
    bands.iter().copied().find(|band| band.includes(precedence))
}

/// Limit of evictions: at most `count` in any span of `per_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EvictionCap {
    /// The number.
    pub count: u32,
    /// Length of the span, in milliseconds of [`Command::Expire`](crate::Command::Expire). Without
    /// that command time stands still, and the allowance never renews.
    pub per_ms: u32,
}
