//! Messages that wait to be written to a stream, and the requests to read logs. A plain data structure.
//!
//! Heartbeats are sent first, because a machine without heartbeats loses its tasks. Parts of logs are sent last, and
//! their number is bounded, because they are large, and a server may request very many of them.

use super::LogPart;
use super::reports::log_part;
use crate::proto::{self, AgentReport};
use std::collections::{BTreeSet, VecDeque};

/// Number of waiting heartbeats at which further ones are skipped, because the server is too slow.
const BEHIND: usize = 64;

/// Maximum number of requests that the agent has not answered, and of parts that are not sent, together. Further
/// requests are answered at once, as if there were no such log.
const READS_MAX: usize = 16;

/// Maximum number of replies to requests that are not sent. Further requests get no reply, for which a server does not
/// wait long.
const REPLIES_MAX: usize = 256;

/// Maximum number of parts of logs in one message.
const PARTS_MAX: usize = 4;

/// The messages to the server. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    heartbeats: VecDeque<AgentReport>,
    reports: VecDeque<AgentReport>,
    /// Numbers of the requests that the agent has not answered.
    reads: BTreeSet<u64>,
    parts: VecDeque<proto::LogPart>,
}

impl Outgoing {
    /// Returns the messages of a new stream, which begin with these. Requests of an earlier stream are forgotten,
    /// because nobody waits for their replies.
    pub(super) fn new(first: impl Iterator<Item = AgentReport>) -> Outgoing {
        Outgoing { reports: first.collect(), ..Outgoing::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heartbeats.is_empty() && self.reports.is_empty() && self.parts.is_empty()
    }

    /// Whether so many heartbeats wait that further ones are skipped.
    pub(super) fn is_behind(&self) -> bool {
        self.heartbeats.len() >= BEHIND
    }

    pub(super) fn add_heartbeats(&mut self, messages: impl IntoIterator<Item = AgentReport>) {
        self.heartbeats.extend(messages);
    }

    pub(super) fn add_reports(&mut self, messages: impl IntoIterator<Item = AgentReport>) {
        self.reports.extend(messages);
    }

    /// Records a request to read a log. Returns whether the agent is to read it. If not, the reply is already queued.
    pub(super) fn begin_read(&mut self, read: u64) -> bool {
        let has_room = self.reads.len() + self.parts.len() < READS_MAX;
        if has_room {
            self.reads.insert(read);
        } else if self.parts.len() < REPLIES_MAX {
            self.parts.push_back(log_part(read, None));
        }
        has_room
    }

    /// Queues the agent's reply to a request of this stream.
    pub(super) fn add_reply(&mut self, read: u64, part: Option<LogPart>) {
        if self.reads.remove(&read) {
            self.parts.push_back(log_part(read, part));
        }
    }

    /// Takes the message that is to be sent next.
    pub(super) fn take_next(&mut self) -> Option<AgentReport> {
        let next = self.heartbeats.pop_front().or_else(|| self.reports.pop_front());
        next.or_else(|| self.take_parts())
    }

    fn take_parts(&mut self) -> Option<AgentReport> {
        let count = self.parts.len().min(PARTS_MAX);
        let logs: Vec<proto::LogPart> = self.parts.drain(..count).collect();
        (!logs.is_empty()).then(|| AgentReport { logs, ..AgentReport::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> Option<LogPart> {
        Some(LogPart { bytes: vec![7], ..LogPart::default() })
    }

    fn alive(slot: u32) -> AgentReport {
        AgentReport { alive_slots: vec![slot], ..AgentReport::default() }
    }

    #[test]
    fn a_flood_of_reads_neither_takes_memory_nor_delays_heartbeats() {
        let attach = AgentReport { attach_slots: vec![1], ..AgentReport::default() };
        let mut outgoing = Outgoing::new([attach].into_iter());
        let begun = (0..10_000).filter(|read| outgoing.begin_read(*read)).count();
        assert_eq!(begun, READS_MAX);
        (0..10_000).for_each(|read| outgoing.add_reply(read, part()));
        assert_eq!(outgoing.parts.iter().filter(|part| part.found).count(), READS_MAX);
        assert!(outgoing.parts.len() <= REPLIES_MAX + READS_MAX);
        assert!(!outgoing.is_behind(), "reads are no reason to skip heartbeats");
        outgoing.add_heartbeats([alive(2)]);
        assert_eq!(outgoing.take_next(), Some(alive(2)));
        assert_eq!(outgoing.take_next().map(|report| report.attach_slots), Some(vec![1]));
        let messages: Vec<AgentReport> = std::iter::from_fn(|| outgoing.take_next()).collect();
        assert!(messages.iter().all(|message| message.logs.len() <= PARTS_MAX));
        assert!(outgoing.is_empty() && outgoing.begin_read(10_001), "there is room again");
    }

    #[test]
    fn a_reply_to_a_request_of_an_earlier_stream_is_not_sent() {
        let mut outgoing = Outgoing::default();
        assert!(outgoing.begin_read(7));
        outgoing = Outgoing::new(std::iter::empty());
        outgoing.add_reply(7, part());
        assert_eq!(outgoing.take_next(), None);
    }

    #[test]
    fn heartbeats_are_skipped_while_many_of_them_wait() {
        let mut outgoing = Outgoing::default();
        outgoing.add_heartbeats((0..BEHIND as u32).map(alive));
        assert!(outgoing.is_behind());
        assert_eq!(outgoing.take_next(), Some(alive(0)));
        assert!(!outgoing.is_behind());
    }
}
