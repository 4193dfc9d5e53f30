//! Limits on concurrent requests of clients: the table `[limits]` of the file, and a flag and a variable for each
//! limit.
//!
//! `Limits::default` has the defaults, with reasons. Zero is rejected for every limit, because a server without any
//! clients would be a mistake.

use clap::Args;
use omega_service::{Deadlines, HEADER_BYTES_MIN, Limits};
use serde::Deserialize;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

/// Largest limit of header bytes. No call needs more, and each connection may keep this number of bytes in memory.
const HEADER_BYTES_MAX: u32 = 1 << 20;

/// Smallest and largest limit of message bytes. A job with its rules may need messages as large as the smallest limit.
/// The largest limit bounds the memory of each call.
const MESSAGE_BYTES_MIN: u32 = 64 << 10;
const MESSAGE_BYTES_MAX: u32 = 256 << 20;

/// Longest time that a setting may have: one day.
const SECONDS_MAX: u32 = 86_400;

/// The limits of one source. A missing limit is taken from the next source.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SourceLimits {
    /// Concurrent calls of all callers except operators. One caller may make at most a quarter of them [default: 1024].
    #[arg(long = "limit-calls", env = "OMEGA_LIMIT_CALLS", value_name = "N")]
    calls: Option<NonZeroU32>,
    /// Concurrent calls of operators [default: 256].
    #[arg(long = "limit-operator-calls", env = "OMEGA_LIMIT_OPERATOR_CALLS", value_name = "N")]
    operator_calls: Option<NonZeroU32>,
    /// Open streams of all callers except operators [default: 4096].
    #[arg(long = "limit-streams", env = "OMEGA_LIMIT_STREAMS", value_name = "N")]
    streams: Option<NonZeroU32>,
    /// Open streams of operators [default: 1024].
    #[arg(long = "limit-operator-streams", env = "OMEGA_LIMIT_OPERATOR_STREAMS", value_name = "N")]
    operator_streams: Option<NonZeroU32>,
    /// Open streams of one caller [default: 256].
    #[arg(long = "limit-streams-each", env = "OMEGA_LIMIT_STREAMS_EACH", value_name = "N")]
    streams_each: Option<NonZeroU32>,
    /// Sustained calls per second of one caller [default: 5000].
    #[arg(long = "limit-calls-per-second", env = "OMEGA_LIMIT_CALLS_PER_SECOND", value_name = "N")]
    calls_per_second: Option<NonZeroU32>,
    /// Calls that one caller may make at once after a pause [default: 10000].
    #[arg(long = "limit-calls-burst", env = "OMEGA_LIMIT_CALLS_BURST", value_name = "N")]
    calls_burst: Option<NonZeroU32>,
    /// Sustained number of tasks per second that one caller's changes of jobs may begin and end [default: 250000].
    #[arg(
        long = "limit-task-changes-per-second",
        env = "OMEGA_LIMIT_TASK_CHANGES_PER_SECOND",
        value_name = "N"
    )]
    task_changes_per_second: Option<NonZeroU32>,
    /// Open connections [default: 512].
    #[arg(long = "limit-connections", env = "OMEGA_LIMIT_CONNECTIONS", value_name = "N")]
    connections: Option<NonZeroU32>,
    /// Open connections from one address [default: 64].
    #[arg(long = "limit-connections-each", env = "OMEGA_LIMIT_CONNECTIONS_EACH", value_name = "N")]
    connections_each: Option<NonZeroU32>,
    /// Concurrent calls and streams on one connection; further ones wait in the client [default: 32].
    #[arg(
        long = "limit-connection-streams",
        env = "OMEGA_LIMIT_CONNECTION_STREAMS",
        value_name = "N"
    )]
    connection_streams: Option<NonZeroU32>,
    /// Size of one call's headers in bytes [default: 16384].
    #[arg(long = "limit-header-bytes", env = "OMEGA_LIMIT_HEADER_BYTES", value_name = "BYTES")]
    header_bytes: Option<NonZeroU32>,
    /// Size of one message from a caller in bytes [default: 4194304].
    #[arg(long = "limit-message-bytes", env = "OMEGA_LIMIT_MESSAGE_BYTES", value_name = "BYTES")]
    message_bytes: Option<NonZeroU32>,
    /// Tasks of one tenant that have not ended; must be the same for all replicas [default: 4194304].
    #[arg(long = "limit-tenant-tasks", env = "OMEGA_LIMIT_TENANT_TASKS", value_name = "N")]
    tenant_tasks: Option<NonZeroU32>,
    /// Bytes of one tenant's jobs, including ended ones; must be the same for all replicas [default: 2147483648].
    #[arg(long = "limit-tenant-bytes", env = "OMEGA_LIMIT_TENANT_BYTES", value_name = "BYTES")]
    tenant_bytes: Option<NonZeroU64>,
    /// Seconds in which a connection must complete its TLS handshake and send its first HTTP/2 frame [default: 5].
    #[arg(
        long = "limit-handshake-seconds",
        env = "OMEGA_LIMIT_HANDSHAKE_SECONDS",
        value_name = "SECONDS"
    )]
    handshake_seconds: Option<NonZeroU32>,
    /// Seconds after which a connection without a call or stream is closed [default: 300].
    #[arg(long = "limit-idle-seconds", env = "OMEGA_LIMIT_IDLE_SECONDS", value_name = "SECONDS")]
    idle_seconds: Option<NonZeroU32>,
    /// Deadline in seconds of a call for which the caller sets no deadline [default: 5].
    #[arg(long = "limit-call-seconds", env = "OMEGA_LIMIT_CALL_SECONDS", value_name = "SECONDS")]
    call_seconds: Option<NonZeroU32>,
    /// Longest deadline in seconds that a caller may set for a call [default: 60].
    #[arg(
        long = "limit-call-seconds-max",
        env = "OMEGA_LIMIT_CALL_SECONDS_MAX",
        value_name = "SECONDS"
    )]
    call_seconds_max: Option<NonZeroU32>,
}

/// Error in the limits, as one line for the user.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitsError {
    /// A limit exceeds the limit that includes it. Raise the larger one, or lower the smaller one.
    #[error(
        "limits: {part} ({given}) must be at most {whole} ({max}): raise {whole}, or lower {part}"
    )]
    PartAboveWhole {
        /// The smaller limit.
        part: &'static str,
        /// Value of the smaller limit.
        given: u64,
        /// The limit that includes the smaller one.
        whole: &'static str,
        /// Value of the larger limit, which includes the smaller one.
        max: u64,
    },
    /// A limit is out of range. Choose a value within its bounds.
    #[error("limits: {name} ({given}) must be from {min} to {max}")]
    OutOfRange {
        /// Name of the limit.
        name: &'static str,
        /// The given value.
        given: u64,
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
    },
}

impl SourceLimits {
    /// Fills missing values from another source.
    pub(super) fn or(self, other: SourceLimits) -> SourceLimits {
        SourceLimits {
            calls: self.calls.or(other.calls),
            operator_calls: self.operator_calls.or(other.operator_calls),
            streams: self.streams.or(other.streams),
            operator_streams: self.operator_streams.or(other.operator_streams),
            streams_each: self.streams_each.or(other.streams_each),
            calls_per_second: self.calls_per_second.or(other.calls_per_second),
            calls_burst: self.calls_burst.or(other.calls_burst),
            task_changes_per_second: self.task_changes_per_second.or(other.task_changes_per_second),
            connections: self.connections.or(other.connections),
            connections_each: self.connections_each.or(other.connections_each),
            connection_streams: self.connection_streams.or(other.connection_streams),
            header_bytes: self.header_bytes.or(other.header_bytes),
            message_bytes: self.message_bytes.or(other.message_bytes),
            tenant_tasks: self.tenant_tasks.or(other.tenant_tasks),
            tenant_bytes: self.tenant_bytes.or(other.tenant_bytes),
            handshake_seconds: self.handshake_seconds.or(other.handshake_seconds),
            idle_seconds: self.idle_seconds.or(other.idle_seconds),
            call_seconds: self.call_seconds.or(other.call_seconds),
            call_seconds_max: self.call_seconds_max.or(other.call_seconds_max),
        }
    }

    /// The limits, with defaults for those that are not given.
    ///
    /// # Errors
    /// If limits contradict each other, or one is out of range.
    pub(super) fn resolve(&self) -> Result<Limits, LimitsError> {
        let usual = Limits::default();
        let of = |given: Option<NonZeroU32>, usual: u32| given.map_or(usual, NonZeroU32::get);
        let seconds = |given: Option<NonZeroU32>, usual: Duration| {
            given.map_or(usual, |seconds| Duration::from_secs(seconds.get().into()))
        };
        // If a total is set below the default of its part, the part is lowered to the total.
        let streams = of(self.streams, usual.streams);
        let connections = of(self.connections, usual.connections);
        let max = seconds(self.call_seconds_max, usual.deadlines.max);
        let deadline = seconds(self.call_seconds, usual.deadlines.usual.min(max));
        let limits = Limits {
            calls: of(self.calls, usual.calls),
            operator_calls: of(self.operator_calls, usual.operator_calls),
            streams,
            operator_streams: of(self.operator_streams, usual.operator_streams),
            streams_each: of(self.streams_each, usual.streams_each.min(streams)),
            calls_per_second: of(self.calls_per_second, usual.calls_per_second),
            calls_burst: of(self.calls_burst, usual.calls_burst),
            task_changes_per_second: of(
                self.task_changes_per_second,
                usual.task_changes_per_second,
            ),
            connections,
            connections_each: of(self.connections_each, usual.connections_each.min(connections)),
            connection_streams: of(self.connection_streams, usual.connection_streams),
            header_bytes: of(self.header_bytes, usual.header_bytes),
            message_bytes: of(self.message_bytes, usual.message_bytes),
            tenant_tasks: of(self.tenant_tasks, usual.tenant_tasks),
            tenant_bytes: self.tenant_bytes.map_or(usual.tenant_bytes, NonZeroU64::get),
            handshake: seconds(self.handshake_seconds, usual.handshake),
            idle: seconds(self.idle_seconds, usual.idle),
            deadlines: Deadlines { usual: deadline, max },
            ..usual
        };
        check(&limits).map(|()| limits)
    }
}

fn check(limits: &Limits) -> Result<(), LimitsError> {
    let Limits { streams, streams_each, connections, connections_each, .. } = *limits;
    let Deadlines { usual, max } = limits.deadlines;
    let parts = [
        ("streams-each", streams_each.into(), "streams", streams.into()),
        ("connections-each", connections_each.into(), "connections", connections.into()),
        ("call-seconds", usual.as_secs(), "call-seconds-max", max.as_secs()),
    ];
    for (part, given, whole, max) in parts {
        if given > max {
            return Err(LimitsError::PartAboveWhole { part, given, whole, max });
        }
    }
    let ranges = [
        ("header-bytes", limits.header_bytes.into(), HEADER_BYTES_MIN, HEADER_BYTES_MAX),
        ("message-bytes", limits.message_bytes.into(), MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX),
        ("handshake-seconds", limits.handshake.as_secs(), 1, SECONDS_MAX),
        ("idle-seconds", limits.idle.as_secs(), 1, SECONDS_MAX),
        ("call-seconds-max", max.as_secs(), 1, SECONDS_MAX),
    ];
    for (name, given, min, max) in ranges {
        if !(min.into()..=max.into()).contains(&given) {
            return Err(LimitsError::OutOfRange { name, given, min, max });
        }
    }
    Ok(())
}

/// All limits, in the form of the file.
pub(super) fn describe(limits: &Limits) -> String {
    let Deadlines { usual, max } = limits.deadlines;
    let all: [(&str, u64); 19] = [
        ("calls", limits.calls.into()),
        ("operator-calls", limits.operator_calls.into()),
        ("streams", limits.streams.into()),
        ("operator-streams", limits.operator_streams.into()),
        ("streams-each", limits.streams_each.into()),
        ("calls-per-second", limits.calls_per_second.into()),
        ("calls-burst", limits.calls_burst.into()),
        ("task-changes-per-second", limits.task_changes_per_second.into()),
        ("connections", limits.connections.into()),
        ("connections-each", limits.connections_each.into()),
        ("connection-streams", limits.connection_streams.into()),
        ("header-bytes", limits.header_bytes.into()),
        ("message-bytes", limits.message_bytes.into()),
        ("tenant-tasks", limits.tenant_tasks.into()),
        ("tenant-bytes", limits.tenant_bytes),
        ("handshake-seconds", limits.handshake.as_secs()),
        ("idle-seconds", limits.idle.as_secs()),
        ("call-seconds", usual.as_secs()),
        ("call-seconds-max", max.as_secs()),
    ];
    all.map(|(name, value)| format!("{name} {value}")).join(", ")
}
