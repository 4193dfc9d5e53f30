//! Whole cells of replicas in one thread, determined by a seed.
//!
//! ```text
//!   clients ──ask──▶ ┌──────┐ ──messages──▶ network: lost, late, doubled, cut
//!      ▲             │ host │ ──writes────▶ disk: torn, lost, failing, full, rotting
//!      └──answers─── └──────┘ ◀──safe────── (the store's own code, on a simulated disk)
//!                        │ applied
//!                        ▼
//!                      truth: the same entries, the same state, audited; at the end the history
//! ```
//!
//! A run is a sequence of timed events; the next one is always the earliest. All randomness comes
//! from the seed, so a failed run is repeated by its seed, event by event. It runs the released
//! code of node, replica, log, snapshots and cell.
//!
//! Checks during a run: each replica keeps its promises (`promises.rs`). It applies the agreed
//! entries with the agreed results, and has the state and the members of a cell without faults, also
//! after a restart (`truth.rs`). At every version, the naive reference is compared; at every eighth entry and
//! the last, the cell is audited and the hash of the whole state is compared. Views of a replica have its
//! state. At the end all faults stop. The replicas, in some runs only a majority at first, must
//! agree and accept commands within a bounded time; then the history is checked (`checker.rs`).
//!
//! Injected bugs prove that these checks find errors (`injected_bugs.rs`).

mod agreement;
pub mod checker;
pub mod client;
pub mod clock;
pub mod damage;
mod digest;
mod faults;
mod report;

pub use report::{Report, Violation};
pub mod host;
pub mod injected_bugs;
pub mod network;
pub mod operator;
pub mod plan;
mod promises;
pub mod truth;

use crate::random::{Dice, Generator};
use checker::History;
use client::Client;
use digest::Digest;
use host::{Host, Refused};
use network::Network;
use omega_store::log::{ReplicaId, WriteError};
use omega_store::membership::Membership;
use omega_store::node;
use omega_store::replica::{
    Output, PeerMessage, Reply, RequestId, RetryReason, Settings, SnapshotResult, StartError,
    Started, Stop, TornTail,
};
use operator::Operator;
use plan::{Micros, Plan};
use promises::Promises;
use std::collections::BTreeMap;
use truth::{ENTRIES_BETWEEN, Truth};

/// Duration of a tick.
pub const TICK: Micros = 50_000;

/// Time in microseconds for which a client waits for an answer.
const PATIENCE: Micros = 800_000;

/// Maximum think time of clients in microseconds once all faults are over. It is short, because the replicas' recovery
/// is measured then.
const CALM_THINK_MAX: Micros = 20_000;

/// Maximum time in microseconds until the replicas agree, once all faults are over.
const CALM_MAX: Micros = 20_000_000;

/// Number of events after which it is checked again whether the replicas agree.
const EVENTS_BETWEEN: usize = 20;

/// An event of the run, which happens at its time.
#[derive(Debug)]
enum Event {
    Tick(usize, u64),
    Deliver { from: ReplicaId, to: ReplicaId, message: Box<PeerMessage> },
    LogWork(usize, u64),
    Safe(usize, u64, Option<u64>, bool),
    FileWork(usize, u64),
    SnapshotResult(usize, u64, Box<SnapshotResult>),
    Client(usize),
    Deadline(usize, RequestId),
    Restart(usize),
    Room(usize),
    Clock,
    Operator,
    Fault,
}

/// A whole cell; see the head of the file.
#[derive(Debug)]
pub struct World {
    plan: Plan,
    dice: Dice,
    /// Separate random generator for clocks, so that runs with right clocks do not change.
    clock_dice: Dice,
    now: Micros,
    events: BTreeMap<(Micros, u64), Event>,
    next_event: u64,
    hosts: Vec<Host>,
    network: Network,
    clients: Vec<Client>,
    operator: Operator,
    waiting: BTreeMap<(usize, u64, RequestId), Asker>,
    history: History,
    truth: Truth,
    promises: Promises,
    settings: Settings,
    calm: bool,
    /// Time since which there have been no faults and all replicas have had power.
    well_since: Micros,
    digest: Digest,
    report: Report,
}

/// A caller that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Client(usize),
    Operator,
}

/// Runs one seed.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64) -> Result<Report, Violation> {
    run_with_history(seed).map(|(report, ..)| report)
}

/// Runs one seed, and returns the inputs of the checker with the report.
///
/// # Errors
/// The first violation.
pub fn run_with_history(seed: u64) -> Result<(Report, History, Truth), Violation> {
    run_with_plan(seed, |plan| plan.extend(&mut Dice::new(!seed)))
}

/// Runs a seed with a changed plan: `adjust` changes the plan that was drawn from the seed.
///
/// # Errors
/// The first violation.
pub fn run_with_plan(
    seed: u64,
    adjust: impl FnOnce(&mut Plan),
) -> Result<(Report, History, Truth), Violation> {
    // Failpoints are not used here, and checking each of them takes time.
    omega_store::set_failpoints(false);
    let mut world = World::new(seed, adjust);
    let run = std::panic::AssertUnwindSafe(|| world.run());
    let ended = std::panic::catch_unwind(run);
    omega_store::set_failpoints(true);
    match ended.unwrap_or_else(|_| Err("a panic; its message is above".to_owned())) {
        Ok(()) => Ok((world.report, world.history, world.truth)),
        Err(what) => Err(Violation { seed, at: world.now, what }),
    }
}

impl World {
    fn new(seed: u64, adjust: impl FnOnce(&mut Plan)) -> World {
        let mut dice = Dice::new(seed);
        let mut plan = Plan::draw(&mut dice);
        adjust(&mut plan);
        let kinds = Generator::new(seed).kinds();
        let ids: Vec<ReplicaId> = (1..=plan.replicas as u64).map(ReplicaId).collect();
        let founders = Membership::initial(ids.iter().copied());
        let host = |id: &ReplicaId| {
            let mut host = Host::new(*id, seed ^ id.0, plan.segment_bytes);
            host.bootstrap(&kinds, Some(&founders));
            host
        };
        let node = node::Settings { seed, ..node::Settings::default() };
        let settings = Settings {
            node,
            snapshot_bytes: plan.snapshot_bytes,
            log_keep_bytes: plan.log_keep_bytes,
            log_bytes_max: (16 << 10) + 4 * plan.snapshot_bytes,
            reply_ticks: plan.reply_ticks,
            entries_in_flight: plan.entries_in_flight,
            ..Settings::default()
        };
        let client = |number| {
            let generator = Generator::new(seed.wrapping_mul(31).wrapping_add(number as u64));
            Client::new(number, generator, ids[number % ids.len()])
        };
        World {
            hosts: ids.iter().map(host).collect(),
            clients: (0..plan.clients).map(client).collect(),
            plan,
            dice,
            clock_dice: Dice::new(seed.rotate_left(32)),
            now: 0,
            events: BTreeMap::new(),
            next_event: 0,
            network: Network::default(),
            operator: Operator::new(ids.len() as u64),
            waiting: BTreeMap::new(),
            history: History::default(),
            truth: Truth::sampled(&kinds, ENTRIES_BETWEEN),
            promises: Promises::default(),
            settings,
            calm: false,
            well_since: 0,
            digest: Digest::default(),
            report: Report::default(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for host in 0..self.hosts.len() {
            self.start(host)?;
        }
        self.wind_clocks();
        for client in 0..self.clients.len() {
            self.after(1000 * client as Micros, Event::Client(client));
        }
        self.after(self.plan.fault_every, Event::Fault);
        self.after(TICK, Event::Operator);
        while self.now < self.plan.faulty_for {
            self.next()?;
        }
        self.report.simulated = self.now;
        self.make_calm()?;
        self.recover_without_minority()?;
        while !self.agree() {
            if self.now > self.plan.faulty_for + CALM_MAX {
                return Err(self.why_not());
            }
            for _ in 0..EVENTS_BETWEEN {
                self.next()?;
            }
        }
        for client in &mut self.clients {
            client.end(self.now, &mut self.history);
        }
        self.report.recovery_max = self.now - self.well_since;
        self.report.slowest = self.settings.node.seed;
        self.report.entries = self.truth.last().0;
        self.report.asked = self.history.calls.len();
        self.hosts.iter().for_each(|host| self.digest.host(host));
        self.report.digest = self.digest.value();
        self.audit()?;
        injected_bugs::without_bugs(|| checker::check(&self.history, &self.truth))
    }

    /// Schedules an event after this many microseconds.
    fn after(&mut self, delay: Micros, event: Event) {
        self.events.insert((self.now + delay, self.next_event), event);
        self.next_event += 1;
    }

    /// Executes the earliest event.
    fn next(&mut self) -> Result<(), String> {
        let ((now, _), event) = self.events.pop_first().expect("somebody always ticks");
        self.now = now;
        self.report.events += 1;
        match event {
            Event::Tick(host, life) => {
                if self.lives(host, life) {
                    self.after(self.hosts[host].clock.tick, Event::Tick(host, life));
                    self.with(host, |running| running.replica.tick())?;
                }
            }
            Event::Deliver { from, to, message } => {
                if let Some(host) = self.hosts.iter().position(|host| host.id == to) {
                    self.with(host, |running| running.replica.receive(from, *message))?;
                }
            }
            Event::LogWork(host, life) => self.log_work(host, life)?,
            Event::Safe(host, life, number, full) => {
                if self.lives(host, life) {
                    self.with(host, |running| {
                        running.replica.log_full(full);
                        number.into_iter().for_each(|number| running.replica.persisted(number));
                    })?;
                }
            }
            Event::FileWork(host, life) => self.file_work(host, life),
            Event::SnapshotResult(host, life, done) => {
                if self.lives(host, life) {
                    self.with(host, |running| running.replica.file_done(*done))?;
                }
            }
            Event::Client(client) => self.client(client)?,
            Event::Deadline(client, id) => self.give_up(client, id),
            Event::Restart(host) => self.restart(host)?,
            Event::Clock => self.clock()?,
            Event::Room(host) => self.hosts[host].disk.set_capacity(None),
            Event::Operator => self.operate()?,
            Event::Fault => self.fault()?,
        }
        Ok(())
    }

    /// Whether the replica still runs, and has not been restarted since an event was scheduled for it.
    fn lives(&self, host: usize, life: u64) -> bool {
        self.hosts[host].life == life && self.hosts[host].running.is_some()
    }

    fn start(&mut self, host: usize) -> Result<(), String> {
        let lost = self.is_one_lost();
        let one = &mut self.hosts[host];
        if lost && !one.rotten {
            one.torn_tail = TornTail::Accept;
        }
        match one.start(self.settings) {
            Ok(()) => {
                let life = one.life;
                if one.is_torn() {
                    *self.report.faults.entry("torn tail").or_default() += 1;
                }
                self.remembers(host)?;
                self.compare(host)?;
                let offset = self.dice.below(TICK as usize) as Micros;
                self.after(offset, Event::Tick(host, life));
                self.with(host, |_| {})
            }
            Err(_) if one.rotten => {
                one.gone = true;
                self.operator.replace(one.id);
                self.forgive_torn_tails()
            }
            Err(error) if one.failing && error.is_injected() => {
                self.after(100_000, Event::Restart(host));
                Ok(())
            }
            Err(Refused::Start(StartError::TornTail { .. })) => {
                // The simulation never damages the disk of a cell with a single replica, so an invalid log there can
                // only have a torn end.
                one.torn_tail = TornTail::Accept;
                *self.report.faults.entry("torn tail forgiven").or_default() += 1;
                self.start(host)
            }
            Err(Refused::Start(StartError::Write(WriteError::Full { .. }))) => {
                self.after(100_000, Event::Restart(host));
                Ok(())
            }
            Err(Refused::Directory(error)) => Err(format!("{} refuses to start: {error}", one.id)),
            Err(Refused::Start(error)) => Err(format!("{} refuses to start: {error}", one.id)),
        }
    }

    fn restart(&mut self, host: usize) -> Result<(), String> {
        let one = &self.hosts[host];
        if one.running.is_some() || one.gone || one.kept_down { Ok(()) } else { self.start(host) }
    }

    /// Calls a host's replica, and carries out its effects. If the replica is paused, it is called later.
    fn with(&mut self, host: usize, tell: impl FnOnce(&mut Started)) -> Result<(), String> {
        let one = &mut self.hosts[host];
        let Some(running) = one.running.as_mut() else { return Ok(()) };
        tell(running);
        if self.plan.clocks != plan::Clocks::Right {
            running.replica.propose_time(one.clock.shows_ms(self.now));
        }
        if one.paused_until > self.now {
            return Ok(());
        }
        let output = running.replica.proceed();
        let stopped = running.replica.stopped().map(|stop| {
            let of_disk = matches!(stop, Stop::Log(_));
            (of_disk, stop.to_string())
        });
        self.look(host)?;
        self.follow(host, output)?;
        match stopped {
            Some((of_disk, why)) => self.stopped(host, of_disk, &why),
            None => Ok(()),
        }
    }

    /// Compares the entries that a replica has applied.
    fn look(&mut self, host: usize) -> Result<(), String> {
        let one = &mut self.hosts[host];
        let Some(running) = &one.running else { return Ok(()) };
        let replica = &running.replica;
        self.promises.leads(one.id, replica.node().leadership())?;
        let state = replica.applied().lock();
        let (from, to) = (one.checked, state.position.index);
        if from == to {
            return Ok(());
        }
        if to < from {
            return Err(format!("{} went back from entry {from} to {to}", one.id));
        }
        let mut index = from.next();
        while index <= to {
            // Entries that are in a snapshot are no longer in the log.
            if let Some(entry) = replica.node().entry(index) {
                self.truth.applied(&entry).map_err(|error| format!("{}: {error}", one.id))?;
            }
            index = index.next();
        }
        drop(state);
        one.checked = to;
        self.compare(host)
    }

    /// Carries out a replica's effects.
    fn follow(&mut self, host: usize, output: Output) -> Result<(), String> {
        let life = self.hosts[host].life;
        self.digest.output(self.now, self.hosts[host].id, &output);
        let Output { messages, writes, compact, files, replies, .. } = output;
        let from = self.hosts[host].id;
        let mut said = Ok(());
        for (to, message) in messages {
            if let PeerMessage::Raft(message) = &message {
                said = said.and(self.promises.says(message));
            }
            for delay in self.network.arrivals((from, to), &self.plan, &mut self.dice) {
                let message = Box::new(message.clone());
                self.after(delay, Event::Deliver { from, to, message });
            }
        }
        for (id, answer) in replies {
            if answer == Reply::Retry(RetryReason::NoSnapshot) {
                *self.report.faults.entry("log too long").or_default() += 1;
            }
            self.answer((host, life, id), answer);
        }
        let one = &mut self.hosts[host];
        let Some(running) = one.running.as_mut() else { return said };
        let busy = !writes.is_empty() || compact.is_some();
        writes.into_iter().for_each(|write| running.log.push(write));
        compact.into_iter().for_each(|base| running.log.push_compaction(base));
        if (busy || running.log.is_full()) && !one.log_scheduled {
            one.log_scheduled = true;
            // Writes that arrive while the disk is busy are included in the next sync.
            let delay =
                if busy { 10 } else { 200_000 }.max(one.log_free_at.saturating_sub(self.now));
            self.after(delay, Event::LogWork(host, life));
        }
        let idle = self.hosts[host].file_jobs.is_empty();
        self.hosts[host].file_jobs.extend(files);
        if idle && !self.hosts[host].file_jobs.is_empty() {
            self.after(100, Event::FileWork(host, life));
        }
        said
    }

    fn log_work(&mut self, host: usize, life: u64) -> Result<(), String> {
        if !self.lives(host, life) {
            return Ok(());
        }
        let one = &mut self.hosts[host];
        if one.paused_until > self.now {
            let wait = one.paused_until - self.now;
            self.after(wait, Event::LogWork(host, life));
            return Ok(());
        }
        one.log_scheduled = false;
        let Some(running) = one.running.as_mut() else { return Ok(()) };
        let proven = self.promises.of(one.id);
        let done = running.log.work();
        if matches!(done, Ok(Some(_))) {
            self.promises.proves(one.id, proven);
        }
        let full = running.log.is_full();
        if !one.disk.has_power() {
            return self.crash(host);
        }
        let delay = 20 + self.dice.below(self.disk_max() as usize) as Micros;
        self.hosts[host].log_free_at = self.now + delay;
        match done {
            Ok(number) => {
                // While the disk is full, the replica retries writes by itself.
                if full {
                    self.hosts[host].log_scheduled = true;
                    self.after(200_000, Event::LogWork(host, life));
                }
                self.after(delay, Event::Safe(host, life, number, full));
                Ok(())
            }
            Err(error) => self.log_failed(host, error),
        }
    }

    fn log_failed(&mut self, host: usize, error: WriteError) -> Result<(), String> {
        self.with(host, |running| running.replica.log_failed(error))
    }

    fn disk_max(&self) -> Micros {
        if self.calm { self.plan.disk_max.min(500) } else { self.plan.disk_max }
    }

    fn file_work(&mut self, host: usize, life: u64) {
        if !self.lives(host, life) {
            return;
        }
        let one = &mut self.hosts[host];
        let Some(job) = one.file_jobs.pop_front() else { return };
        let Some(running) = one.running.as_mut() else { return };
        let done = running.files.work(job);
        if !one.disk.has_power() {
            self.after(0, Event::LogWork(host, life));
            return;
        }
        let more = !one.file_jobs.is_empty();
        let delay = 50 + self.dice.below(self.disk_max() as usize) as Micros;
        self.after(delay, Event::SnapshotResult(host, life, Box::new(done)));
        if more {
            self.after(delay, Event::FileWork(host, life));
        }
    }

    fn answer(&mut self, to: (usize, u64, RequestId), answer: Reply) {
        match self.waiting.remove(&to) {
            Some(Asker::Client(client)) => {
                let one = &mut self.clients[client];
                if answer == Reply::Retry(RetryReason::Removed) {
                    // The client continues at any other replica.
                    one.home = ReplicaId(0);
                }
                // An answer to a call that the client has given up is ignored.
                let host = self.hosts[to.0].id;
                let expected = one.pending.as_ref().and_then(|pending| pending.at);
                if expected == Some((host, to.1, to.2)) {
                    one.answered(self.now, Some(answer), &mut self.history);
                    self.think(client);
                }
            }
            Some(Asker::Operator) => self.operator.answered(&answer),
            None => {}
        }
    }

    fn think(&mut self, client: usize) {
        let most = if self.calm { CALM_THINK_MAX } else { Micros::MAX };
        let delay = 1 + self.dice.below(self.plan.think_max.min(most) as usize) as Micros;
        self.after(delay, Event::Client(client));
    }

    /// Lets a client send a new call, or repeat the open one.
    fn client(&mut self, client: usize) -> Result<(), String> {
        let done =
            self.history.calls.len() >= self.operator.asked_before_calm + 3 * self.clients.len();
        let one = &mut self.clients[client];
        if self.calm && one.pending.is_none() && done {
            // The client has made enough calls; the replicas can agree if no new ones arrive.
            return Ok(());
        }
        let up: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].is_up(self.now)).collect();
        if up.is_empty() {
            self.think(client);
            return Ok(());
        }
        let home = up.iter().copied().find(|host| self.hosts[*host].id == one.home);
        let host = match home {
            Some(home) if !self.dice.chance(self.plan.wander) => home,
            _ => *self.dice.pick(&up),
        };
        let (id, life) = (self.hosts[host].id, self.hosts[host].life);
        let Some(running) = self.hosts[host].running.as_mut() else { return Ok(()) };
        let applied = running.replica.applied().clone();
        one.home = id;
        one.sync((id, life), &applied)?;
        if one.pending.is_none() {
            let state = applied.lock();
            let world = (&state.cell, &self.truth);
            one.choose(self.now, self.plan.reads, world, &mut self.dice);
        }
        let Some(ask) = one.ask() else { return Ok(()) };
        let ask_id = running.replica.request(ask);
        if let Some(pending) = &mut one.pending {
            pending.at = Some((id, life, ask_id));
        }
        self.waiting.insert((host, life, ask_id), Asker::Client(client));
        self.after(PATIENCE, Event::Deadline(client, ask_id));
        self.with(host, |_| {})
    }

    /// Handles the timeout of a client's request.
    fn give_up(&mut self, client: usize, id: RequestId) {
        let one = &mut self.clients[client];
        let waits = one.pending.as_ref().and_then(|pending| pending.at);
        if waits.is_some_and(|(.., asked)| asked == id) {
            one.answered(self.now, None, &mut self.history);
            self.think(client);
        }
    }
}
