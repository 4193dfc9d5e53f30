//! The examples of `omega-schedulers` print the documented output.

#[path = "../../../schedulers/examples/custom_scheduler.rs"]
mod custom_scheduler;
#[path = "../../../schedulers/examples/custom_score.rs"]
mod custom_score;
#[path = "../../../schedulers/examples/image_pull.rs"]
mod image_pull;
#[path = "../../../schedulers/examples/rebalance.rs"]
mod rebalance;
#[path = "../../../schedulers/examples/three_clients.rs"]
mod three_clients;

use omega_cellstate::{Cell, SharedCell};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Amounts, Command, Job, Kinds, Machine, TaskGroup};

#[test]
fn a_custom_score_decides_where_tasks_go() {
    let report = "db/0 is on best\ndb/1 is on best\ndb/2 is on good\n";
    assert_eq!(custom_score::run().unwrap(), report);
}

#[test]
fn a_custom_scheduler_needs_a_view_and_a_handle() {
    assert_eq!(custom_scheduler::run().unwrap(), "a: 5 tasks\nb: 2 tasks\nc: 0 tasks\n");
}

/// A tenant's limit, an incomplete gang, and more tasks than a transaction may contain do not stop the scheduler.
#[test]
fn a_custom_scheduler_respects_limits() {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    let apply = |command| cell.apply(command).unwrap();
    apply(Command::RegisterMachine(Machine::new("m", Amounts::new([2000]))));
    apply(Command::SetQuota { tenant: "t".into(), limit: Some(Amounts::new([1000, 1 << 40])) });
    let job = |name, tasks| Job::batch(name, TaskGroup::new(tasks, Amounts::new([1000])));
    apply(Command::SubmitJob(Job { tenant: "t".into(), ..job("limited", 3) }));
    apply(Command::SubmitJob(Job { gang_min: Some(2), ..job("gang", 2) }));
    apply(Command::SubmitJob(job("small", 1)));
    let mut scheduler = custom_scheduler::ByName::new(&cell).unwrap();
    assert_eq!(scheduler.round(&cell), Ok(2), "one of the tenant, and the small one");
    let many = TRANSACTION_ITEMS_MAX as u32 + 1;
    apply(Command::RegisterMachine(Machine::new("n", Amounts::new([1 << 30]))));
    apply(Command::SubmitJob(job("many", many)));
    assert_eq!(scheduler.round(&cell), Ok(TRANSACTION_ITEMS_MAX));
    assert_eq!(scheduler.round(&cell), Ok(3), "the rest, which the gang has preceded");
}

#[test]
fn a_task_waits_until_its_image_is_there() {
    let report = "step 0: 0 placed, 2 wait\nstep 1: 2 placed, 0 wait\nstep 2: 0 placed, 0 wait\n";
    assert_eq!(image_pull::run().unwrap(), report);
}

#[test]
fn three_kinds_of_client_share_a_cell() {
    let report = "\
client              placed  refused  what happened
services                 8        0  looks at the whole cell
offers: 2                9        5  43 offers: 9 accepted, 33 declined, 1 withdrawn
asks: 1                 10        0  6 on the machine, 2 in the rack, 2 elsewhere; 5 rounds let pass, 2.9 s waited
";
    assert_eq!(three_clients::run().unwrap(), report);
}

#[test]
fn a_pass_empties_a_machine_that_drains() {
    let report = "j0/0 goes from m0 to m1\nj0/1 goes from m0 to m2\n2 moves were taken\n";
    assert_eq!(rebalance::run().unwrap(), report);
}
