//! Subscriptions of a handle's readers.
//!
//! Several schedulers may use one handle with equal interests, and each delta of a stream can be read only once. So
//! each reader has its own subscription. A reader is known by its position: the interest, and the version and time of
//! its last delta. A read moves a reader and its subscription to one new position. So for each reader, there is a
//! subscription at its position, and subscriptions at one position are interchangeable.
//!
//! A reader that is dropped leaves its subscription behind. It is closed when there are too many, or when it has not
//! been read for long although deltas wait. If its reader returns, it gets a new subscription from its own version on.
//!
//! A server accepts a limited number of streams on one connection. So further subscriptions get further connections.

use super::subscription::{Position, Subscription, Watcher};
use crate::connect::Connections;
use omega_cellstate::{Interest, Wake};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::runtime::Handle;

/// Largest number of subscriptions that are open while nobody reads them: twice the workers of the largest scheduler.
const IDLE_MAX: usize = 128;

/// Number of subscriptions on one connection. A server accepts 32 streams by default, and commits need some of them.
const STREAMS: usize = 16;

/// Time after which a subscription with unread deltas may be closed.
const UNREAD_MAX: Duration = Duration::from_secs(10);

/// Subscriptions of a handle, and the functions that wake its readers.
#[derive(Debug)]
pub(super) struct Readers {
    /// The subscriptions that nobody reads at present, the least recently read first.
    idle: Mutex<Vec<Subscription>>,
    watchers: Mutex<Vec<(Interest, Watcher)>>,
    /// Connections of the next new subscription, and the number of subscriptions that were given them.
    connections: Mutex<(Connections, usize)>,
}

impl Readers {
    pub(super) fn new(connections: Connections) -> Readers {
        let connections = Mutex::new((connections, 0));
        Readers { idle: Mutex::default(), watchers: Mutex::default(), connections }
    }

    /// Takes the subscription of a reader, or makes a new one. [`Readers::put_back`] makes it available again.
    pub(super) fn take(
        &self,
        interest: &Interest,
        position: Position,
        runtime: &Handle,
    ) -> Subscription {
        let mut idle = self.idle.lock();
        if let Some(found) = idle.iter().position(|known| known.is_at(interest, position)) {
            return idle.remove(found);
        }
        idle.retain(|known| !known.is_unread_for(UNREAD_MAX));
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        drop(idle);
        let connections = self.next_connections(runtime);
        Subscription::new(interest.clone(), connections, self.watcher(interest))
    }

    /// The connections of a new subscription.
    fn next_connections(&self, runtime: &Handle) -> Connections {
        let mut next = self.connections.lock();
        if next.1 == STREAMS {
            let _entered = runtime.enter();
            *next = (next.0.beside(), 0);
        }
        next.1 += 1;
        next.0.clone()
    }

    /// Makes a subscription available that was taken.
    pub(super) fn put_back(&self, subscription: Subscription) {
        self.idle.lock().push(subscription);
    }

    /// Adds a function that is called whenever a delta for this interest has arrived or a connection was lost.
    pub(super) fn watch(&self, interest: &Interest, wake: Wake) {
        self.watcher(interest).add(wake);
    }

    fn watcher(&self, interest: &Interest) -> Watcher {
        let mut all = self.watchers.lock();
        if let Some((_, found)) = all.iter().find(|(known, _)| known == interest) {
            return found.clone();
        }
        let made = Watcher::default();
        all.push((interest.clone(), made.clone()));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Address;
    use crate::own_runtime::OwnRuntime;
    use omega_cellstate::Delta;
    use omega_core::Version;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use tokio::sync::mpsc;

    fn runtime() -> OwnRuntime {
        OwnRuntime::start("test").unwrap()
    }

    fn connections(runtime: &OwnRuntime) -> Connections {
        runtime.block_on(async { Connections::new(&Address::plain(["127.0.0.1:1"])) }).unwrap()
    }

    fn delta(from: u64, to: u64, now_ms: u64) -> Delta {
        Delta { from: Version(from), to: Version(to), now_ms, ..Delta::default() }
    }

    /// Readers with a number of subscriptions at version 1, and the sending ends of their streams.
    fn readers(runtime: &OwnRuntime, count: usize) -> (Readers, Vec<mpsc::Sender<Delta>>) {
        let connections = connections(runtime);
        let readers = Readers::new(connections.clone());
        let open = |_| {
            let made =
                Subscription::new(Interest::AllJobs, connections.clone(), Watcher::default());
            let (made, to) = made.with_stream(Version(1));
            readers.put_back(made);
            to
        };
        let ends = (0..count).map(open).collect();
        (readers, ends)
    }

    /// Reads as a view does whose last delta is `last`.
    fn read(readers: &Readers, runtime: &OwnRuntime, last: &mut Delta) {
        let position = Position::of(last.to, last);
        let mut taken = readers.take(&Interest::AllJobs, position, runtime.handle());
        taken.read(runtime.handle(), last.to, &AtomicU64::new(0), last).unwrap();
        readers.put_back(taken);
    }

    #[test]
    fn each_of_two_readers_gets_every_delta_once() {
        let runtime = runtime();
        let (readers, ends) = readers(&runtime, 2);
        let send = |delta: &Delta| ends.iter().for_each(|to| to.try_send(delta.clone()).unwrap());
        let mut views = [delta(0, 1, 0), delta(0, 1, 0)];
        // The time alone advances, then the version; one reader syncs more often than the other.
        for (sent, times) in
            [(delta(1, 1, 5), [3, 1]), (delta(1, 2, 5), [1, 2]), (delta(2, 4, 7), [2, 1])]
        {
            send(&sent);
            for (view, times) in views.iter_mut().zip(times) {
                (0..times).for_each(|_| read(&readers, &runtime, view));
                assert_eq!((view.to, view.now_ms), (sent.to, sent.now_ms));
            }
        }
        assert_eq!(readers.idle.lock().len(), 2, "no stream was opened again");
    }

    #[test]
    fn dropped_readers_leave_a_bounded_number_of_subscriptions() {
        let runtime = runtime();
        let (readers, _ends) = readers(&runtime, IDLE_MAX);
        let new = readers.take(&Interest::Machines, Position::default(), runtime.handle());
        assert_eq!(readers.idle.lock().len(), IDLE_MAX - 1);
        readers.put_back(new);
        let again = readers.take(&Interest::Machines, Position::default(), runtime.handle());
        assert_eq!(readers.idle.lock().len(), IDLE_MAX - 1, "the same one");
        readers.put_back(again);
    }

    #[test]
    fn all_watchers_of_an_interest_are_woken() {
        let readers = Readers::new(connections(&runtime()));
        let woken = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let woken = woken.clone();
            let wake: Wake = Arc::new(move || _ = woken.fetch_add(1, Ordering::Relaxed));
            readers.watch(&Interest::AllJobs, wake);
        }
        readers.watcher(&Interest::AllJobs).wake();
        readers.watcher(&Interest::Machines).wake();
        assert_eq!(woken.load(Ordering::Relaxed), 2);
    }
}
