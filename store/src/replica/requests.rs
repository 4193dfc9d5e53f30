//! Pending requests: not yet proposed, in flight, or forwarded to the leader.

use super::request::{Reply, Request, RequestId, RetryReason};
use crate::codec::{self, EncodeError, Head};
use crate::log::{Position, ReplicaId, Term};
use crate::membership::MembershipChange;
use omega_cellstate::Cell;
use omega_core::limits::BATCH_BYTES;
use omega_core::{Command, Outcome, Rejection};
use std::collections::{BTreeMap, VecDeque};

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Here(RequestId),
    Peer(ReplicaId, RequestId),
}

impl Sender {
    fn here(self) -> Option<RequestId> {
        match self {
            Sender::Here(id) => Some(id),
            Sender::Peer(..) => None,
        }
    }
}

/// Number of items of transactions after which no further transaction is checked while the state stays locked: some
/// milliseconds of work. Rejected transactions add no bytes to an entry, so bytes do not limit this work.
const ITEMS_PER_LOCK: usize = 16_384;

/// Number of the last starts of a replica that are remembered in a term. A message of an earlier start would have been
/// under way during all these starts.
const STARTS_MAX: usize = 32;

/// The pending requests. See the module documentation.
#[derive(Debug)]
pub(super) struct Requests {
    incarnation: u64,
    next: u64,
    waiting: VecDeque<(Sender, Request, u64)>,
    /// Time in milliseconds that the next commands are to set first. It does not count as a waiting request, so a
    /// leader that cannot propose has at most one.
    time_ms: Option<u64>,
    in_flight: VecDeque<Proposal>,
    forwarded: BTreeMap<RequestId, (ReplicaId, u64)>,
    /// The last starts of each replica in this term.
    seen: BTreeMap<ReplicaId, VecDeque<Start>>,
    seen_in: Term,
}

/// A start of a replica.
#[derive(Debug)]
struct Start {
    incarnation: u64,
    /// The highest request number so far.
    highest: u64,
}

/// An entry that this replica has proposed.
#[derive(Debug)]
struct Proposal {
    position: Position,
    commands: Vec<(Sender, Command)>,
    change: Option<Sender>,
    began: u64,
}

/// Commands that share an entry.
#[derive(Debug)]
pub(super) struct Gathered {
    /// Encoding of the entry.
    pub(super) data: Vec<u8>,
    pub(super) commands: Vec<(Sender, Command)>,
}

/// Requests that an applied entry resolves.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// Senders of the entry's requests, with their commands.
    pub(super) committed: Vec<(Sender, Command)>,
    pub(super) change: Option<Sender>,
    /// Requests whose entries were replaced by other entries.
    pub(super) overwritten: Vec<Sender>,
}

impl Requests {
    pub(super) fn new(incarnation: u64) -> Requests {
        Requests {
            incarnation,
            next: 1,
            waiting: VecDeque::new(),
            time_ms: None,
            in_flight: VecDeque::new(),
            forwarded: BTreeMap::new(),
            seen: BTreeMap::new(),
            seen_in: Term(0),
        }
    }

    pub(super) fn next_id(&mut self) -> RequestId {
        let number = self.next;
        self.next += 1;
        self.id(number)
    }

    fn id(&self, number: u64) -> RequestId {
        RequestId { incarnation: self.incarnation, number }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether a request is accepted in a term. The requests of each sender are accepted in order, and each once.
    pub(super) fn admit(&mut self, replica: ReplicaId, id: RequestId, term: Term) -> bool {
        if omega_cellstate::injected!(CopiesAccepted) {
            return true;
        }
        if self.seen_in != term {
            self.seen_in = term;
            self.seen.clear();
        }
        let starts = self.seen.entry(replica).or_default();
        match starts.iter_mut().find(|start| start.incarnation == id.incarnation) {
            Some(start) if id.number <= start.highest => return false,
            Some(start) => start.highest = id.number,
            None => {
                if starts.len() >= STARTS_MAX {
                    starts.pop_front();
                }
                starts.push_back(Start { incarnation: id.incarnation, highest: id.number });
            }
        }
        true
    }

    pub(super) fn push(&mut self, sender: Sender, request: Request, now: u64) {
        self.waiting.push_back((sender, request, now));
    }

    /// Sets the time that the next gathered commands set first, in place of an earlier one.
    pub(super) fn push_time(&mut self, now_ms: u64) {
        self.time_ms = Some(now_ms);
    }

    pub(super) fn forward(&mut self, id: RequestId, leader: ReplicaId, now: u64) {
        self.forwarded.insert(id, (leader, now));
    }

    /// The replica to which a request was forwarded.
    pub(super) fn forwarded_to(&self, id: RequestId) -> Option<ReplicaId> {
        self.forwarded.get(&id).map(|(leader, _)| *leader)
    }

    pub(super) fn forget(&mut self, id: RequestId) {
        self.forwarded.remove(&id);
    }

    /// Takes the next request, if it is a membership change.
    pub(super) fn pop_change(&mut self) -> Option<(Sender, MembershipChange)> {
        let next =
            self.waiting.pop_front_if(|(_, request, _)| matches!(request, Request::Change(_)));
        match next {
            Some((sender, Request::Change(change), _)) => Some((sender, change)),
            _ => None,
        }
    }

    /// Takes the next request, if it is a leadership transfer.
    pub(super) fn pop_transfer(&mut self) -> Option<(Sender, ReplicaId)> {
        let next =
            self.waiting.pop_front_if(|(_, request, _)| matches!(request, Request::Transfer(_)));
        match next {
            Some((sender, Request::Transfer(to), _)) => Some((sender, to)),
            _ => None,
        }
    }

    /// Encodes waiting commands into one entry, as many as fit, after the time that they are to set first, if any.
    /// Commands that need no commit are answered instead.
    pub(super) fn gather(
        &mut self,
        cell: &mut Cell,
        head: Head,
        replies: &mut Vec<(Sender, Reply)>,
    ) -> Option<Gathered> {
        let mut data = Vec::new();
        codec::begin_entry(head, &mut data);
        let mut commands = Vec::new();
        if let Some(now_ms) = self.time_ms.take() {
            let command = Command::Expire { now_ms };
            codec::push_command(&command, &mut data).expect("it has few bytes");
            // No caller waits for the reply.
            commands.push((Sender::Here(self.next_id()), command));
        }
        let mut checked = 0;
        while data.len() < BATCH_BYTES && checked < ITEMS_PER_LOCK {
            let is_command =
                |request: &Request| matches!(request, Request::Command(_) | Request::Retry(_));
            let next = self.waiting.pop_front_if(|(_, request, _)| is_command(request));
            let Some((sender, request, _)) = next else { break };
            let (command, reply) = match request {
                Request::Command(command) => {
                    if let Command::Commit(txn) = &command {
                        checked += txn.items();
                    }
                    let reply = pre_check(cell, &command);
                    (command, reply)
                }
                Request::Retry(command) => (command, None),
                Request::Read | Request::Change(_) | Request::Transfer(_) => break,
            };
            if let Some(reply) = reply {
                replies.push((sender, reply));
                continue;
            }
            match codec::push_command(&command, &mut data) {
                Ok(()) => commands.push((sender, command)),
                Err(error) => {
                    replies.push((sender, Reply::Outcome(Err(too_large(&error)))));
                }
            }
        }
        (!commands.is_empty()).then_some(Gathered { data, commands })
    }

    /// Records a proposed entry. Returns the requests whose entries it replaces.
    pub(super) fn proposed(
        &mut self,
        position: Position,
        commands: Vec<(Sender, Command)>,
        change: Option<Sender>,
        now: u64,
    ) -> Vec<Sender> {
        let mut replaced = Vec::new();
        let later = |one: &mut Proposal| one.position.index >= position.index;
        while let Some(proposal) = self.in_flight.pop_back_if(later) {
            replaced.extend(proposal.senders());
        }
        self.in_flight.push_back(Proposal { position, commands, change, began: now });
        replaced
    }

    /// Finds the requests of an applied entry.
    pub(super) fn resolve(&mut self, position: Position) -> Resolved {
        let mut resolved = Resolved::default();
        while let Some(front) = self.in_flight.front() {
            if front.position.index > position.index {
                break;
            }
            let same = front.position == position
                || omega_cellstate::injected!(ResolvedByIndex)
                    && front.position.index == position.index;
            let front = self.in_flight.pop_front().expect("there is a front");
            if same {
                (resolved.committed, resolved.change) = (front.commands, front.change)
            } else {
                resolved.overwritten.extend(front.senders())
            }
        }
        resolved
    }

    /// Removes requests that have waited since the tick `late` or longer. Returns the replies to requests of this
    /// process. Other replicas time out their own requests.
    pub(super) fn give_up(&mut self, late: u64) -> Vec<(RequestId, Reply)> {
        let mut replies = Vec::new();
        while let Some((sender, _, _)) = self.waiting.pop_front_if(|(_, _, at)| *at <= late) {
            replies.extend(sender.here().map(|id| (id, Reply::Retry(RetryReason::Busy))));
        }
        // The entries of these requests may still be committed. They are then applied like entries of other leaders.
        while let Some(proposal) = self.in_flight.pop_front_if(|one| one.began <= late) {
            let here = proposal.senders().filter_map(Sender::here);
            let unknown = if omega_cellstate::injected!(LateDenied) {
                Reply::Retry(RetryReason::Busy)
            } else {
                Reply::Unknown
            };
            replies.extend(here.map(|id| (id, unknown.clone())));
        }
        let forwarded = self.forwarded.extract_if(.., |_, (_, at)| *at <= late);
        replies.extend(forwarded.map(|(id, _)| (id, Reply::Unknown)));
        replies
    }

    /// Drops requests that were not proposed. Returns their senders.
    pub(super) fn drop_waiting(&mut self) -> Vec<Sender> {
        self.time_ms = None;
        self.waiting.drain(..).map(|(sender, _, _)| sender).collect()
    }

    /// Drops requests that were forwarded and are waiting for a reply. Returns their ids.
    pub(super) fn drop_forwarded(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.forwarded).into_keys().collect()
    }
}

impl Proposal {
    fn senders(&self) -> impl Iterator<Item = Sender> + '_ {
        let commands = self.commands.iter().map(|(sender, _)| *sender);
        commands.chain(self.change)
    }
}

/// Returns the reply to a command that needs no commit; `None` if the command must be committed.
fn pre_check(cell: &mut Cell, command: &Command) -> Option<Reply> {
    let Command::Commit(txn) = command else { return None };
    let reply = cell.pre_check(txn)?;
    Some(Reply::Outcome(reply.map(Outcome::Commit).map_err(Rejection::from)))
}

fn too_large(error: &EncodeError) -> Rejection {
    let EncodeError::TooLarge { bytes, max } = *error;
    let (given, max) = (bytes as u64, max as u64);
    Rejection::TooMany { what: "bytes of a command".into(), given, max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogIndex;
    use omega_core::{JobId, Kinds, SchedulerId, TaskId, Transaction, TransactionId, Version};

    #[test]
    fn requests_are_given_up_while_the_time_passes() {
        let mut requests = Requests::new(0);
        let kill = |number: u64| Request::Command(Command::KillJob { job: JobId(number) });
        let mut ids = Vec::new();
        for tick in 1..=3 {
            let id = requests.next_id();
            requests.push(Sender::Here(id), kill(tick), tick);
            requests.push_time(tick * 100);
            ids.push(id);
        }
        assert_eq!(requests.waiting(), 3);
        let busy = |id: RequestId| (id, Reply::Retry(RetryReason::Busy));
        assert_eq!(requests.give_up(2), [busy(ids[0]), busy(ids[1])]);
        let head = Head { applied: LogIndex(0), fingerprint: 0 };
        let mut cell = Cell::new(Kinds::standard());
        let gathered = requests.gather(&mut cell, head, &mut Vec::new()).expect("a command");
        let commands: Vec<Command> = gathered.commands.into_iter().map(|(_, one)| one).collect();
        let expected = [Command::Expire { now_ms: 300 }, Command::KillJob { job: JobId(3) }];
        assert_eq!(commands, expected, "the time is set once, and first");
        assert_eq!(codec::decode_entry(&gathered.data).expect("an entry"), commands);
        requests.push_time(400);
        assert_eq!((requests.waiting(), requests.drop_waiting()), (0, Vec::new()));
        assert!(requests.gather(&mut cell, head, &mut Vec::new()).is_none(), "nothing waits");
    }

    #[test]
    fn rejected_transactions_are_checked_in_several_turns() {
        let mut requests = Requests::new(0);
        for number in 0..10 {
            let id = requests.next_id();
            let transaction = TransactionId { scheduler: SchedulerId(9), number };
            let mut transaction = Transaction::new(transaction, Version(0), Vec::new());
            transaction.releases = (0..5000).map(|index| TaskId { job: JobId(1), index }).collect();
            requests.push(Sender::Here(id), Request::Command(Command::Commit(transaction)), 1);
        }
        let head = Head { applied: LogIndex(0), fingerprint: 0 };
        let mut cell = Cell::new(Kinds::standard());
        let mut turns = Vec::new();
        while requests.waiting() > 0 {
            let mut replies = Vec::new();
            assert!(requests.gather(&mut cell, head, &mut replies).is_none(), "all are rejected");
            turns.push(replies.len());
        }
        assert_eq!(turns, [4, 4, 2]);
    }

    #[test]
    fn each_request_is_admitted_once_after_any_number_of_starts() {
        let mut requests = Requests::new(0);
        let mut admit = |replica: u64, incarnation: u64, number: u64, term: u64| {
            requests.admit(ReplicaId(replica), RequestId { incarnation, number }, Term(term))
        };
        for start in 0..1000 {
            assert!(admit(1, start, 5, 1) && admit(2, start, 1, 1), "start {start}");
            assert!(!admit(1, start, 5, 1) && !admit(1, start, 4, 1), "start {start}");
            assert!(admit(1, start, 6, 1), "start {start}");
        }
        assert!(!admit(1, 1000 - STARTS_MAX as u64, 6, 1), "the oldest start that is remembered");
        assert!(admit(1, 999, 1, 2), "another term");
    }
}
