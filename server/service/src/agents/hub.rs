//! The tokio task that serves all agents of a leader. It routes changes of the cell to the agents' streams, and passes
//! the agents' heartbeats to the monitor. The task never waits for an agent or a command: a stream whose queue is full
//! is ended, and commands run concurrently.

use super::conditions::Conditions;
use super::connected::Connected;
use super::log_reads::{LogReads, LogSource, ReplySender};
use super::monitor::{Monitor, MonitorSettings, Step};
use super::outbox::{Outbox, StreamId};
use super::routes::Routes;
use super::taints::apply_plan;
use crate::cell_clock::CellClock;
use crate::host::Host;
use omega_cellstate::{Cell, Changed};
use omega_client::agent::{AGENT, Condition, is_unreachable};
use omega_client::{ApiError, proto};
use omega_core::{Command, Machine, MachineId, TaskId, Version};
use omega_store::log::Term;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// Time for which changes are batched before they are routed. Deltas for schedulers are batched for the same time.
const GATHER: Duration = Duration::from_millis(5);

/// Interval of the check for leadership: a fifth of the shortest election timeout.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Interval of the check for silent machines: short compared with a timeout of 40 s.
const STEP: Duration = Duration::from_millis(500);

/// Longest interval at which the cell's time is advanced. While something in the cell depends on time, such as a
/// waiting gang, the time is advanced at every [`CHECK_INTERVAL`]. A leader also advances the time with commands that
/// depend on it.
const EXPIRE: Duration = Duration::from_secs(10);

/// Timeout of a command about the whole cell. After a failure, the next tick repeats the command.
const COMMAND_MAX: Duration = Duration::from_secs(5);

/// A message from a stream to the hub.
#[derive(Debug)]
pub(crate) enum Event {
    /// A stream was opened.
    Open { stream: StreamId, connected: Connected },
    /// The agent attaches the machines in `attach`, and sends heartbeats of the machines in `alive`.
    Heartbeats { stream: StreamId, attach: Vec<MachineId>, alive: Vec<MachineId> },
    /// The agent reports conditions of machines. `done` is dropped when the cell has recorded them.
    Conditions {
        stream: StreamId,
        conditions: Vec<(MachineId, Condition)>,
        done: oneshot::Sender<()>,
    },
    /// Reported ends of tasks that the cell has recorded or rejected.
    Confirmed(Vec<Confirmed>),
    /// A caller requests a task's log.
    ReadLog { from: LogSource, read: proto::ReadLog, reply: ReplySender },
    /// An agent's replies to log requests.
    Logs { stream: StreamId, parts: Vec<proto::LogPart> },
    /// The agent disconnected, or sent an invalid message.
    Close { stream: StreamId, error: Option<ApiError> },
}

/// A reported end of a task. The cell has recorded or rejected it, at `version` or later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmed {
    pub(crate) task: TaskId,
    pub(crate) machine: MachineId,
    pub(crate) version: Version,
}

/// State that exists only while this replica leads.
#[derive(Debug)]
struct LeaderState {
    term: Term,
    monitor: Monitor,
    routes: Routes,
    streams: BTreeMap<StreamId, Connected>,
    reads: LogReads,
    conditions: Conditions,
    /// Version up to which changes are routed.
    since: Version,
    /// Actions in progress. The monitor is called again after they have ended.
    carried: Option<JoinHandle<Vec<Step>>>,
    was_mass_loss: bool,
    next_step: Instant,
    next_expire: Instant,
    clock: CellClock,
}

/// The hub of the connected agents. See the module documentation.
#[derive(Debug)]
pub(crate) struct Hub {
    host: Host,
    settings: MonitorSettings,
    began: Instant,
    lead: Option<LeaderState>,
}

/// Error that an agent gets from a replica that does not lead.
pub(crate) fn no_leader(host: &Host) -> ApiError {
    host.no_leader("agents attach to").retry_after(CHECK_INTERVAL)
}

impl Hub {
    pub(crate) fn new(host: Host, settings: MonitorSettings) -> Hub {
        Hub { host, settings, began: Instant::now(), lead: None }
    }

    /// Runs until the service and its streams are dropped, or the replica has stopped.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        let mut versions = self.host.versions();
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Time at which batched changes are routed; `None` if no changes are waiting.
        let mut due: Option<Instant> = None;
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.handle(event),
                    None => return,
                },
                changed = versions.changed(), if due.is_none() && self.lead.is_some() => {
                    if changed.is_err() {
                        return;
                    }
                    due = Some(Instant::now() + GATHER);
                }
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    due = None;
                    self.read_changes();
                }
                _ = checks.tick() => self.check_leadership().await,
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn handle(&mut self, event: Event) {
        let now = self.now_ms();
        let Some(lead) = &mut self.lead else {
            if let Event::Open { connected, .. } = event {
                // The channel is new, so it has room for the message.
                let _ = connected.to.try_send(no_leader(&self.host).into());
            }
            return;
        };
        let mut out = Outbox::default();
        match event {
            Event::Open { stream, connected } => _ = lead.streams.insert(stream, connected),
            Event::Heartbeats { stream, attach, alive } if lead.streams.contains_key(&stream) => {
                let LeaderState { routes, monitor, .. } = lead;
                if !attach.is_empty() {
                    self.host.read(|cell| {
                        routes.attach(cell, stream, &attach, &mut out);
                        attach.iter().for_each(|id| attached(cell, monitor, *id, now));
                    });
                }
                for id in alive.into_iter().filter(|id| routes.manages(stream, *id)) {
                    monitor.heartbeat(id, now);
                }
            }
            Event::Heartbeats { .. } => {}
            Event::Conditions { stream, conditions, done } => {
                lead.add_conditions(stream, conditions);
                lead.conditions.wait(done);
            }
            Event::Confirmed(all) => self.host.read(|cell| {
                for Confirmed { task, machine, version } in all {
                    lead.routes.confirm(cell, (task, machine), version, &mut out);
                }
            }),
            Event::ReadLog { from, read, reply } => {
                lead.reads.pass_time(now);
                lead.read_log(&from, read, reply, &mut out);
            }
            Event::Logs { stream, parts } => {
                parts.into_iter().for_each(|part| lead.reads.handle_reply(stream, part));
            }
            Event::Close { stream, error } => lead.close(stream, error),
        }
        lead.send(out);
    }

    /// Routes the changes since the last call.
    fn read_changes(&mut self) {
        let now = self.now_ms();
        let Some(lead) = &mut self.lead else { return };
        let mut out = Outbox::default();
        let LeaderState { routes, monitor, since, .. } = lead;
        self.host.read(|cell| {
            let all = || (0..cell.row_count()).map(Changed::Machine);
            match cell.changed_since(*since) {
                Some(changes) => monitor_changed(monitor, cell, changes, now),
                None => monitor_changed(monitor, cell, all(), now),
            }
            routes.apply(cell, cell.changed_since(*since), &mut out);
            *since = cell.version();
        });
        lead.send(out);
    }

    /// Checks whether this replica leads, and performs due actions.
    async fn check_leadership(&mut self) {
        let leadership = self.host.leadership();
        let term = self.lead.as_ref().map(|lead| lead.term);
        if term.is_some_and(|term| !leadership.is_leader || leadership.term != term) {
            let lead = self.lead.take();
            lead.into_iter().for_each(|lead| lead.end(&self.host));
        }
        if self.lead.is_none() && leadership.is_leader {
            self.lead = Some(LeaderState::new(leadership.term, self.settings, self.now_ms()));
            self.read_changes();
        }
        let (now, now_ms) = (Instant::now(), self.now_ms());
        let Some(lead) = &mut self.lead else { return };
        if now >= lead.next_expire || self.host.read(Cell::waits_for_time) {
            lead.next_expire = now + EXPIRE;
            let now_ms = lead.clock.next_ms(self.host.read(Cell::now_ms));
            submit(&self.host, Command::Expire { now_ms });
        }
        lead.conditions.step(&self.host).await;
        if now >= lead.next_step {
            lead.next_step = now + STEP;
            lead.step(&self.host, now_ms).await;
        }
    }
}

impl LeaderState {
    fn new(term: Term, settings: MonitorSettings, now_ms: u64) -> LeaderState {
        let now = Instant::now();
        LeaderState {
            term,
            monitor: Monitor::new(settings, now_ms),
            routes: Routes::default(),
            streams: BTreeMap::new(),
            reads: LogReads::default(),
            conditions: Conditions::default(),
            since: Version(0),
            carried: None,
            was_mass_loss: false,
            next_step: now + STEP,
            // The time is advanced at once, because a new cell has no time yet.
            next_expire: now,
            clock: CellClock::default(),
        }
    }

    /// Ends all streams.
    fn end(self, host: &Host) {
        for connected in self.streams.into_values() {
            // If the stream's queue is full, the stream ends without a message.
            let _ = connected.to.try_send(no_leader(host).into());
        }
    }

    fn send(&mut self, out: Outbox) {
        for (stream, messages) in out.0 {
            for directives in messages {
                let Some(connected) = self.streams.get(&stream) else { break };
                if !connected.queue(directives) {
                    tracing::warn!(
                        stream = stream.0,
                        "an agent does not read its stream: the \
                         stream is ended"
                    );
                    self.close(stream, None);
                }
            }
        }
    }

    /// Notes the conditions of those machines that the stream manages.
    fn add_conditions(&mut self, stream: StreamId, reported: Vec<(MachineId, Condition)>) {
        let LeaderState { routes, conditions, .. } = self;
        let own = reported.into_iter().filter(|(id, _)| routes.manages(stream, *id));
        own.for_each(|(id, condition)| conditions.report(id, condition));
    }

    /// Requests a log from the agents that may have it.
    fn read_log(
        &mut self,
        from: &LogSource,
        read: proto::ReadLog,
        reply: ReplySender,
        out: &mut Outbox,
    ) {
        let of_machines = from.machines.iter().filter_map(|id| self.routes.stream_of(*id));
        let mut targets: BTreeSet<StreamId> = of_machines.collect();
        if from.operators {
            let operators = self.streams.iter().filter(|(_, connected)| connected.is_operator);
            let operators: BTreeSet<StreamId> = operators.map(|(stream, _)| *stream).collect();
            // A busy agent does not keep others from answering.
            let is_free = |stream: &&StreamId| !self.reads.is_busy(stream);
            let free: BTreeSet<StreamId> = operators.iter().filter(is_free).copied().collect();
            targets.extend(if free.is_empty() { operators } else { free });
        }
        let Some(number) = self.reads.begin(targets.clone(), reply) else { return };
        for stream in targets {
            out.of(stream).reads.push(proto::ReadLog { read: number, ..read.clone() });
        }
    }

    fn close(&mut self, stream: StreamId, error: Option<ApiError>) {
        self.routes.close(stream);
        if let (Some(connected), Some(error)) = (self.streams.remove(&stream), error) {
            // If the stream's queue is full, the stream ends without a message.
            let _ = connected.to.try_send(error.into());
        }
    }

    /// Calls the monitor once its previous actions have ended.
    async fn step(&mut self, host: &Host, now_ms: u64) {
        if let Some(carried) = self.carried.take_if(|carried| carried.is_finished()) {
            // The actions do not panic. After a panic, all their steps would count as done.
            let failed = carried.await.unwrap_or_default();
            host.read(|cell| record_failed(&mut self.monitor, cell, failed, now_ms));
        }
        if self.carried.is_some() {
            return;
        }
        let steps = self.monitor.step(now_ms);
        let is_mass_loss = self.monitor.is_evident_mass_loss();
        if is_mass_loss != self.was_mass_loss {
            self.was_mass_loss = is_mass_loss;
            let (machines, silent) = self.monitor.counts();
            if is_mass_loss {
                tracing::warn!(
                    machines,
                    silent,
                    "many machines became unreachable at once: \
                         their tasks stay where they are"
                )
            } else {
                tracing::info!(machines, silent, "enough machines are reachable again")
            }
        }
        if !steps.is_empty() {
            self.carried = Some(tokio::spawn(apply_plan(host.clone(), steps)));
        }
    }
}

/// Starts to monitor a machine that an agent now manages. Attaching it counts as a heartbeat.
fn attached(cell: &Cell, monitor: &mut Monitor, id: MachineId, now_ms: u64) {
    if let Some(state) = cell.machine(id) {
        monitor.watch(id, is_unreachable(state.machine), now_ms);
        monitor.heartbeat(id, now_ms);
    }
}

/// Records failed steps, and reads their machines again. A step with an unknown outcome may have been applied, and the
/// hub may already have read the resulting change. Without the second reading, a machine could keep a taint of which
/// the monitor has no record.
fn record_failed(monitor: &mut Monitor, cell: &Cell, failed: Vec<Step>, now_ms: u64) {
    for step in failed {
        monitor.failed(step);
        if let Some(state) = cell.machine(step.machine()) {
            monitor.watch(state.id, is_unreachable(state.machine), now_ms);
        }
    }
}

/// Adds those changed machines that have an agent to the monitor. Machines that have left the cell are no longer
/// monitored.
fn monitor_changed(
    monitor: &mut Monitor,
    cell: &Cell,
    changes: impl Iterator<Item = Changed>,
    now_ms: u64,
) {
    for change in changes {
        let Changed::Machine(slot) = change else { continue };
        let state = cell.machine_in(slot);
        monitor.row_is_of(slot, state.as_ref().map(|state| state.id.incarnation));
        let has_agent =
            |machine: &Machine| machine.labels.get(AGENT).is_some() || is_unreachable(machine);
        if let Some(state) = state.filter(|state| has_agent(state.machine)) {
            monitor.watch(state.id, is_unreachable(state.machine), now_ms);
        }
    }
}

/// Submits a command in the background. A failure is only logged, because the command is repeated later.
fn submit(host: &Host, command: Command) {
    let host = host.clone();
    tokio::spawn(async move {
        if let Err(error) = host.apply(command, Instant::now() + COMMAND_MAX).await {
            tracing::debug!(%error, "a command of the leader was rejected");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::Caller;
    use crate::agents::taints::taint;
    use crate::overload::memory_accounts::Accounts;
    use omega_core::{Amounts, Kinds, Outcome};
    use tokio::sync::oneshot;

    #[test]
    fn a_log_is_asked_only_of_agents_that_may_have_it() {
        let mut cell = Cell::new(Kinds::standard());
        let added = cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([1]))));
        let Ok(Outcome::Machine(machine)) = added else { panic!("{added:?}") };
        let mut lead = LeaderState::new(Term(1), MonitorSettings::default(), 0);
        let [of_machine, other, operator] = [1, 2, 3].map(StreamId);
        lead.routes.attach(&cell, of_machine, &[machine], &mut Outbox::default());
        let holder = Accounts::new(1, 1).of(&Caller::local());
        for stream in [of_machine, other, operator] {
            let ((to, _), (_alive, _)) = (mpsc::channel(1), oneshot::channel());
            let is_operator = stream == operator;
            lead.streams
                .insert(stream, Connected { to, is_operator, holder: holder.clone(), _alive });
        }
        let mut targets = |machines: &[MachineId], operators| {
            let (mut out, (reply, _answered)) = (Outbox::default(), oneshot::channel());
            let from = LogSource { machines: machines.to_vec(), operators };
            lead.read_log(&from, proto::ReadLog::default(), reply, &mut out);
            out.0.into_keys().collect::<Vec<StreamId>>()
        };
        assert_eq!(targets(&[machine], false), [of_machine]);
        assert_eq!(targets(&[machine], true), [of_machine, operator]);
        assert_eq!(targets(&[], false), []);
    }

    #[test]
    fn only_the_agent_that_manages_a_machine_reports_its_condition() {
        let mut cell = Cell::new(Kinds::standard());
        let [own, foreign] = ["own", "foreign"].map(|name| {
            let machine = Machine::new(name, Amounts::new([1]));
            let added = cell.apply(Command::RegisterMachine(machine));
            let Ok(Outcome::Machine(id)) = added else { panic!("{added:?}") };
            id
        });
        let mut lead = LeaderState::new(Term(1), MonitorSettings::default(), 0);
        for (stream, machine) in [(1, own), (2, foreign)] {
            lead.routes.attach(&cell, StreamId(stream), &[machine], &mut Outbox::default());
        }
        let full = Condition { is_disk_full: true };
        let gone = MachineId { incarnation: 7, ..own };
        let reported = |lead: &mut LeaderState| {
            lead.conditions.take().iter().map(|due| due.id).collect::<Vec<_>>()
        };
        lead.add_conditions(StreamId(1), [own, foreign, gone].map(|id| (id, full)).to_vec());
        assert_eq!(reported(&mut lead), [own]);
        // Another stream takes over the machine.
        lead.routes.attach(&cell, StreamId(3), &[own], &mut Outbox::default());
        lead.add_conditions(StreamId(1), vec![(own, full)]);
        assert_eq!(reported(&mut lead), []);
    }

    #[test]
    fn a_taint_that_was_put_on_too_late_is_taken_off_again() {
        let mut cell = Cell::new(Kinds::standard());
        let machine =
            Machine { taints: Box::new([taint()]), ..Machine::new("m", Amounts::new([1])) };
        let added = cell.apply(Command::RegisterMachine(machine)).expect("it is a machine");
        let Outcome::Machine(id) = added else { panic!("{added:?}") };
        let timeout = MonitorSettings::default().timeout.as_millis() as u64;
        let mut monitor = Monitor::new(MonitorSettings::default(), 0);
        monitor.watch(id, false, 0);
        let silent = monitor.step(timeout);
        assert_eq!(silent, [Step::Taint(id)], "all machines are silent");
        // The command is committed and read, and then the sender of the command times out with an unknown outcome.
        monitor.watch(id, true, timeout);
        record_failed(&mut monitor, &cell, silent, timeout);
        monitor.heartbeat(id, timeout);
        assert_eq!(monitor.step(timeout), [Step::Return(id)]);
    }
}
