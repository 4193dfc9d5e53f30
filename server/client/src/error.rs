//! Errors of calls: a stable code, a message with the remedy, and a gRPC status.
//!
//! The code is sent as `google.rpc.ErrorInfo` with the domain `omega`. If a retry may succeed after a while,
//! `google.rpc.RetryInfo` is sent, too. The message is for people and may change; the code does not change.

use crate::mismatch;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Rejection, Transaction, TransactionError, Version};
use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Domain of the codes.
pub const DOMAIN: &str = "omega";

/// Defines the codes, each with its wire name and its gRPC status.
macro_rules! define_codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $code:ident;)*) => {
        /// Kind of a failure, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant),*];

            /// Name of the code in messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $name,)*
                }
            }

            /// gRPC status of a call that fails with this code.
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
    /// Only one of client and replica uses TLS, or a certificate is rejected.
    Tls = "TLS", FailedPrecondition;
    /// A field of the message is invalid. The error's text names the field.
    Malformed = "MALFORMED", InvalidArgument;
    /// Another object has the name.
    NameTaken = "NAME_TAKEN", AlreadyExists;
    /// A name, label or value is too long, or has control or format characters.
    BadName = "BAD_NAME", InvalidArgument;
    /// No such machine exists: it was removed, or never existed.
    UnknownMachine = "UNKNOWN_MACHINE", NotFound;
    /// An update gives a machine another name, and names cannot change.
    OtherName = "OTHER_NAME", InvalidArgument;
    /// The number of a machine's devices cannot change while a task has one of them.
    DevicesInUse = "DEVICES_IN_USE", FailedPrecondition;
    /// No such job exists: it was forgotten after its end, or never existed.
    UnknownJob = "UNKNOWN_JOB", NotFound;
    /// The job has no group of this name.
    UnknownGroup = "UNKNOWN_GROUP", NotFound;
    /// The job has no task with this number.
    UnknownTask = "UNKNOWN_TASK", NotFound;
    /// The task cannot be adopted, because it is not pending.
    TaskNotPending = "TASK_NOT_PENDING", FailedPrecondition;
    /// The machine has no devices with enough free capacity for the task that is to be adopted.
    NoDevicesLeft = "NO_DEVICES_LEFT", FailedPrecondition;
    /// The task has left the machine, or has ended.
    TaskNotThere = "TASK_NOT_THERE", FailedPrecondition;
    /// A kind is not registered, or an amount exceeds 2^50.
    BadAmount = "BAD_AMOUNT", InvalidArgument;
    /// A list or a count is above its bound.
    TooMany = "TOO_MANY", InvalidArgument;
    /// The description of the job is invalid.
    BadJob = "BAD_JOB", InvalidArgument;
    /// The transaction has no items.
    TransactionEmpty = "TRANSACTION_EMPTY", InvalidArgument;
    /// The transaction has too many items. Split it.
    TransactionTooLarge = "TRANSACTION_TOO_LARGE", InvalidArgument;
    /// The transaction was decided on a view of another cell, or on a state that the cell has lost. Sync the whole
    /// state.
    BaseFromFuture = "BASE_FROM_FUTURE", FailedPrecondition;
    /// No scheduler of this id is registered. Register first.
    UnknownScheduler = "UNKNOWN_SCHEDULER", FailedPrecondition;
    /// The cell has checked no transaction with this number, or no longer has its result.
    UnknownTransaction = "UNKNOWN_TRANSACTION", NotFound;
    /// The result of this transaction is no longer kept. Sync, and look at the states of its tasks.
    AnswerExpired = "ANSWER_EXPIRED", OutOfRange;
    /// Another transaction had this id. Number transactions in ascending order.
    IdReused = "ID_REUSED", AlreadyExists;
    /// The transaction's number is too far above its scheduler's next number. Register again.
    NumberAhead = "NUMBER_AHEAD", InvalidArgument;
    /// Another process has the scheduler's name now. Stop.
    Fenced = "FENCED", FailedPrecondition;
    /// Another process owns the scheduler's name. Wait, or choose another name.
    LeaseHeld = "LEASE_HELD", FailedPrecondition;
    /// The process no longer owns the scheduler's name. Stop.
    LeaseLost = "LEASE_LOST", FailedPrecondition;
    /// The lease is shorter than one second, or longer than one minute.
    BadLease = "BAD_LEASE", InvalidArgument;
    /// The tenant's configuration is invalid. Choose another parent, guarantee or weight.
    BadTenant = "BAD_TENANT", InvalidArgument;
    /// The tenant's request limit is reached. Request less, or wait until jobs have ended.
    NotAdmitted = "NOT_ADMITTED", ResourceExhausted;
    /// The policy is invalid. Choose other bands of precedence, or another eviction limit.
    BadPolicy = "BAD_POLICY", InvalidArgument;
    /// The reservation is invalid. Choose other machines, tenants or times.
    BadReservation = "BAD_RESERVATION", InvalidArgument;
    /// No such reservation exists: it expired, was removed, or never existed.
    UnknownReservation = "UNKNOWN_RESERVATION", NotFound;
    /// The description of the machine is invalid.
    BadMachine = "BAD_MACHINE", InvalidArgument;
    /// The cores of a machine's NUMA nodes cannot change while a task has exclusive cores.
    CoresInUse = "CORES_IN_USE", FailedPrecondition;
    /// The machine has fewer free cores than the exclusive cores of the task that is to be adopted.
    NoCoresLeft = "NO_CORES_LEFT", FailedPrecondition;
    /// The port range of the machine has too few free ports for the task that is to be adopted.
    NoPortsLeft = "NO_PORTS_LEFT", FailedPrecondition;
    /// The calendar of peak hours is invalid. Choose other machines, times or shares.
    BadPeaks = "BAD_PEAKS", InvalidArgument;
    /// No such calendar of peak hours exists: it was removed, or never existed.
    UnknownPeaks = "UNKNOWN_PEAKS", NotFound;
    /// The job no longer has the required version. Read the job again before the next attempt.
    OtherVersion = "OTHER_VERSION", Aborted;
    /// The page token is not from this call, or was returned with other filters.
    BadPageToken = "BAD_PAGE_TOKEN", InvalidArgument;
    /// No connection to a replica could be made, so nothing was sent. Check the address, or try another replica.
    Unreachable = "UNREACHABLE", Unavailable;
    /// No leader is known. Wait, or try another replica.
    NoLeader = "NO_LEADER", Unavailable;
    /// The cell is busy. Wait for the given delay.
    Busy = "BUSY", ResourceExhausted;
    /// The disk of the leader, or of the replica that was asked, is full. Make space on it.
    DiskFull = "DISK_FULL", ResourceExhausted;
    /// This replica has stopped, or is about to stop. Try another one.
    Stopped = "STOPPED", Unavailable;
    /// The outcome is unknown. Send the request again: it is not applied twice.
    OutcomeUnknown = "OUTCOME_UNKNOWN", Unknown;
    /// The cell has no replicas, because it is in memory only.
    NotReplicated = "NOT_REPLICATED", FailedPrecondition;
    /// The membership cannot be changed in this way.
    BadChange = "BAD_CHANGE", FailedPrecondition;
    /// The caller is not identified. Connect with a certificate.
    Unauthenticated = "UNAUTHENTICATED", Unauthenticated;
    /// The role of the caller does not permit the call.
    Denied = "DENIED", PermissionDenied;
    /// A limit of the server was reached. Wait for the given delay.
    Limit = "LIMIT", ResourceExhausted;
    /// The deadline passed before the reply. Send the request again: it is not applied twice.
    Late = "LATE", DeadlineExceeded;
    /// This server does not offer the call. Try another server.
    NotOffered = "NOT_OFFERED", Unimplemented;
    /// A defect of Omega, or a code of a newer server.
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
    /// Kind of the failure, for programs.
    pub code: ErrorCode,
    /// Description and remedy, for people.
    pub message: String,
    /// Delay before a retry, if a retry can succeed.
    pub retry_after: Option<Duration>,
    /// Id of the leader, if another replica is the leader.
    pub leader: Option<String>,
    /// Address of the leader for clients, as `host:port`, if known.
    pub leader_address: Option<String>,
    /// Version of the cell, if the error depends on it.
    pub version: Option<Version>,
}

impl ApiError {
    /// An error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        let (retry_after, leader, leader_address, version) = (None, None, None, None);
        ApiError { code, message: message.into(), retry_after, leader, leader_address, version }
    }

    /// Returns the error with a delay after which a retry may succeed.
    #[must_use]
    pub fn retry_after(mut self, pause: Duration) -> ApiError {
        self.retry_after = Some(pause);
        self
    }

    /// Whether the call had no effect, and a retry may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        use ErrorCode::{Busy, DiskFull, Limit, NoLeader, Stopped, Unreachable};
        matches!(self.code, Busy | DiskFull | Limit | NoLeader | Stopped | Unreachable)
    }

    /// Converts this error to a `TransactionError`, if the error means that the cell did not check the transaction;
    /// otherwise returns `None`.
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

/// Maximum bytes of a message. The message is sent in a header. A header that is too long, for example because of a
/// long name, would end the call.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The message, shortened if it is too long.
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
        if let Some(error) = mismatch::of_certificates(&status).or_else(|| unreachable(&status)) {
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

/// Returns the code with this name; `None` if this version has no such code.
#[must_use]
pub fn by_name(name: &str) -> Option<ErrorCode> {
    ErrorCode::ALL.iter().copied().find(|code| code.name() == name)
}

/// Start of the message of [`ErrorCode::Unreachable`]. [`crate::connect::Connections`] inserts the address after this
/// text.
pub(crate) const NO_CONNECTION: &str = "cannot connect";

/// The error of a call for which no connection could be made; `None` for other errors.
fn unreachable(status: &Status) -> Option<ApiError> {
    let mut cause = status.source();
    while let Some(error) = cause.filter(|error| !error.is::<tonic::ConnectError>()) {
        cause = error.source();
    }
    let mut last = cause?;
    while let Some(error) = last.source() {
        last = error;
    }
    let last = last.to_string();
    // The error number is cut off, because it adds nothing to the text.
    let why = last.split(" (os error").next().unwrap_or(&last);
    Some(ApiError::new(ErrorCode::Unreachable, format!("{NO_CONNECTION}: {why}")))
}

/// The code for a status that a proxy between the client and the cell has created.
fn by_status(code: Code) -> ErrorCode {
    match code {
        Code::InvalidArgument => ErrorCode::Malformed,
        Code::DeadlineExceeded | Code::Cancelled => ErrorCode::Late,
        Code::PermissionDenied => ErrorCode::Denied,
        Code::Unauthenticated => ErrorCode::Unauthenticated,
        Code::ResourceExhausted => ErrorCode::Limit,
        // The connection failed or broke, so the request may have been executed.
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
            Rejection::NoPortsLeft(..) => ErrorCode::NoPortsLeft,
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
