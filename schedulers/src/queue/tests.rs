//! Tests of the queue, turn by turn.

use super::*;
use crate::framework::points::Queued;
use omega_core::{Amounts, JobKind, Precedence, TaskGroup};
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
    let by = RejectingPlugins::waiting_for(events);
    Verdict::Refused { by, news: queue.news(), basis: Basis::Job }
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

/// Rejects a job, and all jobs equal to it.
fn refuse_class(queue: &mut Queue, id: u64, now: Nanos) {
    let by = RejectingPlugins::waiting_for(Events::ROOM_FREED);
    let verdict = Verdict::Refused { by, news: queue.news(), basis: Basis::Search };
    queue.begin(JobId(id));
    queue.end(JobId(id), verdict, now);
}

/// Places all tasks of the job with the next turn, and returns the job.
fn place_next(queue: &mut Queue, now: Nanos) -> Option<u64> {
    let id = queue.next(now)?;
    queue.pass_on(id);
    queue.begin(id);
    for index in 0..queue.waiting_count(id) {
        queue.placed(TaskId { job: id, index });
    }
    queue.end(id, Verdict::More, now);
    Some(id.0)
}

#[test]
fn of_equal_rejected_jobs_only_the_first_is_retried() {
    let mut queue = Queue::default();
    (0..4).for_each(|id| queue.add_job(JobId(id), job(0, 1)));
    // An equal job is rejected before older ones, which then go before it.
    for id in [2, 0, 1, 3] {
        refuse_class(&mut queue, id, 0);
    }
    assert_eq!(queue.next(LONG), None);
    assert_eq!(queue.unplaceable().len(), 4, "followers are rejected jobs");
    assert_eq!((queue.unplaceable_tasks(), queue.is_settled()), (4, true));
    wake_after(&mut queue, Events::ROOM_FREED);
    assert_eq!((queue.active_jobs(), queue.next(LONG)), (1, Some(JobId(0))));
    assert_eq!(place_next(&mut queue, LONG), Some(0));
    assert_eq!(queue.next(LONG), Some(JobId(1)), "a place was found, so the next one is tried");
    refuse_class(&mut queue, 1, LONG);
    assert_eq!((queue.active_jobs(), queue.unplaceable_tasks()), (0, 3));
    let much_later = LONG + Backoff::default().sleep_max + LONG;
    assert_eq!(queue.next(2 * LONG), None);
    assert_eq!((queue.next(much_later), queue.active_jobs()), (Some(JobId(1)), 3));
}

#[test]
fn a_newer_job_does_not_go_before_an_equal_older_one_in_backoff() {
    let mut queue = Queue::default();
    queue.add_job(JobId(0), job(0, 1));
    refuse_class(&mut queue, 0, 0);
    queue.add_job(JobId(1), job(0, 1));
    assert_eq!(queue.next(0), Some(JobId(1)), "nothing has changed for the older one");
    wake_after(&mut queue, Events::ROOM_FREED);
    assert_eq!(place_next(&mut queue, 0), Some(0), "though its backoff has not ended");
    assert_eq!(place_next(&mut queue, 0), Some(1));
    assert_eq!(place_next(&mut queue, 0), None);
}

#[test]
fn jobs_that_differ_do_not_wait_for_each_other() {
    let mut other_tenant = (*job(0, 1)).clone();
    other_tenant.tenant = "other".into();
    let mut gang = (*job(0, 2)).clone();
    gang.gang_min = Some(2);
    let service = Job { kind: JobKind::Service, ..(*job(0, 1)).clone() };
    let mut queue = Queue::default();
    let jobs = [
        job(0, 1),
        job(1, 1),
        other_tenant.into(),
        gang.clone().into(),
        gang.into(),
        service.into(),
    ];
    for (id, job) in (0..).zip(jobs) {
        queue.add_job(JobId(id), job);
        refuse_class(&mut queue, id, 0);
    }
    wake_after(&mut queue, Events::ROOM_FREED);
    queue.next(LONG);
    assert_eq!(queue.active_jobs(), 6);
}

#[test]
fn the_first_follower_is_tried_when_its_representative_is_gone() {
    for how in 0..4 {
        let mut queue = Queue::default();
        (0..3).for_each(|id| queue.add_job(JobId(id), job(0, 1)));
        (0..3).for_each(|id| refuse_class(&mut queue, id, 0));
        assert_eq!(queue.next(LONG), None);
        match how {
            0 => queue.remove_job(JobId(0)),
            1 => queue.gate(JobId(0), Events::EXTERNAL, LONG),
            2 => {
                let task = TaskId { job: JobId(0), index: 0 };
                assert!(!queue.set_task(&change(task, TaskState::Killed)));
            }
            _ => queue.add_job(JobId(0), job(7, 1)),
        }
        let next: Vec<_> = std::iter::from_fn(|| place_next(&mut queue, LONG)).collect();
        let changed = if how == 3 { vec![0, 1, 2] } else { vec![1, 2] };
        assert_eq!(next, changed, "{how}");
    }
}

#[test]
fn a_follower_may_end_change_or_be_placed_by_another_scheduler() {
    let mut queue = Queue::default();
    (0..4).for_each(|id| queue.add_job(JobId(id), job(0, 1)));
    (0..4).for_each(|id| refuse_class(&mut queue, id, 0));
    assert_eq!(queue.next(LONG), None);
    queue.remove_job(JobId(1));
    queue.set_task(&change(TaskId { job: JobId(2), index: 0 }, TaskState::Killed));
    queue.add_job(JobId(3), job(3, 1));
    assert_eq!(queue.next(LONG), Some(JobId(3)), "its new precedence may help");
    refuse_class(&mut queue, 3, LONG);
    queue.remove_job(JobId(0));
    assert_eq!(queue.unplaceable(), [(JobId(3), 1)]);
}

#[test]
fn a_rejection_without_a_search_does_not_lengthen_the_backoff() {
    let mut queue = Queue::default();
    queue.add_job(JobId(0), job(0, 1));
    for _ in 0..10 {
        let by = RejectingPlugins::waiting_for(Events::ROOM_FREED);
        let verdict = Verdict::Refused { by, news: queue.news(), basis: Basis::EarlierSearch };
        queue.end(JobId(0), verdict, 0);
    }
    wake_after(&mut queue, Events::ROOM_FREED);
    assert_eq!(queue.next(MIN), Some(JobId(0)));
    (0..10).for_each(|_| refuse_class(&mut queue, 0, 0));
    wake_after(&mut queue, Events::ROOM_FREED);
    assert_eq!(queue.next(MIN), None);
}
