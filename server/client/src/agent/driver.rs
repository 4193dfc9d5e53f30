//! The agent's connection: heartbeats, reports, and switching to another replica.
//!
//! Invariant: the records contain all reports about tasks, so that no report is lost when a new stream is opened.

use super::directives::Incoming;
use super::endings::Endings;
use super::outgoing::Outgoing;
use super::records::{Follows, Records, Reported, Told};
use super::reports::{attach, incarnations, task_use, write};
use super::{AgentSettings, Found, LogPart, Order, PAUSE};
use crate::connect::{Connection, Connections, ORDERS_BYTES_MAX};
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
/// an election needs no notice. `TELL_EVERY` is the time between two notices.
const TELL_AFTER: Duration = Duration::from_secs(3);
const TELL_EVERY: Duration = Duration::from_secs(30);

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
pub(super) enum Said {
    Attach(MachineId),
    Task(Reported),
    Load(MachineId, Amounts),
    Use(MachineId, Vec<TaskUse>),
    Capacity(MachineId, Amounts),
    Found(Found),
    /// The reply to a request to read a log, with the number of the request.
    Log(u64, Option<LogPart>),
}

/// The driver. See the module documentation.
pub(super) struct Driver {
    connections: Connections,
    settings: AgentSettings,
    said: mpsc::UnboundedReceiver<Said>,
    orders: mpsc::UnboundedSender<Order>,
    machines: BTreeSet<MachineId>,
    /// Machines of which the cell has named all tasks on this stream. Until then, a task of an earlier cell may have the
    /// id of a new one, so that reports about the machine's tasks wait.
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
        said: mpsc::UnboundedReceiver<Said>,
        orders: mpsc::UnboundedSender<Order>,
    ) -> Driver {
        Driver {
            connections,
            settings,
            said,
            orders,
            machines: BTreeSet::new(),
            compared: BTreeSet::new(),
            restarted: Vec::new(),
            records: Records::default(),
            endings: Endings::default(),
            began: Instant::now(),
            outgoing: Outgoing::default(),
            loads: BTreeMap::new(),
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
                    said = self.said.recv() => match said {
                        Some(said) => _ = self.take(said),
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
            while let Ok(said) = self.said.try_recv() {
                self.take(said);
            }
            // Stopped tasks must be killed in time even if no replica answers.
            self.kill_late();
        }
    }

    /// Notifies operators if machines get no directives for longer than an election takes. Operators are notified at
    /// once of an error that no retry can fix.
    async fn note_failure(&mut self, connection: &Connection, why: Option<ApiError>) {
        let now = Instant::now();
        let (since, told) = *self.failing.get_or_insert((now, None));
        if told.is_some_and(|told| now - told < TELL_EVERY) {
            return;
        }
        let why = match why {
            Some(why) => Some(self.connections.explain(connection, why, 0).await),
            None => None,
        };
        let is_hopeless = why.as_ref().is_some_and(|why| why.code == ErrorCode::Tls);
        let notice = notice(why.as_ref().map(|why| why.code));
        if now - since < TELL_AFTER && !is_hopeless {
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

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// The time at which the next stopped task must be killed, if it has not ended by then.
    fn due(&self) -> Option<Instant> {
        self.endings.next_due().map(|at| self.began + Duration::from_millis(at))
    }

    /// Passes directives to the agent.
    fn order(&self, orders: Vec<Order>) {
        for order in orders {
            // If the receiver was dropped, `stream` returns at its next iteration.
            let _ = self.orders.send(order);
        }
    }

    /// Orders the agent to kill the tasks whose grace period is over.
    fn kill_late(&mut self) {
        let now_ms = self.now_ms();
        let orders = self.endings.due(now_ms);
        self.order(orders);
    }

    /// Exchanges messages on one stream until it breaks.
    async fn stream(&mut self, connection: &Connection) -> Ended {
        let mut client = AgentServiceClient::new(connection.channel.clone())
            .max_decoding_message_size(ORDERS_BYTES_MAX);
        let (to, reports) = mpsc::channel(MESSAGES_MAX);
        let opened = client.attach(ReceiverStream::new(reports));
        let mut orders = match tokio::time::timeout(self.reply_in, opened).await {
            Ok(Ok(opened)) => Incoming::new(opened.into_inner()),
            Ok(Err(status)) => {
                let why = self.connections.explain(connection, status.into(), 0).await;
                return Ended::Stream(Some(why));
            }
            // A hung replica accepts connections, too.
            Err(_) => {
                self.reply_in = (self.reply_in * 2).min(REPLY_MAX);
                return Ended::Stream(Some(ApiError::new(ErrorCode::Late, "no answer came")));
            }
        };
        let all: Vec<MachineId> = self.machines.iter().copied().collect();
        self.outgoing = Outgoing::new(all.chunks(COLUMN_MAX).map(attach));
        let mut heartbeats = tokio::time::interval(self.settings.heartbeat / PARTS);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.due();
            tokio::select! {
                room = to.reserve(), if !self.outgoing.is_empty() || !self.uses.is_empty() => {
                    let Ok(room) = room else { return Ended::Stream(None) };
                    room.send(self.outgoing.take_next().unwrap_or_else(|| self.next_uses()));
                }
                said = self.said.recv() => {
                    let Some(said) = said else { return Ended::Agent };
                    self.gather(said);
                }
                told = orders.next() => {
                    let told = match told {
                        Ok(told) => told,
                        Err(why) => return Ended::Stream(why),
                    };
                    (self.failing, self.reply_in) = (None, REPLY_MIN);
                    self.drain();
                    let reports = self.hear(told);
                    self.outgoing.add_reports(reports);
                }
                () = self.orders.closed() => return Ended::Agent,
                () = until(due) => {
                    self.drain();
                    self.kill_late();
                }
                _ = heartbeats.tick() => self.add_heartbeats(),
            }
        }
    }

    /// Handles all queued messages of the agent. This comes before directives are followed: the end of a run must not be
    /// taken for the end of a later run, which a directive starts.
    fn drain(&mut self) {
        while let Ok(said) = self.said.try_recv() {
            self.gather(said);
        }
    }

    /// Records a message from the agent, and further messages that are queued. Queues the report for the server.
    fn gather(&mut self, first: Said) {
        let mut next = Some(first);
        let (mut attached, mut reports) = (Vec::new(), Vec::new());
        let mut count = 0;
        while let Some(said) = next {
            if let Said::Attach(machine) = &said {
                attached.push(*machine);
            }
            reports.extend(self.take(said));
            count += 1;
            next = if count < COLUMN_MAX { self.said.try_recv().ok() } else { None };
        }
        let mut report = attach(&attached);
        for (machine, used) in std::mem::take(&mut self.loads) {
            let used = convert::values(&used);
            report.loads.push(proto::MachineLoad { machine: Some(machine.into()), used });
        }
        write(&reports, &mut report);
        if report != AgentReport::default() {
            self.outgoing.add_reports([report]);
        }
    }

    /// Handles a message of the agent. Returns the report for the cell, if any.
    fn take(&mut self, said: Said) -> Option<Reported> {
        match said {
            Said::Capacity(machine, has) => self.endings.has(machine, has),
            Said::Found(found) => {
                self.records.found(&found);
                let now_ms = self.now_ms();
                self.endings.found(found, now_ms);
            }
            Said::Attach(machine) => _ = self.machines.insert(machine),
            Said::Log(read, part) => self.outgoing.answer_read(read, part),
            Said::Load(machine, used) => _ = self.loads.insert(machine, used),
            Said::Use(machine, used) => {
                used.into_iter().for_each(|used| self.add_use(machine, used));
            }
            Said::Task(reported) => {
                // A task that the cell has stopped may already be ordered again. Its new run starts when the stopped
                // one has ended, so that reports until then do not concern the cell.
                let Reported { run, report, .. } = reported;
                let is_stopped = self.endings.is_stopping(run) || !self.records.contains(run);
                if !matches!(report, TaskReport::Started | TaskReport::Restarted) {
                    if is_stopped {
                        self.order(vec![Order::EndConfirmed(run)]);
                    }
                    let orders = self.endings.ended(run);
                    self.order(orders);
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
    fn hear(&mut self, mut told: Told) -> Vec<AgentReport> {
        told.reads.retain(|read| self.outgoing.begin_read(read.read));
        told.detached.iter().for_each(|machine| _ = self.machines.remove(machine));
        // Without a right to report about a machine, an agent would lose its stream.
        self.uses.retain(|(machine, _), _| !told.detached.contains(machine));
        self.loads.retain(|machine, _| !told.detached.contains(machine));
        self.restarted.retain(|one| !told.detached.contains(&one.run.machine));
        self.compared.extend(&told.whole);
        told.detached.iter().for_each(|machine| _ = self.compared.remove(machine));
        let Follows { orders, reports } = self.records.hear(told);
        let is_started = |one: &Reported| {
            orders
                .iter()
                .any(|order| matches!(order, Order::Start(task) if task.id == one.run.task))
        };
        // Restarts of a run come before its end, which may be among the other reports.
        let compared = &self.compared;
        let waited = self.restarted.extract_if(.., |one| compared.contains(&one.run.machine));
        let waited = waited.filter(|one| !is_started(one));
        let reports: Vec<Reported> = waited.chain(reports).collect();
        let now_ms = self.now_ms();
        for order in orders {
            let now = self.endings.follow(order, now_ms);
            self.order(now);
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
        let mine = self.machines.iter().filter(|id| id.slot % PARTS == part);
        let mine: Vec<MachineId> = mine.copied().collect();
        let message = |ids: &[MachineId]| AgentReport {
            alive_slots: ids.iter().map(|id| id.slot).collect(),
            alive_incarnations: incarnations(ids),
            ..AgentReport::default()
        };
        self.outgoing.add_heartbeats(mine.chunks(COLUMN_MAX).map(message));
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
mod tests {
    use super::super::{RunId, Task, sample, sample_read};
    use super::*;
    use crate::Address;
    use omega_core::JobId;

    const HERE: MachineId = MachineId { slot: 1, incarnation: 0 };
    const TASK: TaskId = TaskId { job: JobId(0), index: 0 };

    fn driver() -> (Driver, mpsc::UnboundedReceiver<Order>) {
        let connections = Connections::new(&Address::plain(["127.0.0.1:1"])).unwrap();
        let (_, from) = mpsc::unbounded_channel();
        let (to, orders) = mpsc::unbounded_channel();
        (Driver::new(connections, AgentSettings::default(), from, to), orders)
    }

    fn says(report: TaskReport) -> Said {
        says_of(0, report)
    }

    /// A report about the run of the task that was placed at this time.
    fn says_of(placed_ms: u64, report: TaskReport) -> Said {
        let run = RunId { task: TASK, machine: HERE, placed_ms };
        Said::Task(Reported { run, report, end: None })
    }

    /// The first directives of a stream: the task, as one of this job.
    fn whole(job: &str) -> Told {
        Told { whole: [HERE].into(), ..start(job) }
    }

    fn start(job: &str) -> Told {
        let task = Task { job_name: job.into(), grace_ms: 60_000, ..sample(0, HERE) };
        Told { starts: vec![(task, false)], ..Told::default() }
    }

    /// A stopped task may be placed on its machine again before its first run has ended.
    #[tokio::test]
    async fn the_end_of_a_stopped_run_is_not_the_end_of_the_next_run() {
        let (mut driver, mut orders) = driver();
        driver.hear(whole("job"));
        driver.hear(Told { stops: vec![(HERE, TASK)], ..Told::default() });
        driver.hear(start("job"));
        let mut ordered = || std::iter::from_fn(|| orders.try_recv().ok()).collect::<Vec<_>>();
        assert!(matches!(&ordered()[..], [Order::Start(_), Order::Stop { grace_ms: 60_000, .. }]));
        assert_eq!(driver.take(says(TaskReport::Started)), None, "the first run starts late");
        assert_eq!(driver.take(says(TaskReport::Finished)), None);
        assert!(matches!(&ordered()[..], [Order::EndConfirmed(_), Order::Start(_)]));
        assert!(driver.take(says(TaskReport::Started)).is_some());
        assert!(driver.take(says(TaskReport::Finished)).is_some());
        assert_eq!(ordered(), [], "the cell has not confirmed this end");
        driver.hear(Told { stops: vec![(HERE, TASK)], ..Told::default() });
        assert!(matches!(&ordered()[..], [Order::EndConfirmed(_)]));
        // The cell no longer expects an end of this task.
        assert_eq!(driver.take(says(TaskReport::Finished)), None);
        assert!(matches!(&ordered()[..], [Order::EndConfirmed(_)]));
    }

    /// The end of a killed run may be on its way while the run is killed and the task is started again.
    #[tokio::test]
    async fn the_late_end_of_a_killed_run_is_not_the_end_of_the_next_run() {
        for grace_ms in [0, 1] {
            let (mut driver, mut orders) = driver();
            let task = |placed_ms| Task { placed_ms, grace_ms, ..sample(0, HERE) };
            let starts = |placed_ms| vec![(task(placed_ms), false)];
            driver.hear(Told { whole: [HERE].into(), starts: starts(7), ..Told::default() });
            assert!(driver.take(says_of(7, TaskReport::Started)).is_some());
            let stops = vec![(HERE, TASK)];
            driver.hear(Told { stops, starts: starts(8), ..Told::default() });
            driver.began -= Duration::from_secs(1);
            driver.kill_late();
            let mut ordered = || std::iter::from_fn(|| orders.try_recv().ok()).collect::<Vec<_>>();
            let first = task(7).run_id();
            let killed = (grace_ms > 0).then_some(Order::Kill(first));
            let stopped = [Order::Start(task(7)), Order::Stop { run: first, grace_ms }];
            let expected = stopped.into_iter().chain(killed).chain([Order::Start(task(8))]);
            assert_eq!(ordered(), expected.collect::<Vec<_>>());
            for late in [TaskReport::Started, TaskReport::Restarted, TaskReport::Finished] {
                assert_eq!(driver.take(says_of(7, late)), None, "{late:?}");
            }
            assert_eq!(ordered(), [Order::EndConfirmed(first)]);
            assert!(driver.take(says_of(8, TaskReport::Started)).is_some());
            assert!(driver.take(says_of(8, TaskReport::Failed)).is_some());
            assert_eq!(ordered(), []);
        }
    }

    /// While the stream is broken, the cell may record the end of a task and place the task here again.
    #[tokio::test]
    async fn a_recorded_end_is_not_reported_for_the_next_run() {
        let (mut driver, mut orders) = driver();
        let whole = |placed_ms| {
            let starts = vec![(Task { placed_ms, ..sample(0, HERE) }, false)];
            Told { whole: [HERE].into(), starts, ..Told::default() }
        };
        driver.hear(whole(7));
        assert!(driver.take(says_of(7, TaskReport::Failed)).is_some());
        driver.compared.clear();
        assert_eq!(driver.hear(whole(7)).len(), 1, "the cell has not recorded the end");
        let ordered = std::iter::from_fn(|| orders.try_recv().ok()).count();
        driver.compared.clear();
        assert_eq!(driver.hear(whole(8)), []);
        let first = RunId { task: TASK, machine: HERE, placed_ms: 7 };
        let next = Order::Start(Task { placed_ms: 8, ..sample(0, HERE) });
        let orders: Vec<_> = std::iter::from_fn(|| orders.try_recv().ok()).collect();
        assert_eq!((ordered, orders), (1, vec![Order::EndConfirmed(first), next]));
    }

    /// A server may send any number of requests to read logs, and the agent may be slow.
    #[tokio::test]
    async fn few_of_many_requests_to_read_logs_reach_the_agent() {
        let (mut driver, mut orders) = driver();
        driver.hear(Told { reads: (0..1000).map(sample_read).collect(), ..Told::default() });
        let ordered = std::iter::from_fn(|| orders.try_recv().ok()).count();
        assert!((1..=16).contains(&ordered), "{ordered}");
    }

    /// While no replica is reachable, use is summed up. A detached machine's use is dropped.
    #[tokio::test]
    async fn use_waits_until_it_can_be_sent() {
        let (mut driver, _orders) = driver();
        let other = MachineId { slot: 2, incarnation: 0 };
        let used = |index: usize, cpu_us| TaskUse {
            task: TaskId { job: JobId(0), index: index as u32 },
            cpu_us,
            memory_byte_seconds: 1,
        };
        let all = || (0..USES_MAX + 5).map(|index| used(index, 2)).collect();
        driver.take(Said::Use(HERE, all()));
        driver.take(Said::Use(HERE, all()));
        let first = driver.next_uses().uses;
        assert_eq!((first.len(), first[0].cpu_us), (COLUMN_MAX, 4));
        assert_eq!(first[0].machine, Some(HERE.into()));
        driver.take(Said::Use(other, vec![used(0, 3)]));
        driver.hear(Told { detached: vec![HERE], ..Told::default() });
        assert_eq!(driver.next_uses().uses, [task_use(other, &used(0, 3))]);
        assert_eq!(driver.next_uses().uses, []);
    }

    /// A new stream may lead to a restored cell, in which another job has the number of a lost one.
    #[tokio::test]
    async fn reports_wait_until_the_cell_has_named_the_tasks_of_the_machine() {
        use proto::TaskReport::{Finished, Restarted};
        for (job, expected) in [("job", &[Restarted, Finished][..]), ("other", &[])] {
            let (mut driver, mut orders) = driver();
            driver.hear(whole("job"));
            assert!(driver.take(says(TaskReport::Started)).is_some());
            driver.compared.clear();
            assert_eq!(driver.take(says(TaskReport::Restarted)), None);
            assert_eq!(driver.take(says(TaskReport::Finished)), None);
            let reports = driver.hear(whole(job));
            let reports: Vec<_> = reports.iter().flat_map(AgentReport::task_reports).collect();
            assert_eq!(reports, expected, "{job}");
            let ordered = std::iter::from_fn(|| orders.try_recv().ok());
            let starts = ordered.filter(|order| matches!(order, Order::Start(_))).count();
            assert_eq!(starts, if job == "job" { 1 } else { 2 });
        }
    }
}
