//! Views: after any deltas, a view equals one that was filled by a single sync, and its checks agree with the cell's.
//!
//! `OMEGA_SEED=7 cargo test -p omega-tests views` runs a single history.

use crate::cell::histories::seeds;
use omega_cellstate::{BLOCK, Cell, GroupRef, Interest, NEVER, Share, SharedCell, View};
use omega_core::{
    Claim, Command, Commit, Conflict, Granularity, Item, JobId, KindId, MachineId, Outcome, Reason,
    Rejection, SchedulerId, TaskId, TaskReport, TaskState, Transaction, TransactionId,
};
use omega_tests::random::{Dice, Generator};
use omega_tests::reference::{Reference, ReferenceJob};

/// Id of an additional scheduler, whose transactions the test makes.
pub(crate) const PROBE: SchedulerId = SchedulerId(0);

/// A shared cell with a short change log, and the reference model that the generator reads.
pub(crate) struct World {
    pub(crate) cell: SharedCell,
    pub(crate) reference: Reference,
    generator: Generator,
    pub(crate) dice: Dice,
    pub(crate) seed: u64,
    keeps_jobs: bool,
    is_plain: bool,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let generator = Generator::new(seed)
            .with_reservations(seed)
            .with_cluster_resources(seed)
            .with_updates(seed);
        // Every other world has allocations that differ from the request.
        let generator = if seed.is_multiple_of(2) { generator } else { generator.with_held(seed) };
        // Every fourth pair of worlds has exclusive cores, so that few tasks fit.
        let generator = if seed % 8 < 6 { generator } else { generator.with_cores(seed) };
        // Every third world has peak calendars.
        let generator = if seed.is_multiple_of(3) { generator.with_peaks(seed) } else { generator };
        let mut dice = Dice::new(seed ^ 0xD1CE);
        let kinds = generator.kinds();
        let limit = [1, 3, 10, 1000][dice.below(4)];
        let cell = SharedCell::new(Cell::with_change_limit(kinds.clone(), limit));
        World {
            cell,
            reference: Reference::new(kinds),
            generator,
            dice,
            seed,
            keeps_jobs: false,
            is_plain: false,
        }
    }

    /// Applies the next random command.
    pub(crate) fn step(&mut self) {
        let mut command = self.generator.next(&self.reference);
        if self.is_plain && !make_plain(&mut command) {
            return;
        }
        if self.keeps_jobs && matches!(command, Command::Expire { .. } | Command::DeleteJob { .. })
        {
            return;
        }
        let _ = self.apply(command);
    }

    fn apply(&mut self, command: Command) -> Result<Outcome, Rejection> {
        let _ = self.reference.apply(command.clone());
        self.cell.apply(command)
    }

    /// Keeps all jobs in the cell from now on, even if they have ended.
    pub(crate) fn keep_jobs(&mut self) {
        self.keeps_jobs = true;
    }

    /// A world with a long change log, without ports that the cell chooses, demand profiles, peaks, and limits of tasks
    /// per machine. In other cells, readers do not use shared deltas.
    pub(crate) fn plain(seed: u64) -> World {
        let world = World::new(seed);
        let kinds = world.reference.kinds().clone();
        let cell = SharedCell::new(Cell::with_change_limit(kinds, 1000));
        World { cell, is_plain: true, ..world }
    }

    pub(crate) fn register(&mut self, name: &str) -> (SchedulerId, u64) {
        let _ = self.apply(Command::RegisterScheduler { name: "first".into() });
        match self.apply(Command::RegisterScheduler { name: name.into() }) {
            Ok(Outcome::Scheduler { id, next_transaction }) => {
                self.generator.reserve(id);
                (id, next_transaction)
            }
            other => panic!("not registered: {other:?}"),
        }
    }

    pub(crate) fn commit(&mut self, txn: &Transaction) -> Commit {
        match self.apply(Command::Commit(txn.clone())) {
            Ok(Outcome::Commit(commit)) => commit,
            other => panic!("seed {}: not checked: {other:?}", self.seed),
        }
    }

    pub(crate) fn fresh_view(&self) -> View {
        let mut view = View::new(PROBE, 0);
        view.sync(&self.cell).unwrap();
        view
    }

    /// The groups of every job that has not ended.
    pub(crate) fn groups(&self) -> Vec<(JobId, usize)> {
        let living = self.reference.jobs().iter().filter(|(_, job)| job.alive() > 0);
        living.flat_map(|(id, job)| (0..job.spec.groups.len()).map(|g| (*id, g))).collect()
    }

    /// A view of the cell as if these tasks had been reported as lost.
    pub(crate) fn without(&self, tasks: impl Iterator<Item = TaskId>) -> View {
        let mut cell = self.cell.read(Cell::clone);
        for task in tasks {
            let machine = cell.task(task).and_then(TaskState::machine).unwrap();
            cell.apply(Command::ReportTask {
                task,
                machine,
                placed_ms: 0,
                report: TaskReport::Lost,
            })
            .unwrap();
        }
        let mut view = View::new(PROBE, 0);
        view.sync(&SharedCell::new(cell)).unwrap();
        view
    }

    pub(crate) fn compile(&self, view: &mut View, (job, group): (JobId, usize)) -> GroupRef {
        let spec = self.cell.read(|cell| cell.job(job).unwrap().clone());
        view.compile(job, &spec, group)
    }
}

/// Changes a command for [`World::plain`]. Returns whether it may be applied.
fn make_plain(command: &mut Command) -> bool {
    match command {
        Command::SubmitJob(spec) | Command::UpdateJob { spec, .. } => {
            for group in &mut spec.groups {
                group.any_ports.clear();
                group.demand_profiles.clear();
            }
        }
        Command::SetTenant { tenant_config, .. } => tenant_config.tasks_per_machine_max = None,
        Command::SetPeaks(_) => return false,
        _ => {}
    }
    true
}

/// Compares a view without claims with a new view.
pub(crate) fn assert_equal_views(world: &World, view: &mut View) {
    let seed = world.seed;
    let mut fresh = world.fresh_view();
    assert_eq!(view.version(), fresh.version(), "seed {seed}");
    assert_eq!(view.kinds(), fresh.kinds(), "seed {seed}");
    assert_eq!(view.rows(), fresh.rows(), "seed {seed}");
    assert_eq!(view.resources(), fresh.resources(), "seed {seed}");
    for row in 0..view.rows() {
        let context = format!("seed {seed} row {row} at {}", view.version());
        assert_eq!(view.machine_id(row), fresh.machine_id(row), "{context}");
        assert_eq!(view.machine(row), fresh.machine(row), "{context}");
        assert_eq!(view.sequence(row), fresh.sequence(row), "{context}");
        assert_eq!(view.devices(row), fresh.devices(row), "{context}");
        assert_eq!(view.cores(row), fresh.cores(row), "{context}");
        assert_eq!(view.demand_profiles_on(row), fresh.demand_profiles_on(row), "{context}");
        assert_eq!(view.load(row), fresh.load(row), "{context}");
        for kind in 0..view.kinds().count() as u8 {
            let kind = KindId(kind);
            assert_eq!(view.free(row, kind), fresh.free(row, kind), "{context} {kind:?}");
            assert_eq!(
                view.batch_allocated(row, kind),
                fresh.batch_allocated(row, kind),
                "{context}"
            );
            let share = |view: &View| {
                view.block(row / BLOCK).left_share(kind, 1).map(|share| share.of(row % BLOCK))
            };
            fresh.keep_inverse(kind);
            assert!(share(view).is_none_or(|s| Some(s) == share(&fresh)), "{context}");
            assert_eq!(load_in_columns(view, (row, kind)), load_of_report(view, (row, kind)));
        }
    }
    assert_eq!(view.machine_count(), fresh.machine_count(), "seed {seed}");
    for name in ["image", "other"] {
        let holders = view.image_holders(name);
        assert_eq!(holders, fresh.image_holders(name), "seed {seed}");
        let held = |row: &usize| {
            view.machine(*row).is_some_and(|m| m.images.iter().any(|image| *image.name == *name))
        };
        let rows: Vec<usize> = holders.iter().map(|holder| holder.row as usize).collect();
        assert_eq!(rows, (0..view.rows()).filter(held).collect::<Vec<_>>(), "seed {seed}");
    }
    for group in world.groups() {
        let (ours, theirs) = (world.compile(view, group), world.compile(&mut fresh, group));
        let room = [view.quota_room(ours, 9), fresh.quota_room(theirs, 9)];
        assert_eq!(room[0], room[1], "seed {seed} group {group:?}");
        for row in 0..view.rows() + 1 {
            let context = format!("seed {seed} group {group:?} row {row} at {}", view.version());
            assert_eq!(view.check_fit(row, ours), fresh.check_fit(row, theirs), "{context}");
        }
    }
}

/// Columns of a machine's load: usage, claims, time, and capacity.
fn load_in_columns(view: &mut View, (row, kind): (usize, KindId)) -> (i64, i64, u64, i64) {
    view.keep_load(kind);
    let load = view.block(row / BLOCK).load(kind).unwrap();
    let lane = row % BLOCK;
    (load.used[lane], load.claimed[lane], load.at_ms[lane], load.capacity[lane])
}

/// Columns of a machine's load, computed from the report and the description.
fn load_of_report(view: &View, (row, kind): (usize, KindId)) -> (i64, i64, u64, i64) {
    let capacity = view.machine(row).map_or(0, |machine| machine.capacity.get(kind) as i64);
    match view.load(row) {
        Some(load) => {
            (load.used.get(kind) as i64, load.claimed.get(kind) as i64, load.at_ms, capacity)
        }
        None => (0, 0, NEVER, capacity),
    }
}

/// Checks that the filters together agree with the cell's check.
fn assert_blocks_agree(world: &World, view: &mut View) {
    for group in world.groups() {
        let group = world.compile(view, group);
        for index in 0..view.blocks() {
            let (block, need) = (view.block(index), view.need(group));
            let sets = need.affinity.into_iter().chain(need.machine);
            let affinity = sets.fold(u64::MAX, |word, set| word & block.set(set));
            let fits = block.room_among(need, &need.request, u64::MAX);
            let job = view.job(group).0;
            let open = block.schedulable() & !block.reserved(job, u64::MAX);
            let open = open & !block.over_peak(job, need, u64::MAX);
            let open = open & !block.with_all_of_its_tenant(job, u64::MAX);
            let simple = open & affinity & block.set(need.tolerated) & fits;
            let pieces = block.cores_fit(need, block.devices_fit(need, simple));
            let word = block.any_ports_fit(need, block.rules_allow(need, pieces));
            // Cluster resources suffice on all rows, or on none.
            let word = if view.cell_room(group) > 0 { word } else { 0 };
            for row in index * BLOCK..(index + 1) * BLOCK {
                let judged = view.check_fit(row, group);
                let bit = word >> (row % BLOCK) & 1 == 1;
                assert_eq!(bit, judged.is_ok(), "seed {} row {row} {judged:?}", world.seed);
            }
            let may = view.block_may_fit(index, need.least())
                && view.blocks_may_fit(index / BLOCK, need.least());
            assert!(may || word == 0, "seed {}: a bound is too low", world.seed);
        }
    }
}

#[test]
fn a_view_synced_by_deltas_equals_a_fresh_one() {
    for seed in seeds(400) {
        let mut world = World::new(seed);
        let mut views: Vec<View> = (0..3).map(|_| View::new(PROBE, 0)).collect();
        views[0].keep_inverse(KindId(0));
        for _ in 0..80 {
            world.step();
            for (view, percent) in views.iter_mut().zip([100, 40, 8]) {
                if world.dice.chance(percent) {
                    view.sync(&world.cell).unwrap();
                    // A delta without changes, as it is sent over a network, equals the delta of a sync that finds no
                    // changes.
                    let empty = view.delta().nothing_since();
                    view.sync(&world.cell).unwrap();
                    assert_eq!(*view.delta(), empty, "seed {seed}");
                    assert_equal_views(&world, view);
                    assert_blocks_agree(&world, view);
                    (0..view.blocks()).for_each(|block| view.tighten_block(block));
                    (0..view.blocks().min(1)).for_each(|group| view.tighten_blocks(group));
                }
            }
        }
    }
}

#[test]
fn a_view_hears_of_every_job_and_task_that_it_is_interested_in() {
    for seed in seeds(400) {
        let mut world = World::new(seed);
        let interest = match seed % 2 {
            0 => Interest::AllJobs,
            _ => Interest::JobsOf("second".into(), Share { index: seed as u32 % 3, of: 3 }),
        };
        let mut received = Received { interest: interest.clone(), ..Received::default() };
        let mut view = View::new(PROBE, 0).with_interest(interest);
        for _ in 0..80 {
            world.step();
            if world.dice.chance(30) {
                view.sync(&world.cell).unwrap();
                received.receive(&view);
                received.compare(&world);
            }
        }
    }
}

/// State of a reader that follows jobs by deltas.
#[derive(Default)]
struct Received {
    interest: Interest,
    jobs: std::collections::BTreeMap<JobId, std::sync::Arc<omega_core::Job>>,
    tasks: std::collections::BTreeMap<TaskId, (TaskState, usize, u64)>,
}

impl Received {
    fn receive(&mut self, view: &View) {
        let delta = view.delta();
        if delta.full {
            *self = Received { interest: self.interest.clone(), ..Received::default() };
        }
        for job in &delta.jobs {
            match &job.job {
                Some(spec) => {
                    let new = self.jobs.insert(job.id, spec.clone()).is_none();
                    // If a task of a new job is not in the delta, it is pending.
                    let counts = spec.groups.iter().enumerate();
                    let groups = counts.flat_map(|(i, g)| (0..g.count).map(move |_| i));
                    for (group, index) in groups.zip(0..).filter(|_| new) {
                        let task = TaskId { job: job.id, index };
                        self.tasks.insert(task, (TaskState::Pending, group, 0));
                    }
                }
                None => {
                    self.jobs.remove(&job.id);
                }
            }
        }
        for task in &delta.tasks {
            let known = (task.state, usize::from(task.group), task.placed_ms);
            self.tasks.insert(task.id, known);
        }
        let jobs = &self.jobs;
        self.tasks.retain(|task, _| jobs.contains_key(&task.job));
    }

    fn compare(&self, world: &World) {
        let wanted = |id: JobId, job: &ReferenceJob| match &self.interest {
            Interest::JobsOf(name, share) => {
                job.alive() > 0 && job.spec.scheduler == *name && share.includes(id)
            }
            _ => job.alive() > 0,
        };
        let living = world.reference.jobs().iter().filter(|(id, job)| wanted(**id, job));
        let jobs: Vec<_> = living.map(|(id, job)| (*id, job.spec.clone())).collect();
        let received: Vec<_> = self.jobs.iter().map(|(id, job)| (*id, job.clone())).collect();
        assert_eq!(received, jobs, "seed {}", world.seed);
        let living = world.reference.tasks().filter(|(id, job, _)| wanted(id.job, job));
        let tasks: Vec<_> =
            living.map(|(id, _, task)| (id, (task.state, task.group, task.placed_ms))).collect();
        let received: Vec<_> = self.tasks.iter().map(|(id, state)| (*id, *state)).collect();
        assert_eq!(received, tasks, "seed {} at {}", world.seed, world.reference.version());
    }
}

/// The result of a single claim that is not committed, because a second item of the transaction always conflicts.
fn probe(cell: &mut Cell, number: u64, task: TaskId, machine: MachineId) -> Option<Reason> {
    let unknown = TaskId { job: JobId(u64::MAX), index: 0 };
    let claim = |task| Claim::new(task, machine, Default::default());
    let id = TransactionId { scheduler: PROBE, number };
    let mut txn = Transaction::new(id, cell.version(), vec![claim(task), claim(unknown)]);
    txn.granularity = Granularity::AllOrNothing;
    let commit = cell.commit(&txn).unwrap();
    assert_eq!(commit.conflicts[1], Conflict { item: Item::Claim(1), reason: Reason::UnknownTask });
    commit.conflict_of_claim(0)
}

#[test]
fn a_view_and_the_cell_judge_alike() {
    for seed in seeds(150) {
        let mut world = World::new(seed);
        (0..50).for_each(|_| world.step());
        let mut view = world.fresh_view();
        let mut cell = world.cell.read(Cell::clone);
        let mut number = 1 << 20;
        for group in world.groups() {
            let pending = world.reference.tasks().find(|(id, _, task)| {
                (id.job, task.group, task.state) == (group.0, group.1, TaskState::Pending)
            });
            let Some((task, ..)) = pending else { continue };
            let compiled = world.compile(&mut view, group);
            for row in 0..view.rows() {
                number += 1;
                let ours = view.check_fit(row, compiled).err();
                let theirs = probe(&mut cell, number, task, view.machine_id(row));
                let elsewhere = matches!(
                    theirs,
                    Some(
                        Reason::OthersConflict | Reason::QuotaExceeded(_) | Reason::GangIncomplete
                    )
                );
                let alike = if ours.is_none() { elsewhere } else { ours == theirs };
                assert!(alike, "seed {seed} {group:?} row {row}: {ours:?} but {theirs:?}");
                let lack = view.quota_lack(compiled);
                assert_eq!(lack.is_some(), view.quota_room(compiled, 1) == 0);
                let lack = lack.map(|lack| Reason::QuotaExceeded(lack.kind));
                let theirs = theirs.filter(|_| elsewhere);
                let by_quota = theirs.is_some_and(|r| matches!(r, Reason::QuotaExceeded(_)));
                assert!(!by_quota || lack == theirs, "seed {seed}: {lack:?} but {theirs:?}");
                let taken = theirs == Some(Reason::OthersConflict);
                assert!(!taken || lack.is_none(), "seed {seed}: {lack:?} but it is taken");
            }
        }
    }
}
