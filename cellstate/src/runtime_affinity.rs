//! What may not leave: releases and evictions that would leave a task alone that needs runtime affinity.
//!
//! It is seen when all of a transaction has been judged, because those who need the runtime affinity may leave in the
//! same transaction, and others may come. Of several that leave a domain the last ones stay, as many as
//! are needed.

use crate::cell::Cell;
use crate::commit::{Scratch, Step};
use crate::rules::{Alone, GroupRules};
use omega_core::transaction::Item;
use omega_core::{Conflict, Reason, TaskId, Transaction};

/// A task that has left its machine in a transaction.
struct Left<'a> {
    item: Item,
    row: usize,
    rules: &'a GroupRules,
}

impl Cell {
    /// Adds to the late conflicts those that leave somebody alone. With `all`, everything that could.
    pub(crate) fn add_runtime_affinity_conflicts(
        &self,
        (txn, scratch): (&Transaction, &Scratch),
        all: bool,
        late: &mut Vec<Conflict>,
    ) {
        if !scratch.runtime_affinity {
            return;
        }
        let book = &self.facts.rules;
        let left = self.left(txn, scratch);
        let stays: Vec<Item> = match all {
            true => left
                .iter()
                .filter(|l| book.may_be_runtime_affinity(l.rules))
                .map(|left| left.item)
                .collect(),
            false => self.needed(&left),
        };
        for item in stays {
            if late.iter().all(|conflict| conflict.item != item) {
                late.push(Conflict { item, reason: Reason::RuntimeAffinityNeeded });
            }
        }
    }

    /// The tasks that have left and that rules are about, in the order of the transaction.
    fn left<'a>(&'a self, txn: &Transaction, scratch: &Scratch) -> Vec<Left<'a>> {
        let taken = |item: &Item| {
            scratch.conflicts.binary_search_by(|conflict| conflict.item.cmp(item)).is_err()
        };
        let releases = (0..txn.releases.len() as u32).map(Item::Release);
        let evictions = (0..txn.evictions.len() as u32).map(Item::Eviction);
        // What leaves is done first, each in one step.
        let items = releases.chain(evictions).filter(taken).zip(&scratch.steps);
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

    /// Those of them that are needed where they were, the last ones of each domain.
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
