//! A cell at the other end of a network: the same handle as a cell in this process.
//!
//! ```text
//!   scheduler's threads                    one thread for the network
//!   sync   ◀── deltas that have come ◀──── subscription ◀──── stream of deltas ─── replica
//!   commit ──▶ line of transactions ─────▶ commits ────────▶ stream of commits ──▶ replica
//!              answer ◀─────────────────── in the order in which they were sent ◀──
//! ```
//!
//! What changes in the cell is pushed, so a sync costs what came since the last one and asks nobody.
//! Commits go down one stream, as many at once as the scheduler has on the way. When a connection
//! breaks, both go on at the next replica: the deltas from the last version that came, and the
//! transactions that were not answered, under the same ids and marked as sent before, so that nothing is
//! done twice. Only when that fails for ten seconds does the scheduler hear of it.

mod commits;
mod subscription;

use crate::connect::{Address, Connections};
use crate::proto::RegisterRequest;
use crate::proto::scheduling_service_client::SchedulingServiceClient;
use crate::{ApiError, ErrorCode};
use commits::Commits;
use crossbeam::channel;
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_core::{Commit, SchedulerId, Text, Transaction, Version};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use subscription::Subscription;
use tokio::runtime::Runtime;

/// How long is tried before the scheduler hears of it: ten seconds, in which many elections have their
/// time.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long is waited before the next try: a tenth of the time that an election takes.
const PAUSE: Duration = Duration::from_millis(50);

/// A cell at the other end of a network. Clones share its connections.
#[derive(Clone, Debug)]
pub struct RemoteCell {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connections: Connections,
    commits: Commits,
    /// One for each interest. Held for a look-up; each has a lock of its own while it is read.
    subscriptions: Mutex<Vec<(Interest, Arc<Mutex<Subscription>>)>>,
    /// What a sync waits for: the version that the last conflict told to sync to. It only rises, and
    /// says nothing of other memory.
    wanted: Arc<AtomicU64>,
    /// Ends with the last handle, and everything that runs on it.
    runtime: Runtime,
}

impl RemoteCell {
    /// Prepares to speak to a cell. Nothing is sent yet.
    ///
    /// # Errors
    /// If the address is none, or there is no thread for the network.
    pub fn connect(address: &Address) -> Result<RemoteCell, ApiError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("omega-client")
            .enable_all()
            .build()
            .map_err(|error| ApiError::new(ErrorCode::Internal, format!("no thread: {error}")))?;
        let connections = runtime.block_on(async { Connections::new(address) })?;
        let wanted = Arc::new(AtomicU64::new(0));
        let commits = Commits::start(&runtime, connections.clone(), wanted.clone());
        let shared =
            Shared { connections, commits, subscriptions: Mutex::default(), wanted, runtime };
        Ok(RemoteCell { shared: Arc::new(shared) })
    }

    fn subscription(&self, interest: &Interest) -> Arc<Mutex<Subscription>> {
        let mut all = self.shared.subscriptions.lock();
        if let Some((_, found)) = all.iter().find(|(known, _)| known == interest) {
            return found.clone();
        }
        let made = Subscription::new(interest.clone(), self.shared.connections.clone());
        let made = Arc::new(Mutex::new(made));
        all.push((interest.clone(), made.clone()));
        made
    }

    async fn try_register(&self, name: &Text) -> Result<(SchedulerId, u64), ApiError> {
        let mut last = None;
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            let connection = self.shared.connections.current();
            let mut client = SchedulingServiceClient::new(connection.channel.clone());
            match client.register(RegisterRequest { name: name.to_string() }).await {
                Ok(answer) => {
                    let answer = answer.into_inner();
                    return Ok((SchedulerId(answer.scheduler), answer.next_transaction));
                }
                Err(status) => {
                    let error = ApiError::from(status);
                    // To register twice does no harm.
                    if !error.is_temporary() && error.code != ErrorCode::OutcomeUnknown {
                        return Err(error);
                    }
                    last = Some(error);
                }
            }
            self.shared.connections.leave(&connection);
            tokio::time::sleep(PAUSE).await;
        }
        Err(last.unwrap_or_else(|| ApiError::new(ErrorCode::NoLeader, "nobody answers")))
    }
}

impl CellHandle for RemoteCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.shared.runtime.block_on(self.try_register(&name)).map_err(|error| handle_error(&error))
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        let subscription = self.subscription(interest);
        let wanted = Version(self.shared.wanted.load(Ordering::Relaxed));
        subscription.lock().read(&self.shared.runtime, since, wanted, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.commit_all(&[txn]).pop().expect("each transaction has an answer")
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        let begin = |txn: &&Transaction| {
            let (reply, answer) = channel::bounded(1);
            self.shared.commits.send(txn, reply);
            answer
        };
        let begun: Vec<_> = txns.iter().map(begin).collect();
        // One ends without an answer only with the runtime, which this handle keeps.
        let answer = |to: channel::Receiver<_>| to.recv().unwrap_or(Err(HandleError::Unknown));
        begun.into_iter().map(answer).collect()
    }
}

/// What a scheduler hears of an error of a call that is no commit.
fn handle_error(error: &ApiError) -> HandleError {
    match error.code {
        ErrorCode::OutcomeUnknown | ErrorCode::Late => HandleError::Unavailable,
        _ if error.is_temporary() => HandleError::Unavailable,
        _ => HandleError::Denied(error.message.as_str().into()),
    }
}
