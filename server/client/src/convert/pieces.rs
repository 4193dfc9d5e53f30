//! Splitting of large deltas into pieces, so that no message exceeds the receiver's limit.
//!
//! A piece contains the next items of each list, as many as fit. The receiver joins the pieces in order to get the
//! delta. An item that is larger than a piece is sent as a piece of its own. The bounds of jobs and machines in
//! [`omega_core::limits`] keep such a piece below the limit of a message.

use crate::proto;
use prost::Message;
use prost::encoding::{encoded_len_varint, key_len};
use std::vec::IntoIter;

/// Approximate bytes of a piece. A stream whose receiver does not read has one piece in memory.
pub const PIECE_BYTES: usize = 64 << 10;

/// Splits a delta into pieces of about `piece_bytes` bytes. Each piece is made when the iterator reaches it. Most
/// deltas are one piece.
#[must_use]
pub fn split(delta: proto::Delta, piece_bytes: usize) -> Pieces {
    if delta.encoded_len() <= piece_bytes {
        Pieces { whole: Some(delta), rest: None, piece_bytes }
    } else {
        Pieces { whole: None, rest: Some(Box::new(Rest::new(delta))), piece_bytes }
    }
}

/// The pieces of a delta, in order. There is at least one. All but the last have `more` set.
#[derive(Debug)]
pub struct Pieces {
    whole: Option<proto::Delta>,
    rest: Option<Box<Rest>>,
    piece_bytes: usize,
}

impl Iterator for Pieces {
    type Item = proto::Delta;

    fn next(&mut self) -> Option<proto::Delta> {
        if let Some(whole) = self.whole.take() {
            return Some(whole);
        }
        let rest = self.rest.as_mut()?;
        let piece = rest.take(self.piece_bytes);
        if !piece.more {
            self.rest = None;
        }
        Some(piece)
    }
}

/// Estimate of the encoded size of an item of a repeated field. It assumes a large field number.
trait Item {
    fn bytes(&self) -> usize;
}

impl<M: Message> Item for M {
    fn bytes(&self) -> usize {
        let bytes = self.encoded_len();
        key_len(99) + encoded_len_varint(bytes as u64) + bytes
    }
}

/// Takes items from the front of a list as long as the piece has room. The first item of a piece is always taken.
fn take<T>(from: &mut IntoIter<T>, room: &mut Room, bytes: impl Fn(&T) -> usize) -> Vec<T> {
    let mut fitting = 0;
    for item in from.as_slice() {
        if !room.take(bytes(item)) {
            break;
        }
        fitting += 1;
    }
    from.by_ref().take(fitting).collect()
}

/// Bytes that are left in a piece.
struct Room {
    bytes: usize,
    is_empty: bool,
}

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let fits = self.is_empty || bytes <= self.bytes;
        if fits {
            self.is_empty = false;
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        fits
    }
}

/// Bytes of an unsigned number in a packed field.
fn unsigned<T: Copy + Into<u64>>(value: &T) -> usize {
    encoded_len_varint((*value).into())
}

/// Bytes of a signed number in a packed field.
fn signed(value: &i64) -> usize {
    encoded_len_varint(((value << 1) ^ (value >> 63)) as u64)
}

fn phase(value: &i32) -> usize {
    encoded_len_varint(*value as u64)
}

/// Lists all lists of a delta, each with a function for the bytes of an item. A list that is added here is split and
/// joined.
macro_rules! lists {
    ($with:ident) => {
        $with!(
            {
                machines: proto::MachineDelta, Item::bytes;
                slots: u32, unsigned;
                sequences: u64, unsigned;
                free: i64, signed;
                devices: proto::DevicesLeft, Item::bytes;
                cores: proto::CoresLeft, Item::bytes;
                demand_profiles: proto::DemandProfileSum, Item::bytes;
                batch: proto::BatchAllocated, Item::bytes;
                tenant_counts: proto::TenantCount, Item::bytes;
                taken_ports: proto::TakenPorts, Item::bytes;
                loads: proto::Load, Item::bytes;
                trackers: proto::Tracker, Item::bytes;
                tenants: proto::TenantDelta, Item::bytes;
                jobs: proto::JobDelta, Item::bytes;
                task_jobs: u64, unsigned;
                task_indices: u32, unsigned;
                task_groups: u32, unsigned;
                task_phases: i32, phase;
                task_slots: u32, unsigned;
                task_incarnations: u32, unsigned;
                task_devices: u32, unsigned;
                task_placed_ms: u64, unsigned;
                allocations: proto::Allocation, Item::bytes;
                task_cores: proto::TaskCores, Item::bytes;
            }
            {
                trackers: u64, unsigned;
                domains: u32, unsigned;
                rows: u32, unsigned;
                names: String, Item::bytes;
                matched: u32, unsigned;
                holders: u32, unsigned;
                seekers: u32, unsigned;
                pullers: u32, unsigned;
                pull: i64, signed;
            }
        );
    };
}

macro_rules! define_rest {
    (
        { $($list:ident: $item:ty, $bytes:expr;)* }
        { $($count:ident: $number:ty, $size:expr;)* }
    ) => {
        /// The part of a delta that is not in a piece yet.
        #[derive(Debug)]
        struct Rest {
            /// All fields that are not lists. The first piece contains them.
            head: Option<proto::Delta>,
            counts: Option<RestOfCounts>,
            $($list: IntoIter<$item>,)*
        }

        #[derive(Debug)]
        struct RestOfCounts {
            $($count: IntoIter<$number>,)*
        }

        impl Rest {
            fn new(mut delta: proto::Delta) -> Rest {
                let counts = delta.counts.take().map(|counts| RestOfCounts {
                    $($count: counts.$count.into_iter(),)*
                });
                $(let $list = std::mem::take(&mut delta.$list).into_iter();)*
                Rest { head: Some(delta), counts, $($list,)* }
            }

            fn take(&mut self, piece_bytes: usize) -> proto::Delta {
                let mut piece = self.head.take().unwrap_or_default();
                let used = piece.encoded_len();
                let mut room = Room { bytes: piece_bytes.saturating_sub(used), is_empty: used == 0 };
                $(piece.$list = take(&mut self.$list, &mut room, $bytes);)*
                piece.counts = self.counts.as_mut().and_then(|counts| counts.take(&mut room));
                piece.more = !self.is_empty();
                piece
            }

            fn is_empty(&self) -> bool {
                let lists = [$(self.$list.len(),)*];
                let left = self.counts.as_ref().map_or(0, RestOfCounts::len);
                lists.iter().all(|left| *left == 0) && left == 0
            }
        }

        impl RestOfCounts {
            fn take(&mut self, room: &mut Room) -> Option<proto::TrackerCounts> {
                (self.len() > 0).then(|| proto::TrackerCounts {
                    $($count: take(&mut self.$count, room, $size),)*
                })
            }

            fn len(&self) -> usize {
                [$(self.$count.len(),)*].iter().sum()
            }
        }

        /// Appends a piece to the delta that was joined from the pieces before it.
        pub fn join(delta: &mut proto::Delta, piece: proto::Delta) {
            delta.more = piece.more;
            $(delta.$list.extend(piece.$list);)*
            if let Some(more) = piece.counts {
                let counts = delta.counts.get_or_insert_default();
                $(counts.$count.extend(more.$count);)*
            }
        }
    };
}

lists!(define_rest);
