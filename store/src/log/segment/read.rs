//! Reading entries, in as few reads as possible and with a check of each entry.

use super::SegmentLog;
use super::record::Slot;
use crate::log::{Entry, LogIndex, Position, ReadError};
use bytes::Bytes;

/// Largest gap between two entries that are still read at once, because a second read would cost more.
const GAP: u64 = 4096;

impl SegmentLog {
    /// Implements [`crate::log::LogEngine::read`].
    pub(super) fn read_entries(
        &mut self,
        from: LogIndex,
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError> {
        let (mut next, mut left, before) = (from, bytes_max, entries.len());
        while let Some((segment, stretch)) = self.stretch(next, left) {
            let bytes: usize = stretch.iter().map(|(_, slot)| slot.length as usize).sum();
            if bytes > left && entries.len() > before {
                break;
            }
            self.read_stretch(segment, &stretch, entries)?;
            next = LogIndex(next.0 + stretch.len() as u64);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => break,
            }
        }
        Ok(())
    }

    /// Returns the segment and the slots of entries that can be read at once, because they are close together on the
    /// disk.
    fn stretch(&self, from: LogIndex, bytes_max: usize) -> Option<(u64, Vec<(Position, Slot)>)> {
        let (segment, slot) = self.index.find(from)?;
        let mut found = Vec::new();
        // The entries share the memory of one read, so this read is limited to about twice the size of the entries.
        let span_max = (bytes_max as u64).saturating_mul(2).saturating_add(GAP);
        let (mut index, mut slot, mut bytes) = (from, slot, 0);
        let (found_from, mut end) = (slot.offset, u64::from(slot.offset));
        loop {
            bytes += slot.length as usize;
            let start = u64::from(slot.offset);
            let long = start.saturating_sub(u64::from(found_from)) > span_max;
            let apart = start < end || start - end > GAP || long;
            if !found.is_empty() && (bytes > bytes_max || apart) {
                break;
            }
            end = start + u64::from(slot.length);
            let term = self.index.term(index).expect("what has a place has a term");
            found.push((Position { index, term }, slot));
            index = index.next();
            match self.index.find(index) {
                Some((same, next)) if same == segment => slot = next,
                _ => break,
            }
        }
        Some((segment, found))
    }

    /// Reads entries that are adjacent on the disk, and checks each.
    fn read_stretch(
        &mut self,
        segment: u64,
        stretch: &[(Position, Slot)],
        entries: &mut Vec<Entry>,
    ) -> Result<(), ReadError> {
        let first = self.segments.front().map_or(0, |segment| segment.header.sequence);
        let segment = &mut self.segments[(segment - first) as usize];
        let (start, last) = (stretch[0].1.offset, stretch[stretch.len() - 1].1);
        let mut bytes = vec![0; (last.offset + last.length - start) as usize];
        let path = &segment.path;
        let failed = |source| ReadError::Io { path: path.clone(), source };
        // If the file has fewer bytes, the missing bytes stay zero, so that the checksum does not match.
        segment.file.read_at(u64::from(start), &mut bytes).map_err(failed)?;
        let bytes = Bytes::from(bytes);
        for (position, slot) in stretch {
            let from = (slot.offset - start) as usize;
            let data = bytes.slice(from..from + slot.length as usize);
            if crc32fast::hash(&data) != slot.crc {
                let (path, offset) = (path.clone(), u64::from(slot.offset));
                return Err(ReadError::Corrupt { path, offset, index: position.index });
            }
            entries.push(Entry { position: *position, kind: slot.kind, data });
        }
        Ok(())
    }
}
