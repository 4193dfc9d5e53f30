//! Moves of two tasks that depend on each other: an exchange of machines, and a move that makes room for another move.
//!
//! Each pair is one transaction, which the cell applies completely or not at all. If a kind is transient, a moving task
//! occupies its amount of the kind on both machines, so an exchange needs room on both machines at once. In that case,
//! a task that needs the room of a moved task moves in the next wave.

use super::account::Proposed;
use super::aims::demand::Change;
use super::plan::Why;
use super::search::{Look, Occupant, Search, shifts, step};
use omega_cellstate::{Need, PlacedTask};
use omega_core::{KindId, Reason};
use rand::RngExt;
use smallvec::SmallVec;

/// Maximum number of tasks on a machine for which an exchange is tried. Tasks whose departure gains most come first.
const OFFERED: usize = 8;

/// Maximum number of other machines whose tasks are examined for an exchange with tasks of one machine.
const PARTNERS: usize = 16;

/// Maximum number of tasks that are examined on each other machine.
const THEIRS: usize = 8;

/// Maximum number of tasks whose move is tried, one after the other, to make room for one task.
const ROOM_TRIES: usize = 64;

/// Exchanges a task of a row with a task of another row, chosen at random, if this reduces the objective. Returns
/// whether an exchange was made.
pub(super) fn swap(search: &mut Search<'_>, row: usize, leavers: &[(i64, PlacedTask)]) -> bool {
    let rows = search.view.rows();
    if !search.settings.exchanges || rows < 2 || search.account.value(row) == 0 {
        return false;
    }
    let mut best: Option<(i64, [Proposed; 2])> = None;
    for _ in 0..PARTNERS {
        let partner = search.rng.random_range(0..rows);
        if partner == row || !search.account.counts(partner) || !search.account.counts(row) {
            continue;
        }
        for (_, mine) in leavers.iter().take(OFFERED) {
            for theirs in search.unmoved(partner).into_iter().take(THEIRS) {
                let there = Proposed { task: *mine, from: row, to: partner };
                let back = Proposed { task: theirs, from: partner, to: row };
                let gain = exchanged(search, [there, back]).unwrap_or(0);
                if gain > best.map_or(0, |(most, _)| most) {
                    best = Some((gain, [there, back]));
                }
            }
        }
    }
    best.is_some_and(|(_, moves)| step(search, &moves))
}

/// Returns the gain of an exchange, or `None` if it is not possible or does not gain.
///
/// Crowding, rules, devices, cores and the cell's demand profiles are checked only when the exchange is made.
fn exchanged(search: &mut Search<'_>, moves: [Proposed; 2]) -> Option<i64> {
    let [mine, theirs] = [search.know(moves[0].task)?, search.know(moves[1].task)?];
    search.considered += 1;
    let (here, partner) = (moves[0].from, moves[0].to);
    let view = &*search.view;
    let (out, back) = (&search.need(mine).request, &search.need(theirs).request);
    if out == back && search.settings.objectives.demand.is_empty() {
        return None;
    }
    let fits = |row: usize, comes: &Need, goes: &[i64]| {
        comes.least().iter().zip(goes).enumerate().all(|(kind, (comes, goes))| {
            let free = view.free(row, KindId(kind as u8)) - search.hold.held(row, kind);
            let left = if search.hold.is_transient(kind) { 0 } else { *goes };
            *comes == 0 || free + left >= *comes
        })
    };
    if !fits(partner, search.need(mine), back) || !fits(here, search.need(theirs), out) {
        return None;
    }
    let (account, left) = (&search.account, &search.left);
    let changes = |sign: i64| {
        let [mine, theirs] = [&moves[0], &moves[1]].map(|m| m.task.id.job);
        [
            Change { job: mine, request: out, sign },
            Change { job: theirs, request: back, sign: -sign },
        ]
    };
    let at_home = account.value_with(view, here, &changes(-1), |kind| out[kind] - back[kind]);
    let there = account.value_with(view, partner, &changes(1), |kind| back[kind] - out[kind]);
    let moving = |m: &Proposed, request: &[i64]| {
        let job = m.task.id.job;
        account.of_move(job, request, left.moved_of(job)) + account.between(m.from, m.to)
    };
    let moving = moving(&moves[0], out) + moving(&moves[1], back);
    let gain = account.value(here) + account.value(partner) - at_home - there - moving;
    let allowed = gain > 0
        && (!search.hold.any() || [mine, theirs].iter().all(|known| is_plain(search.need(*known))))
        && search.may_move(&[(moves[0].task, mine), (moves[1].task, theirs)]).is_ok();
    allowed.then_some(gain)
}

/// Whether free amounts alone decide where a task fits, because it has no demand profile, devices or exclusive cores.
fn is_plain(need: &Need) -> bool {
    need.devices.is_none() && need.cores.is_none() && need.demand_profiles.is_none()
}

/// Moves another task to make room for a task for which no machine has room. Returns whether both tasks were moved.
pub(super) fn make_room(search: &mut Search<'_>, lacks: Occupant) -> bool {
    let Occupant { row, task } = lacks;
    let Some(known) = search.know(task) else { return false };
    let look = Look::UntilFeasible(search.settings.machines_each);
    for maker in room_makers(search, lacks, known) {
        let Occupant { row: at, task: other } = maker;
        let Some(of_other) = search.know(other) else { continue };
        if search.may_move(&[(other, of_other), (task, known)]).is_err() {
            continue;
        }
        let Ok((to, _)) = search.cheapest(maker, of_other, look) else { continue };
        let goes = Proposed { task: other, from: at, to };
        let comes = Proposed { task, from: row, to: at };
        if search.hold.any() {
            if in_two_waves(search, goes, comes) {
                return true;
            }
        } else if step(search, &[goes, comes]) {
            return true;
        }
    }
    false
}

/// Makes the move `goes` in this wave, and the move `comes` in the next wave. Returns whether they were made.
fn in_two_waves(search: &mut Search<'_>, goes: Proposed, comes: Proposed) -> bool {
    if search.done.len() + 1 >= search.settings.bounds.waves {
        return false;
    }
    let known = search.know(goes.task);
    if known.is_some_and(|known| search.view.may_be_runtime_affinity(search.need(known))) {
        // The first move alone might break the runtime affinity of another task, and the cell would then reject it.
        return false;
    }
    if !search.keep.allows(&shifts(&[goes])) {
        return false;
    }
    let Some((gain, term)) = search.try_moves(&[goes, comes]) else { return false };
    search.note(&[goes], 0, Why::MakesRoom);
    search.next_wave();
    search.note(&[comes], gain, Why::Gain(term));
    // In the next wave, the room that tasks leave in this wave is free.
    search.awaits = true;
    true
}

/// Returns the tasks whose departure would make enough room; the tasks that are cheapest to move come first.
fn room_makers(search: &mut Search<'_>, lacks: Occupant, known: usize) -> Vec<Occupant> {
    let Occupant { row, task } = lacks;
    search.view.lift(row, task);
    let group = search.group(known);
    let is_short = |at: &usize| {
        let fit = search.view.check_fit(*at, group);
        *at != row && matches!(fit, Err(Reason::NoRoom(_) | Reason::NoDevices | Reason::NoCores))
    };
    let short: Vec<usize> = (0..search.view.rows()).filter(is_short).collect();
    search.view.put_back(row, task);
    search.considered += short.len() as u64;
    let request: SmallVec<[i64; 8]> = search.need(known).least().iter().copied().collect();
    let mut makers = Vec::new();
    for at in short {
        for other in search.unmoved(at) {
            let Some(of_other) = search.know(other) else { continue };
            let theirs = &search.need(of_other).request;
            let fits = request.iter().zip(theirs).enumerate().all(|(kind, (wanted, goes))| {
                let free = search.view.free(at, KindId(kind as u8));
                *wanted == 0 || free + goes >= *wanted
            });
            if fits && !search.misplaced.contains(&other.id) {
                let size = search.account.objective().of_move(theirs);
                makers.push((size, Occupant { row: at, task: other }));
            }
        }
    }
    makers.sort_by_key(|(size, maker)| (*size, maker.task.id));
    makers.truncate(ROOM_TRIES);
    makers.into_iter().map(|(_, maker)| maker).collect()
}
