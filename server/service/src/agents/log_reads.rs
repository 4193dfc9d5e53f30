//! Log requests in progress: the agents that were asked, and the waiting callers. A plain data structure.

use super::orders::StreamId;
use omega_client::proto;
use omega_core::MachineId;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::oneshot;

/// Maximum number of concurrent requests. Further requests are rejected.
const READS_MAX: usize = 1000;

/// The agents that may have a task's log. The log of another agent might be forged.
#[derive(Debug)]
pub(crate) struct LogSource {
    /// Machines on which the task has been.
    pub(crate) machines: Vec<MachineId>,
    /// Also ask the agents with the rights of an operator: a machine on which the task has been may be registered anew,
    /// with another id.
    pub(crate) operators: bool,
}

/// A request, with the agents that have not yet replied.
#[derive(Debug)]
struct Read {
    asked: BTreeSet<StreamId>,
    answer: oneshot::Sender<proto::LogPart>,
}

/// The requests in progress. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct LogReads {
    reads: BTreeMap<u64, Read>,
    next: u64,
}

impl LogReads {
    /// Adds a request to some agents, and returns the request's number. Returns `None` if there is no agent, or if
    /// there are too many requests.
    pub(super) fn begin(
        &mut self,
        asked: BTreeSet<StreamId>,
        answer: oneshot::Sender<proto::LogPart>,
    ) -> Option<u64> {
        self.reads.retain(|_, read| !read.answer.is_closed());
        if asked.is_empty() || self.reads.len() >= READS_MAX {
            return None;
        }
        self.next += 1;
        self.reads.insert(self.next, Read { asked, answer });
        Some(self.next)
    }

    /// Handles an agent's reply. The caller gets the first reply that contains the log, or the last reply if no agent
    /// has the log. Replies that were not requested are ignored.
    pub(super) fn answered(&mut self, stream: StreamId, part: proto::LogPart) {
        let number = part.read;
        let Some(read) = self.reads.get_mut(&number) else { return };
        if !read.asked.remove(&stream) || !(part.found || read.asked.is_empty()) {
            return;
        }
        if let Some(read) = self.reads.remove(&number) {
            // The caller may have stopped waiting.
            let _ = read.answer.send(part);
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
        let (to, mut answer) = oneshot::channel();
        let number = reads.begin([one, two].into(), to).unwrap();
        reads.answered(other, part(number, true));
        assert!(answer.try_recv().is_err(), "it was not asked");
        reads.answered(one, part(number, false));
        reads.answered(one, part(number, true));
        assert!(answer.try_recv().is_err(), "it has answered already");
        reads.answered(two, part(number, true));
        assert!(answer.try_recv().unwrap().found);
        reads.answered(two, part(number, true));
    }

    #[test]
    fn a_log_that_nobody_has_is_told_so() {
        let mut reads = LogReads::default();
        let (to, mut answer) = oneshot::channel();
        let number = reads.begin([StreamId(1)].into(), to).unwrap();
        reads.answered(StreamId(1), part(number, false));
        assert!(!answer.try_recv().unwrap().found);
        let (to, _answer) = oneshot::channel();
        assert_eq!(reads.begin(BTreeSet::new(), to), None);
    }

    #[test]
    fn reads_that_nobody_waits_for_are_forgotten() {
        let mut reads = LogReads::default();
        for _ in 0..3 * READS_MAX {
            let (to, _) = oneshot::channel();
            assert!(reads.begin([StreamId(1)].into(), to).is_some());
        }
    }
}
