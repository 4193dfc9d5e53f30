//! A name or a label that is written once and read by many.
//!
//! Machines, jobs and every scheduler's view hold the same names; a shared string makes a copy of
//! a machine cost a counter, not an allocation.

use std::sync::Arc;

/// An immutable, shared string.
pub type Text = Arc<str>;
