//! The cell behind a server: in memory, or one of its replicas.
//!
//! The services call a host and await the result; the cell and its replicas use no async runtime. A replica replies by
//! a callback that wakes the awaiting task, and a thread publishes the applied version for the streams of deltas.

use crate::calls::names;
use crate::cell_clock::advance_time;
use crate::leases::Leases;
use crate::observe::metrics::Metrics;
use crate::observe::statistics_cache::StatisticsCache;
use crate::overload::in_flight::TasksInFlight;
use crate::peers::{PeerContacts, Peers};
use crate::replies::{PAUSE, disk_full};
pub(crate) use crate::replies::{done, unavailable, unknown};
use omega_cellstate::{Cell, SharedCell, SnapshotState};
use omega_client::{ApiError, ErrorCode};
use omega_core::{Command, Outcome, Rejection, Version};
use omega_store::log::ReplicaId;
use omega_store::membership::{ChangeError, MemberStep, Membership, MembershipChange};
use omega_store::node::Leadership;
use omega_store::replica::{Remedy, ReplicatedCell, Reply, Request, RetryReason, Running};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// Longest time for which a request to a leader with a full disk is repeated: the time of several elections.
const FULL_MAX: Duration = Duration::from_secs(3);

/// Maximum delay of a reply while this replica has not applied the change. The delay is far longer than a message
/// takes, but still short for people.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Interval at which a waiting read looks whether this replica's disk is full. A read takes far less if it is not.
const FULL_CHECK: Duration = Duration::from_millis(100);

/// Maximum wait for this replica's own snapshot, before another copy of the state is made. It is far longer than the
/// largest cells need.
const SNAPSHOT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Time for which a membership change is retried: some election timeouts. A new leader rejects changes until the others
/// have replied to it.
const QUORUM_WAIT: Duration = Duration::from_secs(1);
/// Pause between two attempts of a membership change: some intervals of heartbeats.
const QUORUM_PAUSE: Duration = Duration::from_millis(100);

/// Time limit for a connection to the new address of a replica.
const DIAL_MAX: Duration = Duration::from_secs(2);

/// Interval at which the publishing thread checks whether it should end, while nothing changes.
const IDLE: Duration = Duration::from_millis(200);

/// Interval of the check whether the replica has stopped. It is short, so that the process ends soon after its replica.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The cell behind a server. Clones share it.
#[derive(Clone, Debug)]
pub struct Host {
    cell: HostedCell,
    versions: watch::Receiver<Version>,
    metrics: Metrics,
    leases: Leases,
    statistics_cache: Arc<StatisticsCache>,
    peer_contacts: PeerContacts,
    tenants_in_flight: TasksInFlight,
    /// Connections to peers, for a replica with a network.
    peers: Option<Peers>,
}

#[derive(Clone, Debug)]
enum HostedCell {
    Memory(SharedCell, Arc<watch::Sender<Version>>),
    Replica(Arc<Replica>),
}

#[derive(Debug)]
struct Replica {
    cell: ReplicatedCell,
    running: Arc<Running>,
}

impl Host {
    /// A cell in memory only.
    #[must_use]
    pub fn memory(cell: SharedCell) -> Host {
        let (to, versions) = watch::channel(cell.read(Cell::version));
        let statistics_cache = Arc::new(StatisticsCache::begin(cell.read(Cell::next_job)));
        let cell = HostedCell::Memory(cell, Arc::new(to));
        Host::of(cell, versions, statistics_cache)
    }

    /// A cell at a running replica.
    #[must_use]
    pub fn replica(running: Arc<Running>) -> Host {
        let cell = ReplicatedCell::new(&running);
        let (to, versions) = watch::channel(cell.read(Cell::version));
        let statistics_cache = Arc::new(StatisticsCache::begin(cell.read(Cell::next_job)));
        let (followed, has_stopped) = (cell.clone(), running.has_stopped());
        // A strong reference could become the last one, and end the replica in the thread below.
        let replica = Arc::downgrade(&running);
        let is_over = move || replica.strong_count() == 0 || has_stopped();
        let builder = std::thread::Builder::new().name("versions".to_owned());
        // The thread ends once the replica has stopped, or the last host is dropped.
        let spawned = builder.spawn(move || follow(&followed, is_over, &to));
        spawned.expect("the system has a thread for each server");
        let replica = Replica { cell, running };
        let cell = HostedCell::Replica(Arc::new(replica));
        Host::of(cell, versions, statistics_cache)
    }

    fn of(
        cell: HostedCell,
        versions: watch::Receiver<Version>,
        statistics_cache: Arc<StatisticsCache>,
    ) -> Host {
        let (metrics, leases) = (Metrics::default(), Leases::default());
        let (peer_contacts, tenants_in_flight) =
            (PeerContacts::default(), TasksInFlight::default());
        let peers = None;
        Host {
            cell,
            versions,
            metrics,
            leases,
            statistics_cache,
            peer_contacts,
            tenants_in_flight,
            peers,
        }
    }

    /// Returns the host with connections to the other replicas. The host then rejects new members for which `peers` has
    /// no address.
    #[must_use]
    pub fn with_peers(self, peers: Peers) -> Host {
        Host { peers: Some(peers), ..self }
    }

    /// Address of a replica for clients, if known.
    #[must_use]
    pub fn client_address(&self, of: ReplicaId) -> Option<String> {
        self.peers.as_ref()?.client_address(of)
    }

    /// Address of a replica for its peers, if known.
    pub(crate) fn peer_address(&self, of: ReplicaId) -> Option<String> {
        self.peers.as_ref()?.peer_address(of)
    }

    /// The error for a call that only the leader serves, with the leader's id and address, if known. `what` describes
    /// the call, such as "agents attach to".
    pub(crate) fn no_leader(&self, what: &str) -> ApiError {
        let Some(leader) = self.leadership().leader else {
            let message = format!("{what} the leader, but no replica leads now");
            return ApiError::new(ErrorCode::NoLeader, message);
        };
        let address = self.client_address(leader);
        let at = address.as_ref().map_or_else(String::new, |address| format!(" at {address}"));
        let error =
            ApiError::new(ErrorCode::NoLeader, format!("{what} the leader, which is {leader}{at}"));
        ApiError { leader: Some(leader.0.to_string()), leader_address: address, ..error }
    }

    /// Time of the last message from each other replica.
    #[must_use]
    pub fn peer_contacts(&self) -> &PeerContacts {
        &self.peer_contacts
    }

    /// Calls `reader` with this replica's state, under its lock.
    pub fn read<T>(&self, reader: impl FnOnce(&Cell) -> T) -> T {
        match &self.cell {
            HostedCell::Memory(cell, _) => cell.read(reader),
            HostedCell::Replica(replica) => replica.cell.read(reader),
        }
    }

    /// Copies this replica's state at one version, while commits go on. A copy of a large cell takes long, so do not
    /// make it on a thread that must stay responsive.
    ///
    /// # Errors
    /// If this replica stays busy with its own snapshots for too long.
    pub fn snapshot_state(&self) -> Result<SnapshotState, ApiError> {
        match &self.cell {
            HostedCell::Memory(cell, _) => Ok(cell.snapshot_state()),
            HostedCell::Replica(replica) => replica
                .cell
                .snapshot_state(SNAPSHOT_WAIT_MAX)
                .ok_or_else(|| unavailable(RetryReason::Busy)),
        }
    }

    /// The version of this replica's state, updated as it changes. The channel closes when the replica has stopped.
    #[must_use]
    pub fn versions(&self) -> watch::Receiver<Version> {
        self.versions.clone()
    }

    /// Counters of this server.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Processes that own scheduler names, as known to this server.
    #[must_use]
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Tasks that were accepted and may not be in the state yet.
    pub(crate) fn tenants_in_flight(&self) -> &TasksInFlight {
        &self.tenants_in_flight
    }

    /// State kept for statistics.
    pub(crate) fn statistics_cache(&self) -> &StatisticsCache {
        &self.statistics_cache
    }

    /// The replica, if the cell has replicas.
    #[must_use]
    pub fn running(&self) -> Option<&Arc<Running>> {
        match &self.cell {
            HostedCell::Memory(..) => None,
            HostedCell::Replica(replica) => Some(&replica.running),
        }
    }

    /// Reason for which the replica has stopped, with the remedy; `None` if it runs.
    #[must_use]
    pub fn stopped(&self) -> Option<(String, Remedy)> {
        let status = self.running()?.status();
        status.stopped.zip(status.remedy)
    }

    /// Waits until the replica has stopped on its own.
    pub async fn until_stopped(&self) -> (String, Remedy) {
        loop {
            if let Some(stopped) = self.stopped() {
                return stopped;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// The replica's role, and the leader. A cell in memory is its own leader.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        match &self.cell {
            HostedCell::Memory(..) => Leadership { is_leader: true, ..Leadership::default() },
            HostedCell::Replica(replica) => {
                let status = replica.running.status();
                let is_leader = status.leadership.is_leader && status.stopped.is_none();
                Leadership { is_leader, ..status.leadership }
            }
        }
    }

    /// Begins to apply a command.
    #[must_use]
    pub fn begin(&self, command: Command, try_: Try) -> Pending {
        self.begin_all(vec![(command, try_)])
    }

    /// Begins to apply commands. Commands that are accepted at the first attempt are applied in order, within a call
    /// and across calls.
    #[must_use]
    pub fn begin_all(&self, commands: Vec<(Command, Try)>) -> Pending {
        match &self.cell {
            HostedCell::Memory(cell, versions) => {
                let since = Instant::now();
                advance_time(cell);
                let outcomes = cell.apply_all(commands.into_iter().map(|(command, _)| command));
                self.metrics.applied(since.elapsed());
                let version = cell.read(Cell::version);
                versions.send_if_modified(|current| {
                    let newer = *current < version;
                    *current = version.max(*current);
                    newer
                });
                Pending::Here(outcomes.into_iter().map(Reply::Outcome).collect())
            }
            HostedCell::Replica(replica) => {
                let ask = |(command, try_)| match try_ {
                    Try::First => Request::Command(command),
                    Try::Again => Request::Retry(command),
                };
                replica.begin(commands.into_iter().map(ask).collect())
            }
        }
    }

    /// Applies a command, with retries until there is a result. A command that the cell rejects in every state is not
    /// written to the log.
    ///
    /// # Errors
    /// If the command was rejected, no leader accepts it in time, or its outcome is unknown.
    pub async fn apply(&self, command: Command, until: Instant) -> Result<Outcome, ApiError> {
        self.apply_try(command, Try::First, until).await
    }

    /// Applies a command that may have been sent before.
    ///
    /// # Errors
    /// As [`Host::apply`].
    pub async fn apply_try(
        &self,
        command: Command,
        try_: Try,
        until: Instant,
    ) -> Result<Outcome, ApiError> {
        self.read(|cell| {
            cell.check(&command).map_err(|rejection| names::rejection(cell, &rejection))
        })?;
        let ask = || self.begin(command.clone(), try_);
        match self.insist(ask, until).await? {
            Reply::Outcome(outcome) => self.settled(outcome).await,
            _ => Err(unknown()),
        }
    }

    /// Waits until this replica's state includes the outcome of a command, and returns the outcome.
    ///
    /// # Errors
    /// If the command was rejected.
    pub async fn settled(&self, outcome: Result<Outcome, Rejection>) -> Result<Outcome, ApiError> {
        let outcome =
            outcome.map_err(|rejection| self.read(|cell| names::rejection(cell, &rejection)))?;
        match &outcome {
            Outcome::Commit(commit) => self.await_version(commit.version).await,
            Outcome::Done(version) => self.await_version(*version).await,
            Outcome::Machine(id) if self.read(|cell| cell.machine(*id).is_none()) => {
                self.catch_up().await;
            }
            Outcome::Job(id) if self.read(|cell| cell.job(*id).is_none()) => self.catch_up().await,
            _ => {}
        }
        Ok(outcome)
    }

    /// Waits until this replica's state includes every change that any replica confirmed before this call.
    ///
    /// # Errors
    /// If no leader answers in time, or if this replica is behind and its disk is full.
    pub async fn refresh(&self, until: Instant) -> Result<(), ApiError> {
        let HostedCell::Replica(replica) = &self.cell else { return Ok(()) };
        let read = self.insist(|| replica.begin(vec![Request::Read]), until);
        tokio::select! {
            biased;
            // A read changes nothing, so that its outcome is never unknown.
            reply = read => reply.map(drop).map_err(|error| match error.code {
                ErrorCode::OutcomeUnknown => unavailable(RetryReason::Leaderless),
                _ => error,
            }),
            () = until_full(&replica.running) => Err(self.disk_full()),
        }
    }

    /// The error for a read that waits for room on this replica's disk, with the leader's id and address, if known.
    fn disk_full(&self) -> ApiError {
        let Leadership { leader, is_leader, .. } = self.leadership();
        let leader = leader.filter(|_| !is_leader);
        let leader_address = leader.and_then(|id| self.client_address(id));
        ApiError { leader: leader.map(|id| id.0.to_string()), leader_address, ..disk_full() }
    }

    /// Changes the membership, if this replica is the leader. Only the leader has contact with all replicas.
    ///
    /// # Errors
    /// If this replica is not the leader, the change is invalid, or its outcome is unknown.
    pub async fn change_members(
        &self,
        change: &MembershipChange,
        until: Instant,
    ) -> Result<Membership, ApiError> {
        let replica = self.need_replica()?;
        if !self.leadership().is_leader {
            return Err(self.no_leader("the membership is changed by"));
        }
        self.check_reachable(change)?;
        self.check_moved(change).await?;
        let give_up = until.min(Instant::now() + QUORUM_WAIT);
        loop {
            let changed =
                self.insist(|| replica.begin(vec![Request::Change(change.clone())]), until).await?;
            match changed {
                Reply::Changed(Err(
                    ChangeError::NoQuorum { .. }
                    | ChangeError::Behind(_)
                    | ChangeError::NoAnswer { .. },
                )) if Instant::now() < give_up => {
                    tokio::time::sleep(QUORUM_PAUSE).await;
                }
                Reply::Changed(changed) => {
                    let refused =
                        |error: ChangeError| ApiError::new(ErrorCode::BadChange, error.to_string());
                    return changed.map_err(refused);
                }
                _ => return Err(unknown()),
            }
        }
    }

    /// Rejects a new replica without an address, because no replica could connect to it.
    fn check_reachable(&self, change: &MembershipChange) -> Result<(), ApiError> {
        let Some(peers) = &self.peers else { return Ok(()) };
        let is_located = |id| {
            let mut steps = change.steps.iter();
            steps.any(|step| matches!(step, MemberStep::Locate { id: other, .. } if *other == id))
        };
        for step in &change.steps {
            if let MemberStep::AddLearner(id) = *step
                && !is_located(id)
                && !peers.has_address(id)
            {
                let number = id.0;
                let why = format!(
                    "the address of replica {id} is not known: add the replica with its address, \
                     `omega member add {number} HOST:PORT`"
                );
                return Err(ApiError::new(ErrorCode::BadChange, why));
            }
        }
        Ok(())
    }

    /// Checks that a known replica listens for its peers at its new address. A wrong address would silently take the
    /// replica away, and with two of them, the cell would have no leader any more.
    async fn check_moved(&self, change: &MembershipChange) -> Result<(), ApiError> {
        let Some(running) = self.running() else { return Ok(()) };
        if running.status().membership.check(change).is_err() {
            // The leader rejects the change for a better reason.
            return Ok(());
        }
        for step in &change.steps {
            let MemberStep::Locate { id, address } = step else { continue };
            if change.steps.contains(&MemberStep::AddLearner(*id)) {
                continue;
            }
            let Some(peers) = &self.peers else {
                let why = format!(
                    "replica {id} has no listener for peers, so nothing can reach it at \
                     {address}: it was started without --peers"
                );
                return Err(ApiError::new(ErrorCode::BadChange, why));
            };
            let check = peers.check_address(*id, address);
            let why = match tokio::time::timeout(DIAL_MAX, check).await {
                Ok(Ok(())) => continue,
                Ok(Err(why)) => why,
                Err(_) => "no answer came".to_owned(),
            };
            let why = format!(
                "replica {id} cannot be reached at {address} ({why}): start it there before, or \
                 correct the address"
            );
            return Err(ApiError::new(ErrorCode::BadChange, why));
        }
        Ok(())
    }

    /// Starts a transfer of leadership to another voter.
    ///
    /// # Errors
    /// If the target is not a voter, or no leader answers in time.
    pub async fn transfer(
        &self,
        to: omega_store::log::ReplicaId,
        until: Instant,
    ) -> Result<(), ApiError> {
        let replica = self.need_replica()?;
        match self.insist(|| replica.begin(vec![Request::Transfer(to)]), until).await? {
            Reply::Changed(Err(error)) => {
                Err(ApiError::new(ErrorCode::BadChange, error.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn need_replica(&self) -> Result<&Arc<Replica>, ApiError> {
        match &self.cell {
            HostedCell::Replica(replica) => Ok(replica),
            HostedCell::Memory(..) => Err(ApiError::new(
                ErrorCode::NotReplicated,
                "the cell is in memory only, so it has no replicas",
            )),
        }
    }

    /// Repeats a request until there is a reply, or the deadline has passed. While the leader's disk is full, the
    /// request is repeated only for the time that another replica may need to take over.
    async fn insist(&self, send: impl Fn() -> Pending, until: Instant) -> Result<Reply, ApiError> {
        let full_until = until.min(Instant::now() + FULL_MAX);
        loop {
            let reply = match tokio::time::timeout_at(until, send().replies()).await {
                Ok(mut replies) => replies.pop().unwrap_or(Reply::Unknown),
                Err(_) => return Err(unknown()),
            };
            let again = match reply {
                Reply::Retry(again) => again,
                Reply::Unknown => return Err(unknown()),
                reply => return Ok(reply),
            };
            let end = if again == RetryReason::Full { full_until } else { until };
            if again.is_final() || Instant::now() + PAUSE >= end {
                return Err(unavailable(again));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits a short time for this replica to reach a version. After this time, an isolated replica replies with its
    /// older state.
    pub(crate) async fn await_version(&self, version: Version) {
        if *self.versions.borrow() >= version {
            return;
        }
        let mut versions = self.versions();
        let reached = versions.wait_for(|current| *current >= version);
        // After the timeout, the caller's next read may see an older version.
        let _ = tokio::time::timeout(CATCH_UP, reached).await;
    }

    async fn catch_up(&self) {
        // Without a leader, the caller's next read may see an older version.
        let _ = self.refresh(Instant::now() + CATCH_UP).await;
    }
}

impl Replica {
    fn begin(&self, requests: Vec<Request>) -> Pending {
        let count = requests.len();
        let (to, replies) = oneshot::channel();
        // The caller may be gone.
        self.cell.begin(requests, move |replies| drop(to.send(replies)));
        Pending::ToCome(replies, count)
    }
}

/// Waits until the disk of a replica's log is full, at least for a short time in which most reads are answered.
async fn until_full(running: &Running) {
    loop {
        tokio::time::sleep(FULL_CHECK).await;
        if running.status().disk_full {
            return;
        }
    }
}

/// Whether a command may have been sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Try {
    /// The request was not sent before.
    First,
    /// The request was sent before, and may have been applied.
    Again,
}

/// Pending replies, one for each request, in order.
#[derive(Debug)]
pub enum Pending {
    /// The results, which have arrived.
    Here(Vec<Reply>),
    /// Receiver of the results, and the number of results. If the sender is dropped, the outcomes are unknown.
    ToCome(oneshot::Receiver<Vec<Reply>>, usize),
}

impl Pending {
    /// Waits for the replies.
    pub async fn replies(self) -> Vec<Reply> {
        match self {
            Pending::Here(replies) => replies,
            Pending::ToCome(replies, count) => {
                replies.await.unwrap_or_else(|_| vec![Reply::Unknown; count])
            }
        }
    }
}

/// Publishes the version that the replica has applied, until the replica has stopped or all receivers are gone.
fn follow(cell: &ReplicatedCell, is_over: impl Fn() -> bool, to: &watch::Sender<Version>) {
    while !to.is_closed() {
        let current = *to.borrow();
        let version = cell.wait_past(current, IDLE);
        if version != current {
            to.send_replace(version);
        } else if is_over() {
            return;
        }
    }
}
