//! Small random changes of valid bytes.

use crate::random::Dice;

/// Extreme integers, which are written in little-endian order.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0xffff, u32::MAX as u64, 1 << 40, i64::MAX as u64, u64::MAX];

/// Changes, removes, repeats or appends some bytes, or replaces the end by that of another input.
pub(super) fn mutate(mut bytes: Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    for _ in 0..dice.below(6) {
        if bytes.is_empty() {
            bytes.push(dice.below(256) as u8);
        }
        let at = dice.below(bytes.len());
        let end = at + dice.below(bytes.len() - at + 1).min(64);
        match dice.below(9) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.below(256) as u8,
            // In bincode, these bytes mean that a longer integer follows.
            2 => bytes[at] = 251 + dice.below(5) as u8,
            3 => put_edge(&mut bytes[at..], dice),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            6 => bytes.truncate(at),
            7 => bytes.extend((0..dice.below(16)).map(|_| dice.below(256) as u8)),
            _ => {
                let other = dice.pick(corpus);
                let from = dice.below(other.len().max(1)).min(other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
        }
    }
    bytes
}

/// Changes some bytes of a part, but not its length.
pub(super) fn mutate_part(bytes: &mut [u8], dice: &mut Dice) {
    for _ in 0..1 + dice.below(3) {
        let at = dice.below(bytes.len());
        match dice.below(3) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.below(256) as u8,
            _ => put_edge(&mut bytes[at..], dice),
        }
    }
}

fn put_edge(bytes: &mut [u8], dice: &mut Dice) {
    let edge = dice.pick(&EDGES).to_le_bytes();
    let length = *dice.pick(&[1, 2, 4, 8]);
    bytes.iter_mut().zip(&edge[..length]).for_each(|(to, from)| *to = *from);
}
