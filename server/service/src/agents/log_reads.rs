//! Log requests in progress: the agents that were asked, and the waiting callers. A plain data structure, which reads
//! no clock.
//!
//! An agent reads a requested log even if the caller has stopped waiting. So a request counts for its agents until they
//! have replied. Otherwise, callers that wait only for a moment could give an agent any amount of work.

use super::outbox::StreamId;
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::MachineId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum number of concurrent requests. Further requests are rejected.
const READS_MAX: usize = 1000;

/// Maximum number of requests to which a stream has not replied. Further requests to the stream are rejected.
const UNANSWERED_MAX: usize = 8;

/// Time after which an agent that has not replied is no longer expected to reply. Callers do not wait longer.
const REPLY_MS: u64 = 3000;

/// Delay before a rejected caller tries again: about the time of a few replies.
const PAUSE: Duration = Duration::from_millis(100);

/// The agents that may have a task's log. The log of another agent might be forged.
#[derive(Debug)]
pub(crate) struct LogSource {
    /// Machines on which the task has been.
    pub(crate) machines: Vec<MachineId>,
    /// Also ask the agents with the rights of an operator: a machine on which the task has been may be registered anew,
    /// with another id.
    pub(crate) operators: bool,
}

/// The sender of a reply, or of the reason for which a request is rejected.
pub(super) type ReplySender = oneshot::Sender<Result<proto::LogPart, ApiError>>;

/// A request, with the agents that have not yet replied.
#[derive(Debug)]
struct Read {
    streams: BTreeSet<StreamId>,
    /// The waiting caller; `None` if it got a reply.
    reply: Option<ReplySender>,
    /// Time after which no reply is expected.
    until_ms: u64,
}

/// The requests in progress. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct LogReads {
    reads: BTreeMap<u64, Read>,
    next: u64,
    /// Number of requests to which each stream has not replied.
    unanswered: BTreeMap<StreamId, usize>,
    now_ms: u64,
}

impl LogReads {
    /// Sets the time, and forgets the requests to which no reply is expected any more.
    pub(super) fn pass_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        // The requests are in the order of their times.
        while let Some(first) = self.reads.first_entry()
            && first.get().until_ms <= now_ms
        {
            let streams = first.remove().streams;
            streams.into_iter().for_each(|stream| self.release(stream));
        }
    }

    /// Adds a request to some agents, and returns the request's number. If there is no agent, or if there are too many
    /// requests, the caller gets an error.
    pub(super) fn begin(&mut self, streams: BTreeSet<StreamId>, reply: ReplySender) -> Option<u64> {
        if let Err(refused) = self.check(&streams) {
            // The caller may have stopped waiting.
            let _ = reply.send(Err(refused));
            return None;
        }
        for stream in &streams {
            *self.unanswered.entry(*stream).or_default() += 1;
        }
        self.next += 1;
        let until_ms = self.now_ms.saturating_add(REPLY_MS);
        self.reads.insert(self.next, Read { streams, reply: Some(reply), until_ms });
        Some(self.next)
    }

    /// Checks whether a request may be sent to these agents now.
    fn check(&self, streams: &BTreeSet<StreamId>) -> Result<(), ApiError> {
        if streams.is_empty() {
            let message = "the agent that has the log of the task is not connected";
            return Err(ApiError::new(ErrorCode::UnknownTask, message));
        }
        if self.reads.len() >= READS_MAX || streams.iter().any(|stream| self.is_busy(stream)) {
            let message = "nothing was done: the agent of the task already reads the maximum number of \
                 logs: try again";
            return Err(ApiError::new(ErrorCode::Limit, message).retry_after(PAUSE));
        }
        Ok(())
    }

    /// Whether an agent has the maximum number of unanswered requests.
    pub(super) fn is_busy(&self, stream: &StreamId) -> bool {
        self.unanswered.get(stream).is_some_and(|count| *count >= UNANSWERED_MAX)
    }

    /// Handles an agent's reply. The caller gets the first reply that contains the log, or the last reply if no agent
    /// has the log. Replies that were not requested are ignored.
    pub(super) fn handle_reply(&mut self, stream: StreamId, part: proto::LogPart) {
        let number = part.read;
        let Some(read) = self.reads.get_mut(&number) else { return };
        if !read.streams.remove(&stream) {
            return;
        }
        let is_last = read.streams.is_empty();
        if (part.found || is_last)
            && let Some(reply) = read.reply.take()
        {
            // The caller may have stopped waiting.
            let _ = reply.send(Ok(part));
        }
        if is_last {
            self.reads.remove(&number);
        }
        self.release(stream);
    }

    /// Counts a reply of a stream, or that none is expected any more.
    fn release(&mut self, stream: StreamId) {
        if let Some(count) = self.unanswered.get_mut(&stream) {
            *count -= 1;
            if *count == 0 {
                self.unanswered.remove(&stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(read: u64, found: bool) -> proto::LogPart {
        proto::LogPart { read, found, ..proto::LogPart::default() }
    }

    #[test]
    fn the_first_agent_that_has_the_log_answers() {
        let mut reads = LogReads::default();
        let [one, two, other] = [1, 2, 3].map(StreamId);
        let (to, mut reply) = oneshot::channel();
        let number = reads.begin([one, two].into(), to).unwrap();
        reads.handle_reply(other, part(number, true));
        assert!(reply.try_recv().is_err(), "it was not asked");
        reads.handle_reply(one, part(number, false));
        reads.handle_reply(one, part(number, true));
        assert!(reply.try_recv().is_err(), "it has answered already");
        reads.handle_reply(two, part(number, true));
        assert!(reply.try_recv().unwrap().unwrap().found);
        reads.handle_reply(two, part(number, true));
        assert!(reads.reads.is_empty() && reads.unanswered.is_empty());
    }

    #[test]
    fn a_log_that_nobody_has_is_told_so() {
        let mut reads = LogReads::default();
        let (to, mut reply) = oneshot::channel();
        let number = reads.begin([StreamId(1)].into(), to).unwrap();
        reads.handle_reply(StreamId(1), part(number, false));
        assert!(!reply.try_recv().unwrap().unwrap().found);
        let (to, mut reply) = oneshot::channel();
        assert_eq!(reads.begin(BTreeSet::new(), to), None);
        let refused = reply.try_recv().unwrap().unwrap_err();
        assert_eq!(refused.code, ErrorCode::UnknownTask);
    }

    /// Begins a request of a caller that stops waiting at once.
    fn begin(reads: &mut LogReads, streams: &[u64]) -> Result<u64, ErrorCode> {
        let (to, mut reply) = oneshot::channel();
        let streams = streams.iter().copied().map(StreamId).collect();
        let number = reads.begin(streams, to);
        number.ok_or_else(|| reply.try_recv().unwrap().unwrap_err().code)
    }

    #[test]
    fn callers_that_do_not_wait_give_an_agent_little_work() {
        let mut reads = LogReads::default();
        reads.pass_time(1000);
        let begun: Vec<_> = (0..1000).map(|_| begin(&mut reads, &[1])).collect();
        let numbers: Vec<u64> = begun.iter().flatten().copied().collect();
        assert_eq!(numbers.len(), UNANSWERED_MAX);
        assert!(begun[UNANSWERED_MAX..].iter().all(|one| *one == Err(ErrorCode::Limit)));
        let number = begin(&mut reads, &[2]).expect("another agent has no work");
        assert_eq!(begin(&mut reads, &[1, 2]), Err(ErrorCode::Limit));
        reads.handle_reply(StreamId(2), part(number, true));
        reads.handle_reply(StreamId(1), part(numbers[3], true));
        reads.handle_reply(StreamId(1), part(numbers[3], true));
        assert!(begin(&mut reads, &[1, 2]).is_ok(), "it has answered one request");
        assert_eq!(begin(&mut reads, &[1]), Err(ErrorCode::Limit));
        // The first agent that has the log does not release the others.
        let number = begin(&mut reads, &[2, 3]).unwrap();
        reads.handle_reply(StreamId(3), part(number, true));
        assert_eq!(reads.unanswered, [(StreamId(1), UNANSWERED_MAX), (StreamId(2), 2)].into());
    }

    #[test]
    fn an_agent_that_does_not_answer_is_asked_again_later() {
        let mut reads = LogReads::default();
        reads.pass_time(1000);
        let numbers: Vec<u64> =
            (0..UNANSWERED_MAX).map(|_| begin(&mut reads, &[1]).unwrap()).collect();
        reads.pass_time(1000 + REPLY_MS - 1);
        assert_eq!(begin(&mut reads, &[1]), Err(ErrorCode::Limit));
        reads.pass_time(1000 + REPLY_MS);
        assert!(reads.reads.is_empty() && reads.unanswered.is_empty());
        reads.handle_reply(StreamId(1), part(numbers[0], true));
        assert!(begin(&mut reads, &[1]).is_ok());
    }

    #[test]
    fn the_number_of_requests_is_bounded() {
        let mut reads = LogReads::default();
        let begun = (0..2 * READS_MAX as u64).map(|stream| begin(&mut reads, &[stream]));
        assert_eq!(begun.filter(Result::is_ok).count(), READS_MAX);
    }
}
