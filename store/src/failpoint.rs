//! Places where a test makes the store fail, wait or panic.
//!
//! Without the feature `failpoints` there is no code of them. `tests/failpoints.rs` switches each one
//! on, and fails if one is never reached.

/// A place where a test may make the store panic or wait; with an answer, also return it.
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

/// Whether a thread passes failpoints, or goes by as if there were none: so a test that drives several
/// replicas strikes one of them. Every thread passes them until it is told otherwise.
#[cfg(feature = "failpoints")]
pub fn set_failpoints(on: bool) {
    ON.set(on);
}

#[cfg(feature = "failpoints")]
pub(crate) fn are_on() -> bool {
    ON.get()
}

/// All of them, in the order of a write and of a snapshot's way.
#[cfg(feature = "failpoints")]
pub const FAILPOINTS: [&str; 14] = [
    "log-append",
    "log-sync",
    "log-segment",
    "log-compact",
    "log-restart",
    "send",
    "apply",
    "snapshot-capture",
    "snapshot-save",
    "snapshot-rename",
    "snapshot-read",
    "snapshot-accept",
    "snapshot-finish",
    "snapshot-install",
];
