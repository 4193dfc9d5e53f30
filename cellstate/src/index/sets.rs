//! Machine sets: the machines that meet a requirement, as bitmaps.
//!
//! Jobs select machines by labels and taints, which are strings. A decision evaluates thousands of machines in a
//! microsecond, too fast to compare strings. So each distinct requirement is evaluated once per machine into a bitmap,
//! and again only for machines whose description changes. A decision is then an AND of words, each with the bits of 64
//! machines.

use crate::state::map::FastMap;
use omega_core::{Machine, MachineSelector, TaintEffect, Text, Toleration};
use std::sync::Arc;

/// Id of a machine set in one cell or view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId(u32);

/// The condition that the machines of a set meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SetKey {
    /// The machine matches one of these selectors.
    Match(Vec<MachineSelector>),
    /// All `NoSchedule` and `NoExecute` taints of the machine are tolerated.
    Tolerated(Vec<Toleration>),
    /// All `PreferNoSchedule` taints of the machine are tolerated.
    Unmarked(Vec<Toleration>),
    /// A spread counts the machine's tasks.
    Counting(CountingMachines),
    /// The machine has a taint with this key and effect.
    Tainted(Text, TaintEffect),
}

/// The machines whose tasks a spread counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CountingMachines {
    /// The label keys that a machine must have.
    pub keys: Vec<Text>,
    /// If set, the machine must match one of these selectors.
    pub affinity: Option<Vec<MachineSelector>>,
    /// If set, these tolerations must cover all taints of the machine that keep tasks off.
    pub tolerations: Option<Vec<Toleration>>,
}

impl CountingMachines {
    fn include(&self, machine: &Machine) -> bool {
        let matches =
            |all: &Vec<MachineSelector>| all.iter().any(|selector| selector.matches(machine));
        self.keys.iter().all(|key| machine.labels.get(key).is_some())
            && self.affinity.as_ref().is_none_or(matches)
            && self.tolerations.as_ref().is_none_or(|by| tolerated(machine, by))
    }
}

impl SetKey {
    /// Whether a machine meets the condition of the set.
    #[must_use]
    pub fn accepts(&self, machine: &Machine) -> bool {
        match self {
            SetKey::Match(selectors) => selectors.iter().any(|s| s.matches(machine)),
            SetKey::Tolerated(tolerations) => tolerated(machine, tolerations),
            SetKey::Counting(among) => among.include(machine),
            SetKey::Unmarked(tolerations) => {
                covered(machine, tolerations, |effect| effect == TaintEffect::PreferNoSchedule)
            }
            SetKey::Tainted(key, effect) => {
                machine.taints.iter().any(|taint| taint.key == *key && taint.effect == *effect)
            }
        }
    }
}

/// Some of the machines of a block of 64 rows.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// The position of the block among all blocks.
    pub block: usize,
    /// One bit for each row of the block, set for the machines that are meant.
    pub among: u64,
}

/// The differences between the old and the new machine of a row that sets and topology levels depend on.
#[derive(Clone, Copy, Debug)]
pub struct Differences {
    /// Whether the labels or the name differ.
    labels: bool,
    taints: bool,
}

impl Differences {
    /// The differences between two machines. If there is no old or no new machine, everything differs.
    pub fn between(old: Option<&Machine>, new: Option<&Machine>) -> Differences {
        let (Some(old), Some(new)) = (old, new) else {
            return Differences { labels: true, taints: true };
        };
        Differences {
            labels: old.labels != new.labels || old.name != new.name,
            taints: old.taints != new.taints,
        }
    }

    /// Whether there are any.
    pub fn any(self) -> bool {
        self.labels || self.taints
    }

    /// Whether they may change which machines are in the set of a key.
    fn concern(self, key: &SetKey) -> bool {
        match key {
            SetKey::Match(_) => self.labels,
            SetKey::Tolerated(_) | SetKey::Unmarked(_) | SetKey::Tainted(..) => self.taints,
            SetKey::Counting(_) => self.any(),
        }
    }
}

/// Whether each taint that keeps tasks off is tolerated.
fn tolerated(machine: &Machine, by: &[Toleration]) -> bool {
    covered(machine, by, |effect| effect != TaintEffect::PreferNoSchedule)
}

/// Whether each taint whose effect passes the test `effect` is tolerated.
fn covered(machine: &Machine, by: &[Toleration], effect: fn(TaintEffect) -> bool) -> bool {
    let taints = machine.taints.iter().filter(|taint| effect(taint.effect));
    taints.into_iter().all(|taint| by.iter().any(|toleration| toleration.covers(taint)))
}

#[derive(Clone, Debug)]
struct Set {
    key: SetKey,
    users: u32,
    words: Vec<u64>,
    /// One bit for each word of `words`, set if the word is not zero. A search skips the zero words.
    full_words: Vec<u64>,
}

impl Set {
    fn set(&mut self, slot: usize, accepted: bool) {
        set_bit(&mut self.words, slot, accepted);
        set_bit(&mut self.full_words, slot / 64, self.words[slot / 64] != 0);
    }
}

/// A bitmap of machines with its number of set bits.
#[derive(Clone, Debug, Default)]
struct Flagged {
    words: Vec<u64>,
    count: u32,
}

impl Flagged {
    fn set(&mut self, slot: usize, flag: bool) {
        let was = self.words.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1);
        set_bit(&mut self.words, slot, flag);
        self.count = self.count + u32::from(flag) - u32::from(was);
    }
}

/// All sets in use, updated as machines change.
#[derive(Clone, Debug, Default)]
pub struct MachineSets {
    /// The rows with a machine.
    present: Flagged,
    /// Machines with a taint that keeps tasks off. `marked` has the machines with a `PreferNoSchedule` taint.
    tainted: Flagged,
    marked: Flagged,
    sets: Vec<Option<Set>>,
    /// The positions in `sets` without a set.
    free: Vec<SetId>,
    by_key: FastMap<SetKey, SetId>,
    /// Sets without users, in the order in which they became unused. They are kept because later jobs may need them.
    idle: Vec<SetId>,
}

/// Number of unused sets that are kept. Building a set costs an evaluation of every machine; keeping a set costs one
/// bit per machine. Consecutive jobs usually need only a few sets.
const IDLE_MAX: usize = 16;

impl MachineSets {
    /// The set of a key, built if there is none. Each call must be followed by one [`MachineSets::release`].
    pub fn acquire(&mut self, key: SetKey, machines: &[Option<Arc<Machine>>]) -> SetId {
        if let Some(id) = self.by_key.get(&key) {
            if let Some(set) = &mut self.sets[id.0 as usize] {
                if set.users == 0 {
                    self.idle.retain(|idle| idle != id);
                }
                set.users += 1;
            }
            return *id;
        }
        let mut set = Set { key: key.clone(), users: 1, words: Vec::new(), full_words: Vec::new() };
        for (slot, machine) in machines.iter().enumerate() {
            set.set(slot, machine.as_ref().is_some_and(|machine| key.accepts(machine)));
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.sets.push(None);
            SetId(self.sets.len() as u32 - 1)
        });
        self.by_key.insert(key, id);
        self.sets[id.0 as usize] = Some(set);
        id
    }

    /// Adds one user to each of these sets, which must be in use. Each set then needs one more
    /// [`MachineSets::release`].
    pub fn acquire_again(&mut self, sets: impl Iterator<Item = SetId>) {
        for id in sets {
            let set = self.sets[id.0 as usize].as_mut().filter(|set| set.users > 0);
            set.expect("the set is in use").users += 1;
        }
    }

    /// Removes one user of a set. If too many sets are unused, the set that has been unused for the longest time is
    /// dropped.
    pub fn release(&mut self, id: SetId) {
        let Some(set) = self.sets[id.0 as usize].as_mut() else { return };
        set.users -= 1;
        if set.users > 0 {
            return;
        }
        self.idle.push(id);
        if self.idle.len() > IDLE_MAX {
            let oldest = self.idle.remove(0);
            if let Some(forgotten) = self.sets[oldest.0 as usize].take() {
                self.by_key.remove(&forgotten.key);
                self.free.push(oldest);
            }
        }
    }

    /// Whether any machine has a taint that keeps tasks off.
    pub fn any_tainted(&self) -> bool {
        self.tainted.count > 0
    }

    /// Whether any machine has a `PreferNoSchedule` taint.
    pub fn any_marked(&self) -> bool {
        self.marked.count > 0
    }

    /// One bit for each of the 64 rows from `64 * word` on, set if the row has a machine.
    pub fn present_word(&self, word: usize) -> u64 {
        self.present.words.get(word).copied().unwrap_or(0)
    }

    /// The rows that have a machine, in ascending order.
    pub fn present(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.present.words.iter().enumerate();
        words.flat_map(|(i, word)| {
            (0..64).filter(move |b| word >> b & 1 == 1).map(move |b| i * 64 + b)
        })
    }

    /// The number of rows that have a machine.
    pub fn present_count(&self) -> usize {
        self.present.count as usize
    }

    /// Updates the sets for a machine that was added, changed or removed. Returns the number of sets that were
    /// evaluated.
    pub fn set_machine(
        &mut self,
        slot: usize,
        machine: Option<&Machine>,
        differences: Differences,
    ) -> usize {
        self.present.set(slot, machine.is_some());
        let none = SetKey::Tolerated(Vec::new());
        self.tainted.set(slot, machine.is_some_and(|machine| !none.accepts(machine)));
        let none = SetKey::Unmarked(Vec::new());
        self.marked.set(slot, machine.is_some_and(|machine| !none.accepts(machine)));
        let mut evaluated = 0;
        let sets = self.sets.iter_mut().flatten();
        for set in sets.filter(|set| differences.concern(&set.key)) {
            let accepted = machine.is_some_and(|machine| set.key.accepts(machine));
            set.set(slot, accepted);
            evaluated += 1;
        }
        evaluated
    }

    /// Whether the set contains the machine in a row.
    pub fn contains(&self, id: SetId, slot: usize) -> bool {
        self.word(id, slot / 64) >> (slot % 64) & 1 == 1
    }

    /// One bit for each of the 64 rows from `64 * word` on, set if the set contains the machine.
    pub fn word(&self, id: SetId, word: usize) -> u64 {
        let set = self.sets[id.0 as usize].as_ref();
        set.and_then(|set| set.words.get(word)).copied().unwrap_or(0)
    }

    /// One bit for each of the 64 words of a set from `64 * group` on, set if the word is not zero.
    pub fn full_words(&self, id: SetId, group: usize) -> u64 {
        let set = self.sets[id.0 as usize].as_ref();
        set.and_then(|set| set.full_words.get(group)).copied().unwrap_or(0)
    }

    /// Whether a set contains no machine.
    pub fn is_empty(&self, id: SetId) -> bool {
        let set = self.sets[id.0 as usize].as_ref();
        set.is_none_or(|set| set.full_words.iter().all(|word| *word == 0))
    }

    /// Every set in use with its bits, for the audit.
    pub fn iter(&self) -> impl Iterator<Item = (&SetKey, SetId)> {
        let sets = self.sets.iter().enumerate();
        sets.filter_map(|(i, set)| Some((&set.as_ref()?.key, SetId(i as u32))))
    }
}

/// Sets one bit of a bitmap that grows as needed.
fn set_bit(words: &mut Vec<u64>, bit: usize, value: bool) {
    if words.len() <= bit / 64 {
        words.resize(bit / 64 + 1, 0);
    }
    let mask = 1 << (bit % 64);
    if value { words[bit / 64] |= mask } else { words[bit / 64] &= !mask }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Labels, Taint, TolerationOperator};

    fn toleration(key: &str) -> Toleration {
        let (operator, value) = (TolerationOperator::Exists, "".into());
        Toleration { key: Some(key.into()), operator, value, effect: None }
    }

    fn tainted(machine: &Machine, key: &str) -> Machine {
        let taint = Taint { key: key.into(), value: "".into(), effect: TaintEffect::NoSchedule };
        Machine { taints: [taint].into(), ..machine.clone() }
    }

    #[test]
    fn a_change_of_a_machine_evaluates_only_sets_that_depend_on_it() {
        let mut sets = MachineSets::default();
        let ssd = MachineSelector::label("disk", "ssd");
        let keys = [
            SetKey::Match(vec![ssd.clone()]),
            SetKey::Tolerated(vec![toleration("old")]),
            SetKey::Tolerated(vec![toleration("new")]),
            SetKey::Unmarked(Vec::new()),
            SetKey::Tainted("old".into(), TaintEffect::NoSchedule),
            SetKey::Counting(CountingMachines { affinity: Some(vec![ssd]), ..Default::default() }),
        ];
        let plain = Machine::new("box", Amounts::new([1]));
        let grown = Machine { capacity: Amounts::new([2]), ..plain.clone() };
        let labelled = Machine { labels: Labels::new([("disk", "ssd")]), ..grown.clone() };
        let old = tainted(&labelled, "old");
        let renamed = Machine { name: "other".into(), ..old.clone() };
        let states =
            [None, Some(plain), Some(grown), Some(labelled), Some(old), Some(renamed), None];
        let expected = [6, 0, 2, 5, 2, 6];
        let ids = keys.clone().map(|key| sets.acquire(key, &[]));
        for (pair, evaluated) in states.windows(2).zip(expected) {
            let (old, new) = (pair[0].as_ref(), pair[1].as_ref());
            let differences = Differences::between(old, new);
            let count = sets.set_machine(70, new, differences);
            assert_eq!(count, evaluated, "{old:?} to {new:?}");
            for (key, id) in keys.iter().zip(ids) {
                let accepted = new.is_some_and(|new| key.accepts(new));
                assert_eq!(sets.contains(id, 70), accepted, "{key:?} of {new:?}");
            }
        }
    }

    #[test]
    fn dropped_sets_leave_their_places_to_others() {
        let mut sets = MachineSets::default();
        for round in 0..10 {
            let key = |at| SetKey::Tolerated(vec![toleration(&format!("{round}.{at}"))]);
            let ids: Vec<SetId> = (0..100).map(|at| sets.acquire(key(at), &[])).collect();
            let different: std::collections::HashSet<SetId> = ids.iter().copied().collect();
            assert_eq!(different.len(), 100);
            ids.into_iter().for_each(|id| sets.release(id));
            assert_eq!(sets.by_key.len(), IDLE_MAX);
            assert_eq!(sets.sets.iter().flatten().count(), IDLE_MAX);
            assert!(sets.sets.len() <= 100 + IDLE_MAX);
            assert_eq!(sets.free.len(), sets.sets.len() - IDLE_MAX);
        }
    }
}
