//! The bound of a log while no snapshot can be saved.
//!
//! ```text
//!   compacted │ kept beside a snapshot │ applied since │ not applied yet │
//!             └────────────── at most Settings::log_bytes_max ───────────┘
//! ```
//!
//! A log is compacted only up to a snapshot, and all entries that are not compacted are also in memory. If no snapshot
//! can be saved, because the disk is full or keeps failing, the log would grow until the process dies. To prevent that,
//! a leader rejects commands before they are proposed: nothing is lost, and clients may send them again. A follower
//! drops entries, as if the network had lost them; its leader then sends them again, or sends a snapshot. Both try to
//! save a snapshot periodically, and accept commands and entries again once one is saved.
//!
//! A snapshot can include only applied entries. So a log without applied entries is never considered too long, and
//! entries that replicas need for agreement are always accepted. `node::Settings::uncommitted_bytes_max` bounds their
//! bytes.

use super::Replica;
use crate::node::{Message, MessageKind};

/// Ticks until a failed snapshot is tried again. With ticks of 50 ms, this is three seconds. Saving a large cell takes
/// one second.
const RETRY_TICKS: u64 = 60;

impl Replica {
    /// Whether the log has its maximum length, and a snapshot could shorten it.
    pub(super) fn log_is_long(&self) -> bool {
        self.node.log_in_memory().1 >= self.settings.log_bytes_max && self.node.can_shorten()
    }

    /// Whether a leader's message would extend a log of maximum length. A message whose entries replace the log's end,
    /// or do not follow it, is always accepted.
    pub(super) fn has_no_room_for(&self, message: &Message) -> bool {
        let last = self.node.last();
        message.kind == MessageKind::Append
            && !message.entries.is_empty()
            && message.at.index == last
            && self.node.term_of(last) == Some(message.at.term)
            && self.log_is_long()
    }

    /// Whether a snapshot should be taken now.
    pub(super) fn snapshot_is_due(&self) -> bool {
        let transfers = &self.transfers;
        match transfers.failed_at {
            Some(at) => self.ticks >= at + RETRY_TICKS,
            None => {
                self.node.snapshot_wanted()
                    || transfers.since_last >= self.settings.snapshot_bytes
                    || transfers.since_last > 0 && self.log_is_long()
            }
        }
    }
}
