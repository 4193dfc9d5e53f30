//! What schedulers ask: to be known, to be kept up to date, and to commit.

use crate::audit::about;
use crate::commits::{Judge, commit_of, read, transaction};
use crate::describe;
use crate::grants::{self, caller};
use crate::host::{Host, Try, unknown};
use crate::identity::Caller;
use crate::leases::{self, Leases, Wish, process_name};
use crate::reach::may_see_all;
use crate::server::SlowCommit;
use crate::service::{Answered, deadline, deadlines, page_size};
use crate::tally::Judged;
use crate::told::{self, SlowCommits};
use crate::traces::{Choice, Trace, Traces};
use crate::transactions;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use omega_cellstate::{Cell, Delta, Interest};
use omega_client::proto::scheduling_service_server::SchedulingService;
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::{Command, Hold, HolderId, Outcome, SchedulerId, Text, Version};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// How long changes gather after a delta was sent before the next one is: a tenth of the 50 milliseconds
/// within which a remote view is to follow. One that comes alone is sent at once.
const GATHER: Duration = Duration::from_millis(5);

/// How often it is looked whether the cell was told the time: it is told each second at most.
const TIME_LOOK: Duration = Duration::from_millis(500);

/// Pieces of deltas that wait for a slow reader. What changes meanwhile comes as one delta later.
const PIECES_MAX: usize = 4;

/// The service.
#[derive(Clone, Debug)]
pub struct Scheduling {
    host: Host,
    slow: SlowCommits,
    traces: Option<Traces>,
    /// What looks who leads ends with the last clone.
    _alive: Arc<oneshot::Sender<()>>,
}

impl Scheduling {
    /// The service of a cell, and what keeps its leases while this replica leads. Needs a tokio runtime.
    #[must_use]
    pub fn start(host: Host, slow: SlowCommit, traces: Option<Traces>) -> Scheduling {
        let (alive, end) = oneshot::channel();
        tokio::spawn(Leases::watch(host.clone(), end));
        let slow = SlowCommits::new(slow);
        Scheduling { host, slow, traces, _alive: Arc::new(alive) }
    }
}

/// What a lease is that says nothing of its length: long enough for a leader to be lost and another one
/// elected, and short enough that a dead scheduler is followed before people ask.
const LEASE_MS: u32 = 10_000;

#[tonic::async_trait]
impl SchedulingService for Scheduling {
    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Answered<proto::RegisterResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| request.name.clone());
        let asked = request.into_inner();
        grants::may_register(&caller, &asked.name)?;
        let (scheduler, next_transaction) = match asked.holder {
            0 => self.register_without_lease(asked.name.into(), until).await?,
            holder => {
                let lease_ms = if asked.lease_ms == 0 { LEASE_MS } else { asked.lease_ms };
                let hold = Hold { holder: HolderId(holder), lease_ms };
                let process = process_name(&asked.process);
                let wish = Wish { name: asked.name.into(), hold, process };
                self.host.leases().hold(&self.host, wish, until).await?
            }
        };
        Ok(Response::new(proto::RegisterResponse { scheduler: scheduler.0, next_transaction }))
    }

    async fn renew(&self, request: Request<proto::RenewRequest>) -> Answered<proto::RenewResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        let proto::RenewRequest { holder, names, process } = request.into_inner();
        let holder = given_holder(holder)?;
        if names.is_empty() {
            return Err(ApiError::new(ErrorCode::Malformed, "names is empty").into());
        }
        names.iter().try_for_each(|name| grants::may_register(&caller, name))?;
        let process = process_name(&process);
        self.host.leases().renew(&self.host, (holder, &names), process, until).await?;
        Ok(Response::new(proto::RenewResponse {}))
    }

    async fn end_leases(
        &self,
        request: Request<proto::EndLeasesRequest>,
    ) -> Answered<proto::EndLeasesResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| match &*request.name {
            "" => "all leases of a process".to_owned(),
            name => format!("all leases of the process that holds {name:?}"),
        });
        let asked = request.into_inner();
        // What this replica has not heard of may be somebody else's.
        self.host.refresh(until).await?;
        let holder = match (&*asked.name, asked.holder) {
            ("", holder) => Some(given_holder(holder)?),
            (name, 0) => {
                grants::may_register(&caller, name)?;
                self.host.read(|cell| leases::marked(cell, name, asked.mark))?
            }
            _ => {
                let say = "say either a holder, or a name and a mark";
                return Err(ApiError::new(ErrorCode::Malformed, say).into());
            }
        };
        if let Some(holder) = holder {
            self.host.read(|cell| grants::may_end(&caller, cell, holder))?;
            self.host.leases().end(&self.host, holder, until).await?;
        }
        Ok(Response::new(proto::EndLeasesResponse {}))
    }

    async fn list_schedulers(
        &self,
        request: Request<proto::ListSchedulersRequest>,
    ) -> Answered<proto::ListSchedulersResponse> {
        let until = deadline(&request);
        self.host.refresh(until).await?;
        let all = self.host.leases().list(&self.host)?;
        let schedulers = all.into_iter().map(describe::scheduler).collect();
        Ok(Response::new(proto::ListSchedulersResponse { schedulers }))
    }

    type SyncStream = ReceiverStream<Result<proto::Delta, Status>>;

    async fn sync(&self, request: Request<proto::SyncRequest>) -> Answered<Self::SyncStream> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let interest = convert::interest(request.interest);
        let (to, deltas) = mpsc::channel(PIECES_MAX);
        let delta = Delta { lineage: Version(request.lineage), ..Delta::default() };
        let since = Version(request.since);
        let source = Source { host: self.host.clone(), caller, interest, since, delta, to };
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
        let parent = self.traces.as_ref().map(|traces| (traces, traces.parent(request.metadata())));
        let (txn, try_) = read(request.into_inner())?;
        grants::may_commit(&caller, &self.host, &txn, until).await?;
        let (id, claims, evictions, base) =
            (txn.id, txn.claims.len(), txn.evictions.len(), txn.base);
        let mut trace = parent.and_then(|(traces, parent)| {
            traces.begin(&self.host, (&parent, Choice::Sender), id, began.into_std())
        });
        trace.iter_mut().for_each(Trace::given);
        let outcome = self.host.apply_try(Command::Commit(txn), try_, until).await;
        let (commit, took) = (commit_of(outcome), began.elapsed());
        self.slow.look((id.scheduler, id.number), (1, claims), took);
        let judged = commit.as_ref();
        if let Some(trace) = trace {
            trace.end(claims, judged);
        }
        let judged = judged.map(|commit| Judged {
            scheduler: id.scheduler,
            claims,
            evictions,
            base,
            commit,
        });
        match judged {
            Ok(judged) => self.host.metrics().judged([judged].into_iter(), took),
            Err(_) => self.host.metrics().failed(1),
        }
        told::answered(id.number, judged.map_err(|error| (id.scheduler, error)), took);
        Ok(Response::new((&commit?).into()))
    }

    type CommitStreamStream = BoxStream<'static, Result<proto::CommitStreamResponse, Status>>;

    async fn commit_stream(
        &self,
        request: Request<Streaming<proto::CommitRequest>>,
    ) -> Answered<Self::CommitStreamStream> {
        let caller = caller(&request)?;
        let audited = request.extensions().get().cloned();
        let deadline = deadlines(&request).usual;
        let (host, slow) = (self.host.clone(), self.slow.clone());
        let traces = self.traces.as_ref();
        let traces = traces.map(|traces| (traces.clone(), traces.parent(request.metadata())));
        let judge = Judge { host, slow, caller, audited, deadline, traces };
        Ok(Response::new(judge.answer_all(request.into_inner()).boxed()))
    }

    async fn get_transaction(
        &self,
        request: Request<proto::GetTransactionRequest>,
    ) -> Answered<proto::GetTransactionResponse> {
        may_see_all(&*caller(&request)?)?;
        self.host.refresh(deadline(&request)).await?;
        let proto::GetTransactionRequest { scheduler, number } = request.into_inner();
        let told = self.host.read(|cell| transactions::get(cell, &scheduler, number))?;
        Ok(Response::new(proto::GetTransactionResponse { transaction: Some(told) }))
    }

    async fn list_transactions(
        &self,
        request: Request<proto::ListTransactionsRequest>,
    ) -> Answered<proto::ListTransactionsResponse> {
        may_see_all(&*caller(&request)?)?;
        self.host.refresh(deadline(&request)).await?;
        let asked = request.into_inner();
        let page = (page_size(asked.page_size), asked.page_token.as_str());
        Ok(Response::new(transactions::list(&self.host, &asked.scheduler, page)?))
    }
}

/// Takes out of a delta the jobs, tasks and tenants that somebody may not see. What is left of machines, and what rules
/// about other tasks count, everyone sees who may sync: no placement could be explained without it.
fn keep_seen(cell: &Cell, caller: &Caller, delta: &mut Delta) {
    // Of a job that is forgotten by now nobody knows whose it was: its number is told.
    delta.jobs.retain(|job| cell.job(job.id).is_none_or(|known| caller.sees(known)));
    delta.retain_tasks(|task| caller.sees_id(cell, task.id.job));
    delta.tenants.retain(|tenant| caller.sees_tenant(&tenant.terms.name));
}

impl Scheduling {
    async fn register_without_lease(
        &self,
        name: Text,
        until: Instant,
    ) -> Result<(SchedulerId, u64), ApiError> {
        let command = Command::RegisterScheduler { name };
        // The same name gets the same id: to ask twice does no harm.
        match self.host.apply_try(command, Try::Again, until).await? {
            Outcome::Scheduler { id, next_transaction } => Ok((id, next_transaction)),
            _ => Err(unknown()),
        }
    }
}

fn given_holder(holder: u64) -> Result<HolderId, ApiError> {
    match holder {
        0 => Err(ApiError::new(ErrorCode::Malformed, "holder is missing")),
        holder => Ok(HolderId(holder)),
    }
}

/// What sends deltas down one stream.
struct Source {
    host: Host,
    caller: Arc<Caller>,
    interest: Interest,
    since: Version,
    delta: Delta,
    to: mpsc::Sender<Result<proto::Delta, Status>>,
}

impl Source {
    async fn run(mut self) {
        let mut versions = self.host.versions();
        let _counted = self.host.metrics().stream();
        let mut stale_since: Option<Instant> = None;
        loop {
            versions.mark_unchanged();
            let made = Instant::now();
            let Self { host, caller, interest, since, delta, .. } = &mut self;
            host.read(|cell| {
                cell.delta_since(*since, interest, delta);
                if caller.is_bounded() {
                    keep_seen(cell, caller, delta);
                }
            });
            for piece in convert::split((&*delta).into(), convert::PIECE_BYTES) {
                self.host.metrics().sent(piece.encoded_len());
                if self.to.send(Ok(piece)).await.is_err() {
                    return;
                }
            }
            if let Some(stale_since) = stale_since {
                let versions = self.delta.to.0.saturating_sub(self.since.0);
                self.host.metrics().told(versions, stale_since.elapsed());
            }
            self.since = self.delta.to;
            let sent = Instant::now();
            // A change while the delta was sent may be as old as the delta.
            let was_overtaken = versions.has_changed().unwrap_or(false);
            stale_since = tokio::select! {
                changed = versions.changed() => match changed {
                    Ok(()) => Some(if was_overtaken { made } else { Instant::now() }),
                    Err(_) => {
                        let gone = ApiError::new(ErrorCode::Stopped, "this replica has stopped");
                        let _ = self.to.send(Err(gone.into())).await;
                        return;
                    }
                },
                () = self.time_goes_on() => None,
                () = self.to.closed() => return,
            };
            tokio::time::sleep_until(sent + GATHER).await;
        }
    }

    /// Waits until the cell was told a later time than the last delta has: that alone is no new version, and the
    /// reader waits for hours of the day, reservations and plans by it.
    async fn time_goes_on(&self) {
        while self.host.read(Cell::now_ms) <= self.delta.now_ms {
            tokio::time::sleep(TIME_LOOK).await;
        }
    }
}
