//! The turns of a round: the queue with the lowest share is next, and within it the application with the lowest share.

use crate::queue::dominant::Share;
use omega_core::{JobId, Text};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue, and its applications that may still have a turn in this round, in the order of their shares.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) tenant: Text,
    pub(super) share: Share,
    pub(super) applications: BinaryHeap<Reverse<(Share, JobId)>>,
}

/// Queues and applications that may still have a turn in this round, in the order of their shares.
///
/// A round ends when its transaction is full, or no application has a turn. The next round continues with the same
/// turns, unless requests, shares, weights or machines have changed since.
///
/// Invariant: `order` has exactly the queues that have applications, except for the queue whose application is being
/// served.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Ascending by tenant, so that the positions order queues with equal shares.
    queues: Vec<Queue>,
    order: BinaryHeap<Reverse<(Share, usize)>>,
    /// Ended turns of applications without room or heartbeats. They have a turn again in the next round.
    waiting: Vec<Turn>,
    /// Value of [`TaskIndex::changes`](crate::frontends::task_index::TaskIndex::changes) at the end of the round.
    pub(super) changes: u64,
}

/// The turn of an application. [`Turns::end`] ends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) application: JobId,
    share: Share,
    queue: usize,
}

/// Share of a queue, and share of one of its applications.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) queue: Share,
    pub(super) application: Share,
}

/// State of an application at the end of its turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The application got containers, so its shares are higher now. It has another turn in this round.
    Served(Shares),
    /// The application got nothing. Its next turn is in the next round.
    Waits,
    /// The application requests no more containers.
    Satisfied,
}

impl Turns {
    /// Creates the turns of a round. The queues have applications, and are ascending by tenant.
    pub(super) fn new(queues: Vec<Queue>) -> Turns {
        let order = queues.iter().zip(0..).map(|(queue, at)| Reverse((queue.share, at))).collect();
        Turns { queues, order, ..Turns::default() }
    }

    /// Tenant of the application's queue.
    pub(super) fn tenant(&self, turn: Turn) -> &Text {
        &self.queues[turn.queue].tenant
    }

    fn put(&mut self, queue: usize, share: Share, application: JobId) {
        let Queue { share: queue_share, applications, .. } = &mut self.queues[queue];
        if applications.is_empty() {
            self.order.push(Reverse((*queue_share, queue)));
        }
        applications.push(Reverse((share, application)));
    }

    /// Begins the next round: all applications that wait for room have turns again.
    pub(super) fn next_round(&mut self) {
        for Turn { application, share, queue } in std::mem::take(&mut self.waiting) {
            self.put(queue, share, application);
        }
    }

    /// Removes and returns the next application. Its turn must end before the next one begins.
    pub(super) fn next(&mut self) -> Option<Turn> {
        let Reverse((_, queue)) = self.order.pop()?;
        let Reverse((share, application)) = self.queues[queue].applications.pop()?;
        Some(Turn { application, share, queue })
    }

    /// Ends a turn.
    pub(super) fn end(&mut self, turn: Turn, end: End) {
        let Queue { share, applications, .. } = &mut self.queues[turn.queue];
        match end {
            End::Served(shares) => {
                *share = shares.queue;
                applications.push(Reverse((shares.application, turn.application)));
            }
            End::Waits => self.waiting.push(turn),
            End::Satisfied => {}
        }
        if !applications.is_empty() {
            self.order.push(Reverse((*share, turn.queue)));
        }
    }

    /// Whether an application whose turn has not ended would be next within its queue, if it had this share.
    pub(super) fn is_next_in_queue(&self, turn: Turn, share: Share) -> bool {
        let application = Reverse((share, turn.application));
        self.queues[turn.queue].applications.peek().is_none_or(|first| application >= *first)
    }

    /// Whether the queue of an application whose turn has not ended would be next, if it had this share.
    pub(super) fn is_next_queue(&self, turn: Turn, share: impl FnOnce() -> Share) -> bool {
        self.order.peek().is_none_or(|first| Reverse((share(), turn.queue)) >= *first)
    }
}
