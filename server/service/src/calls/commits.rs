//! A stream of transactions, checked and answered in their order.
//!
//! Transactions that arrive together go to the cell together, and are answered together, because taking a lock or
//! waking a task costs as much as checking a transaction.

use crate::access::audited::Audited;
use crate::access::gate::reword;
use crate::access::grants;
use crate::access::identity::Caller;
use crate::calls::commit_log::{self, SlowCommits};
use crate::calls::traces::{Choice, Trace, Traces};
use crate::host::{Host, Try, unavailable, unknown};
use crate::observe::counters::CheckedTransaction;
use crate::overload::memory_accounts::{CallerAccount, MemoryCharge};
use futures_util::future::{Fuse, FusedFuture};
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use omega_client::{ApiError, proto};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Command, Commit, Outcome, SchedulerId, Transaction, TransactionError, Version};
use omega_store::replica::Reply;
use opentelemetry::Context;
use prost::Message;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// Maximum number of unanswered transactions of one stream. The server reads further ones later.
const COMMITS_MAX: usize = 256;

/// Maximum number of transactions passed to the cell at once, under one lock.
const TOGETHER_MAX: usize = 64;

/// Maximum number of groups of results that wait for a slow reader of a stream.
const GROUPS_MAX: usize = 4;

/// The path of the call in the audit log.
const PATH: &str = "omega.v1.SchedulingService/CommitStream";

type Responses = Result<Vec<proto::CommitStreamResponse>, Status>;

/// The transaction of a request.
pub(crate) fn read(request: proto::CommitRequest) -> Result<(Transaction, Try), ApiError> {
    let try_ = if request.retry { Try::Again } else { Try::First };
    let transaction: Transaction = request.try_into()?;
    let (items, max) = (transaction.items(), TRANSACTION_ITEMS_MAX);
    if items > max {
        // The cell rejects it, too, but the caller's rights to each item would be checked before.
        return Err(ApiError::from(&TransactionError::TooManyItems { items, max }));
    }
    Ok((transaction, try_))
}

/// Name of a transaction in the audit log.
pub(crate) fn transaction(request: &proto::CommitRequest) -> String {
    format!("transaction {} of scheduler {}", request.number, request.scheduler)
}

/// The result of a transaction.
pub(crate) fn commit_of(outcome: Result<Outcome, ApiError>) -> Result<Commit, ApiError> {
    match outcome? {
        Outcome::Commit(commit) => Ok(commit),
        _ => Err(unknown()),
    }
}

/// Checks the transactions of a stream on behalf of its caller.
#[derive(Clone)]
pub(crate) struct CommitHandler {
    pub(crate) host: Host,
    pub(crate) slow: SlowCommits,
    pub(crate) caller: Arc<Caller>,
    pub(crate) audited: Option<Audited>,
    /// Time limit for deciding whether the caller may commit a transaction.
    pub(crate) deadline: Duration,
    /// Tracer of sampled transactions, and the trace that the stream belongs to.
    pub(crate) traces: Option<(Traces, Context)>,
    /// Account of the bytes of transactions that are not yet checked.
    pub(crate) holder: Option<CallerAccount>,
}

/// A transaction in progress.
struct Begun {
    number: u64,
    scheduler: SchedulerId,
    /// Number of claims in the transaction.
    claims: usize,
    evictions: usize,
    /// Version on which the transaction is based.
    base: Version,
    /// Name of the transaction in the audit log; empty without an audit log.
    of: String,
    /// Error of a transaction that did not reach the cell.
    refused: Option<ApiError>,
    /// The trace of a sampled transaction. It is boxed, because few transactions are sampled.
    trace: Option<Box<Trace>>,
}

/// A transaction with its result.
type Finished = (Begun, Result<Commit, ApiError>);

impl CommitHandler {
    /// The results of a stream's transactions, in order.
    pub(crate) fn results(
        self,
        requests: Streaming<proto::CommitRequest>,
    ) -> impl Stream<Item = Result<proto::CommitStreamResponse, Status>> + use<> {
        let (to, groups) = mpsc::channel(GROUPS_MAX);
        tokio::spawn(self.handle_all(requests, to));
        ReceiverStream::new(groups).flat_map(|group: Responses| {
            let (answers, failed) = match group {
                Ok(answers) => (answers, None),
                Err(status) => (Vec::new(), Some(Err(status))),
            };
            stream::iter(answers.into_iter().map(Ok).chain(failed))
        })
    }

    async fn handle_all(
        self,
        requests: impl Stream<Item = Result<proto::CommitRequest, Status>> + Unpin,
        to: mpsc::Sender<Responses>,
    ) {
        let mut requests = requests.ready_chunks(TOGETHER_MAX);
        // The group that is being started. Meanwhile, the results of earlier groups are sent.
        let mut starting = pin!(Fuse::terminated());
        let mut begun = FuturesOrdered::new();
        let mut in_flight = 0;
        let mut ended = false;
        let mut failed = None;
        while !ended || in_flight > 0 {
            // If the caller is at its memory limit, its groups are checked one after the other.
            let has_room = || {
                in_flight < COMMITS_MAX && self.holder.as_ref().is_none_or(CallerAccount::has_room)
            };
            let is_starting = !starting.is_terminated();
            let may_begin = !is_starting && (in_flight == 0 || has_room());
            tokio::select! {
                received = requests.next(), if !ended && may_begin => {
                    ended = received.is_none();
                    let mut readable = Vec::new();
                    for request in received.into_iter().flatten() {
                        match request {
                            Ok(request) if failed.is_none() => readable.push(request),
                            Ok(_) => {}
                            Err(status) => failed = Some(reword(status)),
                        }
                    }
                    // If bytes cannot be decoded, nothing after them is valid.
                    ended |= failed.is_some();
                    if !readable.is_empty() {
                        in_flight += readable.len();
                        let charge = self.charge(&readable);
                        let started = self.begin(readable);
                        starting.set(async move { (started.await, charge) }.fuse());
                    }
                }
                (answers, charge) = starting.as_mut(), if is_starting => {
                    begun.push_back(async move { (answers.await, charge) });
                }
                Some((answers, charge)) = begun.next() => {
                    drop(charge);
                    in_flight -= answers.len();
                    if to.send(Ok(answers)).await.is_err() {
                        return;
                    }
                }
            }
        }
        if let Some(status) = failed {
            // The receiver may be gone.
            let _ = to.send(Err(status)).await;
        }
    }

    /// Counts the bytes of transactions in the caller's account until the transactions are checked.
    fn charge(&self, requests: &[proto::CommitRequest]) -> Option<MemoryCharge> {
        let mut charge = self.holder.as_ref()?.nothing();
        charge.add(requests.iter().map(Message::encoded_len).sum());
        Some(charge)
    }

    /// Starts transactions in the order of the stream, and returns a future of their results. While the leader is asked
    /// whether a transaction is permitted, the following transactions wait.
    async fn begin(
        &self,
        requests: Vec<proto::CommitRequest>,
    ) -> impl Future<Output = Vec<proto::CommitStreamResponse>> + use<> {
        let since = Instant::now();
        let mut commands = Vec::with_capacity(requests.len());
        let mut begun = Vec::with_capacity(requests.len());
        for request in requests {
            let proto::CommitRequest { number, base, .. } = request;
            let (scheduler, base) = (SchedulerId(request.scheduler), Version(base));
            let (claims, evictions) = (request.claim_jobs.len(), request.evictions.len());
            let of = self.audited.as_ref().map(|_| transaction(&request)).unwrap_or_default();
            let mut trace = None;
            let refused = match self.allowed(request, since + self.deadline).await {
                Ok((txn, try_)) => {
                    trace = self.traces.as_ref().and_then(|(traces, parent)| {
                        let of = (parent, Choice::Chance);
                        traces.begin(&self.host, of, txn.id, since.into_std()).map(Box::new)
                    });
                    commands.push((Command::Commit(txn), try_));
                    None
                }
                Err(error) => Some(error),
            };
            begun.push(Begun { number, scheduler, claims, evictions, base, of, refused, trace });
        }
        begun.iter_mut().filter_map(|one| one.trace.as_mut()).for_each(|one| one.mark_submitted());
        let pending = self.host.begin_all(commands);
        let handler = self.clone();
        async move {
            let mut answers = settled(&handler.host, pending.replies().await).await.into_iter();
            let answered = begun.into_iter().map(|mut begun| {
                let answer = match begun.refused.take() {
                    Some(error) => Err(error),
                    None => answers.next().unwrap_or_else(|| Err(unknown())),
                };
                (begun, answer)
            });
            let answered: Vec<Finished> = answered.collect();
            handler.count(&answered, since.elapsed());
            let results = answered.into_iter();
            let results =
                results.map(|(begun, answer)| handler.record_result(begun, answer)).collect();
            handler.audited.iter().for_each(Audited::wait_written);
            results
        }
    }

    async fn allowed(
        &self,
        request: proto::CommitRequest,
        until: Instant,
    ) -> Result<(Transaction, Try), ApiError> {
        let (txn, try_) = read(request)?;
        grants::may_commit(&self.caller, &self.host, &txn, until).await?;
        Ok((txn, try_))
    }

    /// Counts and logs the results of transactions that were answered together.
    fn count(&self, answered: &[Finished], took: Duration) {
        fn checked(
            (begun, answer): &Finished,
        ) -> Result<CheckedTransaction<'_>, (SchedulerId, &ApiError)> {
            let Begun { scheduler, claims, evictions, base, .. } = *begun;
            let answer = answer.as_ref().map_err(|error| (scheduler, error));
            answer.map(|commit| CheckedTransaction { scheduler, claims, evictions, base, commit })
        }
        self.host.metrics().checked(answered.iter().filter_map(|one| checked(one).ok()), took);
        if tracing::enabled!(tracing::Level::DEBUG) {
            answered
                .iter()
                .for_each(|one| commit_log::log_result(one.0.number, checked(one), took));
        }
        if let Some((first, _)) = answered.first() {
            let claims = answered.iter().map(|(begun, _)| begun.claims).sum();
            self.slow.log_slow((first.scheduler, first.number), (answered.len(), claims), took);
        }
        self.host.metrics().failed(answered.iter().filter(|(_, answer)| answer.is_err()).count());
    }

    /// Logs a transaction's result, and writes it to the audit log.
    fn record_result(
        &self,
        mut begun: Begun,
        answer: Result<Commit, ApiError>,
    ) -> proto::CommitStreamResponse {
        use proto::commit_stream_response::Answer as Given;
        if let Some(trace) = begun.trace.take() {
            trace.end(begun.claims, answer.as_ref());
        }
        if let Some(audited) = self.audited.clone() {
            let outcome = answer.as_ref().map_or_else(|error| error.code.name(), |_| "OK");
            audited.record(PATH, &begun.of, outcome);
        }
        let answer = match answer {
            Ok(commit) => Given::Commit((&commit).into()),
            Err(error) => Given::Error(proto::Error {
                code: error.code.name().to_owned(),
                message: error.message,
                version: error.version.unwrap_or_default().0,
            }),
        };
        proto::CommitStreamResponse { number: begun.number, answer: Some(answer) }
    }
}

/// Waits until this replica has applied the transactions, and returns their results.
async fn settled(host: &Host, answers: Vec<Reply>) -> Vec<Result<Commit, ApiError>> {
    let commit = |answer: Reply| match answer {
        Reply::Outcome(outcome) => commit_of(outcome.map_err(|rejection| (&rejection).into())),
        Reply::Retry(again) => Err(unavailable(again)),
        _ => Err(unknown()),
    };
    let commits: Vec<Result<Commit, ApiError>> = answers.into_iter().map(commit).collect();
    let last = commits.iter().flatten().map(|commit| commit.version).max();
    host.await_version(last.unwrap_or(Version(0))).await;
    commits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity;
    use crate::calls::commit_log::SlowCommit;
    use omega_core::Kinds;
    use omega_store::directory::{Directory, EngineKind, Identity};
    use omega_store::log::ReplicaId;
    use omega_store::membership::Membership;
    use omega_store::replica::{Network, Running, Settings, bootstrap, start};
    use omega_store::{CellId, Origin, RealDisk};

    /// A replica that finds no leader, because the other replicas do not run.
    fn leaderless(folder: &std::path::Path) -> Host {
        let [id, ..] = IDS;
        let origin = Origin { cell: CellId(1), kinds: Kinds::standard() };
        let identity = Identity { origin, replica: id, engine: EngineKind::Segment };
        let directory = Directory::create(Arc::new(RealDisk), folder, identity).unwrap();
        bootstrap(&directory, &Membership::initial(IDS)).unwrap();
        let started = start(directory, Settings { incarnation: 1, ..Settings::default() }).unwrap();
        let port = Network::default().port(id);
        Host::replica(Arc::new(Running::start(started, port, Duration::from_millis(10))))
    }

    const IDS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];

    /// Clients leave a replica that does not answer for a short time.
    #[tokio::test]
    async fn answers_are_sent_while_the_leader_is_asked_about_the_next_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let role = identity::read("omega://c/scheduler/web", "c").unwrap();
        let handler = CommitHandler {
            host: leaderless(folder.path()),
            slow: SlowCommits::new(SlowCommit::default()),
            caller: Arc::new(Caller { name: "web".into(), role }),
            audited: None,
            deadline: Duration::from_secs(3600),
            traces: None,
            holder: None,
        };
        let malformed = proto::CommitRequest { number: 1, granularity: 99, ..Default::default() };
        let unknown = proto::CommitRequest { number: 2, scheduler: 9, ..Default::default() };
        // The server finds the second request before or after the answer to the first one, at random.
        for _ in 0..20 {
            let unknown = unknown.clone();
            let second = stream::once(async move {
                tokio::task::yield_now().await;
                Ok(unknown)
            });
            let requests = stream::iter([Ok(malformed.clone())]).chain(second);
            let requests = requests.chain(stream::pending()).boxed();
            let (to, mut groups) = mpsc::channel(GROUPS_MAX);
            tokio::spawn(handler.clone().handle_all(requests, to));
            let answers = groups.recv().await.unwrap().unwrap();
            assert_eq!(answers.iter().map(|answer| answer.number).collect::<Vec<_>>(), [1]);
        }
    }
}
