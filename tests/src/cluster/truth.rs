//! The agreed log of the replicas: the entries in order, and the reference cell that applies them.
//!
//! The first replica that applies an entry defines it. Every other replica must apply an equal entry, and must then
//! have the state of the reference cell, which has no faults.

use super::injected_bugs;
use crate::compare::compare_answers;
use crate::reference::Reference;
use omega_cellstate::Cell;
use omega_core::{Command, Kinds, Outcome, Rejection, Version};
use omega_store::log::{Entry, EntryKind, LogIndex};
use omega_store::membership::Membership;
use omega_store::replica::FIRST;
use std::collections::{BTreeMap, HashMap};

/// Number of entries between two comparisons of whole states, in the simulation. In between, the fingerprints of all
/// outcomes are compared.
pub const ENTRIES_BETWEEN: u64 = 8;

/// An applied command and its outcome.
#[derive(Clone, Debug)]
pub struct Done {
    /// Index of the entry.
    pub index: LogIndex,
    /// The command.
    pub command: Command,
    /// Outcome of the command.
    pub outcome: Result<Outcome, Rejection>,
    /// The cell's version after the command.
    pub version: Version,
}

/// Fault-free cell to compare with; see the head of the file.
#[derive(Debug)]
pub struct Truth {
    entries: Vec<Entry>,
    /// Number of entries from one state hash to the next.
    between: u64,
    /// State hashes of the initial state and after every `between` entries.
    hashes: BTreeMap<LogIndex, u64>,
    /// The fingerprint of all outcomes after each entry, from the first replica that applied it.
    fingerprints: HashMap<LogIndex, u64>,
    /// All applied commands, in order.
    pub done: Vec<Done>,
    cell: Cell,
    reference: Reference,
    /// Membership after each entry for which it was compared.
    members: BTreeMap<LogIndex, Membership>,
}

impl Truth {
    /// Creates an empty log with an empty cell.
    #[must_use]
    pub fn new(kinds: &Kinds) -> Truth {
        Truth::sampled(kinds, 1)
    }

    /// Creates an empty log. The whole state is hashed and audited only after every `between` entries.
    #[must_use]
    pub fn sampled(kinds: &Kinds, between: u64) -> Truth {
        let cell = Cell::new(kinds.clone());
        Truth {
            between,
            entries: Vec::new(),
            hashes: BTreeMap::from([(FIRST.index, cell.state_hash())]),
            fingerprints: HashMap::new(),
            done: Vec::new(),
            cell,
            reference: Reference::new(kinds.clone()),
            members: BTreeMap::new(),
        }
    }

    /// Applies a command that created the cell's initial state.
    ///
    /// # Errors
    /// If the reference rejects the command, or has another result.
    pub fn founded_with(&mut self, command: Command) -> Result<(), String> {
        self.do_command(FIRST.index, command)?;
        self.hashes = BTreeMap::from([(FIRST.index, self.cell.state_hash())]);
        Ok(())
    }

    /// Index of the last entry.
    #[must_use]
    pub fn last(&self) -> LogIndex {
        LogIndex(FIRST.index.0 + self.entries.len() as u64)
    }

    /// The state after the last entry, for clients that choose commands.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The state after the last entry, as a cell.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Checks an entry that a replica has applied.
    ///
    /// # Errors
    /// The first difference.
    pub fn applied(&mut self, entry: &Entry) -> Result<(), String> {
        let index = entry.position.index;
        if index == self.last().next() {
            return self.learn(entry);
        }
        let place = index.0.checked_sub(FIRST.index.0 + 1);
        let known = place.and_then(|place| self.entries.get(place as usize));
        match known {
            Some(known) if known == entry => Ok(()),
            Some(known) => Err(format!(
                "entry {index} was applied twice, and differs: {:?} and {:?}",
                known.position, entry.position
            )),
            None => Err(format!("entry {index} was applied after {}", self.last())),
        }
    }

    fn learn(&mut self, entry: &Entry) -> Result<(), String> {
        let index = entry.position.index;
        if entry.kind == EntryKind::Commands {
            let commands = omega_store::codec::decode_entry(&entry.data);
            let commands = commands.map_err(|error| format!("entry {index}: {error}"))?;
            for command in commands {
                self.do_command(index, command)?;
            }
        }
        self.entries.push(entry.clone());
        if index.0.is_multiple_of(self.between) {
            self.hashes.insert(index, self.cell.state_hash());
            self.cell.audit().map_err(|error| format!("entry {index}: audit: {error}"))?;
        }
        Ok(())
    }

    fn do_command(&mut self, index: LogIndex, command: Command) -> Result<(), String> {
        let outcome = injected_bugs::without_bugs(|| self.cell.apply(command.clone()));
        let reference = self.reference.apply(command.clone());
        compare_answers(outcome.clone(), reference)
            .map_err(|error| format!("entry {index}: {error}"))?;
        let version = self.cell.version();
        self.done.push(Done { index, command, outcome, version });
        Ok(())
    }

    /// Compares a replica's state hash after an entry, if the reference was hashed there.
    ///
    /// # Errors
    /// If the hashes differ.
    pub fn compare(&self, index: LogIndex, hash: u64) -> Result<(), String> {
        if index > self.last() {
            return Err(format!("nobody has applied entry {index}"));
        }
        match self.hashes.get(&index) {
            Some(known) if *known != hash => {
                Err(format!("after entry {index} the state is another one"))
            }
            _ => Ok(()),
        }
    }

    /// Compares a replica's fingerprint of all outcomes, and its state, after an entry.
    ///
    /// # Errors
    /// If they differ from those of the reference.
    pub fn compare_all(
        &mut self,
        index: LogIndex,
        fingerprint: u64,
        cell: &Cell,
    ) -> Result<(), String> {
        if index > self.last() {
            return Err(format!("nobody has applied entry {index}"));
        }
        let known = *self.fingerprints.entry(index).or_insert(fingerprint);
        if known != fingerprint {
            return Err(format!("after entry {index} the outcomes had another fingerprint"));
        }
        if self.hashes.contains_key(&index) {
            self.compare(index, cell.state_hash())
        } else {
            Ok(())
        }
    }

    /// Compares the state of a replica that has applied all entries. It must be called when no further entries are
    /// written.
    ///
    /// # Errors
    /// If the states differ.
    pub fn compare_last(&self, cell: &Cell) -> Result<(), String> {
        if cell.state_hash() == self.cell.state_hash() {
            return Ok(());
        }
        Err(format!("after the last entry {} the state is another one", self.last()))
    }

    /// Checks a replica's membership after an entry.
    ///
    /// # Errors
    /// If another replica has a different membership, or the membership contains a replica that was removed before.
    pub fn members(&mut self, index: LogIndex, members: &Membership) -> Result<(), String> {
        let known = self.members.entry(index).or_insert_with(|| members.clone());
        if known != members {
            return Err(format!("after entry {index} the members are {members:?} and {known:?}"));
        }
        let now = members.members();
        let before = self.members.range(..index).next_back();
        let after = self.members.range(index.next()..).next();
        let returned = |(_, past): (_, &Membership)| {
            let past_highest = past.highest;
            let past = past.members();
            now.iter().find(|id| !past.contains(id) && Some(**id) <= past_highest).copied()
        };
        if let Some(id) = before.and_then(returned) {
            return Err(format!("after entry {index} {id} is a member, which was used before"));
        }
        let lost = after.is_some_and(|(_, later)| later.highest < members.highest);
        if lost { Err(format!("entry {index}: the highest id went down")) } else { Ok(()) }
    }
}
