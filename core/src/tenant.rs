//! Tenants: owners of jobs, and their tree.
//!
//! Tenants form a tree, like the departments of a company. A tenant's *limit* (its quota) bounds the total that its own
//! tasks and those of all tenants below it claim. Up to its *guarantee*, a tenant can take resources back from tenants
//! that have borrowed them. Between the guarantee and the limit, it borrows resources that no other tenant uses.
//!
//! ```text
//!              company  limit 1,000 cores
//!             /       \
//!      search          ads                 guaranteed 600 and 400: each may use up to 1,000 by
//!     /      \                             borrowing idle cores, which the other can take back
//!  crawl    index
//! ```
//!
//! Reclaiming follows YARN's capacity scheduler: two tenants are compared by the branches that contain them, just below
//! their nearest common ancestor. Each branch counts the use of all its tenants.

use crate::amounts::Amounts;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// Configuration of a tenant. A tenant that is not configured has no parent, no guarantee, weight 1, and no maximum of
/// tasks per machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TenantConfig {
    /// The tenant above this one, if any.
    pub parent: Option<Text>,
    /// Guarantee of the tenant, together with all tenants below it. The guarantee of a kind that is not named is 0.
    ///
    /// A claim within the guarantee may evict tasks of a tenant that uses more than its own guarantee, whatever the
    /// precedence of these tasks.
    pub guaranteed: Amounts,
    /// Weight of the tenant's fair share among the tenants of one parent, from 1 to
    /// [`TENANT_WEIGHT_MAX`](crate::limits::TENANT_WEIGHT_MAX).
    ///
    /// Of two tenants with pending tasks, the tenant with the smaller quotient of dominant share and weight comes
    /// first.
    pub weight: u32,
    /// Maximum number of the tenant's own tasks on one machine, at least 1; `None` means no limit. If the number is
    /// lowered, placed tasks stay.
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
