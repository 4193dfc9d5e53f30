//! Fair order of tenants by dominant share: see [`shares`](crate::queue::shares). Within a tenant, jobs of higher
//! precedence go first, then older jobs.

use crate::framework::points::{Order, Queued};
use std::cmp::Ordering;

/// The plugin `fair_share`; see the head of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairShare;

impl Order for FairShare {
    fn name(&self) -> &'static str {
        "fair_share"
    }

    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
        b.job.precedence.cmp(&a.job.precedence)
    }

    fn between_tenants(&self) -> bool {
        true
    }
}
