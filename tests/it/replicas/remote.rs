//! A cell behind a socket, which a scheduler cannot distinguish from one in its own process.

use omega_cellstate::{Cell, CellHandle, HandleError, SharedCell, View};
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{Address, ApiError, ErrorCode, LeaseSettings, RemoteCell, proto};
use omega_core::{
    Amounts, Claim, Command, Job, JobId, Kinds, Machine, MachineId, Outcome, SchedulerId,
    SequenceNumber, TaskGroup, TaskId, Transaction, TransactionError, TransactionId, Version,
};
use omega_schedulers::mesos::{self, Framework, Launch, Offer, Refuse};
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::yarn::{self, Ask, Heartbeat, Place};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
use omega_service::{Extras, Host, ListenerConfig, ReplicaIdentity, serve_clients};
use omega_store::CellId;
use omega_store::log::ReplicaId;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A server of a cell in memory, which ends when the value is dropped.
pub(crate) struct Served {
    pub(crate) cell: SharedCell,
    pub(crate) address: SocketAddr,
    pub(crate) runtime: Runtime,
    host: Host,
    _end: oneshot::Sender<()>,
}

impl Served {
    pub(crate) fn start() -> Served {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        Served::at(cell, "127.0.0.1:0".parse().unwrap())
    }

    fn at(cell: SharedCell, address: SocketAddr) -> Served {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let host = Host::memory(cell.clone());
        let me = ReplicaIdentity { cell: CellId(1), replica: ReplicaId(1) };
        let listener_config = ListenerConfig::open(listener);
        let extras = Extras::default();
        let ended = async move { drop(ended.await) };
        runtime.spawn(serve_clients(listener_config, host.clone(), me, extras, ended));
        Served { cell, address, runtime, host, _end: end }
    }

    /// Applies a command as the server's own calls do, so that open watches are woken.
    pub(crate) fn apply(&self, command: Command) -> Outcome {
        let until = Instant::now() + Duration::from_secs(60);
        self.runtime.block_on(self.host.apply(command, until)).unwrap()
    }

    fn address(&self) -> Address {
        Address::plain([self.address.to_string()])
    }

    fn remote(&self) -> RemoteCell {
        RemoteCell::connect(&self.address()).unwrap()
    }
}

fn machine(name: &str) -> Command {
    Command::RegisterMachine(Machine::new(name, Amounts::new([4000, 8 << 30])))
}

fn submit(cell: &SharedCell, name: &str, tasks: u32) {
    let group = TaskGroup::new(tasks, Amounts::new([1000]));
    cell.apply(Command::SubmitJob(Job::batch(name, group))).unwrap();
}

/// Syncs until the view has reached a version.
fn sync_to(view: &mut View, cell: &RemoteCell, version: Version) {
    while view.version() < version {
        view.sync(cell).unwrap();
        std::thread::yield_now();
    }
}

/// While nothing changes, a view keeps the cell's time, policy and cluster resources.
#[test]
fn where_nothing_happens_a_view_stays_as_it_was() {
    let served = Served::start();
    let cell = &served.cell;
    let amount = 40;
    cell.apply(Command::SetClusterCapacity { kind: omega_core::KindId::CPU, amount }).unwrap();
    cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([4000])))).unwrap();
    cell.apply(Command::Expire { now_ms: 1_000_000 }).unwrap();
    let remote = served.remote();
    let (id, number) = remote.register("idle".into()).unwrap();
    let mut view = View::new(id, number);
    let version = cell.read(Cell::version);
    sync_to(&mut view, &remote, version);
    let (now_ms, resources) = (view.now_ms(), view.resources().clone());
    assert!(now_ms >= 1_000_000 && resources.capacity.get(omega_core::KindId::CPU) == amount);
    for _ in 0..20 {
        view.sync(&remote).unwrap();
        assert!(view.now_ms() >= now_ms, "time goes back to {}", view.now_ms());
        assert_eq!((view.resources(), view.version()), (&resources, version));
    }
    // An advance of the time is not a new version, but the view nevertheless gets the new time.
    cell.apply(Command::Expire { now_ms: 2_000_000 }).unwrap();
    assert_eq!(cell.read(Cell::version), version);
    while view.now_ms() < 2_000_000 {
        view.sync(&remote).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(view.version(), version);
}

#[test]
fn a_watcher_is_woken_for_each_change_and_finds_it() {
    let served = Served::start();
    served.cell.apply(machine("first")).unwrap();
    let remote = served.remote();
    let (id, number) = remote.register("default".into()).unwrap();
    let mut view = View::new(id, number);
    let (wake, woken) = std::sync::mpsc::channel();
    assert!(remote.watch(view.interest(), std::sync::Arc::new(move || _ = wake.send(()))));
    view.sync(&remote).unwrap();
    for name in ["a", "b", "c"] {
        served.apply(machine(name));
        // An advance of the time may wake the reader, too.
        while view.machine_by_name(name).is_none() {
            woken.recv().unwrap();
            view.sync(&remote).unwrap();
        }
    }
}

#[test]
fn a_scheduler_places_over_a_socket() {
    let served = Served::start();
    served.cell.apply(machine("a")).unwrap();
    submit(&served.cell, "j", 5);
    let remote = served.remote();
    let (me, number) = remote.register("default".into()).unwrap();
    assert_eq!(remote.register("default".into()).unwrap().0, me, "the same name, the same id");
    let mut view = View::new(me, number);
    view.sync(&remote).unwrap();
    let machine = view.machine_by_name("a").unwrap();
    let job = served.cell.read(|cell| cell.job(JobId(0)).cloned()).unwrap();
    let group = view.compile(JobId(0), &job, 0);
    for index in 0..4 {
        view.claim(TaskId { job: JobId(0), index }, machine, group).unwrap();
    }
    let txn = view.take_transaction();
    let commit = remote.commit(&txn).unwrap();
    assert!(commit.is_complete());
    assert_eq!(remote.commit(&txn).unwrap(), commit, "a retry gets the first answer");
    view.settle(&txn, &commit);
    sync_to(&mut view, &remote, commit.version);
    let fifth = TaskId { job: JobId(0), index: 4 };
    assert!(view.claim(fifth, machine, group).is_err(), "the machine is full");
    served.cell.read(Cell::audit).unwrap();
}

#[test]
fn offers_and_asks_work_over_a_socket() {
    let served = Served::start();
    served.cell.apply(machine("a")).unwrap();
    for scheduler in ["offers", "asks"] {
        let mut job = Job::batch(scheduler, TaskGroup::new(2, Amounts::new([1000])));
        job.scheduler = scheduler.into();
        served.cell.apply(Command::SubmitJob(job)).unwrap();
    }
    let remote = served.remote();
    let mut asking =
        yarn::Frontend::new(&remote, Profile::batch(), yarn::Settings::new("asks")).unwrap();
    let asked = loop {
        asking.step(&remote, 0).unwrap();
        if let Ok(id) = asking.join("asks", 0) {
            break id;
        }
        std::thread::yield_now();
    };
    let ask = Ask::new("main", Place::Anywhere, 2);
    asking.heartbeat(asked, Heartbeat::asking([ask]), 0).unwrap();
    while asking.counters().allocated() < 2 {
        asking.step(&remote, 1).unwrap();
        std::thread::yield_now();
    }
    let mut front = mesos::Frontend::new(&remote, mesos::Settings::new("offers")).unwrap();
    let framework = front.register(Framework::new("f", "default")).unwrap();
    while front.counters().launched < 2 {
        front.step(&remote, 0).unwrap();
        let jobs: Vec<JobId> = front.jobs_of(framework).map(|(id, _)| id).collect();
        let task = jobs.into_iter().find_map(|job| front.waiting(job, 0).next());
        let offer: Option<Offer> = front.offers_of(framework).next().cloned();
        if let (Some(task), Some(offer)) = (task, offer) {
            let launch = Launch { task, machine: offer.machine };
            front.accept(framework, &[offer.id], &[launch], Refuse::Nothing).unwrap();
        }
        std::thread::yield_now();
    }
    served.cell.read(Cell::audit_no_overcommit).unwrap();
    let running = served.cell.read(|cell| cell.machine(MachineId::first(0)).unwrap().tasks.len());
    assert_eq!(running, 4);
}

/// A server accepts only 32 streams on one connection.
#[test]
fn a_handle_has_room_for_many_readers() {
    let served = Served::start();
    served.cell.apply(machine("a")).unwrap();
    let remote = served.remote();
    let (id, number) = remote.register("s".into()).unwrap();
    let mut views: Vec<View> = (0..65).map(|_| View::new(id, number)).collect();
    views.iter_mut().for_each(|view| view.sync(&remote).unwrap());
    assert!(views.iter().all(|view| view.machine_by_name("a").is_some()));
}

/// An async program may use and drop a handle in its tasks.
#[test]
fn a_handle_works_in_a_task() {
    let served = Served::start();
    served.cell.apply(machine("a")).unwrap();
    Runtime::new().unwrap().block_on(async {
        let remote = served.remote();
        let (id, number) = remote.register("s".into()).unwrap();
        let mut view = View::new(id, number);
        view.sync(&remote).unwrap();
        assert!(view.machine_by_name("a").is_some());
    });
}

/// Each must get every change. If they shared a stream, each would take changes from the other.
#[test]
fn schedulers_with_one_interest_share_a_handle() {
    let served = Served::start();
    let remote = served.remote();
    let scheduler = |name: &str| {
        // With preemption, a scheduler receives all jobs.
        let profile = Profile::batch().with_post_filter(DefaultPreemption::default());
        Scheduler::new(&remote, profile, Settings::new(name)).unwrap()
    };
    let names = ["one", "two"];
    let mut both = names.map(scheduler);
    let (mut placed, mut now) = (0, 0);
    let mut step = |scheduler: &mut Scheduler| {
        now += 1_000_000;
        scheduler.step(&remote, now, &mut Unobserved).unwrap().placed
    };
    for round in 0..40 {
        served.apply(machine(&format!("m{round}")));
        let group = TaskGroup::new(2, Amounts::new([1000]));
        let mut job = Job::batch(format!("j{round}"), group);
        job.scheduler = names[round % 2].into();
        served.apply(Command::SubmitJob(job));
        placed += both.iter_mut().map(&mut step).sum::<usize>();
    }
    while placed < 80 {
        placed += both.iter_mut().map(&mut step).sum::<usize>();
        std::thread::yield_now();
    }
    served.cell.read(Cell::audit_no_overcommit).unwrap();
}

#[test]
fn a_transaction_that_cannot_be_judged_says_why() {
    let served = Served::start();
    let remote = served.remote();
    let (scheduler, number) = remote.register("s".into()).unwrap();
    let id = TransactionId { scheduler, number };
    let empty = Transaction::new(id, Version(0), Vec::new());
    assert_eq!(remote.commit(&empty), Err(HandleError::Refused(TransactionError::Empty)));
    let claim = Claim::new(
        TaskId::default(),
        omega_core::MachineId::first(0),
        omega_core::SequenceNumber(0),
    );
    let future = Transaction::new(id, Version(99), vec![claim]);
    let version = served.cell.read(Cell::version);
    let said = TransactionError::BaseFromFuture { base: Version(99), version };
    assert_eq!(remote.commit(&future), Err(HandleError::Refused(said)));
    // The stream continues, and the rejected transaction's number is still unused.
    let mine = Transaction::new(id, Version(0), vec![claim]);
    assert_eq!(remote.commit(&mine).unwrap().conflicts.len(), 1);
}

#[test]
fn a_view_goes_on_where_the_connection_broke() {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    // The second server listens on the port of the first one, which no other test may take meanwhile.
    let served = Served::at(cell, omega_tests::ports::address());
    served.cell.apply(machine("a")).unwrap();
    let remote = served.remote();
    let (me, number) = remote.register("s".into()).unwrap();
    let mut view = View::new(me, number);
    view.sync(&remote).unwrap();
    let (cell, address) = (served.cell.clone(), served.address);
    drop(served);
    cell.apply(machine("b")).unwrap();
    let again = Served::at(cell.clone(), address);
    sync_to_eventually(&mut view, &remote, cell.read(Cell::version));
    assert!(view.machine_by_name("b").is_some());
    assert!(!view.delta().full, "it went on from the version that it had");
    drop(again);
}

/// Syncs until the view has reached a version, even if some attempts fail.
fn sync_to_eventually(view: &mut View, cell: &RemoteCell, version: Version) {
    while view.version() < version {
        match view.sync(cell) {
            Ok(()) | Err(HandleError::Unavailable) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_job_is_submitted_once_however_often_it_is_sent() {
    let served = Served::start();
    let address = format!("http://{}", served.address);
    served.runtime.block_on(async {
        let mut jobs = JobServiceClient::connect(address).await.unwrap();
        let job = Job::batch("j", TaskGroup::new(2, Amounts::new([100])));
        let request = proto::SubmitJobRequest { job: Some((&job).into()) };
        let first = jobs.submit_job(request.clone()).await.unwrap().into_inner();
        let second = jobs.submit_job(request).await.unwrap().into_inner();
        assert_eq!(first, second);
        let other = Job::batch("j", TaskGroup::new(3, Amounts::new([100])));
        let request = proto::SubmitJobRequest { job: Some((&other).into()) };
        let refused = jobs.submit_job(request).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::AlreadyExists);
        let error = omega_client::ApiError::from(refused);
        assert_eq!(error.code, omega_client::ErrorCode::NameTaken);
    });
}

/// A transaction that claims the first machine for one task of the first job.
fn claim(scheduler: SchedulerId, number: u64, index: u32) -> Transaction {
    let task = TaskId { job: JobId(0), index };
    let machine = MachineId::first(0);
    let claim = Claim::new(task, machine, SequenceNumber(0));
    Transaction::new(TransactionId { scheduler, number }, Version(0), vec![claim])
}

#[test]
fn what_a_process_sends_that_has_lost_its_name_is_fenced() {
    let served = Served::start();
    served.cell.apply(machine("a")).unwrap();
    submit(&served.cell, "j", 3);
    let process = |name: &str| {
        let settings = LeaseSettings { process: name.to_owned(), ..LeaseSettings::default() };
        RemoteCell::with_leases(&served.address(), settings).unwrap()
    };
    let (first, second) = (process("one"), process("two"));
    let (me, number) = first.acquire("s").unwrap();
    assert_eq!(first.acquire("s").unwrap(), (me, number), "it holds it already");
    let refused = second.acquire("s").unwrap_err();
    assert_eq!(refused.code, ErrorCode::LeaseHeld);
    assert!(refused.message.starts_with("one owns"), "{refused}");
    let mut asked = 0;
    let wait = |why: &ApiError| {
        assert_eq!(why.code, ErrorCode::LeaseHeld);
        asked += 1;
        if asked < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    assert_eq!(second.stand_by("s", wait).unwrap(), None);
    let without = served.remote().register("s".into());
    assert!(matches!(without, Err(HandleError::Denied(_))), "{without:?}");

    let taken = first.commit(&claim(me, number, 0)).unwrap();
    assert!(taken.is_complete());
    first.end_leases().unwrap();
    let (same, next) = second.acquire("s").unwrap();
    assert_eq!((same, next > number + (1 << 32)), (me, true));
    assert_eq!(first.commit(&claim(me, number, 0)), Ok(taken), "a retry has its answer");
    let late = claim(me, number + 1, 1);
    let fenced = HandleError::Refused(TransactionError::Fenced(late.id));
    assert_eq!(first.commit(&late), Err(fenced));
    assert!(second.commit(&claim(me, next, 1)).unwrap().is_complete());
    assert!(second.lease_loss().is_none());
}
