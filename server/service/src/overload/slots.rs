//! Slots of a listener's connections.
//!
//! A connection without a call in progress is *idle*, also during its handshake. If an address has no slot left, its
//! connection that has been idle for longest ends, and the new connection takes the slot. So silent connections do not
//! lock other clients out, neither before nor after their handshake. A client can be dropped only between its handshake
//! and its first call, and only if an attacker opens more connections in that time than an address may have.
//!
//! If no connection has been idle for a second, a caller with more than half of the address's connections loses the
//! newest of them. So one caller cannot lock out the others by calls that never end. This needs certificates: without
//! them, all callers are the same, and a new connection is closed if all others have calls.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time for which a new connection may be idle before its first call without losing its slot to a caller with more than
/// half of the connections.
const FRESH: Duration = Duration::from_secs(1);

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLimits {
    /// Connections of all addresses.
    pub(crate) all: usize,
    /// Connections of one address.
    pub(crate) each: usize,
}

/// Slots of connections. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    limits: SlotLimits,
    /// Locked when a connection begins or ends, and once a second.
    state: Arc<Mutex<State>>,
}

/// The connections that have slots.
///
/// Invariant: `each` has the number of open connections of each address that has any.
#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeMap<u64, Open>,
    each: HashMap<IpAddr, usize>,
}

/// A connection that has a slot.
#[derive(Debug)]
struct Open {
    address: IpAddr,
    /// Name in the certificate of the caller; `None` before the handshake, and without certificates.
    caller: Option<Arc<str>>,
    usage: Usage,
    /// Dropped to end the connection.
    _end: oneshot::Sender<()>,
}

impl State {
    fn insert(&mut self, address: IpAddr, now: Instant) -> (u64, Usage, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let (number, usage) = (self.next, Usage::new(now));
        self.next += 1;
        self.open.insert(number, Open { address, caller: None, usage: usage.clone(), _end: end });
        *self.each.entry(address).or_default() += 1;
        (number, usage, ended)
    }

    fn remove(&mut self, number: u64) {
        let Some(Open { address, .. }) = self.open.remove(&number) else { return };
        if let Some(count) = self.each.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.each.remove(&address);
            }
        }
    }

    /// The open connections of one address or of all, in the order of their beginnings.
    fn of(&self, address: Option<IpAddr>) -> impl Iterator<Item = (u64, &Open)> {
        let open = self.open.iter().map(|(number, open)| (*number, open));
        open.filter(move |(_, open)| address.is_none_or(|address| open.address == address))
    }

    /// The connection that gives way to a new one, of one address or of all.
    fn dispensable(&self, of: Option<IpAddr>, now: Instant) -> Option<u64> {
        let idle =
            self.of(of).filter_map(|(number, open)| Some((open.usage.idle_since()?, number)));
        match idle.min() {
            Some((since, number)) if now.saturating_duration_since(since) >= FRESH => Some(number),
            idle => self.newest_of_majority(of).or_else(|| idle.map(|(_, number)| number)),
        }
    }

    /// The newest connection of a caller with more than half of all connections, or of those of one address.
    fn newest_of_majority(&self, of: Option<IpAddr>) -> Option<u64> {
        let mut counts: HashMap<&Arc<str>, usize> = HashMap::new();
        let mut all = 0;
        for (_, open) in self.of(of) {
            all += 1;
            if let Some(caller) = &open.caller {
                *counts.entry(caller).or_default() += 1;
            }
        }
        let (majority, _) = counts.into_iter().find(|(_, count)| *count > all / 2)?;
        let own = self.of(of).filter(|(_, open)| open.caller.as_ref() == Some(majority));
        own.last().map(|(number, _)| number)
    }
}

impl Slots {
    pub(crate) fn new(limits: SlotLimits) -> Slots {
        Slots { limits, state: Arc::default() }
    }

    /// Takes a slot, if need be from an idle connection, or from a caller with more than half of the connections;
    /// `None` if no slot is left.
    pub(crate) fn take(&self, address: IpAddr, now: Instant) -> Option<Slot> {
        let mut state = self.state.lock();
        let is_each_full = state.each.get(&address).is_some_and(|count| *count >= self.limits.each);
        if is_each_full || state.open.len() >= self.limits.all {
            let of = is_each_full.then_some(address);
            let ended = state.dispensable(of, now)?;
            state.remove(ended);
        }
        let (number, usage, ended) = state.insert(address, now);
        Some(Slot { number, usage, ended, slots: self.clone() })
    }

    /// Ends the connections that have been idle for a time. Returns their number.
    pub(crate) fn end_idle(&self, time: Duration, now: Instant) -> usize {
        let mut state = self.state.lock();
        let is_over = |open: &Open| {
            open.usage
                .idle_since()
                .is_some_and(|since| now.saturating_duration_since(since) >= time)
        };
        let over = state.open.iter().filter(|(_, open)| is_over(open)).map(|(number, _)| *number);
        let over: Vec<u64> = over.collect();
        over.iter().for_each(|number| state.remove(*number));
        over.len()
    }
}

/// A connection's slot, released when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u64,
    usage: Usage,
    ended: oneshot::Receiver<()>,
    slots: Slots,
}

impl Slot {
    /// The use of the connection, for its calls.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Records the caller of the connection, by the name in its certificate.
    pub(crate) fn identify(&self, caller: Arc<str>) {
        if let Some(open) = self.slots.state.lock().open.get_mut(&self.number) {
            open.caller = Some(caller);
        }
    }

    /// Resolves when the connection has lost its slot.
    pub(crate) async fn lost(&mut self) {
        std::future::poll_fn(|cx| self.poll_lost(cx)).await;
    }

    /// Whether the connection has lost its slot. If not, its task is woken when it loses the slot.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ended.is_terminated() {
            return Poll::Ready(());
        }
        Pin::new(&mut self.ended).poll(cx).map(drop)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.state.lock().remove(self.number);
    }
}

/// Number of a connection's calls in progress. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Usage(Arc<Mutex<Calls>>);

#[derive(Debug)]
struct Calls {
    count: u32,
    /// Time of the last change of `count`.
    changed: Instant,
}

impl Usage {
    fn new(now: Instant) -> Usage {
        Usage(Arc::new(Mutex::new(Calls { count: 0, changed: now })))
    }

    /// Start of the time without calls; `None` while calls are in progress.
    fn idle_since(&self) -> Option<Instant> {
        let calls = self.0.lock();
        (calls.count == 0).then_some(calls.changed)
    }

    /// Counts a call until the result is dropped.
    pub(crate) fn begin(&self) -> InProgress {
        self.0.lock().count += 1;
        InProgress(self.clone())
    }
}

/// A call in progress.
#[derive(Debug)]
pub(crate) struct InProgress(Usage);

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut calls = self.0.0.lock();
        calls.count -= 1;
        calls.changed = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::task::Waker;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn slots(all: usize, each: usize) -> Slots {
        Slots::new(SlotLimits { all, each })
    }

    fn has_ended(slot: &mut Slot) -> bool {
        slot.poll_lost(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_longest_idle_connection_of_an_address_gives_way() {
        let (slots, now) = (slots(9, 3), Instant::now());
        let mut later = (1..100).rev().map(|i| now - Duration::from_millis(i));
        let mut take = |of| slots.take(of, later.next().unwrap()).unwrap();
        let mut of_other = take(B);
        let (mut calls, mut silent, mut newer) = (take(A), take(A), take(A));
        let call = calls.usage().begin();
        let mut next = take(A);
        assert!(has_ended(&mut silent) && has_ended(&mut silent));
        let open = [&mut of_other, &mut calls, &mut newer, &mut next];
        assert!(open.into_iter().all(|slot| !has_ended(slot)));
        // The connection whose call has just ended is the last one to be ended.
        drop(call);
        let _more = (take(A), take(A));
        assert!(has_ended(&mut newer) && has_ended(&mut next) && !has_ended(&mut calls));
    }

    #[test]
    fn connections_with_calls_keep_their_slots() {
        let (slots, now) = (slots(3, 2), Instant::now());
        let mut both = [A, A].map(|of| slots.take(of, now).unwrap());
        let calls = both.each_ref().map(|slot| slot.usage().begin());
        assert!(slots.take(A, now).is_none());
        let mut other = slots.take(B, now).unwrap();
        // The server is full, and one connection is idle.
        let third = slots.take("10.0.0.3".parse().unwrap(), now).unwrap();
        assert!(has_ended(&mut other));
        let _call = third.usage().begin();
        assert!(slots.take(B, now).is_none());
        drop((other, calls));
        assert!(!both.iter_mut().any(has_ended));
        drop(both);
        assert!(slots.take(A, now).is_some());
    }

    #[test]
    fn a_caller_with_most_connections_gives_way() {
        let (slots, now) = (slots(9, 4), Instant::now());
        let mut greedy = [A; 3].map(|of| slots.take(of, now).unwrap());
        greedy.iter().for_each(|slot| slot.identify("greedy".into()));
        let mut other = slots.take(A, now).unwrap();
        other.identify("other".into());
        let _calls = [&greedy[0], &greedy[1], &greedy[2], &other].map(|slot| slot.usage().begin());
        // A new connection is not ended before its first call.
        let mut new = slots.take(A, now).unwrap();
        assert_eq!(greedy.each_mut().map(has_ended), [false, false, true]);
        new.identify("third".into());
        // No caller has more than half of the connections: the idle one gives way.
        let newer = slots.take(A, now).unwrap();
        assert!(has_ended(&mut new) && !greedy[..2].iter_mut().any(has_ended));
        let _call = newer.usage().begin();
        assert!(slots.take(A, now).is_none(), "no connection is idle");
        newer.identify("greedy".into());
        let later = now + FRESH;
        let mut idle = slots.take(A, later).unwrap();
        assert!(!has_ended(&mut other) && !has_ended(&mut idle));
        drop(slots.take(A, later + FRESH).unwrap());
        assert!(has_ended(&mut idle), "it has been idle for too long");
    }

    #[test]
    fn idle_connections_end_after_a_time() {
        let (slots, begin) = (slots(3, 3), Instant::now());
        let mut idle = slots.take(A, begin).unwrap();
        let mut busy = slots.take(A, begin).unwrap();
        let call = busy.usage().begin();
        let limit = Duration::from_secs(300);
        assert_eq!(slots.end_idle(limit, begin + limit - Duration::from_nanos(1)), 0);
        assert_eq!(slots.end_idle(limit, begin + limit), 1);
        assert!(has_ended(&mut idle) && !has_ended(&mut busy));
        drop(call);
        assert_eq!(slots.end_idle(limit, begin + limit), 0, "its call has just ended");
        assert_eq!(slots.end_idle(limit, Instant::now() + limit), 1);
        drop((idle, busy));
        assert!(slots.state.lock().each.is_empty());
    }
}
