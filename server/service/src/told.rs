//! What operators are told of commits: each of them if they look closely, and slow ones in any case.
//!
//! Where nobody listens, an event costs a look at a number.

use crate::tally::Judged;
use omega_client::ApiError;
use omega_core::SchedulerId;
use std::time::Duration;

/// A transaction was answered.
pub(crate) fn answered(
    number: u64,
    answer: Result<Judged<'_>, (SchedulerId, &ApiError)>,
    took: Duration,
) {
    let took_us = took.as_micros() as u64;
    match answer {
        Ok(Judged { scheduler, claims, base, commit }) => tracing::debug!(
            scheduler = scheduler.0,
            transaction = number,
            claims,
            conflicts = commit.conflicts.len(),
            base = base.0,
            version = commit.version.0,
            took_us,
            "commit"
        ),
        Err((scheduler, error)) => tracing::debug!(
            scheduler = scheduler.0,
            transaction = number,
            code = error.code.name(),
            took_us,
            "no commit"
        ),
    }
}

/// Transactions that were answered together took too long: one line for all of them.
pub(crate) fn slow(
    (scheduler, first): (SchedulerId, u64),
    (transactions, claims): (usize, usize),
    took: Duration,
) {
    tracing::warn!(
        scheduler = scheduler.0,
        transaction = first,
        transactions,
        claims,
        took_ms = took.as_millis() as u64,
        "slow commit"
    );
}
