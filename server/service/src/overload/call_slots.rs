//! Slots of calls, and the order in which connections are read when few slots are left.
//!
//! Rejecting a call costs a server almost as much as answering it, so a server that rejects most calls has little time
//! for the others. Therefore connections are not read while more than three quarters of the slots are taken: requests
//! stay with the clients, held back by the flow control of HTTP/2 and TCP, at no cost here. When a slot becomes free,
//! the server reads one connection of the caller whose turn it is. Callers take turns, and so do the connections of one
//! caller, so more connections do not give a caller more slots.
//!
//! ```text
//!   connections of a ── a2 a1 ──┐
//!   connections of b ────── b1 ─┼─▶ read a1, b1, c1, a2, c2 ...   one whenever fewer than 3/4 of the slots are taken
//!   connections of c ── c2 c1 ──┘
//! ```
//!
//! A connection waits for at most [`READ_DELAY_MAX`], because it also carries window updates, pings and ends of calls.
//! Without these, a reply might be blocked for ever. So calls may still arrive when all slots are taken, and such calls
//! are rejected.
//!
//! Invariant: a waiting ticket has a waker and is in the queue of its caller. Each caller with a queue is in `turns`
//! once.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Longest time for which a connection is not read. It is half of the clients' ping timeout, and several times as long
/// as a full round of turns, unless there are very many connections.
pub(crate) const READ_DELAY_MAX: Duration = Duration::from_secs(1);

/// Number of calls that one read of a connection is expected to bring at most: about as many small calls as fit in a
/// read, and as many streams as a connection may have by default (`connection_streams`).
const PIECE_CALLS: usize = 32;

/// Slots of calls. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CallSlots(Arc<Mutex<State>>);

/// Slots and turns. See the module documentation.
#[derive(Debug)]
struct State {
    max: usize,
    taken: usize,
    /// The wakers of waiting connections, by ticket.
    wakers: HashMap<u64, Waker>,
    /// Tickets by caller, in order of arrival.
    tickets: HashMap<Arc<str>, VecDeque<u64>>,
    /// The callers that have tickets, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// Tickets whose turn has come, but whose connections have not been read yet, each with the time of its turn.
    called: HashMap<u64, Instant>,
    next_ticket: u64,
}

/// Whether a call may take one of the last slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// An ordinary call.
    Usual,
    /// A call without which machines would be lost or schedulers fenced. For these calls there are a quarter more slots
    /// than for others.
    Vital,
}

/// A slot, released when dropped.
#[derive(Debug)]
pub(crate) struct CallSlot(CallSlots);

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.taken -= 1;
        state.call_next();
    }
}

impl CallSlots {
    /// This many call slots.
    pub(crate) fn new(max: u32) -> CallSlots {
        CallSlots(Arc::new(Mutex::new(State {
            max: max as usize,
            taken: 0,
            wakers: HashMap::new(),
            tickets: HashMap::new(),
            turns: VecDeque::new(),
            called: HashMap::new(),
            next_ticket: 0,
        })))
    }

    /// Takes a slot; `None` if no slot is free.
    pub(crate) fn enter(&self, need: Need) -> Option<CallSlot> {
        let mut state = self.0.lock();
        let max = match need {
            Need::Usual => state.max,
            Need::Vital => state.max + state.max.div_ceil(4),
        };
        if state.taken >= max {
            return None;
        }
        state.taken += 1;
        drop(state);
        Some(CallSlot(self.clone()))
    }

    /// Returns `Ready` if a connection may be read now. The value is true if the connection must
    /// [`pass_on`](Lane::pass_on) the turn when there is nothing to read. Otherwise the connection's task is woken
    /// later, and must call again with the same ticket, which is `None` at first.
    pub(crate) fn poll_turn(
        &self,
        caller: &Arc<str>,
        ticket: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        let mut state = self.0.lock();
        if let Some(own) = *ticket {
            if let Some(waker) = state.wakers.get_mut(&own) {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            state.called.remove(&own);
            *ticket = None;
            return Poll::Ready(true);
        }
        if state.turns.is_empty() && state.has_room() {
            return Poll::Ready(false);
        }
        let own = state.queue(caller, cx.waker().clone());
        state.call_next();
        if state.called.remove(&own).is_some() {
            return Poll::Ready(true);
        }
        *ticket = Some(own);
        Poll::Pending
    }

    /// Passes the turn to the next caller, because this connection has nothing to read.
    pub(crate) fn pass_on(&self) {
        self.0.lock().call_next();
    }

    /// Removes a connection that waits.
    pub(crate) fn leave(&self, caller: &Arc<str>, ticket: &mut Option<u64>) {
        let Some(own) = ticket.take() else { return };
        let mut state = self.0.lock();
        if state.wakers.remove(&own).is_some() {
            state.forget(caller, own);
        }
        state.called.remove(&own);
        state.call_next();
    }
}

impl State {
    /// Whether connections are read without waiting for a turn. If not, the remaining slots are left for connections
    /// that are being read.
    fn has_room(&self) -> bool {
        self.taken < self.max.div_ceil(4) * 3
    }

    fn queue(&mut self, caller: &Arc<str>, waker: Waker) -> u64 {
        let own = self.next_ticket;
        self.next_ticket += 1;
        let of_caller = self.tickets.entry(caller.clone()).or_default();
        if of_caller.is_empty() {
            self.turns.push_back(caller.clone());
        }
        of_caller.push_back(own);
        self.wakers.insert(own, waker);
        own
    }

    fn forget(&mut self, caller: &Arc<str>, own: u64) {
        let Some(of_caller) = self.tickets.get_mut(caller) else { return };
        of_caller.retain(|ticket| *ticket != own);
        if of_caller.is_empty() {
            self.tickets.remove(caller);
            self.turns.retain(|waiting| waiting != caller);
        }
    }

    /// Gives the turn to the next connection, if there are slots for the calls that one read may bring.
    fn call_next(&mut self) {
        if self.turns.is_empty() || !self.has_room() {
            return;
        }
        let now = Instant::now();
        self.called.retain(|_, since| now.duration_since(*since) < READ_DELAY_MAX);
        let expected = self.taken + self.called.len() * PIECE_CALLS;
        if !self.called.is_empty() && expected >= self.max {
            return;
        }
        let Some(caller) = self.turns.pop_front() else { return };
        let Some(of_caller) = self.tickets.get_mut(&caller) else { return };
        let next = of_caller.pop_front();
        if of_caller.is_empty() {
            drop(self.tickets.remove(&caller))
        } else {
            self.turns.push_back(caller)
        }
        if let Some(own) = next
            && let Some(waker) = self.wakers.remove(&own)
        {
            self.called.insert(own, now);
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A connection that always has data to read.
    struct Reader {
        caller: Arc<str>,
        ticket: Option<u64>,
    }

    impl Reader {
        fn of(caller: &str) -> Reader {
            Reader { caller: caller.into(), ticket: None }
        }

        fn may_read(&mut self, slots: &CallSlots) -> bool {
            let mut cx = Context::from_waker(Waker::noop());
            slots.poll_turn(&self.caller, &mut self.ticket, &mut cx).is_ready()
        }
    }

    fn fill(slots: &CallSlots, count: usize) -> Vec<CallSlot> {
        (0..count).map(|_| slots.enter(Need::Usual).unwrap()).collect()
    }

    #[test]
    fn connections_wait_when_three_quarters_are_taken() {
        let slots = CallSlots::new(8);
        let mut reader = Reader::of("a");
        let mut taken = fill(&slots, 5);
        assert!(reader.may_read(&slots));
        taken.extend(fill(&slots, 1));
        assert!(!reader.may_read(&slots));
        assert!(!reader.may_read(&slots), "it is asked again, and waits on");
        taken.pop();
        assert!(reader.may_read(&slots));
        assert!(reader.may_read(&slots), "nobody waits");
    }

    #[test]
    fn the_last_places_are_for_what_is_vital() {
        let slots = CallSlots::new(8);
        let _held = fill(&slots, 8);
        assert!(slots.enter(Need::Usual).is_none());
        let vital: Vec<Option<CallSlot>> = (0..3).map(|_| slots.enter(Need::Vital)).collect();
        assert_eq!(vital.iter().flatten().count(), 2);
    }

    #[test]
    fn callers_take_turns_however_many_connections_each_has() {
        let slots = CallSlots::new(4);
        let mut taken = fill(&slots, 3);
        let greedy = (0..6).map(|_| Reader::of("greedy"));
        let modest = (0..2).map(|_| Reader::of("modest"));
        let mut readers: Vec<Reader> = greedy.chain(modest).collect();
        assert!(readers.iter_mut().all(|reader| !reader.may_read(&slots)));
        let mut turns: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for _ in 0..4 {
            taken.pop();
            let mut called = Vec::new();
            for reader in &mut readers {
                if reader.may_read(&slots) {
                    called.push(reader.caller.clone());
                    // One call arrives with the read.
                    taken.extend(fill(&slots, 1));
                }
            }
            assert_eq!(called.len(), 1, "one for each place");
            *turns.entry(called.remove(0)).or_default() += 1;
        }
        assert_eq!(turns.into_values().collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_turn_that_is_not_taken_is_passed_on() {
        let slots = CallSlots::new(4);
        let mut taken = fill(&slots, 3);
        let (mut gone, mut next) = (Reader::of("a"), Reader::of("b"));
        assert!(!gone.may_read(&slots) && !next.may_read(&slots));
        taken.pop();
        slots.leave(&gone.caller, &mut gone.ticket);
        assert!(next.may_read(&slots));
    }

    proptest! {
        /// In random sequences, whenever a slot is free and no connection has the turn, no connection waits.
        #[test]
        fn nobody_waits_unschedulable(steps in proptest::collection::vec((0..4_u8, 0..6_usize), 1..200)) {
            let slots = CallSlots::new(8);
            let names = ["a", "a", "a", "b", "b", "c"];
            let mut readers: Vec<Reader> = names.into_iter().map(Reader::of).collect();
            let mut taken = Vec::new();
            for (step, of) in steps {
                match step {
                    0 => taken.extend(slots.enter(Need::Usual)),
                    1 => drop(taken.pop()),
                    // The connection has the turn, but nothing to read.
                    2 if readers[of].may_read(&slots) => slots.pass_on(),
                    2 => {}
                    _ => {
                        let Reader { caller, ticket } = &mut readers[of];
                        slots.leave(caller, ticket);
                    }
                }
                let state = slots.0.lock();
                let tickets: usize = state.tickets.values().map(VecDeque::len).sum();
                prop_assert_eq!(tickets, state.wakers.len());
                prop_assert_eq!(state.turns.len(), state.tickets.len());
                let idle = state.called.is_empty() && state.has_room();
                prop_assert!(!idle || state.wakers.is_empty(), "somebody waits in vain");
            }
        }
    }
}
