//! The cell service: description, policy and replicas.

use crate::access::audited::about;
use crate::access::grants::caller;
use crate::access::visibility;
use crate::calls::backup::{self, Backups};
use crate::calls::responses;
use crate::host::{Host, done};
use crate::observe::statistics::{statistics, summary, summary_since};
use crate::peers::ReplicaIdentity;
use crate::service::{RpcResult, deadline, stream_end};
use omega_cellstate::Cell;
use omega_client::proto::cell_service_server::CellService;
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::{Command, KindId, Version};
use omega_store::log::ReplicaId;
use omega_store::membership::{MemberStep, MembershipChange};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Request, Response};

/// Time to wait for a leader. After this time, the cell is described without a leader.
const LEADER_MAX: Duration = Duration::from_secs(1);

/// The cell service.
#[derive(Clone, Debug)]
pub struct Cells {
    host: Host,
    me: ReplicaIdentity,
    backups: Backups,
}

impl Cells {
    /// Creates the service of a cell, at this replica.
    #[must_use]
    pub fn new(host: Host, me: ReplicaIdentity) -> Cells {
        Cells { host, me, backups: Backups::default() }
    }

    fn members(&self) -> Option<proto::Members> {
        let running = self.host.running()?;
        let status = running.status();
        let (me, leader) = (self.me.replica.0, status.leadership.leader.map_or(0, |id| id.0));
        let mut all = responses::members(&status.membership);
        for member in &mut all {
            let id = ReplicaId(member.replica);
            member.client_address = self.host.client_address(id).unwrap_or_default();
            // The membership has the addresses of replicas that were added or moved. The other addresses are in the
            // settings.
            if member.peer_address.is_empty() {
                member.peer_address = self.host.peer_address(id).unwrap_or_default();
            }
        }
        // The leader receives messages from all replicas; another replica receives messages only from the leader.
        let received = |member: &&mut proto::Member| leader == me || member.replica == leader;
        for member in all.iter_mut().filter(received) {
            let (contacts, id) = (self.host.peer_contacts(), ReplicaId(member.replica));
            let (silent, disk_full) = if member.replica == me {
                (Some(Duration::ZERO), status.disk_full)
            } else {
                (contacts.since_contact(id), contacts.has_full_disk(id))
            };
            member.disk_full = disk_full;
            member.silent_ms = silent.map(|silent| silent.as_millis() as u64);
        }
        Some(proto::Members { replica: me, leader, term: status.leadership.term.0, all })
    }
}

/// Totals over all machines and jobs of a cell.
#[derive(Debug)]
pub(crate) struct Sizes {
    pub(crate) version: Version,
    pub(crate) machines: u32,
    pub(crate) jobs: u64,
    /// Claimable amount of each resource kind, over all machines.
    pub(crate) claimable: Vec<u64>,
    /// Claimed amount of each resource kind, over all machines.
    pub(crate) claimed: Vec<u64>,
    /// Claimed amount of each resource kind beyond the capacity of the machines.
    pub(crate) overcommitted: Vec<u64>,
    /// Amount of each resource kind that demand profiles save, because the peaks of tasks do not coincide.
    pub(crate) demand_profiles_saved: Vec<u64>,
    /// Age of the oldest load report among the latest reports of all machines; `None` without reports.
    pub(crate) oldest_load_ms: Option<u64>,
}

/// Adds to a sum, which may exceed 64 bits with the highest overcommit.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Sums up a cell. Scans every machine, which takes some milliseconds in the largest cells.
pub(crate) fn sizes(cell: &Cell) -> Sizes {
    let kinds = cell.kinds().count();
    let mut claimable = vec![0; kinds];
    let mut claimed = vec![0; kinds];
    let mut overcommitted = vec![0; kinds];
    let mut demand_profiles_saved = vec![0; kinds];
    let mut oldest_load_ms = None;
    let mut machines = 0;
    for state in cell.machines() {
        machines += 1;
        for (kind, (all, free)) in state.claimable.iter().zip(state.free).enumerate() {
            add(&mut claimable[kind], (*all).max(0) as u64);
            let of_it = (all - free).max(0) as u64;
            add(&mut claimed[kind], of_it);
            let capacity = state.machine.capacity.get(KindId(kind as u8));
            add(&mut overcommitted[kind], of_it.saturating_sub(capacity));
        }
        for (kind, saved) in cell.demand_profiles_saved(state.id) {
            add(&mut demand_profiles_saved[kind.index()], saved.max(0) as u64);
        }
        let age = state.load.map(|report| report.age_ms(cell.now_ms()));
        oldest_load_ms = oldest_load_ms.max(age);
    }
    let jobs = cell.jobs().count() as u64;
    let version = cell.version();
    Sizes {
        version,
        machines,
        jobs,
        claimable,
        claimed,
        overcommitted,
        demand_profiles_saved,
        oldest_load_ms,
    }
}

/// Describes a cell, with the changes before this call. Everyone may make this call, so the sums over machines and jobs
/// come from a summary that concurrent calls share.
async fn describe_cell(host: &Host) -> proto::DescribeCellResponse {
    let now = std::time::Instant::now();
    let described = host.read(|cell| proto::DescribeCellResponse {
        version: cell.version().0,
        kinds: convert::kind_list(cell.kinds()),
        policy: Some(cell.policy().into()),
        ..Default::default()
    });
    let summary = summary_since(host, Some(now)).await;
    proto::DescribeCellResponse {
        machines: summary.machines.len() as u32,
        jobs: summary.jobs,
        claimable: summary.claimable.clone(),
        claimed: summary.claimed.clone(),
        ..described
    }
}

#[tonic::async_trait]
impl CellService for Cells {
    type BackupStream = backup::Pieces;

    async fn backup(
        &self,
        request: Request<proto::BackupRequest>,
    ) -> RpcResult<Self::BackupStream> {
        let end = stream_end(&request);
        about(&request, |_| "the whole cell".to_owned());
        self.host.refresh(deadline(&request)).await?;
        let pieces = self.backups.begin(&self.host, self.me.cell, end)?;
        Ok(Response::new(pieces))
    }

    async fn describe_cell(
        &self,
        request: Request<proto::DescribeCellRequest>,
    ) -> RpcResult<proto::DescribeCellResponse> {
        let until = deadline(&request).min(Instant::now() + LEADER_MAX);
        let stale = match self.host.refresh(until).await {
            // The state of a replica that was removed says nothing about the cell.
            Err(error) if error.code == ErrorCode::Stopped => return Err(error.into()),
            refreshed => refreshed.is_err(),
        };
        let mut reported = describe_cell(&self.host).await;
        reported.stale = stale;
        reported.cell = self.me.cell.to_string();
        reported.members = self.members();
        Ok(Response::new(reported))
    }

    async fn get_statistics(
        &self,
        request: Request<proto::GetStatisticsRequest>,
    ) -> RpcResult<proto::GetStatisticsResponse> {
        visibility::may_see_all(&*caller(&request)?)?;
        Ok(Response::new(statistics(&self.host, self.me).await))
    }

    async fn set_policy(
        &self,
        request: Request<proto::SetPolicyRequest>,
    ) -> RpcResult<proto::SetPolicyResponse> {
        let until = deadline(&request);
        let missing = || ApiError::new(ErrorCode::Malformed, "policy is missing");
        let given = request.into_inner().policy.ok_or_else(missing)?;
        let policy = convert::policy(given).map_err(ApiError::from)?;
        let version = done(self.host.apply(Command::SetPolicy(policy), until).await?)?;
        Ok(Response::new(proto::SetPolicyResponse { version: version.0 }))
    }

    async fn set_cluster_capacity(
        &self,
        request: Request<proto::SetClusterCapacityRequest>,
    ) -> RpcResult<proto::SetClusterCapacityResponse> {
        about(&request, |request| format!("kind {}", request.kind));
        let until = deadline(&request);
        let proto::SetClusterCapacityRequest { kind, amount } = request.into_inner();
        let kind = convert::kind(kind).map_err(ApiError::from)?;
        let command = Command::SetClusterCapacity { kind, amount };
        let version = done(self.host.apply(command, until).await?)?;
        Ok(Response::new(proto::SetClusterCapacityResponse { version: version.0 }))
    }

    async fn list_cluster_resources(
        &self,
        request: Request<proto::ListClusterResourcesRequest>,
    ) -> RpcResult<proto::ListClusterResourcesResponse> {
        self.host.refresh(deadline(&request)).await?;
        let waiting = summary(&self.host).await.waiting_of_cell.clone();
        let (version, resources) =
            self.host.read(|cell| (cell.version(), cell.resources().clone()));
        Ok(Response::new(proto::ListClusterResourcesResponse {
            capacity: convert::values(&resources.capacity),
            claimed: convert::values(&resources.claimed),
            waiting,
            version: version.0,
        }))
    }

    async fn change_members(
        &self,
        request: Request<proto::ChangeMembersRequest>,
    ) -> RpcResult<proto::ChangeMembersResponse> {
        let until = deadline(&request);
        let mut steps = Vec::new();
        for step in request.into_inner().steps {
            use proto::member_step::Step;
            let missing = || {
                ApiError::new(
                    ErrorCode::Malformed,
                    "a step is empty: give it a \
                 change",
                )
            };
            steps.push(match step.step.ok_or_else(missing)? {
                Step::AddLearner(id) => MemberStep::AddLearner(ReplicaId(id)),
                Step::Promote(id) => MemberStep::Promote(ReplicaId(id)),
                Step::Remove(id) => MemberStep::Remove(ReplicaId(id)),
                Step::Locate(proto::MemberAddress { replica, address }) => {
                    MemberStep::Locate { id: ReplicaId(replica), address }
                }
            });
        }
        let changed = self.host.change_members(&MembershipChange { steps }, until).await?;
        let members = responses::members(&changed);
        Ok(Response::new(proto::ChangeMembersResponse { members }))
    }

    async fn transfer_leader(
        &self,
        request: Request<proto::TransferLeaderRequest>,
    ) -> RpcResult<proto::TransferLeaderResponse> {
        let until = deadline(&request);
        self.host.transfer(ReplicaId(request.into_inner().to), until).await?;
        Ok(Response::new(proto::TransferLeaderResponse {}))
    }
}
