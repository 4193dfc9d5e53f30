//! Two-level scheduling: an allocator offers all free resources to one scheduler after the other.
//!
//! Offered resources are locked until the scheduler replies, so claims never conflict, but a scheduler with long
//! decisions starves the others. The allocator collects freed resources for some time before it makes an offer.

use super::agenda::Next;
use super::{Agenda, Attempt, Cell, Plan, RETRY_S, Records, Survey, Taken};
use std::collections::VecDeque;

/// Settings of the two-level allocator.
#[derive(Clone, Copy, Debug)]
pub struct OfferSettings {
    /// Seconds for which freed resources are collected before an offer.
    pub gather_s: f64,
    /// Decision time of the allocator.
    pub decide_s: f64,
    /// Smallest offer that is made, in processors.
    pub processors_min: f64,
}

/// A cell with locked offers.
pub trait OfferCell: Cell {
    /// Contents of one offer.
    type Offer;

    /// Locks all free resources, and offers them.
    fn offer(&mut self) -> Self::Offer;

    /// Processors and memory that are still free in an offer.
    fn left(&self, offer: &Self::Offer) -> [f64; 2];

    /// Places tasks of a job within an offer. The tasks start when the offer is answered.
    fn place_in(
        &mut self,
        offer: &mut Self::Offer,
        scheduler: usize,
        job: usize,
        tasks: u32,
    ) -> Attempt;

    /// Unlocks an offer, and starts the tasks placed in it.
    fn answer(&mut self, offer: Self::Offer, scheduler: usize, runs: &[Taken]);

    /// Processors that are free and not locked.
    fn free_processors(&self) -> f64;

    /// The scheduler's dominant share: of all resources, the largest share that its running tasks have.
    fn dominant_share(&self, scheduler: usize) -> f64;

    /// The share of the processors that is locked in offers.
    fn locked(&self) -> f64;
}

/// Event of a simulation with offers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Enough resources were collected: an offer is made.
    Offer,
    /// A scheduler has received an offer.
    Offered(u32),
    /// A scheduler has decided on an offer.
    Answered(u32),
    /// A job is queued again.
    Again(u32),
    /// Tasks end.
    Ended(Taken),
}

/// An open offer.
struct Out<O> {
    scheduler: u32,
    held: O,
    /// Numbers of the commits that placed tasks in the offer. The tasks start when the offer is answered.
    placed: Vec<Taken>,
    /// Jobs whose last task was placed in the offer.
    complete: Vec<u32>,
}

/// State of a scheduler.
#[derive(Default)]
struct SchedulerState {
    queue: VecDeque<u32>,
    /// Whether the scheduler waits for an offer.
    asks: bool,
}

struct Run<'a, C: OfferCell> {
    plan: &'a Plan<'a>,
    settings: OfferSettings,
    cell: &'a mut C,
    agenda: Agenda<'a, Event>,
    states: Vec<SchedulerState>,
    /// Offers by number. An answered offer is `None`, and its number is reused.
    out: Vec<Option<Out<C::Offer>>>,
    gathering: bool,
    records: Records,
}

/// Runs a plan on a cell whose resources are offered.
pub fn run_offers<C: OfferCell>(plan: &Plan<'_>, settings: OfferSettings, cell: &mut C) -> Records {
    let mut run = Run {
        plan,
        settings,
        cell,
        agenda: Agenda::new(plan),
        states: plan.schedulers.iter().map(|_| SchedulerState::default()).collect(),
        out: Vec::new(),
        gathering: false,
        records: Records::new(plan),
    };
    while let Some(next) = run.agenda.next() {
        run.records.events += 1;
        if plan.survey == Survey::Always {
            let locked = run.cell.locked();
            run.records.pass(run.agenda.now_s(), run.cell, locked);
        }
        match next {
            Next::Change(number) => run.change(number),
            Next::Arrival(job) => run.arrive(job),
            Next::Event(Event::Again(job)) => run.enqueue(job),
            Next::Look => run.records.look(run.cell.used(), run.cell.locked()),
            Next::Event(Event::Offer) => run.offer(),
            Next::Event(Event::Offered(number)) => run.decide(number),
            Next::Event(Event::Answered(number)) => run.answer(number),
            Next::Event(Event::Ended(taken)) => run.end(taken),
        }
    }
    for (record, state) in run.records.schedulers.iter_mut().zip(&run.states) {
        record.left_in_queue = state.queue.len() as u64;
    }
    let now_s = run.agenda.now_s();
    if plan.survey == Survey::Always {
        let locked = run.cell.locked();
        run.records.pass(now_s, run.cell, locked);
    }
    run.records.now_s = now_s;
    run.records
}

impl<C: OfferCell> Run<'_, C> {
    fn arrive(&mut self, job: u32) {
        let running = self.cell.arrive(job as usize);
        self.begin_run(running.run);
        if self.records.arrive(job as usize, running.tasks) {
            self.enqueue(job);
        }
    }

    /// Applies a change of machines; jobs that lost tasks are queued again.
    fn change(&mut self, number: u32) {
        for lost in self.cell.change(number as usize) {
            if self.records.lose(lost) {
                self.enqueue(lost.job);
            }
        }
        self.gather();
    }

    /// Schedules the end of the tasks that one commit started.
    fn begin_run(&mut self, run: Option<Taken>) {
        let ends = run.and_then(|run| Some((run, self.cell.runs_for(run)?)));
        if let Some((run, seconds)) = ends {
            self.agenda.after(seconds, Event::Ended(run));
        }
    }

    fn end(&mut self, run: Taken) {
        let ended = self.cell.end(run);
        self.records.ended += u64::from(ended.tasks);
        if let Some(seconds) = ended.again_s {
            self.agenda.after(seconds, Event::Ended(run));
        }
        self.gather();
    }

    fn enqueue(&mut self, job: u32) {
        let state = &mut self.states[self.plan.owners[job as usize] as usize];
        state.queue.push_back(job);
        state.asks = true;
        self.gather();
    }

    /// Starts to collect freed resources, unless the allocator is already collecting.
    fn gather(&mut self) {
        if !self.gathering {
            self.gathering = true;
            self.agenda.after(self.settings.gather_s, Event::Offer);
        }
    }

    /// Offers the free resources to the waiting scheduler with the lowest dominant share.
    fn offer(&mut self) {
        self.gathering = false;
        if self.cell.free_processors() < self.settings.processors_min {
            return;
        }
        let asking = (0..self.states.len()).filter(|scheduler| self.states[*scheduler].asks);
        let share = |scheduler: &usize| self.cell.dominant_share(*scheduler);
        let Some(scheduler) = asking.min_by(|a, b| share(a).total_cmp(&share(b))) else { return };
        let offer = Out {
            scheduler: scheduler as u32,
            held: self.cell.offer(),
            placed: Vec::new(),
            complete: Vec::new(),
        };
        let number = self.out.iter().position(Option::is_none).unwrap_or(self.out.len());
        if number == self.out.len() {
            self.out.push(None);
        }
        self.out[number] = Some(offer);
        self.agenda.after(self.settings.decide_s, Event::Offered(number as u32));
    }

    /// Lets a scheduler place its queued jobs until its offer is used up.
    fn decide(&mut self, number: u32) {
        let Some(mut offer) = self.out[number as usize].take() else { return };
        let mut seconds = 0.0;
        // Remainders of at most 1e-6 are rounding errors of floats.
        while self.cell.left(&offer.held).iter().all(|left| *left > 1e-6) {
            let Some(job) = self.states[offer.scheduler as usize].queue.pop_front() else { break };
            seconds += self.place(job, &mut offer);
        }
        let state = &mut self.states[offer.scheduler as usize];
        state.asks = !state.queue.is_empty();
        let answered_s = self.agenda.now_s() + seconds;
        for job in std::mem::take(&mut offer.complete) {
            let submit_s = self.plan.jobs[job as usize].submit_s;
            self.records.jobs[job as usize].placed_s = answered_s - submit_s;
        }
        self.out[number as usize] = Some(offer);
        self.agenda.after(seconds, Event::Answered(number));
    }

    /// Places tasks of a job within an offer. Returns the decision time.
    fn place(&mut self, job: u32, offer: &mut Out<C::Offer>) -> f64 {
        let (at, scheduler) = (job as usize, offer.scheduler as usize);
        let (record, about) = (&mut self.records.jobs[at], &self.plan.jobs[at]);
        if record.attempts == 0 {
            record.wait_s = self.agenda.now_s() - about.submit_s;
        }
        let tasks = record.unplaced;
        let seconds = self.plan.schedulers[scheduler].decides(about.kind, tasks);
        let attempt = self.cell.place_in(&mut offer.held, scheduler, at, tasks);
        offer.placed.extend(attempt.run);
        let more = self.records.attempt(scheduler, at, attempt, seconds);
        if !more {
            offer.complete.push(job);
        } else if !self.records.give_up(self.plan.retries, scheduler, at) {
            self.agenda.after(RETRY_S, Event::Again(job));
        }
        seconds
    }

    fn answer(&mut self, number: u32) {
        let Some(offer) = self.out[number as usize].take() else { return };
        self.cell.answer(offer.held, offer.scheduler as usize, &offer.placed);
        for run in offer.placed {
            self.begin_run(Some(run));
        }
        self.gather();
    }
}
