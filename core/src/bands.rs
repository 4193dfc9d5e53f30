//! Cell-wide bounds of preemption: bands of precedence, and a rate limit of evictions.
//!
//! Without bands, evictions cascade: each evicted task may evict a slightly less important one, so
//! one failed machine moves tasks all over the cell. Within a band no task evicts another, as in
//! Borg's production band, and the rate limit bounds the rest.

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
    /// Length of the window, in milliseconds of the time of
    /// [`Command::Expire`](crate::Command::Expire). Without that command, the allowance never
    /// renews.
    pub per_ms: u32,
}
