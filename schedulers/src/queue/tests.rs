//! Tests of the queue, turn by turn.

use super::*;
use crate::framework::points::Queued;
use omega_core::{Amounts, Precedence, TaskGroup};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn job(precedence: i32, count: u32) -> Arc<Job> {
    let mut job = Job::batch(format!("p{precedence}"), TaskGroup::new(count, Amounts::zero()));
    job.precedence = Precedence(precedence);
    Arc::new(job)
}

fn change(id: TaskId, state: TaskState) -> TaskDelta {
    TaskDelta { id, group: 0, state, devices: Default::default(), placed_ms: 0 }
}

#[test]
fn higher_precedence_goes_first_and_then_the_older() {
    let mut queue = Queue::default();
    queue.add_job(JobId(0), job(1, 1));
    queue.add_job(JobId(1), job(5, 1));
    queue.add_job(JobId(2), job(5, 1));
    let mut order = Vec::new();
    while let Some(id) = queue.next(0) {
        order.push(id.0);
        queue.remove_job(id);
    }
    assert_eq!(order, [1, 2, 0]);
}

const MIN: Nanos = 1_000_000;

/// Longer than any backoff, and shorter than the sleep of a job without an event.
const LONG: Nanos = 100_000 * MIN;

fn refused(queue: &Queue, events: Events) -> Verdict {
    Verdict::Refused { by: RejectingPlugins::waiting_for(events), news: queue.news() }
}

/// Records events, and wakes the jobs that depend on them.
fn wake_after(queue: &mut Queue, events: Events) {
    for (id, _) in queue.record_events(events) {
        queue.wake(id);
    }
}

#[test]
fn a_decision_before_a_full_delta_does_not_miss_later_events() {
    let mut queue = Queue::default();
    wake_after(&mut queue, Events::ROOM_FREED);
    let before = refused(&queue, Events::ROOM_FREED);
    queue.clear();
    queue.add_job(JobId(0), job(0, 2));
    queue.begin(JobId(0));
    queue.end(JobId(0), before, 0);
    assert_eq!(queue.next(MIN), Some(JobId(0)), "it does not sleep");
    // Without an event after the decision, the job would sleep.
    queue.begin(JobId(0));
    queue.end(JobId(0), refused(&queue, Events::ROOM_FREED), MIN);
    assert_eq!(queue.next(LONG), None);
}

#[test]
fn what_was_refused_waits_for_its_event_and_ever_longer() {
    let mut queue = Queue::default();
    queue.add_job(JobId(0), job(0, 2));
    queue.begin(JobId(0));
    assert_eq!(queue.next(0), None, "it is being decided");
    queue.end(JobId(0), refused(&queue, Events::ROOM_FREED), 0);
    assert!(queue.only_unplaceable() && queue.is_settled());
    wake_after(&mut queue, Events::ROOM_FREED | Events::TASK_ENDED);
    assert_eq!(queue.next(0), None, "too early");
    assert!(!queue.is_settled(), "it is tried later");
    assert_eq!(queue.next(MIN), Some(JobId(0)));
    queue.end(JobId(0), refused(&queue, Events::ROOM_FREED), 0);
    wake_after(&mut queue, Events::LOAD_REPORTED);
    assert_eq!(queue.next(2 * MIN), None, "that does not help");
    assert!(queue.is_settled());
    wake_after(&mut queue, Events::ROOM_FREED);
    assert_eq!(queue.next(2 * MIN), Some(JobId(0)), "it slept, and was woken");
}

#[test]
fn an_event_between_decision_and_verdict_is_not_lost() {
    let mut queue = Queue::default();
    queue.add_job(JobId(0), job(0, 1));
    queue.begin(JobId(0));
    let verdict = refused(&queue, Events::ROOM_FREED);
    wake_after(&mut queue, Events::ROOM_FREED);
    queue.end(JobId(0), verdict, 0);
    assert_eq!(queue.next(MIN), Some(JobId(0)));
}

#[test]
fn a_sleeper_is_tried_after_a_long_while_in_any_case() {
    let backoff = Backoff { sleep_max: 5 * MIN, ..Backoff::default() };
    let mut queue = Queue::new(backoff, None);
    queue.add_job(JobId(0), job(0, 1));
    queue.end(JobId(0), refused(&queue, Events::NONE), 0);
    assert_eq!((queue.next(MIN), queue.next(6 * MIN - 1)), (None, None));
    assert_eq!(queue.next(6 * MIN), Some(JobId(0)));
}

#[test]
fn a_gate_opens_at_once_and_time_with_backoff() {
    let mut queue = Queue::default();
    (0..2).for_each(|id| queue.add_job(JobId(id), job(0, 1)));
    queue.gate(JobId(0), Events::EXTERNAL, 0);
    queue.gate(JobId(1), Events::TIME, 0);
    assert_eq!(queue.gated(), [JobId(0), JobId(1)]);
    assert_eq!(queue.next(0), None);
    wake_after(&mut queue, Events::EXTERNAL);
    assert_eq!(queue.next(0), Some(JobId(0)));
    queue.begin(JobId(0));
    assert_eq!(queue.next(MIN), Some(JobId(1)));
    assert_eq!(queue.gated(), []);
}

#[test]
fn a_job_whose_tasks_are_all_held_has_no_turn() {
    let mut queue = Queue::default();
    queue.add_job(JobId(0), job(0, 2));
    let task = |index| TaskId { job: JobId(0), index };
    let mut tasks = Vec::new();
    queue.take(JobId(0), 0, 9, &mut tasks);
    assert!(queue.hold(task(0)) && queue.hold(task(1)) && !queue.hold(task(2)));
    assert_eq!((queue.next(0), queue.held_tasks(), queue.pending_tasks()), (None, 2, 2));
    queue.resume(task(0));
    queue.placed(task(0));
    queue.put_back([task(1)].into_iter());
    queue.refuse(JobId(0), RejectingPlugins::waiting_for(Events::EXTERNAL), 0);
    assert_eq!((queue.held_tasks(), queue.pending_tasks()), (0, 1));
    assert_eq!(queue.unplaceable(), [(JobId(0), 1)]);
    wake_after(&mut queue, Events::EXTERNAL);
    assert_eq!(queue.next(MIN), Some(JobId(0)));
}

#[test]
fn a_task_that_two_lists_name_is_taken_once_and_of_its_own_group() {
    let mut queue = Queue::default();
    let mut two = Job::clone(&job(0, 1));
    let second = TaskGroup { name: "second".into(), ..TaskGroup::new(1, Amounts::zero()) };
    two.groups.push(second.into());
    queue.add_job(JobId(0), Arc::new(two));
    let task = |index| TaskId { job: JobId(0), index };
    // The queue assumed that task 1 is of the second group. In the cell, task 1 is of the first group.
    queue.set_task(&change(task(1), TaskState::Pending));
    // Task 0 stops being pending, as if another scheduler had placed it, and then becomes pending again.
    queue.set_task(&change(task(0), TaskState::Finished));
    queue.set_task(&change(task(0), TaskState::Pending));
    let mut tasks = Vec::new();
    queue.take(JobId(0), 1, 9, &mut tasks);
    assert_eq!(tasks, []);
    queue.take(JobId(0), 0, 9, &mut tasks);
    tasks.sort();
    assert_eq!(tasks, [task(0), task(1)]);
}

#[test]
fn tasks_that_were_placed_or_ended_are_not_taken() {
    let mut queue = Queue::default();
    queue.add_job(JobId(0), job(0, 4));
    let task = |index| TaskId { job: JobId(0), index };
    queue.set_task(&change(task(1), TaskState::Killed));
    let mut tasks = Vec::new();
    queue.take(JobId(0), 0, 2, &mut tasks);
    assert_eq!(tasks, [task(0), task(2)]);
    queue.placed(task(0));
    queue.put_back([task(2)].into_iter());
    queue.take(JobId(0), 0, 9, &mut tasks);
    assert_eq!(tasks, [task(2), task(3)]);
    assert_eq!(queue.pending_tasks(), 2);
    queue.placed(task(2));
    queue.placed(task(3));
    queue.end(JobId(0), Verdict::More, 0);
    assert_eq!((queue.pending_tasks(), queue.next(0)), (0, None));
    queue.set_task(&change(task(0), TaskState::Pending));
    assert_eq!(queue.next(0), Some(JobId(0)), "an evicted task is pending again");
}

/// An order of a table that changes while jobs are queued: by the number of calls.
struct Flips {
    between_tenants: bool,
    calls: AtomicU64,
}

impl Order for Flips {
    fn name(&self) -> &'static str {
        "flips"
    }

    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
        let salt = self.calls.fetch_add(1, Relaxed) / 7;
        let value = |queued: Queued<'_>| (queued.id.0 ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        value(a).cmp(&value(b))
    }

    fn between_tenants(&self) -> bool {
        self.between_tenants
    }
}

#[test]
fn an_order_that_changes_loses_no_job_and_repeats_none() {
    for between_tenants in [false, true] {
        let order = Arc::new(Flips { between_tenants, calls: AtomicU64::new(0) });
        let mut queue = Queue::new(Backoff::default(), Some(order));
        (0..100).for_each(|id| queue.add_job(JobId(id), job(0, 1)));
        (0..100).step_by(3).for_each(|id| queue.remove_job(JobId(id)));
        let mut order = Vec::new();
        while let Some(id) = queue.next(0) {
            queue.begin(id);
            order.push(id.0);
        }
        order.sort_unstable();
        assert_eq!(order, (0..100).filter(|id| id % 3 != 0).collect::<Vec<_>>());
    }
}
