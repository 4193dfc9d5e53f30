//! A scheduler of the shipped cell: a private view updated by deltas, plugins, and a placer.
//!
//! The view may be divided into parts that are synced in turn (partitioned sync). Each decision then first syncs one
//! part, and the search begins in the most recently synced part.

use super::rows::Rows;
use omega_cellstate::{CellHandle, SharedCell, View};
use omega_core::transaction::Item;
use omega_core::{Commit, Conflict, Job, JobId, MachineId, TaskId, Transaction};
use omega_schedulers::config::Profiles;
use omega_schedulers::explain::{describe, explain};
use omega_schedulers::{GroupPlacement, Home, Placement, Placer, Profile, Settings};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::ops::Range;
use std::sync::Arc;

/// Built-in profile of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Packing, for batch jobs.
    Batch,
    /// Spreading, for services.
    Service,
}

impl BuiltIn {
    /// The name of the schedulers that use the profile.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BuiltIn::Batch => "batch",
            BuiltIn::Service => "service",
        }
    }
}

/// Configuration of a scheduler.
#[derive(Clone, Debug)]
pub struct PlacerSettings {
    /// The scheduler's built-in profile.
    pub built_in: BuiltIn,
    /// Machines that the scheduler may use.
    pub rows: Rows,
    /// Row at which searches start.
    pub home: Home,
    /// Number of best machines among which the scheduler chooses.
    pub near_best: u32,
    /// Number of parts of the scheduler's view, which are synced in turn.
    pub parts: usize,
    /// Seed of the scheduler's random generator.
    pub seed: u64,
    /// Profiles that replace the built-in profiles with the same names. They name only kinds that the cell has.
    pub profiles: Profiles,
}

/// A scheduler's view of a part of the machines.
struct Part {
    view: View,
    profile: Profile,
    placer: Placer,
}

/// The placer. See the module documentation.
pub(super) struct CellPlacer {
    parts: Vec<Part>,
    /// The part that was synced last.
    fresh: usize,
    placement: Placement,
    rng: Pcg64,
}

/// A transaction with the claims of all parts, and its result.
pub(super) struct Committed {
    pub(super) txn: Transaction,
    pub(super) commit: Commit,
}

impl CellPlacer {
    pub(super) fn new(cell: &SharedCell, name: &str, settings: &PlacerSettings) -> CellPlacer {
        let parts = settings.parts.max(1);
        let rows = settings.rows.to - settings.rows.from;
        let spec = settings.profiles.get(settings.built_in.name());
        let (kinds, rows_of_cell) =
            cell.read(|cell| (cell.kinds().clone(), cell.machines().count()));
        let placement = Placement {
            home: settings.home,
            near_best: settings.near_best,
            ..Placement::default()
        };
        let placement = spec.map_or(placement, |spec| {
            spec.apply(Settings { placement, ..Settings::worker(name, 0, 1) }).placement
        });
        let part = |index: usize| {
            let (id, next) = cell
                .register(format!("{name}-{index}").into())
                .expect("a cell in this process knows all its schedulers");
            let profile = match (spec, settings.built_in) {
                (Some(spec), _) => spec.bind(&kinds).expect("the profiles suit the cell's kinds"),
                (None, BuiltIn::Batch) => Profile::batch(),
                (None, BuiltIn::Service) => Profile::service(),
            };
            let of = Rows::part(rows, index, parts);
            let from = settings.rows.from;
            let of = Rows { from: from + of.from, to: from + of.to };
            // Machines that are added later get rows after the initial ones, so the last range is open-ended.
            let to = if of.to == rows_of_cell { usize::MAX } else { of.to };
            let of = Rows { to, ..of };
            let profile = profile.with_filter(of);
            let mut view = View::new(id, next);
            profile.prepare(&mut view);
            Part { view, profile, placer: Placer::default() }
        };
        CellPlacer {
            parts: (0..parts).map(part).collect(),
            fresh: settings.home.index as usize % parts,
            placement: Placement { reuse: true, ..placement },
            rng: Pcg64::seed_from_u64(settings.seed),
        }
    }

    /// Syncs the next part.
    pub(super) fn sync(&mut self, cell: &SharedCell) {
        self.fresh = (self.fresh + 1) % self.parts.len();
        let part = &mut self.parts[self.fresh];
        part.view.sync(cell).expect("a cell in this process answers");
    }

    /// Brings all parts up to date.
    pub(super) fn sync_all(&mut self, cell: &SharedCell) {
        (0..self.parts.len()).for_each(|_| self.sync(cell));
    }

    /// Most frequent reason for which machines reject a task of a group. The placer must have a single part.
    pub(super) fn why(&mut self, (id, job): (JobId, &Arc<Job>), group: usize) -> String {
        let Part { view, profile, .. } = &mut self.parts[self.fresh];
        let compiled = view.compile(id, job, group);
        let found = explain(view, profile, compiled);
        if found.feasible > 0 {
            let gang = job.gang_min.is_some();
            return if gang {
                "too few machines for its gang"
            } else {
                "not tried again since a machine got room"
            }
            .to_owned();
        }
        let refused =
            found.refused.first().map(|(reason, n)| (*n, describe(*reason, view.kinds())));
        let filtered =
            found.filtered.first().map(|(name, n)| (*n, format!("removed by the filter {name}")));
        let most = refused.into_iter().chain(filtered).max_by_key(|(machines, _)| *machines);
        most.map_or_else(|| "the cell has no machines".to_owned(), |(_, reason)| reason)
    }

    /// Claims machines for tasks of a group, searching the most recently synced part first. Returns the number of
    /// claims.
    pub(super) fn claim(
        &mut self,
        (id, job): (JobId, &Arc<Job>),
        group: usize,
        tasks: &[TaskId],
    ) -> usize {
        let mut placed = 0;
        for step in 0..self.parts.len() {
            let at = (self.fresh + self.parts.len() - step) % self.parts.len();
            let Part { view, profile, placer } = &mut self.parts[at];
            // A part that was never synced has no machines yet, so nothing can be claimed in it.
            let compiled = view.compile(id, job, group);
            let placement = self.placement;
            let wanted = GroupPlacement { profile, placement, group: compiled };
            placed += placer.place(view, wanted, &tasks[placed..], &mut self.rng);
            if placed == tasks.len() {
                break;
            }
        }
        placed
    }

    /// Claims this machine for a task, if the task passes the cell's check in the most recently synced view.
    pub(super) fn claim_on(
        &mut self,
        job: &Arc<Job>,
        group: usize,
        task: TaskId,
        machine: MachineId,
    ) -> bool {
        let view = &mut self.parts[self.fresh].view;
        let compiled = view.compile(task.job, job, group);
        view.claim(task, machine, compiled).is_ok()
    }

    /// The scheduler's random generator.
    pub(super) fn rng(&mut self) -> &mut Pcg64 {
        &mut self.rng
    }

    /// Number of claims that are not submitted yet.
    pub(super) fn open_claims(&self) -> usize {
        self.parts.iter().map(|part| part.view.open_claims()).sum()
    }

    /// Undoes the claims that are not submitted yet.
    pub(super) fn drop_claims(&mut self) {
        for part in &mut self.parts {
            part.view.drop_claims(part.view.open_claims());
        }
    }

    /// Submits the claims of all parts in one transaction, because the tasks of a gang may be in several parts. Before
    /// the transaction is submitted, `with` sets its conflict check. Returns `None` if there are no claims.
    pub(super) fn commit(
        &mut self,
        cell: &SharedCell,
        with: impl FnOnce(&mut Transaction),
    ) -> Option<Committed> {
        let claiming = self.parts.iter_mut().filter(|part| part.view.open_claims() > 0);
        let taken = claiming.map(|part| (part.view.take_transaction(), part));
        let mut taken: Vec<(Transaction, &mut Part)> = taken.collect();
        let mut txn = taken.first()?.0.clone();
        for (of_part, _) in &taken[1..] {
            txn.base = txn.base.min(of_part.base);
            txn.claims.extend_from_slice(&of_part.claims);
        }
        with(&mut txn);
        let commit = cell.commit(&txn).expect("what a view claims is well formed");
        let mut first = 0;
        for (of_part, part) in &mut taken {
            let claims = first..first + of_part.claims.len() as u32;
            part.view.settle(of_part, &of_claims(&commit, claims.clone()));
            first = claims.end;
        }
        Some(Committed { txn, commit })
    }

    /// Drops the compiled form of a job.
    pub(super) fn forget(&mut self, job: JobId) {
        self.parts.iter_mut().for_each(|part| part.view.forget_job(job));
    }
}

/// The result for some claims of a transaction, as if they were a transaction of their own.
fn of_claims(commit: &Commit, claims: Range<u32>) -> Commit {
    let conflict = |conflict: &Conflict| match conflict.item {
        Item::Claim(index) if claims.contains(&index) => {
            Some(Conflict { item: Item::Claim(index - claims.start), ..*conflict })
        }
        _ => None,
    };
    Commit {
        version: commit.version,
        conflicts: commit.conflicts.iter().filter_map(conflict).collect(),
    }
}
