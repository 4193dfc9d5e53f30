//! The names of deleted jobs and removed machines, which recorded events still refer to by id.

use omega_core::Text;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The latest names. The oldest ones are dropped.
#[derive(Clone, Debug)]
pub(super) struct Departed<Id> {
    names: HashMap<Id, Text>,
    /// The ids in the order of their departure.
    order: VecDeque<Id>,
    max: usize,
}

impl<Id: Copy + Eq + Hash> Departed<Id> {
    /// Creates a table that keeps at most this number of names.
    pub(super) fn new(max: usize) -> Departed<Id> {
        Departed { names: HashMap::new(), order: VecDeque::new(), max }
    }

    pub(super) fn add(&mut self, id: Id, name: Text) {
        if self.names.insert(id, name).is_some() {
            return;
        }
        self.order.push_back(id);
        while self.order.len() > self.max {
            let Some(oldest) = self.order.pop_front() else { return };
            self.names.remove(&oldest);
        }
    }

    pub(super) fn name(&self, id: Id) -> Option<&Text> {
        self.names.get(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_names_are_kept() {
        let mut departed = Departed::new(2);
        for id in [1, 2, 2, 3] {
            departed.add(id, format!("m{id}").as_str().into());
        }
        let name = |id| departed.name(id).map(ToString::to_string);
        assert_eq!([name(1), name(2), name(3)], [None, Some("m2".into()), Some("m3".into())]);
    }
}
