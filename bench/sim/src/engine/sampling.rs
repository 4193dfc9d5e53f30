//! Batch sampling with late binding, as in Sparrow, without cell state.
//!
//! A scheduler probes a few random machines for each task of a job, and each of these machines adds the job to its
//! queue. Tasks are bound late: a machine with free resources goes through the jobs in its queue, and starts a task of
//! the first job whose tasks fit. When all tasks of a job have started, its remaining probes are dropped. Messages take
//! no time here.

use super::agenda::Next;
use super::records::SchedulerQueue;
use super::{Agenda, Cell, Plan, RETRY_S, Records, Survey, Taken};
use std::collections::VecDeque;

/// Settings of sampling.
#[derive(Clone, Copy, Debug)]
pub struct SamplingSettings {
    /// Number of machines probed for each task.
    pub probes: u32,
}

/// A cell whose machines are probed one by one.
pub trait SampledCell: Cell {
    /// Number of machines.
    fn machines(&self) -> u32;

    /// Draws a machine at random.
    fn draw(&mut self, scheduler: usize) -> u32;

    /// Whether a machine could accept tasks of this job if it were empty.
    fn may_take(&mut self, machine: u32, scheduler: usize, job: usize) -> bool;

    /// Starts the next task of a job on a machine, if the task fits now.
    fn start(&mut self, machine: u32, scheduler: usize, job: usize) -> Option<Taken>;
}

/// Event of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A scheduler has chosen machines to probe.
    Decided(u32),
    /// A job for which no machine was feasible is tried again.
    Again(u32),
    /// Tasks end.
    Ended(Taken),
}

/// Entry of `places` for tasks that already ran when their job arrived: the event loop has no record of their machines.
const NOWHERE: u32 = u32::MAX;

struct Run<'a, C> {
    plan: &'a Plan<'a>,
    settings: SamplingSettings,
    cell: &'a mut C,
    agenda: Agenda<'a, Event>,
    /// The queue of each scheduler. A decision is a job with the decision time in seconds.
    states: Vec<SchedulerQueue<(u32, f64)>>,
    /// The queue of each machine, with the jobs that probed it.
    asked: Vec<VecDeque<u32>>,
    /// Machine of the tasks of each commit, by the commit's number.
    places: Vec<u32>,
    records: Records,
}

/// Runs a plan on a cell whose machines are sampled.
pub fn run_sampling<C: SampledCell>(
    plan: &Plan<'_>,
    settings: SamplingSettings,
    cell: &mut C,
) -> Records {
    let machines = cell.machines() as usize;
    let mut run = Run {
        plan,
        settings,
        cell,
        agenda: Agenda::new(plan),
        states: SchedulerQueue::all(plan.schedulers.len()),
        asked: vec![VecDeque::new(); machines],
        places: Vec::new(),
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
            Next::Event(Event::Again(job)) => run.enqueue(job),
            Next::Look => run.records.look(run.cell.used(), 0.0),
            Next::Event(Event::Decided(scheduler)) => run.decided(scheduler),
            Next::Event(Event::Ended(taken)) => run.end(taken),
        }
    }
    run.close()
}

impl<C: SampledCell> Run<'_, C> {
    fn arrive(&mut self, job: u32) {
        let running = self.cell.arrive(job as usize);
        self.begin_run(running.run, NOWHERE);
        if self.records.arrive(job as usize, running.tasks) {
            self.enqueue(job);
        }
    }

    /// Applies a change of machines. Machines are probed again for tasks that lost their machine. All queues are
    /// served, because machines with queued jobs may have room now.
    fn change(&mut self, number: u32) {
        for lost in self.cell.change(number as usize) {
            if self.records.lose(lost) {
                self.enqueue(lost.job);
            }
        }
        self.serve_all();
    }

    fn serve_all(&mut self) {
        (0..self.asked.len() as u32).for_each(|machine| self.serve(machine));
    }

    fn begin_run(&mut self, run: Option<Taken>, machine: u32) {
        let Some(run) = run else { return };
        let number = run.0 as usize;
        if self.places.len() <= number {
            self.places.resize(number + 1, NOWHERE);
        }
        self.places[number] = machine;
        if let Some(seconds) = self.cell.runs_for(run) {
            self.agenda.after(seconds, Event::Ended(run));
        }
    }

    fn end(&mut self, run: Taken) {
        let ended = self.cell.end(run);
        self.records.ended += u64::from(ended.tasks);
        if let Some(seconds) = ended.again_s {
            self.agenda.after(seconds, Event::Ended(run));
        }
        match self.places[run.0 as usize] {
            NOWHERE => self.serve_all(),
            machine => self.serve(machine),
        }
    }

    fn enqueue(&mut self, job: u32) {
        let scheduler = self.plan.owners[job as usize];
        self.states[scheduler as usize].queue.push_back(job);
        self.begin(scheduler);
    }

    /// Lets an idle scheduler begin with the next job of its queue.
    fn begin(&mut self, scheduler: u32) {
        let state = &mut self.states[scheduler as usize];
        let Some(job) = state.next() else { return };
        let (record, about) = (&mut self.records.jobs[job as usize], &self.plan.jobs[job as usize]);
        if record.attempts == 0 {
            record.wait_s = self.agenda.now_s() - about.submit_s;
        }
        let seconds = self.plan.schedulers[scheduler as usize].decides(about.kind, record.unplaced);
        state.deciding = Some((job, seconds));
        self.agenda.after(seconds, Event::Decided(scheduler));
    }

    /// Probes machines for the tasks of a job; machines with free resources start tasks at once.
    fn decided(&mut self, scheduler: u32) {
        let state = &mut self.states[scheduler as usize];
        let (job, seconds) = state.deciding.take().expect("who has decided was deciding");
        let (at, unplaced) = (job as usize, self.records.jobs[job as usize].unplaced);
        let probes = unplaced.saturating_mul(self.settings.probes);
        let mut asked = 0;
        for _ in 0..probes {
            let machine = self.cell.draw(scheduler as usize);
            if self.cell.may_take(machine, scheduler as usize, at) {
                self.asked[machine as usize].push_back(job);
                asked += 1;
                self.serve(machine);
            }
        }
        self.records.sampled(scheduler as usize, at, asked, seconds);
        if asked == 0 && !self.records.give_up(self.plan.retries, scheduler as usize, at) {
            self.agenda.after(RETRY_S, Event::Again(job));
        }
        self.begin(scheduler);
    }

    /// Starts tasks of the jobs in a machine's queue, in order, as long as the tasks fit.
    fn serve(&mut self, machine: u32) {
        let mut at = 0;
        while let Some(&job) = self.asked[machine as usize].get(at) {
            let scheduler = self.plan.owners[job as usize] as usize;
            if self.records.jobs[job as usize].unplaced == 0 {
                self.asked[machine as usize].remove(at);
                continue;
            }
            let run = self.cell.start(machine, scheduler, job as usize);
            if run.is_none() {
                at += 1;
                continue;
            }
            self.asked[machine as usize].remove(at);
            let waited = self.agenda.now_s() - self.plan.jobs[job as usize].submit_s;
            self.records.started(scheduler, job as usize, waited);
            self.begin_run(run, machine);
        }
    }

    fn close(mut self) -> Records {
        for (number, record) in self.records.jobs.iter().enumerate() {
            let waits = record.attempts > 0 && record.unplaced > 0 && !record.abandoned;
            let scheduler = self.plan.owners[number] as usize;
            self.records.schedulers[scheduler].left_in_queue += u64::from(waits);
        }
        for (record, state) in self.records.schedulers.iter_mut().zip(&self.states) {
            let untried =
                state.queue.iter().filter(|job| self.records.jobs[**job as usize].attempts == 0);
            record.left_in_queue += untried.count() as u64;
        }
        let now_s = self.agenda.now_s();
        if self.plan.survey == Survey::Always {
            self.records.pass(now_s, self.cell, 0.0);
        }
        self.records.now_s = now_s;
        self.records
    }
}
