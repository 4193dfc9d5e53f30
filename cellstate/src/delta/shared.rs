//! Shared deltas: the latest changes of a cell, which many readers copy without the cell's lock.
//!
//! Each sync, of any reader, first copies the changes since the last sync of any reader into a new shared delta. Only
//! this step needs the lock. Then the reader copies all shared deltas since its own version into its own delta. So each
//! change is copied once under the lock, for any number of readers.
//!
//! ```text
//!   versions        20 ──────── 40 ──── 57 ────────── 90 (present)
//!   shared deltas        A          B          C
//!   a reader at version 40 copies B and C
//! ```
//!
//! Shared deltas are kept in two segments. When the newer segment is full, the older one is dropped. Its memory is
//! reused if no reader still copies from it. A reader that needs older changes gets them from the cell, and the next
//! segments are made larger, up to a bound.
//!
//! Readers sync with the cell alone if there are few of them, because shared deltas would cost more, and if rows may
//! have values that [`Cell::has_sparse_row_values`] describes.
//!
//! Invariant: each shared delta begins at the version at which the one before it ends.

use crate::cell::Cell;
use crate::delta::Delta;
use crate::delta::build::Wanted;
use crate::delta::log::Counts;
use crate::state::job_record::OwnerId;
use omega_core::{JobId, Version};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Shared deltas are made if readers copy each change more often than this. Fewer copies cost less under the lock.
const COPIES_MIN: u64 = 8;

/// Shared deltas are no longer made if readers copy each change less often than this.
const COPIES_LEFT: u64 = 4;

/// Number of syncs that are counted together to decide whether shared deltas are made.
const COUNTED_SYNCS: u32 = 256;

/// Number of shared deltas in a segment at first, and its maximum.
const DELTAS_MIN: usize = 1 << 9;
const DELTAS_MAX: usize = 1 << 14;

/// Size at which a segment is full at first. Small segments stay in a processor's cache.
const SEGMENT_MIN: usize = 1 << 10;

/// Size at which a segment is full at most, and the maximum size of a shared delta.
const SEGMENT_MAX: usize = 1 << 15;

/// Maximum size of a shared delta whose memory is reused.
const REUSED_MAX: usize = 256;

/// All changes between two versions.
#[derive(Debug, Default)]
struct SharedDelta {
    delta: Delta,
    runs: Vec<Run>,
}

/// Consecutive changes of one job and its tasks. The first comes right after the last change of the previous run.
#[derive(Debug)]
struct Run {
    owner: OwnerId,
    job: JobId,
    /// Position after the last change in the delta's list of jobs.
    jobs_end: u32,
    /// Position after the last change in the delta's list of tasks.
    tasks_end: u32,
}

impl SharedDelta {
    /// Copies the changes since a version. Returns whether the cell has all of them and they are few enough.
    fn write(&mut self, cell: &Cell, since: Version) -> bool {
        let Some(counts) = cell.counts_since(since, cell.lineage) else { return false };
        if counts.rows + counts.others > SEGMENT_MAX {
            return false;
        }
        self.runs.clear();
        cell.write_head(since, &mut self.delta);
        cell.write_rows_and_tenants(since, counts, &mut self.delta);
        for change in cell.log.since(since) {
            // A single change may add many entries, such as all tasks of a resized job.
            if self.size() + cell.tasks_of_change(change) > SEGMENT_MAX {
                return false;
            }
            cell.write_change(change, &mut self.delta);
            if let Some((owner, job)) = change.job() {
                self.add_to_run(owner, job);
            }
        }
        self.size() <= SEGMENT_MAX
    }

    /// Adds the last changes to the run of a job.
    fn add_to_run(&mut self, owner: OwnerId, job: JobId) {
        if self.runs.last().is_none_or(|run| run.job != job) {
            self.runs.push(Run { owner, job, jobs_end: 0, tasks_end: 0 });
        }
        if let Some(run) = self.runs.last_mut() {
            run.jobs_end = self.delta.jobs.len() as u32;
            run.tasks_end = self.delta.tasks.len() as u32;
        }
    }

    /// Number of entries in lists that may be long.
    fn size(&self) -> usize {
        let Delta { slots, machines, tenants, counts, jobs, tasks, policies, .. } = &self.delta;
        let reservations = policies.reservations.all.as_ref().map_or(0, Vec::len);
        let others = machines.len() + tenants.len() + counts.len() + reservations;
        slots.len() + others + jobs.len() + tasks.len()
    }

    /// Appends the changes to a reader's delta; of jobs and tasks, only the wanted ones.
    fn append_to(&self, delta: &mut Delta, wanted: Wanted) {
        delta.append_cell(&self.delta);
        let (mut jobs_from, mut tasks_from) = (0, 0);
        for Run { owner, job, jobs_end, tasks_end } in &self.runs {
            if wanted.includes(*owner, *job) {
                let jobs = &self.delta.jobs[jobs_from as usize..*jobs_end as usize];
                delta.jobs.extend_from_slice(jobs);
                delta.append_tasks(&self.delta, tasks_from..*tasks_end);
            }
            (jobs_from, tasks_from) = (*jobs_end, *tasks_end);
        }
    }
}

/// The shared deltas of a segment. Each is set once, and then read without a lock.
type Places = Arc<[OnceLock<Box<SharedDelta>>]>;

/// A segment of the cell's latest history.
#[derive(Debug, Default)]
struct Segment {
    places: Places,
    /// The versions at which the shared deltas begin.
    begins: Vec<Version>,
    /// Sum of the sizes of the shared deltas.
    size: usize,
}

impl Segment {
    /// The shared deltas from the one that begins at a version; `None` if none does.
    fn since(&self, version: Version) -> Option<SegmentPart> {
        let first = self.begins.binary_search(&version).ok()?;
        Some(self.part(first))
    }

    fn part(&self, first: usize) -> SegmentPart {
        SegmentPart { places: self.places.clone(), range: first..self.begins.len() }
    }
}

/// Shared deltas of one segment.
#[derive(Debug)]
struct SegmentPart {
    places: Places,
    range: Range<usize>,
}

/// Shared deltas that a reader copies, in order.
#[derive(Debug)]
pub(crate) struct Unread {
    of_older: Option<SegmentPart>,
    of_newer: SegmentPart,
}

impl Unread {
    /// Appends all changes to a delta that has only its head; of jobs and tasks, only the wanted ones.
    pub(crate) fn append_to(&self, delta: &mut Delta, wanted: Wanted) {
        for SegmentPart { places, range } in self.of_older.iter().chain([&self.of_newer]) {
            let shared = places[range.clone()].iter().filter_map(OnceLock::get);
            shared.for_each(|shared| shared.append_to(delta, wanted));
        }
        delta.drop_overtaken_ends();
    }
}

/// The latest shared deltas of a cell. See the module documentation. While there are none, a sync writes only the
/// counts, which share a cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct SharedDeltas {
    counts: SyncCounts,
    older: Segment,
    newer: Segment,
    /// The largest size that a reader has needed.
    needed: usize,
    /// The largest number of shared deltas that a reader has needed.
    deltas: usize,
    /// Shared deltas whose memory is reused.
    #[expect(clippy::vec_box, reason = "the boxes move to places and back")]
    spare: Vec<Box<SharedDelta>>,
}

/// Counts of syncs, which decide whether shared deltas are made.
#[derive(Debug, Default)]
struct SyncCounts {
    /// The version of the cell at the last sync, at which the newest shared delta ends.
    end: Version,
    /// Number of changes of the cell in the counted syncs.
    changes: u64,
    /// Number of changes that readers had to copy in the counted syncs.
    copies: u64,
    /// Number of counted syncs.
    syncs: u32,
    /// Whether the last counts were in favour of shared deltas.
    favoured: bool,
    /// Whether shared deltas are made.
    making: bool,
    /// Whether there may be shared deltas, or memory for them.
    kept: bool,
}

impl SyncCounts {
    /// Counts a sync with these changes since the sync before it, and a reader's copies.
    ///
    /// Two counts in a row must agree. Many changes at once, just before the end of a count, would otherwise decide
    /// alone, because readers have not copied them yet.
    fn add(&mut self, changes: usize, copies: usize) {
        self.changes += changes as u64;
        self.copies += copies as u64;
        self.syncs += 1;
        if self.syncs == COUNTED_SYNCS {
            let least = if self.making { COPIES_LEFT } else { COPIES_MIN };
            let favoured = self.copies > least * self.changes;
            if favoured == self.favoured {
                self.making = favoured;
            }
            self.favoured = favoured;
            (self.changes, self.copies, self.syncs) = (0, 0, 0);
        }
    }
}

impl SharedDeltas {
    /// Begins a sync of a reader with this version. Returns the shared deltas that it must copy; `None` if it must sync
    /// with the cell itself.
    pub(crate) fn begin_sync(&mut self, cell: &Cell, version: Version) -> Option<Unread> {
        if version == cell.version() {
            return None;
        }
        let end = std::mem::replace(&mut self.counts.end, cell.version());
        // The cell copies each row at most once, but shared deltas may contain a row many times.
        let rows = cell.machines.row_count();
        let unread = cell.counts_since(version, cell.lineage).filter(|unread| unread.rows <= rows);
        let changes = cell.counts_since(end, cell.lineage);
        let changes =
            changes.map_or(0, |Counts { rows: changed, others }| changed.min(rows) + others);
        let copies = unread.map_or(0, |Counts { rows, others }| rows + others);
        self.counts.add(changes, copies);
        if !self.counts.making || cell.has_sparse_row_values() {
            self.clear();
            return None;
        }
        if end < cell.version() {
            self.push(cell, end);
        }
        unread?;
        let shared = self.since(version);
        if shared.is_none() && self.older.begins.first().is_some_and(|oldest| version < *oldest) {
            self.grow(copies);
        }
        shared
    }

    /// Makes the next segments larger for a reader that was behind by more changes than the present ones have.
    fn grow(&mut self, changes: usize) {
        let Segment { places, begins, size } = &self.older;
        if changes > 2 * SEGMENT_MAX {
            return;
        }
        if begins.len() == places.len() {
            self.deltas = (2 * places.len()).min(DELTAS_MAX);
        } else {
            // A change may have many entries, so segments also grow by their size.
            self.needed = self.needed.max(changes).max(2 * size).min(SEGMENT_MAX);
        }
    }

    /// The changes since a version; `None` if no shared delta begins there.
    fn since(&self, version: Version) -> Option<Unread> {
        if let Some(of_newer) = self.newer.since(version) {
            return Some(Unread { of_older: None, of_newer });
        }
        let of_older = Some(self.older.since(version)?);
        Some(Unread { of_older, of_newer: self.newer.part(0) })
    }

    /// The version at which the newest shared delta ends.
    fn newest_end(&self) -> Option<Version> {
        let newest = self.newer.begins.len().checked_sub(1)?;
        self.newer.places[newest].get().map(|shared| shared.delta.to)
    }

    /// Adds a shared delta that begins at this version.
    fn push(&mut self, cell: &Cell, since: Version) {
        debug_assert!(self.newest_end().is_none_or(|end| end == since), "a gap between versions");
        self.counts.kept = true;
        let Segment { places, begins, size } = &self.newer;
        if begins.len() == places.len() || *size >= self.needed.max(SEGMENT_MIN) {
            self.begin_segment();
        }
        let mut shared = self.spare.pop().unwrap_or_default();
        if !shared.write(cell, since) {
            (self.older, self.newer) = Default::default();
            return;
        }
        self.newer.size += shared.size();
        let place = self.newer.begins.len();
        self.newer.begins.push(since);
        self.newer.places[place].set(shared).expect("a place is set once");
    }

    /// Begins a segment, with the memory of the older one if no reader uses it.
    fn begin_segment(&mut self) {
        let mut places = std::mem::take(&mut self.older).places;
        let deltas = self.deltas.max(DELTAS_MIN);
        match Arc::get_mut(&mut places) {
            Some(old) if old.len() == deltas => {
                let old = old.iter_mut().filter_map(OnceLock::take);
                self.spare.extend(old.filter(|shared| shared.size() <= REUSED_MAX));
            }
            _ => places = (0..deltas).map(|_| OnceLock::new()).collect(),
        }
        let segment = Segment { places, ..Segment::default() };
        self.older = std::mem::replace(&mut self.newer, segment);
    }

    /// Removes all shared deltas.
    fn clear(&mut self) {
        if std::mem::take(&mut self.counts.kept) {
            (self.older, self.newer) = Default::default();
            (self.needed, self.deltas, self.spare) = Default::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Command, Job, Kinds, Machine, MachineId, TaskGroup};

    /// A cell whose versions from 1 on each submit one job, and its shared deltas.
    #[derive(Default)]
    struct World {
        cell: Option<Cell>,
        shared: SharedDeltas,
    }

    impl World {
        fn apply(&mut self, command: Command) {
            let cell = self.cell.get_or_insert_with(|| Cell::new(Kinds::standard()));
            cell.apply(command).unwrap();
        }

        fn version(&self) -> Version {
            self.cell.as_ref().map_or(Version(0), Cell::version)
        }

        fn submit(&mut self) -> Version {
            let group = TaskGroup::new(1, Amounts::new([1]));
            let name = format!("j{}", self.version().0);
            self.apply(Command::SubmitJob(Job::batch(name, group)));
            self.version()
        }

        fn sync(&mut self, version: Version) -> Option<Unread> {
            self.shared.begin_sync(self.cell.as_ref().unwrap(), version)
        }
    }

    /// The jobs that a reader of all jobs would get. Job `n` was submitted by version `n + 1`.
    fn jobs(unread: &Unread) -> Vec<u64> {
        let mut delta = Delta::default();
        unread.append_to(&mut delta, Wanted::All);
        delta.jobs.iter().map(|job| job.id.0).collect()
    }

    /// Syncs of readers, each after a new job, in turn.
    fn take_turns(world: &mut World, readers: &mut [Version], turns: usize) -> usize {
        let mut shared = 0;
        for turn in 0..turns {
            let reader = turn % readers.len();
            let now = world.submit();
            let since = std::mem::replace(&mut readers[reader], now);
            if let Some(unread) = world.sync(since) {
                shared += 1;
                assert_eq!(jobs(&unread), (since.0..now.0).collect::<Vec<_>>());
            }
        }
        shared
    }

    /// The syncs of two counts, which decide.
    const DECISION: usize = 2 * COUNTED_SYNCS as usize;

    /// Takes turns until shared deltas are made and all readers use them, if they ever do.
    fn decide(world: &mut World, readers: &mut [Version]) {
        let rounds = DECISION.div_ceil(readers.len()) + 2;
        take_turns(world, readers, rounds * readers.len());
    }

    #[test]
    fn few_readers_sync_with_the_cell() {
        let mut world = World::default();
        let mut readers = [Version(0); COPIES_MIN as usize];
        assert_eq!(take_turns(&mut world, &mut readers, 8 * DECISION), 0);
        assert!(world.shared.newer.places.is_empty());
    }

    #[test]
    fn many_readers_use_shared_deltas_until_they_end() {
        let mut world = World::default();
        let mut readers = [Version(0); 10];
        decide(&mut world, &mut readers);
        let turns = 4 * DELTAS_MIN;
        assert_eq!(take_turns(&mut world, &mut readers, turns), turns);
        take_turns(&mut world, &mut readers[..1], 2 * DECISION);
        assert!(world.shared.newer.places.is_empty(), "a single reader needs none");
    }

    /// Takes turns, with many changes at once before some of them. Returns the number of syncs that used shared deltas
    /// from then on.
    fn burst(world: &mut World, readers: &mut [Version], after: usize) -> usize {
        let first = take_turns(world, readers, after);
        readers.rotate_left(after % readers.len());
        (0..5000).for_each(|_| {
            world.submit();
        });
        let turns = 2 * DECISION;
        first + take_turns(world, readers, turns)
    }

    #[test]
    fn many_changes_at_once_do_not_end_shared_deltas() {
        for after in [0, 1, 100, 250, 253, 254, 255, 256] {
            let mut world = World::default();
            let mut readers = [Version(0); 12];
            decide(&mut world, &mut readers);
            let shared = burst(&mut world, &mut readers, after);
            let turns = after + 2 * DECISION;
            assert!(shared >= turns - 12, "{shared} of {turns} syncs, {after} syncs before");
        }
    }

    #[test]
    fn many_changes_at_once_begin_no_shared_deltas() {
        for after in [0, 1, 100, 250, 253, 254, 255, 256] {
            let mut world = World::default();
            let mut readers = [Version(0); 5];
            assert_eq!(burst(&mut world, &mut readers, after), 0, "{after} syncs before");
        }
    }

    #[test]
    fn segments_get_more_places_for_more_readers() {
        let mut world = World::default();
        let mut readers = vec![Version(0); 3 * DELTAS_MIN];
        take_turns(&mut world, &mut readers, 15 * DELTAS_MIN);
        let turns = 3 * DELTAS_MIN;
        assert_eq!(take_turns(&mut world, &mut readers, turns), turns);
    }

    /// A reader of the present version gets no changes, and the next shared delta still has all of them.
    #[test]
    fn a_reader_of_the_present_version_takes_no_changes_from_others() {
        let mut world = World::default();
        let mut readers = [Version(0); 10];
        decide(&mut world, &mut readers);
        let since = readers[4];
        let now = world.submit();
        assert!(world.sync(now).is_none());
        assert_eq!(jobs(&world.sync(since).unwrap()), (since.0..now.0).collect::<Vec<_>>());
    }

    /// Shared deltas contain each change of a row, but the cell copies each row once. So they cost more for readers
    /// that are behind by more changes than the cell has rows.
    #[test]
    fn readers_that_are_far_behind_are_not_counted() {
        let mut world = World::default();
        for name in 0..10 {
            let machine = Machine::new(format!("m{name}"), Amounts::new([1]));
            world.apply(Command::RegisterMachine(machine));
        }
        let mut readers = [world.version(); 20];
        for turn in 0..2 * DECISION {
            let id = MachineId::first(turn as u32 % 10);
            world.apply(Command::ReportLoad { id, load: Amounts::new([turn as u64]) });
            let now = world.version();
            let since = std::mem::replace(&mut readers[turn % 20], now);
            assert!(turn < 20 || world.sync(since).is_none());
        }
        assert_eq!(world.shared.counts.copies, 0);
    }

    #[test]
    fn memory_is_used_again_unless_a_reader_uses_it() {
        let mut world = World::default();
        let mut readers = [Version(0); 10];
        decide(&mut world, &mut readers);
        let since = readers[3];
        let now = world.submit();
        let unread = world.sync(since).unwrap();
        take_turns(&mut world, &mut readers, 5 * DELTAS_MIN);
        assert_eq!(jobs(&unread), (since.0..now.0).collect::<Vec<_>>());
        let SharedDeltas { older, newer, spare, .. } = &world.shared;
        assert!(!spare.is_empty());
        assert!(spare.len() + older.begins.len() + newer.begins.len() <= 3 * DELTAS_MIN);
    }

    #[test]
    fn segments_grow_for_readers_that_were_further_behind() {
        let mut world = World::default();
        let mut readers = [Version(0); 20];
        decide(&mut world, &mut readers);
        assert_eq!(world.shared.needed, 0);
        // At first, a segment has 11 turns, and each reader is 20 turns behind.
        let mut turn = |jobs: usize| {
            (1..jobs).for_each(|_| {
                world.submit();
            });
            let shared = take_turns(&mut world, &mut readers[..1], 1);
            readers.rotate_left(1);
            shared
        };
        let shared: usize = (0..100).map(|_| turn(SEGMENT_MIN / 10)).sum();
        assert!(shared < 100, "the first segments are too small");
        let shared: usize = (0..100).map(|_| turn(SEGMENT_MIN / 10)).sum();
        assert_eq!(shared, 100, "later ones are large enough");
        assert_eq!(turn(SEGMENT_MAX + 1), 0, "a shared delta cannot be larger");
        assert!((0..40).map(|_| turn(1)).sum::<usize>() >= 20, "the next ones are made");
    }

    /// Segments also grow if few changes have many entries.
    #[test]
    fn segments_grow_for_changes_of_resized_jobs() {
        let mut world = World::default();
        world.submit();
        let job = Job::batch("large", TaskGroup::new(900, Amounts::new([1])));
        world.apply(Command::SubmitJob(job));
        let group = world.cell.as_ref().unwrap().job(JobId(1)).unwrap().groups[0].name.clone();
        let mut readers = [Version(1); 20];
        let mut take_turns = |turns: Range<usize>| -> usize {
            let turn = |turn: usize| {
                let (job, group) = (JobId(1), group.clone());
                let count = 900 + turn as u32 % 2;
                world.apply(Command::ResizeGroup { job, group, count });
                let now = world.version();
                let since = std::mem::replace(&mut readers[turn % 20], now);
                usize::from(world.sync(since).is_some())
            };
            turns.map(turn).sum()
        };
        take_turns(0..2 * DECISION);
        assert_eq!(take_turns(2 * DECISION..2 * DECISION + 100), 100);
    }
}
