//! Fair order: the queue with the lowest share is next, and within it the application with the lowest share.
//!
//! A turn is one container. If an application would have several turns in a row, it gets these turns at once, because
//! placing several tasks of a group costs little more than placing one task. The order of containers is the same as
//! with single turns; a test checks this.

use super::frontend::Frontend;
use crate::queue::dominant::{Share, Weight};
use omega_core::{JobId, Text};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A queue, and its applications that may still have a turn in this round, in the order of their shares.
#[derive(Debug)]
struct Queue {
    tenant: Text,
    share: Share,
    applications: BinaryHeap<Reverse<(Share, JobId)>>,
}

/// Queues and applications that may still have a turn in this round, in the order of their shares.
///
/// A round ends when its transaction is full. The next round continues with the same turns, unless requests, shares or
/// weights have changed otherwise than by the claims of the round.
///
/// Invariant: `order` has exactly the queues that have applications, except for the queue whose application is being
/// served.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Ascending by tenant, so that the positions order queues with equal shares.
    queues: Vec<Queue>,
    order: BinaryHeap<Reverse<(Share, usize)>>,
    /// Ended turns of applications that wait for room until the next round.
    waiting: Vec<Turn>,
    /// Number of changes of used amounts until the end of the round.
    changes: u64,
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
    queue: Share,
    application: Share,
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
    fn put(&mut self, queue: usize, share: Share, application: JobId) {
        let Queue { share: queue_share, applications, .. } = &mut self.queues[queue];
        if applications.is_empty() {
            self.order.push(Reverse((*queue_share, queue)));
        }
        applications.push(Reverse((share, application)));
    }

    /// Begins the next round: all applications that wait for room have turns again.
    fn next_round(&mut self) {
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
    fn is_next_in_queue(&self, turn: Turn, share: Share) -> bool {
        let application = Reverse((share, turn.application));
        self.queues[turn.queue].applications.peek().is_none_or(|first| application >= *first)
    }

    /// Whether the queue of an application whose turn has not ended would be next, if it had this share.
    fn is_next_queue(&self, turn: Turn, share: impl FnOnce() -> Share) -> bool {
        self.order.peek().is_none_or(|first| Reverse((share(), turn.queue)) >= *first)
    }
}

impl Frontend {
    /// Takes the turns of the next round. The caller returns them with [`Frontend::keep_turns`].
    pub(super) fn take_turns(&mut self) -> Turns {
        match self.turns.take() {
            Some(mut turns) if turns.changes == self.session.task_index.changes() => {
                turns.next_round();
                turns
            }
            _ => self.first_turns(),
        }
    }

    /// Keeps the turns for the next round.
    pub(super) fn keep_turns(&mut self, turns: Turns) {
        self.turns = Some(Turns { changes: self.session.task_index.changes(), ..turns });
    }

    fn first_turns(&self) -> Turns {
        let mut queues: BTreeMap<&Text, BinaryHeap<Reverse<(Share, JobId)>>> = BTreeMap::new();
        let applications = self.applications.iter().filter(|(_, application)| application.wants());
        for (id, _) in applications {
            let Some(entry) = self.session.task_index.job(*id) else { continue };
            let share = self.session.totals.share([&entry.used], Weight::ONE);
            queues.entry(&entry.job.tenant).or_default().push(Reverse((share, *id)));
        }
        let queue = |(tenant, applications): (&Text, _)| Queue {
            tenant: tenant.clone(),
            share: self.queue_share(tenant),
            applications,
        };
        let queues: Vec<Queue> = queues.into_iter().map(queue).collect();
        let order = queues.iter().zip(0..).map(|(queue, at)| Reverse((queue.share, at))).collect();
        Turns { queues, order, ..Turns::default() }
    }

    /// Shares of an application and its queue.
    pub(super) fn shares(&self, id: JobId) -> Option<Shares> {
        let entry = self.session.task_index.job(id)?;
        let application = self.session.totals.share([&entry.used], Weight::ONE);
        Some(Shares { queue: self.queue_share(&entry.job.tenant), application })
    }

    /// Returns the number of turns that an application has in a row, if it gets a task of this group in each turn. The
    /// result is at most `most`, which must be above 0.
    pub(super) fn turns_in_a_row(
        &self,
        turns: &Turns,
        turn: Turn,
        group: usize,
        most: usize,
    ) -> usize {
        let Some(entry) = self.session.task_index.job(turn.application) else { return 1 };
        let Some(group) = entry.job.groups.get(group) else { return 1 };
        let tenant = &turns.queues[turn.queue].tenant;
        let weight = self.weights.get(tenant).copied().unwrap_or(Weight::ONE);
        let of_queue = self.session.task_index.used_by(tenant);
        let is_next_after = |given: usize| {
            let times = |amount: &u64| amount.saturating_mul(given as u64);
            let more = group.request.as_slice().iter().map(times).collect();
            let totals = &self.session.totals;
            let of_queue = || totals.share(of_queue.into_iter().chain([&more]), weight);
            turns.is_next_in_queue(turn, totals.share([&entry.used, &more], Weight::ONE))
                && turns.is_next_queue(turn, of_queue)
        };
        // Each turn raises the shares. So there is a number of turns up to which the application is always next, and
        // after which it never is. Usually this number is small: it is doubled until it is too high, then bisected.
        let (mut known, mut over) = (1, most.max(1) + 1);
        while known + 1 < over {
            let next = if over > most { (2 * known).min(most) } else { known.midpoint(over) };
            if is_next_after(next - 1) { known = next } else { over = next }
        }
        known
    }
}
