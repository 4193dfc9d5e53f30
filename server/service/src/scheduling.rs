//! What schedulers ask: to be known, to be kept up to date, and to commit.

use crate::audit::{Audited, about};
use crate::gate::reword;
use crate::grants::{self, caller};
use crate::host::{Host, Pending, Try, unavailable, unknown};
use crate::identity::Caller;
use crate::service::{Answered, DEADLINE, deadline};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use omega_cellstate::{Delta, Interest};
use omega_client::proto::scheduling_service_server::SchedulingService;
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::{Command, Commit, Outcome, Rejection, SchedulerId, Transaction, Version};
use omega_store::replica::Answer;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// How long changes gather before they are sent as one delta: a tenth of the 50 milliseconds within which
/// a remote view is to follow.
const GATHER: Duration = Duration::from_millis(5);

/// Pieces of deltas that wait for a slow reader. What changes meanwhile comes as one delta later.
const PIECES_MAX: usize = 4;

/// Transactions of one stream that were begun and not answered. A scheduler that sends more waits.
const COMMITS_MAX: usize = 256;

/// Answers of one stream that wait for a slow reader.
const ANSWERS_MAX: usize = 64;

/// The service.
#[derive(Clone, Debug)]
pub struct Scheduling {
    host: Host,
}

impl Scheduling {
    /// The service of a cell.
    #[must_use]
    pub fn new(host: Host) -> Scheduling {
        Scheduling { host }
    }
}

#[tonic::async_trait]
impl SchedulingService for Scheduling {
    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Answered<proto::RegisterResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| request.name.clone());
        let name = request.into_inner().name;
        grants::may_register(&caller, &name)?;
        let name = name.into();
        let command = Command::RegisterScheduler { name };
        // The same name gets the same id: to ask twice does no harm.
        match self.host.apply_try(command, Try::Again, until).await? {
            Outcome::Scheduler { id, next_transaction } => {
                Ok(Response::new(proto::RegisterResponse { scheduler: id.0, next_transaction }))
            }
            _ => Err(unknown().into()),
        }
    }

    type SyncStream = ReceiverStream<Result<proto::Delta, Status>>;

    async fn sync(&self, request: Request<proto::SyncRequest>) -> Answered<Self::SyncStream> {
        let request = request.into_inner();
        let interest = convert::interest(request.interest);
        let (to, deltas) = mpsc::channel(PIECES_MAX);
        let delta = Delta { lineage: Version(request.lineage), ..Delta::default() };
        let since = Version(request.since);
        let source = Source { host: self.host.clone(), interest, since, delta, to };
        tokio::spawn(source.run());
        Ok(Response::new(ReceiverStream::new(deltas)))
    }

    async fn commit(
        &self,
        request: Request<proto::CommitRequest>,
    ) -> Answered<proto::CommitResponse> {
        let until = deadline(&request);
        let began = Instant::now();
        let caller = caller(&request)?;
        about(&request, transaction);
        let (txn, try_) = read(request.into_inner())?;
        grants::may_commit(&caller, &self.host, &txn, until).await?;
        let claims = (txn.id.scheduler, txn.claims.len());
        let outcome = self.host.apply_try(Command::Commit(txn), try_, until).await;
        let commit = commit_of(outcome).inspect_err(|_| self.host.metrics().failed())?;
        self.host.metrics().judged(claims, &commit, began.elapsed());
        Ok(Response::new((&commit).into()))
    }

    type CommitStreamStream = ReceiverStream<Result<proto::CommitStreamResponse, Status>>;

    async fn commit_stream(
        &self,
        request: Request<Streaming<proto::CommitRequest>>,
    ) -> Answered<Self::CommitStreamStream> {
        let (to, answers) = mpsc::channel(ANSWERS_MAX);
        let caller = caller(&request)?;
        let audited = request.extensions().get().cloned();
        let judge = Judge { host: self.host.clone(), caller, audited };
        tokio::spawn(commit_all(judge, request.into_inner(), to));
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}

fn read(request: proto::CommitRequest) -> Result<(Transaction, Try), ApiError> {
    let try_ = if request.retry { Try::Again } else { Try::First };
    Ok((request.try_into()?, try_))
}

/// How a transaction is called in the audit log.
fn transaction(request: &proto::CommitRequest) -> String {
    format!("transaction {} of scheduler {}", request.number, request.scheduler)
}

/// What judges the transactions of a stream, and for whom.
struct Judge {
    host: Host,
    caller: Arc<Caller>,
    audited: Option<Audited>,
}

/// Judges the transactions of a stream, in order.
async fn commit_all(
    judge: Judge,
    mut requests: Streaming<proto::CommitRequest>,
    to: mpsc::Sender<Result<proto::CommitStreamResponse, Status>>,
) {
    let mut begun = FuturesOrdered::new();
    let mut ended = false;
    while !ended || !begun.is_empty() {
        tokio::select! {
            request = requests.next(), if !ended && begun.len() < COMMITS_MAX => match request {
                Some(Ok(request)) => begun.push_back(begin(&judge, request).await),
                Some(Err(status)) => {
                    // The bytes cannot be read: what comes after them means nothing.
                    let _ = to.send(Err(reword(status))).await;
                    return;
                }
                None => ended = true,
            },
            Some(answer) = begun.next() => {
                if to.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Begins a transaction, so that the order of the stream is kept; its answer may take longer. Only what
/// this replica must first ask its leader about holds up those behind it.
async fn begin(
    judge: &Judge,
    request: proto::CommitRequest,
) -> impl Future<Output = proto::CommitStreamResponse> + use<> {
    let began = Instant::now();
    let number = request.number;
    let claims = (SchedulerId(request.scheduler), request.claim_jobs.len());
    let Judge { host, caller, audited } = judge;
    let audited = audited.clone().map(|audited| (audited, transaction(&request)));
    let pending = match read(request) {
        Ok((txn, try_)) => {
            let until = Instant::now() + DEADLINE;
            let allowed = grants::may_commit(caller, host, &txn, until).await;
            allowed.map(|()| host.begin(Command::Commit(txn), try_))
        }
        Err(error) => Err(error),
    };
    let host = host.clone();
    async move {
        use proto::commit_stream_response::Answer as Given;
        let answer = match pending {
            Ok(pending) => judged(&host, pending).await,
            Err(error) => Err(error),
        };
        if let Some((audited, of)) = audited {
            let outcome = answer.as_ref().map_or_else(|error| error.code.name(), |_| "OK");
            audited.note("omega.v1.SchedulingService/CommitStream", &of, outcome);
        }
        let answer = match answer {
            Ok(commit) => {
                host.metrics().judged(claims, &commit, began.elapsed());
                Given::Commit((&commit).into())
            }
            Err(error) => {
                host.metrics().failed();
                Given::Error(proto::Error {
                    code: error.code.name().to_owned(),
                    message: error.message,
                    version: error.version.unwrap_or_default().0,
                })
            }
        };
        proto::CommitStreamResponse { number, answer: Some(answer) }
    }
}

async fn judged(host: &Host, pending: Pending) -> Result<Commit, ApiError> {
    let outcome: Result<Outcome, Rejection> = match pending.answer().await {
        Answer::Outcome(outcome) => outcome,
        Answer::Again(again) => return Err(unavailable(again)),
        _ => return Err(unknown()),
    };
    commit_of(host.settled(outcome).await)
}

/// The answer to a transaction.
fn commit_of(outcome: Result<Outcome, ApiError>) -> Result<Commit, ApiError> {
    match outcome? {
        Outcome::Commit(commit) => Ok(commit),
        _ => Err(unknown()),
    }
}

/// What sends deltas down one stream.
struct Source {
    host: Host,
    interest: Interest,
    since: Version,
    delta: Delta,
    to: mpsc::Sender<Result<proto::Delta, Status>>,
}

impl Source {
    async fn run(mut self) {
        let mut versions = self.host.versions();
        let _counted = self.host.metrics().stream();
        loop {
            versions.mark_unchanged();
            let Self { host, interest, since, delta, .. } = &mut self;
            host.read(|cell| cell.delta_since(*since, interest, delta));
            for piece in convert::split((&*delta).into(), convert::PIECE_BYTES) {
                self.host.metrics().sent(piece.encoded_len());
                if self.to.send(Ok(piece)).await.is_err() {
                    return;
                }
            }
            self.since = self.delta.to;
            tokio::select! {
                changed = versions.changed() => {
                    if changed.is_err() {
                        let gone = ApiError::new(ErrorCode::Stopped, "this replica has stopped");
                        let _ = self.to.send(Err(gone.into())).await;
                        return;
                    }
                }
                () = self.to.closed() => return,
            }
            tokio::time::sleep(GATHER).await;
        }
    }
}
