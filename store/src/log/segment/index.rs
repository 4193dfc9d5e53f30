//! The index of entries: sixteen bytes per entry in memory. Terms and segments rarely change from one entry to the
//! next, so only their changes are stored.

use super::record::Slot;
use crate::log::{LogIndex, Position, Term};
use std::collections::VecDeque;

/// Values, each with the first index at which it is valid. A value is valid up to the index of the next value.
type Run<T> = VecDeque<(LogIndex, T)>;

/// The entries of a log, by index.
///
/// Invariant: `slots` are the entries after `before`, without a gap. If there are entries, each run begins at or below
/// the first one.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    before: Position,
    slots: VecDeque<Slot>,
    terms: Run<Term>,
    segments: Run<u64>,
}

impl Index {
    /// An empty index, whose first entry will follow this position.
    pub(super) fn after(before: Position) -> Index {
        Index { before, ..Index::default() }
    }

    /// Position before the first entry.
    pub(super) fn before(&self) -> Position {
        self.before
    }

    /// Position of the last entry, or the position before the first if there is none.
    pub(super) fn last(&self) -> Position {
        let index = LogIndex(self.before.index.0 + self.slots.len() as u64);
        Position { index, term: self.term(index).unwrap_or(self.before.term) }
    }

    /// The term of an entry, or of the position before the first entry.
    pub(super) fn term(&self, index: LogIndex) -> Option<Term> {
        if index == self.before.index {
            return Some(self.before.term);
        }
        self.slot(index).and(at(&self.terms, index))
    }

    /// Segment and slot of an entry.
    pub(super) fn find(&self, index: LogIndex) -> Option<(u64, Slot)> {
        Some((at(&self.segments, index)?, self.slot(index)?))
    }

    /// The segment of the first entry after this index. The index must be at least `before`.
    pub(super) fn segment_after(&self, index: LogIndex) -> Option<u64> {
        self.find(index.next()).map(|(segment, _)| segment)
    }

    /// Adds an entry at its index. The earlier entry at this index and all entries after it are removed. If the index
    /// is below that of the first entry, the new entry becomes the first.
    pub(super) fn put(&mut self, position: Position, segment: u64, slot: Slot) {
        let index = position.index;
        if index <= self.before.index {
            let before = LogIndex(index.0.saturating_sub(1));
            *self = Index::after(Position { index: before, term: position.term });
        }
        let place = (index.0 - self.before.index.0 - 1) as usize;
        if place < self.slots.len() && omega_cellstate::injected!(OldTailKept) {
            self.slots[place] = slot;
            return;
        }
        if place < self.slots.len() {
            self.slots.truncate(place);
            truncate(&mut self.terms, index);
            truncate(&mut self.segments, index);
        }
        self.slots.push_back(slot);
        extend(&mut self.terms, index, position.term);
        extend(&mut self.segments, index, segment);
    }

    /// Drops all entries up to a position at or after `before`.
    pub(super) fn forget(&mut self, base: Position) {
        let count = base.index.0.saturating_sub(self.before.index.0);
        if count >= self.slots.len() as u64 {
            *self = Index::after(base);
            return;
        }
        self.slots.drain(..count as usize);
        self.before = base;
        advance(&mut self.terms, base.index.next());
        advance(&mut self.segments, base.index.next());
    }

    fn slot(&self, index: LogIndex) -> Option<Slot> {
        let place = index.0.checked_sub(self.before.index.0)?.checked_sub(1)?;
        self.slots.get(usize::try_from(place).ok()?).copied()
    }
}

fn at<T: Copy>(run: &Run<T>, index: LogIndex) -> Option<T> {
    let after = run.partition_point(|(from, _)| *from <= index);
    run.get(after.checked_sub(1)?).map(|(_, value)| *value)
}

fn truncate<T>(run: &mut Run<T>, from: LogIndex) {
    let keep = run.partition_point(|(start, _)| *start < from);
    run.truncate(keep);
}

fn extend<T: PartialEq>(run: &mut Run<T>, from: LogIndex, value: T) {
    if run.back().is_none_or(|(_, last)| *last != value) {
        run.push_back((from, value));
    }
}

fn advance<T>(run: &mut Run<T>, first: LogIndex) {
    while run.get(1).is_some_and(|(from, _)| *from <= first) {
        run.pop_front();
    }
}
