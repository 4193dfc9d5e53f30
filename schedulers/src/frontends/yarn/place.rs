//! Placement of an application's next container: on a requested machine, in a requested rack, or anywhere. The allowed
//! locations depend on how long the request has waited.
//!
//! On requested machines and racks, the container goes to the first machine that passes the cell's check. If any
//! machine is allowed, the profile chooses. A request that finds no room does not block requests of lower priority.

use super::frontend::{Application, Frontend, Given, Key};
use super::messages::{Container, Locality};
use super::table::{Spot, Table};
use super::turns::{End, Turn, Turns};
use crate::frontends::Mark;
use crate::placing::place::GroupPlacement;
use crate::queue::Nanos;
use omega_cellstate::GroupRef;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{JobId, TaskId, Text};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::Bound;

/// A request to be placed: the application, the priority and size, and the group as compiled by the view.
#[derive(Clone, Copy, Debug)]
struct Wish {
    id: JobId,
    key: Key,
    group: GroupRef,
}

/// An application's turn, the order of turns, and the number of claims that still fit in the transaction.
#[derive(Clone, Copy)]
struct CurrentTurn<'a> {
    turns: &'a Turns,
    turn: Turn,
    room: usize,
}

/// The requests that have skipped machines with room in this round. Each request is counted once per round.
type PassedUp = BTreeSet<(JobId, Key)>;

impl Frontend {
    /// Claims machines for requests, turn by turn, until no request finds a machine or the transaction is full.
    pub(super) fn decide(&mut self, now: Nanos) {
        let most = self.settings.claims_max.clamp(1, TRANSACTION_ITEMS_MAX);
        let mut turns = self.take_turns();
        let mut passed_up = PassedUp::new();
        while self.session.view.open_claims() < most
            && let Some(turn) = turns.next()
        {
            let room = most - self.session.view.open_claims();
            let end =
                self.take_turn(CurrentTurn { turns: &turns, turn, room }, now, &mut passed_up);
            turns.end(turn, end);
        }
        self.keep_turns(turns);
        self.counters.passed_up += passed_up.len() as u64;
    }

    fn take_turn(&mut self, current: CurrentTurn<'_>, now: Nanos, passed_up: &mut PassedUp) -> End {
        let id = current.turn.application;
        let wants = |application: &&Application| application.wants();
        let Some(application) = self.applications.get(&id).filter(wants) else {
            return End::Satisfied;
        };
        let silence = self.settings.silence_max.unwrap_or(Nanos::MAX);
        if now.saturating_sub(application.last_heartbeat) >= silence {
            return End::Waits;
        }
        match self.serve(current, passed_up) {
            0 => End::Waits,
            _ => self.shares(id).map_or(End::Satisfied, End::Served),
        }
    }

    /// Claims a machine for the next container of an application. If the next turns also go to this application,
    /// claims machines for several containers.
    ///
    /// Returns the number of claimed containers. After 0, the application gets no more containers in this round.
    fn serve(&mut self, current: CurrentTurn<'_>, passed_up: &mut PassedUp) -> usize {
        let id = current.turn.application;
        let mut next = self.next_key(id, Bound::Unbounded);
        while let Some(key) = next {
            let claimed = self.serve_key(current, key, passed_up);
            if claimed > 0 {
                return claimed;
            }
            next = self.next_key(id, Bound::Excluded(key));
        }
        0
    }

    /// The first key, above a bound, for which an application requests containers.
    fn next_key(&self, id: JobId, above: Bound<Key>) -> Option<Key> {
        let tables = self.applications.get(&id)?.tables.range((above, Bound::Unbounded));
        tables.filter(|(_, table)| table.total() > 0).map(|(key, _)| *key).next()
    }

    fn serve_key(&mut self, current: CurrentTurn<'_>, key: Key, passed_up: &mut PassedUp) -> usize {
        let CurrentTurn { turns, turn, room } = current;
        let id = turn.application;
        let Some(entry) = self.session.task_index.job(id) else { return 0 };
        let Some(first) = entry.waiting(key.1).next() else { return 0 };
        let waiting = entry.waiting_count(key.1);
        let group = self.session.view.compile(id, &entry.job, key.1);
        let wish = Wish { id, key, group };
        let task = TaskId { job: id, index: first };
        if self.claim_on_machine(wish, task) || self.claim_in_rack(wish, task) {
            return 1;
        }
        let Some(table) = self.table(wish) else { return 0 };
        if table.takes_any(&self.settings) {
            let most = (table.total() as usize).min(waiting).min(room);
            let count = self.turns_in_a_row(turns, turn, key.1, most);
            return self.claim_anywhere(wish, count);
        }
        if table.may_relax() && !passed_up.contains(&(id, key)) && self.has_room(wish, task) {
            passed_up.insert((id, key));
            let application = self.applications.get_mut(&id);
            if let Some(table) = application.and_then(|one| one.tables.get_mut(&key)) {
                table.passed_up = table.passed_up.saturating_add(1);
            }
        }
        0
    }

    fn table(&self, wish: Wish) -> Option<&Table> {
        self.applications.get(&wish.id)?.tables.get(&wish.key)
    }

    /// Whether the machine in a row is not on the application's blacklist.
    fn admits(&self, id: JobId, row: usize) -> bool {
        let Some(application) = self.applications.get(&id) else { return false };
        let name = || self.places.location(row).map(|location| &location.machine);
        application.refused.is_empty()
            || name().is_some_and(|name| !application.refused.contains(name))
    }

    /// Whether a task may be placed on a row. This depends on the cell's check, the limits of the task's tenant, and
    /// the application's blacklist.
    fn may_have(&self, wish: Wish, row: usize) -> bool {
        let view = &self.session.view;
        view.quota_room(wish.group, 1) > 0
            && view.check_fit(row, wish.group).is_ok()
            && self.admits(wish.id, row)
    }

    fn claim_on_machine(&mut self, wish: Wish, task: TaskId) -> bool {
        let Some(table) = self.table(wish) else { return false };
        let found = {
            let mut rows = table.machines().filter_map(|name| self.places.row(name));
            rows.find(|row| self.may_have(wish, *row))
        };
        found.is_some_and(|row| self.claim_row(wish, task, row, Locality::Machine))
    }

    fn claim_in_rack(&mut self, wish: Wish, task: TaskId) -> bool {
        let Some(table) = self.table(wish) else { return false };
        if !table.takes_rack(&self.settings) {
            return false;
        }
        let found = {
            let mut rows = table.racks().flat_map(|rack| self.places.rack(rack));
            rows.find(|row| self.may_have(wish, *row))
        };
        found.is_some_and(|row| self.claim_row(wish, task, row, Locality::Rack))
    }

    fn claim_row(&mut self, wish: Wish, task: TaskId, row: usize, near: Locality) -> bool {
        let machine = self.session.view.machine_id(row);
        let claimed = self.session.view.claim(task, machine, wish.group).is_ok();
        if claimed {
            self.give(wish, task, row, near);
        }
        claimed
    }

    /// Claims machines chosen by the profile for the next tasks. Returns the number of claimed tasks.
    fn claim_anywhere(&mut self, wish: Wish, count: usize) -> usize {
        let Some(entry) = self.session.task_index.job(wish.id) else { return 0 };
        let waiting = entry.waiting(wish.key.1).take(count);
        let tasks: SmallVec<[TaskId; 4]> =
            waiting.map(|index| TaskId { job: wish.id, index }).collect();
        let before = self.session.view.open_claims();
        let Frontend { profile, settings, session, .. } = self;
        let placement = settings.placement;
        let wanted = GroupPlacement { profile, placement, group: wish.group };
        let placed = self.placer.place(&mut session.view, wanted, &tasks, &mut self.rng);
        let claims: SmallVec<[(TaskId, usize); 4]> = (before..before + placed)
            .filter_map(|index| self.session.view.open_claim(index))
            .map(|claim| (claim.task, claim.machine.row()))
            .collect();
        let (given, refused): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) =
            claims.into_iter().partition(|(_, row)| self.admits(wish.id, *row));
        for (task, _) in &refused {
            self.session.view.drop_claim(*task);
        }
        for (task, row) in &given {
            self.give(wish, *task, *row, Locality::Elsewhere);
        }
        let beside = refused.iter().filter(|(task, _)| self.claim_beside_refused(wish, *task));
        given.len() + beside.count()
    }

    /// Claims the first feasible machine for a task, because the application has blacklisted the best one. Returns
    /// whether a machine was claimed.
    fn claim_beside_refused(&mut self, wish: Wish, task: TaskId) -> bool {
        let found = (0..self.session.view.rows()).find(|row| self.may_have(wish, *row));
        found.is_some_and(|row| self.claim_row(wish, task, row, Locality::Elsewhere))
    }

    /// Whether any machine has room for a task. The placement is tried on the view, and undone.
    fn has_room(&mut self, wish: Wish, task: TaskId) -> bool {
        let Frontend { profile, settings, session, .. } = self;
        let placement = settings.placement;
        let wanted = GroupPlacement { profile, placement, group: wish.group };
        self.placer.has_room(&mut session.view, wanted, task, &mut self.rng)
    }

    /// Subtracts a claimed container from the requests.
    fn give(&mut self, wish: Wish, task: TaskId, row: usize, locality: Locality) {
        self.session.task_index.note(task, Mark::Claimed);
        let machine = self.session.view.machine_id(row);
        let (group, _) = self.session.view.job(wish.group);
        let group = group.groups[wish.key.1].name.clone();
        let location = self.places.location(row);
        let machine_name =
            location.map_or_else(|| Text::from(""), |location| location.machine.clone());
        let rack = location.and_then(|location| location.rack.clone());
        let application = self.applications.get_mut(&wish.id);
        let Some(table) = application.and_then(|one| one.tables.get_mut(&wish.key)) else { return };
        let lines = table.take(Spot { machine: &machine_name, rack: rack.as_ref() }, locality);
        let container =
            Container { task, priority: wish.key.0, group, machine, machine_name, locality };
        let since = table.since;
        self.given.push(Given { key: wish.key, container, rack, lines, since });
    }
}
