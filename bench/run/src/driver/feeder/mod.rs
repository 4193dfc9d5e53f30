//! Feeds a workload to a cell: submits arriving jobs, and ends tasks after their run time.

mod messages;
mod rebalance;
mod start;

use crate::cell::RunCell;
use crate::clients::Fronted;
use crate::clock::RunClock;
use crate::counts::Counts;
use crate::driver::agenda::Agenda;
use crate::driver::command_queue::{CommandQueue, ON_THE_WAY_MAX, QueuedCommand};
use crate::driver::drive::{Drive, PATIENCE};
use crate::driver::ends::Ending;
use crate::driver::ledger::Ledger;
use crate::driver::message::{Done, Message, Purpose};
use crate::driver::placed::Placed;
use crate::driver::watch::{GAP_MS, RETRY_MS, Watch};
use crate::driver::worker_factory::{Measured, WorkerFactory};
use crate::passes::Passes;
use crate::report::{RebalancingReport, Sample};
use crate::samples::{Moment, Samples};
use crate::stop::Stop;
use crate::{Pace, Progress, RunError, RunOptions, WINDOW_MAX};
use crossbeam_channel::{Receiver, unbounded};
use omega_cellstate::Cell;
use omega_core::{Command, JobId, Machine, MachineId, Outcome, Rejection, TaskReport, Text};
use omega_workload::{Arrival, MachineChange, Workload};
use std::sync::Arc;

/// The feeder, with the state of the run that commands and the workers' messages change.
pub(crate) struct Feeder {
    cell: RunCell,
    source: Source,
    agenda: Agenda,
    factory: WorkerFactory,
    watch: Watch,
    counts: Counts,
    ledger: Ledger,
    samples: Samples,
    commands: CommandQueue,
    /// The rebalancer; `None` if no tasks move.
    passes: Option<Passes>,
    messages: Receiver<Message>,
    /// The first error of a command, or of the file of placements, which ends the run.
    failed: Option<RunError>,
    /// The file of placements; `None` if none is written.
    placed: Option<Placed>,
    stop: Stop,
    /// Whether the end was requested before the workload was done.
    interrupted: bool,
}

/// Description of the workload.
struct Source {
    name: String,
    notes: Vec<String>,
}

/// Result of feeding a workload to a cell.
pub(crate) struct Fed {
    pub(crate) cell: RunCell,
    /// The name of the workload.
    pub(crate) name: String,
    pub(crate) notes: Vec<String>,
    pub(crate) counts: Counts,
    pub(crate) ledger: Ledger,
    /// The figures of the rebalancer; `None` without one.
    pub(crate) rebalancing: Option<RebalancingReport>,
    pub(crate) series: Vec<Sample>,
    /// Number of jobs that have arrived.
    pub(crate) jobs: usize,
    /// The workload's time at the end.
    pub(crate) now_ms: u64,
    /// Whether the end was requested before the workload was done.
    pub(crate) interrupted: bool,
}

impl Feeder {
    /// Creates the feeder, and brings an empty cell to the initial state of the workload.
    pub(crate) fn new(
        cell: RunCell,
        workload: Workload,
        options: &RunOptions,
    ) -> Result<Feeder, RunError> {
        let (sender, messages) = unbounded();
        let factory = WorkerFactory::new(&workload, options, sender.clone());
        let policy = Command::SetPolicy(workload.policy);
        let setup = std::iter::once(policy).chain(options.setup.iter().cloned());
        for answer in cell.apply_all(setup)? {
            answer.map_err(RunError::Setup)?;
        }
        let ids = register(&cell, workload.machines)?;
        let tasks = workload.arrivals.iter().map(|arrival| arrival.job.task_count()).sum();
        let window = (ids.len() * 2 / 5).clamp(1, WINDOW_MAX);
        let watch = Watch::new(window, factory.len(), &workload.arrivals);
        let agenda = Agenda::new(workload.arrivals, workload.machine_events);
        let mut feeder = Feeder {
            source: Source { name: workload.name, notes: workload.notes },
            watch,
            factory,
            counts: Counts { tasks, ..Counts::default() },
            ledger: Ledger::default(),
            samples: Samples::new(agenda.span_ms()),
            agenda,
            commands: CommandQueue::new(cell.clone(), sender),
            passes: None,
            messages,
            failed: None,
            placed: options.placed.clone().map(|file| Placed::new(file, &cell)),
            stop: options.stop.clone(),
            interrupted: false,
            cell,
        };
        feeder.begin(&ids)?;
        let passes = |rebalancing| Passes::new(&feeder.cell, rebalancing, options.seed);
        feeder.passes = options.rebalancing.as_ref().map(passes).transpose()?;
        feeder.placed.as_mut().map_or(Ok(()), Placed::open)?;
        Ok(feeder)
    }

    /// Creates and registers the schedulers that the options name. Cell handles are assigned round-robin.
    pub(crate) fn schedulers(
        &mut self,
        cells: &[RunCell],
        options: &RunOptions,
        clock: &Arc<RunClock>,
    ) -> Result<Vec<Measured>, RunError> {
        let schedulers = self.factory.schedulers(cells, options, clock)?;
        self.ledger.begin(self.watch.workers(), schedulers.evict);
        Ok(schedulers.measured)
    }

    /// Creates and registers the frontends that the workload needs.
    pub(crate) fn fronts(
        &mut self,
        cells: &[RunCell],
        clock: &Arc<RunClock>,
    ) -> Result<Vec<Fronted>, RunError> {
        self.factory.fronts(cells, clock)
    }

    /// Ends the feeding.
    pub(crate) fn end(self) -> Fed {
        Fed {
            cell: self.cell,
            name: self.source.name,
            notes: self.source.notes,
            counts: self.counts,
            ledger: self.ledger,
            rebalancing: self.passes.as_ref().map(Passes::report),
            series: self.samples.into_series(),
            jobs: self.agenda.came(),
            now_ms: self.agenda.now_ms(),
            interrupted: self.interrupted,
        }
    }

    /// Submits the jobs that exist at the start.
    fn submit_now(&mut self, arrivals: Vec<Arrival>) -> Result<Vec<JobId>, RunError> {
        let names: Vec<Text> = arrivals.iter().map(|one| one.job.name.clone()).collect();
        let commands: Vec<Command> =
            arrivals.into_iter().map(|arrival| self.submission(arrival)).collect();
        let answers = self.cell.apply_all(commands)?;
        names.into_iter().zip(answers).map(|(name, answer)| submitted(name, answer)).collect()
    }

    /// Makes the command that submits a job, and counts its tasks.
    fn submission(&mut self, arrival: Arrival) -> Command {
        let tasks = arrival.job.task_count();
        self.counts.submitted += tasks;
        self.watch.tasks_changed(tasks);
        self.agenda.add_job(&arrival.job, arrival.run);
        self.ledger.came(&arrival.job, arrival.at_ms);
        if let Some(file) = &mut self.placed {
            file.add_job(arrival.job.name.clone());
        }
        Command::SubmitJob(arrival.job)
    }

    // --- The loop ------------------------------------------------------------------------------

    /// Feeds the workload until all jobs that arrived were tried, a worker ends early, or the end is requested.
    pub(crate) fn feed(
        &mut self,
        workers: &mut impl Drive,
        pace: Pace,
        clock: &RunClock,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), RunError> {
        self.note_version();
        self.sample(clock);
        workers.wake();
        loop {
            self.receive();
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.stop.is_requested() {
                self.interrupted = true;
                return self.drain();
            }
            if self.watch.was_stirred() {
                workers.wake();
            }
            let next = self.agenda.next();
            match self
                .due(next, pace, clock)
                .filter(|_| self.commands.on_the_way() < ON_THE_WAY_MAX)
            {
                Some(at) => {
                    if !pace.is_timed() {
                        workers.pass(at.saturating_sub(self.agenda.now_ms()));
                    }
                    self.advance(at, clock)?;
                    if self.watch.is_worth_a_wake(at) {
                        workers.wake();
                    }
                }
                None if next.is_none() && self.has_tried_all() => return Ok(()),
                None if !pace.is_timed() && self.waits_for_retries() && self.watch.may_skip() => {
                    workers.skip_a_second();
                }
                None if self.wait_for(workers) => {}
                None if workers.running() < self.watch.workers() => return Ok(()),
                // If a replica has stopped, schedulers would retry forever, so the run ends with an error.
                None if workers.check().is_err() => return workers.check(),
                None if !pace.is_timed() && self.waits_for_retries() => workers.skip_a_second(),
                None => {}
            }
            progress(self.counts.progress());
        }
    }

    /// Returns the time of the next event if it may happen now.
    fn due(&mut self, next: Option<u64>, pace: Pace, clock: &RunClock) -> Option<u64> {
        let at = next?;
        let now_ms = self.agenda.now_ms();
        if self.has_tried_all() && !pace.is_timed() {
            self.watch.tried_all(now_ms);
            return next;
        }
        let may = match pace {
            Pace::Fastest => {
                let (tasks, pending) = (self.counts.submitted, self.counts.pending());
                let is_near =
                    self.watch.may_go_on(pending) && self.watch.is_near(at, tasks, pending);
                (is_near || self.have_nothing_to_try())
                    && !self.owes_tries_before(at.saturating_sub(now_ms))
            }
            Pace::InTurns => self.caught_up() && at <= self.watch.tried_ms() + RETRY_MS,
            Pace::Speed(_) => at <= clock.workload_ms(),
        };
        may.then_some(at)
    }

    /// Whether every worker has tried all its jobs, and has retried the jobs that it could not place.
    fn has_tried_all(&self) -> bool {
        self.caught_up() && self.watch.are_settled()
    }

    /// Returns whether the workers have nothing to do until they retry jobs whose attempts failed.
    fn waits_for_retries(&self) -> bool {
        let is_done = !self.watch.owes_retry() && self.has_tried_all();
        self.have_nothing_to_try() && !is_done
    }

    /// Whether jobs that found no machine must be tried again before a gap of this length between events.
    fn owes_tries_before(&self, gap_ms: u64) -> bool {
        let has_retried = || self.have_nothing_to_try() && !self.watch.owes_retry();
        self.watch.has_unplaceable()
            && (gap_ms > GAP_MS || (gap_ms > self.watch.gap_ms() && !has_retried()))
    }

    /// Counts the remaining messages of the workers, takes the last sample, and completes the file of placements.
    pub(crate) fn close(&mut self, clock: &RunClock) -> Result<(), RunError> {
        self.receive();
        self.sample(clock);
        self.failed.take().map_or(Ok(()), Err)?;
        self.placed.as_mut().map_or(Ok(()), Placed::close)
    }

    /// Applies all events with this time.
    fn advance(&mut self, at_ms: u64, clock: &RunClock) -> Result<(), RunError> {
        self.agenda.advance(at_ms);
        clock.reach(self.agenda.now_ms());
        while self.samples.is_due(self.agenda.now_ms()) {
            self.sample(clock);
        }
        if self.agenda.expires() {
            // The cell's time advances before the changes of this time, so they do not count as earlier ones.
            let now_ms = self.agenda.now_ms();
            self.send(vec![(Purpose::Expire, Command::Expire { now_ms })])?;
        }
        self.rebalance(at_ms)?;
        let mut ended = Vec::new();
        while let Some(tasks) = self.agenda.ended(at_ms) {
            let tasks = self.counts.evictions.still_there(tasks);
            self.ledger.ended(&tasks);
            ended.extend(tasks);
        }
        self.finish(ended)?;
        while let Some(change) = self.agenda.machine_change(at_ms) {
            self.change_machine(change)?;
        }
        let submit = |feeder: &mut Feeder, arrival: Arrival| {
            let name = arrival.job.name.clone();
            (Purpose::Submit(name), feeder.submission(arrival))
        };
        let arrived = self.agenda.arrived(at_ms);
        let queued = arrived.into_iter().map(|arrival| submit(self, arrival)).collect();
        self.send(queued)?;
        self.note_version();
        Ok(())
    }

    /// Records a version of the cell that includes all changes so far.
    fn note_version(&mut self) {
        let now_ms = self.agenda.now_ms();
        self.agenda.start_gangs(&self.cell);
        self.watch.arrived(now_ms, self.counts.submitted);
        self.watch.changed(self.cell.read(Cell::version), now_ms, self.commands.on_the_way());
    }

    fn finish(&mut self, tasks: Ending) -> Result<(), RunError> {
        self.watch.tasks_changed(tasks.len() as u64);
        if let Some(finished) = self.cell.finish(&tasks) {
            self.counts.finished += finished;
            return Ok(());
        }
        let report = TaskReport::Finished;
        let ended = |(task, machine)| Command::ReportTask { task, machine, placed_ms: 0, report };
        self.send(tasks.into_iter().map(|task| (Purpose::End, ended(task))).collect())
    }

    // --- Commands -------------------------------------------------------------------------------

    /// Sends commands. If the cell answers at once, records the answers.
    fn send(&mut self, queued: Vec<QueuedCommand>) -> Result<(), RunError> {
        if queued.is_empty() {
            return Ok(());
        }
        self.commands.send(queued).map_or(Ok(()), |done| self.note_done(done))
    }

    fn note_done(&mut self, done: Done) -> Result<(), RunError> {
        for (purpose, answer) in done.purposes.into_iter().zip(done.answers?) {
            match purpose {
                Purpose::Submit(name) => _ = submitted(name, answer)?,
                // The cell rejects the end of a task that was lost with its machine, so that task is not counted as
                // finished.
                Purpose::End => self.counts.finished += u64::from(answer.is_ok()),
                Purpose::Expire => {}
            }
        }
        Ok(())
    }

    /// Waits until all commands were answered.
    fn drain(&mut self) -> Result<(), RunError> {
        while self.commands.on_the_way() > 0 && self.failed.is_none() {
            self.commands.check();
            if let Ok(message) = self.messages.recv_timeout(PATIENCE) {
                self.note(message);
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Changes a machine. The change depends on earlier commands, so the feeder first waits until these have been
    /// applied.
    fn change_machine(&mut self, change: MachineChange) -> Result<(), RunError> {
        self.drain()?;
        self.watch.tasks_changed(1);
        let by_name = |name: &Text| self.cell.read(|cell| cell.machine_by_name(name));
        let (name, command) = match change {
            MachineChange::Add(machine) => {
                let name = machine.name.clone();
                let command = match by_name(&name) {
                    Some(id) => Command::UpdateMachine { id, machine },
                    None => Command::RegisterMachine(machine),
                };
                (name, command)
            }
            MachineChange::Remove(name) => match by_name(&name) {
                Some(id) => {
                    let tasks =
                        |cell: &Cell| cell.machine(id).map_or(Vec::new(), |m| m.tasks.to_vec());
                    let tasks = self.cell.read(tasks);
                    self.counts.lost += tasks.len() as u64;
                    self.ledger.lost(&tasks, self.agenda.now_ms());
                    (name, Command::RemoveMachine { id })
                }
                None => return Ok(()),
            },
        };
        let done = self.cell.apply(command)?;
        if let (Some(file), Ok(Outcome::Machine(id))) = (&mut self.placed, &done) {
            file.add_machine(*id, name.clone());
        }
        done.map(drop).map_err(|why| RunError::Machine { name, why })
    }

    /// Whether every worker has tried all jobs since the feeder's last change.
    fn caught_up(&self) -> bool {
        self.has_all_answers() && self.watch.have_caught_up()
    }

    /// Whether every worker had no job to try after the feeder's last change.
    fn have_nothing_to_try(&self) -> bool {
        self.has_all_answers() && self.watch.have_nothing_to_try()
    }

    fn has_all_answers(&self) -> bool {
        self.messages.is_empty() && self.commands.on_the_way() == 0
    }

    fn sample(&mut self, clock: &RunClock) {
        let Feeder { cell, samples, ledger, counts, agenda, .. } = self;
        let moment = Moment { now_ms: agenda.now_ms(), wall_s: clock.seconds() };
        cell.read(|cell| {
            ledger.sample(cell);
            samples.take(moment, cell, counts);
        });
    }
}

/// Result of submitting a job.
pub(crate) fn submitted(name: Text, answer: Result<Outcome, Rejection>) -> Result<JobId, RunError> {
    match answer {
        Ok(Outcome::Job(id)) => Ok(id),
        Ok(_) => unreachable!("submitting a job gives a job"),
        Err(why) => Err(RunError::Job { name, why }),
    }
}

/// Registers the machines that exist at the start.
fn register(cell: &RunCell, machines: Vec<Machine>) -> Result<Vec<MachineId>, RunError> {
    let names: Vec<Text> = machines.iter().map(|machine| machine.name.clone()).collect();
    let answers = cell.apply_all(machines.into_iter().map(Command::RegisterMachine))?;
    let registered = |(name, answer)| match answer {
        Ok(Outcome::Machine(id)) => Ok(id),
        Ok(_) => unreachable!("registering a machine gives a machine"),
        Err(why) => Err(RunError::Machine { name, why }),
    };
    names.into_iter().zip(answers).map(registered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Job, Kinds, TaskGroup};
    use omega_workload::RunTime;
    use omega_workload::synth::{SynthOptions, synthesize};

    #[test]
    fn a_task_that_ends_with_a_minute_ends_at_the_time_of_that_minute() {
        let job = Job::batch("job", TaskGroup::new(1, Amounts::new([1000])));
        let job = Job { scheduler: "batch".into(), deadline_ms: Some(59_999), ..job };
        let run = RunTime::Same(60_000);
        let later = Job::batch("later", TaskGroup::new(1, Amounts::new([1000])));
        let at_ms = 120_000;
        let later = Arrival { at_ms, placed: Vec::new(), run: run.clone(), job: later };
        let small = SynthOptions { machines: 20, seed: 1, span_hours: 1, utilisation_percent: 30 };
        let workload = Workload {
            machines: vec![Machine::new("m", Amounts::new([1000]))],
            arrivals: vec![Arrival { at_ms: 0, placed: vec![(0, 0)], run, job }, later],
            ..synthesize(&small)
        };
        let cell = RunCell::memory(Cell::new(Kinds::standard()));
        let options = RunOptions::default();
        let mut feeder = Feeder::new(cell.clone(), workload, &options).unwrap();
        feeder.advance(60_000, &RunClock::start(Pace::Fastest)).unwrap();
        assert_eq!(feeder.counts.finished, 1);
        let counts = cell.read(Cell::deadline_counts);
        assert_eq!((counts.in_time, counts.late, counts.late_ms), (0, 1, 1));
    }
}
