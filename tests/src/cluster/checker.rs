//! The checker of histories: compares clients' answers with the agreed log.
//!
//! Each answer has the version of the cell to which it belongs, so no search is needed. The checker
//! applies the agreed commands in order to its own cell, and compares each answer with that cell's
//! answer at the same version. Then it compares the order of versions with the times of calls.
//!
//! 1. A transaction is applied at most once: all further copies get the first one's answer.
//! 2. Each answer belongs to an agreed command and its outcome; or it is a rejection with a version,
//!    and the checker's cell of that version rejects the command, too.
//! 3. A command that was answered as not executed is not among the agreed ones.
//! 4. A command sent after the answer to another command comes after that other command in the log.
//! 5. A read includes every command answered before the read was sent. Neither a read nor a rejection
//!    includes a command sent after its answer.
//! 6. Every agreed command was sent by a client, at least as often as it was agreed.

use super::truth::{Done, Truth};
use omega_cellstate::Cell;
use omega_core::{Command, Commit, Kinds, Outcome, Rejection, Transaction, TransactionId, Version};
use omega_store::codec;
use std::collections::BTreeMap;

/// The earliest time of a replica's clock, in milliseconds. Times in clients' `Expire` commands begin far before it.
const CLOCK_MS_MIN: u64 = 9_000_000_000;

/// Outcome of a request, as far as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// There is no answer yet, or the answer that the outcome is unknown.
    Unknown,
    /// Nothing was done.
    NotDone,
    /// The request got this answer.
    Answered(Result<Outcome, Rejection>),
}

/// A command that a client sent one or more times.
#[derive(Clone, Debug)]
pub struct ClientCall {
    /// The command.
    pub command: Command,
    /// Time of the first request.
    pub invoked: u64,
    /// Time at which the client learned the result.
    pub completed: u64,
    /// The result.
    pub fate: Fate,
}

/// A read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Time of the request.
    pub invoked: u64,
    /// Time of the answer.
    pub completed: u64,
    /// The version in the answer.
    pub version: Version,
}

/// All calls of clients and their answers.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Commands that clients sent.
    pub calls: Vec<ClientCall>,
    /// Reads by clients.
    pub reads: Vec<Read>,
}

/// Compares clients' answers with the agreed commands.
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
    for call in &history.calls {
        match place_of(call, done, &places, &mut used)? {
            Place::At(at) => placed.push((call, at)),
            Place::Refused(commit) => refusals.push((call, commit)),
            Place::Nowhere => {}
        }
    }
    check_calls(history, done)?;
    check_refusals(&refusals, done, kinds)?;
    check_order(&placed)?;
    check_reads(&history.reads, &placed, done)?;
    check_future(history, &refusals, done)
}

/// For each transaction, the position in the log at which it was first applied.
type Places = BTreeMap<TransactionId, usize>;

/// Applies the agreed commands to a new cell.
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

/// Whether the cell still has the recorded answer of the transaction.
fn is_recent(one: &Done) -> bool {
    !matches!(one.outcome, Err(Rejection::Transaction(_)))
}

enum Place {
    At(usize),
    Refused(Commit),
    Nowhere,
}

/// Finds the agreed command that belongs to a client's call.
fn place_of(
    call: &ClientCall,
    done: &[Done],
    places: &Places,
    used: &mut [bool],
) -> Result<Place, String> {
    let at = match &call.command {
        Command::Commit(txn) => places.get(&txn.id).copied(),
        command => {
            // The answer of this command has no version, so the first matching command is taken.
            let fits = |at: &usize| {
                let answered = match &call.fate {
                    Fate::Answered(outcome) => done[*at].outcome == *outcome,
                    _ => true,
                };
                !used[*at] && done[*at].command == *command && answered
            };
            (0..done.len()).find(fits)
        }
    };
    match (&call.fate, at) {
        (Fate::Unknown, Some(at)) => {
            // The command was executed, but another client may have sent an equal one.
            if matches!(call.command, Command::Commit(_)) {
                return Ok(Place::At(at));
            }
            Ok(Place::Nowhere)
        }
        (Fate::Unknown, None) | (Fate::NotDone, None) => Ok(Place::Nowhere),
        (Fate::NotDone, Some(at)) => match &call.command {
            Command::Commit(txn) => {
                Err(format!("{:?} was said to be not done, and is command {at}", txn.id))
            }
            _ => Ok(Place::Nowhere),
        },
        (Fate::Answered(outcome), Some(at)) if done[at].outcome == *outcome => {
            used[at] = true;
            Ok(Place::At(at))
        }
        (Fate::Answered(outcome), at) => match (outcome, at, &call.command) {
            (Ok(Outcome::Commit(commit)), None, _) => Ok(Place::Refused(commit.clone())),
            (Err(Rejection::Transaction(_)), _, _) => Ok(Place::Nowhere),
            (_, None, Command::Commit(_)) => Err(format!("answered out of nothing: {call:?}")),
            (_, None, _) => Err(format!("answered, and nowhere to be found: {call:?}")),
            (_, Some(at), _) => {
                Err(format!("answered {outcome:?}, but command {at} had {:?}", done[at].outcome))
            }
        },
    }
}

/// Checks each rejection: the cell at the version in it must reject the command, too.
fn check_refusals(
    refusals: &[(&ClientCall, Commit)],
    done: &[Done],
    kinds: &Kinds,
) -> Result<(), String> {
    let mut by_version: BTreeMap<Version, Vec<(&ClientCall, &Commit)>> = BTreeMap::new();
    for (call, commit) in refusals {
        by_version.entry(commit.version).or_default().push((call, commit));
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
        for (call, commit) in refused {
            let Command::Commit(txn) = &call.command else {
                return Err(format!("a refusal of what is no transaction: {call:?}"));
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

/// Checks that a command sent after the answer to another command comes after that other command in the log.
fn check_order(placed: &[(&ClientCall, usize)]) -> Result<(), String> {
    let mut by_start: Vec<_> = placed.to_vec();
    by_start.sort_by_key(|(call, _)| call.invoked);
    let answered = |call: &ClientCall| matches!(call.fate, Fate::Answered(_));
    let mut by_end: Vec<_> = placed.iter().filter(|(call, _)| answered(call)).collect();
    by_end.sort_by_key(|(call, _)| call.completed);
    let mut ended = by_end.into_iter().peekable();
    let mut latest = None;
    for (call, at) in by_start {
        while let Some((_, before)) = ended.next_if(|(one, _)| one.completed < call.invoked) {
            latest = latest.max(Some(*before));
        }
        // Other commands may have been sent by another client; only transactions belong to one client.
        let own = matches!(call.command, Command::Commit(_));
        if own && latest.is_some_and(|latest| latest > at) {
            return Err(format!(
                "command {at} was asked for after command {latest:?} was answered, and comes before it"
            ));
        }
    }
    Ok(())
}

/// Checks that each read includes every command that was answered before the read was sent.
fn check_reads(
    reads: &[Read],
    placed: &[(&ClientCall, usize)],
    done: &[Done],
) -> Result<(), String> {
    let mut by_start = reads.to_vec();
    by_start.sort_by_key(|read| read.invoked);
    let answered = placed.iter().filter(|(call, _)| matches!(call.fate, Fate::Answered(_)));
    let mut by_end: Vec<(u64, Version)> =
        answered.map(|(call, at)| (call.completed, done[*at].version)).collect();
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

/// Checks that clients have sent each agreed command, at least as often as it was agreed.
fn check_calls(history: &History, done: &[Done]) -> Result<(), String> {
    let mut call: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for one in history.calls.iter().filter(|one| one.fate != Fate::NotDone) {
        *call.entry(name_of(&one.command)?).or_default() += 1;
    }
    for (at, one) in done.iter().enumerate() {
        let left = call.get_mut(&name_of(&one.command)?);
        let Some(left) = left.filter(|left| **left > 0) else {
            if is_of_clock(&one.command) {
                continue;
            }
            return Err(format!("command {at} was not asked for, or not as often: {one:?}"));
        };
        // A transaction may be in the log several times.
        if !matches!(one.command, Command::Commit(_)) {
            *left -= 1;
        }
    }
    Ok(())
}

/// Whether a leader may have put the command into the log by itself: leaders set the cell's time by their clocks.
fn is_of_clock(command: &Command) -> bool {
    matches!(command, Command::Expire { now_ms } if *now_ms >= CLOCK_MS_MIN)
}

/// A key that identifies a command.
fn name_of(command: &Command) -> Result<Vec<u8>, String> {
    let mut name = Vec::new();
    codec::encode(command, &mut name).map_err(|error| error.to_string())?;
    Ok(name)
}

/// Checks that no answer has a version that includes a command sent after the answer.
fn check_future(
    history: &History,
    refusals: &[(&ClientCall, Commit)],
    done: &[Done],
) -> Result<(), String> {
    let made = versions_made(history, done);
    let reads = history.reads.iter().map(|read| (read.completed, read.version));
    let refused = refusals.iter().map(|(call, commit)| (call.completed, commit.version));
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

/// The versions that transactions made, with the times at which the transactions were first sent.
fn versions_made(history: &History, done: &[Done]) -> BTreeMap<Version, u64> {
    let invoked = history.calls.iter().filter_map(|call| match &call.command {
        Command::Commit(txn) => Some((txn.id, call.invoked)),
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
