//! Callers: their rights, and the limits on their requests.
//!
//! - `secure.rs`: the calls that each role's certificate allows.
//! - `revoked.rs`: certificates that are revoked while the cell is served.
//! - `tenants.rs`: the jobs that each role may read and change, of its own and of others.
//! - `audit.rs`: audit logs, and `omega audit verify`.
//! - `requests.rs`: invalid messages, and callers with excessive requests.
//! - `floods.rs`: endless headers, and a thousand watches at the same time.
//! - `idle.rs`: connections without calls.
//! - `bad_choices.rs`: outdated transactions, and unknown values.
//! - `bad_requests.rs`: invalid transactions and settings, exhausted systems, and a list of the
//!   tests of bad input.
//! - `limits.rs`: limits on requests, set by an operator.

pub(crate) mod audit;
pub(crate) mod bad_choices;
pub(crate) mod bad_requests;
pub(crate) mod floods;
pub(crate) mod idle;
pub(crate) mod limits;
pub(crate) mod requests;
pub(crate) mod revoked;
pub(crate) mod secure;
pub(crate) mod tenants;
