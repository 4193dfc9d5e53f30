//! Which machines meet a requirement: one bit for each machine.
//!
//! Jobs name machines by labels and taints, which are strings; decisions ask about thousands of
//! machines in a microsecond. So each distinct requirement is evaluated once for each machine,
//! into a bitmap, and again only for a machine whose description changes. A decision is then an
//! AND over words of 64 machines.

use crate::map::FastMap;
use omega_core::{Machine, MachineSelector, TaintEffect, Text, Toleration};
use std::sync::Arc;

/// A set of machines, in the cell or view that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId(u32);

/// What the machines of a set have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SetKey {
    /// They match one of these selectors.
    Match(Vec<MachineSelector>),
    /// Every taint of theirs that keeps tasks off is covered by one of these tolerations.
    Tolerated(Vec<Toleration>),
    /// Every taint of theirs that asks tasks to stay away is covered by one of these tolerations.
    Unmarked(Vec<Toleration>),
    /// Those on which a spread counts.
    Counting(CountingMachines),
    /// They have a taint of this key and effect.
    Tainted(Text, TaintEffect),
}

/// The machines on which a spread counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CountingMachines {
    /// They have labels of all these keys,
    pub keys: Vec<Text>,
    /// match one of these selectors, if they are given,
    pub affinity: Option<Vec<MachineSelector>>,
    /// and these tolerations, if they are given, cover their taints.
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
    /// Whether a machine belongs to the set.
    #[must_use]
    pub(crate) fn accepts(&self, machine: &Machine) -> bool {
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

/// Whether each taint that keeps tasks off is covered by a toleration.
fn tolerated(machine: &Machine, by: &[Toleration]) -> bool {
    covered(machine, by, |effect| effect != TaintEffect::PreferNoSchedule)
}

/// Whether each taint with such an effect is covered by a toleration.
fn covered(machine: &Machine, by: &[Toleration], effect: fn(TaintEffect) -> bool) -> bool {
    let taints = machine.taints.iter().filter(|taint| effect(taint.effect));
    taints.into_iter().all(|taint| by.iter().any(|toleration| toleration.covers(taint)))
}

#[derive(Clone, Debug)]
struct Set {
    key: SetKey,
    users: u32,
    words: Vec<u64>,
    /// One bit for each word that is not zero, so that a search skips what a small set leaves out.
    full_words: Vec<u64>,
}

impl Set {
    fn set(&mut self, slot: usize, accepted: bool) {
        set_bit(&mut self.words, slot, accepted);
        set_bit(&mut self.full_words, slot / 64, self.words[slot / 64] != 0);
    }
}

/// Some machines, and how many.
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

/// The sets in use, kept true as machines change.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineSets {
    /// Machines that are there.
    present: Flagged,
    /// Machines with a taint that keeps tasks off, and with one that asks them to stay away.
    tainted: Flagged,
    marked: Flagged,
    sets: Vec<Option<Set>>,
    by_key: FastMap<SetKey, SetId>,
    /// Sets without users, the longest unused first: the next job may well want the same one.
    idle: Vec<SetId>,
}

/// Unused sets that are kept. To make a set costs a look at every machine, to keep one a bit of
/// every machine; jobs that come one after another mostly ask for one of a few.
const IDLE_MAX: usize = 16;

impl MachineSets {
    /// The set of a key, made if it is new. Each call needs one [`MachineSets::release`].
    pub(crate) fn acquire(&mut self, key: SetKey, machines: &[Option<Arc<Machine>>]) -> SetId {
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
        let free = self.sets.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.sets.push(None);
            self.sets.len() - 1
        });
        let id = SetId(index as u32);
        self.by_key.insert(key, id);
        self.sets[index] = Some(set);
        id
    }

    /// Gives a set back. If too many are unused, the one that was so for longest is forgotten.
    pub(crate) fn release(&mut self, id: SetId) {
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
            }
        }
    }

    /// Whether any machine has a taint that keeps tasks off.
    pub(crate) fn any_tainted(&self) -> bool {
        self.tainted.count > 0
    }

    /// Whether any machine has a `PreferNoSchedule` taint.
    pub(crate) fn any_marked(&self) -> bool {
        self.marked.count > 0
    }

    /// The machines `64 * word ..` that are there.
    pub(crate) fn present_word(&self, word: usize) -> u64 {
        self.present.words.get(word).copied().unwrap_or(0)
    }

    /// The rows that have a machine, ascending.
    pub(crate) fn present(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.present.words.iter().enumerate();
        words.flat_map(|(i, word)| {
            (0..64).filter(move |b| word >> b & 1 == 1).map(move |b| i * 64 + b)
        })
    }

    /// How many rows have a machine.
    pub(crate) fn present_count(&self) -> usize {
        self.present.count as usize
    }

    /// Notes that a machine came, changed or went.
    pub(crate) fn set_machine(&mut self, slot: usize, machine: Option<&Machine>) {
        self.present.set(slot, machine.is_some());
        let none = SetKey::Tolerated(Vec::new());
        self.tainted.set(slot, machine.is_some_and(|machine| !none.accepts(machine)));
        let none = SetKey::Unmarked(Vec::new());
        self.marked.set(slot, machine.is_some_and(|machine| !none.accepts(machine)));
        for set in self.sets.iter_mut().flatten() {
            let accepted = machine.is_some_and(|machine| set.key.accepts(machine));
            set.set(slot, accepted);
        }
    }

    /// Whether the set holds the machine in this row.
    pub(crate) fn contains(&self, id: SetId, slot: usize) -> bool {
        self.word(id, slot / 64) >> (slot % 64) & 1 == 1
    }

    /// The bits of machines `64 * word ..`.
    pub(crate) fn word(&self, id: SetId, word: usize) -> u64 {
        let set = self.sets[id.0 as usize].as_ref();
        set.and_then(|set| set.words.get(word)).copied().unwrap_or(0)
    }

    /// One bit for each of the 64 words from `64 * group` on that has a machine.
    pub(crate) fn full_words(&self, id: SetId, group: usize) -> u64 {
        let set = self.sets[id.0 as usize].as_ref();
        set.and_then(|set| set.full_words.get(group)).copied().unwrap_or(0)
    }

    /// Whether a set holds no machine.
    pub(crate) fn is_empty(&self, id: SetId) -> bool {
        let set = self.sets[id.0 as usize].as_ref();
        set.is_none_or(|set| set.full_words.iter().all(|word| *word == 0))
    }

    /// Every set in use with its bits, for the audit.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SetKey, SetId)> {
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
    match value {
        true => words[bit / 64] |= mask,
        false => words[bit / 64] &= !mask,
    }
}
