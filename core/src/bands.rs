//! Cell-wide bounds of preemption: bands of precedence, and a rate limit of evictions.
//!
//! Without bands, evictions cascade: each evicted task may evict a slightly less important one, so that the failure of
//! one machine moves tasks all over the cell. Within a band no task may evict another, as in Borg's production band.
//! The rate limit bounds the evictions that remain possible.

use crate::ids::Precedence;
use serde::{Deserialize, Serialize};

/// A range of precedences, including both ends. No task with a precedence of the band may evict another such task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Band {
    /// Lowest precedence of the band.
    pub from: Precedence,
    /// Highest precedence of the band.
    pub to: Precedence,
}

impl Band {
    /// Whether the band includes a precedence.
    #[must_use]
    pub fn includes(self, precedence: Precedence) -> bool {
        self.from <= precedence && precedence <= self.to
    }
}

/// The band that includes a precedence, if any. The bands must not overlap.
#[must_use]
pub fn band_of(bands: &[Band], precedence: Precedence) -> Option<Band> {
    bands.iter().copied().find(|band| band.includes(precedence))
}

/// Rate limit of evictions: at most `count` in any time span of `per_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EvictionCap {
    /// Maximum number of evictions in the span.
    pub count: u32,
    /// Length of the span, in milliseconds of the time that [`Command::Expire`](crate::Command::Expire) sets. Without
    /// this command, no time passes in the cell, so the limit allows only the first `count` evictions.
    pub per_ms: u32,
}
