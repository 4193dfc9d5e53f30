//! Tasks that a server has accepted and that may not be in the cell's state yet.

use omega_core::Text;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of such tasks by tenant. It is locked during a look-up in the cell, so this lock is taken before the cell's
/// lock.
pub(crate) type UnderWay = Arc<Mutex<BTreeMap<Text, u64>>>;
