//! The deltas of one `Sync`: first the present state, then changes.
//!
//! A delta is made when the transport has room for it, and contains all changes until then. A large delta is sent in
//! pieces (`snapshots.rs`).

use crate::access::identity::Caller;
use crate::calls::snapshots::{Key, Reading, Snapshot, Snapshots};
use crate::host::Host;
use crate::observe::metrics::StreamGuard;
use crate::overload::memory_accounts::CallerAccount;
use futures_util::stream::{self, Stream};
use omega_cellstate::{Cell, Delta, Interest};
use omega_client::convert::{self, Pieces};
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::Version;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

/// Time for which changes are collected between two deltas: a tenth of the 50 milliseconds within which a remote view
/// should follow. A single change is sent at once.
const GATHER: Duration = Duration::from_millis(5);

/// Interval at which an idle stream checks the cell's time. If the time has advanced, the stream sends it: about twice a
/// second while the leader advances the time every 100 ms.
const TIME_CHECK: Duration = Duration::from_millis(500);

/// Minimum number of changes of a large delta. Large deltas are built one at a time; full deltas are shared by streams.
const LARGE: usize = 4096;

/// The reader of a stream.
pub(crate) struct Reader {
    pub(crate) caller: Arc<Caller>,
    /// Account of the bytes held for the reader.
    pub(crate) holder: Option<CallerAccount>,
    /// Time allowed for sending a large delta, in addition to the time for its bytes.
    pub(crate) patience: Duration,
}

/// One stream of deltas.
pub(crate) struct DeltaStream {
    host: Host,
    snapshots: Snapshots,
    reader: Reader,
    interest: Interest,
    versions: watch::Receiver<Version>,
    /// Version at which the next delta starts. `now_ms` is the cell's time in the last delta.
    since: Version,
    lineage: Version,
    now_ms: u64,
    /// The delta being sent.
    sending: Option<Sending>,
    /// Time of the last delta; `None` before the first.
    sent: Option<Instant>,
    is_over: bool,
    _counted: StreamGuard,
}

/// A delta being sent.
struct Sending {
    pieces: Rest,
    /// Time at which the delta was built.
    made: Instant,
    /// Number of versions that the delta covers, and the time of its first change.
    late: Option<(u64, Instant)>,
}

/// The unsent pieces of a delta.
enum Rest {
    Small(Box<Pieces>),
    Large(Reading),
}

impl Rest {
    fn next(&mut self) -> Result<Option<proto::Delta>, ApiError> {
        match self {
            Rest::Small(pieces) => Ok(pieces.next()),
            Rest::Large(reading) => reading.next(),
        }
    }
}

/// Removes jobs, tasks and tenants that the caller may not see, and the names of such tenants from reservations. The
/// machines' free amounts, and the counts for rules about other tasks, remain: explanations of placements need them.
fn hide_invisible(cell: &Cell, caller: &Caller, delta: &mut Delta) {
    // The owner of a job that the cell has forgotten is unknown, so the job's id is sent to all.
    delta.jobs.retain(|job| cell.job(job.id).is_none_or(|known| caller.may_see(known)));
    delta.retain_tasks(|task| caller.may_see_job(cell, task.id.job));
    delta.tenants.retain(|tenant| caller.may_see_tenant(&tenant.terms.name));
    delta
        .policies
        .tasks_per_machine
        .counts
        .retain(|(_, reported)| caller.may_see_tenant(&reported.tenant));
    for reservation in delta.policies.reservations.all.iter_mut().flatten() {
        reservation.tenants.retain(|tenant| caller.may_see_tenant(tenant));
    }
}

impl DeltaStream {
    pub(crate) fn new(
        host: Host,
        snapshots: Snapshots,
        reader: Reader,
        requested: proto::SyncRequest,
    ) -> DeltaStream {
        DeltaStream {
            interest: convert::interest(requested.interest),
            versions: host.versions(),
            since: Version(requested.since),
            lineage: Version(requested.lineage),
            now_ms: 0,
            sending: None,
            sent: None,
            is_over: false,
            _counted: host.metrics().stream(),
            host,
            snapshots,
            reader,
        }
    }

    /// The messages of the stream.
    pub(crate) fn messages(self) -> impl Stream<Item = Result<proto::Delta, Status>> {
        stream::unfold(self, |mut deltas| async move { Some((deltas.next().await?, deltas)) })
    }

    async fn next(&mut self) -> Option<Result<proto::Delta, Status>> {
        if self.is_over {
            return None;
        }
        let piece = self.piece_or_wait().await;
        self.is_over = piece.is_err();
        Some(piece.map_err(Status::from))
    }

    async fn piece_or_wait(&mut self) -> Result<proto::Delta, ApiError> {
        loop {
            if let Some(piece) = self.piece()? {
                return Ok(piece);
            }
            let stale_since = match self.sent {
                None => None,
                Some(_) => self.wait().await?,
            };
            self.versions.mark_unchanged();
            let (since, made) = (self.since, Instant::now());
            let pieces = if self.is_large() { self.make_large().await } else { self.make_small() };
            let late = stale_since.map(|stale| (self.since.0.saturating_sub(since.0), stale));
            self.sending = Some(Sending { pieces, made, late });
        }
    }

    /// The next piece of the delta being sent.
    fn piece(&mut self) -> Result<Option<proto::Delta>, ApiError> {
        let Some(sending) = self.sending.as_mut() else { return Ok(None) };
        let Some(piece) = sending.pieces.next()? else { return Ok(None) };
        self.host.metrics().sent(piece.encoded_len());
        if !piece.more {
            if let Some((versions, stale_since)) = sending.late {
                self.host.metrics().synced(versions, stale_since.elapsed());
            }
            self.sent = Some(Instant::now());
        }
        Ok(Some(piece))
    }

    /// Whether the next delta may be large.
    fn is_large(&self) -> bool {
        self.change_count().is_none_or(|count| count >= LARGE)
    }

    /// Counts the changes of the next delta; `None` for a full delta.
    fn change_count(&self) -> Option<usize> {
        self.host.read(|cell| cell.change_count_since(self.since, self.lineage))
    }

    /// Builds the delta to the present state.
    fn make(&mut self) -> Delta {
        let mut delta = Delta { lineage: self.lineage, ..Delta::default() };
        self.host.read(|cell| {
            cell.delta_since(self.since, &self.interest, &mut delta);
            if self.reader.caller.is_bounded() {
                hide_invisible(cell, &self.reader.caller, &mut delta);
            }
        });
        (self.since, self.lineage, self.now_ms) = (delta.to, delta.lineage, delta.now_ms);
        delta
    }

    fn make_small(&mut self) -> Rest {
        Rest::Small(Box::new(convert::split((&self.make()).into(), convert::PIECE_BYTES)))
    }

    /// Builds a delta that may be large, or shares one that other streams are reading.
    async fn make_large(&mut self) -> Rest {
        let snapshots = self.snapshots.clone();
        let _turn = snapshots.turn(self.reader.holder.as_ref()).await;
        let key = Key::new(&self.interest, &self.reader.caller);
        let shared = snapshots.get(&key).filter(|shared| self.is_reusable(shared));
        let snapshot = match shared {
            Some(shared) => {
                (self.since, self.lineage, self.now_ms) =
                    (shared.to, shared.lineage, shared.now_ms);
                // The changes since then follow at once.
                if *self.versions.borrow() > shared.to {
                    self.versions.mark_changed();
                }
                shared
            }
            None => {
                let made = Arc::new(Snapshot::of(self.make(), self.reader.holder.as_ref()));
                if made.full {
                    snapshots.share(key, &made);
                }
                made
            }
        };
        Rest::Large(Reading::begin(snapshot, self.reader.patience))
    }

    /// Whether a shared full delta is useful: the reader needs a full delta, and few changes have been made since the
    /// shared one.
    fn is_reusable(&self, shared: &Snapshot) -> bool {
        let after = |cell: &Cell| cell.change_count_since(shared.to, shared.lineage);
        let is_new = self.host.read(after).is_some_and(|count| count < LARGE);
        is_new && self.change_count().is_none()
    }

    /// Waits for changes. Returns the time since which the reader's state is stale; `None` if only the cell's time has
    /// advanced.
    async fn wait(&mut self) -> Result<Option<Instant>, ApiError> {
        // If a change was made while the delta was sent, the reader's state may be stale since the delta was built.
        let was_overtaken = self.versions.has_changed().unwrap_or(false);
        let made = self.sending.take().map(|sending| sending.made);
        let Self { host, versions, now_ms, .. } = self;
        let stale_since = tokio::select! {
            changed = versions.changed() => match changed {
                Ok(()) => Some(made.filter(|_| was_overtaken).unwrap_or_else(Instant::now)),
                Err(_) => {
                    return Err(ApiError::new(ErrorCode::Stopped, "this replica has stopped"));
                }
            },
            () = time_goes_on(host, *now_ms) => None,
            outdated = host.until_outdated() => return Err(outdated),
        };
        if let Some(sent) = self.sent {
            tokio::time::sleep_until(sent + GATHER).await;
        }
        Ok(stale_since)
    }
}

/// Waits until the cell's time is later than in the last delta. A later time is no new version, but readers need it for
/// peaks, reservations and plans.
async fn time_goes_on(host: &Host, now_ms: u64) {
    while host.read(Cell::now_ms) <= now_ms {
        tokio::time::sleep(TIME_CHECK).await;
    }
}
