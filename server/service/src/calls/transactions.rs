//! Results of past transactions, from the reply cache.
//!
//! The cell keeps results for retries, and only these are returned: the positions of rejected items, the reasons, and
//! the version. The contents of transactions are not kept.

use crate::host::Host;
use crate::leases;
use crate::service::Room;
use omega_cellstate::{CachedReply, Cell, SchedulerState};
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{Commit, SchedulerId, Version};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Position of a result in lists and page tokens: the version, the scheduler's number, and the transaction's number. A
/// result's position never changes, and later results have greater positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    version: u64,
    scheduler: u32,
    number: u64,
}

/// The result of one transaction.
///
/// # Errors
/// If there is no such scheduler, the scheduler sent no such transaction, or its result is no longer stored.
pub(crate) fn get(
    cell: &Cell,
    scheduler: &str,
    number: u64,
) -> Result<proto::AnsweredTransaction, ApiError> {
    let state = leases::scheduler(cell, scheduler)?;
    match cell.cached_reply(state.id, number) {
        Some(answer) => Ok(reply(&state, answer)),
        None => Err(not_there(&state, number)),
    }
}

fn not_there(state: &SchedulerState<'_>, number: u64) -> ApiError {
    let name = &**state.name;
    // Below `next_transaction`, a number that was skipped cannot be distinguished from a number whose result was
    // dropped.
    let (code, message) = if number >= state.next_transaction {
        (
            ErrorCode::UnknownTransaction,
            format!(
                "the scheduler {name:?} has not sent transaction {number}: its next number is {}",
                state.next_transaction
            ),
        )
    } else {
        (
            ErrorCode::AnswerExpired,
            format!(
                "the cell has no result of transaction {number} of the scheduler {name:?}: it was \
                 forgotten, or never existed: run `omega txn list` to see the kept ones"
            ),
        )
    };
    ApiError::new(code, message)
}

/// Lists at most `size` results of one scheduler, or of all schedulers, with the newest version first. The list begins
/// after the page that ended with this token.
///
/// The cell is read scheduler by scheduler, so that commits do not wait long.
///
/// # Errors
/// If there is no such scheduler, or the token is invalid.
pub(crate) fn list(
    host: &Host,
    scheduler: &str,
    (size, token): (usize, &str),
) -> Result<proto::ListTransactionsResponse, ApiError> {
    let after = place(token)?;
    let all: Vec<SchedulerId> = match scheduler {
        "" => host.read(|cell| cell.schedulers().map(|state| state.id).collect()),
        name => vec![host.read(|cell| leases::scheduler(cell, name).map(|state| state.id))?],
    };
    // The heap has the smallest kept position on top. One more position than the page needs is kept, to show whether
    // more follow.
    let mut kept: BinaryHeap<Reverse<Place>> = BinaryHeap::new();
    for id in &all {
        host.read(|cell| {
            let places = cell.cached_replies(*id).map(|answer| place_of(*id, answer));
            for place in places.filter(|place| after.is_none_or(|after| *place < after)) {
                kept.push(Reverse(place));
                if kept.len() > size + 1 {
                    kept.pop();
                }
            }
        });
    }
    let mut places: Vec<Place> = kept.into_iter().map(|Reverse(place)| place).collect();
    places.sort_unstable_by_key(|place| Reverse(*place));
    let mut more = places.len() > size;
    places.truncate(size);
    let (transactions, version) = host.read(|cell| {
        let page = page(cell, &mut places, &mut more);
        (page, cell.version())
    });
    let next_page_token = match places.last() {
        Some(last) if more => text(*last),
        _ => String::new(),
    };
    Ok(proto::ListTransactionsResponse { transactions, next_page_token, version: version.0 })
}

/// The results at these positions, as many as fit on a page. Sets `more` if some did not fit. Results that are no
/// longer stored are omitted.
fn page(cell: &Cell, places: &mut Vec<Place>, more: &mut bool) -> Vec<proto::AnsweredTransaction> {
    let states: Vec<SchedulerState<'_>> = cell.schedulers().collect();
    let mut room = Room::of_page(0);
    let mut transactions = Vec::new();
    for (index, place) in places.iter().enumerate() {
        if room.is_full() {
            places.truncate(index);
            *more = true;
            break;
        }
        let Some(state) = states.get(place.scheduler as usize) else { continue };
        let Some(answer) = cell.cached_reply(state.id, place.number) else { continue };
        transactions.push(room.take(reply(state, answer)));
    }
    transactions
}

fn reply(state: &SchedulerState<'_>, answer: &CachedReply) -> proto::AnsweredTransaction {
    let conflicts = answer.conflicts.to_vec();
    let commit = Commit { version: Version(answer.version), conflicts };
    proto::AnsweredTransaction {
        scheduler: state.name.to_string(),
        number: answer.number,
        answer: Some((&commit).into()),
    }
}

fn place_of(id: SchedulerId, answer: &CachedReply) -> Place {
    Place { version: answer.version, scheduler: id.0, number: answer.number }
}

fn text(Place { version, scheduler, number }: Place) -> String {
    format!("{version:x}.{scheduler:x}.{number:x}")
}

/// Position at which the previous page ended; `None` for the first page.
fn place(token: &str) -> Result<Option<Place>, ApiError> {
    if token.is_empty() {
        return Ok(None);
    }
    let parts: Vec<&str> = token.split('.').collect();
    let number = |part: &str| u64::from_str_radix(part, 16).ok();
    let read = match parts.as_slice() {
        [version, scheduler, number_] => {
            let scheduler = number(scheduler).and_then(|id| u32::try_from(id).ok());
            number(version).zip(scheduler).zip(number(number_))
        }
        _ => None,
    };
    match read {
        Some(((version, scheduler), number)) => Ok(Some(Place { version, scheduler, number })),
        None => {
            let message = format!(
                "{token:?} is not a page token: give the one of the previous page, or \
                     none"
            );
            Err(ApiError::new(ErrorCode::BadPageToken, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Decoding a token returns the position from which it was made. Other texts are invalid tokens.
        #[test]
        fn a_token_is_a_place(version in any::<u64>(), scheduler in any::<u32>(), number in any::<u64>()) {
            let at = Place { version, scheduler, number };
            prop_assert_eq!(place(&text(at)).unwrap(), Some(at));
            let cut = text(at).rsplit_once('.').unwrap().0.to_owned();
            prop_assert_eq!(place(&cut).unwrap_err().code, ErrorCode::BadPageToken);
            let long = text(at) + ".1";
            prop_assert!(place(&long).is_err());
        }
    }
}
