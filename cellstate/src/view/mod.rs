//! A view: a scheduler's private copy of the cell, in columns, with its own claims in it.
//!
//! Decisions are made on the view, without any lock. Deltas update it at a cost proportional to the number of changed
//! machines. Claims without a result are subtracted at once, so that a scheduler's next decision includes its last;
//! they stay subtracted through every sync until the result.
//!
//! ```text
//!   claim ─▶ open claims ──take_transaction──▶ in flight ──settle──▶ gone
//!                │  ▲                              │                  │ rejected: added back
//!                ▼  │                              │                  │ accepted: now part of the
//!             held claims                          │                  │        cell, see below
//!                └────── subtracted all along ─────┘
//! ```
//!
//! An accepted claim stays subtracted until the sync that reaches the commit's version and brings the machine's new
//! row: over a network, older rows may arrive before. The same holds for the room of evicted tasks. If the view has
//! reached the commit's version already, its rows include the commit, and the claims are added back at once.
//!
//! Memory per machine, with four kinds: 32 bytes for free amounts, 8 for the sequence number, 8 for the description
//! (shared with the cell), 4 for the incarnation, and 4 for each kind that a score reads.

mod block;
mod claims;
mod columns;
mod compiled;
mod cores;
mod counted;
mod demand_profiles;
mod departures;
mod evictions;
mod images;
mod job_places;
mod kept;
mod loads;
mod placements;
mod reach;
mod rules;
mod surplus;
mod tally;
mod tenants;

pub use block::{Block, FEW, LeftShare};
pub use columns::BLOCK;
pub use compiled::GroupRef;
pub use counted::{TaskCounts, TaskSet};
pub use departures::Departure;
pub use images::ImageHolder;
pub use job_places::JobPlaces;
pub use kept::{Level, MachineSet};
pub use loads::{BlockLoad, NEVER};
pub use placements::PlacedTask;
pub use reach::Reach;
pub use rules::{Draws, WishCounts};
pub use tally::Tally;
pub use tenants::QuotaLack;

use crate::delta::{Delta, Interest};
use crate::demand_profiles::DemandProfileSums;
use crate::devices::Devices;
use crate::facts::{Facts, Need, Trackers};
use crate::handle::{CellHandle, HandleError};
use crate::judge::{Asked, Grant, MachineStatus, Rules, Spot, judge};
use crate::map::FastMap;
use crate::policy::{Applying, Context, Mirrors, Placement, TenantTree};
use claims::{InFlight, Open, Taken};
use columns::Columns;
use compiled::Compiled;
use evictions::Eviction;
use images::Images;
use kept::{Kept, inverse_capacity};
use omega_core::{
    JobId, Kinds, Machine, MachineId, Reason, SchedulerId, SequenceNumber, TaskId, Version,
};
use placements::Placements;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use tally::RowState;

/// A scheduler's private copy of the cell. See the module documentation.
#[derive(Debug)]
pub struct View {
    scheduler: SchedulerId,
    next_number: u64,
    interest: Interest,
    version: Version,
    /// The cell's time at that version.
    now_ms: u64,
    /// The lineage of its tracker numbers. See [`Delta::lineage`].
    lineage: Version,
    kinds: Kinds,
    delta: Delta,
    facts: Facts,
    columns: Columns,
    inverses: Vec<Option<Vec<f32>>>,
    kept: Kept,
    sequences: Vec<SequenceNumber>,
    incarnations: Vec<u32>,
    /// One bit for each machine that accepts tasks.
    schedulable: Vec<u64>,
    draining: Vec<u64>,
    devices: FastMap<u32, Devices>,
    cores: cores::Cores,
    demand_profiles: DemandProfileSums,
    loads: loads::Loads,
    images: Images,
    tenants: tenants::KnownTenants,
    /// The mirror of each policy, including own claims.
    policies: Mirrors,
    placements: Option<Box<Placements>>,
    job_places: Option<Box<job_places::Places>>,
    departures: Option<Box<departures::Departures>>,
    groups: Vec<Option<Compiled>>,
    /// Free positions in `groups`.
    vacant: Vec<u32>,
    by_job: FastMap<JobId, SmallVec<[GroupRef; 2]>>,
    rules_generation: u64,
    tally: Tally,
    open: Vec<Open>,
    held: BTreeMap<TaskId, Open>,
    evictions: Vec<Eviction>,
    in_flight: Vec<InFlight>,
    taken: Vec<Taken>,
    spare: Vec<Vec<Open>>,
}

impl View {
    /// An empty view for a registered scheduler, which the first sync fills. `next_number` is the number of its first
    /// transaction (see [`CellHandle::register`]).
    #[must_use]
    pub fn new(scheduler: SchedulerId, next_number: u64) -> View {
        let kinds = Kinds::standard();
        View {
            scheduler,
            next_number,
            interest: Interest::Machines,
            version: Version(0),
            now_ms: 0,
            lineage: Version(0),
            columns: Columns::new(kinds.count()),
            inverses: vec![None; kinds.count()],
            kept: Kept::default(),
            kinds,
            delta: Delta::default(),
            facts: Facts::default(),
            sequences: Vec::new(),
            incarnations: Vec::new(),
            schedulable: Vec::new(),
            draining: Vec::new(),
            devices: FastMap::default(),
            cores: cores::Cores::default(),
            demand_profiles: DemandProfileSums::default(),
            loads: loads::Loads::default(),
            images: Images::default(),
            tenants: tenants::KnownTenants::default(),
            policies: Mirrors::default(),
            placements: None,
            job_places: None,
            departures: None,
            groups: Vec::new(),
            vacant: Vec::new(),
            by_job: FastMap::default(),
            rules_generation: 0,
            tally: Tally::default(),
            open: Vec::new(),
            held: BTreeMap::new(),
            evictions: Vec::new(),
            in_flight: Vec::new(),
            taken: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// An empty view of the same scheduler that continues its transaction numbers.
    #[must_use]
    pub fn begin_again(&self) -> View {
        View::new(self.scheduler, self.next_number)
    }

    /// Sets the jobs that the view receives.
    #[must_use]
    pub fn with_interest(mut self, interest: Interest) -> View {
        self.interest = interest;
        self
    }

    /// The jobs that the view receives.
    #[must_use]
    pub fn interest(&self) -> &Interest {
        &self.interest
    }

    // --- Synchronising --------------------------------------------------------------------------

    /// Brings the view to the cell's present version. [`View::delta`] then has the changes.
    ///
    /// # Errors
    /// If the cell cannot be reached; the view stays unchanged.
    pub fn sync(&mut self, cell: &(impl CellHandle + ?Sized)) -> Result<(), HandleError> {
        let mut delta = std::mem::take(&mut self.delta);
        delta.lineage = self.lineage;
        let synced = cell.sync(self.version, &self.interest, &mut delta);
        if synced.is_ok() {
            self.apply(&delta);
        }
        self.delta = delta;
        synced
    }

    /// The changes of the last sync, including jobs and tasks, which a view does not store.
    #[must_use]
    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    /// Applies a delta that starts at the view's version, or a full one.
    ///
    /// # Panics
    /// If the delta starts at another version, which would make the view wrong.
    pub fn apply(&mut self, delta: &Delta) {
        self.tenants.begin_sync();
        if !delta.full {
            assert_eq!(delta.from, self.version, "a delta starts where the view is");
            assert_eq!(delta.lineage, self.lineage, "a delta goes on with the view's numbers");
        }
        self.forget_taken(delta.to);
        if !delta.full {
            self.give_all_back();
        }
        self.forget_lifted(delta);
        if delta.full {
            self.reset(delta);
        }
        self.version = delta.to;
        self.now_ms = delta.now_ms;
        self.lineage = delta.lineage;
        self.grow(delta.rows);
        self.keep_policy(delta);
        for machine in &delta.machines {
            self.set_machine(machine);
        }
        let kinds = self.columns.kinds();
        self.apply_demand_profiles(delta);
        for (i, slot) in delta.slots.iter().enumerate() {
            self.sequences[*slot as usize] = delta.sequences[i];
            let more = self.columns.set(*slot as usize, &delta.free[i * kinds..][..kinds]);
            self.tally.freed += u64::from(more);
        }
        for (slot, devices) in &delta.devices {
            let before = self.devices.insert(*slot, *devices);
            let more =
                |before: Devices| devices.left().iter().zip(before.left()).any(|(a, b)| a > b);
            self.tally.freed += u64::from(before.is_none_or(more));
        }
        for (slot, cores) in &delta.cores {
            self.tally.freed += u64::from(self.cores.set(*slot as usize, *cores));
        }
        for (slot, load) in &delta.loads {
            self.tally.loads += u64::from(self.loads.set(*slot, load));
        }
        self.apply_rules(delta);
        let (more_tenants, freed) = self.tenants.apply(delta);
        self.tally.quota_freed += freed;
        if more_tenants {
            self.find_tenants();
        }
        self.apply_policies(delta);
        if let Some(placements) = &mut self.placements {
            placements.apply(delta, kinds);
        }
        if let Some(places) = &mut self.job_places {
            places.apply(delta);
        }
        if let Some(departures) = &mut self.departures {
            departures.apply(delta);
        }
        self.take_all_again();
    }

    fn apply_policies(&mut self, delta: &Delta) {
        let mut stale = false;
        self.policies.apply(Applying {
            delta,
            facts: &mut self.facts,
            kinds: self.columns.kinds(),
            tally: &mut self.tally,
            stale: &mut stale,
        });
        if stale {
            (0..self.rows()).for_each(|row| self.columns.touch(row));
        }
    }

    /// The mirrors of policies.
    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.policies
    }

    /// The descriptions and sets of machines, and the rules.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The tree of tenants.
    pub(crate) fn tenant_tree(&self) -> &impl TenantTree {
        &self.tenants
    }

    fn apply_rules(&mut self, delta: &Delta) {
        for (id, key) in &delta.trackers {
            match key {
                Some(key) if self.facts.rules.key(*id).is_none() => {
                    self.facts.insert_tracker(*id, key.clone());
                }
                Some(_) => {}
                None => drop(self.facts.remove_tracker(*id)),
            }
        }
        for (id, domain, count) in &delta.counts {
            self.facts.rules.set_count(*id, domain, *count);
        }
        if self.rules_generation != self.facts.rules.generation() {
            self.rules_generation = self.facts.rules.generation();
            self.find_matches();
        }
    }

    /// Recomputes which trackers count the tasks of each compiled group.
    fn find_matches(&mut self) {
        for group in self.groups.iter_mut().flatten() {
            let (need, _) = self.facts.compile(
                (group.id, &group.job),
                group.index,
                self.columns.kinds(),
                Trackers::Find,
            );
            self.facts.release(&group.need, Trackers::Find);
            group.need = Arc::new(need);
        }
        self.find_matches_of_taken();
    }

    /// Clears everything except claims and groups, whose sets are rebuilt.
    fn reset(&mut self, delta: &Delta) {
        if let Some(kinds) = &delta.kinds {
            self.kinds = kinds.clone();
        }
        let scored: Vec<bool> = self.inverses.iter().map(Option::is_some).collect();
        self.columns = self.columns.anew(self.kinds.count());
        self.inverses = (0..self.kinds.count())
            .map(|kind| scored.get(kind).is_some_and(|scored| *scored).then(Vec::new))
            .collect();
        self.facts = Facts::default();
        self.policies.reset();
        self.images = Images::default();
        self.keep_again();
        self.sequences.clear();
        self.incarnations.clear();
        self.schedulable.clear();
        self.draining.clear();
        self.devices.clear();
        self.cores.clear();
        self.demand_profiles.clear();
        self.loads.clear();
        // The old sets were dropped with the facts, so groups are compiled without releasing them.
        self.rules_generation = u64::MAX;
        for group in self.groups.iter_mut().flatten() {
            let count = self.kinds.count();
            let job = (group.id, &*group.job);
            let (need, _) = self.facts.compile(job, group.index, count, Trackers::Find);
            group.need = Arc::new(need);
        }
    }

    fn grow(&mut self, rows: usize) {
        if rows <= self.sequences.len() {
            return;
        }
        self.columns.grow(rows);
        self.sequences.resize(rows, SequenceNumber(0));
        self.incarnations.resize(rows, 0);
        self.schedulable.resize(rows.div_ceil(BLOCK), 0);
        self.draining.resize(rows.div_ceil(BLOCK), 0);
        self.kept.grow(rows);
        self.loads.grow(rows);
        self.cores.grow(rows);
        for inverse in self.inverses.iter_mut().flatten() {
            inverse.resize(rows.next_multiple_of(BLOCK), 0.0);
        }
    }

    fn set_machine(&mut self, delta: &crate::delta::MachineDelta) {
        let row = delta.slot as usize;
        let before = self.row_state(row);
        if self.incarnations[row] != delta.incarnation {
            // Another machine has the row now; its report comes with the row's amounts.
            self.loads.remove(delta.slot);
            self.incarnations[row] = delta.incarnation;
        }
        let bit = 1 << (row % BLOCK);
        let set = |words: &mut Vec<u64>, on: bool| match on {
            true => words[row / BLOCK] |= bit,
            false => words[row / BLOCK] &= !bit,
        };
        set(&mut self.schedulable, delta.status == MachineStatus::Schedulable);
        set(&mut self.draining, delta.status == MachineStatus::Draining);
        for (kind, inverse) in (0..).map(omega_core::KindId).zip(&mut self.inverses) {
            if let Some(inverse) = inverse {
                inverse[row] = inverse_capacity(delta.machine.as_deref(), kind);
            }
        }
        self.kept.set_machine(row, delta.machine.as_deref(), &self.kinds);
        self.loads.set_machine(row, delta.machine.as_deref());
        if delta.machine.as_ref().is_none_or(|machine| machine.devices == 0) {
            self.devices.remove(&delta.slot);
        }
        self.cores.set_machine((row, self.sequences.len()), delta.machine.as_deref());
        self.columns.touch(row);
        let old = self.facts.machines.get(row).and_then(Option::as_deref);
        self.images.set_machine(delta.slot, old, delta.machine.as_deref());
        self.facts.set_machine(row, delta.machine.clone());
        self.tally.note_machine(&before, &self.row_state(row));
    }

    /// The state of a row, for comparison.
    fn row_state(&self, row: usize) -> RowState {
        let machine = self.machine(row).cloned();
        RowState { incarnation: self.incarnations[row], status: self.status(row), machine }
    }

    /// The status of the machine in a row.
    fn status(&self, row: usize) -> MachineStatus {
        let bit = |words: &[u64]| words[row / BLOCK] >> (row % BLOCK) & 1 == 1;
        match (bit(&self.schedulable), bit(&self.draining)) {
            (true, _) => MachineStatus::Schedulable,
            (false, true) => MachineStatus::Draining,
            (false, false) => MachineStatus::Absent,
        }
    }

    // --- Reading ---------------------------------------------------------------------------------

    /// The version of the cell that the view shows.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Counts of the changes that all syncs brought.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether some machine has accelerator devices.
    #[must_use]
    pub fn any_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Whether some machine has a taint that discourages tasks (`PreferNoSchedule`).
    #[must_use]
    pub fn any_marked(&self) -> bool {
        self.facts.sets.any_marked()
    }

    /// Whether some machine has a taint that keeps tasks off.
    #[must_use]
    pub fn any_tainted(&self) -> bool {
        self.facts.sets.any_tainted()
    }

    /// The cell's resource kinds.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The scheduler that owns the view.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerId {
        self.scheduler
    }

    /// The number of rows, with and without a machine.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.sequences.len()
    }

    /// The number of blocks of rows.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.columns.blocks()
    }

    /// A block of machines.
    #[must_use]
    pub fn block(&self, index: usize) -> Block<'_> {
        Block::new(self, index)
    }

    /// The id of the machine in a row.
    #[must_use]
    pub fn machine_id(&self, row: usize) -> MachineId {
        MachineId { slot: row as u32, incarnation: self.incarnations[row] }
    }

    /// The description of the machine in a row.
    #[must_use]
    pub fn machine(&self, row: usize) -> Option<&Arc<Machine>> {
        self.facts.machines.get(row)?.as_ref()
    }

    /// The machine with this name. Scans all machines: for tests and tools.
    #[must_use]
    pub fn machine_by_name(&self, name: &str) -> Option<MachineId> {
        let named = |m: &Option<Arc<Machine>>| m.as_ref().is_some_and(|m| *m.name == *name);
        self.facts.machines.iter().position(named).map(|row| self.machine_id(row))
    }

    /// The free amount of a kind in a row, without own claims.
    #[must_use]
    pub fn free(&self, row: usize, kind: omega_core::KindId) -> i64 {
        self.columns.get(row, kind.index())
    }

    /// A row's sequence number.
    #[must_use]
    pub fn sequence(&self, row: usize) -> SequenceNumber {
        self.sequences[row]
    }

    /// The free part of the devices in a row; `None` if it has none.
    #[must_use]
    pub fn devices(&self, row: usize) -> Option<&Devices> {
        self.devices.get(&(row as u32))
    }

    /// A number that rises with every change of a block's machines: of their descriptions, free amounts, devices and
    /// loads, but not of counters of rules.
    #[must_use]
    pub fn block_stamp(&self, block: usize) -> u64 {
        self.columns.stamp(block)
    }

    /// Whether a block may have room for a request; may be wrong only when `true`.
    #[must_use]
    pub fn block_may_fit(&self, block: usize, request: &[i64]) -> bool {
        self.columns.block_may_fit(block, request)
    }

    /// Whether any of the 64 blocks from `64 * group` on may have room for a request; may be wrong only when `true`.
    #[must_use]
    pub fn blocks_may_fit(&self, group: usize, request: &[i64]) -> bool {
        self.columns.group_may_fit(group, request)
    }

    /// The blocks, of 64 from `64 * group` on, that have a machine in a need's required affinity.
    #[must_use]
    pub fn blocks_allowed(&self, group: usize, need: &Need) -> u64 {
        let sets = need.affinity.into_iter().chain(need.machine);
        sets.fold(u64::MAX, |words, set| words & self.facts.sets.full_words(set, group))
    }

    // --- Deciding ---------------------------------------------------------------------------------

    /// Checks whether a task of this group may run on the machine in a row, as far as the view knows. Returns the
    /// devices and cores that it would get.
    ///
    /// # Errors
    /// The reason against it.
    pub fn judge(&self, row: usize, group: GroupRef) -> Result<Grant, Reason> {
        if row >= self.rows() {
            return Err(Reason::MachineGone);
        }
        self.judge_machine(self.machine_id(row), group)
    }

    fn judge_machine(&self, machine: MachineId, group: GroupRef) -> Result<Grant, Reason> {
        if machine.row() >= self.rows() {
            return Err(Reason::MachineGone);
        }
        let Compiled { job, need, .. } = self.compiled(group);
        let row = machine.row();
        let kinds = self.columns.kinds();
        let free: SmallVec<[i64; 8]> = (0..kinds).map(|kind| self.columns.get(row, kind)).collect();
        let devices = if self.devices.is_empty() { None } else { self.devices(row) };
        let status = self.status(row);
        let demand_profiles = self.demand_profiles.get(row).map(|sum| &**sum);
        let (id, cores) = (self.machine_id(row), self.cores(row));
        let spot = Spot { id, status, free: &free, demand_profiles, devices, cores };
        let at = Placement { row, job, tenant: 0, need, request: &need.request };
        let context = Context { facts: &self.facts, now_ms: self.now_ms, tenants: &self.tenants };
        let rules = Rules { policies: &self.policies, context: &context };
        judge(machine, &spot, &at, &rules, Asked::default())
    }
}
