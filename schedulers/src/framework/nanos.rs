//! Time, as all schedulers count it.

/// Nanoseconds since any fixed moment, from the caller.
pub type Nanos = u64;
