//! Runtime affinity: the check of releases and evictions that would break a running task's affinity.
//!
//! It runs after all items of a transaction, because the dependent task may leave in the same transaction, and
//! replacements may arrive. If several tasks leave a domain, the last ones are rejected, as many as are needed.

use super::{Ledger, Policy};
use crate::cell::Cell;
use crate::commit::{Review, Scope, Step};
use crate::facts::Facts;
use crate::rules::{Alone, GroupRules};
use omega_core::transaction::Item;
use omega_core::{Conflict, Job, Reason, TaskGroup, TaskId};

/// Runtime affinity: it keeps no state beside the counters of rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuntimeAffinity;

impl Ledger for RuntimeAffinity {
    fn is_checking(&self, facts: &Facts) -> bool {
        facts.rules.any_runtime_affinity()
    }

    fn is_counting(&self) -> bool {
        false
    }
}

impl Policy for RuntimeAffinity {
    type Mirror = ();
    type Note = ();

    /// Any job's rule may select tasks of any other job.
    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        true
    }

    fn check_all(cell: &Cell, review: &Review<'_>, _: &mut (), late: &mut Vec<Conflict>) {
        if !review.txn.releases.is_empty() || !review.txn.evictions.is_empty() {
            cell.add_runtime_affinity_conflicts(review, late);
        }
    }
}

/// A task that has left its machine in a transaction.
struct Left<'a> {
    item: Item,
    row: usize,
    rules: &'a GroupRules,
}

impl Cell {
    /// Adds conflicts for the items that break an affinity, or for all that could, by the scope of the review.
    fn add_runtime_affinity_conflicts(&self, review: &Review<'_>, late: &mut Vec<Conflict>) {
        let book = &self.facts.rules;
        let left = self.left(review);
        let stays: Vec<Item> = match review.scope {
            Scope::All => left
                .iter()
                .filter(|l| book.may_be_runtime_affinity(l.rules))
                .map(|left| left.item)
                .collect(),
            Scope::Breaking => self.needed(&left),
        };
        for item in stays {
            if late.iter().all(|conflict| conflict.item != item) {
                late.push(Conflict { item, reason: Reason::RuntimeAffinityNeeded });
            }
        }
    }

    /// The tasks that left their machines and that such rules select, in the order of the transaction.
    fn left<'a>(&'a self, review: &Review<'_>) -> Vec<Left<'a>> {
        let releases = (0..review.txn.releases.len() as u32).map(Item::Release);
        let evictions = (0..review.txn.evictions.len() as u32).map(Item::Eviction);
        let taken = |item: &Item| review.is_taken(*item);
        // Releases and evictions come first, each with one step.
        let items = releases.chain(evictions).filter(taken).zip(review.steps);
        let left = |(item, step): (Item, &Step)| match *step {
            Step::Removed { task, slot, .. } => {
                Some(Left { item, row: slot as usize, rules: self.rules_of(task)? })
            }
            Step::Placed { .. } | Step::Resized { .. } => None,
        };
        items.filter_map(left).collect()
    }

    fn rules_of(&self, task: TaskId) -> Option<&GroupRules> {
        let (job, task) = self.jobs.task(task)?;
        job.need(task).rules.as_deref()
    }

    /// The items that must be rejected, the last ones of each domain.
    fn needed(&self, left: &[Left<'_>]) -> Vec<Item> {
        let (book, sets) = (&self.facts.rules, &self.facts.sets);
        let mut alone: Vec<Alone> =
            left.iter().flat_map(|left| book.alone_without(left.rules, left.row, sets)).collect();
        alone.sort_unstable_by_key(|alone| (alone.tracker, alone.domain));
        alone.dedup();
        let of_domain = |alone: Alone| {
            let counted =
                move |left: &&Left<'_>| book.is_counted((left.rules, left.row), alone, sets);
            left.iter().rev().filter(counted).take(alone.missing as usize).map(|left| left.item)
        };
        alone.into_iter().flat_map(of_domain).collect()
    }
}
