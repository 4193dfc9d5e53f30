//! Time for which a log may become while no snapshot is saved.
//!
//! ```text
//!   forgotten │ kept beside a snapshot │ applied since │ not applied yet │
//!             └────────────── at most Settings::log_bytes_max ───────────┘
//! ```
//!
//! A log is let go only up to a snapshot, and its end is in memory, too. So where no snapshot can be
//! saved, because the disk is full or fails again and again, it would grow until the process dies. Instead
//! a leader turns commands away, before they are proposed: nothing is lost, and whoever asked may ask
//! again. A follower lets entries pass as if the network had lost them; its leader sends them again, or
//! a snapshot. Either goes on by itself once a snapshot is saved, which is tried again and again.
//!
//! Only what is applied can be in a snapshot. So a log in which nothing is applied is never too long:
//! entries that replicas need in order to agree are always let in. How many of these there can be,
//! `node::Settings::uncommitted_bytes_max` bounds.

use super::Replica;
use crate::node::{Message, MessageKind};

/// Ticks after which a snapshot that could not be saved is tried again: three seconds with ticks of
/// 50 ms, where saving a large cell takes one.
const RETRY_TICKS: u64 = 60;

impl Replica {
    /// Whether the log has the maximum length until a snapshot is saved.
    pub(super) fn log_is_long(&self) -> bool {
        self.node.log_in_memory().1 >= self.settings.log_bytes_max && self.node.can_shorten()
    }

    /// Whether a leader's message would lengthen a log of maximum length. One that replaces its
    /// end, or does not fit to it, is always accepted.
    pub(super) fn has_no_room_for(&self, message: &Message) -> bool {
        let last = self.node.last();
        message.kind == MessageKind::Append
            && !message.entries.is_empty()
            && message.at.index == last
            && self.node.term_of(last) == Some(message.at.term)
            && self.log_is_long()
    }

    /// Whether a snapshot is due.
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
