//! A replicated cell on threads and real disks, as seen by a scheduler.

use omega_cellstate::CellHandle;
use omega_core::{
    Amounts, Command, EvictionCap, Job, Kinds, Machine, Policy, TaskGroup, Transaction,
    TransactionId,
};
use omega_store::directory::{Directory, EngineKind, Expected, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::{ChangeError, MemberStep, Membership, MembershipChange};
use omega_store::replica::{
    Network, Outdated, ReplicatedCell, Reply, Request, RequestError, RetryReason, Running,
    Settings, TIME_AGE_MAX_MS, bootstrap, start,
};
use omega_store::{CellId, Origin, RealDisk};
use omega_tests::cluster::host::Host;
use omega_tests::retries::{apply_until_done, catch_up, submit};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval of a served cell. With a shorter one, a busy computer would often change the leader.
const TICK: Duration = Duration::from_millis(50);

fn identity(id: ReplicaId) -> Identity {
    let origin = Origin { cell: CellId(9), kinds: Kinds::standard() };
    Identity { origin, replica: id, engine: EngineKind::Segment }
}

/// Creates a replica's directory, with the initial state if it bootstraps the cell.
fn make(folder: &Path, id: ReplicaId, founders: Option<&Membership>) {
    let path = folder.join(id.to_string());
    let directory = Directory::create(Arc::new(RealDisk), &path, identity(id)).unwrap();
    if let Some(founders) = founders {
        bootstrap(&directory, founders).unwrap();
    }
}

fn run(folder: &Path, id: ReplicaId, incarnation: u64, network: &Network) -> Running {
    let path = folder.join(id.to_string());
    let directory = Directory::open(Arc::new(RealDisk), &path, Expected::default()).unwrap();
    let mut settings = Settings { incarnation, ..Settings::default() };
    settings.node.seed = id.0;
    let running = Running::start(start(directory, settings).unwrap(), network.port(id), TICK);
    network.connect(id, &running);
    running
}

const IDS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];

/// Bootstraps and runs a cell of three replicas.
fn run_three(folder: &Path, network: &Network) -> Vec<Running> {
    let founders = Membership::initial(IDS);
    IDS.iter().for_each(|id| make(folder, *id, Some(&founders)));
    IDS.iter().map(|id| run(folder, *id, 1, network)).collect()
}

fn machine() -> Command {
    Command::RegisterMachine(Machine::new("m", Amounts::new([64_000, 64 << 30])))
}

fn register_machine(cell: &ReplicatedCell) {
    apply_until_done(cell, &machine(), |cell| cell.machine_by_name("m").is_some());
}

fn job(name: &str, tasks: u32) -> Job {
    Job::batch(name, TaskGroup::new(tasks, Amounts::new([100, 1 << 20])))
}

/// Waits until a replica leads, and returns its place.
fn leader(running: &[Running]) -> usize {
    let leads = |one: &Running| one.status().leadership.is_leader;
    loop {
        match running.iter().position(leads) {
            Some(leader) => return leader,
            None => std::thread::yield_now(),
        }
    }
}

/// Places every pending task of a job on the machine, in one transaction.
fn place(cell: &ReplicatedCell, number: u64, job: omega_core::JobId) -> Transaction {
    let (scheduler, _) = cell.register("s".into()).unwrap();
    cell.read(|cell| {
        let machine = cell.machines().next().unwrap();
        let claims = cell
            .tasks(job)
            .map(|(task, _)| omega_core::Claim::new(task, machine.id, machine.sequence));
        let id = TransactionId { scheduler, number };
        Transaction::new(id, cell.version(), claims.collect())
    })
}

#[test]
fn one_replica_keeps_what_it_has_answered() {
    let folder = tempfile::tempdir().unwrap();
    let id = ReplicaId(1);
    make(folder.path(), id, Some(&Membership::initial([id])));
    let network = Network::default();
    let running = run(folder.path(), id, 1, &network);
    let cell = ReplicatedCell::new(&running);
    register_machine(&cell);
    let job = submit(&cell, job("a", 10));
    let txn = place(&cell, 0, job);
    let commit = cell.commit(&txn).unwrap();
    assert!(commit.is_complete());
    assert!(catch_up(&cell) >= commit.version);
    let hash = cell.read(omega_cellstate::Cell::state_hash);
    running.end();

    let running = run(folder.path(), id, 2, &network);
    let cell = ReplicatedCell::new(&running);
    catch_up(&cell);
    assert_eq!(cell.read(omega_cellstate::Cell::state_hash), hash);
    assert_eq!(cell.commit(&txn).unwrap(), commit, "the same answer, after a restart");
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// With an eviction limit, the cell's time matters. The leader then advances the time by its own commands.
#[test]
fn where_a_policy_goes_by_the_time_commands_are_applied_at_it() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::default();
    let running = run_three(folder.path(), &network);
    // There is one handle for each replica, whichever is the leader.
    let cells: Vec<_> = running.iter().map(ReplicatedCell::new).collect();
    register_machine(&cells[0]);
    let now_ms = |cell: &ReplicatedCell| {
        catch_up(cell);
        cell.read(omega_cellstate::Cell::now_ms)
    };
    assert_eq!(now_ms(&cells[0]), 0, "nothing goes by the time");
    let cap = EvictionCap { count: 2, per_ms: 10_000 };
    let policy = Policy { eviction_cap: Some(cap), ..Policy::default() };
    let set = Command::SetPolicy(policy);
    apply_until_done(&cells[0], &set, |cell| cell.policy().eviction_cap.is_some());
    for (number, cell) in cells.iter().enumerate() {
        let before = unix_ms();
        submit(cell, job(&format!("j{number}"), 1));
        assert!(now_ms(cell) + TIME_AGE_MAX_MS >= before, "replica {number}");
    }
    drop(cells);
    running.into_iter().for_each(Running::end);
}

#[test]
fn three_replicas_go_on_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::default();
    let mut running = run_three(folder.path(), &network);
    let cells: Vec<_> = running.iter().map(ReplicatedCell::new).collect();
    register_machine(&cells[0]);
    for (number, cell) in cells.iter().enumerate() {
        let job = submit(cell, job(&format!("j{number}"), 5));
        let txn = place(cell, number as u64, job);
        assert!(cell.commit(&txn).unwrap().is_complete());
    }
    let leader = leader(&running);
    network.disconnect(IDS[leader]);
    running.remove(leader).end();
    let cell = ReplicatedCell::new(&running[0]);
    let job = submit(&cell, job("after", 5));
    let txn = place(&cell, 7, job);
    let commit = cell.commit(&txn).unwrap();
    let other = ReplicatedCell::new(&running[1]);
    assert!(catch_up(&other) >= commit.version);
    assert_eq!(other.commit(&txn).unwrap(), commit, "whoever is asked");
    let hashes = [&cell, &other].map(|cell| cell.read(omega_cellstate::Cell::state_hash));
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn a_lost_replica_is_replaced_under_a_new_id() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::default();
    let mut running = run_three(folder.path(), &network);
    let cell = ReplicatedCell::new(&running[0]);
    register_machine(&cell);
    let lost = running.iter().rposition(|one| !one.status().leadership.is_leader).unwrap();
    network.disconnect(IDS[lost]);
    running.remove(lost).end();
    let cell = ReplicatedCell::new(&running[0]);
    change(&cell, MemberStep::Remove(IDS[lost])).unwrap();
    let used = ChangeError::IdUsed(IDS[lost], IDS[2]);
    let again = change(&cell, MemberStep::AddLearner(IDS[lost]));
    assert_eq!(again, Err(used), "an id is never used twice");
    let new = ReplicaId(4);
    make(folder.path(), new, None);
    running.push(run(folder.path(), new, 1, &network));
    change(&cell, MemberStep::AddLearner(new)).unwrap();
    // The promotion is rejected until the learner has caught up.
    loop {
        match change(&cell, MemberStep::Promote(new)) {
            Ok(()) | Err(ChangeError::Votes(_)) => break,
            Err(ChangeError::Behind(_) | ChangeError::NoAnswer { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    let other = ReplicatedCell::new(running.last().unwrap());
    catch_up(&other);
    let hashes = [&cell, &other].map(|cell| cell.read(omega_cellstate::Cell::state_hash));
    assert_eq!(hashes[0], hashes[1]);
}

/// Changes the members once a leader is known and enough of the members answer, which may take some time on a busy
/// computer.
fn change(cell: &ReplicatedCell, step: MemberStep) -> Result<(), ChangeError> {
    let change = MembershipChange::one(step);
    let mut in_doubt = false;
    loop {
        match cell.change_membership(&change) {
            Ok(_) => return Ok(()),
            // The answer to a change that was made before.
            Err(RequestError::Change(
                ChangeError::Unknown(_) | ChangeError::IdUsed(..) | ChangeError::Votes(_),
            )) if in_doubt => return Ok(()),
            Err(RequestError::Change(
                ChangeError::NoQuorum { .. } | ChangeError::Pending | ChangeError::NotLeader,
            )) => {}
            Err(RequestError::Change(error)) => return Err(error),
            Err(RequestError::Unavailable(again)) => assert!(!again.is_final(), "{again}"),
            Err(error) => in_doubt |= error == RequestError::Unknown,
        }
        std::thread::yield_now();
    }
}

/// A removed replica still runs, but no other replica sends messages to it. It must reject requests; in the past, it
/// forwarded them to the leader.
#[test]
fn a_replica_that_was_removed_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::default();
    let running = run_three(folder.path(), &network);
    let cells: Vec<_> = running.iter().map(ReplicatedCell::new).collect();
    register_machine(&cells[0]);
    let removed = loop {
        let follower = running.iter().rposition(|one| !one.status().leadership.is_leader).unwrap();
        match change(&cells[(follower + 1) % 3], MemberStep::Remove(IDS[follower])) {
            Ok(()) => break follower,
            // It has just been elected.
            Err(ChangeError::Leads(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let refused = RequestError::Unavailable(RetryReason::Removed);
    // The first request may have been forwarded before the replica learned of its removal. Later ones are rejected.
    let late = |name| Command::SubmitJob(job(name, 1));
    while cells[removed].apply(late("late")) != Err(refused.clone()) {}
    assert_eq!(cells[removed].catch_up_with_all(), Err(refused.clone()));
    assert_eq!(cells[removed].apply(late("later")), Err(refused));
    let taken =
        cells[(removed + 1) % 3].read(|cell| cell.jobs().any(|(_, job)| *job.name == *"later"));
    assert!(!taken);
    while running[removed].status().outdated != Some(Outdated::Removed) {}
    assert_eq!(running[(removed + 1) % 3].status().outdated, None);
}

#[test]
fn a_replica_that_hears_no_leader_knows_that_its_state_may_be_outdated() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::default();
    let running = run_three(folder.path(), &network);
    register_machine(&ReplicatedCell::new(&running[0]));
    let alone = running.iter().rposition(|one| !one.status().leadership.is_leader).unwrap();
    network.disconnect(IDS[alone]);
    while running[alone].status().outdated != Some(Outdated::Silence) {
        std::thread::yield_now();
    }
    let others = running.iter().enumerate().filter(|(position, _)| *position != alone);
    for (_, other) in others {
        while other.status().outdated.is_some() {
            std::thread::yield_now();
        }
    }
}

/// A removed learner requests no votes, and the leader sends it no messages. So the learner asks the other replicas
/// whether it was removed.
#[test]
fn a_learner_that_was_removed_while_it_was_down_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::default();
    let running = run_three(folder.path(), &network);
    let cell = ReplicatedCell::new(&running[0]);
    let learner = ReplicaId(4);
    make(folder.path(), learner, None);
    let follows = run(folder.path(), learner, 1, &network);
    change(&cell, MemberStep::AddLearner(learner)).unwrap();
    catch_up(&ReplicatedCell::new(&follows));
    network.disconnect(learner);
    follows.end();
    change(&cell, MemberStep::Remove(learner)).unwrap();
    let follows = run(folder.path(), learner, 2, &network);
    let own = ReplicatedCell::new(&follows);
    while own.catch_up_with_all() != Err(RequestError::Unavailable(RetryReason::Removed)) {}
}

/// A replica whose log contains its own removal requests no votes, so no other replica reports the removal to it. It
/// must find out by itself.
#[test]
fn a_replica_that_finds_its_removal_in_its_log_takes_nothing() {
    let mut host = Host::new(ReplicaId(1), 1, 8 << 10);
    host.bootstrap(&Kinds::standard(), Some(&Membership::initial([2, 3].map(ReplicaId))));
    host.start(Settings::default()).unwrap();
    let replica = &mut host.running.as_mut().unwrap().replica;
    let asked = [replica.request(Request::Read), replica.request(Request::Command(machine()))];
    let removed = asked.map(|id| (id, Reply::Retry(RetryReason::Removed)));
    assert_eq!(replica.proceed().replies, removed);
}
