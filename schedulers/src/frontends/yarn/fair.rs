//! Fair order: shares of queues and applications, and the turns that follow from them.
//!
//! A turn is one container. If an application would have several turns in a row, it gets these turns at once, because
//! placing several tasks of a group costs little more than placing one task. The order of containers is the same as
//! with single turns; a test checks this.

use super::frontend::Frontend;
use super::turns::{Queue, Shares, Turn, Turns};
use crate::queue::dominant::{Share, Weight};
use omega_core::{JobId, Text};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

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
    pub(super) fn keep_turns(&mut self, mut turns: Turns) {
        turns.changes = self.session.task_index.changes();
        self.turns = Some(turns);
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
        Turns::new(queues.into_iter().map(queue).collect())
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
        let tenant = turns.tenant(turn);
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
