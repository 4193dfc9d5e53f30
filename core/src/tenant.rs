//! A tenant: the owner of jobs, and its position in the tree of tenants.
//!
//! Tenants form a tree, as the departments of a company do. A tenant's *limit* (its quota) bounds
//! what its own tasks and those of all tenants below it claim together. Up to its *guarantee* it
//! can take resources back from tenants that have borrowed them. Between the guarantee and the
//! limit it borrows resources that no other tenant uses.
//!
//! ```text
//!              company  limit 1,000 cores
//!             /       \
//!      search          ads                 guaranteed 600 and 400: each may use up to 1,000 while
//!     /      \                             the other leaves it idle, and the other can have it back
//!  crawl    index
//! ```
//!
//! Reclaiming follows YARN's capacity scheduler: two tenants are compared by the use of their whole
//! branches below the nearest common ancestor.

use crate::amounts::Amounts;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// Configuration of a tenant: parent, guarantee and weight. A tenant without one has no parent, no
/// guarantee, and weight 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TenantConfig {
    /// The tenant above it, if there is one.
    pub parent: Option<Text>,
    /// Guarantee of the tenant with all below it: a claim that stays within this may evict tasks of
    /// a tenant that uses more than its own guarantee, whatever their precedence. A kind that is not named
    /// has 0.
    pub guaranteed: Amounts,
    /// Weight of its fair share among tenants of the same parent: of two with pending tasks, the
    /// one with the smaller dominant share for its weight is first. From 1 to
    /// [`TENANT_WEIGHT_MAX`](crate::limits::TENANT_WEIGHT_MAX).
    pub weight: u32,
    /// Maximum number of its own tasks on one machine, at least 1; `None`: no limit. Placed tasks
    /// stay when it is lowered.
    pub tasks_per_machine_max: Option<u32>,
}

impl Default for TenantConfig {
    fn default() -> TenantConfig {
        TenantConfig {
            parent: None,
            guaranteed: Amounts::zero(),
            weight: 1,
            tasks_per_machine_max: None,
        }
    }
}
