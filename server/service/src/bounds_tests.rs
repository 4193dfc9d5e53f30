//! Tests of the server's bounds: a served cell on loopback, with clients that send the largest accepted messages, or
//! read nothing.

use crate::access::identity::{Caller, Role};
use crate::overload::limits::{CallLimits, Deadlines, Limits};
use crate::server::serve_as;
use crate::{Extras, Host, ListenerConfig, ReplicaIdentity, serve_clients};
use http_body::Body as _;
use omega_cellstate::{Cell, SharedCell};
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::limits::JOB_BYTES_MAX;
use omega_core::{
    Amounts, Command, Job, Kinds, Labels, Machine, Outcome, Policy, TaskGroup, TaskId,
    bytes_at_most,
};
use omega_store::CellId;
use omega_store::log::ReplicaId;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::ServiceExt;

/// A cell in memory, served until the test ends.
struct Served {
    cell: SharedCell,
    address: String,
}

/// A cell in memory, served to several callers at separate addresses under shared limits.
struct Shared {
    cell: SharedCell,
    addresses: Vec<String>,
    call_limits: CallLimits,
}

impl Shared {
    async fn start(limits: Limits, callers: Vec<Caller>) -> Shared {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let (host, call_limits) = (Host::memory(cell.clone()), CallLimits::new(limits));
        let mut addresses = Vec::new();
        for caller in callers {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(format!("http://{}", listener.local_addr().unwrap()));
            let listener_config = ListenerConfig { limits, ..ListenerConfig::open(listener) };
            tokio::spawn(serve_as(caller, listener_config, call_limits.clone(), host.clone()));
        }
        Shared { cell, addresses, call_limits }
    }

    /// Connects as a caller, with flow-control windows of 64 KiB for each stream and for all streams together.
    async fn channel(&self, caller: usize) -> Channel {
        let endpoint = Channel::from_shared(self.addresses[caller].clone()).unwrap();
        let endpoint = endpoint.initial_stream_window_size(65_535);
        endpoint.initial_connection_window_size(65_535).connect().await.unwrap()
    }

    /// The cell as seen by one caller.
    fn as_caller(&self, caller: usize) -> Served {
        Served { cell: self.cell.clone(), address: self.addresses[caller].clone() }
    }

    fn buffered(&self) -> usize {
        self.call_limits.accounts().bytes()
    }

    /// Waits until at most this many bytes are held for readers.
    async fn await_buffered_at_most(&self, bytes: usize) {
        while self.buffered() > bytes {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn reader(name: &str) -> Caller {
    Caller { name: name.into(), role: Role::Reader(Vec::new()) }
}

/// A request body that begins with these bytes and never ends.
struct Hung(Vec<u8>);

impl http_body::Body for Hung {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Status>>> {
        match std::mem::take(&mut self.0) {
            begun if begun.is_empty() => Poll::Pending,
            begun => Poll::Ready(Some(Ok(http_body::Frame::data(begun.into())))),
        }
    }
}

/// The beginning of a message of 4 MiB: its header, and some bytes of content.
fn begun(bytes: usize) -> Vec<u8> {
    let mut message = vec![0];
    message.extend((4_u32 << 20).to_be_bytes());
    message.resize(5 + bytes, 0);
    message
}

/// Sends the beginning of a message, and returns the error with which the call ends.
async fn hung(channel: Channel, path: &str, sent: Vec<u8>) -> ApiError {
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Hung(sent)))
        .unwrap();
    let response = channel.oneshot(request).await.unwrap();
    if let Some(status) = Status::from_header_map(response.headers()) {
        return status.into();
    }
    let mut body = response.into_body();
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().unwrap();
        if let Some(trailers) = frame.trailers_ref() {
            return Status::from_header_map(trailers).unwrap().into();
        }
    }
}

const GET_JOB: &str = "/omega.v1.JobService/GetJob";
const COMMIT_STREAM: &str = "/omega.v1.SchedulingService/CommitStream";

/// Limits with deadlines of an hour, for tests.
fn patient() -> Limits {
    let hour = Duration::from_secs(3600);
    Limits { deadlines: Deadlines { usual: hour, max: hour }, ..Limits::default() }
}

impl Served {
    async fn start() -> Served {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let me = ReplicaIdentity { cell: CellId(1), replica: ReplicaId(1) };
        let host = Host::memory(cell.clone());
        let listener_config = ListenerConfig::open(listener);
        let end = std::future::pending();
        tokio::spawn(serve_clients(listener_config, host, me, Extras::default(), end));
        Served { cell, address }
    }

    /// A connection with the usual limits of a client: 4 MiB per message.
    async fn channel(&self) -> Channel {
        Channel::from_shared(self.address.clone()).unwrap().connect().await.unwrap()
    }

    fn submit(&self, job: Job) -> u64 {
        match self.cell.apply(Command::SubmitJob(job)).unwrap() {
            Outcome::Job(id) => id.0,
            other => panic!("{other:?}"),
        }
    }

    /// The initial state that is sent to a scheduler of all jobs.
    async fn synced(&self) -> proto::Delta {
        let interest = proto::sync_request::Interest::AllJobs(proto::sync_request::AllJobs {});
        let requested = proto::SyncRequest { interest: Some(interest), ..Default::default() };
        let mut client = SchedulingServiceClient::new(self.channel().await);
        let mut deltas = client.sync(requested).await.unwrap().into_inner();
        let mut whole = proto::Delta { more: true, ..Default::default() };
        let mut first = true;
        while whole.more {
            let piece = deltas.message().await.unwrap().unwrap();
            if std::mem::take(&mut first) {
                whole = piece
            } else {
                convert::join(&mut whole, piece)
            }
        }
        whole
    }

    /// The jobs on all pages, and the number of pages.
    async fn listed(&self) -> (Vec<u64>, usize) {
        let mut client = JobServiceClient::new(self.channel().await);
        let mut ids = Vec::new();
        let mut request = proto::ListJobsRequest { ended: true, ..Default::default() };
        for pages in 1.. {
            let page = client.list_jobs(request.clone()).await.unwrap().into_inner();
            ids.extend(page.jobs.iter().map(|job| job.id));
            if page.next_page_token.is_empty() {
                return (ids, pages);
            }
            request.page_token = page.next_page_token;
        }
        unreachable!("the last page has no token")
    }

    /// The jobs, and the tasks of each, that a watch sends at its beginning.
    async fn watched(&self) -> (BTreeSet<u64>, BTreeSet<TaskId>) {
        let mut client = JobServiceClient::new(self.channel().await);
        let request = proto::WatchJobsRequest::default();
        let mut reported = client.watch_jobs(request).await.unwrap().into_inner();
        let (mut jobs, mut tasks) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let message = reported.message().await.unwrap().unwrap();
            for job in message.jobs {
                jobs.extend(job.job.map(|_| job.id));
                tasks.extend(job.tasks.into_iter().filter_map(|one| one.task).map(TaskId::from));
            }
            if !message.more {
                return (jobs, tasks);
            }
        }
    }
}

/// A job with a number of labels of a thousand bytes each.
fn labelled(name: &str, labels: usize) -> Job {
    let group = |number: usize, labels: usize| {
        let label = |at| (format!("{at}-{}", "k".repeat(500)), "v".repeat(490));
        let mut group = TaskGroup::new(1, Amounts::new([1]));
        group.name = format!("g{number}").as_str().into();
        group.labels = Labels::new((0..labels).map(label));
        group
    };
    let mut job = Job::batch(name, group(0, labels % 200));
    job.groups.extend((1..=labels / 200).map(|number| group(number, 200).into()));
    job
}

/// The largest result of `labelled` that the cell accepts.
fn largest(name: &str) -> Job {
    let jobs = (1..).map(|labels| labelled(name, labels));
    let fitting = jobs.take_while(|job| bytes_at_most(job) <= JOB_BYTES_MAX);
    fitting.last().unwrap()
}

#[tokio::test]
async fn a_job_that_is_taken_can_be_sent_to_everyone_who_asks() {
    let served = Served::start().await;
    let mut client = JobServiceClient::new(served.channel().await);
    let job = largest("large");
    assert!(bytes_at_most(&job) > JOB_BYTES_MAX - 2000);
    let request = proto::SubmitJobRequest { job: Some((&job).into()) };
    let id = client.submit_job(request).await.unwrap().into_inner().id;
    let other = served.submit(largest("other"));

    let named = Some(proto::JobRef { job: Some(proto::job_ref::Job::Id(id)) });
    let got = client.get_job(proto::GetJobRequest { job: named.clone() }).await.unwrap();
    let got = got.into_inner().job.unwrap().job.unwrap();
    assert_eq!(Job::try_from(got).unwrap(), job);
    let jobs: Vec<u64> = served.synced().await.jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs, [id, other]);
    assert_eq!(served.listed().await.0, [id, other]);
    assert_eq!(served.watched().await.0, BTreeSet::from([id, other]));
}

#[tokio::test]
async fn a_job_that_could_not_be_sent_is_refused_and_nothing_stops() {
    let served = Served::start().await;
    let mut client = JobServiceClient::new(served.channel().await);
    let mut job = proto::Job::from(&labelled("vast", 4000));
    // The job is as large as one message of the usual limit, minus the fields that the server adds.
    (job.tenant, job.scheduler) = (String::new(), String::new());
    let request = proto::SubmitJobRequest { job: Some(job) };
    let refused = ApiError::from(client.submit_job(request).await.unwrap_err());
    assert_eq!(refused.code, ErrorCode::TooMany, "{refused:?}");
    assert!(refused.message.contains("bytes of a job"), "{refused:?}");
    assert!(refused.message.contains(&JOB_BYTES_MAX.to_string()), "{refused:?}");

    let id = served.submit(labelled("small", 1));
    assert_eq!(served.synced().await.jobs.len(), 1);
    assert_eq!(served.listed().await, (vec![id], 1));
}

#[tokio::test]
async fn pages_and_watches_of_many_large_jobs_are_cut_by_their_bytes() {
    let served = Served::start().await;
    let ids: Vec<u64> =
        (0..40).map(|job| served.submit(labelled(&format!("job-{job}"), 300))).collect();
    let (listed, pages) = served.listed().await;
    assert_eq!(listed, ids);
    assert!((10..=40).contains(&pages), "{pages} pages of 12 MB");
    assert_eq!(served.watched().await.0, ids.iter().copied().collect());
    let jobs: Vec<u64> = served.synced().await.jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs, ids);
}

#[tokio::test]
async fn machines_with_many_labels_are_listed_and_synced() {
    let served = Served::start().await;
    for number in 0..30 {
        let label = |at| (format!("{at}-{}", "k".repeat(500)), "v".repeat(490));
        let mut machine = Machine::new(format!("m{number}"), Amounts::new([1000]));
        machine.labels = Labels::new((0..250).map(label));
        served.cell.apply(Command::RegisterMachine(machine)).unwrap();
    }
    let mut client = MachineServiceClient::new(served.channel().await);
    let mut request = proto::ListMachinesRequest::default();
    let mut listed = 0;
    loop {
        let page = client.list_machines(request.clone()).await.unwrap().into_inner();
        listed += page.machines.len();
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(listed, 30);
    assert_eq!(served.synced().await.machines.len(), 30);
}

#[tokio::test]
async fn a_job_of_very_many_tasks_is_watched_listed_and_synced() {
    const TASKS: u32 = 150_000;
    let served = Served::start().await;
    let id = served.submit(Job::batch("wide", TaskGroup::new(TASKS, Amounts::new([1]))));
    let all: BTreeSet<TaskId> =
        (0..TASKS).map(|index| TaskId { job: omega_core::JobId(id), index }).collect();
    assert_eq!(served.watched().await.1, all);
    let named = proto::JobRef { job: Some(proto::job_ref::Job::Id(id)) };

    let mut tasks = TaskServiceClient::new(served.channel().await);
    let of = Some(proto::list_tasks_request::Of::Job(named));
    let request = proto::ListTasksRequest { of, page_size: 1000, ..Default::default() };
    let page = tasks.list_tasks(request).await.unwrap().into_inner();
    assert!(page.tasks.len() == 1000 && !page.next_page_token.is_empty());
}

#[tokio::test]
async fn calls_whose_message_does_not_come_take_no_place_from_others() {
    let limits = Limits { calls: 16, ..patient() };
    let shared = Shared::start(limits, vec![reader("one"), reader("other")]).await;
    let channel = shared.channel(0).await;
    let mut calls = JoinSet::new();
    for _ in 0..24 {
        calls.spawn(hung(channel.clone(), GET_JOB, begun(100)));
    }
    // One caller may use a quarter of the slots; its other calls are rejected.
    for _ in 0..20 {
        let refused = calls.join_next().await.unwrap().unwrap();
        assert_eq!(refused.code, ErrorCode::Limit, "{refused:?}");
    }
    assert_eq!(shared.as_caller(1).listed().await.0, Vec::<u64>::new());
    let mut own = JobServiceClient::new(channel.clone());
    let refused = own.list_jobs(proto::ListJobsRequest::default()).await.unwrap_err();
    assert_eq!(ApiError::from(refused).code, ErrorCode::Limit);
    calls.abort_all();
    while own.list_jobs(proto::ListJobsRequest::default()).await.is_err() {}
    shared.await_buffered_at_most(0).await;
}

#[tokio::test]
async fn a_message_that_does_not_come_in_time_ends_its_call() {
    let soon = Duration::from_millis(50);
    let deadlines = Deadlines { usual: soon, ..Deadlines::default() };
    let limits = Limits { deadlines, ..Limits::default() };
    let shared = Shared::start(limits, vec![reader("one"), Caller::local()]).await;
    for sent in [Vec::new(), begun(0), begun(70_000)] {
        let late = hung(shared.channel(0).await, GET_JOB, sent).await;
        assert_eq!(late.code, ErrorCode::Late, "{late:?}");
    }
    for sent in [vec![0], begun(1000)] {
        let late = hung(shared.channel(1).await, COMMIT_STREAM, sent).await;
        assert_eq!(late.code, ErrorCode::Late, "{late:?}");
    }
    shared.await_buffered_at_most(0).await;
}

#[tokio::test]
async fn bytes_of_messages_that_are_not_whole_are_bounded() {
    const EACH: usize = 1 << 20;
    let limits = Limits { held_bytes_each: EACH as u64, ..patient() };
    let shared = Shared::start(limits, vec![reader("one"), reader("other")]).await;
    let channel = shared.channel(0).await;
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        calls.spawn(hung(channel.clone(), GET_JOB, begun(400_000)));
    }
    for _ in 0..17 {
        let refused = calls.join_next().await.unwrap().unwrap();
        assert_eq!(refused.code, ErrorCode::Limit, "{refused:?}");
        assert!(shared.buffered() < EACH + (64 << 10), "{} bytes", shared.buffered());
    }
    assert_eq!(shared.as_caller(1).listed().await.0, Vec::<u64>::new());
    calls.abort_all();
    shared.await_buffered_at_most(0).await;
}

#[tokio::test]
async fn streams_that_read_nothing_hold_little_and_stop_nobody() {
    const EACH: usize = 4 << 20;
    const TASKS: u32 = 200_000;
    const MACHINES: u32 = 20_000;
    const STREAMS: usize = 60;
    let limits = Limits { held_bytes_each: EACH as u64, ..patient() };
    let shared = Shared::start(limits, vec![reader("one"), reader("other")]).await;
    let group = TaskGroup::new(TASKS, Amounts::new([1]));
    shared.as_caller(0).submit(Job::batch("wide", group));
    for number in 0..MACHINES {
        let machine = Machine::new(format!("machine-{number}"), Amounts::new([4000]));
        shared.cell.apply(Command::RegisterMachine(machine)).unwrap();
    }
    let (mut views, mut watches) = (Vec::new(), Vec::new());
    for number in 0..STREAMS {
        let name = format!("scheduler-{number}");
        let jobs = proto::sync_request::JobsOf { scheduler: name, ..Default::default() };
        let all = proto::sync_request::AllJobs {};
        let interest = match number % 2 {
            0 => proto::sync_request::Interest::JobsOf(jobs),
            _ => proto::sync_request::Interest::AllJobs(all),
        };
        let requested = proto::SyncRequest { interest: Some(interest), ..Default::default() };
        let channel = shared.channel(0).await;
        let mut client = SchedulingServiceClient::new(channel.clone());
        // A caller at its memory limit gets no further streams.
        views.extend(client.sync(requested).await.ok().map(tonic::Response::into_inner));
        let requested = proto::WatchJobsRequest::default();
        let watch = JobServiceClient::new(channel).watch_jobs(requested).await;
        watches.extend(watch.ok().map(tonic::Response::into_inner));
    }
    assert!(!views.is_empty() && !watches.is_empty());
    // A stream of another caller arrives completely.
    let other = shared.as_caller(1);
    assert_eq!(other.synced().await.machines.len(), MACHINES as usize);
    assert_eq!(other.watched().await.1.len(), TASKS as usize);
    // The bytes held may exceed the bound by one full state and the buffer of one stream.
    let held = shared.buffered();
    assert!((1 << 20..EACH + (4 << 20)).contains(&held), "{held} bytes");

    // A stream continues once its reader begins to read.
    let mut last = watches.pop().unwrap();
    drop((views, watches));
    let mut reported = 0;
    loop {
        let message = last.message().await.unwrap().unwrap();
        reported += message.jobs.iter().map(|job| job.tasks.len()).sum::<usize>();
        if !message.more {
            break;
        }
    }
    assert_eq!(reported, TASKS as usize);
    drop(last);
    shared.await_buffered_at_most(0).await;
}

#[tokio::test]
async fn a_view_that_is_not_read_in_time_is_let_go() {
    let soon = Duration::from_millis(50);
    let deadlines = Deadlines { max: soon, ..patient().deadlines };
    let limits = Limits { deadlines, ..patient() };
    let shared = Shared::start(limits, vec![reader("one")]).await;
    let job = shared.as_caller(0);
    for number in 0..4 {
        job.submit(labelled(&format!("job-{number}"), 120));
    }
    let interest = proto::sync_request::Interest::AllJobs(proto::sync_request::AllJobs {});
    let requested = proto::SyncRequest { interest: Some(interest), ..Default::default() };
    let mut client = SchedulingServiceClient::new(shared.channel(0).await);
    let mut deltas = client.sync(requested).await.unwrap().into_inner();
    while shared.buffered() < 300 << 10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    shared.await_buffered_at_most(300 << 10).await;
    let ended = loop {
        match deltas.message().await {
            Ok(piece) => assert!(piece.is_some_and(|piece| piece.more)),
            Err(status) => break ApiError::from(status),
        }
    };
    assert_eq!(ended.code, ErrorCode::Late, "{ended:?}");
}

#[tokio::test]
async fn a_watch_of_one_job_ends_when_all_its_tasks_were_told_as_ended() {
    const TASKS: u32 = 20_000;
    let served = Served::start().await;
    let policy = Policy { ttl_after_finished_ms: 3_600_000, ..Policy::default() };
    served.cell.apply(Command::SetPolicy(policy)).unwrap();
    let id = served.submit(Job::batch("wide", TaskGroup::new(TASKS, Amounts::new([1]))));
    let all: BTreeSet<TaskId> =
        (0..TASKS).map(|index| TaskId { job: omega_core::JobId(id), index }).collect();
    let mut client = JobServiceClient::new(served.channel().await);
    let named = Some(proto::JobRef { job: Some(proto::job_ref::Job::Id(id)) });
    let request = proto::WatchJobRequest { job: named };
    let mut changes = client.watch_job(request).await.unwrap().into_inner();
    let first = changes.message().await.unwrap().unwrap();
    assert!(!first.tasks.is_empty() && !first.ended && first.more);
    served.cell.apply(Command::KillJob { job: omega_core::JobId(id) }).unwrap();
    let mut killed = BTreeSet::new();
    loop {
        let reported = changes.message().await.unwrap().unwrap();
        let tasks = reported.tasks.into_iter();
        let over = tasks.filter(|task| task.phase() == proto::TaskPhase::Killed);
        killed.extend(over.filter_map(|one| one.task).map(TaskId::from));
        if reported.ended {
            break;
        }
    }
    assert_eq!(killed, all);
    assert!(changes.message().await.unwrap().is_none(), "the stream ends");
}
