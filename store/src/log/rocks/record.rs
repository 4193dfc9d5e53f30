//! Encoding of a log in RocksDB. RocksDB has checksums of its own; the ones in this encoding detect missing and
//! outdated entries.

use super::super::{Entry, EntryKind, HardState, LogIndex, Position, ReplicaId, Term};
use super::LogOwner;
use crate::origin::CellId;
use bytes::Bytes;

pub(super) const STATE: &[u8] = b"s";
pub(super) const OWNER: &[u8] = b"o";
pub(super) const ENTRY: u8 = b'e';

/// Bytes before the data of an entry.
const HEAD: usize = 17;

/// An entry without its content, or the base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CheckedPosition {
    pub(super) position: Position,
    /// Checksum of the entry; 0 at the beginning of a log.
    pub(super) checksum: u32,
}

/// Everything in a log except its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Number of batches written so far.
    pub(super) number: u64,
    pub(super) base: CheckedPosition,
    pub(super) last: CheckedPosition,
    pub(super) hard_state: HardState,
}

/// The checksums of an entry and of the entry before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checks {
    pub(super) own: u32,
    pub(super) before: u32,
}

/// The key of an entry. Keys have the same order as indices.
pub(super) fn key(index: LogIndex) -> [u8; 9] {
    let mut key = [ENTRY; 9];
    key[1..].copy_from_slice(&index.0.to_be_bytes());
    key
}

/// Encodes an entry. `before` is the checksum of the entry before it. Returns the checksum of the encoded entry.
pub(super) fn put_entry(out: &mut Vec<u8>, entry: &Entry, before: u32) -> u32 {
    out.clear();
    out.extend([0; 4]);
    out.extend(before.to_le_bytes());
    out.push(match entry.kind {
        EntryKind::Commands => 0,
        EntryKind::Membership => 1,
    });
    out.extend(entry.position.term.0.to_le_bytes());
    out.extend_from_slice(&entry.data);
    let own = checksum(entry.position.index, &out[4..]);
    out[..4].copy_from_slice(&own.to_le_bytes());
    own
}

/// Decodes the entry with this index.
pub(super) fn read_entry(found: &[u8], value: &[u8], index: LogIndex) -> Option<(Entry, Checks)> {
    let (head, data) = value.split_at_checked(HEAD)?;
    let word = |at: usize| Some(u32::from_le_bytes(*head[at..].first_chunk()?));
    let checks = Checks { own: word(0)?, before: word(4)? };
    let kind = match head[8] {
        0 => EntryKind::Commands,
        1 => EntryKind::Membership,
        _ => return None,
    };
    let term = Term(u64::from_le_bytes(*head[9..].first_chunk()?));
    let is_whole = found == key(index) && checksum(index, &value[4..]) == checks.own;
    let position = Position { index, term };
    is_whole.then(|| (Entry { position, kind, data: Bytes::copy_from_slice(data) }, checks))
}

fn checksum(index: LogIndex, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&index.0.to_le_bytes());
    hasher.update(content);
    hasher.finalize()
}

impl State {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let State { number, base, last, hard_state } = self;
        let known = |known: CheckedPosition| {
            let CheckedPosition { position, checksum } = known;
            [position.index.0, position.term.0, u64::from(checksum)]
        };
        let vote = hard_state.vote.map_or(0, |vote| vote.0);
        let voted = u64::from(hard_state.vote.is_some());
        let promised = [hard_state.term.0, voted, vote, hard_state.commit.0];
        let words = [&[number][..], &known(base), &known(last), &promised].concat();
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    pub(super) fn read(bytes: &[u8]) -> Option<State> {
        let [number, a, b, c, d, e, f, term, voted, vote, commit] = words(bytes)?;
        let known = |index, term, checksum| {
            let position = Position { index: LogIndex(index), term: Term(term) };
            Some(CheckedPosition { position, checksum: u32::try_from(checksum).ok()? })
        };
        let vote = (voted == 1).then_some(ReplicaId(vote));
        let hard_state = HardState { term: Term(term), vote, commit: LogIndex(commit) };
        Some(State { number, base: known(a, b, c)?, last: known(d, e, f)?, hard_state })
    }
}

pub(super) fn owner_bytes(owner: LogOwner) -> Vec<u8> {
    [&owner.cell.0.to_le_bytes()[..], &owner.replica.0.to_le_bytes()].concat()
}

pub(super) fn read_owner(bytes: &[u8]) -> Option<(CellId, ReplicaId)> {
    let [low, high, replica] = words(bytes)?;
    Some((CellId(u128::from(low) | u128::from(high) << 64), ReplicaId(replica)))
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = bytes.as_chunks();
    let words: &[[u8; 8]; N] = words.try_into().ok().filter(|_| rest.is_empty())?;
    Some(words.map(u64::from_le_bytes))
}
