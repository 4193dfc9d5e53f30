//! Replay of a cell's history, command by command.

use super::{History, HistoryError};
use crate::codec;
use crate::log::{Entry, EntryKind, LogIndex, Position};
use crate::replica::Fingerprint;
use crate::snapshot::ReplicaMeta;
use omega_cellstate::Cell;
use omega_core::{Command, Version};

/// Selection of the entries to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayScope {
    /// Only entries that are known to be committed.
    #[default]
    Committed,
    /// All entries of the log. The last entries may never have been committed, and other replicas may have replaced
    /// them.
    All,
}

/// Options of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Last version to replay; `None` replays to the end.
    pub to: Option<Version>,
    /// Selection of the entries.
    pub scope: ReplayScope,
    /// Number of versions between audits of the cell. In any case, the cell is also audited at the end.
    pub audit_every: Option<u64>,
}

/// A cell built from a snapshot and the entries after it.
#[derive(Debug)]
pub struct Replay {
    cell: Cell,
    base: Position,
    from: Version,
    position: Position,
    fingerprint: Fingerprint,
    is_whole: bool,
    commands: u64,
    audits: u64,
    /// The version at which the next audit is due.
    due: Option<Version>,
}

impl History {
    /// Restores a snapshot, and replays the entries after it. The snapshot is the newest one that is not after `to`. If
    /// `to` is `None`, it is the oldest one, so that all entries are checked.
    ///
    /// # Errors
    /// The version is not available, an entry cannot be applied, or an audit fails.
    pub fn replay(&mut self, options: &ReplayOptions) -> Result<Replay, HistoryError> {
        self.replay_watched(options, &mut |_, _| {})
    }

    /// Replays entries like [`History::replay`]. Shows each command to `watch`, with the cell before the command. At the
    /// end, shows the cell without a command.
    ///
    /// # Errors
    /// Those of [`History::replay`].
    pub fn replay_watched(
        &mut self,
        options: &ReplayOptions,
        watch: &mut dyn FnMut(Option<&Command>, &Cell),
    ) -> Result<Replay, HistoryError> {
        let mut replay = self.begin(options.to)?;
        replay.due = options.audit_every.map(|every| Version(replay.from.0 + every));
        let end = self.end(replay.base, options.scope)?;
        let is_there = |replay: &Replay| options.to == Some(replay.cell.version());
        let mut next = replay.base.index.next();
        'reached: while next <= end && !is_there(&replay) {
            let entries = self.read(next)?;
            next = entries.last().map_or(end, |entry| entry.position.index).next();
            for entry in entries.iter().take_while(|entry| entry.position.index <= end) {
                replay.apply_until(entry, options, watch)?;
                if is_there(&replay) {
                    break 'reached;
                }
            }
        }
        watch(None, &replay.cell);
        let newest = replay.cell.version();
        match options.to.filter(|to| *to != newest) {
            Some(wanted) => {
                Err(HistoryError::NotReached { wanted, newest, last: replay.position.index })
            }
            None => {
                replay.audit()?;
                Ok(replay)
            }
        }
    }

    /// Restores the newest snapshot that is not after a version, or the oldest one if `version` is `None`. No entry is
    /// applied.
    ///
    /// # Errors
    /// There is no such snapshot.
    pub fn begin(&self, version: Option<Version>) -> Result<Replay, HistoryError> {
        let base = self.log.bounds().base.index;
        let mut usable = self.snapshots.list()?;
        usable.retain(|position| position.index >= base);
        if usable.is_empty() && base != LogIndex::default() {
            return Err(HistoryError::Gap { path: self.directory.path().to_owned(), base });
        }
        let Some(version) = version else { return self.restore(usable.first().copied()) };
        let mut oldest = Version(0);
        for position in usable.iter().rev() {
            let replay = self.restore(Some(*position))?;
            if replay.from <= version {
                return Ok(replay);
            }
            oldest = replay.from;
        }
        if usable.is_empty() {
            self.restore(None)
        } else {
            Err(HistoryError::TooOld { wanted: version, oldest })
        }
    }

    /// The state of a snapshot, or the initial state.
    fn restore(&self, at: Option<Position>) -> Result<Replay, HistoryError> {
        let Some(position) = at else {
            let kinds = self.identity().origin.kinds.clone();
            return Ok(Replay::new(Cell::new(kinds), Position::default(), 0));
        };
        let (meta, cell) = self.snapshots.restore(position)?;
        let replica_meta = ReplicaMeta::from_bytes(&meta.replica_meta);
        let replica_meta =
            replica_meta.ok_or_else(|| HistoryError::ReplicaMeta(self.snapshots.path(position)))?;
        Ok(Replay::new(cell, position, replica_meta.fingerprint))
    }

    /// Returns the index of the last entry to replay. This is the index of `base` if the log does not contain that
    /// position. The snapshot at `base` then came from another replica, and the entries of the log do not follow it.
    fn end(&mut self, base: Position, scope: ReplayScope) -> Result<LogIndex, HistoryError> {
        let last = self.log.bounds().last.index;
        let committed = self.log.hard_state().commit;
        if scope == ReplayScope::Committed && committed > last.max(base.index) {
            let path = self.directory.path().to_owned();
            return Err(HistoryError::LostTail { path, committed, last });
        }
        if base != Position::default() && self.log.term(base.index)? != Some(base.term) {
            return Ok(base.index);
        }
        Ok(if scope == ReplayScope::All { last } else { committed.min(last) })
    }
}

impl Replay {
    fn new(cell: Cell, base: Position, fingerprint: u64) -> Replay {
        let fingerprint = Fingerprint::new(base.index, fingerprint);
        let from = cell.version();
        let position = base;
        let (commands, audits) = (0, 0);
        Replay {
            cell,
            base,
            from,
            position,
            fingerprint,
            is_whole: true,
            commands,
            audits,
            due: None,
        }
    }

    /// The cell.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The cell, by value.
    #[must_use]
    pub fn into_cell(self) -> Cell {
        self.cell
    }

    /// Position of the snapshot on which the replay began; 0 if there was none.
    #[must_use]
    pub fn base(&self) -> Position {
        self.base
    }

    /// Version of the snapshot on which the replay began.
    #[must_use]
    pub fn from(&self) -> Version {
        self.from
    }

    /// Position of the last entry from which at least one command was applied.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The fingerprint of the history so far, which is equal on replicas that applied equal entries. `None` if only a
    /// part of an entry was applied.
    #[must_use]
    pub fn fingerprint(&self) -> Option<u64> {
        self.is_whole.then(|| self.fingerprint.value())
    }

    /// Number of commands that were applied.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Number of audits, all of which succeeded.
    #[must_use]
    pub fn audits(&self) -> u64 {
        self.audits
    }

    /// Applies the next entry.
    ///
    /// # Errors
    /// The entry cannot be read, or its outcomes differ from the leader's.
    ///
    /// # Panics
    /// The entry is not the next one.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), HistoryError> {
        self.apply_until(entry, &ReplayOptions::default(), &mut |_, _| {})
    }

    fn apply_until(
        &mut self,
        entry: &Entry,
        options: &ReplayOptions,
        watch: &mut dyn FnMut(Option<&Command>, &Cell),
    ) -> Result<(), HistoryError> {
        let at = entry.position.index;
        assert_eq!(at, self.position.index.next(), "entries are applied in order");
        self.position = entry.position;
        if entry.kind == EntryKind::Membership {
            self.fingerprint.close(at);
            return Ok(());
        }
        let unreadable = |source| HistoryError::Unreadable { at, source };
        let (head, body) = codec::entry_head(&entry.data).map_err(unreadable)?;
        if head.is_some_and(|head| !self.fingerprint.agrees(head)) {
            return Err(HistoryError::Diverged { at });
        }
        let commands = codec::decode_commands(body).map_err(unreadable)?;
        let mut commands = commands.into_iter();
        while let Some(command) = commands.next() {
            watch(Some(&command), &self.cell);
            let outcome = self.cell.apply(command);
            self.fingerprint.add(&outcome, self.cell.version());
            self.commands += 1;
            self.audit_if_due(options)?;
            if commands.len() > 0 && options.to == Some(self.cell.version()) {
                self.is_whole = false;
                return Ok(());
            }
        }
        self.fingerprint.close(at);
        Ok(())
    }

    fn audit_if_due(&mut self, options: &ReplayOptions) -> Result<(), HistoryError> {
        if let (Some(due), Some(every)) = (self.due, options.audit_every)
            && self.cell.version() >= due
        {
            self.audit()?;
            self.due = Some(Version(self.cell.version().0 + every.max(1)));
        }
        Ok(())
    }

    fn audit(&mut self) -> Result<(), HistoryError> {
        let version = self.cell.version();
        self.cell.audit().map_err(|source| HistoryError::Audit { version, source })?;
        self.audits += 1;
        Ok(())
    }
}
