//! Runtime affinity: the check of releases and evictions that would break a placed task's affinity.
//!
//! It runs after all items of a transaction, because the dependent task may leave in the same transaction, and other
//! tasks that it can depend on may arrive. If several tasks leave a domain, the last items are rejected, as many as
//! needed.

use super::{Ledger, Policy};
use crate::cell::Cell;
use crate::commit::{Review, Scope, Step};
use crate::facts::Facts;
use crate::rules::{Alone, GroupRules};
use omega_core::transaction::Item;
use omega_core::{Conflict, Job, Reason, TaskGroup, TaskId};

/// The policy of runtime affinity. It has no state besides the counters of rules.
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

    /// Every group, because any job's rule may select tasks of any other job.
    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        true
    }

    fn check_all(cell: &Cell, review: &Review<'_>, _: &mut (), late: &mut Vec<Conflict>) {
        if !review.txn.releases.is_empty() || !review.txn.evictions.is_empty() {
            cell.add_runtime_affinity_conflicts(review, late);
        }
    }
}

/// A task that left its machine in a transaction.
struct Left<'a> {
    item: Item,
    row: usize,
    rules: &'a GroupRules,
}

impl Cell {
    /// Adds conflicts for the items that break an affinity, or for all items that could, depending on the scope of the
    /// review.
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

    /// The tasks that left their machines and have rules or are selected by rules, in the order of the transaction.
    fn left<'a>(&'a self, review: &Review<'_>) -> Vec<Left<'a>> {
        let releases = (0..review.txn.releases.len() as u32).map(Item::Release);
        let evictions = (0..review.txn.evictions.len() as u32).map(Item::Eviction);
        let taken = |item: &Item| review.is_taken(*item);
        // The steps begin with those of releases and evictions, one for each.
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

    /// The items that must be rejected, which are the last ones of each domain.
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
