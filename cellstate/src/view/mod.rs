//! A view: a scheduler's private copy of the cell, in columns. The view's amounts include the scheduler's own claims.
//!
//! Decisions are made on the view, without any lock. Deltas update the view at a cost proportional to the number of
//! changed machines. A claim is subtracted at once, so that the scheduler's next decision takes it into account. It
//! stays subtracted through every sync until the result arrives.
//!
//! ```text
//!   claim ─▶ open claims ──take_transaction──▶ in flight ──settle──▶ gone
//!                │  ▲                              │                  │ rejected: added back
//!                ▼  │                              │                  │ accepted: now part of the
//!           deferred claims                        │                  │        cell, see below
//!                └────── subtracted all along ─────┘
//! ```
//!
//! An accepted claim stays subtracted until the sync that reaches the commit's version and brings the machine's new
//! row. Over a network, older rows may arrive before that sync. The room of evicted tasks is treated in this way, too.
//! If the view has already reached the commit's version, its rows include the commit, and the claims are added back at
//! once.
//!
//! Memory per machine, with four kinds: 32 bytes for free amounts, 8 for the sequence number, 8 for the description
//! (shared with the cell), 4 for the incarnation, and 4 for each kind that a score reads.

mod block;
mod change_counts;
mod columns;
mod compiled;
mod cores;
mod counted;
mod counting;
mod day_columns;
mod demand_profiles;
pub(super) mod departures;
mod images;
mod indexes;
mod job_places;
mod loads;
mod locality_level;
mod own;
mod placements;
mod plugin_data;
mod quotas;
mod rows;
mod rules;
mod session;
mod surplus;
mod tenants;

pub use block::{Block, FEW, LeftShare};
pub use change_counts::ChangeCounts;
pub use columns::BLOCK;
pub use compiled::GroupRef;
pub use counted::{TaskCounts, TaskSet};
pub use departures::Departure;
pub use images::ImageHolder;
pub use job_places::JobPlaces;
pub use loads::{BlockLoad, NEVER};
pub use locality_level::LocalityLevel;
pub use own::claims::{OpenClaim, OwnClaim};
pub use placements::PlacedTask;
pub use plugin_data::{Level, MachineSet};
pub use rules::{Draws, SoftSpreadCounts};
pub use tenants::QuotaLack;

use crate::delta::{Delta, Interest};
use crate::fit::{ClaimRequest, Grant, MachineInfo, MachineStatus, Rules, check_fit};
use crate::handle::{CellHandle, CommitsAndSync, HandleError};
use crate::index::machine_index::MachineIndex;
use crate::index::need::Need;
use crate::policy::{Applying, Context, Mirrors, Placement, TenantTree};
use crate::state::devices::Devices;
use change_counts::RowState;
use compiled::Groups;
use images::Images;
use indexes::Indexes;
use loads::Loads;
use omega_core::{
    Commit, KindId, Kinds, Machine, MachineId, Reason, SchedulerId, SequenceNumber, Transaction,
    Version,
};
use own::claim_list::OwnClaims;
use own::eviction_list::OwnEvictions;
use plugin_data::{Described, PluginData};
use rows::Rows;
use session::Session;
use smallvec::SmallVec;
use std::sync::Arc;
use tenants::TenantIndex;

/// Results of [`View::submit_and_fetch`].
#[derive(Debug)]
pub struct SubmitResult {
    /// Results of the transactions, in order.
    pub commits: Vec<Result<Commit, HandleError>>,
    /// Changes up to the last commit, or the error if they could not be fetched.
    pub fetched: Result<Delta, HandleError>,
}

/// A scheduler's private copy of the cell. See the module documentation.
///
/// Each part owns its fields and never reads those of other parts. The view applies each delta and claim to all parts
/// in a fixed order, and passes on the results that other parts need.
#[derive(Debug)]
pub struct View {
    session: Session,
    delta: Delta,
    change_counts: ChangeCounts,
    kinds: Kinds,
    /// Descriptions and sets of machines, and the rules.
    machine_index: MachineIndex,
    /// Free amounts and other columns, including own claims.
    rows: Rows,
    tenants: TenantIndex,
    /// The view's copy of each policy's state, including own claims.
    policies: Mirrors,
    plugin_data: PluginData,
    loads: Loads,
    images: Images,
    indexes: Indexes,
    groups: Groups,
    claims: OwnClaims,
    evictions: OwnEvictions,
}

impl View {
    /// An empty view for a registered scheduler, which the first sync fills. `next_number` is the number of the
    /// scheduler's next transaction (see [`CellHandle::register`]).
    #[must_use]
    pub fn new(scheduler: SchedulerId, next_number: u64) -> View {
        View::of(Session::new(scheduler, next_number))
    }

    fn of(session: Session) -> View {
        let kinds = Kinds::standard();
        View {
            session,
            delta: Delta::default(),
            change_counts: ChangeCounts::default(),
            machine_index: MachineIndex::default(),
            rows: Rows::new(kinds.count()),
            kinds,
            tenants: TenantIndex::default(),
            policies: Mirrors::default(),
            plugin_data: PluginData::default(),
            loads: Loads::default(),
            images: Images::default(),
            indexes: Indexes::default(),
            groups: Groups::default(),
            claims: OwnClaims::default(),
            evictions: OwnEvictions::default(),
        }
    }

    /// An empty view for this view's scheduler. It continues the scheduler's transaction numbers.
    #[must_use]
    pub fn begin_again(&self) -> View {
        View::of(self.session.anew())
    }

    /// Sets the jobs that the view receives.
    #[must_use]
    pub fn with_interest(mut self, interest: Interest) -> View {
        self.session.set_interest(interest);
        self
    }

    /// The jobs that the view receives.
    #[must_use]
    pub fn interest(&self) -> &Interest {
        self.session.interest()
    }

    // --- Synchronising --------------------------------------------------------------------------

    /// Brings the view to the cell's present version. [`View::delta`] then has the changes.
    ///
    /// # Errors
    /// The cell cannot be reached. The view is unchanged.
    pub fn sync(&mut self, cell: &(impl CellHandle + ?Sized)) -> Result<(), HandleError> {
        let mut delta = std::mem::take(&mut self.delta);
        delta.lineage = self.session.lineage();
        let synced = cell.sync(self.session.version(), self.session.interest(), &mut delta);
        if synced.is_ok() {
            self.apply(&delta);
        }
        self.delta = delta;
        synced
    }

    /// Submits transactions of this view, and fetches all changes up to the last of these commits in the same call.
    /// Settle all results, and then apply the changes with [`View::apply_fetched`]. Until then, [`View::delta`] is
    /// empty.
    pub fn submit_and_fetch(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        txns: &[&Transaction],
    ) -> SubmitResult {
        let mut delta = std::mem::take(&mut self.delta);
        delta.lineage = self.session.lineage();
        let (since, interest) = (self.session.version(), self.session.interest());
        let CommitsAndSync { commits, synced } =
            cell.commit_and_sync(txns, since, interest, &mut delta);
        let fetched = match synced {
            Ok(()) => Ok(delta),
            Err(error) => {
                // The next sync needs the state that the last delta led to.
                self.delta = delta.nothing_since();
                Err(error)
            }
        };
        SubmitResult { commits, fetched }
    }

    /// Drops changes that were fetched with commits. The next sync fetches them again.
    pub fn drop_fetched(&mut self, fetched: Delta) {
        if fetched.to == self.session.version() {
            // The next sync needs the state that the last delta led to.
            self.delta = fetched.nothing_since();
        }
    }

    /// Applies changes that were fetched with commits. [`View::delta`] then has them.
    ///
    /// # Panics
    /// The view was synced in between.
    pub fn apply_fetched(&mut self, fetched: Delta) {
        self.apply(&fetched);
        self.delta = fetched;
    }

    /// The changes of the last sync. They include jobs and tasks, which a view itself does not store.
    #[must_use]
    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    /// Applies a delta, which must start at the view's version or be full.
    ///
    /// # Panics
    /// The delta is not full and starts at another version. Applying it would make the view wrong.
    pub fn apply(&mut self, delta: &Delta) {
        self.tenants.begin_sync();
        self.session.check(delta);
        self.forget_accepted(delta.to);
        if !delta.full {
            self.give_all_back();
        }
        self.forget_lifted(delta);
        if delta.full {
            self.reset(delta);
        }
        self.session.advance(delta);
        self.grow(delta.rows);
        self.set_policy(delta);
        for machine in &delta.machines {
            self.set_machine(machine);
        }
        self.change_counts.freed += self.rows.apply(delta);
        for (slot, load) in &delta.loads {
            self.change_counts.loads += u64::from(self.loads.set(*slot, load));
        }
        self.apply_rules(delta);
        let (more_tenants, freed) = self.tenants.apply(delta);
        self.change_counts.quota_freed += freed;
        if more_tenants {
            self.groups.find_tenants(&self.tenants);
        }
        self.apply_policies(delta);
        self.indexes.apply(delta, self.rows.columns().kinds());
        self.take_all_again();
    }

    /// Applies the cell's policy.
    fn set_policy(&mut self, delta: &Delta) {
        self.evictions.set_policy(delta);
        let View { plugin_data, rows, machine_index, kinds, .. } = self;
        let described = Described { rows: rows.len(), machines: &machine_index.machines, kinds };
        plugin_data.set_policy(delta, described);
    }

    fn apply_policies(&mut self, delta: &Delta) {
        let mut stale = false;
        let applying = Applying {
            slots: &delta.slots,
            tenants: &delta.tenants,
            now_ms: delta.now_ms,
            machine_index: &mut self.machine_index,
            kinds: self.rows.columns().kinds(),
            change_counts: &mut self.change_counts,
            stale: &mut stale,
        };
        self.policies.apply(&delta.policies, applying);
        if stale {
            (0..self.rows()).for_each(|row| self.rows.touch(row));
        }
    }

    /// The mirrors of policies.
    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.policies
    }

    /// The descriptions and sets of machines, and the rules.
    pub(crate) fn machine_index(&self) -> &MachineIndex {
        &self.machine_index
    }

    /// The tree of tenants.
    pub(crate) fn tenant_tree(&self) -> &impl TenantTree {
        &self.tenants
    }

    fn apply_rules(&mut self, delta: &Delta) {
        for (id, key) in &delta.trackers {
            match key {
                Some(key) if self.machine_index.rules.key(*id).is_none() => {
                    self.machine_index.insert_tracker(*id, key.clone());
                }
                Some(_) => {}
                None => drop(self.machine_index.remove_tracker(*id)),
            }
        }
        for (id, domain, count) in &delta.counts {
            self.machine_index.rules.set_count(*id, domain, *count);
        }
        if self.groups.match_rules(&mut self.machine_index, self.rows.columns().kinds()) {
            self.claims.match_rules(&mut self.machine_index);
        }
    }

    /// Clears everything except claims and groups, and builds the machine sets of groups again.
    fn reset(&mut self, delta: &Delta) {
        if let Some(kinds) = &delta.kinds {
            self.kinds = kinds.clone();
        }
        let kinds = self.kinds.count();
        self.rows.reset(kinds);
        self.machine_index = MachineIndex::default();
        self.policies.reset();
        self.images = Images::default();
        self.plugin_data.reset(&mut self.machine_index, kinds);
        self.loads.clear();
        // The old machine sets were dropped with `machine_index`, so the groups are compiled without releasing those
        // sets.
        self.groups.reset(&mut self.machine_index, kinds);
    }

    fn grow(&mut self, rows: usize) {
        if self.rows.grow(rows) {
            self.plugin_data.grow(rows);
            self.loads.grow(rows);
        }
    }

    fn set_machine(&mut self, delta: &crate::delta::MachineDelta) {
        let row = delta.slot as usize;
        let machine = delta.machine.as_deref();
        let before = self.row_state(row);
        if self.rows.set_machine(delta) {
            // The row has another machine now. Its load report comes with the row's amounts.
            self.loads.remove(delta.slot);
        }
        self.plugin_data.set_machine(row, machine, &self.kinds);
        self.loads.set_machine(row, machine);
        let old = self.machine_index.machines.get(row).and_then(Option::as_deref);
        self.images.set_machine(delta.slot, old, machine);
        self.machine_index.set_machine(row, delta.machine.clone());
        self.change_counts.note_machine(&before, &self.row_state(row));
    }

    /// The state of a row, for a comparison before and after a change.
    fn row_state(&self, row: usize) -> RowState {
        let machine = self.machine(row).cloned();
        RowState { id: self.machine_id(row), status: self.rows.status(row), machine }
    }

    // --- Reading ---------------------------------------------------------------------------------

    /// The version of the cell that the view has reached.
    #[must_use]
    pub fn version(&self) -> Version {
        self.session.version()
    }

    /// Counts of the changes that all syncs so far brought.
    #[must_use]
    pub fn change_counts(&self) -> ChangeCounts {
        self.change_counts
    }

    /// Whether some machine has accelerator devices.
    #[must_use]
    pub fn any_devices(&self) -> bool {
        self.rows.any_devices()
    }

    /// Whether some machine has a taint that discourages tasks (`PreferNoSchedule`).
    #[must_use]
    pub fn any_marked(&self) -> bool {
        self.machine_index.sets.any_marked()
    }

    /// Whether some machine has a taint that keeps tasks off.
    #[must_use]
    pub fn any_tainted(&self) -> bool {
        self.machine_index.sets.any_tainted()
    }

    /// The cell's resource kinds.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The scheduler that owns the view.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerId {
        self.session.scheduler()
    }

    /// The number of rows, including those without a machine.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The number of blocks of rows.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.rows.columns().blocks()
    }

    /// A block of machines.
    #[must_use]
    pub fn block(&self, index: usize) -> Block<'_> {
        Block::new(self, index)
    }

    /// The id of the machine in a row.
    ///
    /// # Panics
    /// The view has no such row.
    #[must_use]
    pub fn machine_id(&self, row: usize) -> MachineId {
        self.rows.machine_id(row)
    }

    /// Whether the machine in a row has the maximum number of tasks, of all tenants together.
    #[must_use]
    pub fn is_full(&self, row: usize) -> bool {
        self.rows.status(row) == MachineStatus::Full
    }

    /// The description of the machine in a row.
    #[must_use]
    pub fn machine(&self, row: usize) -> Option<&Arc<Machine>> {
        self.machine_index.machines.get(row)?.as_ref()
    }

    /// The machine with this name. It scans all machines, so it is meant for tests and tools.
    #[must_use]
    pub fn machine_by_name(&self, name: &str) -> Option<MachineId> {
        let named = |m: &Option<Arc<Machine>>| m.as_ref().is_some_and(|m| *m.name == *name);
        self.machine_index.machines.iter().position(named).map(|row| self.machine_id(row))
    }

    /// The free amount of a kind in a row, after subtracting own claims; zero if the cell does not have the kind.
    ///
    /// # Panics
    /// The view has no such row.
    #[must_use]
    pub fn free(&self, row: usize, kind: KindId) -> i64 {
        let columns = self.rows.columns();
        if kind.index() >= columns.kinds() {
            return 0;
        }
        columns.get(row, kind.index())
    }

    /// A row's sequence number.
    #[must_use]
    pub fn sequence(&self, row: usize) -> SequenceNumber {
        self.rows.sequence(row)
    }

    /// The free part of each device in a row; `None` if its machine has no devices.
    #[must_use]
    pub fn devices(&self, row: usize) -> Option<&Devices> {
        self.rows.devices(row)
    }

    /// A number that rises with every change of a block's machines. Changes of descriptions, free amounts, devices and
    /// loads raise it; changes of counters of rules do not.
    #[must_use]
    pub fn block_stamp(&self, block: usize) -> u64 {
        self.rows.columns().stamp(block)
    }

    /// A number that rises with every change of the machine in a row, as [`View::block_stamp`] does. It may rise with
    /// changes of other machines too, unless the view was made by [`View::with_departures`].
    #[must_use]
    pub fn row_stamp(&self, row: usize) -> u64 {
        self.rows.columns().row_stamp(row)
    }

    /// Whether a block may have room for a request. `false` is always right; `true` may be wrong.
    #[must_use]
    pub fn block_may_fit(&self, block: usize, request: &[i64]) -> bool {
        self.rows.columns().block_may_fit(block, request)
    }

    /// Whether any of the 64 blocks from `64 * group` on may have room for a request. `false` is always right; `true`
    /// may be wrong.
    #[must_use]
    pub fn blocks_may_fit(&self, group: usize, request: &[i64]) -> bool {
        self.rows.columns().group_may_fit(group, request)
    }

    /// One bit for each of the 64 blocks from `64 * group` on, set if a machine of the block meets the required
    /// affinity.
    #[must_use]
    pub fn blocks_allowed(&self, group: usize, need: &Need) -> u64 {
        let sets = need.affinity.into_iter().chain(need.machine);
        sets.fold(u64::MAX, |words, set| words & self.machine_index.sets.full_words(set, group))
    }

    // --- Deciding ---------------------------------------------------------------------------------

    /// Checks in the view's data whether a task of this group may run on the machine in a row. Returns the devices and
    /// cores that the task would get. Tenants' limits are not checked, but [`View::claim`] checks them.
    ///
    /// # Errors
    /// The reason against the placement.
    pub fn check_fit(&self, row: usize, group: GroupRef) -> Result<Grant, Reason> {
        if row >= self.rows() {
            return Err(Reason::MachineGone);
        }
        self.check_machine_fit(self.machine_id(row), group)
    }

    fn check_machine_fit(&self, machine: MachineId, group: GroupRef) -> Result<Grant, Reason> {
        if machine.row() >= self.rows() {
            return Err(Reason::MachineGone);
        }
        let compiled = self.groups.get(group);
        let (job, need) = (&*compiled.job, &*compiled.need);
        let row = machine.row();
        let columns = self.rows.columns();
        let free: SmallVec<[i64; 8]> =
            (0..columns.kinds()).map(|kind| columns.get(row, kind)).collect();
        let machine_info = MachineInfo {
            id: self.rows.machine_id(row),
            status: self.rows.status(row),
            free: &free,
            demand_profiles: self.rows.demand_profiles(row),
            devices: self.rows.devices(row),
            cores: self.cores(row),
        };
        let request = &need.request;
        let at = Placement { row, job, tenant: 0, need, request, ports: &[] };
        let now_ms = self.session.now_ms();
        let context =
            Context { machine_index: &self.machine_index, now_ms, tenants: &self.tenants };
        let rules = Rules { policies: &self.policies, context: &context };
        check_fit(machine, &machine_info, &at, &rules, ClaimRequest::default())
    }
}
