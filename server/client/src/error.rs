//! Errors of calls: a stable code, a message with the remedy, and a gRPC status.
//!
//! The code is sent as `google.rpc.ErrorInfo` with the domain `omega`, with `google.rpc.RetryInfo`
//! where waiting helps. The message is for people and may change; the code does not.

use crate::mismatch;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Rejection, Transaction, TransactionError, Version};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The domain of the codes.
pub const DOMAIN: &str = "omega";

/// Defines the codes, each with its wire name and its gRPC status.
macro_rules! define_codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $code:ident;)*) => {
        /// Failure, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant),*];

            /// Its wire name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $name,)*
                }
            }

            /// The gRPC status of a call that fails with it.
            #[must_use]
            pub fn grpc(self) -> Code {
                match self {
                    $(ErrorCode::$variant => Code::$code,)*
                }
            }
        }
    };
}

define_codes! {
    /// The client and the replica do not agree on TLS: one does not use it, or a certificate is
    /// rejected.
    Tls = "TLS", FailedPrecondition;
    /// The message is invalid; the text names the field.
    Malformed = "MALFORMED", InvalidArgument;
    /// Another object has the name.
    NameTaken = "NAME_TAKEN", AlreadyExists;
    /// A name, label or value is too long, or has control or format characters.
    BadName = "BAD_NAME", InvalidArgument;
    /// The machine was removed, or never was.
    UnknownMachine = "UNKNOWN_MACHINE", NotFound;
    /// A machine's name cannot change.
    OtherName = "OTHER_NAME", InvalidArgument;
    /// The number of a machine's devices can change only while no task has one.
    DevicesInUse = "DEVICES_IN_USE", FailedPrecondition;
    /// The job has ended long ago, or never was.
    UnknownJob = "UNKNOWN_JOB", NotFound;
    /// The job has no such group.
    UnknownGroup = "UNKNOWN_GROUP", NotFound;
    /// The job has no such task.
    UnknownTask = "UNKNOWN_TASK", NotFound;
    /// Only a pending task can be adopted.
    TaskNotPending = "TASK_NOT_PENDING", FailedPrecondition;
    /// No devices of the machine have enough left.
    NoDevicesLeft = "NO_DEVICES_LEFT", FailedPrecondition;
    /// The task has left the machine, or has ended.
    TaskNotThere = "TASK_NOT_THERE", FailedPrecondition;
    /// A kind is not registered, or an amount exceeds 2^50.
    BadAmount = "BAD_AMOUNT", InvalidArgument;
    /// A list or a count is beyond its bound.
    TooMany = "TOO_MANY", InvalidArgument;
    /// The job contradicts itself.
    BadJob = "BAD_JOB", InvalidArgument;
    /// The transaction is empty.
    TransactionEmpty = "TRANSACTION_EMPTY", InvalidArgument;
    /// The transaction has too many items: split it.
    TransactionTooLarge = "TRANSACTION_TOO_LARGE", InvalidArgument;
    /// The transaction was decided on a view of another cell, or of a lost one: sync from nothing.
    BaseFromFuture = "BASE_FROM_FUTURE", FailedPrecondition;
    /// Register first.
    UnknownScheduler = "UNKNOWN_SCHEDULER", FailedPrecondition;
    /// No transaction of this number was checked.
    UnknownTransaction = "UNKNOWN_TRANSACTION", NotFound;
    /// The result of this transaction is no longer kept: sync, and inspect the tasks.
    AnswerExpired = "ANSWER_EXPIRED", OutOfRange;
    /// Another transaction had this id: count upwards.
    IdReused = "ID_REUSED", AlreadyExists;
    /// A transaction's number is too far above its scheduler's next one: register again.
    NumberAhead = "NUMBER_AHEAD", InvalidArgument;
    /// Another process has the scheduler's name: stop.
    Fenced = "FENCED", FailedPrecondition;
    /// Another process owns the scheduler's name: wait, or choose another name.
    LeaseHeld = "LEASE_HELD", FailedPrecondition;
    /// The process no longer owns the scheduler's name: stop.
    LeaseLost = "LEASE_LOST", FailedPrecondition;
    /// A lease has from one second to one minute.
    BadLease = "BAD_LEASE", InvalidArgument;
    /// Choose another parent, guarantee or weight for the tenant.
    BadTenant = "BAD_TENANT", InvalidArgument;
    /// The tenant's request limit is reached: request less, or wait until jobs end.
    NotAdmitted = "NOT_ADMITTED", ResourceExhausted;
    /// Choose other bands of precedence, or another cap of evictions.
    BadPolicy = "BAD_POLICY", InvalidArgument;
    /// Choose other machines, tenants or times for the reservation.
    BadReservation = "BAD_RESERVATION", InvalidArgument;
    /// The reservation expired, was deleted, or never existed.
    UnknownReservation = "UNKNOWN_RESERVATION", NotFound;
    /// The machine contradicts itself.
    BadMachine = "BAD_MACHINE", InvalidArgument;
    /// The cores of a machine's NUMA nodes can change only while no task has exclusive cores.
    CoresInUse = "CORES_IN_USE", FailedPrecondition;
    /// Too few cores of the machine are left for a task alone.
    NoCoresLeft = "NO_CORES_LEFT", FailedPrecondition;
    /// Choose other machines, times or shares for the calendar of peaks.
    BadPeaks = "BAD_PEAKS", InvalidArgument;
    /// The calendar of peaks was removed, or never was.
    UnknownPeaks = "UNKNOWN_PEAKS", NotFound;
    /// The job was updated since: look at it again.
    OtherVersion = "OTHER_VERSION", Aborted;
    /// A page token was not made by this call, or with other filters.
    BadPageToken = "BAD_PAGE_TOKEN", InvalidArgument;
    /// No leader is known: wait, or try another replica.
    NoLeader = "NO_LEADER", Unavailable;
    /// The cell is busy: wait for the given delay.
    Busy = "BUSY", ResourceExhausted;
    /// The leader's disk is full: make room there.
    DiskFull = "DISK_FULL", ResourceExhausted;
    /// This replica has stopped, or is about to: try another one.
    Stopped = "STOPPED", Unavailable;
    /// The outcome is unknown: send it again, it is not applied twice.
    OutcomeUnknown = "OUTCOME_UNKNOWN", Unknown;
    /// The cell has no replicas: it is in memory alone.
    NotReplicated = "NOT_REPLICATED", FailedPrecondition;
    /// The replicas cannot change so.
    BadChange = "BAD_CHANGE", FailedPrecondition;
    /// The caller is not identified: connect with a certificate.
    Unauthenticated = "UNAUTHENTICATED", Unauthenticated;
    /// The role of the caller does not allow it.
    Denied = "DENIED", PermissionDenied;
    /// A limit of the server was reached: wait for the given delay.
    Limit = "LIMIT", ResourceExhausted;
    /// The deadline passed before an answer: send it again, it is not done twice.
    Late = "LATE", DeadlineExceeded;
    /// This server does not have the call: try another one.
    NotOffered = "NOT_OFFERED", Unimplemented;
    /// A defect of Omega, or an answer of a newer server.
    Internal = "INTERNAL", Internal;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Failure, for programs.
    pub code: ErrorCode,
    /// Action, for people.
    pub message: String,
    /// Delay before a retry, if a retry can succeed.
    pub retry_after: Option<Duration>,
    /// Id of the leader, if another replica leads.
    pub leader: Option<String>,
    /// Address of the leader for clients, as `host:port`, if it is known.
    pub leader_address: Option<String>,
    /// The version of the cell, where it matters.
    pub version: Option<Version>,
}

impl ApiError {
    /// An error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        let (retry_after, leader, leader_address, version) = (None, None, None, None);
        ApiError { code, message: message.into(), retry_after, leader, leader_address, version }
    }

    /// Returns the error with a time after which a retry may succeed.
    #[must_use]
    pub fn retry_after(mut self, pause: Duration) -> ApiError {
        self.retry_after = Some(pause);
        self
    }

    /// Whether nothing was done, and a retry may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        use ErrorCode::{Busy, DiskFull, Limit, NoLeader, Stopped};
        matches!(self.code, Busy | DiskFull | Limit | NoLeader | Stopped)
    }

    /// The error of a sent transaction that the cell did not check, as a [`TransactionError`].
    #[must_use]
    pub fn transaction_error(&self, txn: &Transaction) -> Option<TransactionError> {
        Some(match self.code {
            ErrorCode::TransactionEmpty => TransactionError::Empty,
            ErrorCode::TransactionTooLarge => {
                TransactionError::TooManyItems { items: txn.items(), max: TRANSACTION_ITEMS_MAX }
            }
            ErrorCode::BaseFromFuture => {
                let version = self.version.unwrap_or_default();
                TransactionError::BaseFromFuture { base: txn.base, version }
            }
            ErrorCode::UnknownScheduler => TransactionError::UnknownScheduler(txn.id.scheduler),
            ErrorCode::AnswerExpired => TransactionError::AnswerExpired(txn.id),
            ErrorCode::IdReused => TransactionError::IdReused(txn.id),
            ErrorCode::Fenced => TransactionError::Fenced(txn.id),
            ErrorCode::NumberAhead => TransactionError::NumberAhead(txn.id),
            _ => return None,
        })
    }
}

/// The longest sentence: it travels in a header, where a long name in it would be the end of the answer.
const MESSAGE_BYTES_MAX: usize = 1024;

/// A sentence that is not too long.
fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
        message.push_str(" ...");
    }
    message
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Status {
        let mut about = HashMap::new();
        if let Some(leader) = error.leader {
            about.insert("leader".to_owned(), leader);
        }
        if let Some(address) = error.leader_address {
            about.insert("leader_address".to_owned(), address);
        }
        if let Some(version) = error.version {
            about.insert("version".to_owned(), version.0.to_string());
        }
        let mut details = ErrorDetails::with_error_info(error.code.name(), DOMAIN, about);
        if error.retry_after.is_some() {
            details.set_retry_info(error.retry_after);
        }
        Status::with_error_details(error.code.grpc(), cut(error.message), details)
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> ApiError {
        if let Some(error) = mismatch::of_certificates(&status) {
            return error;
        }
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        let named = info.and_then(|info| by_name(&info.reason));
        let about = |key: &str| info.and_then(|info| info.metadata.get(key).cloned());
        ApiError {
            code: named.unwrap_or_else(|| by_status(status.code())),
            message: status.message().to_owned(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            leader: about("leader"),
            leader_address: about("leader_address"),
            version: about("version").and_then(|version| version.parse().ok()).map(Version),
        }
    }
}

/// The code with this name, if this version has it.
#[must_use]
pub fn by_name(name: &str) -> Option<ErrorCode> {
    ErrorCode::ALL.iter().copied().find(|code| code.name() == name)
}

/// Error for a status that a proxy between the client and the cell has made.
fn by_status(code: Code) -> ErrorCode {
    match code {
        Code::InvalidArgument => ErrorCode::Malformed,
        Code::DeadlineExceeded | Code::Cancelled => ErrorCode::Late,
        Code::PermissionDenied => ErrorCode::Denied,
        Code::Unauthenticated => ErrorCode::Unauthenticated,
        Code::ResourceExhausted => ErrorCode::Limit,
        // The connection failed or broke: the request may have been executed.
        Code::Unavailable | Code::Unknown => ErrorCode::OutcomeUnknown,
        _ => ErrorCode::Internal,
    }
}

impl From<&Rejection> for ApiError {
    fn from(rejection: &Rejection) -> ApiError {
        let code = match rejection {
            Rejection::NameTaken(_) => ErrorCode::NameTaken,
            Rejection::BadName(_) => ErrorCode::BadName,
            Rejection::UnknownMachine(_) => ErrorCode::UnknownMachine,
            Rejection::OtherName { .. } => ErrorCode::OtherName,
            Rejection::DevicesInUse(_) => ErrorCode::DevicesInUse,
            Rejection::UnknownJob(_) => ErrorCode::UnknownJob,
            Rejection::UnknownGroup { .. } => ErrorCode::UnknownGroup,
            Rejection::UnknownTask(_) => ErrorCode::UnknownTask,
            Rejection::TaskNotPending(_) => ErrorCode::TaskNotPending,
            Rejection::NoDevicesLeft(..) => ErrorCode::NoDevicesLeft,
            Rejection::TaskNotThere(..) => ErrorCode::TaskNotThere,
            Rejection::BadAmount { .. } => ErrorCode::BadAmount,
            Rejection::TooMany { .. } => ErrorCode::TooMany,
            Rejection::BadJob(_) => ErrorCode::BadJob,
            Rejection::Transaction(error) => return error.into(),
            Rejection::NameHeld { .. } => ErrorCode::LeaseHeld,
            Rejection::BadLease { .. } => ErrorCode::BadLease,
            Rejection::BadTenant(_) => ErrorCode::BadTenant,
            Rejection::BadPolicy(_) => ErrorCode::BadPolicy,
            Rejection::NotAdmitted { .. } => ErrorCode::NotAdmitted,
            Rejection::BadReservation(_) => ErrorCode::BadReservation,
            Rejection::UnknownReservation(_) => ErrorCode::UnknownReservation,
            Rejection::BadMachine(_) => ErrorCode::BadMachine,
            Rejection::CoresInUse(_) => ErrorCode::CoresInUse,
            Rejection::NoCoresLeft(..) => ErrorCode::NoCoresLeft,
            Rejection::BadPeaks(_) => ErrorCode::BadPeaks,
            Rejection::UnknownPeaks(_) => ErrorCode::UnknownPeaks,
            Rejection::OtherVersion { .. } => ErrorCode::OtherVersion,
            _ => ErrorCode::Internal,
        };
        ApiError::new(code, rejection.to_string())
    }
}

impl From<&TransactionError> for ApiError {
    fn from(error: &TransactionError) -> ApiError {
        let code = match error {
            TransactionError::Empty => ErrorCode::TransactionEmpty,
            TransactionError::TooManyItems { .. } => ErrorCode::TransactionTooLarge,
            TransactionError::BaseFromFuture { .. } => ErrorCode::BaseFromFuture,
            TransactionError::UnknownScheduler(_) => ErrorCode::UnknownScheduler,
            TransactionError::AnswerExpired(_) => ErrorCode::AnswerExpired,
            TransactionError::IdReused(_) => ErrorCode::IdReused,
            TransactionError::Fenced(_) => ErrorCode::Fenced,
            TransactionError::NumberAhead(_) => ErrorCode::NumberAhead,
            _ => ErrorCode::Internal,
        };
        let mut made = ApiError::new(code, error.to_string());
        if let TransactionError::BaseFromFuture { version, .. } = error {
            made.version = Some(*version);
        }
        made
    }
}

impl From<crate::convert::Malformed> for ApiError {
    fn from(error: crate::convert::Malformed) -> ApiError {
        ApiError::new(ErrorCode::Malformed, error.to_string())
    }
}
