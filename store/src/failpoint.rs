//! Failpoints: places where a test makes the store fail, wait or panic.
//!
//! They are compiled only with the feature `failpoints`. `tests/failpoints.rs` switches on each failpoint, and fails if
//! one is never reached.

/// A place where a test may make the store panic or wait. If an error value is given, the test may also make the store
/// return that error.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        if crate::failpoint::are_on() {
            fail::fail_point!($name);
        }
    };
    ($name:literal, $answer:expr) => {
        #[cfg(feature = "failpoints")]
        if crate::failpoint::are_on() {
            fail::fail_point!($name, |_| $answer);
        }
    };
}

pub(crate) use failpoint;

#[cfg(feature = "failpoints")]
thread_local! {
    static ON: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

/// Sets whether failpoints are active in the calling thread, so that a test of several replicas can affect only one of
/// them. By default they are active.
#[cfg(feature = "failpoints")]
pub fn set_failpoints(on: bool) {
    ON.set(on);
}

#[cfg(feature = "failpoints")]
pub(crate) fn are_on() -> bool {
    ON.get()
}

/// All failpoints, in the order in which a request and a snapshot pass them.
#[cfg(feature = "failpoints")]
pub const FAILPOINTS: [&str; 45] = [
    "ask",
    "receive",
    "tick",
    "propose",
    "proposed",
    "write",
    "log-append",
    "log-restart",
    "log-write",
    "log-segment",
    "log-spare",
    "log-reuse",
    "log-appended",
    "log-sync",
    "log-sync-file",
    "log-synced",
    "persisted",
    "log-compact",
    "log-mark",
    "log-free",
    "log-compacted",
    "send",
    "leadership",
    "apply",
    "membership",
    "reply",
    "applied",
    "snapshot-capture",
    "snapshot-captured",
    "snapshot-save",
    "snapshot-create",
    "snapshot-sync",
    "snapshot-rename",
    "snapshot-renamed",
    "snapshot-remove",
    "snapshot-saved",
    "snapshot-forget",
    "snapshot-offer",
    "snapshot-read",
    "snapshot-receive",
    "snapshot-accept",
    "snapshot-piece",
    "snapshot-finish",
    "snapshot-load",
    "snapshot-install",
];

/// Failpoints without an error value, at which a test can only make the store panic or wait.
#[cfg(feature = "failpoints")]
pub const FAILPOINTS_WITHOUT_ANSWER: [&str; 27] = [
    "ask",
    "receive",
    "tick",
    "propose",
    "proposed",
    "write",
    "log-write",
    "log-spare",
    "log-reuse",
    "log-appended",
    "log-sync-file",
    "log-synced",
    "persisted",
    "log-mark",
    "log-free",
    "log-compacted",
    "send",
    "leadership",
    "apply",
    "membership",
    "reply",
    "applied",
    "snapshot-capture",
    "snapshot-captured",
    "snapshot-saved",
    "snapshot-forget",
    "snapshot-install",
];
