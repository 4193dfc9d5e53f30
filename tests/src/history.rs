//! Histories: commands applied to two cells and a reference model. A history that fails is shortened.

use crate::compare::{compare, compare_answers};
use crate::events;
use crate::random::Generator;
use crate::reference::Reference;
use omega_cellstate::Cell;
use omega_core::{Command, Kinds, Outcome, Rejection};

/// A cell, a replica of it, and their reference model.
#[derive(Debug)]
pub struct Trio {
    cell: Cell,
    replica: Cell,
    reference: Reference,
}

impl Trio {
    /// Creates two empty cells and an empty model.
    #[must_use]
    pub fn new(kinds: &Kinds) -> Trio {
        let mut cell = Cell::new(kinds.clone());
        // The replica has no history of events, so comparing it shows that events do not change the state.
        cell.keep_history(events::BYTES);
        Trio { cell, replica: Cell::new(kinds.clone()), reference: Reference::new(kinds.clone()) }
    }

    /// The cell, for schedulers in tests.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The reference model, for a generator.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Applies a command to all three, and compares them.
    ///
    /// # Errors
    /// The difference, or the error that the audit found.
    pub fn step(&mut self, command: &Command) -> Result<(), String> {
        self.answer(command).map(drop)
    }

    /// Applies a command to all three, compares them, and returns the result.
    ///
    /// # Errors
    /// The difference, or the error that the audit found.
    pub fn answer(&mut self, command: &Command) -> Result<Result<Outcome, Rejection>, String> {
        let hash = self.cell.state_hash();
        let answer = self.cell.apply(command.clone());
        if answer.is_err() && self.cell.state_hash() != hash {
            return Err(format!("a refused command changed the state: {answer:?}"));
        }
        if self.replica.apply(command.clone()) != answer {
            return Err("two replicas answer differently".to_owned());
        }
        if self.cell.state_hash() != self.replica.state_hash() {
            return Err("two replicas have different hashes".to_owned());
        }
        compare_answers(answer.clone(), self.reference.apply(command.clone()))?;
        compare(&self.cell, &self.reference)?;
        self.cell.audit().map_err(|error| format!("audit: {error}"))?;
        events::check(&self.cell)?;
        Ok(answer)
    }
}

/// A failed history.
#[derive(Debug)]
pub struct Failure {
    /// The resource kinds of the cell.
    pub kinds: Kinds,
    /// The commands of the history; the last one fails.
    pub commands: Vec<Command>,
    /// The error.
    pub what: String,
}

/// Returns the generator for a seed. Every other history has allocations that differ from the request, and every other
/// pair of histories has exclusive cores. Of three histories, one has peak calendars, and one has reports of use. Of
/// twelve, one has results of updates.
fn generator(seed: u64) -> Generator {
    let generator = Generator::with_holders(seed)
        .with_reservations(seed)
        .with_cluster_resources(seed)
        .with_updates(seed);
    let generator = if seed % 2 == 1 { generator.with_held(seed) } else { generator };
    let generator = if seed % 4 >= 2 { generator.with_cores(seed) } else { generator };
    let generator = if seed % 12 == 11 { generator.with_results(seed) } else { generator };
    match seed % 3 {
        0 => generator.with_peaks(seed),
        1 => generator.with_uses(seed),
        _ => generator,
    }
}

/// The commands of a random history, with the kinds of its cell.
#[must_use]
pub fn commands(seed: u64, length: usize) -> (Kinds, Vec<Command>) {
    let mut generator = generator(seed);
    let mut reference = Reference::new(generator.kinds());
    let mut next = || {
        let command = generator.next(&reference);
        // A rejected command is part of the history, too.
        drop(reference.apply(command.clone()));
        command
    };
    let commands = (0..length).map(|_| next()).collect();
    (generator.kinds(), commands)
}

/// Runs a random history of this many commands.
///
/// # Errors
/// If it fails.
pub fn run(seed: u64, length: usize) -> Result<(), Failure> {
    let mut generator = generator(seed);
    let kinds = generator.kinds();
    let mut trio = Trio::new(&kinds);
    let mut commands = Vec::new();
    for _ in 0..length {
        commands.push(generator.next(trio.reference()));
        let command = &commands[commands.len() - 1];
        if let Err(what) = guarded(|| trio.step(command)) {
            return Err(Failure { kinds, commands, what });
        }
    }
    Ok(())
}

/// Removes commands from a failed history as long as it still fails.
#[must_use]
pub fn shorten(mut failure: Failure) -> Failure {
    let mut size = failure.commands.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < failure.commands.len() {
            let mut fewer = failure.commands.clone();
            fewer.drain(at..(at + size).min(fewer.len()));
            match replay(&failure.kinds, fewer) {
                Some(shorter) => failure = shorter,
                None => at += size,
            }
        }
        size /= 2;
    }
    failure
}

/// Applies commands. Returns their failure, if there is one.
fn replay(kinds: &Kinds, mut commands: Vec<Command>) -> Option<Failure> {
    let mut trio = Trio::new(kinds);
    for i in 0..commands.len() {
        if let Err(what) = guarded(|| trio.step(&commands[i])) {
            commands.truncate(i + 1);
            return Some(Failure { kinds: kinds.clone(), commands, what });
        }
    }
    None
}

/// Converts a panic into a failure, so that a history that panics is shortened, too.
fn guarded(step: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step));
    caught.unwrap_or_else(|_| Err("a panic; its message is above".to_owned()))
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}\nafter", self.what)?;
        self.commands.iter().try_for_each(|command| writeln!(f, "  {command:?}"))
    }
}
