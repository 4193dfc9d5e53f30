//! Question: what does the network cost, compared with a bare gRPC loop with the same messages?
//!
//! Client and server are in this process, so processor time includes both. The bare server reads the messages and
//! answers each with a constant, so the ratio is the cost of checks, views and the order of commits.

use crate::measure::Options;
use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, median, timed_on_all_threads};
use crate::measure::commit::{Sizes, transactions};
use crate::measure::show::{Reach, Row, Unit};
use omega_cellstate::{CellHandle, SharedCell, View};
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::scheduling_service_server::{SchedulingService, SchedulingServiceServer};
use omega_client::proto::{self, CommitRequest, CommitStreamResponse};
use omega_client::{Address, RemoteCell};
use omega_core::{Transaction, Version};
use omega_service::{Extras, Host, ListenerConfig, ReplicaIdentity, serve_clients};
use omega_store::CellId;
use omega_store::log::ReplicaId;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

pub(crate) const WORKLOAD: &str = "10 claims a transaction; 10,000 machines in use, in memory; client and server in this process, over loopback";

const MACHINES: usize = 10_000;
const CLAIMS: usize = 10;

/// Number of a client's transactions in flight.
const ON_THE_WAY: usize = 64;

/// Number of views that follow the cell concurrently. The next constant is the number of placements per second
/// meanwhile.
const VIEWS: usize = 16;
const PLACEMENTS_PER_SECOND: usize = 20_000;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let txns = options.work(100_000);
    let mut rows = commits("stream of commits, 64 on the way", 0.4, options, || {
        (run(&made, txns, Server::Omega, stream), run(&made, txns, Server::Bare, stream))
    });
    let txns = txns / 10;
    rows.extend(commits("commit by commit", 0.6, options, || {
        (run(&made, txns, Server::Omega, unary), run(&made, txns, Server::Bare, unary))
    }));
    rows.push(fan_out(&made, options));
    rows
}

/// Two rows: the time of a commit, and its ratio to the bare loop's.
fn commits(
    what: &str,
    at_least: f64,
    options: &Options,
    pair: impl Fn() -> (Figure, Figure),
) -> Vec<Row> {
    let pairs: Vec<(Figure, Figure)> = (0..options.runs()).map(|_| pair()).collect();
    let ours = Figure::median(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let bare = Figure::median(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let ratio = median(pairs.iter().map(|(ours, bare)| bare.cpu / ours.cpu).collect());
    vec![
        Row::time(what, Unit::Micros, ours).beside(bare),
        Row::value(format!("{what}, of the bare loop's"), Unit::Times, ratio)
            .reach(Reach::AtLeast(at_least)),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Omega,
    /// A server that answers without a cell.
    Bare,
}

/// A server in this process, which stops when the value is dropped.
struct Served {
    runtime: Runtime,
    address: SocketAddr,
}

impl Served {
    fn start(cell: SharedCell, server: Server) -> Served {
        let runtime = Runtime::new().expect("the system has threads");
        let listening = TcpListener::bind("127.0.0.1:0");
        let listener = runtime.block_on(listening).expect("loopback has a port");
        let address = listener.local_addr().expect("it is bound");
        match server {
            Server::Omega => {
                // The server has everything that a released one has, including the limits in front of the services.
                let listener_config = ListenerConfig::open(listener);
                let me = ReplicaIdentity { cell: CellId(1), replica: ReplicaId(1) };
                let (host, extras) = (Host::memory(cell), Extras::default());
                let served =
                    serve_clients(listener_config, host, me, extras, std::future::pending());
                runtime.spawn(async move { served.await.expect("it goes on") });
            }
            Server::Bare => {
                let service = SchedulingServiceServer::new(Bare);
                let mut builder = tonic::transport::Server::builder().tcp_nodelay(true);
                let incoming = TcpListenerStream::new(listener);
                runtime.spawn(builder.add_service(service).serve_with_incoming(incoming));
            }
        }
        Served { runtime, address }
    }
}

/// A client that commits all of the requests, and returns the number of rejected claims.
type Client = fn(&Served, Vec<CommitRequest>) -> usize;

fn run(made: &Made, count: usize, server: Server, client: Client) -> Figure {
    let mut cell = made.copy();
    let txns = transactions(&mut cell, made.machines, count * CLAIMS, Sizes::each(CLAIMS));
    let served = Served::start(SharedCell::new(cell), server);
    let requests = txns.iter().map(CommitRequest::from).collect();
    let (refused, span) = timed_on_all_threads(|| client(&served, requests));
    assert!(refused * 100 < count * CLAIMS, "{refused} small tasks did not fit");
    span.each(count)
}

fn stream(served: &Served, requests: Vec<CommitRequest>) -> usize {
    served.runtime.block_on(async {
        let url = format!("http://{}", served.address);
        let mut client = SchedulingServiceClient::connect(url).await.expect("it listens");
        let (to, stream) = mpsc::channel(ON_THE_WAY);
        let count = requests.len();
        tokio::spawn(async move {
            for request in requests {
                if to.send(request).await.is_err() {
                    return;
                }
            }
        });
        let answers = client.commit_stream(ReceiverStream::new(stream)).await;
        let mut answers = answers.expect("it opens").into_inner();
        let mut refused = 0;
        for _ in 0..count {
            let answer = answers.message().await.expect("it goes on").expect("each is answered");
            match answer.answer {
                Some(proto::commit_stream_response::Answer::Commit(commit)) => {
                    refused += commit.conflicts.len();
                }
                other => panic!("not checked: {other:?}"),
            }
        }
        refused
    })
}

fn unary(served: &Served, requests: Vec<CommitRequest>) -> usize {
    served.runtime.block_on(async {
        let url = format!("http://{}", served.address);
        let mut client = SchedulingServiceClient::connect(url).await.expect("it listens");
        let mut refused = 0;
        for request in requests {
            let commit = client.commit(request).await.expect("it is checked").into_inner();
            refused += commit.conflicts.len();
        }
        refused
    })
}

/// A service that reads requests and replies with a constant.
struct Bare;

#[tonic::async_trait]
impl SchedulingService for Bare {
    async fn register(
        &self,
        _: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        Ok(Response::new(proto::RegisterResponse::default()))
    }

    async fn renew(
        &self,
        _: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::RenewResponse>, Status> {
        Ok(Response::new(proto::RenewResponse {}))
    }

    async fn end_leases(
        &self,
        _: Request<proto::EndLeasesRequest>,
    ) -> Result<Response<proto::EndLeasesResponse>, Status> {
        Ok(Response::new(proto::EndLeasesResponse {}))
    }

    async fn list_schedulers(
        &self,
        _: Request<proto::ListSchedulersRequest>,
    ) -> Result<Response<proto::ListSchedulersResponse>, Status> {
        Ok(Response::new(proto::ListSchedulersResponse::default()))
    }

    async fn get_transaction(
        &self,
        _: Request<proto::GetTransactionRequest>,
    ) -> Result<Response<proto::GetTransactionResponse>, Status> {
        Ok(Response::new(proto::GetTransactionResponse::default()))
    }

    async fn list_transactions(
        &self,
        _: Request<proto::ListTransactionsRequest>,
    ) -> Result<Response<proto::ListTransactionsResponse>, Status> {
        Ok(Response::new(proto::ListTransactionsResponse::default()))
    }

    type SyncStream = ReceiverStream<Result<proto::Delta, Status>>;

    async fn sync(
        &self,
        _: Request<proto::SyncRequest>,
    ) -> Result<Response<Self::SyncStream>, Status> {
        Ok(Response::new(ReceiverStream::new(mpsc::channel(1).1)))
    }

    async fn commit(
        &self,
        _: Request<CommitRequest>,
    ) -> Result<Response<proto::CommitResponse>, Status> {
        Ok(Response::new(proto::CommitResponse { version: 1, conflicts: Vec::new() }))
    }

    type CommitStreamStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<CommitStreamResponse, Status>> + Send>>;

    async fn commit_stream(
        &self,
        requests: Request<Streaming<CommitRequest>>,
    ) -> Result<Response<Self::CommitStreamStream>, Status> {
        let answer = |request: Result<CommitRequest, Status>| {
            let commit = proto::CommitResponse { version: 1, conflicts: Vec::new() };
            let answer = Some(proto::commit_stream_response::Answer::Commit(commit));
            request.map(|request| CommitStreamResponse { number: request.number, answer })
        };
        Ok(Response::new(Box::pin(requests.into_inner().map(answer))))
    }
}

/// Time from a commit until the last of the views has received it.
fn fan_out(made: &Made, options: &Options) -> Row {
    let count = options.work(5 * PLACEMENTS_PER_SECOND) / CLAIMS;
    let mut cell = made.copy();
    let txns = transactions(&mut cell, made.machines, count * CLAIMS, Sizes::each(CLAIMS));
    let served = Served::start(SharedCell::new(cell), Server::Omega);
    let address = Address::plain([served.address.to_string()]);
    let connect = || RemoteCell::connect(&address).expect("it is an address");
    let committed: parking_lot::Mutex<Vec<(Version, Instant)>> = parking_lot::Mutex::default();
    let over = AtomicBool::new(false);
    let mut lags = std::thread::scope(|scope| {
        let followers: Vec<_> =
            (0..VIEWS).map(|_| scope.spawn(|| follow(&connect(), (&committed, &over)))).collect();
        std::thread::sleep(Duration::from_millis(500));
        feed(&connect(), &txns, &committed);
        std::thread::sleep(Duration::from_millis(200));
        over.store(true, Ordering::Relaxed);
        let lags = followers.into_iter().flat_map(|one| one.join().expect("it follows"));
        lags.collect::<Vec<f64>>()
    });
    lags.sort_unstable_by(f64::total_cmp);
    let p99 = lags.get(lags.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    Row::value("16 views follow 20,000 placements a second, lag at 99 %", Unit::Millis, p99)
        .reach(Reach::AtMost(50.0))
}

/// Commits at the rate of the workload.
fn feed(
    cell: &RemoteCell,
    txns: &[Transaction],
    committed: &parking_lot::Mutex<Vec<(Version, Instant)>>,
) {
    let began = Instant::now();
    for (i, txn) in txns.iter().enumerate() {
        let due = Duration::from_secs_f64((i * CLAIMS) as f64 / PLACEMENTS_PER_SECOND as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let commit = cell.commit(txn).expect("it is checked");
        committed.lock().push((commit.version, Instant::now()));
    }
}

/// Follows the cell, and returns the milliseconds from each commit until the view has received it.
fn follow(
    cell: &RemoteCell,
    (committed, over): (&parking_lot::Mutex<Vec<(Version, Instant)>>, &AtomicBool),
) -> Vec<f64> {
    let mut view = View::new(omega_core::SchedulerId(0), 0);
    let mut lags = Vec::new();
    let mut seen = 0;
    while !over.load(Ordering::Relaxed) {
        view.sync(cell).expect("the server is there");
        let now = Instant::now();
        let committed = committed.lock();
        while let Some((version, at)) = committed.get(seen)
            && *version <= view.version()
        {
            lags.push(now.saturating_duration_since(*at).as_secs_f64() * 1000.0);
            seen += 1;
        }
        drop(committed);
        std::thread::sleep(Duration::from_millis(1));
    }
    lags
}
