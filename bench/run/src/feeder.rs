//! Feeds a workload to a cell: submits arriving jobs, and ends tasks after their run time.

mod messages;

use super::cell::RunCell;
use super::clients;
use super::clock::RunClock;
use super::drive::{Drive, PATIENCE};
use super::ends::{Ending, Ends, Since};
use super::lane::{Done, Errand, Lane, ON_THE_WAY_MAX, Purpose};
use super::ledger::Ledger;
use super::meter::{AT_ONCE, IdleState, Message, Meter};
use super::stop::Stop;
use super::window::Window;
use super::{Evict, Pace, Progress, RunError, RunOptions, SCHEDULERS, WINDOW_MAX, Workers};
use crate::report::Sample;
use crossbeam_channel::{Receiver, Sender, unbounded};
use omega_cellstate::Cell;
use omega_core::{
    Command, Job, JobId, Machine, MachineId, Outcome, Rejection, TaskId, TaskReport, Text, Version,
};
use omega_schedulers::disruption::DisruptionBudget;
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::{Profile, Scheduler, Settings, Volumes};
use omega_workload::{Arrival, MachineChange, MachineEvent, RunTime, Workload};
use std::collections::{HashMap, VecDeque};

/// Number of samples of a run over the workload's time.
const SAMPLES: u64 = 240;

/// A scheduler and its meter.
pub(crate) type Measured = (Scheduler, Meter);

/// Outcome of a task that was evicted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evicted {
    /// When last.
    last: Version,
    /// Number of times.
    pub(crate) times: u32,
}

/// The feeder and its counters.
pub(crate) struct Feeder {
    pub(crate) cell: RunCell,
    /// Volumes, for profiles with volume plugins.
    pub(super) volumes: Volumes,
    /// Whether the workload has volume claims. Without them no volumes are read.
    any_claims: bool,
    pub(crate) name: String,
    pub(crate) notes: Vec<String>,
    pub(crate) tasks: u64,
    pub(crate) placed_at_start: usize,
    pub(crate) placements: u64,
    pub(crate) finished: u64,
    /// Tasks that became pending again because their machine left.
    pub(crate) lost: u64,
    /// Tasks that were evicted.
    pub(crate) evicted: HashMap<TaskId, Evicted>,
    /// Total number of evictions.
    evictions: u64,
    conflicts: u64,
    pub(crate) series: Vec<Sample>,
    pub(super) ledger: Ledger,
    pub(crate) now_ms: u64,
    pub(crate) submitted: u64,
    window: Window,
    pub(super) arrivals: VecDeque<Arrival>,
    machine_events: VecDeque<MachineEvent>,
    budgets: Vec<DisruptionBudget>,
    /// Run time of each job's tasks, by job number.
    runs: Vec<RunTime>,
    ends: Ends,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    /// Number of messages that a busy worker sends at once.
    at_once: usize,
    /// Of each scheduler, and then of each front.
    pub(super) idle: Vec<IdleState>,
    /// The frontends for which the workload has jobs, with these jobs.
    pub(super) clients: Vec<(&'static str, Vec<Job>)>,
    changed: Version,
    lane: Lane,
    /// The error of a required command.
    failed: Option<RunError>,
    /// Whether tasks were evicted, or commands answered, since the schedulers were last woken.
    stirred: bool,
    span_ms: u64,
    sampled: u64,
    expired_ms: u64,
    stop: Stop,
    /// Whether the end was requested before all was done.
    pub(crate) interrupted: bool,
}

impl Feeder {
    /// Brings an empty cell to the workload's start.
    pub(crate) fn new(
        cell: RunCell,
        workload: Workload,
        options: &RunOptions,
    ) -> Result<Feeder, RunError> {
        let policy = Command::SetPolicy(workload.policy);
        let setup = std::iter::once(policy).chain(options.setup.iter().cloned());
        for answer in cell.apply_all(setup)? {
            answer.map_err(RunError::Setup)?;
        }
        let ids = register(&cell, workload.machines)?;
        let (sender, messages) = unbounded();
        let count = |arrival: &Arrival| arrival.job.task_count();
        let last = workload.arrivals.last().map_or(0, |arrival| arrival.at_ms);
        let last_event = workload.machine_events.last().map_or(0, |event| event.at_ms);
        let schedulers = (options.service_schedulers + options.batch_schedulers) as usize;
        let clients = clients::jobs(&workload.arrivals);
        let workers = schedulers + clients.len();
        let (volumes, _) = workload.volumes.list();
        let mut feeder = Feeder {
            volumes,
            any_claims: !workload.volumes.claims.is_empty(),
            name: workload.name,
            notes: workload.notes,
            tasks: workload.arrivals.iter().map(count).sum(),
            placed_at_start: 0,
            placements: 0,
            finished: 0,
            lost: 0,
            evicted: HashMap::new(),
            evictions: 0,
            conflicts: 0,
            series: Vec::new(),
            ledger: Ledger::default(),
            now_ms: 0,
            submitted: 0,
            window: Window::new((ids.len() * 2 / 5).clamp(1, WINDOW_MAX), workers),
            arrivals: workload.arrivals.into(),
            machine_events: workload.machine_events.into(),
            budgets: workload.budgets,
            runs: Vec::new(),
            ends: Ends::default(),
            lane: Lane::new(cell.clone(), sender.clone()),
            failed: None,
            messages,
            sender,
            at_once: match options.workers {
                Workers::Threads => AT_ONCE,
                Workers::LockStep => 1,
            },
            idle: vec![IdleState::default(); workers],
            clients,
            changed: Version(0),
            stirred: false,
            span_ms: last.max(last_event),
            sampled: 0,
            expired_ms: 0,
            stop: options.stop.clone(),
            interrupted: false,
            cell,
        };
        feeder.begin(&ids)?;
        Ok(feeder)
    }

    /// The schedulers that the options name, registered, with the cell handles assigned round-robin.
    pub(crate) fn schedulers(
        &mut self,
        cells: &[RunCell],
        options: &RunOptions,
    ) -> Result<Vec<Measured>, RunError> {
        let counts = [options.service_schedulers, options.batch_schedulers];
        let mut schedulers = Vec::new();
        let mut evict = false;
        for (name, count) in SCHEDULERS.into_iter().zip(counts) {
            for index in 0..count {
                let (profile, settings) = self.scheduler((name, index, count), options)?;
                evict |= profile.post_filters().next().is_some();
                let meter = self.meter(schedulers.len());
                let name = settings.name.clone();
                let cell = &cells[schedulers.len() % cells.len()];
                let scheduler = Scheduler::new(cell, profile, settings)
                    .map_err(|why| RunError::Scheduler { name, why })?;
                schedulers.push((scheduler, meter));
            }
        }
        self.ledger.begin(self.idle.len(), evict);
        Ok(schedulers)
    }

    /// Returns the meter of a worker.
    pub(super) fn meter(&self, worker: usize) -> Meter {
        Meter::new(worker, self.sender.clone(), self.at_once)
    }

    /// Returns a scheduler with the profile of its name if there is one, or a ready-made one.
    fn scheduler(
        &self,
        (name, index, count): (&str, u32, u32),
        options: &RunOptions,
    ) -> Result<(Profile, Settings), RunError> {
        let mut settings = Settings::worker(name, index, count).with_seed(options.seed);
        settings.claims_max = options.claims_max;
        settings.hold = options.hold;
        settings.commits_in_flight = self.cell.commits_in_flight();
        settings.granularity = options.granularity;
        settings.check = options.check;
        let profile = match options.profiles.get(name) {
            Some(spec) => {
                settings = spec.apply(settings);
                let profile = self.cell.read(|cell| match self.any_claims {
                    true => spec.bind_with(cell.kinds(), &self.volumes),
                    false => spec.bind(cell.kinds()),
                });
                profile
                    .map_err(|why| RunError::Profile { name: name.to_owned(), why: why.into() })?
            }
            None if name == "service" => Profile::service(),
            None => Profile::batch(),
        };
        let profile = match options.evict {
            Evict::AsProfilesSay => profile,
            // A profile that has it keeps its arguments.
            Evict::Always if profile.post_filters().next().is_some() => profile,
            Evict::Always => profile.with_post_filter(DefaultPreemption::default()),
        };
        let profile = profile.with_budgets(&self.budgets);
        settings.placement.search = options.search.unwrap_or(settings.placement.search);
        Ok((profile, settings))
    }

    /// Submits the jobs that exist at the start.
    pub(super) fn submit_now(&mut self, arrivals: Vec<Arrival>) -> Result<Vec<JobId>, RunError> {
        let names: Vec<Text> = arrivals.iter().map(|one| one.job.name.clone()).collect();
        let commands: Vec<Command> =
            arrivals.into_iter().map(|arrival| self.submission(arrival)).collect();
        let answers = self.cell.apply_all(commands)?;
        names.into_iter().zip(answers).map(|(name, answer)| submitted(name, answer)).collect()
    }

    /// The command that submits a job. Counts its tasks.
    fn submission(&mut self, arrival: Arrival) -> Command {
        let tasks = arrival.job.task_count();
        self.submitted += tasks;
        self.window.changed(tasks);
        self.runs.push(arrival.run);
        self.ledger.came(&arrival.job, arrival.at_ms);
        Command::SubmitJob(arrival.job)
    }

    /// Removes and returns the arrivals up to a time.
    pub(super) fn arrived(&mut self, at_ms: u64) -> Vec<Arrival> {
        let mut arrived = Vec::new();
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.at_ms <= at_ms) {
            arrived.push(arrival);
        }
        arrived
    }

    // --- The loop ------------------------------------------------------------------------------

    /// Feeds the workload until its last arrival has been tried, a worker has ended early, or the end was requested.
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
            if std::mem::take(&mut self.stirred) {
                workers.wake();
            }
            let next = self.next_event();
            match self.due(next, pace, clock).filter(|_| self.lane.on_the_way() < ON_THE_WAY_MAX) {
                Some(at) => {
                    self.advance(at, clock)?;
                    if self.window.is_worth_a_wake() {
                        workers.wake();
                    }
                }
                None if next.is_none() && self.caught_up() && self.settled() => return Ok(()),
                None if self.wait_for(workers) => {}
                None if workers.running() < self.idle.len() => return Ok(()),
                // Schedulers retry for ever if a replica has stopped.
                None if workers.check().is_err() => return workers.check(),
                None if !pace.is_timed() && next.is_none() && self.caught_up() => {
                    // Jobs with many failures are retried up to a second later.
                    workers.skip_a_second();
                }
                None => {}
            }
            progress(self.progress());
        }
    }

    /// The time of the next event, if it may happen now.
    fn due(&mut self, next: Option<u64>, pace: Pace, clock: &RunClock) -> Option<u64> {
        let at = next?;
        let may = match pace {
            Pace::Fastest => {
                let waiting = self.waiting_tasks();
                self.window.is_open(waiting) || self.caught_up()
            }
            Pace::InTurns => self.caught_up(),
            Pace::Speed(speed) => at <= (clock.seconds() * 1000.0 * speed) as u64,
        };
        may.then_some(at)
    }

    /// Counts the remaining messages of the workers, and takes the last sample.
    pub(crate) fn close(&mut self, clock: &RunClock) {
        self.receive();
        self.sample(clock);
    }

    fn progress(&self) -> Progress {
        Progress {
            submitted: self.submitted,
            tasks: self.tasks,
            placements: self.placements,
            pending: self.pending() as u64,
        }
    }

    /// The time of the next event, up to the end of the workload.
    fn next_event(&self) -> Option<u64> {
        let arrival = self.arrivals.front().map(|arrival| arrival.at_ms);
        let machine = self.machine_events.front().map(|event| event.at_ms);
        let end = self.ends.next().filter(|at| *at <= self.span_ms);
        arrival.into_iter().chain(machine).chain(end).min()
    }

    /// Applies all events of a time.
    fn advance(&mut self, at_ms: u64, clock: &RunClock) -> Result<(), RunError> {
        self.now_ms = self.now_ms.max(at_ms);
        while self.sampled * self.span_ms < self.now_ms * SAMPLES {
            self.sample(clock);
        }
        let mut ended = Vec::new();
        while let Some(tasks) = self.ends.pop(at_ms) {
            let tasks = self.still_there(tasks);
            self.ledger.ended(&tasks);
            ended.extend(tasks);
        }
        self.finish(ended)?;
        while let Some(event) = self.machine_events.pop_front_if(|event| event.at_ms <= at_ms) {
            self.change_machine(event.change)?;
        }
        let submit = |feeder: &mut Feeder, arrival: Arrival| {
            let name = arrival.job.name.clone();
            (Purpose::Submit(name), feeder.submission(arrival))
        };
        let arrived = self.arrived(at_ms);
        let mut errands: Vec<Errand> =
            arrived.into_iter().map(|arrival| submit(self, arrival)).collect();
        // Ended jobs are forgotten once a minute of the workload.
        if self.now_ms >= self.expired_ms + 60_000 {
            self.expired_ms = self.now_ms;
            errands.push((Purpose::Expire, Command::Expire { now_ms: self.now_ms }));
        }
        self.send(errands)?;
        self.note_version();
        Ok(())
    }

    /// Records the version that has all changes so far.
    fn note_version(&mut self) {
        self.changed = self.cell.read(Cell::version);
        if self.lane.on_the_way() == 0 {
            self.window.applied(self.changed);
        }
    }

    /// Removes tasks that were evicted since this placement.
    fn still_there(&self, (placed, mut tasks): Since) -> Ending {
        if self.evicted.is_empty() {
            return tasks;
        }
        tasks.retain(|(task, _)| {
            self.evicted.get(task).is_none_or(|evicted| evicted.last <= placed)
        });
        tasks
    }

    fn finish(&mut self, tasks: Ending) -> Result<(), RunError> {
        self.window.changed(tasks.len() as u64);
        if let Some(finished) = self.cell.finish(&tasks) {
            self.finished += finished;
            return Ok(());
        }
        let report = TaskReport::Finished;
        let ended = |(task, machine)| Command::ReportTask { task, machine, report };
        self.send(tasks.into_iter().map(|task| (Purpose::End, ended(task))).collect())
    }

    // --- The commands' way ---------------------------------------------------------------------

    /// Sends commands, and records their answers if the cell has answered already.
    fn send(&mut self, errands: Vec<Errand>) -> Result<(), RunError> {
        if errands.is_empty() {
            return Ok(());
        }
        self.lane.send(errands).map_or(Ok(()), |done| self.note_done(done))
    }

    fn note_done(&mut self, done: Done) -> Result<(), RunError> {
        for (purpose, answer) in done.purposes.into_iter().zip(done.answers?) {
            match purpose {
                Purpose::Submit(name) => _ = submitted(name, answer)?,
                // The cell rejects the end of a task that was lost with its machine: it has not
                // finished.
                Purpose::End => self.finished += u64::from(answer.is_ok()),
                Purpose::Expire => {}
            }
        }
        Ok(())
    }

    /// Waits until all commands were answered.
    fn drain(&mut self) -> Result<(), RunError> {
        while self.lane.on_the_way() > 0 && self.failed.is_none() {
            self.lane.check();
            if let Ok(message) = self.messages.recv_timeout(PATIENCE) {
                self.note(message);
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Changes a machine. The change depends on earlier commands, so these must have been applied.
    fn change_machine(&mut self, change: MachineChange) -> Result<(), RunError> {
        self.drain()?;
        self.window.changed(1);
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
                    self.lost += tasks.len() as u64;
                    self.ledger.lost(&tasks, self.now_ms);
                    (name, Command::RemoveMachine { id })
                }
                None => return Ok(()),
            },
        };
        let done = self.cell.apply(command)?.map(drop);
        done.map_err(|why| RunError::Machine { name, why })
    }

    /// Number of jobs that have arrived.
    pub(crate) fn came(&self) -> usize {
        self.runs.len()
    }

    /// Tasks that have no machine.
    pub(crate) fn pending(&self) -> usize {
        let placed = self.placements + self.placed_at_start as u64;
        (self.submitted + self.lost + self.evictions).saturating_sub(placed) as usize
    }

    /// Tasks that have no machine and may yet find one.
    fn waiting_tasks(&self) -> usize {
        let unplaceable: usize = self.idle.iter().map(|idle| idle.unplaceable).sum();
        self.pending().saturating_sub(unplaceable)
    }

    /// Whether every worker has tried all jobs since the feeder's last change.
    fn caught_up(&self) -> bool {
        self.messages.is_empty()
            && self.lane.on_the_way() == 0
            && self.idle.iter().all(|idle| idle.version >= self.changed)
    }

    /// Whether no pending task would be placed if the run went on. Jobs with many failures are
    /// retried up to a second later; the end waits for it.
    fn settled(&self) -> bool {
        self.idle.iter().all(|idle| idle.settled)
    }

    fn sample(&mut self, clock: &RunClock) {
        let at_ms = match self.span_ms {
            0 => 0,
            span => (self.sampled * span / SAMPLES).min(self.now_ms),
        };
        self.sampled += 1;
        let (used, running) = self.cell.read(super::outcome::used_shares);
        self.cell.read(|cell| self.ledger.sample(cell));
        self.series.push(Sample {
            workload_s: at_ms as f64 / 1000.0,
            wall_s: clock.seconds(),
            pending: (self.submitted.saturating_sub(self.finished) as usize)
                .saturating_sub(running),
            running,
            placements: self.placements,
            conflicts: self.conflicts,
            used,
        });
    }
}

/// Result of submitting a job.
pub(super) fn submitted(name: Text, answer: Result<Outcome, Rejection>) -> Result<JobId, RunError> {
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
