//! Requests to a single replica, step by step: those that the pre-check rejects, and those that it must not reject.

use omega_cellstate::Cell;
use omega_core::{
    Amounts, Claim, Command, Job, Kinds, Machine, MachineId, Outcome, SchedulerId, SequenceNumber,
    TaskGroup, TaskId, TaskReport, Transaction, TransactionId, Version,
};
use omega_store::log::{HardState, ReplicaId, Term};
use omega_store::membership::Membership;
use omega_store::node;
use omega_store::replica::{FIRST, Output, PeerMessage, Replica, Reply, Request, RequestId};
use omega_store::replica::{Settings, Start};

/// A replica that is the only one of its cell, with a machine for one task, and a job of two tasks.
fn alone() -> Replica {
    let mut cell = Cell::new(Kinds::standard());
    cell.apply(Command::RegisterScheduler { name: "a".into() }).unwrap();
    let machine = Machine::new("m", Amounts::new([1000, 1 << 30]));
    cell.apply(Command::RegisterMachine(machine)).unwrap();
    let job = Job::batch("j", TaskGroup::new(2, Amounts::new([1000, 1 << 20])));
    cell.apply(Command::SubmitJob(job)).unwrap();
    let node = node::Start {
        id: ReplicaId(1),
        base: FIRST,
        membership: Membership::initial([ReplicaId(1)]),
        hard_state: HardState { term: Term(1), vote: None, commit: FIRST.index },
        entries: Vec::new(),
        suspected_loss: None,
    };
    let mut replica = Replica::new(Start { node, cell, fingerprint: 0 }, Settings::default());
    let output = replica.proceed();
    persist(&mut replica, &output);
    drop(replica.proceed());
    assert!(replica.node().leads_with_all());
    replica
}

fn persist(replica: &mut Replica, output: &Output) {
    output.writes.iter().for_each(|write| replica.persisted(write.number));
}

/// A transaction that claims the machine for one of the tasks.
fn claim(replica: &Replica, number: u64, index: u32) -> Command {
    let state = replica.applied().lock();
    let (job, _) = state.cell.jobs().next().unwrap();
    let machine: MachineId = state.cell.machines().next().unwrap().id;
    let task = TaskId { job, index };
    let claim = Claim::new(task, machine, SequenceNumber(0));
    let id = TransactionId { scheduler: SchedulerId(0), number };
    Command::Commit(Transaction::new(id, Version(0), vec![claim]))
}

fn conflicts(output: &Output, id: RequestId) -> Option<usize> {
    let (_, answer) = output.replies.iter().find(|(of, _)| *of == id)?;
    let Reply::Outcome(Ok(Outcome::Commit(commit))) = answer else { panic!("{answer:?}") };
    Some(commit.conflicts.len())
}

#[test]
fn a_retry_is_not_refused_while_its_first_copy_is_under_way() {
    let mut replica = alone();
    let other = replica.request(Request::Command(claim(&replica, 0, 0)));
    let first = replica.proceed();
    let command = claim(&replica, 1, 1);
    let lost = replica.request(Request::Command(command.clone()));
    let second = replica.proceed();
    assert_eq!((first.writes.len(), second.writes.len()), (1, 1));

    // The machine is full now; the transaction that filled it is in flight.
    persist(&mut replica, &first);
    assert_eq!(conflicts(&replica.proceed(), other), Some(0));
    let again = replica.request(Request::Retry(command));
    let third = replica.proceed();
    assert_eq!((conflicts(&third, again), third.writes.len()), (None, 1), "the log decides");
    let fresh = replica.request(Request::Command(claim(&replica, 2, 1)));
    assert_eq!(conflicts(&replica.proceed(), fresh), Some(1), "what is new is refused at once");

    persist(&mut replica, &second);
    persist(&mut replica, &third);
    let output = replica.proceed();
    assert_eq!(conflicts(&output, lost), Some(1));
    assert_eq!(conflicts(&output, again), Some(1));
}

/// A rejection by the pre-check is not recorded: docs/api.md says that a retry after it may be accepted, and that the
/// result of the retry is final.
#[test]
fn a_retry_after_an_early_rejection_is_decided_by_the_log_and_then_kept() {
    let mut replica = alone();
    let holder = replica.request(Request::Command(claim(&replica, 0, 0)));
    let output = replica.proceed();
    persist(&mut replica, &output);
    assert_eq!(conflicts(&replica.proceed(), holder), Some(0));
    let command = claim(&replica, 1, 1);
    let early = replica.request(Request::Command(command.clone()));
    let output = replica.proceed();
    assert_eq!(
        (conflicts(&output, early), output.writes.len()),
        (Some(1), 0),
        "no entry, no record"
    );

    // The machine has room again. So the log accepts the transaction, which the pre-check rejected at an older version.
    let job = replica.applied().lock().cell.jobs().next().unwrap().0;
    let task = TaskId { job, index: 0 };
    let machine = replica.applied().lock().cell.machines().next().unwrap().id;
    let report = TaskReport::Finished;
    replica.request(Request::Command(Command::ReportTask { task, machine, placed_ms: 0, report }));
    let output = replica.proceed();
    persist(&mut replica, &output);
    drop(replica.proceed());
    for _ in 0..2 {
        let again = replica.request(Request::Retry(command.clone()));
        let output = replica.proceed();
        persist(&mut replica, &output);
        assert_eq!(conflicts(&replica.proceed(), again), Some(0), "accepted, and recorded");
    }
    let fresh = replica.request(Request::Command(command));
    let output = replica.proceed();
    persist(&mut replica, &output);
    let conflicting = [output, replica.proceed()];
    let conflicting = conflicting.iter().find_map(|output| conflicts(output, fresh));
    assert_eq!(conflicting, Some(0), "the record answers without a mark, too");
}

/// A rejection that is recorded in the log is final, even if the cell has changed since.
#[test]
fn a_retry_after_a_recorded_rejection_gets_the_record() {
    let mut replica = alone();
    let first = replica.request(Request::Command(claim(&replica, 0, 0)));
    let command = claim(&replica, 1, 1);
    // A retry is not pre-checked, so its result is recorded.
    let second = replica.request(Request::Retry(command.clone()));
    let output = replica.proceed();
    persist(&mut replica, &output);
    let output = replica.proceed();
    assert_eq!((conflicts(&output, first), conflicts(&output, second)), (Some(0), Some(1)));
    let report = TaskReport::Finished;
    let task = TaskId { job: replica.applied().lock().cell.jobs().next().unwrap().0, index: 0 };
    let machine = replica.applied().lock().cell.machines().next().unwrap().id;
    replica.request(Request::Command(Command::ReportTask { task, machine, placed_ms: 0, report }));
    let output = replica.proceed();
    persist(&mut replica, &output);
    drop(replica.proceed());
    let again = replica.request(Request::Retry(command));
    let output = replica.proceed();
    persist(&mut replica, &output);
    assert_eq!(conflicts(&replica.proceed(), again), Some(1), "the first outcome is final");
}

/// In the past, a read that was forwarded by another replica caused an endless loop in the leader.
#[test]
fn a_read_of_another_replica_is_no_request() {
    let mut replica = alone();
    let id = RequestId { incarnation: 7, number: 1 };
    let term = replica.node().leadership().term;
    replica.receive(ReplicaId(2), PeerMessage::Request { id, term, request: Request::Read });
    drop(replica.proceed());
    let own = replica.request(Request::Command(claim(&replica, 0, 0)));
    let output = replica.proceed();
    persist(&mut replica, &output);
    assert_eq!(conflicts(&replica.proceed(), own), Some(0));
}
