//! Limits on concurrent calls and call rates of callers.
//!
//! Calls beyond a limit are rejected at once with a retry delay. Calls are never queued here: admitted calls are
//! answered, and the newest calls are shed. Operators have separate slots, so that they get through when everything
//! else is full. Calls of agents, and calls that renew leases of schedulers, have priority.
//!
//! Rejections cost time, too, so callers near a limit are slowed down first: the server delays reading from their
//! connections (`call_slots.rs`). Only calls that arrive nevertheless are rejected.

use crate::access::identity::{Caller, Role};
use crate::access::roles::CallKind;
use crate::overload::bucket::Bucket;
use crate::overload::call_slots::{CallSlot, CallSlots, Need};
use crate::overload::memory_accounts::{Accounts, CallerAccount};
use omega_client::connect::MESSAGE_BYTES_MAX;
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::TASKS_PER_JOB_MAX;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The limits of a listener. docs/serve.md has the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent calls of all callers except operators.
    pub calls: u32,
    /// Concurrent calls of operators.
    pub operator_calls: u32,
    /// Concurrent streams of all callers except operators.
    pub streams: u32,
    /// Concurrent streams of operators.
    pub operator_streams: u32,
    /// Concurrent streams of one caller.
    pub streams_each: u32,
    /// Sustained calls per second of one caller.
    pub calls_per_second: u32,
    /// Calls that one caller may make at once after a pause.
    pub calls_burst: u32,
    /// Sustained number of tasks per second that one caller's changes of jobs may begin and end.
    pub task_changes_per_second: u32,
    /// Concurrent connections.
    pub connections: u32,
    /// Concurrent connections of one address.
    pub connections_each: u32,
    /// Concurrent calls and streams on one connection.
    pub connection_streams: u32,
    /// Bytes of the headers of one call. HTTP/1.1 needs at least [`HEADER_BYTES_MIN`].
    pub header_bytes: u32,
    /// Bytes of one message from a caller, uncompressed.
    pub message_bytes: u32,
    /// Unfinished tasks of one tenant. A job that would exceed this number is rejected.
    pub tenant_tasks: u32,
    /// Bytes of the descriptions of one tenant's jobs, including ended ones. A job or version that would exceed this
    /// number is rejected.
    pub tenant_bytes: u64,
    /// Bytes of incomplete requests and unread answers in memory for one caller.
    pub held_bytes_each: u64,
    /// Bytes in memory for all callers except operators, who have a separate bound of the same size.
    pub held_bytes: u64,
    /// Time for a connection's TLS handshake and first HTTP/2 frame, or for a browser's headers.
    pub handshake: Duration,
    /// Time for which a connection may have no call in progress.
    pub idle: Duration,
    /// Time limits of calls.
    pub deadlines: Deadlines,
}

/// Time limits of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Deadline of a call for which the caller sets none. A message must arrive within this time in any case.
    pub usual: Duration,
    /// Longest deadline that a caller may set.
    pub max: Duration,
}

/// Smallest limit on header bytes, which is the size of the first buffer of the HTTP/1.1 reader.
pub const HEADER_BYTES_MIN: u32 = 8 << 10;

impl Default for Deadlines {
    /// By default, a call may take at most a minute. A commit takes milliseconds and an election some seconds, so no
    /// call needs more.
    fn default() -> Deadlines {
        Deadlines { usual: Duration::from_secs(5), max: Duration::from_secs(60) }
    }
}

impl Default for Limits {
    /// Default limits. A replica answers some ten thousand calls a second. One caller gets half of this rate, with
    /// bursts of two seconds' worth of calls. Each open stream and each connection costs some ten kilobytes. A tenant
    /// may have as many tasks as four of the largest jobs. If each of these tasks is a job of its own, they take some
    /// four gigabytes.
    fn default() -> Limits {
        Limits {
            calls: 1024,
            operator_calls: 256,
            streams: 4096,
            operator_streams: 1024,
            streams_each: 256,
            calls_per_second: 5_000,
            calls_burst: 10_000,
            // A replica applies some two million changes of tasks a second, and schedulers have to follow.
            task_changes_per_second: 250_000,
            connections: 512,
            connections_each: 64,
            // Further calls of a connection wait in the client, where a call whose deadline passes costs the server
            // nothing.
            connection_streams: 32,
            header_bytes: 16 << 10,
            message_bytes: MESSAGE_BYTES_MAX as u32,
            tenant_tasks: 4 * TASKS_PER_JOB_MAX,
            // Several million jobs of the usual size.
            tenant_bytes: 2 << 30,
            // Each caller may have sixteen of the largest messages. The total is the memory that a replica of a large
            // cell can spare.
            held_bytes_each: 64 << 20,
            held_bytes: 512 << 20,
            handshake: Duration::from_secs(5),
            // Clients reconnect by themselves. This time is long enough to make reconnections rare.
            idle: Duration::from_secs(300),
            deadlines: Deadlines::default(),
        }
    }
}

impl Limits {
    /// Concurrent calls of one caller: a quarter of all calls.
    fn calls_each(&self) -> u32 {
        self.calls.div_ceil(4)
    }
}

/// Number of tracked callers above which idle callers with a refilled burst are dropped.
pub(crate) const CALLERS_MAX: usize = 4096;

/// Retry delay for a caller that got no slot: several times the duration of most calls.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits of calls, with the slots of all calls. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CallLimits {
    limits: Limits,
    calls: CallSlots,
    operator_calls: CallSlots,
    streams: CallSlots,
    operator_streams: CallSlots,
    accounts: Accounts,
    /// Usage of each caller. Locked for one look-up at a time.
    callers: Arc<Mutex<HashMap<Arc<str>, Used>>>,
}

/// Usage of one caller.
#[derive(Debug)]
struct Used {
    bucket: Bucket,
    calls: u32,
    streams: u32,
}

impl Used {
    fn count(&mut self, of: SlotKind) -> &mut u32 {
        match of {
            SlotKind::Calls => &mut self.calls,
            SlotKind::Streams => &mut self.streams,
        }
    }
}

/// Kinds of slots that are counted for each caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotKind {
    Calls,
    Streams,
}

/// A slot of a call, released when dropped.
#[derive(Debug)]
pub(crate) struct CallPermit {
    _of_all: CallSlot,
    /// Slot within the caller's own limit; `None` for calls without such a limit.
    _of_caller: Option<OfCaller>,
}

/// One of a caller's calls or streams.
#[derive(Debug)]
struct OfCaller {
    kind: SlotKind,
    caller: Arc<str>,
    callers: Arc<Mutex<HashMap<Arc<str>, Used>>>,
}

impl Drop for OfCaller {
    fn drop(&mut self) {
        if let Some(used) = self.callers.lock().get_mut(&self.caller) {
            *used.count(self.kind) -= 1;
        }
    }
}

impl CallLimits {
    pub(crate) fn new(limits: Limits) -> CallLimits {
        CallLimits {
            limits,
            calls: CallSlots::new(limits.calls),
            operator_calls: CallSlots::new(limits.operator_calls),
            streams: CallSlots::new(limits.streams),
            operator_streams: CallSlots::new(limits.operator_streams),
            accounts: Accounts::new(limits.held_bytes_each as usize, limits.held_bytes as usize),
            callers: Arc::default(),
        }
    }

    /// Time limits of calls.
    pub(crate) fn deadlines(&self) -> Deadlines {
        self.limits.deadlines
    }

    /// Returns the account of the bytes held for a caller.
    pub(crate) fn holder(&self, caller: &Caller) -> CallerAccount {
        self.accounts.of(caller)
    }

    /// The accounts of all callers.
    #[cfg(test)]
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The slots for a caller whose calls may have to wait; `None` for agents.
    pub(crate) fn call_slots(&self, caller: &Caller) -> Option<&CallSlots> {
        match &caller.role {
            Role::Operator => Some(&self.operator_calls),
            Role::Agent(_) => None,
            _ => Some(&self.calls),
        }
    }

    /// Time until which the connections of a caller with too many calls are not read; `None` if they may be read now.
    pub(crate) fn delayed_until(&self, caller: &Caller, now: Instant) -> Option<Instant> {
        self.callers.lock().get(&caller.name)?.bucket.spare_at(now)
    }

    /// Counts a call, whatever its result.
    ///
    /// # Errors
    /// If the caller exceeds its rate.
    pub(crate) fn count_call(
        &self,
        caller: &Caller,
        need: Need,
        now: Instant,
    ) -> Result<(), ApiError> {
        let Limits { calls_per_second, calls_burst, .. } = self.limits;
        let mut callers = self.callers.lock();
        if callers.len() >= CALLERS_MAX && !callers.contains_key(&caller.name) {
            callers.retain(|_, used| used.calls + used.streams > 0 || !used.bucket.is_full(now));
        }
        let bucket = || Bucket::new(calls_per_second, calls_burst, now);
        let new = || Used { bucket: bucket(), calls: 0, streams: 0 };
        let used = callers.entry(caller.name.clone()).or_insert_with(new);
        used.bucket
            .take(need, now)
            .map_err(|pause| full("this caller exceeds its rate of calls", pause))
    }

    /// Takes a slot for a call that was counted.
    ///
    /// # Errors
    /// If no slot is free.
    pub(crate) fn enter(
        &self,
        caller: &Caller,
        nature: CallKind,
        need: Need,
    ) -> Result<CallPermit, ApiError> {
        let none = || full("this replica already serves the maximum number of calls", PAUSE);
        let is_operator = matches!(caller.role, Role::Operator);
        let (kind, slots) = match (nature.is_stream(), is_operator) {
            (true, true) => (SlotKind::Streams, &self.operator_streams),
            (true, false) => (SlotKind::Streams, &self.streams),
            (false, true) => (SlotKind::Calls, &self.operator_calls),
            (false, false) => (SlotKind::Calls, &self.calls),
        };
        let is_bounded = match kind {
            SlotKind::Streams => true,
            // Operators have separate slots, and agents and lease renewals have priority.
            SlotKind::Calls => !is_operator && need == Need::Usual,
        };
        let of_caller = is_bounded.then(|| self.open(&caller.name, kind)).transpose()?;
        let of_all = slots.enter(need).ok_or_else(none)?;
        Ok(CallPermit { _of_all: of_all, _of_caller: of_caller })
    }

    fn open(&self, caller: &Arc<str>, kind: SlotKind) -> Result<OfCaller, ApiError> {
        let (max, what) = match kind {
            SlotKind::Streams => (self.limits.streams_each, "streams"),
            SlotKind::Calls => (self.limits.calls_each(), "calls"),
        };
        let mut callers = self.callers.lock();
        // The record exists: the call was counted just now, and only records of callers without recent calls are
        // dropped.
        let used = callers.get_mut(caller).ok_or_else(|| {
            full(
                "this replica has dropped its \
             record of the caller",
                PAUSE,
            )
        })?;
        if *used.count(kind) >= max {
            return Err(full(
                &format!(
                    "this caller has {max} open {what}, the maximum: end some of \
                 them"
                ),
                PAUSE,
            ));
        }
        *used.count(kind) += 1;
        Ok(OfCaller { kind, caller: caller.clone(), callers: self.callers.clone() })
    }
}

/// The error of a call beyond a limit, with the time after which it may be tried again.
pub(crate) fn full(why: &str, pause: Duration) -> ApiError {
    let message = format!("nothing was done: {why}; try again in {} ms", pause.as_millis());
    ApiError::new(ErrorCode::Limit, message).retry_after(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Limits {
        Limits {
            calls: 2,
            operator_calls: 1,
            streams: 3,
            operator_streams: 1,
            streams_each: 2,
            calls_per_second: 10,
            calls_burst: 1000,
            ..Limits::default()
        }
    }

    fn reader(name: &str) -> Caller {
        Caller { name: name.into(), role: Role::Reader(Vec::new()) }
    }

    fn enter(
        call_limits: &CallLimits,
        caller: &Caller,
        nature: CallKind,
    ) -> Result<CallPermit, ApiError> {
        call_limits.count_call(caller, Need::Usual, Instant::now())?;
        call_limits.enter(caller, nature, Need::Usual)
    }

    #[test]
    fn operators_get_in_when_all_is_full() {
        let call_limits = CallLimits::new(small());
        let held: Vec<CallPermit> = ["a", "b"]
            .map(|name| enter(&call_limits, &reader(name), CallKind::Read).unwrap())
            .into();
        let refused = enter(&call_limits, &reader("c"), CallKind::Read).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (ErrorCode::Limit, Some(PAUSE)));
        let operator = enter(&call_limits, &Caller::local(), CallKind::Change).unwrap();
        assert!(enter(&call_limits, &Caller::local(), CallKind::Change).is_err());
        drop((held, operator));
        assert!(enter(&call_limits, &reader("c"), CallKind::Read).is_ok());
        assert!(enter(&call_limits, &Caller::local(), CallKind::Read).is_ok());
    }

    #[test]
    fn one_caller_cannot_have_all_streams() {
        let call_limits = CallLimits::new(small());
        let first = enter(&call_limits, &reader("a"), CallKind::Watch).unwrap();
        let _second = enter(&call_limits, &reader("a"), CallKind::Watch).unwrap();
        assert!(enter(&call_limits, &reader("a"), CallKind::Stream).is_err());
        let _third = enter(&call_limits, &reader("b"), CallKind::Watch).unwrap();
        assert!(enter(&call_limits, &reader("b"), CallKind::Watch).is_err(), "all are taken");
        drop(first);
        assert!(enter(&call_limits, &reader("b"), CallKind::Watch).is_ok());
    }

    #[test]
    fn callers_who_come_and_go_are_forgotten() {
        let call_limits = CallLimits::new(small());
        let mut now = Instant::now();
        for i in 0..3 * CALLERS_MAX {
            now += Duration::from_secs(1);
            call_limits.count_call(&reader(&i.to_string()), Need::Usual, now).unwrap();
        }
        assert!(call_limits.callers.lock().len() <= CALLERS_MAX);
    }
}
