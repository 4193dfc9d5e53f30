//! States of the model, and the events between them.

use super::{Protocol, Rule};
use std::collections::BTreeSet;

/// Replicas through which clients send. A client may switch to another one.
const SENDERS: usize = 2;

/// Identifies a request of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId {
    sender: usize,
    number: u8,
}

/// A request in flight to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Request {
    id: RequestId,
    /// Term of the leader to which the request is sent.
    term: usize,
    /// Client of the transaction; each client has one.
    client: usize,
    /// Whether the request may have been accepted before.
    retry: bool,
}

/// Result of a transaction in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    Taken,
    Refused,
}

/// Reply that a client may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reply {
    /// The result is recorded in the log.
    Recorded(Answer),
    /// The pre-check rejected the transaction, without a record.
    Early,
    /// This request did nothing, and never will.
    Again,
}

/// An entry of a log, identified by its index and term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entry {
    term: usize,
    what: What,
    /// Request that waits for the entry; `None` if no request waits.
    from: Option<RequestId>,
}

impl Entry {
    /// Whether the entry is a claim of a client.
    pub(crate) fn is_claim(&self) -> bool {
        matches!(self.what, What::Claim(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    /// A new leader's first entry.
    Nothing,
    Claim(usize),
    Release,
}

/// A replica that is, or was, the leader of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    /// Whether the leader has committed an entry of its term, and whether it has learned of a later leader.
    stage: Stage,
    /// Number of committed entries that the leader has applied.
    applied: usize,
    /// Uncommitted entries of the leader.
    tail: Vec<Entry>,
    /// Highest request number that the leader accepted from each sender.
    seen: [u8; SENDERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Elected,
    Leads,
    Follows,
}

/// A client with one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    attempts: u8,
    waits_for: Option<RequestId>,
    /// Whether a request of the client has had no reply.
    doubt: bool,
    pub(crate) results: Vec<Answer>,
    pub(crate) refused_early: bool,
}

impl Client {
    /// Whether all requests of the client got the reply "nothing was or will be done".
    pub(crate) fn knows_that_nothing_was_done(&self) -> bool {
        self.waits_for.is_none() && !self.doubt && self.results.is_empty()
    }
}

/// The cell, which has room for one task, and the clients whose tasks were placed.
#[derive(Clone, Debug)]
pub(crate) struct CellState {
    room: u8,
    pub(crate) taken: Vec<u8>,
    answers: Vec<Option<Answer>>,
}

impl CellState {
    fn apply(&mut self, what: What, protocol_dedupes: bool) -> Option<Answer> {
        match what {
            What::Nothing => None,
            What::Release => {
                self.room += 1;
                None
            }
            What::Claim(client) => {
                if let Some(answer) = self.answers[client].filter(|_| protocol_dedupes) {
                    return Some(answer);
                }
                let answer = if self.room > 0 { Answer::Taken } else { Answer::Refused };
                if answer == Answer::Taken {
                    self.room -= 1;
                    self.taken[client] += 1;
                }
                self.answers[client] = Some(answer);
                Some(answer)
            }
        }
    }
}

/// The whole state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) committed: Vec<Entry>,
    /// The leaders, by term.
    pub(crate) leaders: Vec<Leader>,
    pub(crate) clients: Vec<Client>,
    numbers: [u8; SENDERS],
    requests: BTreeSet<Request>,
    replies: BTreeSet<(RequestId, Reply)>,
    releases: u8,
    dedupes: bool,
    /// Whether a reply said that the request's entry was replaced by another one.
    pub(crate) overwritten: bool,
}

/// Possible events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    /// A client sends a request through a sender to the leader of this term.
    Ask { client: usize, sender: usize, term: usize },
    /// The client's request times out.
    Silence { client: usize },
    /// The client receives a reply.
    Receive { client: usize, reply: Reply },
    /// A request reaches a leader, which accepts it or is busy.
    Deliver { request: Request, term: usize, busy: bool },
    /// Another scheduler releases room.
    Release,
    /// The last leader commits its next entry.
    Commit,
    /// A new leader is elected, which has this many of an earlier leader's uncommitted entries.
    Elect { of: usize, entries: usize },
    /// A new leader commits its log, including its first entry.
    Begin,
    /// An earlier leader learns of a later one, and of all committed entries.
    Follow { term: usize },
}

impl World {
    pub(crate) fn new(protocol: &Protocol) -> World {
        let leader =
            Leader { stage: Stage::Leads, applied: 0, tail: Vec::new(), seen: [0; SENDERS] };
        World {
            committed: Vec::new(),
            leaders: vec![leader],
            clients: vec![Client::default(); protocol.attempts.len()],
            numbers: [0; SENDERS],
            requests: BTreeSet::new(),
            replies: BTreeSet::new(),
            releases: protocol.releases,
            dedupes: protocol.keeps(Rule::Dedupe),
            overwritten: false,
        }
    }

    /// The cell's state after all committed entries.
    pub(crate) fn cell(&self) -> CellState {
        self.cell_at(self.committed.len())
    }

    fn cell_at(&self, applied: usize) -> CellState {
        let clients = self.clients.len();
        let mut cell = CellState { room: 1, taken: vec![0; clients], answers: vec![None; clients] };
        for entry in &self.committed[..applied] {
            cell.apply(entry.what, self.dedupes);
        }
        cell
    }

    fn last_term(&self) -> usize {
        self.leaders.len() - 1
    }

    pub(crate) fn acts(&self, protocol: &Protocol, acts: &mut Vec<Act>) {
        self.acts_of_clients(protocol, acts);
        for request in &self.requests {
            for (term, leader) in self.leaders.iter().enumerate() {
                if leader.stage == Stage::Leads && self.admits(protocol, *request, term) {
                    let (request, term) = (*request, term);
                    acts.extend([true, false].map(|busy| Act::Deliver { request, term, busy }));
                }
            }
        }
        let last = &self.leaders[self.last_term()];
        match last.stage {
            Stage::Elected => acts.push(Act::Begin),
            _ if self.releases > 0 => acts.push(Act::Release),
            _ => {}
        }
        if last.stage == Stage::Leads && !last.tail.is_empty() {
            acts.push(Act::Commit);
        }
        if self.leaders.len() < protocol.terms {
            acts.push(Act::Elect { of: 0, entries: 0 });
            for (of, leader) in self.leaders.iter().enumerate() {
                if leader.applied == self.committed.len() {
                    acts.extend((1..=leader.tail.len()).map(|entries| Act::Elect { of, entries }));
                }
            }
        }
        for (term, leader) in self.leaders.iter().enumerate().take(self.last_term()) {
            if leader.stage != Stage::Follows || leader.applied < self.committed.len() {
                acts.push(Act::Follow { term });
            }
        }
    }

    fn acts_of_clients(&self, protocol: &Protocol, acts: &mut Vec<Act>) {
        for (number, client) in self.clients.iter().enumerate() {
            if let Some(id) = client.waits_for {
                acts.push(Act::Silence { client: number });
                let received = self.replies.iter().filter(|(of, _)| *of == id);
                acts.extend(
                    received.map(|(_, reply)| Act::Receive { client: number, reply: *reply }),
                );
            } else if client.attempts < protocol.attempts[number] && !client.refused_early {
                // It makes no difference through which sender the first attempt goes; retries may use another one.
                let senders = if client.attempts == 0 { number..number + 1 } else { 0..SENDERS };
                for sender in senders {
                    let terms = 0..self.leaders.len();
                    acts.extend(terms.map(|term| Act::Ask { client: number, sender, term }));
                }
            }
        }
    }

    /// Whether a leader accepts a request.
    fn admits(&self, protocol: &Protocol, request: Request, term: usize) -> bool {
        let right_term = request.term == term || !protocol.keeps(Rule::TermInRequest);
        let seen = self.leaders[term].seen[request.id.sender];
        right_term && (request.id.number > seen || !protocol.keeps(Rule::AtMostOnce))
    }

    pub(crate) fn perform(&mut self, protocol: &Protocol, act: &Act) {
        match *act {
            Act::Ask { client, sender, term } => {
                self.numbers[sender] += 1;
                let id = RequestId { sender, number: self.numbers[sender] };
                let asks = &mut self.clients[client];
                asks.attempts += 1;
                asks.waits_for = Some(id);
                // If the client has already received a result, the leader may have accepted an earlier copy of the
                // request.
                let retry = asks.doubt || !asks.results.is_empty();
                self.requests.insert(Request { id, term, client, retry });
            }
            Act::Silence { client } => {
                self.clients[client].waits_for = None;
                self.clients[client].doubt = true;
            }
            Act::Receive { client, reply } => self.clients[client].hear(reply),
            Act::Deliver { request, term, busy } => self.deliver(protocol, request, term, busy),
            Act::Release => {
                self.releases -= 1;
                let term = self.last_term();
                let entry = Entry { term, what: What::Release, from: None };
                self.leaders[term].tail.push(entry);
            }
            Act::Commit => {
                let term = self.last_term();
                let entry = self.leaders[term].tail.remove(0);
                self.leaders[term].applied += 1;
                self.commit(entry);
                self.answer(entry, self.committed.len());
            }
            Act::Elect { of, entries } => {
                let tail = self.leaders[of].tail[..entries].to_vec();
                let applied = self.committed.len();
                let (stage, seen) = (Stage::Elected, [0; SENDERS]);
                self.leaders.push(Leader { stage, applied, tail, seen });
            }
            Act::Begin => {
                let term = self.last_term();
                for entry in std::mem::take(&mut self.leaders[term].tail) {
                    self.commit(entry);
                }
                self.commit(Entry { term, what: What::Nothing, from: None });
                self.leaders[term].applied = self.committed.len();
                self.leaders[term].stage = Stage::Leads;
            }
            Act::Follow { term } => self.follow(term),
        }
        self.forget(protocol);
    }

    /// Drops data that has no further effect, to reduce the number of distinct states.
    fn forget(&mut self, protocol: &Protocol) {
        let mut requests = std::mem::take(&mut self.requests);
        requests.retain(|request| {
            let mut terms = 0..protocol.terms;
            terms.any(|term| match self.leaders.get(term) {
                Some(leader) if leader.stage == Stage::Follows => false,
                Some(_) => self.admits(protocol, *request, term),
                None => request.term == term || !protocol.keeps(Rule::TermInRequest),
            })
        });
        self.requests = requests;
        let clients = &self.clients;
        self.replies.retain(|(id, _)| clients.iter().any(|one| one.waits_for == Some(*id)));
        for leader in self.leaders.iter_mut().filter(|leader| leader.stage == Stage::Follows) {
            leader.seen = [0; SENDERS];
        }
    }

    fn commit(&mut self, entry: Entry) {
        self.committed.push(Entry { from: None, ..entry });
    }

    /// Delivers a request to a leader, which checks it against the state that it has applied, and appends it to its
    /// log.
    fn deliver(&mut self, protocol: &Protocol, request: Request, term: usize, busy: bool) {
        let Request { id, client, retry, .. } = request;
        let seen = &mut self.leaders[term].seen[id.sender];
        *seen = (*seen).max(id.number);
        let cell = self.cell_at(self.leaders[term].applied);
        let known = cell.answers[client].filter(|_| self.dedupes);
        let early = !retry || !protocol.keeps(Rule::RetriesInLog);
        match known {
            _ if busy => _ = self.replies.insert((id, Reply::Again)),
            Some(answer) => _ = self.replies.insert((id, Reply::Recorded(answer))),
            None if early && cell.room == 0 => _ = self.replies.insert((id, Reply::Early)),
            None => {
                let entry = Entry { term, what: What::Claim(client), from: Some(id) };
                self.leaders[term].tail.push(entry);
            }
        }
    }

    /// Replies to the request of an entry, which is number `applied` of the committed entries.
    fn answer(&mut self, entry: Entry, applied: usize) {
        let Some(id) = entry.from else { return };
        let mut before = self.cell_at(applied - 1);
        if let Some(answer) = before.apply(entry.what, self.dedupes) {
            self.replies.insert((id, Reply::Recorded(answer)));
        }
    }

    /// Tells an earlier leader of a later one. The earlier leader applies committed entries, and answers the requests
    /// of its own entries, which were committed or replaced.
    fn follow(&mut self, term: usize) {
        self.leaders[term].stage = Stage::Follows;
        while self.leaders[term].applied < self.committed.len() {
            let leader = &mut self.leaders[term];
            leader.applied += 1;
            let applied = leader.applied;
            let committed = self.committed[applied - 1];
            if leader.tail.is_empty() {
                continue;
            }
            let own = leader.tail.remove(0);
            if own.term == committed.term {
                if own.term == term {
                    self.answer(own, applied);
                }
                continue;
            }
            // Everything after a replaced entry is replaced, too.
            let lost: Vec<Entry> = std::iter::once(own).chain(leader.tail.drain(..)).collect();
            for entry in lost.into_iter().filter(|entry| entry.term == term) {
                if let Some(id) = entry.from {
                    self.overwritten = true;
                    self.replies.insert((id, Reply::Again));
                }
            }
        }
    }
}

impl Client {
    fn hear(&mut self, reply: Reply) {
        self.waits_for = None;
        match reply {
            Reply::Recorded(answer) => self.results.push(answer),
            Reply::Early => {
                self.results.push(Answer::Refused);
                self.refused_early = true;
            }
            Reply::Again => {}
        }
    }
}
