//! Calls of schedulers: register, sync and commit.

use crate::access::audited::about;
use crate::access::grants::{self, caller};
use crate::access::identity::Caller;
use crate::access::visibility::may_see_all;
use crate::calls::commit_log::{self, SlowCommit, SlowCommits};
use crate::calls::commits::{CommitHandler, commit_of, read, transaction};
use crate::calls::deltas::{DeltaStream, Reader};
use crate::calls::responses;
use crate::calls::snapshots::Snapshots;
use crate::calls::traces::{Choice, Trace, Traces};
use crate::calls::transactions;
use crate::host::{Host, Try, unknown};
use crate::leases::{self, LeaseRequest, Leases, process_name};
use crate::observe::counters::CheckedTransaction;
use crate::service::{RpcResult, deadline, deadlines, page_size};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use omega_client::proto::scheduling_service_server::SchedulingService;
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{Command, HolderId, Lease, Outcome, SchedulerId, Text};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

/// The scheduling service.
#[derive(Clone, Debug)]
pub struct Scheduling {
    host: Host,
    slow: SlowCommits,
    traces: Option<Traces>,
    snapshots: Snapshots,
    /// Keeps the check for leadership running until the last clone is dropped.
    _alive: Arc<oneshot::Sender<()>>,
}

impl Scheduling {
    /// Creates the service of a cell, and starts the task that maintains its leases while this replica leads. Needs a
    /// tokio runtime.
    #[must_use]
    pub fn start(host: Host, slow: SlowCommit, traces: Option<Traces>) -> Scheduling {
        let (alive, end) = oneshot::channel();
        tokio::spawn(Leases::watch(host.clone(), end));
        let slow = SlowCommits::new(slow);
        Scheduling { host, slow, traces, snapshots: Snapshots::default(), _alive: Arc::new(alive) }
    }
}

/// Default duration of a lease. It is long enough for a change of leader, and short enough that a dead scheduler is
/// replaced soon.
const LEASE_MS: u32 = 10_000;

#[tonic::async_trait]
impl SchedulingService for Scheduling {
    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> RpcResult<proto::RegisterResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| request.name.clone());
        let requested = request.into_inner();
        grants::may_register(&caller, &requested.name)?;
        let (scheduler, next_transaction) = match requested.holder {
            0 => self.register_without_lease(requested.name.into(), until).await?,
            holder => {
                let lease_ms = if requested.lease_ms == 0 { LEASE_MS } else { requested.lease_ms };
                let lease = Lease { holder: HolderId(holder), lease_ms };
                let process = process_name(&requested.process);
                let lease_request = LeaseRequest { name: requested.name.into(), lease, process };
                self.host.leases().grant(&self.host, lease_request, until).await?
            }
        };
        Ok(Response::new(proto::RegisterResponse { scheduler: scheduler.0, next_transaction }))
    }

    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> RpcResult<proto::RenewResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        let proto::RenewRequest { holder, names, process } = request.into_inner();
        let holder = parse_holder(holder)?;
        if names.is_empty() {
            return Err(ApiError::new(
                ErrorCode::Malformed,
                "names is empty: give at least one name",
            )
            .into());
        }
        names.iter().try_for_each(|name| grants::may_register(&caller, name))?;
        let process = process_name(&process);
        self.host.leases().renew(&self.host, (holder, &names), process, until).await?;
        Ok(Response::new(proto::RenewResponse {}))
    }

    async fn end_leases(
        &self,
        request: Request<proto::EndLeasesRequest>,
    ) -> RpcResult<proto::EndLeasesResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| match &*request.name {
            "" => "all leases of a process".to_owned(),
            name => format!("all leases of the process that owns {name:?}"),
        });
        let requested = request.into_inner();
        // A name that is unknown to this replica may belong to another scheduler.
        self.host.refresh(until).await?;
        let holder = match (&*requested.name, requested.holder) {
            ("", holder) => Some(parse_holder(holder)?),
            (name, 0) => {
                grants::may_register(&caller, name)?;
                self.host.read(|cell| leases::marked(cell, name, requested.mark))?
            }
            _ => {
                let message = "give either a holder, or a name and a mark";
                return Err(ApiError::new(ErrorCode::Malformed, message).into());
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
    ) -> RpcResult<proto::ListSchedulersResponse> {
        let (until, caller) = (deadline(&request), caller(&request)?);
        self.host.refresh(until).await?;
        let all = self.host.leases().list(&self.host)?;
        let schedulers = all.into_iter().map(responses::scheduler);
        let schedulers = schedulers.map(|one| seen_by(&caller, one)).collect();
        Ok(Response::new(proto::ListSchedulersResponse { schedulers }))
    }

    type SyncStream = BoxStream<'static, Result<proto::Delta, Status>>;

    async fn sync(&self, request: Request<proto::SyncRequest>) -> RpcResult<Self::SyncStream> {
        let caller = caller(&request)?;
        let reader = Reader {
            caller,
            holder: request.extensions().get().cloned(),
            patience: deadlines(&request).max,
        };
        let requested = request.into_inner();
        let deltas = DeltaStream::new(self.host.clone(), self.snapshots.clone(), reader, requested);
        Ok(Response::new(deltas.messages().boxed()))
    }

    async fn commit(
        &self,
        request: Request<proto::CommitRequest>,
    ) -> RpcResult<proto::CommitResponse> {
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
        trace.iter_mut().for_each(Trace::mark_submitted);
        let outcome = self.host.apply_try(Command::Commit(txn), try_, until).await;
        let (commit, took) = (commit_of(outcome), began.elapsed());
        self.slow.log_slow((id.scheduler, id.number), (1, claims), took);
        let answer = commit.as_ref();
        if let Some(trace) = trace {
            trace.end(claims, answer);
        }
        let checked = answer.map(|commit| CheckedTransaction {
            scheduler: id.scheduler,
            claims,
            evictions,
            base,
            commit,
        });
        match checked {
            Ok(checked) => self.host.metrics().checked([checked].into_iter(), took),
            Err(_) => self.host.metrics().failed(1),
        }
        commit_log::log_result(id.number, checked.map_err(|error| (id.scheduler, error)), took);
        Ok(Response::new((&commit?).into()))
    }

    type CommitStreamStream = BoxStream<'static, Result<proto::CommitStreamResponse, Status>>;

    async fn commit_stream(
        &self,
        request: Request<Streaming<proto::CommitRequest>>,
    ) -> RpcResult<Self::CommitStreamStream> {
        let caller = caller(&request)?;
        let audited = request.extensions().get().cloned();
        let deadline = deadlines(&request).usual;
        let (host, slow) = (self.host.clone(), self.slow.clone());
        let traces = self.traces.as_ref();
        let traces = traces.map(|traces| (traces.clone(), traces.parent(request.metadata())));
        let holder = request.extensions().get().cloned();
        let handler = CommitHandler { host, slow, caller, audited, deadline, traces, holder };
        Ok(Response::new(handler.results(request.into_inner()).boxed()))
    }

    async fn get_transaction(
        &self,
        request: Request<proto::GetTransactionRequest>,
    ) -> RpcResult<proto::GetTransactionResponse> {
        may_see_all(&*caller(&request)?)?;
        self.host.refresh(deadline(&request)).await?;
        let proto::GetTransactionRequest { scheduler, number } = request.into_inner();
        let reported = self.host.read(|cell| transactions::get(cell, &scheduler, number))?;
        Ok(Response::new(proto::GetTransactionResponse { transaction: Some(reported) }))
    }

    async fn list_transactions(
        &self,
        request: Request<proto::ListTransactionsRequest>,
    ) -> RpcResult<proto::ListTransactionsResponse> {
        may_see_all(&*caller(&request)?)?;
        self.host.refresh(deadline(&request)).await?;
        let requested = request.into_inner();
        let page = (page_size(requested.page_size), requested.page_token.as_str());
        Ok(Response::new(transactions::list(&self.host, &requested.scheduler, page)?))
    }
}

impl Scheduling {
    async fn register_without_lease(
        &self,
        name: Text,
        until: Instant,
    ) -> Result<(SchedulerId, u64), ApiError> {
        let command = Command::RegisterScheduler { name };
        // The command may be repeated, because the same name gets the same id.
        match self.host.apply_try(command, Try::Again, until).await? {
            Outcome::Scheduler { id, next_transaction } => Ok((id, next_transaction)),
            _ => Err(unknown()),
        }
    }
}

/// A scheduler without its process, if the caller sees only some tenants: the text has a host and a process id.
fn seen_by(caller: &Caller, mut scheduler: proto::SchedulerStatus) -> proto::SchedulerStatus {
    if let Some(holder) = scheduler.holder.as_mut().filter(|_| caller.is_bounded()) {
        holder.process.clear();
    }
    scheduler
}

fn parse_holder(holder: u64) -> Result<HolderId, ApiError> {
    match holder {
        0 => Err(ApiError::new(ErrorCode::Malformed, "holder is missing")),
        holder => Ok(HolderId(holder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity;

    #[test]
    fn callers_of_some_tenants_do_not_see_processes() {
        let process = |uri: &str| {
            let role = identity::read(uri, "c").unwrap();
            let holder = proto::Holder { process: "host1:17".to_owned(), ..Default::default() };
            let status = proto::SchedulerStatus { holder: Some(holder), ..Default::default() };
            let seen = seen_by(&Caller { name: uri.into(), role }, status);
            seen.holder.expect("the scheduler has an owner").process
        };
        for uri in ["omega://c/operator/x", "omega://c/reader/x", "omega://c/scheduler/x"] {
            assert_eq!(process(uri), "host1:17", "{uri}");
        }
        for role in ["reader", "submitter", "application"] {
            assert_eq!(process(&format!("omega://c/{role}/x?tenant=a")), "", "{role}");
        }
    }
}
