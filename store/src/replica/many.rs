//! Pipelined commands: many commands of one caller, without waiting for the disk after each.
//!
//! All commands are sent before the first reply is awaited, so they share entries and syncs. Their order is preserved,
//! for two reasons. A leader accepts the requests of a replica in the order of their numbers. And a command that was
//! not done is sent again only if it is certain that no later command was accepted.

use super::handle::{PAUSE, ReplicatedCell, RequestError, TRIES};
use super::request::{Reply, Request, RetryReason};
use omega_core::{Command, Outcome};
use std::collections::VecDeque;

/// Number of commands that are sent before their replies are awaited. A leader queues sixteen thousand requests, and a
/// replica drops messages beyond four thousand, so several callers can send this many at once.
const AT_ONCE: usize = 1024;

impl ReplicatedCell {
    /// Applies commands in this order, on all replicas. The results are in the order of the commands.
    ///
    /// A command that was not done is not sent again if a later command was accepted. After a command with an unknown
    /// outcome, no further command is sent (see [`RequestError::Unknown`]).
    #[must_use]
    pub fn apply_all(
        &self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Vec<Result<Outcome, RequestError>> {
        let mut rest = commands.into_iter().fuse();
        let mut next = VecDeque::new();
        let mut replies = Vec::new();
        let mut tries = 0;
        loop {
            let room = AT_ONCE - next.len();
            next.extend(rest.by_ref().take(room));
            if next.is_empty() {
                break;
            }
            let requests = next.iter().cloned().map(Request::Command).collect();
            let round = Round::of(self.request_all(requests));
            tries = if round.replies.is_empty() { tries + 1 } else { 0 };
            next.drain(..round.replies.len());
            replies.extend(round.replies);
            match round.then {
                Then::GoOn => {}
                Then::Retry(_) if tries < TRIES => std::thread::sleep(PAUSE),
                Then::Retry(again) | Then::Stop(again) => {
                    let none = RequestError::Unavailable(again);
                    replies.extend(next.drain(..).chain(rest).map(|_| Err(none.clone())));
                    break;
                }
            }
        }
        self.catch_up_with_last(&replies);
        replies
    }

    /// Waits until this replica has applied all answered commands, by waiting for the last of them.
    fn catch_up_with_last(&self, replies: &[Result<Outcome, RequestError>]) {
        let done = |reply: &Result<Outcome, RequestError>| reply.as_ref().ok().cloned();
        if let Some(last) = replies.iter().rev().find_map(done) {
            self.catch_up_with(&last);
        }
    }
}

/// Result of a round of commands.
struct Round {
    /// Results of the first commands, to be returned to the caller.
    replies: Vec<Result<Outcome, RequestError>>,
    /// Next step for the other commands, which were not done.
    then: Then,
}

/// Next step for the commands that were not done.
enum Then {
    /// No command is left.
    GoOn,
    /// The commands may be sent again, because no later one was accepted.
    Retry(RetryReason),
    /// The commands must not be sent again.
    Stop(RetryReason),
}

impl Round {
    fn of(mut all: Vec<Reply>) -> Round {
        let taken = |reply: &Reply| !matches!(reply, Reply::Retry(_));
        let last = all.iter().rposition(taken).map_or(0, |last| last + 1);
        let unknown = all.contains(&Reply::Unknown);
        let then = match all.get(last) {
            // The outcome of at least one command is unknown, so no command is sent again.
            _ if unknown => Then::Stop(RetryReason::Leaderless),
            Some(Reply::Retry(again)) if again.is_final() => Then::Stop(*again),
            Some(Reply::Retry(again)) => Then::Retry(*again),
            _ => Then::GoOn,
        };
        all.truncate(last);
        Round { replies: all.into_iter().map(result_of).collect(), then }
    }
}

/// Converts a reply to the caller's result.
fn result_of(reply: Reply) -> Result<Outcome, RequestError> {
    match reply {
        Reply::Outcome(outcome) => Ok(outcome?),
        Reply::Retry(again) => Err(RequestError::Unavailable(again)),
        _ => Err(RequestError::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Rejection, Version};

    fn done(version: u64) -> Reply {
        Reply::Outcome(Ok(Outcome::Done(Version(version))))
    }

    /// The number of results for the caller, and whether the other commands are sent again.
    fn round(all: &[Reply]) -> (usize, bool) {
        let round = Round::of(all.to_vec());
        (round.replies.len(), matches!(round.then, Then::Retry(_)))
    }

    #[test]
    fn only_what_nothing_was_taken_after_is_sent_again() {
        let (busy, unknown) = (Reply::Retry(RetryReason::Busy), Reply::Unknown);
        let refused = Reply::Outcome(Err(Rejection::BadName("".into())));
        assert_eq!(round(&[done(1), done(2)]), (2, false));
        assert_eq!(round(&[done(1), busy.clone(), busy.clone()]), (1, true));
        assert_eq!(round(&[busy.clone(), busy.clone()]), (0, true));
        assert_eq!(round(&[busy.clone(), refused, busy.clone()]), (2, true));
        assert_eq!(round(&[done(1), unknown, busy]), (2, false));
    }
}
