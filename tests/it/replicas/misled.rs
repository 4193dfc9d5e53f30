//! Clients of a replica that breaks streams, skips deltas, or replies out of order.

use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, View};
use omega_client::proto::commit_stream_response::Answer;
use omega_client::proto::scheduling_service_server::{SchedulingService, SchedulingServiceServer};
use omega_client::{Address, ErrorCode, RemoteCell, proto};
use omega_core::{
    Amounts, Command, Kinds, Machine, SchedulerId, Transaction, TransactionError, TransactionId,
    Version,
};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

/// Handlers of the fake replica: for transactions of a stream that arrived together, and for sync requests. Both get
/// the number of earlier streams.
type Commits =
    fn(usize, &[proto::CommitRequest]) -> Result<Vec<proto::CommitStreamResponse>, Status>;
type Deltas = fn(u64) -> Vec<Delta>;

/// A fake replica that replies by these handlers, and records the requests.
#[derive(Clone)]
struct Misleading {
    commits: Commits,
    /// Number of transactions that are read from a stream before the first reply.
    together: usize,
    deltas: Deltas,
    streams: Arc<Mutex<Vec<Vec<proto::CommitRequest>>>>,
    syncs: Arc<Mutex<Vec<u64>>>,
}

impl Misleading {
    fn new(commits: Commits, deltas: Deltas) -> Misleading {
        let (streams, syncs) = (Arc::default(), Arc::default());
        Misleading { commits, together: 1, deltas, streams, syncs }
    }

    /// Serves the fake replica while the runtime exists.
    fn serve(&self, runtime: &Runtime) -> RemoteCell {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let service = SchedulingServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        RemoteCell::connect(&Address::plain([address.to_string()])).unwrap()
    }
}

fn none<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("no test asks for it"))
}

#[tonic::async_trait]
impl SchedulingService for Misleading {
    async fn register(
        &self,
        _: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        none()
    }

    async fn renew(
        &self,
        _: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::RenewResponse>, Status> {
        none()
    }

    async fn end_leases(
        &self,
        _: Request<proto::EndLeasesRequest>,
    ) -> Result<Response<proto::EndLeasesResponse>, Status> {
        none()
    }

    async fn list_schedulers(
        &self,
        _: Request<proto::ListSchedulersRequest>,
    ) -> Result<Response<proto::ListSchedulersResponse>, Status> {
        none()
    }

    async fn get_transaction(
        &self,
        _: Request<proto::GetTransactionRequest>,
    ) -> Result<Response<proto::GetTransactionResponse>, Status> {
        none()
    }

    async fn list_transactions(
        &self,
        _: Request<proto::ListTransactionsRequest>,
    ) -> Result<Response<proto::ListTransactionsResponse>, Status> {
        none()
    }

    type SyncStream = BoxStream<proto::Delta>;

    async fn sync(
        &self,
        request: Request<proto::SyncRequest>,
    ) -> Result<Response<Self::SyncStream>, Status> {
        let since = request.into_inner().since;
        self.syncs.lock().unwrap().push(since);
        let deltas = (self.deltas)(since);
        let told = deltas.iter().map(|delta| Ok(proto::Delta::from(delta))).collect::<Vec<_>>();
        // The stream stays open, but has no further messages.
        Ok(Response::new(Box::pin(tokio_stream::iter(told).chain(tokio_stream::pending()))))
    }

    async fn commit(
        &self,
        _: Request<proto::CommitRequest>,
    ) -> Result<Response<proto::CommitResponse>, Status> {
        none()
    }

    type CommitStreamStream = BoxStream<proto::CommitStreamResponse>;

    async fn commit_stream(
        &self,
        request: Request<Streaming<proto::CommitRequest>>,
    ) -> Result<Response<Self::CommitStreamStream>, Status> {
        let mut requests = request.into_inner();
        let mut came = Vec::new();
        // The stream is accepted only after this loop. Until then, the sender is waiting for its acceptance.
        while came.len() < self.together {
            came.push(requests.message().await?.expect("it has something to say"));
        }
        let before = {
            let mut streams = self.streams.lock().unwrap();
            streams.push(came.clone());
            streams.len() - 1
        };
        let answers = (self.commits)(before, &came)?.into_iter().map(Ok).collect::<Vec<_>>();
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }
}

fn transaction(number: u64) -> Transaction {
    let id = TransactionId { scheduler: SchedulerId(0), number };
    Transaction::new(id, Version(0), Vec::new())
}

fn refused(number: u64, code: ErrorCode) -> proto::CommitStreamResponse {
    let error = proto::Error { code: code.name().to_owned(), ..Default::default() };
    proto::CommitStreamResponse { number, answer: Some(Answer::Error(error)) }
}

/// Commits a transaction at a fake replica, which rejects it in the end. Checks that it was sent several times, and as
/// sent before after the first time.
fn check_that_it_is_sent_again(commits: Commits, number: u64) {
    let mut came = Vec::new();
    // On a busy computer, the client may give up its first stream before the replica accepts it.
    for _ in 0..20 {
        let runtime = Runtime::new().unwrap();
        let replica = Misleading::new(commits, |_| Vec::new());
        let told = replica.serve(&runtime).commit(&transaction(number));
        assert_eq!(told, Err(HandleError::Refused(TransactionError::Empty)));
        let streams = replica.streams.lock().unwrap();
        came = streams.iter().flatten().map(|request| (request.number, request.retry)).collect();
        if came.first() == Some(&(number, false)) {
            break;
        }
    }
    assert_eq!(came.first(), Some(&(number, false)), "{came:?}");
    assert!(came.len() >= 2 && came[1..].iter().all(|one| *one == (number, true)), "{came:?}");
}

#[test]
fn what_a_broken_stream_may_have_told_is_sent_as_sent_before() {
    let breaks_once = |before, came: &[proto::CommitRequest]| match before {
        0 => Err(Status::unavailable("the line broke")),
        _ => Ok(vec![refused(came[0].number, ErrorCode::TransactionEmpty)]),
    };
    check_that_it_is_sent_again(breaks_once, 0);
}

/// If replies are out of order, the client drops the stream, so that no transaction gets the result of another one.
#[test]
fn an_answer_of_another_transaction_is_not_taken() {
    let answers_the_next = |before, came: &[proto::CommitRequest]| match before {
        0 => Ok(vec![refused(came[0].number + 1, ErrorCode::Denied)]),
        _ => Ok(vec![refused(came[0].number, ErrorCode::TransactionEmpty)]),
    };
    check_that_it_is_sent_again(answers_the_next, 7);
}

/// A delta between two versions of a cell, which adds a machine for each version.
fn delta(from: u64, to: u64) -> Delta {
    let mut cell = Cell::new(Kinds::standard());
    for machine in 0..to {
        let machine = Machine::new(format!("m{machine}"), Amounts::new([1000]));
        cell.apply(Command::RegisterMachine(machine)).unwrap();
    }
    let mut delta = Delta::default();
    cell.delta_since(Version(from), &Interest::Machines, &mut delta);
    delta
}

#[test]
fn a_delta_that_leaves_a_gap_is_asked_for_again() {
    let skips_one = |since| match since {
        0 => vec![delta(0, 2), delta(3, 4)],
        since => vec![delta(since, 4)],
    };
    let runtime = Runtime::new().unwrap();
    let replica = Misleading::new(|_, _| Err(Status::unimplemented("")), skips_one);
    let remote = replica.serve(&runtime);
    let mut view = View::new(SchedulerId(0), 0);
    while view.version() < Version(4) {
        match view.sync(&remote) {
            Ok(()) | Err(HandleError::Unavailable) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    for machine in ["m0", "m1", "m2", "m3"] {
        assert!(view.machine_by_name(machine).is_some(), "{machine} is missing");
    }
    assert_eq!(*replica.syncs.lock().unwrap(), [0, 2], "it went on from what it had");
}
