//! The unit of time in schedulers. They read no clock: the caller passes the time.

/// Nanoseconds since any fixed moment, from the caller.
pub type Nanos = u64;
