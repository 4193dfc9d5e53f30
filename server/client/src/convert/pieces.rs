//! A large delta travels in pieces, so that no message is larger than a receiver takes.
//!
//! A piece has a part of each list, and the next pieces have the rest; put together again in order they
//! are the delta. Pieces are cut by the bytes that their items have at most, not by what they really
//! have: it is enough that a piece stays far below the bound.

use crate::proto;
use prost::Message;

/// Bytes of a piece, about. A quarter of what a message may have.
pub const PIECE_BYTES: usize = 1 << 20;

/// Cuts a delta into pieces of about so many bytes. Most need no cut, and come back as they are.
#[must_use]
pub fn split(mut delta: proto::Delta, piece_bytes: usize) -> Vec<proto::Delta> {
    let parts = delta.encoded_len().div_ceil(piece_bytes).max(1);
    let mut pieces = Vec::with_capacity(parts);
    for part in (1..parts).rev() {
        pieces.push(cut(&mut delta, part + 1));
    }
    pieces.push(delta);
    pieces.reverse();
    let last = pieces.len() - 1;
    pieces[..last].iter_mut().for_each(|piece| piece.more = true);
    pieces
}

/// Takes the last of so many equal parts off each list.
fn cut(delta: &mut proto::Delta, parts: usize) -> proto::Delta {
    let rows = delta.slots.len() / parts;
    let kinds = match delta.slots.len() {
        0 => 0,
        slots => delta.free.len() / slots,
    };
    proto::Delta {
        machines: tail(&mut delta.machines, parts),
        slots: tail(&mut delta.slots, parts),
        sequences: tail(&mut delta.sequences, parts),
        free: delta.free.split_off(delta.free.len().saturating_sub(rows * kinds)),
        cards: tail(&mut delta.cards, parts),
        cores: tail(&mut delta.cores, parts),
        curves: tail(&mut delta.curves, parts),
        batch: tail(&mut delta.batch, parts),
        loads: tail(&mut delta.loads, parts),
        tenants: tail(&mut delta.tenants, parts),
        jobs: tail(&mut delta.jobs, parts),
        task_jobs: tail(&mut delta.task_jobs, parts),
        task_indices: tail(&mut delta.task_indices, parts),
        task_groups: tail(&mut delta.task_groups, parts),
        task_phases: tail(&mut delta.task_phases, parts),
        task_slots: tail(&mut delta.task_slots, parts),
        task_incarnations: tail(&mut delta.task_incarnations, parts),
        task_cards: tail(&mut delta.task_cards, parts),
        counts: delta.counts.as_mut().map(|counts| cut_counts(counts, parts)),
        ..proto::Delta::default()
    }
}

/// The names stay in the first piece, and mean the same in all.
fn cut_counts(counts: &mut proto::TrackerCounts, parts: usize) -> proto::TrackerCounts {
    proto::TrackerCounts {
        trackers: tail(&mut counts.trackers, parts),
        domains: tail(&mut counts.domains, parts),
        rows: tail(&mut counts.rows, parts),
        names: Vec::new(),
        matched: tail(&mut counts.matched, parts),
        holders: tail(&mut counts.holders, parts),
        seekers: tail(&mut counts.seekers, parts),
        pullers: tail(&mut counts.pullers, parts),
        pull: tail(&mut counts.pull, parts),
    }
}

/// Takes the last of so many equal parts off a list.
fn tail<T>(list: &mut Vec<T>, parts: usize) -> Vec<T> {
    list.split_off(list.len() - list.len() / parts)
}

/// Appends a piece to those before it.
pub fn join(delta: &mut proto::Delta, piece: proto::Delta) {
    delta.more = piece.more;
    delta.machines.extend(piece.machines);
    delta.slots.extend(piece.slots);
    delta.sequences.extend(piece.sequences);
    delta.free.extend(piece.free);
    delta.cards.extend(piece.cards);
    delta.cores.extend(piece.cores);
    delta.curves.extend(piece.curves);
    delta.batch.extend(piece.batch);
    delta.loads.extend(piece.loads);
    delta.tenants.extend(piece.tenants);
    delta.jobs.extend(piece.jobs);
    delta.task_jobs.extend(piece.task_jobs);
    delta.task_indices.extend(piece.task_indices);
    delta.task_groups.extend(piece.task_groups);
    delta.task_phases.extend(piece.task_phases);
    delta.task_slots.extend(piece.task_slots);
    delta.task_incarnations.extend(piece.task_incarnations);
    delta.task_cards.extend(piece.task_cards);
    if let (Some(counts), Some(more)) = (&mut delta.counts, piece.counts) {
        counts.trackers.extend(more.trackers);
        counts.domains.extend(more.domains);
        counts.rows.extend(more.rows);
        counts.matched.extend(more.matched);
        counts.holders.extend(more.holders);
        counts.seekers.extend(more.seekers);
        counts.pullers.extend(more.pullers);
        counts.pull.extend(more.pull);
    }
}
