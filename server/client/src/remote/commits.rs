//! The commit stream: transactions are sent and answered in order, and sent again if the stream breaks.
//!
//! Invariant: every transaction is queued until it is answered. The field `sent` records whether a replica may have
//! received the transaction, and is set before the transaction is passed to a connection. If a caller submits a
//! transaction again because the outcome is unknown, the transaction is marked as sent (see `unknown_up_to`).

use super::times::{PATIENCE, PAUSE};
use crate::connect::{Connection, Connections, MESSAGE_BYTES_MAX};
use crate::proto::scheduling_service_client::SchedulingServiceClient;
use crate::proto::{CommitRequest, CommitStreamResponse, commit_stream_response};
use crate::{ApiError, ErrorCode, before_another_try};
use crossbeam_channel::Sender;
use omega_cellstate::HandleError;
use omega_core::{Commit, SchedulerId, Transaction, TransactionId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

/// Time without a reply to sent transactions after which the client switches to the next replica. It is a little
/// shorter than an election, so that the client soon gets the result from a new leader. The time doubles with each
/// switch, so that a slow cell does not get the transactions again and again.
const SILENCE_MIN: Duration = Duration::from_millis(400);
const SILENCE_MAX: Duration = Duration::from_secs(4);

/// Time for which a replica that did not answer is skipped.
const PASSED_OVER: Duration = Duration::from_secs(2);

/// Destination of a transaction's result.
pub(super) type Reply = Sender<Result<Commit, HandleError>>;

/// The sending end of the queue of transactions.
#[derive(Debug)]
pub(super) struct Commits {
    entrance: mpsc::UnboundedSender<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    txn: Transaction,
    reply: Reply,
    /// Whether a replica may have received the transaction.
    sent: bool,
    until: Instant,
}

impl Commits {
    pub(super) fn start(
        runtime: &Handle,
        connections: Connections,
        wanted: Arc<AtomicU64>,
    ) -> Commits {
        let (entrance, new) = mpsc::unbounded_channel();
        let (waiting, unknown_up_to) = (VecDeque::new(), BTreeMap::new());
        let (last_reply, silence, silent) = (Instant::now(), SILENCE_MIN, None);
        let queue = CommitQueue {
            connections,
            new,
            waiting,
            unknown_up_to,
            wanted,
            last_reply,
            silence,
            silent,
        };
        runtime.spawn(queue.run());
        Commits { entrance }
    }

    pub(super) fn send(&self, txn: &Transaction, reply: Reply) {
        let until = Instant::now() + PATIENCE;
        let waiting = Waiting { txn: txn.clone(), reply, sent: false, until };
        // This fails only if the runtime has ended. The reply is then dropped.
        let _ = self.entrance.send(waiting);
    }
}

/// The transactions of a handle, with its commit stream.
struct CommitQueue {
    connections: Connections,
    new: mpsc::UnboundedReceiver<Waiting>,
    /// Unanswered transactions, in the order in which they are sent.
    waiting: VecDeque<Waiting>,
    /// Number of each scheduler's last transaction with an unknown outcome. That transaction and earlier ones are sent
    /// as retries. There is one entry for each scheduler of this handle.
    unknown_up_to: BTreeMap<SchedulerId, u64>,
    wanted: Arc<AtomicU64>,
    /// Time since which a reply is expected.
    last_reply: Instant,
    /// Maximum time without a reply on this connection.
    silence: Duration,
    /// The last replica that did not answer, and the time at which the client left it.
    silent: Option<(String, Instant)>,
}

/// Reason why a stream of commits has ended.
enum Ended {
    /// The scheduler was dropped.
    Scheduler,
    /// The connection broke, or a transaction must be sent again.
    Stream,
    /// The replica is busy, and suggested a delay.
    Refused(ApiError),
    /// The replica does not answer.
    Silence,
}

impl CommitQueue {
    async fn run(mut self) {
        loop {
            if self.waiting.is_empty() {
                // While no transaction waits, no stream is kept open.
                let Some(first) = self.new.recv().await else { return };
                let first = self.marked(first);
                self.waiting.push_back(first);
            }
            let connection = self.next_connection();
            self.last_reply = Instant::now();
            let mut pause = PAUSE;
            match self.stream(&connection).await {
                Ended::Scheduler => return,
                Ended::Stream => {}
                Ended::Refused(error) => pause = before_another_try(&error, 0),
                Ended::Silence => {
                    self.silence = (self.silence * 2).min(SILENCE_MAX);
                    self.silent = Some((connection.address.clone(), Instant::now()));
                }
            }
            self.connections.leave(&connection);
            self.give_up_late();
            tokio::time::sleep(pause).await;
        }
    }

    /// The present connection, or the next one if the present replica did not answer recently.
    fn next_connection(&self) -> Connection {
        let connection = self.connections.current();
        let was_silent = self.silent.as_ref().is_some_and(|(address, left)| {
            *address == connection.address && left.elapsed() < PASSED_OVER
        });
        if !was_silent {
            return connection;
        }
        self.connections.leave(&connection);
        self.connections.current()
    }

    /// Sends waiting and new transactions on one stream, until it breaks.
    async fn stream(&mut self, connection: &Connection) -> Ended {
        let mut client = SchedulingServiceClient::new(connection.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        let (to_stream, requests) = mpsc::unbounded_channel();
        for waiting in &mut self.waiting {
            let mut request = CommitRequest::from(&waiting.txn);
            request.retry = waiting.sent;
            waiting.sent = true;
            // This cannot fail, because the receiver exists in this function.
            let _ = to_stream.send(request);
        }
        let opened = client.commit_stream(UnboundedReceiverStream::new(requests));
        let opened = tokio::time::timeout_at(self.last_reply + self.silence, opened).await;
        let mut replies = match opened {
            Ok(Ok(opened)) => opened.into_inner(),
            Ok(Err(status)) => return self.refuse_all_if_denied(status),
            Err(_) => return Ended::Silence,
        };
        loop {
            tokio::select! {
                new = self.new.recv() => {
                    let Some(new) = new else { return Ended::Scheduler };
                    let mut new = self.marked(new);
                    let mut request = CommitRequest::from(&new.txn);
                    request.retry = new.sent;
                    let sent = to_stream.send(request).is_ok();
                    new.sent |= sent;
                    if self.waiting.is_empty() {
                        self.last_reply = Instant::now();
                    }
                    self.waiting.push_back(new);
                    if !sent {
                        return Ended::Stream;
                    }
                }
                answer = next(&mut replies) => {
                    let Some(answer) = answer else { return Ended::Stream };
                    if !self.deliver_reply(answer) {
                        return Ended::Stream;
                    }
                    (self.last_reply, self.silence) = (Instant::now(), SILENCE_MIN);
                }
                () = tokio::time::sleep_until(self.last_reply + self.silence),
                    if !self.waiting.is_empty() => return Ended::Silence,
            }
        }
    }

    /// Passes a reply on. Returns `false` if the transaction must be sent again.
    fn deliver_reply(&mut self, answer: CommitStreamResponse) -> bool {
        let Some(first) = self.waiting.front() else { return false };
        if first.txn.id.number != answer.number {
            // The replica has not answered in the order of sending, so a new stream must be opened.
            return false;
        }
        let result = match answer.answer {
            Some(commit_stream_response::Answer::Commit(commit)) => {
                Commit::try_from(commit).map_err(|_| HandleError::Unknown)
            }
            Some(commit_stream_response::Answer::Error(error)) => {
                let code = crate::error::by_name(&error.code).unwrap_or(ErrorCode::Internal);
                let mut made = ApiError::new(code, error.message);
                made.version = Some(omega_core::Version(error.version));
                if made.is_temporary() || code == ErrorCode::OutcomeUnknown {
                    return false;
                }
                Err(self.error(&made))
            }
            None => Err(HandleError::Unknown),
        };
        if let Ok(commit) = &result
            && !commit.conflicts.is_empty()
        {
            self.wanted.fetch_max(commit.version.0, Ordering::Relaxed);
        }
        if let Some(first) = self.waiting.pop_front() {
            if matches!(result, Err(HandleError::Unknown)) {
                self.note_unknown(first.txn.id);
            }
            // If this fails, the caller has stopped waiting.
            let _ = first.reply.send(result);
        }
        true
    }

    /// Converts the error of the first unanswered transaction to the error that its scheduler gets.
    fn error(&self, error: &ApiError) -> HandleError {
        let refused = self.waiting.front().and_then(|first| error.transaction_error(&first.txn));
        match refused {
            Some(refused) => HandleError::Refused(refused),
            None => HandleError::Denied(error.message.as_str().into()),
        }
    }

    /// Fails all transactions if the caller is not permitted to open the stream, because no retry can succeed then.
    fn refuse_all_if_denied(&mut self, status: Status) -> Ended {
        let error = ApiError::from(status);
        if matches!(error.code, ErrorCode::Denied | ErrorCode::Unauthenticated) {
            for waiting in self.waiting.drain(..) {
                let denied = HandleError::Denied(error.message.as_str().into());
                let _ = waiting.reply.send(Err(denied));
            }
            return Ended::Stream;
        }
        Ended::Refused(error)
    }

    /// Marks a transaction as a retry if it was submitted before with an unknown outcome.
    fn marked(&self, mut new: Waiting) -> Waiting {
        let highest = self.unknown_up_to.get(&new.txn.id.scheduler);
        new.sent |= highest.is_some_and(|highest| new.txn.id.number <= *highest);
        new
    }

    /// Fails the transactions that have waited too long.
    fn give_up_late(&mut self) {
        let now = Instant::now();
        let is_late = |waiting: &Waiting| now >= waiting.until;
        let all = std::mem::take(&mut self.waiting);
        let (late, waiting): (VecDeque<Waiting>, _) = all.into_iter().partition(is_late);
        self.waiting = waiting;
        for waiting in late {
            let known = if waiting.sent {
                self.note_unknown(waiting.txn.id);
                HandleError::Unknown
            } else {
                HandleError::Unavailable
            };
            let _ = waiting.reply.send(Err(known));
        }
    }

    /// Records that the outcome of a transaction is unknown.
    fn note_unknown(&mut self, id: TransactionId) {
        let highest = self.unknown_up_to.entry(id.scheduler).or_default();
        *highest = id.number.max(*highest);
    }
}

async fn next(replies: &mut Streaming<CommitStreamResponse>) -> Option<CommitStreamResponse> {
    replies.message().await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use omega_core::Version;
    use tokio::runtime::Runtime;

    fn waiting(scheduler: u32, number: u64, sent: bool) -> (Waiting, Reply) {
        let (reply, answer) = crossbeam_channel::bounded(1);
        let id = TransactionId { scheduler: SchedulerId(scheduler), number };
        let txn = Transaction::new(id, Version(0), Vec::new());
        (Waiting { txn, reply, sent, until: Instant::now() }, answer)
    }

    type Reply = crossbeam_channel::Receiver<Result<Commit, HandleError>>;

    /// Creates a queue that has unanswered transactions but no replica. It can be used as long as the runtime
    /// exists.
    fn queue(runtime: &Runtime, waiting: VecDeque<Waiting>) -> CommitQueue {
        let address = Address::plain(["127.0.0.1:1"]);
        let connections = runtime.block_on(async { Connections::new(&address) }).unwrap();
        let (_, new) = mpsc::unbounded_channel();
        let (unknown_up_to, wanted) = (BTreeMap::new(), Arc::default());
        let (last_reply, silence, silent) = (Instant::now(), SILENCE_MIN, None);
        CommitQueue {
            connections,
            new,
            waiting,
            unknown_up_to,
            wanted,
            last_reply,
            silence,
            silent,
        }
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn empty(number: u64) -> CommitStreamResponse {
        let name = ErrorCode::TransactionEmpty.name().to_owned();
        let error = crate::proto::Error { code: name, ..Default::default() };
        let answer = Some(commit_stream_response::Answer::Error(error));
        CommitStreamResponse { number, answer }
    }

    #[test]
    fn a_transaction_whose_reply_cannot_be_read_is_in_doubt() {
        let runtime = runtime();
        let (first, answer) = waiting(0, 4, true);
        let mut queue = queue(&runtime, VecDeque::from([first]));
        assert!(queue.deliver_reply(CommitStreamResponse { number: 4, answer: None }));
        assert!(matches!(answer.recv(), Ok(Err(HandleError::Unknown))));
        assert!(
            queue.marked(waiting(0, 4, false).0).sent && !queue.marked(waiting(0, 5, false).0).sent
        );
    }

    #[test]
    fn answers_out_of_order_are_not_taken() {
        let runtime = runtime();
        let (first, first_answer) = waiting(0, 4, true);
        let (second, second_answer) = waiting(0, 5, true);
        let mut queue = queue(&runtime, VecDeque::from([first, second]));
        assert!(!queue.deliver_reply(empty(5)), "the stream is given up");
        assert_eq!(queue.waiting.len(), 2);
        assert!(first_answer.is_empty() && second_answer.is_empty());
        assert!(queue.deliver_reply(empty(4)));
        assert!(second_answer.is_empty(), "only the first is answered");
        assert!(first_answer.try_recv().is_ok());
        assert!(!queue.deliver_reply(empty(4)), "the same answer again");
        assert!(queue.deliver_reply(empty(5)));
        assert!(second_answer.try_recv().is_ok());
        assert!(!queue.deliver_reply(empty(6)), "an answer that nobody waits for");
    }

    #[test]
    fn what_is_in_doubt_when_its_sender_gives_up_is_sent_again_as_a_retry() {
        let runtime = runtime();
        let (sent, in_doubt) = waiting(0, 4, true);
        let (unsent, not_done) = waiting(0, 5, false);
        let mut queue = queue(&runtime, VecDeque::from([sent, unsent]));
        queue.give_up_late();
        assert_eq!(in_doubt.try_recv(), Ok(Err(HandleError::Unknown)));
        assert_eq!(not_done.try_recv(), Ok(Err(HandleError::Unavailable)));
        assert!(queue.waiting.is_empty());
        let is_retry = |scheduler, number| queue.marked(waiting(scheduler, number, false).0).sent;
        assert!(is_retry(0, 4) && is_retry(0, 3));
        assert!(!is_retry(0, 5) && !is_retry(1, 4), "nobody has seen these");
    }
}
