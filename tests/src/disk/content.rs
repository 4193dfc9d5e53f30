//! Contents of one file: the present bytes, the bytes that are durable, and the changes in between.

use crate::random::Dice;

/// Atomic unit of writing in bytes: a write may be torn between two sectors.
const SECTOR: usize = 512;

/// A change that was not synced.
#[derive(Clone, Debug)]
enum Change {
    Write {
        offset: usize,
        bytes: Vec<u8>,
    },
    /// The file was extended with zeros, or truncated to this length.
    Length(usize),
}

/// The contents of a file: the present ones, those that survive a loss of power, and the changes in between.
///
/// Invariant: unless a sync failed, applying all of `changes` to `safe` results in `present`.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    present: Vec<u8>,
    safe: Vec<u8>,
    changes: Vec<Change>,
}

impl Content {
    /// Present contents of the file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.present
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        write_to(&mut self.present, offset, bytes);
        self.changes.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_length(&mut self, length: usize) {
        self.present.resize(length, 0);
        self.changes.push(Change::Length(length));
    }

    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            match change {
                Change::Write { offset, bytes } => write_to(&mut self.safe, offset, &bytes),
                Change::Length(length) => self.safe.resize(length, 0),
            }
        }
    }

    /// A failed sync: each change may be durable or not, and the system marks all of them as clean, so that no later
    /// sync writes them. Reads may return either state.
    pub(super) fn fail_sync(&mut self, dice: &mut Dice) {
        self.settle(dice);
        if dice.chance(50) {
            self.present.clone_from(&self.safe);
        }
    }

    /// Loses the power, which leaves any possible contents.
    pub(super) fn crash(&mut self, dice: &mut Dice) {
        self.settle(dice);
        self.present.clone_from(&self.safe);
    }

    /// Changes durable bytes, as a decaying disk or a test does.
    pub(super) fn damage(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.sync();
        change(&mut self.present);
        self.safe.clone_from(&self.present);
    }

    fn settle(&mut self, dice: &mut Dice) {
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Length(length) => match dice.below(3) {
                    0 => self.safe.resize(length, 0),
                    1 if length > self.safe.len() => {
                        let more = dice.below(length - self.safe.len());
                        self.safe.resize(self.safe.len() + more, 0);
                    }
                    _ => {}
                },
                Change::Write { offset, bytes } => self.settle_write(offset, &bytes, dice),
            }
        }
    }

    /// For a write that was not synced: keeps it, loses it, truncates it anywhere, or keeps some of its sectors. Even
    /// if it is lost, the file may get the length that the write would give it.
    fn settle_write(&mut self, offset: usize, bytes: &[u8], dice: &mut Dice) {
        match dice.below(6) {
            0 | 1 => write_to(&mut self.safe, offset, bytes),
            2 => write_to(&mut self.safe, offset, &bytes[..dice.below(bytes.len() + 1)]),
            3 => {
                let mut from = 0;
                while from < bytes.len() {
                    let next = SECTOR - (offset + from) % SECTOR;
                    let to = bytes.len().min(from + next);
                    if dice.chance(50) {
                        write_to(&mut self.safe, offset + from, &bytes[from..to]);
                    }
                    from = to;
                }
            }
            4 => {
                let end = (offset + bytes.len()).max(self.safe.len());
                self.safe.resize(end, 0);
            }
            _ => {}
        }
    }
}

fn write_to(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if bytes.is_empty() {
        return;
    }
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}
