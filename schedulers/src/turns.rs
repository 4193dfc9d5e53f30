//! The jobs that may be tried now, in the order of their turns.
//!
//! Higher precedence first, then the older job. Jobs come almost always in order and leave almost
//! always from the front, so each precedence has a line, in which both cost next to nothing; a job
//! that comes back late is put where it belongs.

use omega_core::{JobId, Precedence};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// Jobs in the order of their turns.
///
/// Invariant: no line is empty, and each is strictly ascending by job.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    lines: BTreeMap<Reverse<Precedence>, VecDeque<JobId>>,
    jobs: usize,
}

impl Turns {
    /// How many jobs there are.
    pub(crate) fn len(&self) -> usize {
        self.jobs
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// The job whose turn it is.
    pub(crate) fn first(&self) -> Option<JobId> {
        self.lines.values().next()?.front().copied()
    }

    /// Adds a job that is not there.
    pub(crate) fn insert(&mut self, precedence: Precedence, id: JobId) {
        let line = self.lines.entry(Reverse(precedence)).or_default();
        match line.back() {
            Some(last) if *last >= id => match line.binary_search(&id) {
                Ok(_) => return,
                Err(at) => line.insert(at, id),
            },
            _ => line.push_back(id),
        }
        self.jobs += 1;
    }

    /// Takes a job out, if it is there.
    pub(crate) fn remove(&mut self, precedence: Precedence, id: JobId) {
        let Some(line) = self.lines.get_mut(&Reverse(precedence)) else { return };
        if line.front() == Some(&id) {
            line.pop_front();
        } else if let Ok(at) = line.binary_search(&id) {
            line.remove(at);
        } else {
            return;
        }
        self.jobs -= 1;
        if line.is_empty() {
            self.lines.remove(&Reverse(precedence));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_goes_before_age_and_age_before_arrival() {
        let mut turns = Turns::default();
        for (precedence, id) in [(0, 3), (5, 9), (0, 1), (5, 4), (0, 2), (0, 2)] {
            turns.insert(Precedence(precedence), JobId(id));
        }
        assert_eq!(turns.len(), 5, "a job is there once");
        turns.remove(Precedence(0), JobId(2));
        turns.remove(Precedence(7), JobId(2));
        let mut order = Vec::new();
        while let Some(id) = turns.first() {
            order.push(id.0);
            turns.remove(Precedence(if id.0 == 9 || id.0 == 4 { 5 } else { 0 }), id);
        }
        assert_eq!(order, [4, 9, 1, 3]);
        assert!(turns.is_empty() && turns.lines.is_empty());
    }
}
