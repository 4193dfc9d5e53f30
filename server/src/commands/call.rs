//! Calls from the command line: the replicas are tried in turn until one answers or time is up.
//!
//! Every call of the API may be repeated, so an unresponsive replica costs only a moment.

use crate::commands::CommandError;
use omega_client::connect::{Connection, Connections};
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::{Address, ApiError, ErrorCode, before_another_try, convert, proto};
use omega_core::Kinds;
use parking_lot::Mutex;
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// Delay before the next replica is tried: about a tenth of the time that an election takes.
const PAUSE: Duration = Duration::from_millis(50);

/// Time after which the user is told that no connection can be made. The start of a server takes about as long.
const NOTICE_AFTER: Duration = Duration::from_millis(500);

/// Minimum timeout for one of several replicas. A slower replica counts as unreachable.
const ATTEMPT_MIN: Duration = Duration::from_millis(300);

/// Time limit for the description of a cell. A replica looks for a leader for a second before it answers without one.
const DESCRIBED_WITHIN: Duration = Duration::from_millis(1500);

/// Time without a reply after which the next replica is asked, too.
const NEXT_AFTER: Duration = Duration::from_millis(400);

/// Time to wait for the other reply if one of two attempts has failed. The failure may be an effect of the other
/// attempt, such as a version that this attempt has changed.
const OTHER_WITHIN: Duration = Duration::from_secs(1);

/// Largest page size. Servers return no larger pages.
const PAGE_MAX: u32 = 1000;

/// A connection of one command to a cell.
#[derive(Debug)]
pub(super) struct Caller {
    runtime: Runtime,
    connections: Connections,
    cell: String,
    timeout: Duration,
    /// Whether a failed connection was already reported to the user, or is reported elsewhere.
    is_outage_logged: AtomicBool,
    /// Whether a call fails at once if no connection can be made.
    is_impatient: bool,
}

/// A list that was read from several pages.
#[derive(Debug)]
pub(super) struct Listed<T> {
    /// Items of all pages, up to the limit.
    pub(super) items: Vec<T>,
    /// Whether there are more items than the limit.
    pub(super) more: bool,
    /// The version of the cell when the last page was made.
    pub(super) version: u64,
}

impl<T> Listed<T> {
    /// Keeps the first items, up to the limit.
    pub(super) fn cut(&mut self, limit: Option<u32>) {
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        self.more |= self.items.len() > limit;
        self.items.truncate(limit);
    }
}

/// One attempt of a call. It stores the reply for the caller, or returns the error.
type Attempt<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + 'a>>;

/// The end of an attempt.
struct Attempted {
    connection: Connection,
    result: Result<(), ApiError>,
    /// Whether another attempt, which did not succeed, may have been carried out.
    other_may_be_done: bool,
}

impl Attempted {
    /// Whether a retry cannot change the result.
    fn is_final(&self) -> bool {
        self.result.as_ref().err().is_none_or(|why| !another_try_may_help(why))
    }

    /// Whether the attempt may have been carried out, although it did not succeed.
    fn may_be_done(&self) -> bool {
        let code = self.result.as_ref().err().map(|why| why.code);
        matches!(code, Some(ErrorCode::OutcomeUnknown | ErrorCode::Late))
    }
}

/// A function that begins an attempt of a call on a channel, with a timeout.
type Attempts<'a> = dyn Fn(Channel, Duration) -> Attempt<'a> + 'a;

/// A page, the token of the next one, and the version of the cell.
pub(super) type Page<T> = (Vec<T>, String, u64);

impl Caller {
    /// Prepares a connection. Nothing is sent yet.
    ///
    /// # Errors
    /// If the address is invalid.
    pub(super) fn new(address: &Address, timeout: Duration) -> Result<Caller, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CommandError::System)?;
        let connections = runtime.block_on(async { Connections::new(address) });
        let connections = connections.map_err(CommandError::Address)?;
        let (cell, is_outage_logged) = (address.replicas.join(","), AtomicBool::new(true));
        Ok(Caller { runtime, connections, cell, timeout, is_outage_logged, is_impatient: false })
    }

    /// Returns a caller that prints a message when it has to wait because no connection can be made.
    pub(super) fn logging_outage(self) -> Caller {
        Caller { is_outage_logged: AtomicBool::new(false), ..self }
    }

    /// Returns a caller that tries each replica at most once if no connection can be made.
    pub(super) fn impatient(self) -> Caller {
        Caller { is_impatient: true, ..self }
    }

    /// Runtime of the calls.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Sends a call until there is a reply.
    ///
    /// # Errors
    /// If the cell rejects the call, or no replica answers in time.
    pub(super) fn call<Q: Clone, A, F>(
        &self,
        request: &Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, CommandError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let reply = Mutex::new(None);
        self.runtime.block_on(self.retry_until_reply(&attempts(request, &send, &reply)))?;
        Ok(reply.into_inner().expect("an answered attempt leaves its reply"))
    }

    /// Calls within an existing runtime.
    pub(super) async fn call_async<Q: Clone, A, F>(
        &self,
        request: &Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, CommandError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let reply = Mutex::new(None);
        self.retry_until_reply(&attempts(request, &send, &reply)).await?;
        Ok(reply.into_inner().expect("an answered attempt leaves its reply"))
    }

    /// Attempts a call at one replica after the other until one answers. The function is not generic over messages, so
    /// that the program contains one copy of it and not one per call.
    async fn retry_until_reply(&self, attempt: &Attempts<'_>) -> Result<(), CommandError> {
        let (until, began) = (Instant::now() + self.timeout, Instant::now());
        let (mut may_be_done, mut tries) = (false, 0);
        loop {
            let patience = self.attempt().min(until.saturating_duration_since(Instant::now()));
            let Attempted { connection, result, other_may_be_done } =
                self.attempt_at_two(attempt, patience).await;
            let Err(why) = result else {
                self.connections.log_recovery(&connection);
                return Ok(());
            };
            may_be_done |= other_may_be_done;
            let others = tries + 1 < self.connections.count() as u32;
            let mut why = self.connections.explain(&connection, why, tries as usize).await;
            if why.code == ErrorCode::Tls && others {
                // TLS fails with this replica, but may succeed with another one.
                self.connections.leave(&connection);
                tries += 1;
                continue;
            }
            if !another_try_may_help(&why) {
                return Err(CommandError::Refused(after(why, may_be_done)));
            }
            may_be_done |= matches!(why.code, ErrorCode::OutcomeUnknown | ErrorCode::Late);
            self.connections.leave_for(&connection, &why);
            let pause = before_another_try(&why, tries);
            tries += 1;
            if !others {
                self.connections.log_outage(&why);
            }
            if may_be_done && why.code == ErrorCode::Unreachable {
                // This attempt had no effect, but an earlier attempt may have had one.
                why.code = ErrorCode::OutcomeUnknown;
            }
            let is_unreachable = !others && why.code == ErrorCode::Unreachable;
            if is_unreachable && (self.is_impatient || Instant::now() + pause >= until) {
                return Err(CommandError::NoCell(why));
            }
            if is_unreachable && began.elapsed() >= NOTICE_AFTER {
                self.log_once(&why);
            }
            if Instant::now() + pause >= until {
                let (cell, timeout) = (self.cell.clone(), self.timeout);
                if self.has_no_leader().await {
                    return Err(CommandError::NoLeader { cell, timeout, code: why.code });
                }
                return Err(CommandError::NoAnswer { cell, timeout, why: Box::new(why) });
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Whether a replica answers that it knows no leader, and none answers that it knows one.
    async fn has_no_leader(&self) -> bool {
        let mut is_known = false;
        for _ in 0..self.connections.count() {
            let connection = self.connections.current();
            let mut client = CellServiceClient::new(connection.channel.clone());
            let answer = client.describe_cell(proto::DescribeCellRequest {});
            if let Ok(Ok(response)) = tokio::time::timeout(DESCRIBED_WITHIN, answer).await {
                let leader = response.into_inner().members.map(|members| members.leader);
                if leader.is_some_and(|leader| leader > 0) {
                    return false;
                }
                is_known |= leader.is_some();
            }
            self.connections.leave(&connection);
        }
        is_known
    }

    /// Attempts a call at the present replica. If there is no reply for some time, attempts it at the next one, too,
    /// and switches to that replica.
    async fn attempt_at_two(&self, attempt: &Attempts<'_>, patience: Duration) -> Attempted {
        let until = Instant::now() + patience;
        let one = |connection: Connection| async move {
            let left = until.saturating_duration_since(Instant::now());
            let answer = attempt(connection.channel.clone(), left);
            let result = match tokio::time::timeout(left, answer).await {
                Ok(answered) => answered.map_err(ApiError::from),
                Err(_) => Err(ApiError::new(ErrorCode::Late, "no answer came")),
            };
            Attempted { connection, result, other_may_be_done: false }
        };
        let connection = self.connections.current();
        let mut first = pin!(one(connection.clone()));
        if self.connections.count() < 2 {
            return first.await;
        }
        tokio::select! {
            attempted = &mut first => return attempted,
            () = tokio::time::sleep(NEXT_AFTER) => {}
        }
        self.connections.leave(&connection);
        let mut second = pin!(one(self.connections.current()));
        tokio::select! {
            attempted = &mut first => better_of(attempted, second).await,
            attempted = &mut second => better_of(attempted, first).await,
        }
    }

    /// Tells the user that the command is waiting.
    fn log_once(&self, why: &ApiError) {
        if !self.is_outage_logged.swap(true, Ordering::Relaxed) {
            let why = omega_core::text::shown(&why.message);
            // If standard error cannot be written, the command waits nevertheless.
            drop(writeln!(io::stderr(), "omega: {why}: trying for {:?}", self.timeout));
        }
    }

    /// Number of known replicas.
    pub(super) fn replicas(&self) -> usize {
        self.connections.count()
    }

    /// Switches to the next replica.
    pub(super) fn pass_on(&self) {
        self.connections.leave(&self.connections.current());
    }

    /// Switches to the next replica, with a delay, after a stream has broken.
    pub(super) async fn go_on(&self) {
        self.pass_on();
        tokio::time::sleep(PAUSE).await;
    }

    /// Timeout of one attempt, short enough that every replica can be tried.
    fn attempt(&self) -> Duration {
        match self.connections.count() as u32 {
            0 | 1 => self.timeout,
            several => (self.timeout / (several + 1)).max(ATTEMPT_MIN).min(self.timeout),
        }
    }

    /// Requests page after page, up to `limit` items. `page` may leave out items of its page.
    ///
    /// # Errors
    /// As [`Caller::call`].
    pub(super) fn pages<T>(
        &self,
        limit: Option<u32>,
        page: impl Fn(&Caller, u32, String) -> Result<Page<T>, CommandError>,
    ) -> Result<Listed<T>, CommandError> {
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        let mut listed = Listed { items: Vec::new(), more: false, version: 0 };
        let mut token = String::new();
        // One more item shows whether the limit cuts the list. If items were left out, few of the next ones may remain.
        let mut size =
            PAGE_MAX.min(u32::try_from(limit).map_or(PAGE_MAX, |limit| limit.saturating_add(1)));
        loop {
            let (items, next, version) = page(self, size, token)?;
            listed.items.extend(items);
            listed.version = version;
            token = next;
            if token.is_empty() || listed.items.len() > limit {
                listed.more = listed.items.len() > limit;
                listed.items.truncate(limit);
                return Ok(listed);
            }
            size = PAGE_MAX;
        }
    }

    /// Requests the description of the cell.
    ///
    /// # Errors
    /// As [`Caller::call`].
    pub(super) fn describe(&self) -> Result<proto::DescribeCellResponse, CommandError> {
        self.call(&proto::DescribeCellRequest {}, |channel, request| async move {
            CellServiceClient::new(channel).describe_cell(request).await
        })
    }

    /// Requests the cell's resource kinds.
    ///
    /// # Errors
    /// As [`Caller::call`], or if the kinds cannot be decoded.
    pub(super) fn kinds(&self) -> Result<Kinds, CommandError> {
        Ok(convert::kinds(self.describe()?.kinds)?)
    }
}

/// Of two attempts, one of which has ended, returns the one that succeeds. If none succeeds in time, returns the one
/// whose result no retry can change, or the one that has ended.
async fn better_of(
    ended: Attempted,
    other: Pin<&mut impl Future<Output = Attempted>>,
) -> Attempted {
    if ended.result.is_ok() {
        return ended;
    }
    let Ok(other) = tokio::time::timeout(OTHER_WITHIN, other).await else {
        return Attempted { other_may_be_done: true, ..ended };
    };
    let is_better = other.result.is_ok() || (other.is_final() && !ended.is_final());
    let (kept, left) = if is_better { (other, ended) } else { (ended, other) };
    Attempted { other_may_be_done: left.may_be_done(), ..kept }
}

/// Returns a function that makes attempts of one call. A successful attempt stores the reply in `reply`.
fn attempts<'a, Q: Clone, A, F>(
    request: &'a Q,
    send: &'a impl Fn(Channel, Request<Q>) -> F,
    reply: &'a Mutex<Option<A>>,
) -> impl Fn(Channel, Duration) -> Attempt<'a>
where
    F: Future<Output = Result<Response<A>, Status>> + 'a,
{
    move |channel, timeout| {
        let mut once = Request::new(request.clone());
        once.set_timeout(timeout);
        let answer = send(channel, once);
        Box::pin(async move {
            *reply.lock() = Some(answer.await?.into_inner());
            Ok(())
        })
    }
}

/// Adds a remark to errors that an earlier attempt without an answer may have caused: it may have removed or changed the
/// object.
fn after(mut why: ApiError, may_be_done: bool) -> ApiError {
    use ErrorCode::{OtherVersion, UnknownJob, UnknownMachine};
    if matches!(why.code, UnknownMachine | UnknownJob | OtherVersion) && may_be_done {
        why.message += "; an earlier attempt, which got no answer, may have been carried out";
    }
    why
}

/// Whether a retry, here or at the next replica, may succeed.
pub(super) fn another_try_may_help(error: &ApiError) -> bool {
    use ErrorCode::{Late, OutcomeUnknown};
    // A full disk is not retried, because an operator has to make space. But another replica may lead and have space.
    let is_full = error.code == ErrorCode::DiskFull && error.leader.is_none();
    (error.is_temporary() && !is_full) || matches!(error.code, OutcomeUnknown | Late)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of an attempt, and its time; `None` is a hung replica.
    type Reply = Option<(When, Result<(), ErrorCode>)>;

    #[derive(Clone, Copy)]
    enum When {
        AtOnce,
        InMs(u64),
        /// So many milliseconds after the next attempt has begun.
        MsAfterNext(u64),
    }

    /// Makes a call at two replicas, whose attempts have these results in order.
    fn call(results: &[Reply]) -> (Caller, Result<(), CommandError>) {
        let address = Address::plain(["127.0.0.1:1", "127.0.0.1:2"]);
        let caller = Caller::new(&address, Duration::from_secs(3600)).expect("an address");
        let begun = tokio::sync::watch::Sender::new(0);
        let attempt = |_: Channel, _: Duration| -> Attempt<'_> {
            let number: usize = *begun.borrow();
            begun.send_modify(|count| *count += 1);
            let (mut others, next) = (begun.subscribe(), number + 1);
            let result = *results.get(number).expect("no other attempt");
            Box::pin(async move {
                let Some((when, result)) = result else { return std::future::pending().await };
                let after_ms = match when {
                    When::AtOnce => None,
                    When::InMs(after_ms) => Some(after_ms),
                    When::MsAfterNext(after_ms) => {
                        others.wait_for(|count| *count > next).await.expect("it is sent here");
                        Some(after_ms)
                    }
                };
                if let Some(after_ms) = after_ms {
                    tokio::time::sleep(Duration::from_millis(after_ms)).await;
                }
                result.map_err(|code| ApiError::new(code, "refused").into())
            })
        };
        let answered = caller.runtime.block_on(caller.retry_until_reply(&attempt));
        (caller, answered)
    }

    #[test]
    fn a_hung_replica_does_not_delay_the_reply_of_another_one() {
        let (caller, answered) = call(&[None, Some((When::AtOnce, Ok(())))]);
        answered.expect("the second replica answers");
        assert_eq!(caller.connections.current().address, "127.0.0.1:2");
        let (caller, answered) = call(&[Some((When::AtOnce, Ok(())))]);
        answered.expect("the first replica answers");
        assert_eq!(caller.connections.current().address, "127.0.0.1:1");
    }

    /// The attempt at the hung replica may have changed the object, so that the other one is refused.
    #[test]
    fn a_refusal_beside_a_hung_replica_counts_and_says_so() {
        for code in [ErrorCode::UnknownJob, ErrorCode::OtherVersion] {
            let (_, refused) = call(&[None, Some((When::AtOnce, Err(code)))]);
            let Err(CommandError::Refused(why)) = refused else { panic!("{refused:?}") };
            assert!(why.message.contains("may have been carried out"), "{}", why.message);
        }
    }

    #[test]
    fn a_slow_success_counts_although_the_other_attempt_was_refused() {
        let slow = When::MsAfterNext(100);
        let (_, answered) =
            call(&[Some((slow, Ok(()))), Some((When::AtOnce, Err(ErrorCode::OtherVersion)))]);
        answered.expect("the first attempt changed the version");
        let (_, answered) =
            call(&[Some((slow, Err(ErrorCode::OtherVersion))), Some((When::InMs(200), Ok(())))]);
        answered.expect("the second attempt changed the version");
    }

    /// Neither attempt can have had an effect, so the refusal of a third one has another cause.
    #[test]
    fn a_temporary_refusal_beside_another_one_leaves_nothing_in_doubt() {
        let slow = When::MsAfterNext(100);
        let (first, second) = (Err(ErrorCode::NoLeader), Err(ErrorCode::Busy));
        let third = Some((When::AtOnce, Err(ErrorCode::UnknownJob)));
        let (_, refused) = call(&[Some((slow, first)), Some((When::AtOnce, second)), third]);
        let Err(CommandError::Refused(why)) = refused else { panic!("{refused:?}") };
        assert_eq!(why.message, "refused");
    }
}
