//! Mailbox of a replica's thread.
//!
//! All events that have collected are taken at once. Waking a thread costs as much as applying several transactions. So
//! requests do not wake a replica that cannot process them yet. The replica takes them when an urgent event wakes it.

use super::event::Event;
use parking_lot::{Condvar, Mutex};
use std::time::Instant;

/// The mailbox. See the module documentation.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// Events that have collected. Locked only to add one, or to take all.
    inbox: Mutex<Inbox>,
    woken: Condvar,
}

#[derive(Debug)]
struct Inbox {
    events: Vec<Event>,
    /// Number of these events that are messages of other replicas.
    messages: usize,
    wake_for: WakeFor,
    /// Whether an event in the list cannot wait.
    urgent: bool,
    closed: bool,
}

/// Events for which the replica's thread wakes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeFor {
    Everything,
    /// All events except requests that can wait.
    Urgent,
}

/// The replica has ended and accepts no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl Mailbox {
    pub(super) fn new() -> Mailbox {
        let inbox = Inbox {
            events: Vec::new(),
            messages: 0,
            wake_for: WakeFor::Everything,
            urgent: false,
            closed: false,
        };
        Mailbox { inbox: Mutex::new(inbox), woken: Condvar::new() }
    }

    /// Sends an event to the replica. A rejected event is dropped.
    pub(super) fn send(&self, event: Event) -> Result<(), Closed> {
        let mut inbox = self.inbox.lock();
        if inbox.closed {
            return Err(Closed);
        }
        let urgent = !event.can_wait();
        inbox.messages += usize::from(matches!(event, Event::Message(..)));
        inbox.events.push(event);
        inbox.urgent |= urgent;
        let wakes = inbox.should_wake();
        drop(inbox);
        if wakes {
            self.woken.notify_one();
        }
        Ok(())
    }

    /// Number of messages of other replicas that wait. Clients' requests cannot displace these messages.
    pub(super) fn messages(&self) -> usize {
        self.inbox.lock().messages
    }

    /// Waits for an event that `wake_for` selects, but at most until a deadline. Then takes all events that have
    /// collected. `events` must be empty; its memory is reused.
    pub(super) fn take(&self, wake_for: WakeFor, deadline: Instant, events: &mut Vec<Event>) {
        let mut inbox = self.inbox.lock();
        inbox.wake_for = wake_for;
        while !inbox.should_wake() && !self.woken.wait_until(&mut inbox, deadline).timed_out() {}
        (inbox.urgent, inbox.messages) = (false, 0);
        std::mem::swap(&mut inbox.events, events);
    }

    /// Closes the mailbox, and drops the events in it.
    pub(super) fn close(&self) {
        let mut inbox = self.inbox.lock();
        inbox.closed = true;
        let dropped = std::mem::take(&mut inbox.events);
        drop(inbox);
        drop(dropped);
    }
}

impl Inbox {
    fn should_wake(&self) -> bool {
        self.urgent || self.wake_for == WakeFor::Everything && !self.events.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::request::Request;
    use omega_core::Command;

    fn patient() -> Event {
        let command = Command::RegisterScheduler { name: "a".into() };
        Event::Request(vec![(
            Request::Command(command),
            super::super::pending_replies::PendingReplies::new(1).sender(0),
        )])
    }

    #[test]
    fn urgent_events_wake_a_waiting_thread() {
        let mailbox = Mailbox::new();
        // Without a wake-up, the thread would wait until the runner of the tests ends it.
        let late = Instant::now() + std::time::Duration::from_secs(3600);
        let taken = |wake_for| {
            let mut events = Vec::new();
            mailbox.take(wake_for, late, &mut events);
            events.len()
        };
        std::thread::scope(|scope| {
            let urgent = scope.spawn(|| taken(WakeFor::Urgent));
            mailbox.send(patient()).unwrap();
            mailbox.send(Event::End).unwrap();
            assert_eq!(urgent.join().unwrap(), 2);
            let any = scope.spawn(|| taken(WakeFor::Everything));
            mailbox.send(patient()).unwrap();
            assert_eq!(any.join().unwrap(), 1);
        });
    }

    #[test]
    fn requests_wait_for_urgent_events() {
        let mailbox = Mailbox::new();
        let mut events = Vec::new();
        let now = Instant::now();
        assert_eq!(mailbox.send(patient()), Ok(()));
        assert!(!mailbox.inbox.lock().urgent);
        // Events that are not urgent are returned at the deadline.
        mailbox.take(WakeFor::Urgent, now, &mut events);
        assert_eq!(events.drain(..).count(), 1);
        assert_eq!(mailbox.send(patient()), Ok(()));
        assert_eq!(mailbox.send(Event::End), Ok(()));
        assert!(mailbox.inbox.lock().should_wake());
        mailbox.take(WakeFor::Urgent, now, &mut events);
        assert!(matches!(events[..], [Event::Request(_), Event::End]));
        mailbox.close();
        assert_eq!(mailbox.send(Event::End), Err(Closed));
    }
}
