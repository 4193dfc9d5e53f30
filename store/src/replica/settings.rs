//! Settings of a replica: sizes and times. No setting changes the results of commands.

use crate::node;
use std::time::Duration;

/// Treatment of a log end that was torn by a loss of power, or damaged later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornTail {
    /// Assume that the missing entries were acknowledged: vote only for candidates that have them, and do not start as
    /// the only voter.
    #[default]
    Refuse,
    /// Continue without the missing entries, because an operator has decided that they were not acknowledged, or that
    /// they may be lost.
    Accept,
}

/// Settings of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Settings of the Raft node.
    pub node: node::Settings,
    /// Number of this start of the replica. No earlier start may have had it.
    pub incarnation: u64,
    /// Maximum number of entries that a leader has in flight. Requests that arrive meanwhile go into the next entry.
    pub entries_in_flight: usize,
    /// Maximum number of requests that wait at a leader. Further requests are rejected.
    pub requests_waiting: usize,
    /// Bytes of applied entries after which a snapshot is taken.
    pub snapshot_bytes: u64,
    /// Bytes of entries that are kept in memory after a snapshot, for replicas that are slightly behind.
    pub log_keep_bytes: u64,
    /// Bytes of entries in memory above which no entries are accepted until a snapshot is saved. It must be far more
    /// than `snapshot_bytes` and `log_keep_bytes` together, because commits continue while a snapshot is written.
    pub log_bytes_max: u64,
    /// Ticks after which a waiting caller gets an unknown outcome.
    pub reply_ticks: u64,
    /// Total duration of an entry's stages, from the oldest request to the application, at which a leader logs a
    /// warning.
    pub slow: Duration,
    /// Treatment of a torn end of the log.
    pub torn_tail: TornTail,
    /// Bytes of events that the cell keeps for users; 0 keeps none.
    pub history_bytes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node: node::Settings::default(),
            incarnation: 0,
            entries_in_flight: 4,
            requests_waiting: 16_384,
            snapshot_bytes: 64 << 20,
            log_keep_bytes: 16 << 20,
            // Enough for some ten seconds of commits at full speed, while saving a snapshot takes one second.
            log_bytes_max: 512 << 20,
            reply_ticks: 60,
            // This is the shortest election timeout. One slow disk does not cause such a delay, because the other
            // replicas compensate for it.
            slow: Duration::from_millis(500),
            torn_tail: TornTail::Refuse,
            history_bytes: 0,
        }
    }
}
