//! The check of a run, from the records of its clients and the logs of its replicas.
//!
//! The replicas' logs contain the committed commands. These are applied in order to a cell without faults and to its
//! naive reference model, which must agree after each command; the cell is audited, so no machine exceeds its limit at
//! any version. Each replica must have the same entries, and reach the same state by them. Then the checker of the
//! simulation compares the clients' results; see `cluster/checker.rs`.

use super::cell::Processes;
use super::notes::Look;
use crate::cluster::checker::{self, ClientCall, Fate, History};
use crate::cluster::truth::{Done, Truth};
use omega_cellstate::Cell;
use omega_core::{Command, Kinds, TaskId, Version};
use omega_store::history::{self, ReplayOptions, ReplayScope};
use omega_store::log::{Entry, LogIndex};
use omega_store::replica::FIRST;
use std::path::Path;

/// The version of a newly bootstrapped cell after its policy was set.
const FOUNDED: Version = Version(1);

/// The log on which all replicas agree.
///
/// # Errors
/// The first difference between the replicas.
pub fn agreed(cell: &Processes) -> Result<Truth, String> {
    let mut logs = Vec::new();
    for id in cell.ids() {
        let folder = cell.folder(id);
        let entries = entries(&folder).map_err(|error| format!("replica {id}: {error}"))?;
        logs.push((id, folder, entries));
    }
    // The longest log is the first, because it must contain the others.
    logs.sort_by_key(|(_, _, entries)| std::cmp::Reverse(entries.len()));
    let first = history::replay_to(&logs[0].1, FOUNDED, ReplayScope::All);
    let first = first.map_err(|error| error.to_string())?;
    let mut truth = Truth::new(&Kinds::standard());
    truth.founded_with(Command::SetPolicy(first.policy().clone()))?;
    truth.compare(FIRST.index, first.state_hash())?;
    for (id, folder, entries) in &logs {
        let wrong = |error: String| format!("replica {id}: {error}");
        for entry in entries {
            truth.applied(entry).map_err(wrong)?;
        }
        let (index, hash) = state(folder).map_err(wrong)?;
        truth.compare(index, hash).map_err(wrong)?;
    }
    Ok(truth)
}

/// All entries that are in a replica's log.
fn entries(folder: &Path) -> Result<Vec<Entry>, String> {
    let mut kept = history::open(folder).map_err(|error| error.to_string())?;
    if kept.bounds().base != FIRST {
        return Err("the run is too long: the beginning of the log is gone".to_owned());
    }
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let from = all.last().map_or(FIRST.index, |entry| entry.position.index).next();
        let more = kept.read(from).map_err(|error| error.to_string())?;
        if more.is_empty() {
            return Ok(all);
        }
        all.extend(more);
    }
}

/// The state that results from a replica's own snapshot and log.
fn state(folder: &Path) -> Result<(LogIndex, u64), String> {
    let options = ReplayOptions { scope: ReplayScope::All, ..ReplayOptions::default() };
    let mut kept = history::open(folder).map_err(|error| error.to_string())?;
    let replay = kept.replay(&options).map_err(|error| error.to_string())?;
    Ok((replay.position().index, replay.cell().state_hash()))
}

/// Adds the entries that no client of the run requests, which bootstrap the cell and set its time.
#[must_use]
pub fn with_servers_own(mut history: History, done: &[Done]) -> History {
    let own = |one: &&Done| match one.command {
        Command::Expire { .. } => true,
        Command::SetPolicy(_) => one.version == FOUNDED,
        _ => false,
    };
    let asked = |one: &Done| ClientCall {
        command: one.command.clone(),
        invoked: 0,
        completed: u64::MAX,
        fate: Fate::Unknown,
    };
    history.calls.extend(done.iter().filter(own).map(asked));
    history
}

/// Compares the clients' results and reads with the agreed history.
///
/// # Errors
/// The first difference.
pub fn check(history: &History, looks: &[Look], done: &[Done]) -> Result<(), String> {
    let kinds = Kinds::standard();
    checker::check_against(history, done, &kinds)?;
    check_looks(looks, done, &kinds)
}

/// Checks that the tasks which clients saw on machines were on them at the reported versions.
///
/// # Errors
/// The first machine whose tasks differ.
pub fn check_looks(looks: &[Look], done: &[Done], kinds: &Kinds) -> Result<(), String> {
    let mut by_version: Vec<&Look> = looks.iter().collect();
    by_version.sort_by_key(|look| look.seen.version);
    let mut cell = Cell::new(kinds.clone());
    let mut left = done.iter();
    for look in by_version {
        let version = look.seen.version;
        while cell.version() < version {
            let Some(one) = left.next() else {
                return Err(format!("somebody saw version {version}, which never was"));
            };
            drop(cell.apply(one.command.clone()));
        }
        let mut there: Vec<TaskId> =
            cell.machine(look.machine).map_or(Vec::new(), |found| found.tasks.to_vec());
        there.sort_unstable();
        if there != look.seen.tasks {
            return Err(format!(
                "on machine {} there were {there:?} at version {version}, and {:?} were seen",
                look.machine, look.seen.tasks
            ));
        }
    }
    Ok(())
}
