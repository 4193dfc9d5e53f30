//! Traps that want more than a script: hashes, bounds, numbers at their ends.

use omega_cellstate::{Cell, CellHandle, SharedCell, View};
use omega_core::{
    Amounts, Claim, Command, Commit, Job, JobId, KindId, Kinds, Machine, MachineId, Outcome, Port,
    Rejection, SchedulerId, TaskGroup, TaskId, TaskReport, Transaction, TransactionError,
    TransactionId, Version,
};

fn task(job: u64, index: u32) -> TaskId {
    TaskId { job: JobId(job), index }
}

fn machine(name: &str, cpu: u64) -> Command {
    Command::RegisterMachine(Machine::new(name, Amounts::new([cpu])))
}

/// A cell after these commands, all of which are taken.
fn cell(commands: impl IntoIterator<Item = Command>) -> Cell {
    let mut cell = Cell::new(Kinds::standard());
    cell.apply(Command::RegisterScheduler { name: "me".into() }).unwrap();
    for command in commands {
        cell.apply(command.clone()).unwrap_or_else(|refused| panic!("{command:?}: {refused}"));
    }
    cell
}

fn transaction(number: u64, claims: &[(TaskId, MachineId)]) -> Transaction {
    let id = TransactionId { scheduler: SchedulerId(0), number };
    let claim = |(task, machine): &(TaskId, MachineId)| Claim {
        task: *task,
        machine: *machine,
        seen: Default::default(),
        cards: Default::default(),
    };
    Transaction::new(id, Version(0), claims.iter().map(claim).collect())
}

fn commit(cell: &mut Cell, txn: &Transaction) -> Commit {
    match cell.apply(Command::Commit(txn.clone())) {
        Ok(Outcome::Commit(commit)) => commit,
        other => panic!("not judged: {other:?}"),
    }
}

#[test]
fn cells_that_differ_in_a_rule_have_different_hashes() {
    let plain = Job::batch("a", TaskGroup::new(1, Amounts::new([1])));
    let mut jobs = vec![plain; 5];
    jobs[1].groups[0].rules.ports.push(Port::tcp(80));
    jobs[2].gang_min = Some(1);
    jobs[3].groups[0].restarts = 1;
    jobs[4].scheduler = "another".into();
    let mut hashes: Vec<u64> =
        jobs.into_iter().map(|job| cell([Command::SubmitJob(job)]).state_hash()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 5);
}

#[test]
fn cells_that_would_use_rows_in_another_order_have_different_hashes() {
    let remove = |slot| Command::RemoveMachine { id: MachineId::first(slot) };
    let machines = || [machine("a", 1), machine("b", 1)];
    let one = cell(machines().into_iter().chain([remove(0), remove(1)]));
    let other = cell(machines().into_iter().chain([remove(1), remove(0)]));
    assert_ne!(one.state_hash(), other.state_hash());
}
