//! Schedulers: `/api/v1/schedulers` lists them with their leases, counters and latest transactions.

use super::Shown;
use super::response::{JsonResult, Params, json, page_size};
use crate::calls::transactions;
use crate::host::Host;
use crate::leases::NameOwner;
use crate::observe::counters::SchedulerCounters;
use axum::extract::State;
use omega_client::proto;
use omega_core::SchedulerId;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Number of transactions in a reply.
const TRANSACTIONS: usize = 20;

#[derive(Deserialize)]
pub(super) struct ListParams {
    /// Text that the names of the schedulers contain.
    name: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct ListShape {
    version: u64,
    /// Schedulers, the one with the latest transaction first.
    items: Vec<SchedulerShape>,
    /// Whether there are further schedulers.
    more: bool,
    /// Results of the latest transactions of all schedulers, the latest first.
    transactions: Vec<TransactionShape>,
}

#[derive(Serialize)]
struct SchedulerShape {
    name: String,
    /// `live`, `expired`, or `none` if no process owns the name; `null` on followers if a process owns the name.
    lease: Option<&'static str>,
    left_ms: Option<u64>,
    /// Description of the process with the lease.
    process: Option<String>,
    /// Transactions that were accepted in full, and that were not, since this replica started.
    committed: u64,
    conflicted: u64,
    claims: u64,
    placements: u64,
    /// Rejected items by reason.
    conflicts: BTreeMap<String, u64>,
    /// Version of the latest transaction; `null` if the cell knows none.
    last_version: Option<u64>,
}

#[derive(Serialize)]
struct TransactionShape {
    scheduler: String,
    number: u64,
    version: u64,
    /// Rejected items by reason. All other items were committed.
    conflicts: BTreeMap<String, u64>,
}

/// A registered scheduler.
struct Registered {
    id: SchedulerId,
    name: String,
    is_owned: bool,
    last_version: Option<u64>,
}

pub(super) async fn list(
    State(shown): State<Shown>,
    Params(params): Params<ListParams>,
) -> JsonResult {
    let host = &shown.web.host;
    let size = page_size(params.limit)?;
    let mut all = registered(host);
    all.retain(|one| params.name.as_ref().is_none_or(|part| one.name.contains(part.as_str())));
    all.sort_by_key(|one| Reverse(one.last_version));
    let more = all.len() > size;
    all.truncate(size);
    // Only the leader has the leases.
    let leases = host.leases().list(host).unwrap_or_default();
    let mut leases: BTreeMap<SchedulerId, NameOwner> =
        leases.into_iter().filter_map(|one| Some((one.id, one.owner?))).collect();
    let (mut counters, _) = host.metrics().scheduler_counters();
    let one = |one: Registered| {
        let counted = counters.remove(&one.id).unwrap_or_default();
        shape(leases.remove(&one.id), counted, one)
    };
    let items = all.into_iter().map(one).collect();
    let page = transactions::list(host, "", (TRANSACTIONS, ""))?;
    let transactions = page.transactions.into_iter().map(transaction).collect();
    Ok(json(&ListShape { version: page.version, items, more, transactions }))
}

/// The registered schedulers. The results of transactions are read scheduler by scheduler, so that commits do not wait
/// long.
fn registered(host: &Host) -> Vec<Registered> {
    let mut all: Vec<Registered> = host.read(|cell| {
        let one = |state: omega_cellstate::SchedulerState<'_>| Registered {
            id: state.id,
            name: state.name.to_string(),
            is_owned: state.lease.is_some(),
            last_version: None,
        };
        cell.schedulers().map(one).collect()
    });
    for one in &mut all {
        one.last_version =
            host.read(|cell| cell.cached_replies(one.id).map(|answer| answer.version).max());
    }
    all
}

fn shape(owner: Option<NameOwner>, counted: SchedulerCounters, one: Registered) -> SchedulerShape {
    let lease = match &owner {
        _ if !one.is_owned => Some("none"),
        Some(owner) if owner.remaining_ms > 0 => Some("live"),
        Some(_) => Some("expired"),
        None => None,
    };
    SchedulerShape {
        name: one.name,
        lease,
        left_ms: owner.as_ref().map(|owner| owner.remaining_ms),
        process: owner.map(|owner| owner.process.to_string()).filter(|process| !process.is_empty()),
        committed: counted.taken,
        conflicted: counted.conflicted,
        claims: counted.claims,
        placements: counted.placements,
        conflicts: counted.conflicts.into_iter().map(|(why, n)| (why.to_owned(), n)).collect(),
        last_version: one.last_version,
    }
}

fn transaction(answered: proto::AnsweredTransaction) -> TransactionShape {
    let answer = answered.answer.unwrap_or_default();
    let mut conflicts = BTreeMap::new();
    for conflict in &answer.conflicts {
        let name = conflict.reason().as_str_name();
        let reason = name.strip_prefix("REASON_").unwrap_or(name).to_owned();
        *conflicts.entry(reason).or_default() += 1;
    }
    TransactionShape {
        scheduler: answered.scheduler,
        number: answered.number,
        version: answer.version,
        conflicts,
    }
}
