//! The examples of `omega-schedulers` print what their readers are told.

#[path = "../../schedulers/examples/custom_scheduler.rs"]
mod custom_scheduler;
#[path = "../../schedulers/examples/custom_score.rs"]
mod custom_score;
#[path = "../../schedulers/examples/image_pull.rs"]
mod image_pull;
#[path = "../../schedulers/examples/improve.rs"]
mod improve;

#[test]
fn a_custom_score_decides_where_tasks_go() {
    let report = "db/0 is on best\ndb/1 is on best\ndb/2 is on good\n";
    assert_eq!(custom_score::run().unwrap(), report);
}

#[test]
fn a_custom_scheduler_needs_a_view_and_a_handle() {
    assert_eq!(custom_scheduler::run().unwrap(), "a: 5 tasks\nb: 2 tasks\nc: 0 tasks\n");
}

#[test]
fn a_task_waits_until_its_image_is_there() {
    let report = "step 0: 0 placed, 2 wait\nstep 1: 2 placed, 0 wait\nstep 2: 0 placed, 0 wait\n";
    assert_eq!(image_pull::run().unwrap(), report);
}

#[test]
fn a_pass_empties_a_machine_that_drains() {
    let report = "j0/0 goes from m0 to m1\nj0/1 goes from m0 to m2\n2 moves were taken\n";
    assert_eq!(improve::run().unwrap(), report);
}
