//! Schedulers that each have a queue, and decide on one job at a time. The architectures are monolithic, shared state
//! and partitions; they differ only in the schedulers' view of the cell.

use super::agenda::Next;
use super::{Access, Agenda, Cell, JobRecord, Plan, RETRY_S, Records};
use std::collections::VecDeque;

/// State of a scheduler.
#[derive(Default)]
struct SchedulerState {
    queue: VecDeque<u32>,
    /// The job on which the scheduler is deciding, with the decision time in seconds.
    deciding: Option<(u32, f64)>,
}

/// Event of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A scheduler has decided.
    Decided(u32),
    /// A job is queued again.
    Again(u32),
    /// Tasks end.
    Ended(super::Taken),
}

struct Run<'a, C> {
    plan: &'a Plan<'a>,
    access: Access,
    cell: &'a mut C,
    agenda: Agenda<'a, Event>,
    desks: Vec<SchedulerState>,
    books: Records,
}

/// Runs a plan on a cell. Returns the records of schedulers and jobs.
pub fn run_queues<C: Cell>(plan: &Plan<'_>, access: Access, cell: &mut C) -> Records {
    let mut run = Run {
        plan,
        access,
        cell,
        agenda: Agenda::new(plan),
        desks: plan.schedulers.iter().map(|_| SchedulerState::default()).collect(),
        books: Records::new(plan.schedulers.len(), plan.jobs.iter().map(|job| job.tasks)),
    };
    while let Some(next) = run.agenda.next() {
        run.books.events += 1;
        match next {
            Next::Change(number) => run.change(number),
            Next::Arrival(job) => run.arrive(job),
            Next::Look => {
                run.cell.look();
                run.books.look(run.cell.used(), 0.0);
            }
            Next::Event(Event::Decided(scheduler)) => run.decided(scheduler),
            Next::Event(Event::Again(job)) => run.enqueue(job),
            Next::Event(Event::Ended(taken)) => run.end(taken),
        }
    }
    run.close()
}

impl<C: Cell> Run<'_, C> {
    fn arrive(&mut self, job: u32) {
        let running = self.cell.arrive(job as usize);
        self.begin_run(running.run);
        if self.books.arrive(job as usize, running.tasks) {
            self.enqueue(job);
        }
    }

    /// Applies a change of machines; jobs that lost tasks are queued again.
    fn change(&mut self, number: u32) {
        for lost in self.cell.change(number as usize) {
            if self.books.lose(lost) {
                self.enqueue(lost.job);
            }
        }
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
        self.books.ended += u64::from(ended.tasks);
        if let Some(seconds) = ended.again_s {
            self.agenda.after(seconds, Event::Ended(run));
        }
    }

    fn enqueue(&mut self, job: u32) {
        let scheduler = self.plan.owners[job as usize];
        self.desks[scheduler as usize].queue.push_back(job);
        self.begin(scheduler);
    }

    /// Lets an idle scheduler begin with the next job of its queue.
    fn begin(&mut self, scheduler: u32) {
        let desk = &mut self.desks[scheduler as usize];
        if desk.deciding.is_some() {
            return;
        }
        let Some(job) = desk.queue.pop_front() else { return };
        let (at, about) = (job as usize, &self.plan.jobs[job as usize]);
        if self.books.jobs[at].attempts == 0 {
            self.first(at);
        }
        let unplaced = self.books.jobs[at].unplaced;
        let desk = &mut self.desks[scheduler as usize];
        let seconds = self.plan.schedulers[scheduler as usize].decides(about.kind, unplaced);
        desk.deciding = Some((job, seconds));
        if self.access == Access::Copy {
            self.cell.copy(scheduler as usize);
        }
        self.agenda.after(seconds, Event::Decided(scheduler));
    }

    /// Records the first decision on a job: its wait, and its number of tasks.
    fn first(&mut self, job: usize) {
        let waited = self.agenda.now_s() - self.plan.jobs[job].submit_s;
        let JobRecord { tasks, unplaced, .. } = self.books.jobs[job];
        if unplaced == tasks {
            self.books.size(job, self.cell.size(job, tasks));
        }
        self.books.jobs[job].wait_s = waited;
    }

    fn decided(&mut self, scheduler: u32) {
        let desk = &mut self.desks[scheduler as usize];
        let (job, seconds) = desk.deciding.take().expect("who has decided was deciding");
        let (at, about) = (job as usize, &self.plan.jobs[job as usize]);
        let unplaced = self.books.jobs[at].unplaced;
        let attempt = self.cell.attempt(scheduler as usize, at, unplaced, self.access);
        self.begin_run(attempt.run);
        let more = self.books.attempt(scheduler as usize, at, attempt, seconds);
        if !more {
            self.books.jobs[at].placed_s = self.agenda.now_s() - about.submit_s;
        } else if !self.books.give_up(scheduler as usize, at) {
            self.agenda.after(RETRY_S, Event::Again(job));
        }
        self.begin(scheduler);
    }

    fn close(mut self) -> Records {
        for (book, desk) in self.books.schedulers.iter_mut().zip(&self.desks) {
            book.left_in_queue = desk.queue.len() as u64;
        }
        self.books.now_s = self.agenda.now_s();
        self.books
    }
}
