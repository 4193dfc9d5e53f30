//! Feeds a workload to a cell: submits what arrives, ends what has run its time.

use super::clock::WallClock;
use super::meter::{IdleState, Message, Meter};
use super::{LEAD_MS_MAX, Pace, Progress, RunError, RunOptions, WINDOW};
use crate::report::Sample;
use crate::workload::{Arrival, MachineChange, MachineEvent, RunTime, Workload};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use omega_cellstate::{Cell, CellHandle, SharedCell};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{
    CardSet, Claim, Command, JobId, MachineId, Outcome, SchedulerId, SequenceNumber, TaskId,
    TaskReport, Text, Transaction, TransactionId, Version,
};
use omega_schedulers::{Pool, Profile, Scheduler, Settings};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::RangeFrom;
use std::time::Duration;

/// How many samples a run takes over the workload's time.
const SAMPLES: u64 = 240;

/// How long the feeder waits for a message before it looks at the clock again.
const PATIENCE: Duration = Duration::from_millis(2);

/// The feeder, and what it counted.
pub(crate) struct Feeder {
    pub(crate) cell: SharedCell,
    pub(crate) name: String,
    pub(crate) notes: Vec<String>,
    pub(crate) jobs: usize,
    pub(crate) tasks: u64,
    pub(crate) placed_at_start: usize,
    pub(crate) placements: u64,
    pub(crate) finished: u64,
    /// Tasks that became pending again because their machine left.
    pub(crate) lost: u64,
    conflicts: u64,
    pub(crate) series: Vec<Sample>,
    pub(crate) now_ms: u64,
    submitted: u64,
    /// When the schedulers had tried all that there was, and how far the clock may go from there.
    tried_ms: u64,
    lead_ms: u64,
    arrivals: VecDeque<Arrival>,
    machine_events: VecDeque<MachineEvent>,
    /// How long the tasks of each job run, by job number.
    runs: Vec<RunTime>,
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    /// The tasks that end with each entry of `ends`, by its second number from `first_end`.
    ending: VecDeque<Vec<(TaskId, MachineId)>>,
    first_end: u64,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    idle: Vec<IdleState>,
    changed: Version,
    span_ms: u64,
    sampled: u64,
    expired_ms: u64,
}

impl Feeder {
    /// Makes the cell and brings it to the workload's start.
    pub(crate) fn new(workload: Workload, options: &RunOptions) -> Result<Feeder, RunError> {
        let cell = SharedCell::new(Cell::new(workload.kinds));
        let apply = |command| cell.apply(command);
        let policy = Command::SetPolicy(workload.policy);
        apply(policy).map_err(|why| RunError::Job { name: "policy".into(), why })?;
        let mut ids = Vec::with_capacity(workload.machines.len());
        for machine in workload.machines {
            let name = machine.name.clone();
            match apply(Command::RegisterMachine(machine)) {
                Ok(Outcome::Machine(id)) => ids.push(id),
                Ok(_) => unreachable!("registering a machine gives a machine"),
                Err(why) => return Err(RunError::Machine { name, why }),
            }
        }
        let (sender, messages) = unbounded();
        let count = |arrival: &Arrival| arrival.job.task_count();
        let last = workload.arrivals.last().map_or(0, |arrival| arrival.at_ms);
        let last_event = workload.machine_events.last().map_or(0, |event| event.at_ms);
        let workers = options.service_schedulers + options.batch_schedulers;
        let span_ms = last.max(last_event);
        let ends = workload.arrivals.iter().any(|arrival| arrival.run != RunTime::Forever);
        // Where no task ends, times are only an order.
        let lead_ms = if ends { (span_ms / 1000).min(LEAD_MS_MAX) } else { u64::MAX };
        let mut feeder = Feeder {
            name: workload.name,
            notes: workload.notes,
            jobs: workload.arrivals.len(),
            tasks: workload.arrivals.iter().map(count).sum(),
            placed_at_start: 0,
            placements: 0,
            finished: 0,
            lost: 0,
            conflicts: 0,
            series: Vec::new(),
            now_ms: 0,
            submitted: 0,
            tried_ms: 0,
            lead_ms,
            arrivals: workload.arrivals.into(),
            machine_events: workload.machine_events.into(),
            runs: Vec::new(),
            ends: BinaryHeap::new(),
            ending: VecDeque::new(),
            first_end: 0,
            messages,
            sender,
            idle: vec![IdleState::default(); workers as usize],
            changed: Version(0),
            span_ms,
            sampled: 0,
            expired_ms: 0,
            cell,
        };
        feeder.begin(&ids)?;
        Ok(feeder)
    }

    pub(crate) fn cell(&self) -> SharedCell {
        self.cell.clone()
    }

    /// The schedulers that the options name, registered.
    pub(crate) fn schedulers(
        &self,
        options: &RunOptions,
        _clock: &WallClock,
    ) -> Result<Vec<(Scheduler, Meter)>, RunError> {
        let kinds = [("service", options.service_schedulers), ("batch", options.batch_schedulers)];
        let mut schedulers = Vec::new();
        for (name, count) in kinds {
            for index in 0..count {
                let mut settings = Settings::worker(name, index, count).with_seed(options.seed);
                settings.claims_max = options.claims_max;
                settings.granularity = options.granularity;
                settings.check = options.check;
                settings.placement.search = options.search;
                let profile = if name == "service" { Profile::service() } else { Profile::batch() };
                let meter = Meter::new(schedulers.len(), self.sender.clone());
                let name = settings.name.clone();
                let scheduler = Scheduler::new(&self.cell, profile, settings)
                    .map_err(|why| RunError::Scheduler { name, why })?;
                schedulers.push((scheduler, meter));
            }
        }
        Ok(schedulers)
    }

    // --- The start -----------------------------------------------------------------------------

    /// Submits what is there at the start, and claims the machines of what runs already.
    fn begin(&mut self, machines: &[MachineId]) -> Result<(), RunError> {
        let (id, number) = self
            .cell
            .register("start".into())
            .map_err(|why| RunError::Scheduler { name: "start".into(), why })?;
        let mut numbers = number..;
        let mut claims = Vec::new();
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.at_ms == 0) {
            let placed = arrival.placed.clone();
            let job = self.submit(arrival)?;
            claims.extend(placed.into_iter().map(|(index, machine)| Claim {
                task: TaskId { job, index },
                machine: machines[machine as usize],
                seen: SequenceNumber(0),
                cards: CardSet::default(),
            }));
        }
        // A task may need another one near it that comes later in the list: claim again what was
        // refused, as long as that gets anywhere.
        let mut left = usize::MAX;
        while claims.len() < left {
            left = claims.len();
            claims = self.claim(id, &mut numbers, claims)?;
        }
        if left > 0 {
            let tasks = if left == 1 { "task that ran" } else { "tasks that ran" };
            self.notes.push(format!(
                "{left} {tasks} at the start may not be there by the cell's rules: placed anew"
            ));
        }
        Ok(())
    }

    /// Claims machines for what runs at the start. The answer is the claims that were refused.
    fn claim(
        &mut self,
        scheduler: SchedulerId,
        numbers: &mut RangeFrom<u64>,
        claims: Vec<Claim>,
    ) -> Result<Vec<Claim>, RunError> {
        let mut refused = Vec::new();
        for part in claims.chunks(TRANSACTION_ITEMS_MAX) {
            let number = numbers.next().unwrap_or_default();
            let id = TransactionId { scheduler, number };
            let txn = Transaction::new(id, self.cell.read(Cell::version), part.to_vec());
            let commit = self
                .cell
                .commit(&txn)
                .map_err(|why| RunError::Scheduler { name: "start".into(), why })?;
            let mut placed = Vec::with_capacity(part.len());
            for (claim, index) in part.iter().zip(0..) {
                match commit.conflict_of_claim(index) {
                    None => placed.push((claim.task, claim.machine)),
                    Some(_) => refused.push(*claim),
                }
            }
            self.placed_at_start += placed.len();
            self.schedule_ends(placed);
        }
        Ok(refused)
    }

    fn submit(&mut self, arrival: Arrival) -> Result<JobId, RunError> {
        let name = arrival.job.name.clone();
        self.submitted += arrival.job.task_count();
        match self.cell.apply(Command::SubmitJob(arrival.job)) {
            Ok(Outcome::Job(id)) => {
                self.runs.push(arrival.run);
                Ok(id)
            }
            Ok(_) => unreachable!("submitting a job gives a job"),
            Err(why) => Err(RunError::Job { name, why }),
        }
    }

    // --- The loop ------------------------------------------------------------------------------

    /// Feeds the workload until its last arrival has been tried.
    pub(crate) fn feed(
        &mut self,
        pool: &Pool<'_, Meter>,
        pace: Pace,
        clock: &WallClock,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), RunError> {
        self.changed = self.cell.read(Cell::version);
        self.sample(clock);
        pool.wake();
        loop {
            self.receive();
            let next = self.next_event();
            if self.caught_up() {
                self.tried_ms = next.unwrap_or(self.now_ms);
            }
            let due = match (next, pace) {
                (None, _) => None,
                (Some(at), Pace::Fastest) => {
                    let is_near = at <= self.tried_ms.saturating_add(self.lead_ms);
                    (is_near && self.waiting_tasks() < WINDOW || self.caught_up()).then_some(at)
                }
                (Some(at), Pace::Speed(speed)) => {
                    let now = (clock.seconds() * 1000.0 * speed) as u64;
                    (at <= now).then_some(at)
                }
            };
            match due {
                Some(at) => {
                    self.advance(at, clock)?;
                    pool.wake();
                }
                None if next.is_none() && self.caught_up() && self.settled() => break,
                None => self.wait(),
            }
            progress(self.progress());
        }
        self.sample(clock);
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress {
            submitted: self.submitted,
            tasks: self.tasks,
            placements: self.placements,
            pending: self.pending() as u64,
        }
    }

    /// The time of the next thing that happens, up to the end of the workload.
    fn next_event(&self) -> Option<u64> {
        let arrival = self.arrivals.front().map(|arrival| arrival.at_ms);
        let machine = self.machine_events.front().map(|event| event.at_ms);
        let end = self.ends.peek().map(|Reverse((at, _))| *at).filter(|at| *at <= self.span_ms);
        arrival.into_iter().chain(machine).chain(end).min()
    }

    /// Does all that happens at a time.
    fn advance(&mut self, at_ms: u64, clock: &WallClock) -> Result<(), RunError> {
        self.now_ms = self.now_ms.max(at_ms);
        while self.sampled * self.span_ms < self.now_ms * SAMPLES {
            self.sample(clock);
        }
        while let Some(Reverse((_, id))) = self.ends.peek().filter(|end| end.0.0 <= at_ms) {
            let index = (*id - self.first_end) as usize;
            let tasks = std::mem::take(&mut self.ending[index]);
            self.ends.pop();
            self.end_tasks(tasks);
        }
        while let Some(event) = self.machine_events.pop_front_if(|event| event.at_ms <= at_ms) {
            self.change_machine(event.change)?;
        }
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.at_ms <= at_ms) {
            self.submit(arrival)?;
        }
        // Ended jobs are forgotten once a minute of the workload.
        if self.now_ms >= self.expired_ms + 60_000 {
            self.expired_ms = self.now_ms;
            drop(self.cell.apply(Command::Expire { now_ms: self.now_ms }));
        }
        self.changed = self.cell.read(Cell::version);
        Ok(())
    }

    fn end_tasks(&mut self, tasks: Vec<(TaskId, MachineId)>) {
        while self.ending.front().is_some_and(Vec::is_empty) {
            self.ending.pop_front();
            self.first_end += 1;
        }
        let report = TaskReport::Finished;
        let finished = |(task, machine)| Command::ReportTask { task, machine, report };
        // A task that was lost with its machine has not finished: the cell refuses the report.
        let answers = self.cell.apply_all(tasks.into_iter().map(finished));
        self.finished += answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    }

    fn change_machine(&mut self, change: MachineChange) -> Result<(), RunError> {
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
                        self.cell.read(|cell| cell.machine(id).map_or(0, |m| m.tasks.len()));
                    self.lost += tasks as u64;
                    (name, Command::RemoveMachine { id })
                }
                None => return Ok(()),
            },
        };
        let done = self.cell.apply(command).map(drop);
        done.map_err(|why| RunError::Machine { name, why })
    }

    // --- What the workers tell -----------------------------------------------------------------

    fn receive(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.note(message);
        }
    }

    fn wait(&mut self) {
        match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => self.note(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    fn note(&mut self, message: Message) {
        match message {
            Message::Committed { placed, refused } => {
                self.placements += placed.len() as u64;
                self.conflicts += refused as u64;
                self.schedule_ends(placed);
            }
            Message::Idle { worker, state } => self.idle[worker] = state,
        }
    }

    /// Notes when placed tasks will end; those of a job that run equally long end together.
    fn schedule_ends(&mut self, tasks: Vec<(TaskId, MachineId)>) {
        let end_of = |(task, _): &(TaskId, MachineId)| {
            let run = self.runs.get(task.job.0 as usize)?.of(task.index)?;
            Some(self.now_ms.saturating_add(run))
        };
        let mut ends: Vec<_> = tasks.into_iter().filter_map(|t| Some((end_of(&t)?, t))).collect();
        ends.sort_by_key(|(at, _)| *at);
        for together in ends.chunk_by(|a, b| a.0 == b.0) {
            let id = self.first_end + self.ending.len() as u64;
            self.ends.push(Reverse((together[0].0, id)));
            self.ending.push_back(together.iter().map(|(_, task)| *task).collect());
        }
    }

    /// Tasks that have no machine.
    pub(crate) fn pending(&self) -> usize {
        let placed = self.placements + self.placed_at_start as u64;
        (self.submitted + self.lost).saturating_sub(placed) as usize
    }

    /// Tasks that have no machine and may yet find one.
    fn waiting_tasks(&self) -> usize {
        let unplaceable: usize = self.idle.iter().map(|idle| idle.unplaceable).sum();
        self.pending().saturating_sub(unplaceable)
    }

    /// Whether every worker has tried everything as of the last change that was made here.
    fn caught_up(&self) -> bool {
        self.messages.is_empty() && self.idle.iter().all(|idle| idle.version >= self.changed)
    }

    /// Whether nothing that waits would find room if the run went on. What was tried often in
    /// vain is tried again up to a second later; the end waits for it.
    fn settled(&self) -> bool {
        self.idle.iter().all(|idle| idle.settled)
    }

    fn sample(&mut self, clock: &WallClock) {
        let at_ms = match self.span_ms {
            0 => 0,
            span => (self.sampled * span / SAMPLES).min(self.now_ms),
        };
        self.sampled += 1;
        let (used, running) = self.cell.read(super::outcome::used_shares);
        self.series.push(Sample {
            workload_s: at_ms as f64 / 1000.0,
            wall_s: clock.seconds(),
            pending: self.pending(),
            running,
            placements: self.placements,
            conflicts: self.conflicts,
            used,
        });
    }
}
