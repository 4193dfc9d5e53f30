//! The check of evictions. An eviction must make room for a claim that may preempt the evicted task, and the eviction
//! limit must allow it.

use crate::cell::Cell;
use crate::commit::{Review, Scope};
use crate::state::allocation_overrides::Values;
use crate::state::map::FastMap;
use crate::state::tenants::{Borrower, Claimant};
use omega_core::bands::band_of;
use omega_core::transaction::Item;
use omega_core::{Conflict, Precedence, Reason, TaskId};
use smallvec::SmallVec;

/// The tenants with accepted claims on each machine, by row.
type Claimants = FastMap<u32, SmallVec<[Claimant; 2]>>;

impl Cell {
    /// The highest precedence of the claims on each machine, by row.
    fn strongest_claims(&self, review: &Review<'_>) -> FastMap<u32, Precedence> {
        let mut strongest: FastMap<u32, Precedence> = FastMap::default();
        let claims = review.txn.claims.iter().zip(0..);
        for (claim, _) in claims.filter(|(_, i)| review.is_accepted(Item::Claim(*i))) {
            let Some(job) = self.jobs.get(claim.task.job) else { continue };
            let precedence = job.spec.precedence;
            let strongest = strongest.entry(claim.machine.slot).or_insert(precedence);
            *strongest = precedence.max(*strongest);
        }
        strongest
    }

    /// Adds a conflict for each eviction that makes room for no claim, whose task may not be preempted, or that exceeds
    /// the eviction limit. Returns the number of evictions without a conflict that only a guarantee allows.
    pub(super) fn late_evictions(&self, review: &Review<'_>, late: &mut Vec<Conflict>) -> u32 {
        let strongest = self.strongest_claims(review);
        let txn = review.txn;
        let all = review.scope == Scope::All;
        let machine_before = review.machines_before();
        let (mut left, mut reclaimed) = (self.evictions_left(), 0);
        let mut known = None;
        let mut reclaims = |task: TaskId, slot: u32| {
            if !self.tenants.may_guarantee() {
                return false;
            }
            let read = || (self.claimants(review), review.amounts_before());
            let (claimants, amounts) = known.get_or_insert_with(read);
            let allocation = amounts.get(&task).copied();
            claimants.get(&slot).is_some_and(|here| self.may_reclaim(here, task, allocation))
        };
        let taken = |(_, i): &(&TaskId, u32)| review.is_accepted(Item::Eviction(*i));
        for (task, i) in txn.evictions.iter().zip(0..).filter(taken) {
            let slot = machine_before.get(task).copied().unwrap_or(u32::MAX);
            let victim = self.jobs.get(task.job).map(|job| job.spec.precedence);
            let stays = match (strongest.get(&slot), victim) {
                (Some(strongest), Some(victim)) => self.may_stay(victim, *strongest),
                _ => Some(Reason::EvictionUnused),
            };
            let is_reclaimed = stays.is_some_and(|reason| reason != Reason::EvictionUnused)
                && reclaims(*task, slot);
            let reason = match (stays.filter(|_| !is_reclaimed), &mut left) {
                (Some(reason), _) => reason,
                _ if all => Reason::EvictionUnused,
                (None, Some(0)) => Reason::EvictionsCapped,
                (None, left) => {
                    left.iter_mut().for_each(|left| *left -= 1);
                    reclaimed += u32::from(is_reclaimed);
                    continue;
                }
            };
            late.push(Conflict { item: Item::Eviction(i), reason });
        }
        reclaimed
    }

    /// The reason why a claim of the precedence `strongest` may not preempt a task. Guarantees are ignored. `None` if
    /// it may.
    fn may_stay(&self, victim: Precedence, strongest: Precedence) -> Option<Reason> {
        if victim >= strongest {
            return Some(Reason::PrecedenceTooLow);
        }
        let band = band_of(&self.policy.bands, strongest);
        band.is_some_and(|band| band.includes(victim)).then_some(Reason::SameBand)
    }

    /// For each machine, by row, the tenants of its accepted claims and the kinds that they claim. Called only for
    /// evictions that precedence does not allow.
    #[inline(never)]
    fn claimants(&self, review: &Review<'_>) -> Claimants {
        let mut claimants = Claimants::default();
        for (claim, i) in review.txn.claims.iter().zip(0..) {
            let taken = review.is_accepted(Item::Claim(i));
            let Some((job, task)) = self.jobs.task(claim.task).filter(|_| taken) else { continue };
            let request = job.need(task).taken(claim.take).0.iter().zip(0..);
            let kinds = request.filter(|(amount, _)| **amount > 0);
            let kinds = kinds.fold(0, |kinds, (_, kind)| kinds | 1 << kind);
            let here = claimants.entry(claim.machine.slot).or_default();
            match here.iter_mut().find(|known| known.tenant == job.tenant) {
                Some(known) => known.kinds |= kinds,
                None => here.push(Claimant { tenant: job.tenant, kinds }),
            }
        }
        claimants
    }

    /// Whether the guarantee of one of these claimants allows the eviction of a task.
    fn may_reclaim(
        &self,
        claimants: &[Claimant],
        victim: TaskId,
        allocation: Option<&Values>,
    ) -> bool {
        let Some((job, task)) = self.jobs.task(victim) else { return false };
        // The evicted task still counts in its tenant's use if the transaction also placed it on another machine.
        let counted = task.state.machine().is_some();
        let request = allocation.unwrap_or(&job.need(task).request);
        let victim = Borrower { tenant: job.tenant, request, counted };
        claimants.iter().any(|claimant| self.tenants.may_reclaim(*claimant, &victim))
    }
}
