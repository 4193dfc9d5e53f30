//! Places where a test makes the store fail, wait or panic.
//!
//! Without the feature `failpoints` there is no code of them. `tests/failpoints.rs` switches each one
//! on, and fails if one is never reached.

/// A place where a test may make the store panic or wait; with an answer, also return it.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name);
    };
    ($name:literal, $answer:expr) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name, |_| $answer);
    };
}

pub(crate) use failpoint;

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
