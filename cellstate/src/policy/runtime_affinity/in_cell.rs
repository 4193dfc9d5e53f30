//! The check of a transaction's releases and evictions.

use super::RuntimeAffinity;
use crate::cell::Cell;
use crate::commit::{Review, Scope, Step};
use crate::policy::CellPolicy;
use crate::rules::{GroupRules, Unmet};
use omega_core::transaction::Item;
use omega_core::{Conflict, Reason, TaskId};

impl CellPolicy for RuntimeAffinity {
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
    /// Adds conflicts for the items that the scope of the review selects: those that break a runtime affinity, or all
    /// that could break one.
    fn add_runtime_affinity_conflicts(&self, review: &Review<'_>, late: &mut Vec<Conflict>) {
        let rule_index = &self.machine_index.rules;
        let left = self.left(review);
        let stays: Vec<Item> = match review.scope {
            Scope::All => left
                .iter()
                .filter(|l| rule_index.may_be_runtime_affinity(l.rules))
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

    /// The tasks that left their machines, in the order of the transaction. Tasks that no rule concerns are skipped.
    fn left<'a>(&'a self, review: &Review<'_>) -> Vec<Left<'a>> {
        let releases = (0..review.txn.releases.len() as u32).map(Item::Release);
        let evictions = (0..review.txn.evictions.len() as u32).map(Item::Eviction);
        let taken = |item: &Item| review.is_accepted(*item);
        // Each accepted release and eviction has one step, and these steps come first.
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

    /// The items to reject: for each domain that lacks tasks, the last items that removed a missing task.
    fn needed(&self, left: &[Left<'_>]) -> Vec<Item> {
        let (rule_index, sets) = (&self.machine_index.rules, &self.machine_index.sets);
        let mut unmet: Vec<Unmet> = left
            .iter()
            .flat_map(|left| rule_index.unmet_without(left.rules, left.row, sets))
            .collect();
        unmet.sort_unstable_by_key(|unmet| (unmet.tracker, unmet.domain));
        unmet.dedup();
        let of_domain = |unmet: Unmet| {
            let counted =
                move |left: &&Left<'_>| rule_index.is_counted(left.rules, left.row, unmet, sets);
            left.iter().rev().filter(counted).take(unmet.missing as usize).map(|left| left.item)
        };
        unmet.into_iter().flat_map(of_domain).collect()
    }
}
