//! The agent's connection: heartbeats, reports, and switching to another replica.
//!
//! Invariant: the records contain all reports about tasks, so that no report is lost when a new stream is opened.

use super::conditions::Conditions;
use super::directives::Incoming;
use super::endings::Endings;
use super::outgoing::Outgoing;
use super::records::{DirectiveBatch, Follows, Records, Reported};
use super::reports::{attach, incarnations, task_use, write};
use super::{AgentSettings, Condition, Directive, LogPart, PAUSE, RecoveredTask};
use crate::connect::{Connection, Connections, DIRECTIVES_BYTES_MAX};
use crate::convert;
use crate::proto::agent_service_client::AgentServiceClient;
use crate::proto::{self, AgentReport};
use crate::{ApiError, ErrorCode};
use omega_core::text::shown;
use omega_core::{Amounts, MachineId, TaskId, TaskReport, TaskUse};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;

/// Maximum number of values in one list of a message, which is the server's limit.
const COLUMN_MAX: usize = 4096;

/// Number of parts into which the machines are divided. The parts send heartbeats one after the other, so that an agent
/// with very many machines loads a server evenly.
const PARTS: u32 = 10;

/// Time without directives from any replica after which operators are notified. It is longer than an election, because
/// an election needs no notice. `NOTICE_INTERVAL` is the time between two notices.
const NOTICE_AFTER: Duration = Duration::from_secs(3);
const NOTICE_INTERVAL: Duration = Duration::from_secs(30);

/// Time limit for a replica's first reply to a new stream. It doubles with each replica that does not reply in time, up
/// to `REPLY_MAX`, because replicas may be slow instead of hung.
const REPLY_MIN: Duration = Duration::from_secs(1);
const REPLY_MAX: Duration = Duration::from_secs(8);

/// Maximum number of tasks whose use waits to be reported. While no replica is reachable, the use of further tasks is
/// dropped.
const USES_MAX: usize = 100_000;

/// Maximum number of restarts that wait to be reported. While no replica is reachable, further ones are dropped.
const RESTARTED_MAX: usize = 100_000;

/// Maximum number of messages that wait to be written to a stream.
const MESSAGES_MAX: usize = 4;

/// A message from the agent to the driver.
#[derive(Debug)]
pub(super) enum AgentEvent {
    Attach(MachineId),
    Task(Reported),
    Load(MachineId, Amounts),
    Condition(MachineId, Condition),
    Use(MachineId, Vec<TaskUse>),
    Capacity(MachineId, Amounts),
    Recovered(RecoveredTask),
    /// The reply to a request to read a log, with the number of the request.
    Log(u64, Option<LogPart>),
}

/// The driver. See the module documentation.
pub(super) struct Driver {
    connections: Connections,
    settings: AgentSettings,
    events: mpsc::UnboundedReceiver<AgentEvent>,
    directives: mpsc::UnboundedSender<Directive>,
    machines: BTreeSet<MachineId>,
    /// Machines of which the cell has named all tasks on this stream. Until then, a task of an earlier cell may have
    /// the id of a new one, so that reports about the machine's tasks wait.
    compared: BTreeSet<MachineId>,
    /// Restarts that were reported before their machine was compared. The records keep other reports.
    restarted: Vec<Reported>,
    records: Records,
    endings: Endings,
    /// Zero point of the times in `endings`.
    began: Instant,
    /// Messages of the present stream that are not sent yet.
    outgoing: Outgoing,
    /// Load reports that are not sent yet.
    loads: BTreeMap<MachineId, Amounts>,
    conditions: Conditions,
    /// Use that is not reported yet.
    uses: BTreeMap<(MachineId, TaskId), TaskUse>,
    /// Number of the part of the machines that sends the next heartbeats.
    part: u32,
    /// Time limit for the first reply to the next stream.
    reply_in: Duration,
    /// Time of the first failure since the last directives, and time of the last notice to operators.
    failing: Option<(Instant, Option<Instant>)>,
}

/// Reason why a stream has ended.
enum Ended {
    /// The agent, or the receiver of its directives, was dropped.
    Agent,
    /// The stream broke, or could not be opened. The field contains the reason, if known.
    Stream(Option<ApiError>),
}

impl Driver {
    pub(super) fn new(
        connections: Connections,
        settings: AgentSettings,
        events: mpsc::UnboundedReceiver<AgentEvent>,
        directives: mpsc::UnboundedSender<Directive>,
    ) -> Driver {
        Driver {
            connections,
            settings,
            events,
            directives,
            machines: BTreeSet::new(),
            compared: BTreeSet::new(),
            restarted: Vec::new(),
            records: Records::default(),
            endings: Endings::default(),
            began: Instant::now(),
            outgoing: Outgoing::default(),
            loads: BTreeMap::new(),
            conditions: Conditions::default(),
            uses: BTreeMap::new(),
            part: 0,
            reply_in: REPLY_MIN,
            failing: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            if self.machines.is_empty() {
                // While the agent manages no machine, no stream is kept open.
                let due = self.due();
                tokio::select! {
                    event = self.events.recv() => match event {
                        Some(event) => _ = self.take(event),
                        None => return,
                    },
                    // On machines that the agent no longer manages, stopped tasks may still have to be killed.
                    () = until(due) => self.kill_late(),
                }
                continue;
            }
            let connection = self.connections.current();
            match self.stream(&connection).await {
                Ended::Agent => return,
                Ended::Stream(Some(why)) => {
                    self.connections.leave_for(&connection, &why);
                    self.note_failure(&connection, Some(why)).await;
                }
                Ended::Stream(None) => {
                    self.connections.leave(&connection);
                    self.note_failure(&connection, None).await;
                }
            }
            self.compared.clear();
            tokio::time::sleep(PAUSE).await;
            self.take_all();
            // Stopped tasks must be killed in time even if no replica answers.
            self.kill_late();
        }
    }

    /// Notifies operators if machines get no directives for longer than an election takes. Operators are notified at
    /// once of an error that no retry can fix.
    async fn note_failure(&mut self, connection: &Connection, why: Option<ApiError>) {
        let now = Instant::now();
        let (since, last_notice) = *self.failing.get_or_insert((now, None));
        if last_notice.is_some_and(|last| now - last < NOTICE_INTERVAL) {
            return;
        }
        let why = match why {
            Some(why) => Some(self.connections.explain(connection, why, 0).await),
            None => None,
        };
        let is_hopeless = why.as_ref().is_some_and(|why| why.code == ErrorCode::Tls);
        let notice = notice(why.as_ref().map(|why| why.code));
        if now - since < NOTICE_AFTER && !is_hopeless {
            return;
        }
        self.failing = Some((since, Some(now)));
        // The server may be another program.
        let why = why.map_or("the stream broke".to_owned(), |why| shown(&why.message));
        tracing::warn!(
            replica = %connection.address,
            machines = self.machines.len(),
            for_s = (now - since).as_secs(),
            %why,
            "{notice}"
        );
    }

    /// Notifies operators of the end of a failure that was logged.
    fn note_recovery(&mut self, connection: &Connection) {
        if let Some((since, Some(_))) = self.failing.take() {
            let for_s = since.elapsed().as_secs();
            tracing::info!(replica = %connection.address, for_s, "the cell answers again");
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// The time at which the next stopped task must be killed, if it has not ended by then.
    fn due(&self) -> Option<Instant> {
        self.endings.next_due().map(|at| self.began + Duration::from_millis(at))
    }

    /// Passes directives to the agent.
    fn send_directives(&self, directives: Vec<Directive>) {
        for directive in directives {
            // If the receiver was dropped, `stream` returns at its next iteration.
            let _ = self.directives.send(directive);
        }
    }

    /// Orders the agent to kill the tasks whose grace period is over.
    fn kill_late(&mut self) {
        let now_ms = self.now_ms();
        let directives = self.endings.due(now_ms);
        self.send_directives(directives);
    }

    /// Opens a stream. Stopped tasks are killed in time even if the replica takes long.
    async fn open(
        &mut self,
        connection: &Connection,
        reports: mpsc::Receiver<AgentReport>,
    ) -> Result<Incoming, ApiError> {
        let mut client = AgentServiceClient::new(connection.channel.clone())
            .max_decoding_message_size(DIRECTIVES_BYTES_MAX);
        let opened = client.attach(ReceiverStream::new(reports));
        let mut opened = std::pin::pin!(tokio::time::timeout(self.reply_in, opened));
        let opened = loop {
            let due = self.due();
            tokio::select! {
                opened = &mut opened => break opened,
                () = until(due) => {
                    self.take_all();
                    self.kill_late();
                }
            }
        };
        match opened {
            Ok(Ok(opened)) => Ok(Incoming::new(opened.into_inner())),
            Ok(Err(status)) => Err(self.connections.explain(connection, status.into(), 0).await),
            // A hung replica accepts connections, too.
            Err(_) => {
                self.reply_in = (self.reply_in * 2).min(REPLY_MAX);
                Err(ApiError::new(ErrorCode::Late, "no answer came"))
            }
        }
    }

    /// Exchanges messages on one stream until it breaks.
    async fn stream(&mut self, connection: &Connection) -> Ended {
        let (to, reports) = mpsc::channel(MESSAGES_MAX);
        let mut incoming = match self.open(connection, reports).await {
            Ok(incoming) => incoming,
            Err(why) => return Ended::Stream(Some(why)),
        };
        let all: Vec<MachineId> = self.machines.iter().copied().collect();
        let conditions = &mut self.conditions;
        let first = |ids: &[MachineId]| {
            let conditions = conditions.take(ids);
            AgentReport { conditions, ..attach(ids) }
        };
        self.outgoing = Outgoing::new(all.chunks(COLUMN_MAX).map(first));
        let mut heartbeats = tokio::time::interval(self.settings.heartbeat / PARTS);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.due();
            tokio::select! {
                room = to.reserve(), if !self.outgoing.is_empty() || !self.uses.is_empty() => {
                    let Ok(room) = room else { return Ended::Stream(None) };
                    room.send(self.outgoing.take_next().unwrap_or_else(|| self.next_uses()));
                }
                event = self.events.recv() => {
                    let Some(event) = event else { return Ended::Agent };
                    self.gather(event);
                }
                batch = incoming.next() => {
                    let batch = match batch {
                        Ok(batch) => batch,
                        Err(why) => return Ended::Stream(why),
                    };
                    self.note_recovery(connection);
                    self.reply_in = REPLY_MIN;
                    self.drain();
                    let reports = self.apply_directives(batch);
                    self.outgoing.add_reports(reports);
                }
                () = self.directives.closed() => return Ended::Agent,
                () = until(due) => {
                    self.drain();
                    self.kill_late();
                }
                _ = heartbeats.tick() => self.add_heartbeats(),
            }
        }
    }

    /// Handles all queued messages of the agent while no stream is open. The records keep the reports.
    fn take_all(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.take(event);
        }
    }

    /// Handles all queued messages of the agent. This comes before directives are followed: the end of a run must not
    /// be taken for the end of a later run, which a directive starts.
    fn drain(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.gather(event);
        }
    }

    /// Records a message from the agent, and further messages that are queued. Queues the report for the server.
    fn gather(&mut self, first: AgentEvent) {
        let mut next = Some(first);
        let (mut attached, mut reports) = (Vec::new(), Vec::new());
        let mut count = 0;
        while let Some(event) = next {
            if let AgentEvent::Attach(machine) = &event {
                attached.push(*machine);
            }
            reports.extend(self.take(event));
            count += 1;
            next = if count < COLUMN_MAX { self.events.try_recv().ok() } else { None };
        }
        let mut report = attach(&attached);
        for (machine, used) in std::mem::take(&mut self.loads) {
            let used = convert::values(&used);
            report.loads.push(proto::MachineLoad { machine: Some(machine.into()), used });
        }
        report.conditions = self.conditions.take_unsent(&self.machines);
        write(&reports, &mut report);
        if report != AgentReport::default() {
            self.outgoing.add_reports([report]);
        }
    }

    /// Handles a message of the agent. Returns the report for the cell, if any.
    fn take(&mut self, event: AgentEvent) -> Option<Reported> {
        match event {
            AgentEvent::Capacity(machine, has) => self.endings.has(machine, has),
            AgentEvent::Recovered(recovered) => {
                self.records.add_recovered(&recovered);
                let now_ms = self.now_ms();
                self.endings.add_recovered(recovered, now_ms);
            }
            AgentEvent::Attach(machine) => _ = self.machines.insert(machine),
            AgentEvent::Log(read, part) => self.outgoing.add_reply(read, part),
            AgentEvent::Load(machine, used) => _ = self.loads.insert(machine, used),
            AgentEvent::Condition(machine, condition) => self.conditions.report(machine, condition),
            AgentEvent::Use(machine, used) => {
                used.into_iter().for_each(|used| self.add_use(machine, used));
            }
            AgentEvent::Task(reported) => {
                // A task that the cell has stopped may already be ordered again. Its new run starts when the stopped
                // one has ended, so that reports until then do not concern the cell.
                let Reported { run, report, .. } = reported;
                let is_stopped = self.endings.is_stopping(run) || !self.records.contains(run);
                if !matches!(report, TaskReport::Started | TaskReport::Restarted) {
                    if is_stopped {
                        self.send_directives(vec![Directive::EndConfirmed(run)]);
                    }
                    let directives = self.endings.ended(run);
                    self.send_directives(directives);
                }
                if is_stopped || !self.records.report(&reported) {
                    return None;
                }
                if self.compared.contains(&run.machine) {
                    return Some(reported);
                }
                if report == TaskReport::Restarted && self.restarted.len() < RESTARTED_MAX {
                    self.restarted.push(reported);
                }
            }
        }
        None
    }

    /// Adds the use of a task to its use that is not reported yet.
    fn add_use(&mut self, machine: MachineId, used: TaskUse) {
        let place = (machine, used.task);
        if let Some(sum) = self.uses.get_mut(&place) {
            sum.cpu_us = sum.cpu_us.saturating_add(used.cpu_us);
            sum.memory_byte_seconds =
                sum.memory_byte_seconds.saturating_add(used.memory_byte_seconds);
        } else if self.uses.len() < USES_MAX {
            self.uses.insert(place, used);
        }
    }

    /// The next report of use.
    fn next_uses(&mut self) -> AgentReport {
        let mut uses = Vec::new();
        while uses.len() < COLUMN_MAX
            && let Some(((machine, _), used)) = self.uses.pop_first()
        {
            uses.push(task_use(machine, &used));
        }
        AgentReport { uses, ..AgentReport::default() }
    }

    /// Handles directives of the cell. Returns the reports that follow from them.
    fn apply_directives(&mut self, mut batch: DirectiveBatch) -> Vec<AgentReport> {
        batch.reads.retain(|read| self.outgoing.begin_read(read.read));
        batch.detached.iter().for_each(|machine| _ = self.machines.remove(machine));
        // Without a right to report about a machine, an agent would lose its stream.
        self.uses.retain(|(machine, _), _| !batch.detached.contains(machine));
        self.loads.retain(|machine, _| !batch.detached.contains(machine));
        batch.detached.iter().for_each(|machine| self.conditions.forget(*machine));
        self.restarted.retain(|one| !batch.detached.contains(&one.run.machine));
        self.compared.extend(&batch.whole);
        batch.detached.iter().for_each(|machine| _ = self.compared.remove(machine));
        let Follows { directives, reports } = self.records.apply(batch);
        let is_started = |one: &Reported| {
            directives.iter().any(
                |directive| matches!(directive, Directive::Start(task) if task.id == one.run.task),
            )
        };
        // Restarts of a run come after its start and before its end, which may be among the other reports.
        let compared = &self.compared;
        let waited = self.restarted.extract_if(.., |one| compared.contains(&one.run.machine));
        let waited = waited.filter(|one| !is_started(one));
        let is_start = |one: &Reported| one.report == TaskReport::Started;
        let (starts, ends): (Vec<_>, Vec<_>) = reports.into_iter().partition(is_start);
        let reports: Vec<Reported> = starts.into_iter().chain(waited).chain(ends).collect();
        let now_ms = self.now_ms();
        for directive in directives {
            let now = self.endings.follow(directive, now_ms);
            self.send_directives(now);
        }
        let message = |reports: &[_]| {
            let mut report = AgentReport::default();
            write(reports, &mut report);
            report
        };
        reports.chunks(COLUMN_MAX).map(message).collect()
    }

    /// Queues the heartbeats of the next part of the machines, unless the server is too slow.
    fn add_heartbeats(&mut self) {
        if self.outgoing.is_behind() {
            return;
        }
        let part = self.part;
        self.part = (part + 1) % PARTS;
        let machines_of_part = self.machines.iter().filter(|id| id.slot % PARTS == part);
        let machines_of_part: Vec<MachineId> = machines_of_part.copied().collect();
        let message = |ids: &[MachineId]| AgentReport {
            alive_slots: ids.iter().map(|id| id.slot).collect(),
            alive_incarnations: incarnations(ids),
            ..AgentReport::default()
        };
        self.outgoing.add_heartbeats(machines_of_part.chunks(COLUMN_MAX).map(message));
    }
}

/// The notice to operators about a stream that ends with this error.
fn notice(code: Option<ErrorCode>) -> &'static str {
    use ErrorCode::{Late, NoLeader, OutcomeUnknown, Unreachable};
    match code {
        Some(NoLeader) => {
            "none of the given replicas leads the cell: name all replicas with --cell"
        }
        None | Some(Unreachable | Late | OutcomeUnknown) => "no leader of the cell answers",
        Some(_) => "the cell refuses the agent",
    }
}

/// Waits until a time, or forever if there is none.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
