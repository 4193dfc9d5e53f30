//! Timeouts of large gangs in workloads.

use omega_core::limits::{GANG_TIMEOUT_MS_MAX, TRANSACTION_ITEMS_MAX};

/// Timeout of a gang with this minimum. A gang that is larger than a transaction is placed by several transactions,
/// which needs a timeout.
pub(crate) fn timeout_ms(gang_min: Option<u32>) -> Option<u32> {
    let is_large = gang_min.is_some_and(|tasks| tasks as usize > TRANSACTION_ITEMS_MAX);
    is_large.then_some(GANG_TIMEOUT_MS_MAX)
}
