//! Replicas on threads, with disks that are slow at times, or full for some time.
//!
//! A replica's thread writes its log itself while the disk is fast. After a slow write, or on a full disk, it passes
//! writes to another thread. In all cases, acknowledged changes exist on every replica.

use omega_cellstate::Cell;
use omega_client::ErrorCode;
use omega_core::{Amounts, Command, Job, Kinds, TaskGroup};
use omega_service::Host;
use omega_store::directory::{Directory, EngineKind, Identity};
use omega_store::log::ReplicaId;
use omega_store::log::segment::SegmentOptions;
use omega_store::membership::{ChangeError, Membership};
use omega_store::replica::{
    Network, ReplicatedCell, Reply, Request, RequestError, RetryReason, Running, Settings,
    bootstrap, start,
};
use omega_store::{CellId, Disk, DiskFile, Origin, RealDisk};
use omega_tests::random::Dice;
use omega_tests::retries::{catch_up, submit};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Small segments, so that a full disk is noticed soon.
const SEGMENT_BYTES: u64 = 16 << 10;

const TICK: Duration = Duration::from_millis(20);

/// A disk whose behaviour the test controls.
#[derive(Clone, Debug, Default)]
struct MoodyDisk {
    sync_ms: Arc<AtomicU64>,
    full: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
    breaks: Arc<AtomicBool>,
}

impl MoodyDisk {
    fn file(&self, inner: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(MoodyFile { inner: inner?, disk: self.clone() }))
    }

    fn has_room(&self) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

impl Disk for MoodyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.has_room()?;
        self.file(RealDisk.create(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(RealDisk.open(path))
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.create_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_folder(folder)
    }
}

#[derive(Debug)]
struct MoodyFile {
    inner: Box<dyn DiskFile>,
    disk: MoodyDisk,
}

impl DiskFile for MoodyFile {
    fn length(&mut self) -> io::Result<u64> {
        self.inner.length()
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.disk.has_room()?;
        self.inner.allocate(length)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.inner.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(self.disk.sync_ms.load(Ordering::Relaxed)));
        while self.disk.hangs.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.disk.breaks.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is broken"));
        }
        self.inner.sync()
    }
}

struct Replicas {
    disks: Vec<MoodyDisk>,
    running: Vec<Arc<Running>>,
    cells: Vec<ReplicatedCell>,
    _folder: tempfile::TempDir,
}

fn start_replicas(count: u64) -> Replicas {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::default();
    let founders = Membership::initial((1..=count).map(ReplicaId));
    let (mut disks, mut running) = (Vec::new(), Vec::new());
    for id in (1..=count).map(ReplicaId) {
        let disk = MoodyDisk::default();
        let origin = Origin { cell: CellId(5), kinds: Kinds::standard() };
        let identity = Identity { origin, replica: id, engine: EngineKind::Segment };
        let path = folder.path().join(id.to_string());
        let options = SegmentOptions { segment_bytes: SEGMENT_BYTES, ..SegmentOptions::default() };
        let made = Directory::create_with(Arc::new(disk.clone()), &path, identity, options);
        let directory = made.unwrap();
        bootstrap(&directory, &founders).unwrap();
        let mut settings = Settings { incarnation: 1, ..Settings::default() };
        settings.node.seed = id.0;
        let replica = Running::start(start(directory, settings).unwrap(), network.port(id), TICK);
        network.connect(id, &replica);
        disks.push(disk);
        running.push(Arc::new(replica));
    }
    let cells: Vec<_> = running.iter().map(|replica| ReplicatedCell::new(replica)).collect();
    catch_up(&cells[0]);
    Replicas { disks, running, cells, _folder: folder }
}

fn numbered(number: usize) -> Job {
    Job::batch(format!("j{number}"), TaskGroup::new(1, Amounts::new([1])))
}

fn job(number: usize) -> Command {
    Command::SubmitJob(numbered(number))
}

#[test]
fn replicas_agree_on_disks_that_are_slow_now_and_then() {
    let replicas = start_replicas(3);
    let mut dice = Dice::new(7);
    for number in 0..120 {
        if dice.below(4) == 0 {
            // The disk is either fast, or so slow that a replica's thread does not wait for it.
            let temper = [0, 0, 7][dice.below(3)];
            replicas.disks[dice.below(3)].sync_ms.store(temper, Ordering::Relaxed);
        }
        submit(&replicas.cells[dice.below(3)], numbered(number));
    }
    let mut hashes = Vec::new();
    for cell in &replicas.cells {
        catch_up(cell);
        assert_eq!(cell.read(|cell| cell.jobs().count()), 120, "what was acknowledged is there");
        hashes.push(cell.read(Cell::state_hash));
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    assert!(replicas.running.iter().all(|replica| replica.status().stopped.is_none()));
}

#[test]
fn a_disk_that_was_full_is_written_again() {
    for count in [1, 3] {
        let replicas = start_replicas(count);
        let cell = &replicas.cells[0];
        let set_full = |full: bool| {
            replicas.disks.iter().for_each(|disk| disk.full.store(full, Ordering::Relaxed));
        };
        let leads = |replica: &Arc<Running>| replica.status().leadership.is_leader;
        let (mut next, mut known) = (0, 0);
        for _ in 0..3 {
            set_full(true);
            loop {
                next += 1;
                match cell.request(Request::Command(job(next))) {
                    Reply::Outcome(outcome) => known += usize::from(outcome.is_ok()),
                    // If all disks are full, no leader can be elected either.
                    Reply::Retry(
                        RetryReason::Full
                        | RetryReason::Leaderless
                        | RetryReason::LeaderlessAndFull,
                    ) => {
                        break;
                    }
                    // The request waits for space, and may be carried out later: a replica with a full disk follows its
                    // last leader even after this leader has stepped down.
                    Reply::Unknown if replicas.running.iter().any(leads) => {}
                    Reply::Unknown => break,
                    // Nothing was done, because the leader has changed.
                    Reply::Retry(again) if !again.is_final() => {}
                    answer => panic!("{answer:?}"),
                }
            }
            set_full(false);
            catch_up(cell);
            // There is space again. Before long, a leader notices this, or a new leader is elected.
            loop {
                next += 1;
                if cell.apply(job(next)).is_ok() {
                    break;
                }
            }
            known += 1;
        }
        for (replica, cell) in replicas.running.iter().zip(&replicas.cells) {
            catch_up(cell);
            assert!(
                cell.read(|cell| cell.jobs().count()) >= known,
                "what was acknowledged is there"
            );
            assert_eq!(replica.status().stopped, None);
        }
    }
}

/// The disk stays full: another replica becomes the leader and commits. The old leader notices that its disk is full
/// only at its next new segment, and elections take time. So the outcome of a request may be unknown, or there may be
/// no leader.
#[test]
fn a_leader_whose_disk_is_full_is_followed_by_another() {
    let replicas = start_replicas(3);
    let leads = |at: usize| replicas.running[at].status().leadership.is_leader;
    let lost = (0..3).cycle().find(|at| leads(*at)).unwrap();
    let disk = &replicas.disks[lost];
    disk.full.store(true, Ordering::Relaxed);
    let cell = &replicas.cells[(lost + 1) % 3];
    let mut number = 0;
    let mut after = 0;
    while after < 300 {
        number += 1;
        match cell.apply(job(number)) {
            Ok(_) => after += usize::from(!leads(lost)),
            Err(RequestError::Unknown) => {}
            Err(RequestError::Unavailable(again)) if !again.is_final() => {}
            Err(error) => panic!("{error}"),
        }
    }
    disk.full.store(false, Ordering::Relaxed);
    let mut hashes = Vec::new();
    for cell in &replicas.cells {
        catch_up(cell);
        hashes.push(cell.read(Cell::state_hash));
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
}

/// Callers of the replica with the full disk go to another replica, instead of waiting for a read that needs room.
#[test]
fn a_read_at_a_replica_that_is_behind_because_of_its_full_disk_is_refused() {
    let replicas = start_replicas(3);
    let leads = |at: usize| replicas.running[at].status().leadership.is_leader;
    let leader = (0..3).cycle().find(|at| leads(*at)).unwrap();
    let behind = (leader + 1) % 3;
    replicas.disks[behind].full.store(true, Ordering::Relaxed);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refresh = || {
        let _entered = runtime.enter();
        let until = tokio::time::Instant::now() + Duration::from_secs(3600);
        let host = Host::replica(replicas.running[behind].clone());
        runtime.block_on(host.refresh(until))
    };
    let mut number = 0;
    let refused = loop {
        number += 1;
        // The leader may change, and then the outcome is unknown.
        let _ = replicas.cells[leader].apply(job(number));
        if replicas.running[behind].status().disk_full
            && let Err(refused) = refresh()
        {
            break refused;
        }
    };
    assert_eq!(refused.code, ErrorCode::DiskFull, "{refused}");
    assert!(refused.is_temporary() && refused.retry_after.is_some());
    replicas.disks[behind].full.store(false, Ordering::Relaxed);
    while refresh().is_err() {}
}

/// The server's streams then end, so that their callers go to another replica.
#[test]
fn the_versions_of_a_replica_end_when_it_stops() {
    let replicas = start_replicas(1);
    submit(&replicas.cells[0], numbered(0));
    let mut versions = Host::replica(replicas.running[0].clone()).versions();
    replicas.disks[0].breaks.store(true, Ordering::Relaxed);
    replicas.cells[0].begin(vec![Request::Command(job(1))], drop);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { while versions.changed().await.is_ok() {} });
    assert!(replicas.running[0].status().stopped.is_some());
}

#[test]
fn a_full_disk_does_not_keep_an_operator_from_choosing_another_leader() {
    let replicas = start_replicas(1);
    let cell = &replicas.cells[0];
    replicas.disks[0].full.store(true, Ordering::Relaxed);
    let mut number = 0;
    while cell.request(Request::Command(job(number))) != Reply::Retry(RetryReason::Full) {
        number += 1;
    }
    let unknown = Err(ChangeError::Unknown(ReplicaId(2)));
    assert_eq!(
        cell.request(Request::Transfer(ReplicaId(2))),
        Reply::Changed(unknown),
        "not that the disk is full"
    );
}

/// Tested with both writers of the log. If the replica's own thread writes, it hangs with the disk, and sends nothing.
/// After a slow write, a thread of the log writes; the leader then continues to send heartbeats, and must ask another
/// replica to take over.
#[test]
fn a_leader_whose_disk_hangs_is_followed_by_another() {
    for slow_ms in [0, 20] {
        let replicas = start_replicas(3);
        let leads = |at: usize| replicas.running[at].status().leadership.is_leader;
        let lost = (0..3).cycle().find(|at| leads(*at)).unwrap();
        let disk = &replicas.disks[lost];
        disk.sync_ms.store(slow_ms, Ordering::Relaxed);
        (0..3).for_each(|number| _ = submit(&replicas.cells[lost], numbered(number)));
        disk.hangs.store(true, Ordering::Relaxed);
        let others: Vec<usize> = (0..3).filter(|at| *at != lost).collect();
        let mut number = 3;
        // The outcome of a request to the old leader may be unknown, so it is repeated with another job.
        while replicas.cells[others[0]].apply(job(number)).is_err() {
            number += 1;
        }
        // The old leader can still commit, by the disks of the others, until it has handed over the leadership.
        while !others.iter().any(|at| leads(*at)) {
            std::thread::yield_now();
        }
        disk.hangs.store(false, Ordering::Relaxed);
        let mut hashes = Vec::new();
        for cell in &replicas.cells {
            catch_up(cell);
            assert!(cell.read(|cell| cell.jobs().any(|(_, of)| *of.name == format!("j{number}"))));
            hashes.push(cell.read(Cell::state_hash));
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    }
}
