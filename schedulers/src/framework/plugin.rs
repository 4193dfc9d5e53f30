//! Filters and scores: the traits of plugins that accept and rate machines.
//!
//! Plugins are *columnar*: they process a *block* of 64 machines at once. A *row* is the position of a machine in the
//! view, a *lane* its position in its block, and a *word* has a bit for each lane. A filter clears bits of a word, and
//! a score adds to a column of integers, so a full scan costs about a nanosecond per machine. [`MachineFilter`] and
//! [`MachineScore`] are simpler forms for one machine at a time; [`PerMachine`] turns them into columnar plugins.

pub use crate::framework::reads::Reads;

use crate::framework::events::Events;
use omega_cellstate::{BLOCK, Block, GroupRef, LocalityLevel, Need, OwnClaim, PlacedTask, View};
use omega_core::{Job, JobId, KindId, Machine, MachineId, TaskGroup};
use std::ops::BitOr;

/// Highest score that a plugin gives to a machine. The lowest is 0.
pub const SCORE_MAX: i32 = 10_000;

/// Largest sum of the weights of a profile's scores. Up to this sum, the weighted sum of scores fits into 32 bits.
pub const WEIGHT_SUM_MAX: i32 = i32::MAX / SCORE_MAX;

/// Checks in debug builds that a score is within its range. In other builds, such a score falsifies sums.
pub(crate) fn debug_assert_score(name: &str, score: i32) {
    debug_assert!((0..=SCORE_MAX).contains(&score), "{name}: a score of {score}");
}

/// The tasks that a decision is about. All are of one group, so they are identical.
#[derive(Clone, Copy, Debug)]
pub struct Tasks<'a> {
    /// The scheduler's view.
    pub view: &'a View,
    /// The tasks' group, as compiled by the view.
    pub compiled: GroupRef,
    /// Compiled resource requests of one task.
    pub need: &'a Need,
    /// Id of the tasks' job.
    pub id: JobId,
    /// The tasks' job.
    pub job: &'a Job,
    /// The tasks' group.
    pub group: &'a TaskGroup,
    /// Locality level that the tasks accept now.
    pub reach: &'a LocalityLevel,
}

/// Returns the tasks of a compiled group, in the form that plugins take.
#[must_use]
pub fn tasks(view: &View, group: GroupRef) -> Tasks<'_> {
    let (job, index) = view.job(group);
    let (need, id, reach) = (view.need(group), view.job_id(group), view.locality_level(group));
    Tasks { view, compiled: group, need, id, job, group: &job.groups[index], reach }
}

/// Parts of the check that the cell runs on each claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CellChecks(u16);

impl CellChecks {
    /// The empty set.
    pub const NOTHING: CellChecks = CellChecks(0);
    /// The machine's status: draining or not.
    pub const STATUS: CellChecks = CellChecks(1);
    /// The machines that a task requires.
    pub const AFFINITY: CellChecks = CellChecks(2);
    /// The machine's taints that the task does not tolerate.
    pub const TAINTS: CellChecks = CellChecks(4);
    /// Free resources and devices of the machine.
    pub const ROOM: CellChecks = CellChecks(8);
    /// The machine that a task names.
    pub const NAME: CellChecks = CellChecks(16);
    /// Ports that the task uses on the machine.
    pub const PORTS: CellChecks = CellChecks(32);
    /// Required spread of tasks over domains.
    pub const SPREAD: CellChecks = CellChecks(64);
    /// Required affinity and anti-affinity to tasks.
    pub const NEIGHBOURS: CellChecks = CellChecks(128);
    /// The maximum number of tasks in a domain.
    pub const LIMITS: CellChecks = CellChecks(256);
    /// The reservations of machines for other tenants.
    pub const RESERVATIONS: CellChecks = CellChecks(512);
    /// Claims on cluster resources.
    pub const CELL: CellChecks = CellChecks(1024);
    /// Batch share of the machine at this time of day.
    pub const PEAKS: CellChecks = CellChecks(2048);
    /// The limits of tenants.
    pub const QUOTA: CellChecks = CellChecks(4096);
    /// The maximum number of a tenant's tasks on one machine.
    pub const TASKS_PER_MACHINE: CellChecks = CellChecks(8192);
    /// All rules about other tasks: ports, spreads, neighbours and limits.
    pub const RULES: CellChecks = CellChecks(32 | 64 | 128 | 256);

    /// Whether the set includes all of `other`.
    #[must_use]
    pub fn includes(self, other: CellChecks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set includes any of `other`.
    #[must_use]
    pub fn overlaps(self, other: CellChecks) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for CellChecks {
    type Output = CellChecks;

    fn bitor(self, other: CellChecks) -> CellChecks {
        CellChecks(self.0 | other.0)
    }
}

/// Accepts or rejects machines for tasks.
///
/// A filter is called once per block and decision, only for machines that earlier filters accepted. The view does not
/// change during a call. The result must depend only on the view and the filter's own settings, so that a seed
/// reproduces a run.
pub trait Filter: Send + Sync {
    /// A short name in snake case, for profiles and explanations.
    fn name(&self) -> &'static str;

    /// Inputs on which the result depends.
    fn reads(&self) -> Reads;

    /// Events after which the filter may accept machines that it rejected. Called when a job found no machine; only
    /// these events wake the job. A filter that rejects machines with too much free room must add
    /// [`Events::ROOM_TAKEN`].
    fn wakes_on(&self) -> Events {
        Events::of(self.reads())
    }

    /// Whether recent events may help tasks that the filter rejected. Called at most once per backoff of a sleeping
    /// job. A wrong `true` costs a search; a wrong `false` leaves the job asleep until the next events. By default,
    /// applies the filter to the changed machines.
    fn may_help(&self, tasks: &Tasks<'_>, news: &News<'_>) -> bool {
        news.allows_some(self, tasks)
    }

    /// Whether the filter applies to these tasks. Called once per decision. After `false`, [`Filter::filter`] is not
    /// called.
    fn applies(&self, _tasks: &Tasks<'_>) -> bool {
        true
    }

    /// Whether the filter rejects all machines whenever it applies. A quota filter, for example, applies only to tasks
    /// beyond the quota, and then rejects all machines. If true, a rejected job waits only for the events of this
    /// filter, not for the events of other filters. The default is false.
    fn refuses_all(&self) -> bool {
        false
    }

    /// Returns the machines in `among` on which the tasks may run.
    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64;

    /// Returns the rejected machines that the filter might accept if they had fewer tasks. Preemption examines only
    /// these. By default, returns all.
    fn curable(&self, _tasks: &Tasks<'_>, _block: Block<'_>, refused: u64) -> u64 {
        refused
    }

    /// Reason why the filter rejects the machine in a row, as a clause; `None` if the filter's name is explanation
    /// enough. Called only for explanations.
    fn why(&self, _tasks: &Tasks<'_>, _row: usize) -> Option<String> {
        None
    }

    /// Part of the cell's check that the filter covers. A profile adds the cell's own filters for the rest. The default
    /// is none.
    fn covers(&self) -> CellChecks {
        CellChecks::NOTHING
    }

    /// Enables the columns of the view that the filter reads (see [`crate::Profile::prepare`]).
    fn keep(&self, _view: &mut View) {}
}

/// Changes of a sync, passed to plugins that decide whether these changes may help a job.
#[derive(Clone, Copy, Debug)]
pub struct News<'a> {
    /// Events since the rejection.
    pub events: Events,
    /// Rows of added or changed machines. A row may occur twice.
    pub rows: &'a [u32],
}

/// Maximum number of changed machines for which filters are called one by one. For more machines, a search is as cheap.
pub(crate) const ROWS_MAX: usize = 64;

impl News<'_> {
    /// Whether a filter that reads one machine at a time now accepts one of the changed machines. Returns true without
    /// a check if many machines changed, or if other events concern the filter.
    #[must_use]
    pub fn allows_some(&self, filter: &(impl Filter + ?Sized), tasks: &Tasks<'_>) -> bool {
        let elsewhere = filter.reads().includes(Reads::OTHER_MACHINES);
        let others = filter.wakes_on().and(self.events).without(Events::OF_MACHINES);
        if elsewhere || !others.is_empty() || self.rows.len() > ROWS_MAX {
            return true;
        }
        self.rows.iter().map(|row| *row as usize).any(|row| {
            let (block, bit) = (tasks.view.block(row / BLOCK), 1 << (row % BLOCK));
            tasks.view.machine(row).is_some() && filter.filter(tasks, block, bit) & bit != 0
        })
    }
}

/// Scores machines for tasks.
///
/// A score is called under the same guarantees as a [`Filter`]. In addition, all machines in `among` are feasible.
pub trait Score: Send + Sync {
    /// A short name in snake case, for profiles.
    fn name(&self) -> &'static str;

    /// Inputs on which the result depends.
    fn reads(&self) -> Reads;

    /// Whether the score may differ between machines for these tasks. Called once per decision.
    fn applies(&self, _tasks: &Tasks<'_>) -> bool {
        true
    }

    /// Enables the columns of the view that the score reads (see [`crate::Profile::prepare`]).
    fn keep(&self, _view: &mut View) {}

    /// Writes the score of each machine in `among`, from 0 to [`SCORE_MAX`]; other entries are
    /// ignored. A score outside this range falsifies the sum of the scores; debug builds panic.
    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]);
}

/// One machine of a view, for plugins in the per-machine form.
#[derive(Clone, Copy, Debug)]
pub struct MachineRef<'a> {
    block: Block<'a>,
    lane: usize,
}

impl<'a> MachineRef<'a> {
    /// Id of the machine.
    #[must_use]
    pub fn id(&self) -> MachineId {
        self.block.machine_id(self.lane)
    }

    /// The registered machine.
    ///
    /// # Panics
    /// Never: plugins are called only for registered machines.
    #[must_use]
    pub fn machine(&self) -> &'a Machine {
        self.block.machine(self.lane).expect("plugins are asked about machines that are there")
    }

    /// Amount of a resource kind that is free to claim.
    #[must_use]
    pub fn free(&self, kind: KindId) -> i64 {
        self.block.free(kind)[self.lane]
    }

    /// Last reported usage of a resource kind on the machine; `None` if there is no report.
    #[must_use]
    pub fn load(&self, kind: KindId) -> Option<u64> {
        let report = self.block.view().load(self.block.first_row() + self.lane)?;
        Some(report.used.get(kind))
    }

    /// The tasks on the machine as of the last sync, the most important first. Empty unless the profile has preemption
    /// or [placements](crate::Profile::with_placements). [`MachineRef::claims`] returns the scheduler's later claims.
    #[must_use]
    pub fn tasks(&self) -> &'a [PlacedTask] {
        self.block.view().tasks_on(self.block.first_row() + self.lane)
    }

    /// The scheduler's own claims on the machine that [`MachineRef::tasks`] does not include yet. A filter that counts
    /// tasks counts both. Visits all claims of the scheduler that are not committed or not synced yet.
    pub fn claims(&self) -> impl Iterator<Item = OwnClaim<'a>> {
        self.block.view().claims_on(self.block.first_row() + self.lane)
    }
}

/// A filter in the per-machine form: it examines one machine at a time. [`PerMachine`] turns it into a [`Filter`].
pub trait MachineFilter: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Whether the tasks may run on this machine.
    fn allows(&self, tasks: &Tasks<'_>, machine: MachineRef<'_>) -> bool;

    /// Events after which the filter may accept machines that it rejected: see [`Filter::wakes_on`]. The default is any
    /// change of a machine.
    fn wakes_on(&self) -> Events {
        Events::of(all_of_the_machine()) | Events::ROOM_TAKEN
    }
}

/// A score in the per-machine form: it examines one machine at a time. [`PerMachine`] turns it into a [`Score`].
pub trait MachineScore: Send + Sync {
    /// A short name in snake case.
    fn name(&self) -> &'static str;

    /// Score of the machine for the tasks, from 0 to [`SCORE_MAX`]; larger values count as the maximum.
    fn score(&self, tasks: &Tasks<'_>, machine: MachineRef<'_>) -> i32;
}

/// Turns a plugin for one machine at a time into a columnar plugin.
#[derive(Clone, Copy, Debug)]
pub struct PerMachine<T>(pub T);

/// Inputs of a plugin for one machine at a time: everything about the machine, and the job.
fn all_of_the_machine() -> Reads {
    Reads::DESCRIPTION | Reads::AMOUNTS | Reads::LOAD | Reads::JOB
}

impl<T: MachineFilter> Filter for PerMachine<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn reads(&self) -> Reads {
        all_of_the_machine()
    }

    fn wakes_on(&self) -> Events {
        self.0.wakes_on()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let allowed = |lane: &usize| self.0.allows(tasks, MachineRef { block, lane: *lane });
        lanes(among).filter(allowed).fold(0, |word, lane| word | 1 << lane)
    }
}

impl<T: MachineScore> Score for PerMachine<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn reads(&self) -> Reads {
        all_of_the_machine()
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        for lane in lanes(among) {
            let score = self.0.score(tasks, MachineRef { block, lane });
            scores[lane] = score.clamp(0, SCORE_MAX);
        }
    }
}

/// The positions of a word's set bits, ascending.
pub fn lanes(word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        let lane = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(lane)
    })
}
