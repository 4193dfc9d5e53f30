//! Start of a replica: it bootstraps a cell, joins one, or continues.
//!
//! ```text
//!   bootstrapped  every initial replica has the same first snapshot: an empty cell, at entry 1
//!   joined        nothing: the leader sends a snapshot
//!   continued     the newest snapshot, then the entries after it that are known to be committed
//! ```
//!
//! The empty cell at entry 1 is an ordinary snapshot, so there is only one way to start. A replica without any entry
//! cannot take part in a cell that has not added it.

use super::snapshot_worker::{self, SnapshotWorker};
use super::start_error::StartError;
use super::{LogWriter, Replica, Settings, TornTail};
use crate::codec::{self, CodecError};
use crate::directory::Directory;
use crate::log::{
    Batch, Bounds, Entry, EntryKind, HardState, LogEngine, LogIndex, Position, ReadError, Term,
};
use crate::membership::{Membership, MembershipChange};
use crate::node::{self, Node};
use crate::snapshot::{Meta, ReplicaMeta, Snapshots};
use omega_cellstate::Cell;
use std::path::Path;
use std::sync::Arc;

/// Position of the first snapshot of all bootstrapped replicas.
pub const FIRST: Position = Position { index: LogIndex(1), term: Term(1) };

/// A replica that is ready to run.
#[derive(Debug)]
pub struct Started {
    /// The started replica.
    pub replica: Replica,
    /// Writer of the log.
    pub log: LogWriter,
    /// Worker for snapshot files.
    pub files: SnapshotWorker,
    /// Directory of the replica, locked while this value exists.
    pub directory: Directory,
}

/// Writes the initial state of a bootstrapped replica to a new directory.
///
/// # Errors
/// The state cannot be written.
pub fn bootstrap(directory: &Directory, membership: &Membership) -> Result<(), StartError> {
    bootstrap_with(directory, membership, &Cell::new(directory.identity().origin.kinds.clone()))
}

/// Bootstraps a new cell with a copy of an existing cell's state, which continues independently. All initial replicas
/// must be given equal states.
///
/// # Errors
/// The state cannot be written.
pub fn bootstrap_with(
    directory: &Directory,
    membership: &Membership,
    cell: &Cell,
) -> Result<(), StartError> {
    bootstrap_at(directory, membership, cell, 0)
}

/// Writes the state of a backup to a new folder, as a replica that bootstraps a new cell from it. All bootstrapping
/// replicas must be given copies of one backup: the history of the new cell begins with the hash of the state, so a
/// replica with another state stops at the first entry.
///
/// # Errors
/// The state cannot be written.
pub fn restore(
    directory: &Directory,
    membership: &Membership,
    cell: &Cell,
) -> Result<(), StartError> {
    bootstrap_at(directory, membership, cell, cell.state_hash())
}

fn bootstrap_at(
    directory: &Directory,
    membership: &Membership,
    cell: &Cell,
    fingerprint: u64,
) -> Result<(), StartError> {
    let snapshots = snapshots_of(directory)?;
    let replica_meta = ReplicaMeta { membership: membership.clone(), fingerprint };
    let of = directory.identity().origin.cell;
    let meta = Meta { cell: of, position: FIRST, replica_meta: replica_meta.to_bytes() };
    snapshots.save(&meta, &cell.snapshot_state())?;
    Ok(())
}

/// Starts the replica of a directory.
///
/// # Errors
/// Something that the replica has promised to keep is missing, or cannot be read. No file is changed then.
pub fn start(directory: Directory, settings: Settings) -> Result<Started, StartError> {
    let snapshots = snapshots_of(&directory)?;
    let mut log = directory.open_log()?;
    let (base, replica_meta, cell) = match snapshots.newest()? {
        Some(found) => {
            let position = found.meta.position;
            let (replica_meta, cell) = snapshot_worker::restore(&snapshots, position)?;
            (position, replica_meta, cell)
        }
        None => {
            let replica_meta = ReplicaMeta { membership: Membership::default(), fingerprint: 0 };
            (
                Position::default(),
                replica_meta,
                Cell::new(directory.identity().origin.kinds.clone()),
            )
        }
    };
    let entries = entries_after(&mut *log, base, &directory)?;
    if log.unmet_promise().is_some() && settings.torn_tail == TornTail::Accept {
        log.accept_torn_tail()?;
    }
    let promise = log.unmet_promise();
    let known = log.hard_state();
    let mut node = node::Start {
        id: directory.identity().replica,
        base,
        membership: replica_meta.membership,
        hard_state: promise.map_or(known, |promise| known.joined(promise.hard_state)),
        entries,
        suspected_loss: promise.map(|promise| promise.last),
    };
    if promise.is_some() {
        node.suspected_loss =
            begin_with_suspected_loss(&mut *log, &node, settings.node, directory.path())?;
    }
    let mut cell = cell;
    cell.keep_history(settings.history_bytes);
    let start = super::Start { node, cell, fingerprint: replica_meta.fingerprint };
    Ok(Started {
        replica: Replica::new(start, settings),
        log: LogWriter::new(log),
        files: SnapshotWorker::new(snapshots),
        directory,
    })
}

/// Records the term and vote that a log may have lost with its end. Recording them does no harm even if they were never
/// synced. Returns the position up to which entries may be missing; `None` if no entries are missing.
///
/// # Errors
/// The replica seems to be the only voter, so no other voter can have the missing entries. It is also an error if only
/// a term and a vote are missing, because the lost commit index may have covered a change that added another voter.
fn begin_with_suspected_loss(
    log: &mut dyn LogEngine,
    node: &node::Start,
    settings: node::Settings,
    path: &Path,
) -> Result<Option<Position>, StartError> {
    let last = log.bounds().last.index;
    if becomes_alone(node, settings) {
        let promised = node.suspected_loss.map_or(last, |promise| promise.index);
        return Err(StartError::TornTail { path: path.to_owned(), promised, last });
    }
    log.append(&Batch { entries: Vec::new(), hard_state: Some(node.hard_state) })?;
    log.sync()?;
    let promise = log.unmet_promise().map(|promise| promise.last);
    if let Some(Position { index, term }) = promise {
        tracing::warn!(
            path = %path.display(), %last, promised = %index, term = term.0,
            "the log may have lost its end: this replica votes only for candidates that have all \
             entries that it may have acknowledged"
        );
    }
    Ok(promise)
}

/// Whether a replica is the only voter once it has applied all entries that are known to be committed. The membership
/// in the snapshot does not suffice for this, because voters may have been added or removed since.
fn becomes_alone(start: &node::Start, settings: node::Settings) -> bool {
    let mut node = Node::new(start.clone(), settings);
    while let Some(effects) = node.effects() {
        for entry in &effects.committed {
            if entry.kind == EntryKind::Membership
                && let Ok(change) = MembershipChange::from_bytes(&entry.data)
            {
                node.apply_change(&change);
            }
            node.applied(entry.position.index);
        }
    }
    node.is_alone()
}

fn snapshots_of(directory: &Directory) -> Result<Arc<Snapshots>, StartError> {
    let (disk, folder) = (directory.disk().clone(), directory.snapshots());
    Ok(Snapshots::open(disk, folder, directory.identity().origin.cell)?)
}

/// Returns the entries after a snapshot. If the log does not contain the snapshot's position, the snapshot came from
/// another replica, and the power failed before the log was restarted at that position. In this case, the log is
/// restarted now.
fn entries_after(
    log: &mut dyn LogEngine,
    base: Position,
    directory: &Directory,
) -> Result<Vec<Entry>, StartError> {
    let path = || directory.path().to_owned();
    let Bounds { base: begin, last } = log.bounds();
    if begin.index > base.index {
        return Err(StartError::Gap { path: path(), base: begin.index, snapshot: base.index });
    }
    let hard_state = log.hard_state();
    let known = if base.index <= last.index { term_at(log, base.index)? } else { None };
    let goes_on = known == Some(base.term);
    if let Some(committed) = known.filter(|_| !goes_on && base.index <= hard_state.commit) {
        let (index, snapshot) = (base.index, base.term);
        return Err(StartError::Contradiction { path: path(), index, committed, snapshot });
    }
    if !goes_on {
        if hard_state.commit > last.index {
            let committed = hard_state.commit;
            return Err(StartError::LostTail { path: path(), committed, last: last.index });
        }
        let commit = hard_state.commit.max(base.index);
        let term = hard_state.term.max(base.term);
        let vote = hard_state.vote.filter(|_| term == hard_state.term);
        if base != Position::default() {
            log.restart(base, HardState { term, vote, commit })?;
        }
        return Ok(Vec::new());
    }
    if hard_state.commit > last.index {
        let committed = hard_state.commit;
        return Err(StartError::LostTail { path: path(), committed, last: last.index });
    }
    let mut entries = Vec::new();
    let mut next = base.index.next();
    while next <= last.index {
        log.read(next, READ_BYTES, &mut entries)?;
        next = entries.last().map_or(next, |entry| entry.position.index).next();
    }
    match entries.iter().find_map(|entry| unreadable(entry).map(|why| (entry.position.index, why)))
    {
        Some((at, source)) => Err(StartError::Unreadable { path: path(), at, source }),
        None => Ok(entries),
    }
}

/// Returns the reason why this program can never apply an entry; `None` if it can. Such an entry would stop the replica
/// later, after it has voted and written. Only the version of the commands' encoding is checked, not their content.
fn unreadable(entry: &Entry) -> Option<CodecError> {
    match entry.kind {
        EntryKind::Commands => codec::entry_head(&entry.data).err(),
        EntryKind::Membership => MembershipChange::from_bytes(&entry.data).err(),
    }
}

/// Bytes of entries that are read at once.
const READ_BYTES: usize = 4 << 20;

/// The term of an entry of the log, or of its base.
fn term_at(log: &mut dyn LogEngine, index: LogIndex) -> Result<Option<Term>, ReadError> {
    let base = log.bounds().base;
    if index == base.index {
        return Ok(Some(base.term));
    }
    let mut one = Vec::new();
    log.read(index, 0, &mut one)?;
    Ok(one.first().map(|entry| entry.position.term))
}
