//! Schedulers that each have a queue, and decide on one job at a time. The architectures are monolithic, shared state
//! and partitions; they differ only in the schedulers' view of the cell.

use super::agenda::Next;
use super::asleep::{Asleep, Marks};
use super::records::SchedulerQueue;
use super::{Access, Agenda, Attempt, Cell, JobRecord, Plan, RETRY_S, Records};
use super::{Retries, SLEEP_MAX_S, Survey};
use std::collections::BTreeSet;

/// A decision that a scheduler has begun.
struct Decision {
    job: u32,
    /// Duration of the decision.
    seconds: f64,
    /// Marks of the cell at the beginning.
    marks: Marks,
}

/// Event of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A scheduler has decided.
    Decided(u32),
    /// A job is queued again, or sleeps.
    Again(u32),
    /// Time limit of a job's sleep, which began after this number of attempts.
    Overslept(u32, u32),
    /// Tasks end.
    Ended(super::Taken),
}

struct Run<'a, C> {
    plan: &'a Plan<'a>,
    access: Access,
    cell: &'a mut C,
    agenda: Agenda<'a, Event>,
    states: Vec<SchedulerQueue<Decision>>,
    asleep: Asleep,
    records: Records,
}

/// Runs a plan on a cell. Returns the records of schedulers and jobs.
pub fn run_queues<C: Cell>(plan: &Plan<'_>, access: Access, cell: &mut C) -> Records {
    let mut run = Run {
        plan,
        access,
        cell,
        agenda: Agenda::new(plan),
        states: SchedulerQueue::all(plan.schedulers.len()),
        asleep: Asleep::default(),
        records: Records::new(plan),
    };
    while let Some(next) = run.agenda.next() {
        run.records.events += 1;
        if plan.survey == Survey::Always {
            run.records.pass(run.agenda.now_s(), run.cell, 0.0);
        }
        match next {
            Next::Change(number) => run.change(number),
            Next::Arrival(job) => run.arrive(job),
            Next::Look => run.records.look(run.cell.used(), 0.0),
            Next::Event(Event::Decided(scheduler)) => run.decided(scheduler),
            Next::Event(Event::Again(job)) => run.again(job),
            Next::Event(Event::Overslept(job, attempts)) => run.overslept(job, attempts),
            Next::Event(Event::Ended(taken)) => run.end(taken),
        }
    }
    run.close()
}

impl<C: Cell> Run<'_, C> {
    fn arrive(&mut self, job: u32) {
        let running = self.cell.arrive(job as usize);
        self.begin_run(running.run);
        if running.tasks > 0 {
            let woken = self.asleep.placed();
            self.enqueue_all(woken);
        }
        if self.records.arrive(job as usize, running.tasks) {
            self.enqueue(job);
        }
    }

    /// Applies a change of machines; jobs that lost tasks are queued again.
    fn change(&mut self, number: u32) {
        let all_lost = self.cell.change(number as usize);
        self.room_freed();
        for lost in all_lost {
            if self.records.lose(lost) {
                self.enqueue(lost.job);
            }
        }
    }

    fn room_freed(&mut self) {
        let woken = self.asleep.freed();
        self.enqueue_all(woken);
    }

    fn enqueue_all(&mut self, jobs: BTreeSet<u32>) {
        jobs.into_iter().for_each(|job| self.enqueue(job));
    }

    /// Schedules the end of the tasks that one commit started.
    fn begin_run(&mut self, run: Option<super::Taken>) {
        let ends = run.and_then(|run| Some((run, self.cell.runs_for(run)?)));
        if let Some((run, seconds)) = ends {
            self.agenda.after(seconds, Event::Ended(run));
        }
    }

    fn end(&mut self, run: super::Taken) {
        let ended = self.cell.end(run);
        self.records.ended += u64::from(ended.tasks);
        if let Some(seconds) = ended.again_s {
            self.agenda.after(seconds, Event::Ended(run));
        }
        if ended.tasks > 0 {
            self.room_freed();
        }
    }

    fn enqueue(&mut self, job: u32) {
        let scheduler = self.plan.owners[job as usize];
        self.states[scheduler as usize].queue.push_back(job);
        self.begin(scheduler);
    }

    /// Lets an idle scheduler begin with the next job of its queue.
    fn begin(&mut self, scheduler: u32) {
        let Some(job) = self.states[scheduler as usize].next() else { return };
        let (at, about) = (job as usize, &self.plan.jobs[job as usize]);
        if self.records.jobs[at].attempts == 0 {
            self.first(at);
        }
        let unplaced = self.records.jobs[at].unplaced;
        let state = &mut self.states[scheduler as usize];
        let seconds = self.plan.schedulers[scheduler as usize].decides(about.kind, unplaced);
        state.deciding = Some(Decision { job, seconds, marks: self.asleep.marks() });
        if self.access == Access::Copy {
            self.cell.copy(scheduler as usize);
        }
        self.agenda.after(seconds, Event::Decided(scheduler));
    }

    /// Records the first decision on a job: its wait, and its number of tasks.
    fn first(&mut self, job: usize) {
        let waited = self.agenda.now_s() - self.plan.jobs[job].submit_s;
        let JobRecord { tasks, unplaced, .. } = self.records.jobs[job];
        if unplaced == tasks {
            self.records.size(job, self.cell.size(job, tasks));
        }
        self.records.jobs[job].wait_s = waited;
    }

    fn decided(&mut self, scheduler: u32) {
        let state = &mut self.states[scheduler as usize];
        let decision = state.deciding.take().expect("who has decided was deciding");
        let Decision { job, seconds, marks } = decision;
        let (at, about) = (job as usize, &self.plan.jobs[job as usize]);
        let unplaced = self.records.jobs[at].unplaced;
        let attempt = self.cell.attempt(scheduler as usize, at, unplaced, self.access);
        self.begin_run(attempt.run);
        let more = self.records.attempt(scheduler as usize, at, attempt, seconds);
        if !more {
            self.records.jobs[at].placed_s = self.agenda.now_s() - about.submit_s;
        } else if !self.records.give_up(self.plan.retries, scheduler as usize, at) {
            self.retry(job, attempt, marks);
        }
        if attempt.taken > 0 {
            let woken = self.asleep.placed();
            self.enqueue_all(woken);
        }
        self.begin(scheduler);
    }

    /// Schedules the next attempt of a job that is not completely placed.
    fn retry(&mut self, job: u32, attempt: Attempt, marks: Marks) {
        // After a conflict, or if a transaction has no room for all tasks, there may be room for the rest.
        if self.plan.retries == Retries::Unlimited && attempt.claimed == 0 {
            self.asleep.tried(job, marks);
        }
        self.agenda.after(RETRY_S, Event::Again(job));
    }

    /// Queues a job, or lets it sleep if it found no room and nothing has changed since.
    fn again(&mut self, job: u32) {
        let at = job as usize;
        if self.asleep.sleep(job, self.cell.has_rules(at)) {
            let overslept = Event::Overslept(job, self.records.jobs[at].attempts);
            self.agenda.after(SLEEP_MAX_S, overslept);
        } else {
            self.enqueue(job);
        }
    }

    fn overslept(&mut self, job: u32, attempts: u32) {
        if self.records.jobs[job as usize].attempts == attempts && self.asleep.wake(job) {
            self.enqueue(job);
        }
    }

    fn close(mut self) -> Records {
        for (record, state) in self.records.schedulers.iter_mut().zip(&self.states) {
            record.left_in_queue = state.queue.len() as u64;
        }
        let now_s = self.agenda.now_s();
        if self.plan.survey == Survey::Always {
            self.records.pass(now_s, self.cell, 0.0);
        }
        self.records.now_s = now_s;
        self.records
    }
}
