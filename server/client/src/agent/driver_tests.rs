//! Tests of the driver: the order of directives and reports, and reports that wait for a stream.

use super::super::{RunId, Task, sample, sample_read};
use super::*;
use crate::Address;
use omega_core::JobId;

const HERE: MachineId = MachineId { slot: 1, incarnation: 0 };
const TASK: TaskId = TaskId { job: JobId(0), index: 0 };

fn driver() -> (Driver, mpsc::UnboundedReceiver<Directive>) {
    let connections = Connections::new(&Address::plain(["127.0.0.1:1"])).unwrap();
    let (_, from) = mpsc::unbounded_channel();
    let (to, directives) = mpsc::unbounded_channel();
    (Driver::new(connections, AgentSettings::default(), from, to), directives)
}

fn event(report: TaskReport) -> AgentEvent {
    event_of(0, report)
}

/// A report about the run of the task that was placed at this time.
fn event_of(placed_ms: u64, report: TaskReport) -> AgentEvent {
    let run = RunId { task: TASK, machine: HERE, placed_ms };
    AgentEvent::Task(Reported { run, report, end: None })
}

/// The first directives of a stream: the task, as one of this job.
fn whole(job: &str) -> DirectiveBatch {
    DirectiveBatch { whole: [HERE].into(), ..start(job) }
}

fn start(job: &str) -> DirectiveBatch {
    let task = Task { job_name: job.into(), grace_ms: 60_000, ..sample(0, HERE) };
    DirectiveBatch { starts: vec![(task, false)], ..DirectiveBatch::default() }
}

/// A stopped task may be placed on its machine again before its first run has ended.
#[tokio::test]
async fn the_end_of_a_stopped_run_is_not_the_end_of_the_next_run() {
    let (mut driver, mut directives) = driver();
    driver.apply_directives(whole("job"));
    driver.apply_directives(DirectiveBatch {
        stops: vec![(HERE, TASK)],
        ..DirectiveBatch::default()
    });
    driver.apply_directives(start("job"));
    let mut ordered = || std::iter::from_fn(|| directives.try_recv().ok()).collect::<Vec<_>>();
    assert!(matches!(
        &ordered()[..],
        [Directive::Start(_), Directive::Stop { grace_ms: 60_000, .. }]
    ));
    assert_eq!(driver.take(event(TaskReport::Started)), None, "the first run starts late");
    assert_eq!(driver.take(event(TaskReport::Finished)), None);
    assert!(matches!(&ordered()[..], [Directive::EndConfirmed(_), Directive::Start(_)]));
    assert!(driver.take(event(TaskReport::Started)).is_some());
    assert!(driver.take(event(TaskReport::Finished)).is_some());
    assert_eq!(ordered(), [], "the cell has not confirmed this end");
    driver.apply_directives(DirectiveBatch {
        stops: vec![(HERE, TASK)],
        ..DirectiveBatch::default()
    });
    assert!(matches!(&ordered()[..], [Directive::EndConfirmed(_)]));
    // The cell no longer expects an end of this task.
    assert_eq!(driver.take(event(TaskReport::Finished)), None);
    assert!(matches!(&ordered()[..], [Directive::EndConfirmed(_)]));
}

/// The end of a killed run may be on its way while the run is killed and the task is started again.
#[tokio::test]
async fn the_late_end_of_a_killed_run_is_not_the_end_of_the_next_run() {
    for grace_ms in [0, 1] {
        let (mut driver, mut directives) = driver();
        let task = |placed_ms| Task { placed_ms, grace_ms, ..sample(0, HERE) };
        let starts = |placed_ms| vec![(task(placed_ms), false)];
        driver.apply_directives(DirectiveBatch {
            whole: [HERE].into(),
            starts: starts(7),
            ..DirectiveBatch::default()
        });
        assert!(driver.take(event_of(7, TaskReport::Started)).is_some());
        let stops = vec![(HERE, TASK)];
        driver.apply_directives(DirectiveBatch {
            stops,
            starts: starts(8),
            ..DirectiveBatch::default()
        });
        driver.began -= Duration::from_secs(1);
        driver.kill_late();
        let mut ordered = || std::iter::from_fn(|| directives.try_recv().ok()).collect::<Vec<_>>();
        let first = task(7).run_id();
        let killed = (grace_ms > 0).then_some(Directive::Kill(first));
        let stopped = [Directive::Start(task(7)), Directive::Stop { run: first, grace_ms }];
        let expected = stopped.into_iter().chain(killed).chain([Directive::Start(task(8))]);
        assert_eq!(ordered(), expected.collect::<Vec<_>>());
        for late in [TaskReport::Started, TaskReport::Restarted, TaskReport::Finished] {
            assert_eq!(driver.take(event_of(7, late)), None, "{late:?}");
        }
        assert_eq!(ordered(), [Directive::EndConfirmed(first)]);
        assert!(driver.take(event_of(8, TaskReport::Started)).is_some());
        assert!(driver.take(event_of(8, TaskReport::Failed)).is_some());
        assert_eq!(ordered(), []);
    }
}

/// While the stream is broken, the cell may record the end of a task and place the task here again.
#[tokio::test]
async fn a_recorded_end_is_not_reported_for_the_next_run() {
    let (mut driver, mut directives) = driver();
    let whole = |placed_ms| {
        let starts = vec![(Task { placed_ms, ..sample(0, HERE) }, false)];
        DirectiveBatch { whole: [HERE].into(), starts, ..DirectiveBatch::default() }
    };
    driver.apply_directives(whole(7));
    assert!(driver.take(event_of(7, TaskReport::Failed)).is_some());
    driver.compared.clear();
    assert_eq!(driver.apply_directives(whole(7)).len(), 1, "the cell has not recorded the end");
    let ordered = std::iter::from_fn(|| directives.try_recv().ok()).count();
    driver.compared.clear();
    assert_eq!(driver.apply_directives(whole(8)), []);
    let first = RunId { task: TASK, machine: HERE, placed_ms: 7 };
    let next = Directive::Start(Task { placed_ms: 8, ..sample(0, HERE) });
    let directives: Vec<_> = std::iter::from_fn(|| directives.try_recv().ok()).collect();
    assert_eq!((ordered, directives), (1, vec![Directive::EndConfirmed(first), next]));
}

/// A server may send any number of requests to read logs, and the agent may be slow.
#[tokio::test]
async fn few_of_many_requests_to_read_logs_reach_the_agent() {
    let (mut driver, mut directives) = driver();
    driver.apply_directives(DirectiveBatch {
        reads: (0..1000).map(sample_read).collect(),
        ..DirectiveBatch::default()
    });
    let ordered = std::iter::from_fn(|| directives.try_recv().ok()).count();
    assert!((1..=16).contains(&ordered), "{ordered}");
}

/// A hung replica accepts connections, and gives no answer.
#[tokio::test]
async fn stopped_tasks_are_killed_while_a_stream_is_being_opened() {
    let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::plain([hung.local_addr().unwrap().to_string()]);
    let (mut driver, mut directives) = driver();
    driver.connections = Connections::new(&address).unwrap();
    driver.apply_directives(start("job"));
    let stops = vec![(HERE, TASK)];
    driver.apply_directives(DirectiveBatch { stops, ..DirectiveBatch::default() });
    while directives.try_recv().is_ok() {}
    // The grace period is over.
    driver.began -= Duration::from_secs(60);
    let connection = driver.connections.current();
    tokio::select! {
        directive = directives.recv() => {
            assert_eq!(directive, Some(Directive::Kill(sample(0, HERE).run_id())));
        }
        _ = driver.stream(&connection) => panic!("the replica answers"),
    }
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
    driver.take(AgentEvent::Use(HERE, all()));
    driver.take(AgentEvent::Use(HERE, all()));
    let first = driver.next_uses().uses;
    assert_eq!((first.len(), first[0].cpu_us), (COLUMN_MAX, 4));
    assert_eq!(first[0].machine, Some(HERE.into()));
    driver.take(AgentEvent::Use(other, vec![used(0, 3)]));
    driver.apply_directives(DirectiveBatch { detached: vec![HERE], ..DirectiveBatch::default() });
    assert_eq!(driver.next_uses().uses, [task_use(other, &used(0, 3))]);
    assert_eq!(driver.next_uses().uses, []);
}

/// A new stream may lead to a restored cell, in which another job has the number of a lost one.
#[tokio::test]
async fn reports_wait_until_the_cell_has_named_the_tasks_of_the_machine() {
    use proto::TaskReport::{Finished, Restarted, Started};
    // The cell has not recorded the start, so it is reported again.
    for (job, expected) in [("job", &[Started, Restarted, Finished][..]), ("other", &[])] {
        let (mut driver, mut directives) = driver();
        driver.apply_directives(whole("job"));
        assert!(driver.take(event(TaskReport::Started)).is_some());
        driver.compared.clear();
        assert_eq!(driver.take(event(TaskReport::Restarted)), None);
        assert_eq!(driver.take(event(TaskReport::Finished)), None);
        let reports = driver.apply_directives(whole(job));
        let reports: Vec<_> = reports.iter().flat_map(AgentReport::task_reports).collect();
        assert_eq!(reports, expected, "{job}");
        let ordered = std::iter::from_fn(|| directives.try_recv().ok());
        let starts = ordered.filter(|directive| matches!(directive, Directive::Start(_))).count();
        assert_eq!(starts, if job == "job" { 1 } else { 2 });
    }
}
