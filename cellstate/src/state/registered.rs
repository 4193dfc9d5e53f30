//! Registered schedulers.

use crate::commit::Scratch;
use crate::state::reply_cache::ReplyCache;
use omega_core::{Lease, Text};

/// A registered scheduler.
///
/// Each commit writes its scheduler's record, and different schedulers commit on different processors. So no two
/// records share a pair of cache lines (processors fetch lines in pairs), and each scheduler has its own buffers.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub struct Registered {
    pub name: Text,
    /// The process that owns the name, if any.
    pub lease: Option<Lease>,
    pub reply_cache: ReplyCache,
    /// Buffers of the scheduler's commits; `None` during a commit, and before the first one.
    pub scratch: Option<Box<Scratch>>,
}

impl Registered {
    /// A scheduler whose name no process owns.
    pub fn new(name: Text) -> Registered {
        Registered { name, lease: None, reply_cache: ReplyCache::default(), scratch: None }
    }
}
