//! The checker of histories: the answers to clients against the agreed log.
//!
//! Each answer carries the version of the cell that it is true of, so no search is needed: the agreed
//! commands are applied once more, in order, to a cell of the checker's own, and each answer is
//! compared with what that cell says at its place. Then the places are compared with the clock.
//!
//! 1. A transaction is taken at most once: all further copies of it get the first one's answer.
//! 2. What a client was told, it was told of something that was agreed on, with that very outcome;
//!    or it is a refusal, and a cell of the version that it names refuses the same.
//! 3. What a client was told was not done, is not among what was agreed on.
//! 4. Whatever was asked after something was answered comes after it.
//! 5. A read sees at least what was answered before it was asked; neither it nor a refusal sees what
//!    was asked only after it was answered.
//! 6. Whatever was agreed on, somebody asked for, as often.

use super::truth::{Done, Truth};
use omega_cellstate::Cell;
use omega_core::{Command, Commit, Kinds, Outcome, Rejection, Transaction, TransactionId, Version};
use omega_store::codec;
use std::collections::BTreeMap;

/// The earliest time that the clock of a replica shows; clients that ask for an `Expire` begin far before it.
const CLOCK_MS_MIN: u64 = 9_000_000_000;

/// Result of a request that a client learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet, or that nobody knows.
    Unknown,
    /// Nothing was done.
    NotDone,
    /// It got this answer.
    Answered(Result<Outcome, Rejection>),
}

/// A command that a client asked for, once or again and again.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The command.
    pub command: Command,
    /// When it was first asked for.
    pub invoked: u64,
    /// When the client learned its fate.
    pub completed: u64,
    /// Its fate.
    pub fate: Fate,
}

/// A read that saw all that was answered before.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// When it was asked for.
    pub invoked: u64,
    /// When it was answered.
    pub completed: u64,
    /// The version that it may be answered with.
    pub version: Version,
}

/// All that clients did and learned.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Commands.
    pub asked: Vec<Asked>,
    /// Reads.
    pub reads: Vec<Read>,
}

/// Compares what clients were told with what was agreed on.
///
/// # Errors
/// The first difference.
pub fn check(history: &History, truth: &Truth) -> Result<(), String> {
    check_against(history, &truth.done, truth.cell().kinds())
}

/// Checks against the given log.
///
/// # Errors
/// The first difference.
pub fn check_against(history: &History, done: &[Done], kinds: &Kinds) -> Result<(), String> {
    let places = replay(done, kinds)?;
    let mut used = vec![false; done.len()];
    let mut placed = Vec::new();
    let mut refusals = Vec::new();
    for asked in &history.asked {
        match place_of(asked, done, &places, &mut used)? {
            Place::At(at) => placed.push((asked, at)),
            Place::Refused(commit) => refusals.push((asked, commit)),
            Place::Nowhere => {}
        }
    }
    check_asked(history, done)?;
    check_refusals(&refusals, done, kinds)?;
    check_order(&placed)?;
    check_reads(&history.reads, &placed, done)?;
    check_future(history, &refusals, done)
}

/// Where each transaction was first taken.
type Places = BTreeMap<TransactionId, usize>;

/// Applies what was agreed on once more.
fn replay(done: &[Done], kinds: &Kinds) -> Result<Places, String> {
    let mut cell = Cell::new(kinds.clone());
    let mut places = Places::new();
    let mut last = Version(0);
    for (at, one) in done.iter().enumerate() {
        let outcome = cell.apply(one.command.clone());
        if outcome != one.outcome {
            return Err(format!("command {at} had another outcome: {:?}", one.outcome));
        }
        if one.version != cell.version() || one.version < last || one.version.0 > last.0 + 1 {
            return Err(format!("command {at} has version {}, after {last}", one.version));
        }
        last = one.version;
        let Command::Commit(txn) = &one.command else { continue };
        let first = *places.entry(txn.id).or_insert(at);
        let same = done[first].command == one.command;
        if first != at && same && done[first].outcome != one.outcome && is_recent(one) {
            return Err(format!("transaction {:?} was judged twice", txn.id));
        }
    }
    Ok(places)
}

/// Whether an answer is not that the first one is forgotten.
fn is_recent(one: &Done) -> bool {
    !matches!(one.outcome, Err(Rejection::Transaction(_)))
}

enum Place {
    At(usize),
    Refused(Commit),
    Nowhere,
}

/// Finds what was agreed on for what a client asked.
fn place_of(
    asked: &Asked,
    done: &[Done],
    places: &Places,
    used: &mut [bool],
) -> Result<Place, String> {
    let at = match &asked.command {
        Command::Commit(txn) => places.get(&txn.id).copied(),
        command => {
            // Nothing names it, so it is the first one that fits.
            let fits = |at: &usize| {
                let answered = match &asked.fate {
                    Fate::Answered(outcome) => done[*at].outcome == *outcome,
                    _ => true,
                };
                !used[*at] && done[*at].command == *command && answered
            };
            (0..done.len()).find(fits)
        }
    };
    match (&asked.fate, at) {
        (Fate::Unknown, Some(at)) => {
            // It was done, but may also be somebody else's.
            if matches!(asked.command, Command::Commit(_)) {
                return Ok(Place::At(at));
            }
            Ok(Place::Nowhere)
        }
        (Fate::Unknown, None) | (Fate::NotDone, None) => Ok(Place::Nowhere),
        (Fate::NotDone, Some(at)) => match &asked.command {
            Command::Commit(txn) => {
                Err(format!("{:?} was said to be not done, and is command {at}", txn.id))
            }
            _ => Ok(Place::Nowhere),
        },
        (Fate::Answered(outcome), Some(at)) if done[at].outcome == *outcome => {
            used[at] = true;
            Ok(Place::At(at))
        }
        (Fate::Answered(outcome), at) => match (outcome, at, &asked.command) {
            (Ok(Outcome::Commit(commit)), None, _) => Ok(Place::Refused(commit.clone())),
            (Err(Rejection::Transaction(_)), _, _) => Ok(Place::Nowhere),
            (_, None, Command::Commit(_)) => Err(format!("answered out of nothing: {asked:?}")),
            (_, None, _) => Err(format!("answered, and nowhere to be found: {asked:?}")),
            (_, Some(at), _) => {
                Err(format!("answered {outcome:?}, but command {at} had {:?}", done[at].outcome))
            }
        },
    }
}

/// Whether each refusal is true of the version that it names.
fn check_refusals(
    refusals: &[(&Asked, Commit)],
    done: &[Done],
    kinds: &Kinds,
) -> Result<(), String> {
    let mut by_version: BTreeMap<Version, Vec<(&Asked, &Commit)>> = BTreeMap::new();
    for (asked, commit) in refusals {
        by_version.entry(commit.version).or_default().push((asked, commit));
    }
    let mut cell = Cell::new(kinds.clone());
    let mut applied = 0;
    for (version, refused) in by_version {
        while cell.version() < version {
            let Some(one) = done.get(applied) else {
                return Err(format!("a refusal is of version {version}, which never was"));
            };
            drop(cell.apply(one.command.clone()));
            applied += 1;
        }
        for (asked, commit) in refused {
            let Command::Commit(txn) = &asked.command else {
                return Err(format!("a refusal of what is no transaction: {asked:?}"));
            };
            check_refusal(&mut cell.clone(), txn, commit)?;
        }
    }
    Ok(())
}

fn check_refusal(cell: &mut Cell, txn: &Transaction, commit: &Commit) -> Result<(), String> {
    if commit.version < txn.base {
        return Err(format!("{:?} was refused at a version before its base", txn.id));
    }
    if commit.conflicts.len() < txn.items() {
        return Err(format!("{:?} was answered as taken, and never was agreed on", txn.id));
    }
    match cell.commit(txn) {
        Ok(judged) if judged.conflicts == commit.conflicts => Ok(()),
        other => Err(format!("{:?} was refused with {commit:?}, but is {other:?}", txn.id)),
    }
}

/// Whether what was asked after something was answered comes after it.
fn check_order(placed: &[(&Asked, usize)]) -> Result<(), String> {
    let mut by_start: Vec<_> = placed.to_vec();
    by_start.sort_by_key(|(asked, _)| asked.invoked);
    let answered = |asked: &Asked| matches!(asked.fate, Fate::Answered(_));
    let mut by_end: Vec<_> = placed.iter().filter(|(asked, _)| answered(asked)).collect();
    by_end.sort_by_key(|(asked, _)| asked.completed);
    let mut ended = by_end.into_iter().peekable();
    let mut latest = None;
    for (asked, at) in by_start {
        while let Some((_, before)) = ended.next_if(|(one, _)| one.completed < asked.invoked) {
            latest = latest.max(Some(*before));
        }
        // Only transactions are surely what was asked for.
        let own = matches!(asked.command, Command::Commit(_));
        if own && latest.is_some_and(|latest| latest > at) {
            return Err(format!(
                "command {at} was asked for after command {latest:?} was answered, and comes before it"
            ));
        }
    }
    Ok(())
}

/// Whether each read sees what was answered before.
fn check_reads(reads: &[Read], placed: &[(&Asked, usize)], done: &[Done]) -> Result<(), String> {
    let mut by_start = reads.to_vec();
    by_start.sort_by_key(|read| read.invoked);
    let answered = placed.iter().filter(|(asked, _)| matches!(asked.fate, Fate::Answered(_)));
    let mut by_end: Vec<(u64, Version)> =
        answered.map(|(asked, at)| (asked.completed, done[*at].version)).collect();
    by_end.sort_unstable();
    let mut ended = by_end.into_iter().peekable();
    let mut seen = None;
    for read in by_start {
        while let Some((_, version)) = ended.next_if(|(completed, _)| *completed < read.invoked) {
            seen = seen.max(Some(version));
        }
        if seen.is_some_and(|seen| seen > read.version) {
            return Err(format!(
                "a read saw version {}, after {seen:?} was answered",
                read.version
            ));
        }
    }
    Ok(())
}

/// Whether somebody asked for what was agreed on.
fn check_asked(history: &History, done: &[Done]) -> Result<(), String> {
    let mut asked: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for one in history.asked.iter().filter(|one| one.fate != Fate::NotDone) {
        *asked.entry(name_of(&one.command)?).or_default() += 1;
    }
    for (at, one) in done.iter().enumerate() {
        let left = asked.get_mut(&name_of(&one.command)?);
        let Some(left) = left.filter(|left| **left > 0) else {
            if is_of_clock(&one.command) {
                continue;
            }
            return Err(format!("command {at} was not asked for, or not as often: {one:?}"));
        };
        // A transaction may come again and again.
        if !matches!(one.command, Command::Commit(_)) {
            *left -= 1;
        }
    }
    Ok(())
}

/// Whether a leader may have put a command in the log by itself: it tells the cell the time by its clock.
fn is_of_clock(command: &Command) -> bool {
    matches!(command, Command::Expire { now_ms } if *now_ms >= CLOCK_MS_MIN)
}

/// Tells commands apart.
fn name_of(command: &Command) -> Result<Vec<u8>, String> {
    let mut name = Vec::new();
    codec::encode(command, &mut name).map_err(|error| error.to_string())?;
    Ok(name)
}

/// Whether nobody was told of a version that nobody had asked for yet.
fn check_future(
    history: &History,
    refusals: &[(&Asked, Commit)],
    done: &[Done],
) -> Result<(), String> {
    let made = versions_made(history, done);
    let reads = history.reads.iter().map(|read| (read.completed, read.version));
    let refused = refusals.iter().map(|(asked, commit)| (asked.completed, commit.version));
    let last = done.last().map_or(Version(0), |one| one.version);
    for (completed, version) in reads.chain(refused) {
        if version > last {
            return Err(format!("somebody saw version {version}, which never was"));
        }
        let later = made.range(..=version).find(|(_, invoked)| **invoked > completed);
        if let Some((early, invoked)) = later {
            return Err(format!(
                "at {completed} somebody saw version {version}, and {early} was asked for at {invoked}"
            ));
        }
    }
    Ok(())
}

/// The versions that transactions made, and when these were asked for.
fn versions_made(history: &History, done: &[Done]) -> BTreeMap<Version, u64> {
    let invoked = history.asked.iter().filter_map(|asked| match &asked.command {
        Command::Commit(txn) => Some((txn.id, asked.invoked)),
        _ => None,
    });
    let invoked: BTreeMap<TransactionId, u64> = invoked.collect();
    let mut made = BTreeMap::new();
    let mut before = Version(0);
    for one in done {
        if let Command::Commit(txn) = &one.command
            && one.version > before
            && let Some(at) = invoked.get(&txn.id)
        {
            made.insert(one.version, *at);
        }
        before = one.version;
    }
    made
}
