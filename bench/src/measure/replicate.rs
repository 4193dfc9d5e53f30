//! Question: what does durability of a cell cost, on one disk and on three?
//!
//! The loop is that of the group `whole`: workers sync, decide, commit and settle until all tasks of a wave are placed.
//! The bare figure is measured by this loop on a cell in memory; runs on the two cells alternate. Processor time is
//! that of the whole process, because replicas have their own threads. The table also has the time of a commit, and the
//! time that the disk needs to sync a few hundred bytes.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, median, timed};
use crate::measure::scan;
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::whole::{self, Load, Submit};
use crate::measure::{Options, SEED};
use omega_cellstate::{Cell, SharedCell};
use omega_core::{Claim, Command, Job, MachineId, Outcome, TaskId, Transaction, TransactionId};
use omega_run::{TimedCell, Took};
use omega_store::directory::{Directory, EngineKind, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::Membership;
use omega_store::replica::{Network, ReplicatedCell, Running, Settings, bootstrap_with, start};
use omega_store::{CellId, Origin, RealDisk};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const WORKLOAD: &str =
    "10,000 machines from 60 to 70 % use; transactions of 10 claims; bare: a cell in memory";

const MACHINES: usize = 10_000;
const CLAIMS: usize = 10;

/// Number of tasks of one run, which take about a second on three replicas.
const TASKS: usize = 50_000;

/// Duration of a tick: much longer than a commit.
const TICK: Duration = Duration::from_millis(50);

/// Maximum number of a worker's transactions in flight.
const IN_FLIGHT: usize = 16;

/// A cell of replicas in this process, each with a directory.
struct Replicas {
    handles: Vec<TimedCell>,
    took: Took,
    running: Vec<Running>,
    /// The temporary folder, which is removed when the value is dropped.
    _folder: tempfile::TempDir,
}

impl Replicas {
    /// Starts the replicas of a cell.
    fn start(made: &Made, count: u64, folder: &Path) -> Replicas {
        let folder = tempfile::tempdir_in(folder).expect("the folder can be written");
        let cell = made.copy();
        let ids: Vec<ReplicaId> = (1..=count).map(ReplicaId).collect();
        let founders = Membership::initial(ids.iter().copied());
        let network = Network::default();
        let mut running = Vec::new();
        for id in &ids {
            let origin = Origin { cell: CellId(1), kinds: cell.kinds().clone() };
            let identity = Identity { origin, replica: *id, engine: EngineKind::Segment };
            let path = folder.path().join(id.to_string());
            let directory = Directory::create(Arc::new(RealDisk), &path, identity);
            let directory = directory.expect("the folder is new");
            bootstrap_with(&directory, &founders, &cell).expect("the disk has room");
            let mut settings = Settings::default();
            settings.node.seed = SEED ^ id.0;
            let started = start(directory, settings).expect("what was founded starts");
            let replica = Running::start(started, network.port(*id), TICK);
            network.connect(*id, &replica);
            running.push(replica);
        }
        let took = Took::default();
        let handle = |one| TimedCell { cell: ReplicatedCell::new(one), took: took.clone() };
        let handles: Vec<TimedCell> = running.iter().map(handle).collect();
        handles[0].cell.catch_up_with_all().expect("a leader is elected");
        // Replicas forward commits to the leader, so a scheduler is fastest on the leader's machine.
        let leader = running.iter().position(|one| one.status().leadership.is_leader);
        let mut replicas = Replicas { handles, took, running, _folder: folder };
        replicas.handles.rotate_left(leader.unwrap_or(0));
        replicas
    }

    fn log_bytes(&self) -> u64 {
        self.running.iter().map(|replica| replica.status().log_bytes).max().unwrap_or(0)
    }
}

impl Submit for TimedCell {
    fn submit(&self, jobs: Vec<Job>) {
        for done in self.cell.apply_all(jobs.into_iter().map(Command::SubmitJob)) {
            done.expect("a small job is taken");
        }
    }

    fn catch_up(&self) {
        self.cell.catch_up_with_all().expect("a leader answers");
    }
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let folder = options.folder();
    let fsync = omega_run::replicas::fdatasync_us(&folder).expect("the disk works");
    let mut rows = vec![Row::value("fdatasync of 4 KiB, preallocated", Unit::Micros, fsync)];
    for (count, rate_goal, latency_goal) in [(1, 0.4, 2.0), (3, 0.15, 4.0)] {
        let each = Each { options, made: &made, folder: &folder, replicas: count };
        each.rows(fsync, rate_goal, latency_goal, &mut rows);
    }
    rows.extend(follower(options, &made));
    rows
}

/// The measurement for one number of replicas.
struct Each<'a> {
    options: &'a Options,
    made: &'a Made,
    folder: &'a Path,
    replicas: u64,
}

/// Figures of one run on replicas.
struct Seen {
    figure: Figure,
    latency_us: f64,
    bytes: f64,
}

impl Each<'_> {
    fn rows(&self, fsync: f64, rate_goal: f64, latency_goal: f64, rows: &mut Vec<Row>) {
        let name = match self.replicas {
            1 => "one replica".to_owned(),
            count => format!("{count} replicas"),
        };
        for (workers, in_flight) in [(1, 1), (8, 1), (1, IN_FLIGHT), (4, IN_FLIGHT)] {
            let (seen, bare) = self.measure(workers, in_flight);
            let what = format!("{name}, {workers} workers, {in_flight} on the way");
            let row = Row::time(what, Unit::MillionsPerSecond, seen.figure).beside(bare);
            rows.push(row);
            let times = bare.cpu / seen.figure.cpu;
            let row = Row::value("  of the rate in memory, per core", Unit::Times, times);
            rows.push(if workers * in_flight > 8 {
                row.reach(Reach::AtLeast(rate_goal))
            } else {
                row
            });
            let micros = seen.latency_us;
            rows.push(Row::value("  a commit, p50", Unit::Micros, micros));
            if workers * in_flight == 1 {
                let row = Row::value("  in fdatasyncs", Unit::Times, micros / fsync);
                rows.push(row.reach(Reach::AtMost(latency_goal)));
                let row = Row::value("  log bytes per claim", Unit::Bytes, seen.bytes);
                rows.push(row.reach(Reach::AtMost(48.0)));
            }
        }
    }

    /// Measures runs, in turn with a replicated cell and with a cell in memory.
    fn measure(&self, workers: usize, in_flight: usize) -> (Seen, Figure) {
        let mut load = Load::sampled(self.options.work(TASKS), workers, CLAIMS);
        // A cell in memory answers commits at once, so no transaction is in flight.
        let bare_load = Load::sampled(self.options.work(TASKS), 1, CLAIMS);
        load.workers.iter_mut().for_each(|worker| worker.commits_in_flight = in_flight);
        let (mut seen, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..self.options.runs().min(3) {
            seen.push(self.once(&load));
            bare.push(in_memory(self.made, &bare_load));
        }
        let of = |part: fn(&Seen) -> f64| median(seen.iter().map(part).collect());
        let figures: Vec<Figure> = seen.iter().map(|seen| seen.figure).collect();
        let figure = Figure::median(&figures);
        let (latency_us, bytes) = (of(|seen| seen.latency_us), of(|seen| seen.bytes));
        let all = Seen { figure, latency_us, bytes };
        (all, Figure::median(&bare))
    }

    fn once(&self, load: &Load) -> Seen {
        let replicas = Replicas::start(self.made, self.replicas, self.folder);
        let before = replicas.log_bytes();
        let done = whole::run_on(&replicas.handles, load, scan::profile);
        let bytes = replicas.log_bytes() - before;
        Seen {
            figure: done.process.each(done.placed),
            latency_us: replicas.took.percentile_us(50.0),
            // The bytes include the log entries that submit the jobs.
            bytes: bytes as f64 / done.placed as f64,
        }
    }
}

fn in_memory(made: &Made, load: &Load) -> Figure {
    let done = whole::run_on(&[SharedCell::new(made.copy())], load, scan::profile);
    done.process.each(done.placed)
}

/// Cost of applying claims on a follower, compared with applying them in this process.
fn follower(options: &Options, made: &Made) -> Vec<Row> {
    let count = options.work(20_000);
    let (cell, txns) = transactions(made, count);
    let mut entry = Vec::new();
    let mut ours = Vec::new();
    let mut plain = Vec::new();
    for txn in &txns {
        let command = Command::Commit(txn.clone());
        let mut bytes = Vec::new();
        omega_store::codec::encode(&command, &mut bytes).expect("it is small");
        entry.push(bytes);
    }
    for _ in 0..options.runs() {
        let mut copy = cell.clone();
        let ((), span) = timed(|| {
            for bytes in &entry {
                let command = omega_store::codec::decode(bytes).expect("it was encoded");
                assert!(matches!(copy.apply(command), Ok(Outcome::Commit(_))));
            }
        });
        ours.push(span.each(count));
        let mut copy = cell.clone();
        let ((), span) = timed(|| {
            for txn in &txns {
                assert!(copy.commit(txn).is_ok());
            }
        });
        plain.push(span.each(count));
    }
    let (ours, plain) = (Figure::median(&ours), Figure::median(&plain));
    let bytes = entry.iter().map(Vec::len).sum::<usize>() as f64 / (count * CLAIMS) as f64;
    let times = ours.cpu / plain.cpu;
    vec![
        Row::time("a follower applies 10 claims", Unit::Nanos, ours).beside(plain),
        Row::value("  of a commit in process", Unit::Times, times).reach(Reach::AtMost(1.5)),
        Row::value("  bytes of a claim in an entry", Unit::Bytes, bytes),
    ]
}

/// Transactions of ten claims each, all of which will be accepted.
fn transactions(made: &Made, count: usize) -> (Cell, Vec<Transaction>) {
    let mut cell = made.copy();
    let name = "bench".into();
    let Ok(Outcome::Scheduler { id: scheduler, .. }) =
        cell.apply(Command::RegisterScheduler { name })
    else {
        unreachable!("a scheduler registers")
    };
    let machines: Vec<(MachineId, _)> = cell.machines().map(|m| (m.id, m.sequence)).collect();
    let mut txns = Vec::new();
    for (number, job) in cells::small_jobs(1_000_000, count * CLAIMS, CLAIMS).enumerate() {
        let job = cells::submit(&mut cell, job);
        let claim = |index: u32| {
            let at = (number * 7919 + index as usize * 31) % machines.len();
            let (machine, seen) = machines[at];
            Claim::new(TaskId { job, index }, machine, seen)
        };
        let id = TransactionId { scheduler, number: number as u64 };
        txns.push(Transaction::new(id, cell.version(), (0..CLAIMS as u32).map(claim).collect()));
    }
    (cell, txns)
}
