//! Each failpoint of the store, switched on in turn. The store must reach it, and after a restart no acknowledged
//! change is lost. The first test has a leader and a follower that needs its snapshots; the second has three voters,
//! which are cut off in turn until they need a snapshot.
//!
//! `cargo test -p omega-tests --features failpoints --test failpoints`

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

use omega_core::{Command, Kinds, Outcome};
use omega_store::directory::{Directory, EngineKind, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::{MemberStep, MembershipChange};
use omega_store::replica::{PeerMessage, Reply, Request, RequestId, Started};
use omega_store::{CellId, FAILPOINTS, FAILPOINTS_WITHOUT_ANSWER, Origin, set_failpoints};
use omega_tests::disk::SimulatedDisk;
use omega_tests::durable::{
    BEFORE, LOG_BYTES_MAX, Lone, SEGMENTS, create, open, setup, transaction,
};
use omega_tests::random::Dice;
use omega_tests::trio::Trio;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

const FOLDER: &str = "/replica";

/// Rounds of a run, with a transaction in most of them.
const ROUNDS: u64 = 800;

/// A voter, and a learner that begins with an empty log.
struct Pair {
    disks: [SimulatedDisk; 2],
    up: [Started; 2],
    dice: Dice,
    messages: Vec<(usize, usize, PeerMessage)>,
    asked: Option<(RequestId, u64)>,
    /// Number of answered commands before the first transaction.
    prepared: usize,
    next: u64,
    restarts: u64,
}

impl Pair {
    fn new() -> Pair {
        let disks = [1, 2].map(SimulatedDisk::new);
        create(Arc::new(disks[0].clone()), Path::new(FOLDER), EngineKind::Segment).unwrap();
        let origin = Origin { cell: CellId(0xCE11), kinds: Kinds::standard() };
        let identity = Identity { origin, replica: ReplicaId(2), engine: EngineKind::Segment };
        let disk = Arc::new(disks[1].clone());
        drop(Directory::create_with(disk, Path::new(FOLDER), identity, SEGMENTS).unwrap());
        let up = [0, 1].map(|at| start(&disks[at]));
        let (dice, messages) = (Dice::new(1), Vec::new());
        Pair { disks, up, dice, messages, asked: None, prepared: 0, next: 0, restarts: 0 }
    }

    /// Calls a replica; if it panics or stops, its power fails and it starts again.
    fn with(&mut self, at: usize, work: impl FnOnce(&mut Started)) {
        let replica = &mut self.up[at];
        let panicked = catch_unwind(AssertUnwindSafe(|| work(replica))).is_err();
        if panicked || self.up[at].replica.stopped().is_some() {
            self.restarts += 1;
            self.disks[at].crash(&mut self.dice);
            self.up[at] = start(&self.disks[at]);
            if at == 0 {
                self.asked = None;
            }
        }
    }

    fn round(&mut self, round: u64) {
        let asked = &mut None;
        if self.asked.is_none() {
            let (ask, number) = self.wish();
            self.with(0, |started| *asked = Some((started.replica.request(ask), number)));
            self.asked = asked.take();
        }
        for at in [0, 1] {
            let mut output = (Vec::new(), Vec::new());
            self.with(at, |started| {
                if round.is_multiple_of(4) {
                    started.replica.tick();
                }
                output = drive(started);
            });
            let (messages, answers) = output;
            let sent = messages.into_iter().map(|(to, message)| (at, to.0 as usize - 1, message));
            self.messages.extend(sent);
            answers.into_iter().for_each(|(id, answer)| self.answered(id, &answer));
        }
        for (from, to, message) in std::mem::take(&mut self.messages) {
            let from = ReplicaId(from as u64 + 1);
            self.with(to, |started| started.replica.receive(from, message));
        }
    }

    /// The next request of the client, and the number of its transaction.
    fn wish(&self) -> (Request, u64) {
        let leader = &self.up[0].replica;
        let state = leader.applied().lock();
        if let Some(command) = setup().into_iter().nth(self.prepared) {
            return (Request::Command(command), u64::MAX);
        }
        if !leader.node().membership().contains(ReplicaId(2)) {
            let step = MemberStep::AddLearner(ReplicaId(2));
            return (Request::Change(MembershipChange::one(step)), u64::MAX);
        }
        let commit = Command::Commit(transaction(&state.cell, self.next));
        (Request::Retry(commit), self.next)
    }

    fn answered(&mut self, id: RequestId, answer: &Reply) {
        let Some((_, number)) = self.asked.take_if(|(asked, _)| *asked == id) else { return };
        if let Reply::Outcome(_) = answer {
            self.prepared += 1;
        }
        if let Reply::Outcome(Ok(Outcome::Commit(commit))) = answer {
            assert!(commit.conflicts.is_empty(), "transaction {number}: {commit:?}");
            self.next = number + 1;
        }
    }

    /// Works for some rounds, and then checks the result.
    fn run(mut self) -> u64 {
        (0..ROUNDS).for_each(|round| self.round(round));
        assert!(self.next > 150, "{} transactions", self.next);
        let acknowledged = self.next;
        self.disks[0].crash(&mut self.dice);
        self.up[0] = start(&self.disks[0]);
        self.asked = None;
        (0..200).for_each(|round| self.round(round));
        assert!(self.next > acknowledged);
        let states = [0, 1].map(|at| {
            let state = self.up[at].replica.applied().lock();
            state.cell.audit().unwrap();
            (state.cell.version().0, state.position.index)
        });
        // One transaction may be under way; no transaction is lost or applied twice.
        let versions = [0, 1].map(|more| BEFORE + self.next + more);
        assert!(versions.contains(&states[0].0), "{states:?} after {}", self.next);
        assert!(states[1].1.0 + 50 > states[0].1.0, "the follower keeps up: {states:?}");
        self.restarts
    }
}

fn start(disk: &SimulatedDisk) -> Started {
    open(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap()
}

type Out = (Vec<(ReplicaId, PeerMessage)>, Vec<(RequestId, Reply)>);

fn drive(started: &mut Started) -> Out {
    let Started { replica, log, files, .. } = started;
    let output = replica.proceed();
    output.writes.into_iter().for_each(|write| log.push(write));
    output.compact.into_iter().for_each(|base| log.push_compaction(base));
    match log.work() {
        Ok(number) => number.into_iter().for_each(|number| replica.persisted(number)),
        Err(error) => replica.log_failed(error),
    }
    for job in output.files {
        let done = files.work(job);
        replica.file_done(done);
    }
    (output.messages, output.replies)
}

/// Hides the output of intended panics.
fn be_quiet() {
    std::panic::set_hook(Box::new(|info| {
        if !info.location().is_some_and(|at| at.file().contains("/fail-")) {
            eprintln!("{info}");
        }
    }));
}

/// Switches all failpoints on, to count how often each is reached.
fn count_hits() -> Arc<Mutex<BTreeMap<&'static str, u64>>> {
    let hits: Arc<Mutex<BTreeMap<&str, u64>>> = Arc::default();
    for point in FAILPOINTS {
        let hits = hits.clone();
        fail::cfg_callback(point, move || *hits.lock().unwrap().entry(point).or_default() += 1)
            .unwrap();
    }
    hits
}

#[test]
fn at_each_failpoint_nothing_acknowledged_is_lost() {
    be_quiet();
    let scenario = fail::FailScenario::setup();
    let hits = count_hits();
    assert_eq!(Pair::new().run(), 0);
    scenario.teardown();
    println!("{:<18} {:>7} {:>15}", "failpoint", "reached", "restarts");
    for point in FAILPOINTS {
        let reached = hits.lock().unwrap().get(point).copied().unwrap_or(0);
        let mut restarts = Vec::new();
        // The failpoint acts when it is reached for the first time, or after half of the counted times.
        for before in [0, reached / 2] {
            for action in ["panic", "return"] {
                if action == "return" && FAILPOINTS_WITHOUT_ANSWER.contains(&point) {
                    continue;
                }
                let scenario = fail::FailScenario::setup();
                let pair = Pair::new();
                fail::cfg(point, &format!("{before}*off->1*{action}->off")).unwrap();
                restarts.push(pair.run());
                scenario.teardown();
                assert!(action != "panic" || restarts.last() > Some(&0), "{point} at {before}");
            }
        }
        println!("{point:<18} {reached:>7} {restarts:>15?}");
        assert!(reached > 0, "{point} is never reached");
    }
}

/// Rounds in which one replica is cut off: long enough for an election, and for the others to compact
/// the entries that it lacks.
const CUT: u64 = 240;

/// Rounds after a cut, in which the replica is connected again.
const BACK: u64 = 120;

/// Runs three replicas with failpoints in one of them. Returns the number of restarts.
fn run_three(struck: usize, switch_on: impl FnOnce()) -> u64 {
    let mut trio = Trio::new();
    trio.at_work = match struck {
        0 => |at| set_failpoints(at == Some(0)),
        1 => |at| set_failpoints(at == Some(1)),
        _ => |at| set_failpoints(at == Some(2)),
    };
    switch_on();
    for cut in [1, 2, 0] {
        trio.cut = Some(cut);
        (0..CUT).for_each(|_| trio.round());
        trio.cut = None;
        (0..BACK).for_each(|_| trio.round());
    }
    assert!(trio.next > 100, "{} transactions", trio.next);
    let struck_so_often = trio.restarts;
    trio.agree();
    // After a restart from their disks they must agree again.
    (0..3).for_each(|at| trio.restart(at));
    trio.agree();
    set_failpoints(true);
    struck_so_often
}

#[test]
fn at_each_failpoint_two_others_go_on_and_the_struck_one_comes_back() {
    be_quiet();
    println!("{:<18} {:>7} {:>9} {:>9}", "failpoint", "replica", "reached", "restarts");
    let mut by_point: BTreeMap<&str, u64> = BTreeMap::new();
    for struck in 0..3 {
        let scenario = fail::FailScenario::setup();
        let hits = Mutex::new(Arc::default());
        assert_eq!(run_three(struck, || *hits.lock().unwrap() = count_hits()), 0);
        scenario.teardown();
        let hits = hits.into_inner().unwrap();
        for point in FAILPOINTS {
            let reached = hits.lock().unwrap().get(point).copied().unwrap_or(0);
            *by_point.entry(point).or_default() += reached;
            let restarts = strike(point, struck, reached);
            println!("{point:<18} {:>7} {reached:>9} {restarts:>9?}", struck + 1);
        }
    }
    // No membership changes here, so this failpoint is not reached; the test of a pair adds a member.
    by_point.remove("membership");
    assert!(by_point.values().all(|reached| *reached > 0), "never reached: {by_point:?}");
}

/// Runs three replicas with a failpoint in one of them, which acts when it is first reached or after half of the
/// `reached` times. Returns the number of restarts of each run.
fn strike(point: &str, struck: usize, reached: u64) -> Vec<u64> {
    let mut restarts = Vec::new();
    // Until the failpoint acts, a run equals the run in which hits were counted, so the failpoint is reached as often.
    for before in [0, reached / 2].into_iter().filter(|_| reached > 0) {
        for action in ["panic", "return"] {
            if action == "return" && FAILPOINTS_WITHOUT_ANSWER.contains(&point) {
                continue;
            }
            let scenario = fail::FailScenario::setup();
            let action_then = format!("{before}*off->1*{action}->off");
            restarts.push(run_three(struck, || fail::cfg(point, &action_then).unwrap()));
            scenario.teardown();
            assert!(action != "panic" || restarts.last() > Some(&0), "{point} at {before}");
        }
    }
    restarts
}

/// Works until the replica rejects commands.
fn until_refused(lone: &mut Lone) {
    let before = lone.next;
    while lone.work() {
        assert!(lone.next < before + 10_000, "the log has no bound");
    }
}

#[test]
fn snapshots_that_fail_again_and_again_cost_no_memory_and_lose_nothing() {
    be_quiet();
    for point in ["snapshot-save", "snapshot-rename"] {
        let scenario = fail::FailScenario::setup();
        let disk = SimulatedDisk::new(1);
        create(Arc::new(disk.clone()), Path::new(FOLDER), EngineKind::Segment).unwrap();
        fail::cfg(point, "return").unwrap();
        let mut lone = Lone::open(Arc::new(disk), Path::new(FOLDER)).unwrap();
        until_refused(&mut lone);
        let (acknowledged, in_memory) = (lone.next, lone.started.replica.node().log_in_memory().1);
        assert!(in_memory < LOG_BYTES_MAX + 1024, "{point}: {in_memory} bytes");
        fail::remove(point);
        for _ in 0..100 {
            lone.started.replica.tick();
            lone.drive();
        }
        assert!((0..100).all(|_| lone.work()), "{point}: it goes on");
        assert_eq!(lone.count(), Ok(acknowledged + 100), "{point}");
        scenario.teardown();
    }
}
