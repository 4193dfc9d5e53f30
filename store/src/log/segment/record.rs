//! A record of a segment: one write, with the number of the last record known to be synced at that time.
//!
//! ```text
//!     4       4        8        8        1
//! ┌────────┬───────┬────────┬────────┬──────┬─────────────────────────────────────────┐
//! │ length │ crc32 │ number │ synced │ kind │ the rest, by its kind                   │
//! └────────┴───────┴────────┴────────┴──────┴─────────────────────────────────────────┘
//!                                     └─────────────── length bytes ──────────────────┘
//!   batch:       flags · [hard state] · first index · count · count × entry head · data
//!   entry head:  term · length · crc32 of the data · kind
//! ```
//!
//! Integers are little-endian, and records begin at multiples of 8. The checksum covers the salt and everything before
//! the data, including the checksums of the data. So every byte is covered, and an entry can be read and checked
//! without its neighbours. A record without a kind (`length` 0) is a *marker*: it has no number of its own, contains
//! the synced number, and is overwritten by the next record.
//!
//! Reading trusts no content: a length beyond the segment, a count beyond the length, or a rest of another size is
//! damage, and memory is never reserved by a number in a record.

use crate::log::{Batch, EntryKind, HardState, LogIndex, Position, ReplicaId, Term};
use crc32fast::Hasher;

/// Bytes of a record before its kind.
pub(super) const HEAD: usize = 24;

/// Bytes of an entry head.
const ENTRY_HEAD: usize = 17;

/// Upper bound of all numbers. No log reaches it. It is so low that further counting cannot overflow.
pub(super) const HIGHEST: u64 = 1 << 62;

const CHECKPOINT: u8 = 1;
const BATCH: u8 = 2;
const BASE: u8 = 3;
const RESTART: u8 = 4;
const SEAL: u8 = 5;

/// Damage of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The length of the record exceeds its segment.
    #[error("the record is longer than its segment")]
    Length,
    /// The checksum does not match.
    #[error("the record does not match its checksum")]
    Checksum,
    /// The record is intact, but has this number and not the expected one.
    #[error("the record has the number {0} and not the expected one")]
    Number(u64),
    /// The record is intact, but does not follow from the state of the log.
    #[error("the record does not continue the records before it")]
    Order,
    /// The record is intact, but its kind is unknown.
    #[error("this program does not know the kind of the record")]
    Kind,
}

/// Checkpoint of a segment: the state after all segments before it, which may be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) base: Position,
    pub(super) last: Position,
    pub(super) hard_state: HardState,
    /// The first segment that is still needed.
    pub(super) first_segment: u64,
}

/// Position, length and checksum of an entry's data in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) crc: u32,
    pub(super) kind: EntryKind,
}

/// Contents of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Marker,
    Checkpoint(Checkpoint),
    Batch { hard_state: Option<HardState>, first: LogIndex, entries: Vec<(Term, Slot)> },
    Base { base: Position, first_segment: u64 },
    Restart { base: Position, hard_state: HardState, first_segment: u64 },
    Seal,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) number: u64,
    /// Number of the last record that was known to be synced when this one was written.
    pub(super) synced: u64,
    pub(super) content: Content,
    /// Offset of the next record.
    pub(super) end: usize,
}

/// Numbers that every record contains: the salt of its segment, its own number, and the synced number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) salt: u32,
    pub(super) number: u64,
    pub(super) synced: u64,
}

/// Bytes of a batch's record.
pub(super) fn batch_bytes(batch: &Batch) -> u64 {
    let data = |entry: &crate::log::Entry| (ENTRY_HEAD + entry.data.len()) as u64;
    let fixed = HEAD + 1 + 1 + 25 + 8 + 4;
    aligned(fixed as u64 + batch.entries.iter().map(data).sum::<u64>())
}

fn aligned(offset: u64) -> u64 {
    offset.next_multiple_of(8)
}

/// Appends a record to `out`, whose start must be at a multiple of 8 in the segment. Returns the offset of a batch's
/// data in `out`.
pub(super) fn write(out: &mut Vec<u8>, stamp: Stamp, content: Written<'_>) -> usize {
    let start = out.len();
    out.extend([0; HEAD]);
    content.meta(out);
    let data = out.len();
    if let Written::Batch(batch) = content {
        batch.entries.iter().for_each(|entry| out.extend_from_slice(&entry.data));
    }
    let length = (out.len() - start - HEAD) as u32;
    out.resize(aligned(out.len() as u64) as usize, 0);
    let crc = checksum(stamp, length, &out[start + HEAD..data]);
    let head = &mut out[start..start + HEAD];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    head[8..16].copy_from_slice(&stamp.number.to_le_bytes());
    head[16..].copy_from_slice(&stamp.synced.to_le_bytes());
    data
}

/// The checksums of a batch's data. `meta` has the bytes before the data.
pub(super) fn checksums(meta: &[u8], count: usize) -> impl Iterator<Item = u32> {
    let heads = &meta[meta.len() - count * ENTRY_HEAD..];
    heads.chunks_exact(ENTRY_HEAD).map(|head| {
        let bytes = head[12..].first_chunk().expect("a head has 17 bytes");
        u32::from_le_bytes(*bytes)
    })
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written<'b> {
    Marker,
    Checkpoint(Checkpoint),
    Batch(&'b Batch),
    Base { base: Position, first_segment: u64 },
    Restart { base: Position, hard_state: HardState, first_segment: u64 },
    Seal,
}

impl Written<'_> {
    /// Writes everything except the data.
    fn meta(self, out: &mut Vec<u8>) {
        match self {
            Written::Marker => {}
            Written::Seal => out.push(SEAL),
            Written::Checkpoint(checkpoint) => {
                out.push(CHECKPOINT);
                put_position(out, checkpoint.base);
                put_position(out, checkpoint.last);
                put_hard_state(out, checkpoint.hard_state);
                out.extend(checkpoint.first_segment.to_le_bytes());
            }
            Written::Base { base, first_segment } => {
                out.push(BASE);
                put_position(out, base);
                out.extend(first_segment.to_le_bytes());
            }
            Written::Restart { base, hard_state, first_segment } => {
                out.push(RESTART);
                put_position(out, base);
                put_hard_state(out, hard_state);
                out.extend(first_segment.to_le_bytes());
            }
            Written::Batch(batch) => {
                out.extend([BATCH, u8::from(batch.hard_state.is_some())]);
                if let Some(hard_state) = batch.hard_state {
                    put_hard_state(out, hard_state);
                }
                let first = batch.entries.first().map_or(LogIndex(0), |e| e.position.index);
                out.extend(first.0.to_le_bytes());
                out.extend((batch.entries.len() as u32).to_le_bytes());
                for entry in &batch.entries {
                    let mut head = [0; ENTRY_HEAD];
                    head[..8].copy_from_slice(&entry.position.term.0.to_le_bytes());
                    head[8..12].copy_from_slice(&(entry.data.len() as u32).to_le_bytes());
                    head[12..16].copy_from_slice(&crc32fast::hash(&entry.data).to_le_bytes());
                    head[16] = match entry.kind {
                        EntryKind::Commands => 0,
                        EntryKind::Membership => 1,
                    };
                    out.extend(head);
                }
            }
        }
    }
}

pub(super) fn put_position(out: &mut Vec<u8>, position: Position) {
    out.extend(position.index.0.to_le_bytes());
    out.extend(position.term.0.to_le_bytes());
}

pub(super) fn put_hard_state(out: &mut Vec<u8>, hard_state: HardState) {
    out.extend(hard_state.term.0.to_le_bytes());
    out.push(u8::from(hard_state.vote.is_some()));
    out.extend(hard_state.vote.map_or(0, |vote| vote.0).to_le_bytes());
    out.extend(hard_state.commit.0.to_le_bytes());
}

fn checksum(stamp: Stamp, length: u32, meta: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    let mut head = [0; 24];
    head[..4].copy_from_slice(&stamp.salt.to_le_bytes());
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..16].copy_from_slice(&stamp.number.to_le_bytes());
    head[16..].copy_from_slice(&stamp.synced.to_le_bytes());
    hasher.update(&head);
    hasher.update(meta);
    hasher.finalize()
}

/// The head of a record, which has not been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    length: u32,
    crc: u32,
    pub(super) number: u64,
    pub(super) synced: u64,
}

impl Head {
    /// The head at an offset of a segment; `None` if the segment ends before.
    pub(super) fn at(segment: &[u8], offset: usize) -> Option<Head> {
        let mut reader = Reader(segment.get(offset..)?.get(..HEAD)?);
        Some(Head {
            length: reader.u32()?,
            crc: reader.u32()?,
            number: reader.u64()?,
            synced: reader.u64()?,
        })
    }
}

/// Reads and checks the record at an offset of a segment.
pub(super) fn read(segment: &[u8], offset: usize, salt: u32) -> Result<Record, Damage> {
    let head = Head::at(segment, offset).ok_or(Damage::Length)?;
    let from = offset + HEAD;
    let to = from.checked_add(head.length as usize).ok_or(Damage::Length)?;
    let payload = segment.get(from..to).ok_or(Damage::Length)?;
    let meta = meta_bytes(payload).ok_or(Damage::Checksum)?;
    let stamp = Stamp { salt, number: head.number, synced: head.synced };
    if checksum(stamp, head.length, &payload[..meta]) != head.crc {
        return Err(Damage::Checksum);
    }
    if head.number > HIGHEST {
        return Err(Damage::Number(head.number));
    }
    let mut reader = Reader(&payload[..meta]);
    let content = content(&mut reader, from + meta).ok_or(Damage::Kind)?;
    if !reader.0.is_empty() {
        return Err(Damage::Kind);
    }
    if let Content::Batch { entries, .. } = &content {
        check_data(segment, entries, (from + meta, to))?;
    }
    let end = aligned(to as u64) as usize;
    Ok(Record { number: head.number, synced: head.synced, content, end })
}

/// The number of bytes before the data; `None` if it is invalid.
fn meta_bytes(payload: &[u8]) -> Option<usize> {
    if payload.first() != Some(&BATCH) {
        return Some(payload.len());
    }
    let flags = *payload.get(1)?;
    let fixed = 2 + if flags == 0 { 0 } else { 25 } + 8;
    let mut reader = Reader(payload.get(fixed..)?);
    let heads = (reader.u32()? as usize).checked_mul(ENTRY_HEAD)?;
    Some(fixed + 4 + heads).filter(|meta| *meta <= payload.len())
}

fn content(reader: &mut Reader<'_>, data: usize) -> Option<Content> {
    Some(match reader.u8() {
        None => Content::Marker,
        Some(SEAL) => Content::Seal,
        Some(CHECKPOINT) => Content::Checkpoint(Checkpoint {
            base: reader.position()?,
            last: reader.position()?,
            hard_state: reader.hard_state()?,
            first_segment: reader.number()?,
        }),
        Some(BASE) => Content::Base { base: reader.position()?, first_segment: reader.number()? },
        Some(RESTART) => Content::Restart {
            base: reader.position()?,
            hard_state: reader.hard_state()?,
            first_segment: reader.number()?,
        },
        Some(BATCH) => batch(reader, data)?,
        Some(_) => return None,
    })
}

fn batch(reader: &mut Reader<'_>, data: usize) -> Option<Content> {
    let hard_state = match reader.u8()? {
        0 => None,
        1 => Some(reader.hard_state()?),
        _ => return None,
    };
    let first = LogIndex(reader.number()?);
    let count = reader.u32()? as usize;
    // A wrong count reserves memory for no more heads than the record has room for.
    let mut entries = Vec::with_capacity(count.min(reader.0.len() / ENTRY_HEAD));
    let mut offset = u32::try_from(data).ok()?;
    for _ in 0..count {
        let term = Term(reader.number()?);
        let (length, crc) = (reader.u32()?, reader.u32()?);
        let kind = match reader.u8()? {
            0 => EntryKind::Commands,
            1 => EntryKind::Membership,
            _ => return None,
        };
        entries.push((term, Slot { offset, length, crc, kind }));
        offset = offset.checked_add(length)?;
    }
    Some(Content::Batch { hard_state, first, entries })
}

/// Whether the data of a batch fill this part of a segment exactly, and match their checksums.
fn check_data(
    segment: &[u8],
    entries: &[(Term, Slot)],
    (from, to): (usize, usize),
) -> Result<(), Damage> {
    let mut at = from;
    for (_, slot) in entries {
        let end = at + slot.length as usize;
        let data = segment.get(at..end).filter(|_| end <= to).ok_or(Damage::Length)?;
        if crc32fast::hash(data) != slot.crc {
            return Err(Damage::Checksum);
        }
        at = end;
    }
    if at == to { Ok(()) } else { Err(Damage::Length) }
}

/// A reader that consumes bytes from the front.
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// Reads an index, a term or another number.
    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes).filter(|number| *number <= HIGHEST)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn position(&mut self) -> Option<Position> {
        Some(Position { index: LogIndex(self.number()?), term: Term(self.number()?) })
    }

    pub(super) fn hard_state(&mut self) -> Option<HardState> {
        let term = Term(self.number()?);
        let vote = match (self.u8()?, self.u64()?) {
            (0, 0) => None,
            (1, vote) => Some(ReplicaId(vote)),
            _ => return None,
        };
        Some(HardState { term, vote, commit: LogIndex(self.number()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Entry;

    fn batch(lengths: &[usize], hard_state: Option<HardState>) -> Batch {
        let entry = |(index, length): (u64, &usize)| Entry {
            position: Position { index: LogIndex(index), term: Term(3) },
            kind: EntryKind::Commands,
            data: vec![7; *length].into(),
        };
        Batch { entries: (1..).zip(lengths).map(entry).collect(), hard_state }
    }

    /// A seal needs the space that is left at the end of a segment. If the computed size of a batch were too small, the
    /// batch would use that space.
    #[test]
    fn the_size_of_a_batch_is_that_of_its_record_with_a_term() {
        let stamp = Stamp { salt: 1, number: 2, synced: 1 };
        let hard_state = HardState { term: Term(3), vote: None, commit: LogIndex(1) };
        for lengths in [&[][..], &[0], &[1, 2, 3], &[7, 8, 9, 1000]] {
            let (with, without) = (batch(lengths, Some(hard_state)), batch(lengths, None));
            let mut out = Vec::new();
            write(&mut out, stamp, Written::Batch(&with));
            assert_eq!(out.len() as u64, batch_bytes(&with), "{lengths:?}");
            out.clear();
            write(&mut out, stamp, Written::Batch(&without));
            assert!(out.len() as u64 <= batch_bytes(&without), "{lengths:?}");
        }
    }
}
