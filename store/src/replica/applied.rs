//! The applied state of the cell at one replica.

use super::{Replica, Reply, RetryReason, Stop};
use crate::codec;
use crate::failpoint::failpoint;
use crate::log::{Entry, EntryKind, Position};
use crate::membership::{ChangeError, MembershipChange};
use omega_cellstate::{Captured, Cell, SnapshotState};
use omega_core::Version;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are added to the content of each entry when the log's size is counted, so that empty entries lead to
/// compaction, too.
const ENTRY_COST: u64 = 32;

/// Number of pieces of a state that are copied each time the lock is taken: as many as a snapshot copies at each step.
const PIECES: usize = 4;

/// Pause between checks whether another capture has ended, about as long as copying some pieces takes.
const PAUSE: Duration = Duration::from_millis(5);

/// The state of the cell at one replica, shared with readers.
#[derive(Debug)]
pub struct Applied {
    /// Locked by the replica while it applies entries, and by readers.
    state: Mutex<State>,
    moved: Condvar,
}

/// The state that is protected by the lock.
#[derive(Debug)]
pub struct State {
    /// The cell.
    pub cell: Cell,
    /// Position of the last applied entry.
    pub position: Position,
    /// Number of installed snapshots.
    pub installed: u64,
}

impl Applied {
    pub(super) fn new(cell: Cell, position: Position) -> Applied {
        let state = State { cell, position, installed: 0 };
        Applied { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Wakes threads that wait for a change of the state.
    pub(super) fn notify(&self) {
        self.moved.notify_all();
    }

    /// The state, which does not change while the guard exists.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until the cell has reached a version. Returns `false` after the timeout.
    pub fn wait_for(&self, version: Version, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        let behind = |state: &mut State| state.cell.version() < version;
        !self.moved.wait_while_for(&mut state, behind, timeout).timed_out()
    }

    /// The cell at one version, copied in pieces while entries are applied in between. `None` if copying could not
    /// begin within `patience`, because snapshots of this replica were being captured.
    pub(super) fn snapshot_state(&self, patience: Duration) -> Option<SnapshotState> {
        let until = Instant::now() + patience;
        loop {
            let installed = self.begin_snapshot_state(until)?;
            // If a received snapshot has replaced the state meanwhile, the capture is repeated.
            if let Some(captured) = self.finish_snapshot_state(installed) {
                return Some(captured.into_snapshot_state());
            }
        }
    }

    /// Begins a capture once no other capture is running. Returns the number of installed snapshots; `None` if the
    /// other capture has not ended by `until`.
    fn begin_snapshot_state(&self, until: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        while state.cell.is_captured() {
            if Instant::now() >= until {
                return None;
            }
            self.moved.wait_for(&mut state, PAUSE);
        }
        state.cell.begin_capture();
        Some(state.installed)
    }

    fn finish_snapshot_state(&self, installed: u64) -> Option<Captured> {
        loop {
            let mut state = self.state.lock();
            if state.installed != installed {
                return None;
            }
            if let Some(captured) = state.cell.capture_more(PIECES) {
                return Some(captured);
            }
            // Threads that wait for the lock get it before the next pieces are copied.
            MutexGuard::unlock_fair(state);
        }
    }
}

impl Replica {
    /// Applies committed entries, and replies to the requests in them.
    pub(super) fn apply(&mut self, entries: &[Entry]) {
        let Some(last) = entries.last() else { return };
        let applied = Arc::clone(&self.applied);
        let mut state = applied.lock();
        for entry in entries {
            let done = match entry.kind {
                EntryKind::Commands => self.apply_commands(entry, &mut state),
                EntryKind::Membership => {
                    self.apply_membership(entry);
                    Ok(())
                }
            };
            if let Err(stop) = done {
                drop(state);
                // Entries before this one may have been applied.
                applied.notify();
                return self.stop(stop);
            }
            state.position = entry.position;
        }
        drop(state);
        failpoint!("applied");
        applied.notify();
        self.node.applied(last.position.index);
        self.forget_loaded(last.position.index);
        self.note_applied(entries.iter().map(|entry| entry.data.len() as u64 + ENTRY_COST).sum());
    }

    fn apply_commands(&mut self, entry: &Entry, state: &mut State) -> Result<(), Stop> {
        failpoint!("apply");
        let at = entry.position.index;
        self.watch.committed(entry.position);
        let own = self.requests.resolve(entry.position);
        for sender in own.overwritten {
            self.reply(sender, Reply::Retry(RetryReason::Overwritten));
        }
        let followed = self.watch.followed(own.committed.iter().map(|(_, command)| command));
        let unreadable = |source| Stop::Unreadable { at, source };
        let (head, body) = codec::entry_head(&entry.data).map_err(unreadable)?;
        if head.is_some_and(|head| !self.fingerprint.agrees(head)) {
            return Err(Stop::Diverged { at });
        }
        if own.committed.is_empty() {
            let mut commands = codec::decode_commands(body).map_err(unreadable)?;
            if omega_cellstate::injected!(OwnOrder) {
                commands.reverse();
            }
            for command in commands {
                let outcome = state.cell.apply(command);
                self.fingerprint.add(&outcome, state.cell.version());
            }
        }
        for (sender, command) in own.committed {
            let outcome = state.cell.apply(command);
            self.fingerprint.add(&outcome, state.cell.version());
            self.reply(sender, Reply::Outcome(outcome));
        }
        self.fingerprint.close(at);
        self.watch.applied(followed);
        Ok(())
    }

    fn apply_membership(&mut self, entry: &Entry) {
        let at = entry.position.index;
        self.fingerprint.close(at);
        let own = self.requests.resolve(entry.position);
        for sender in own.overwritten {
            self.reply(sender, Reply::Retry(RetryReason::Overwritten));
        }
        let change = MembershipChange::from_bytes(&entry.data);
        let change = change.expect("a change is checked before it is in the log");
        failpoint!("membership");
        let made = self.node.apply_change(&change);
        tracing::info!(id = %self.node.id(), ?change, made, "membership");
        if let Some(sender) = own.change {
            let reply =
                if made { Ok(self.node.membership().clone()) } else { Err(ChangeError::Pending) };
            self.reply(sender, Reply::Changed(reply));
        }
        self.check_removal();
    }
}
