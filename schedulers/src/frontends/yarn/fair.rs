//! Fair order: the queue with the lowest share is next, and within it the application with the lowest share.
//!
//! A turn is one container. If an application would have several turns in a row, it gets these turns at once, because
//! placing several tasks of a group costs little more than placing one task. The order of containers is the same as
//! with single turns; a test checks this.

use super::frontend::Frontend;
use crate::queue::dominant::{Share, Weight};
use omega_core::{JobId, Text};
use std::collections::{BTreeMap, BTreeSet};

/// Queues and applications that may still have a turn in this round, in the order of their shares.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: BTreeSet<(Share, Text)>,
    of: BTreeMap<Text, (Share, BTreeSet<(Share, JobId)>)>,
}

impl Turns {
    /// Adds an application to a queue. The present shares of both determine their positions.
    pub(super) fn put(
        &mut self,
        (queue, queue_share): (&Text, Share),
        (id, share): (JobId, Share),
    ) {
        let (known, applications) =
            self.of.entry(queue.clone()).or_insert_with(|| (queue_share, BTreeSet::new()));
        self.queues.remove(&(*known, queue.clone()));
        *known = queue_share;
        applications.insert((share, id));
        self.queues.insert((queue_share, queue.clone()));
    }

    /// Removes and returns the next application.
    pub(super) fn take(&mut self) -> Option<JobId> {
        let (_, queue) = self.queues.first()?.clone();
        let (share, applications) = self.of.get_mut(&queue)?;
        let (_, id) = applications.pop_first()?;
        if applications.is_empty() {
            self.queues.remove(&(*share, queue.clone()));
            self.of.remove(&queue);
        }
        Some(id)
    }

    /// Whether an application would be next, if it and its queue had these shares.
    fn would_be_next(&self, queue: (Share, &Text), application: (Share, JobId)) -> bool {
        let others = self.queues.iter().find(|(_, name)| name != queue.1);
        let before_queues = others.is_none_or(|(share, name)| queue <= (*share, name));
        let beside = self.of.get(queue.1).and_then(|(_, applications)| applications.first());
        before_queues && beside.is_none_or(|first| application <= *first)
    }
}

impl Frontend {
    /// Returns the number of turns that an application has in a row, if it gets a task of this group in each turn. The
    /// result is at most `most`, which must be above 0.
    pub(super) fn turns_in_a_row(
        &self,
        turns: &Turns,
        (id, group): (JobId, usize),
        most: usize,
    ) -> usize {
        let Some(entry) = self.session.task_index.job(id) else { return 1 };
        let Some(group) = entry.job.groups.get(group) else { return 1 };
        let tenant = &entry.job.tenant;
        let weight = self.weights.get(tenant).copied().unwrap_or(Weight::ONE);
        let of_queue = self.session.task_index.used_by(tenant);
        let is_next_after = |given: usize| {
            let times = |amount: &u64| amount.saturating_mul(given as u64);
            let more = group.request.as_slice().iter().map(times).collect();
            let totals = &self.session.totals;
            let queue = totals.share(of_queue.into_iter().chain([&more]), weight);
            let own = totals.share([&entry.used, &more], Weight::ONE);
            turns.would_be_next((queue, tenant), (own, id))
        };
        // Each turn raises the shares. So there is a number of turns up to which the application is always next, and
        // after which it never is. Bisection finds this number.
        let (mut known, mut over) = (1, most.max(1) + 1);
        while known + 1 < over {
            let middle = known.midpoint(over);
            if is_next_after(middle - 1) { known = middle } else { over = middle }
        }
        known
    }
}
