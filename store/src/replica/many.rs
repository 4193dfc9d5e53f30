//! Pipelined commands: many commands of one caller, without waiting for the disk after each.
//!
//! All commands are sent before the first reply is awaited, so they share entries and syncs. Their order is preserved,
//! for two reasons. A leader accepts the requests of a replica in the order of their numbers. And a command that was
//! not done is sent again only if it is certain that no later command was accepted.

use super::ask::{Again, Answer, Ask};
use super::handle::{AskError, PAUSE, ReplicatedCell, TRIES};
use omega_core::{Command, Outcome};
use std::collections::VecDeque;

/// Number of commands that are sent before their replies are awaited. A leader queues sixteen thousand requests, and a
/// replica drops messages beyond four thousand, so several callers can send this many at once.
const AT_ONCE: usize = 1024;

impl ReplicatedCell {
    /// Applies commands in this order, on all replicas. The results are in the order of the commands.
    ///
    /// A command that was not done is not sent again if a later command was accepted. After a command with an unknown
    /// outcome, no further command is sent (see [`AskError::Unknown`]).
    #[must_use]
    pub fn apply_all(
        &self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Vec<Result<Outcome, AskError>> {
        let mut rest = commands.into_iter().fuse();
        let mut next = VecDeque::new();
        let mut answers = Vec::new();
        let mut tries = 0;
        loop {
            let room = AT_ONCE - next.len();
            next.extend(rest.by_ref().take(room));
            if next.is_empty() {
                break;
            }
            let asks = next.iter().cloned().map(Ask::Command).collect();
            let round = Round::of(self.ask_all(asks));
            tries = if round.answers.is_empty() { tries + 1 } else { 0 };
            next.drain(..round.answers.len());
            answers.extend(round.answers);
            match round.then {
                Then::GoOn => {}
                Then::Again(_) if tries < TRIES => std::thread::sleep(PAUSE),
                Then::Again(again) | Then::Stop(again) => {
                    let none = AskError::Unavailable(again);
                    answers.extend(next.drain(..).chain(rest).map(|_| Err(none.clone())));
                    break;
                }
            }
        }
        self.catch_up_with_last(&answers);
        answers
    }

    /// Waits until this replica has applied all answered commands, by waiting for the last of them.
    fn catch_up_with_last(&self, answers: &[Result<Outcome, AskError>]) {
        let done = |answer: &Result<Outcome, AskError>| answer.as_ref().ok().cloned();
        if let Some(last) = answers.iter().rev().find_map(done) {
            self.catch_up_with(&last);
        }
    }
}

/// Result of a round of commands.
struct Round {
    /// Results of the first commands, to be returned to the caller.
    answers: Vec<Result<Outcome, AskError>>,
    /// Next step for the other commands, which were not done.
    then: Then,
}

/// Next step for the commands that were not done.
enum Then {
    /// No command is left.
    GoOn,
    /// The commands may be sent again, because no later one was accepted.
    Again(Again),
    /// The commands must not be sent again.
    Stop(Again),
}

impl Round {
    fn of(mut given: Vec<Answer>) -> Round {
        let taken = |answer: &Answer| !matches!(answer, Answer::Again(_));
        let last = given.iter().rposition(taken).map_or(0, |last| last + 1);
        let unknown = given.contains(&Answer::Unknown);
        let then = match given.get(last) {
            // The outcome of at least one command is unknown, so no command is sent again.
            _ if unknown => Then::Stop(Again::Leaderless),
            Some(Answer::Again(again)) if again.is_final() => Then::Stop(*again),
            Some(Answer::Again(again)) => Then::Again(*again),
            _ => Then::GoOn,
        };
        given.truncate(last);
        Round { answers: given.into_iter().map(told).collect(), then }
    }
}

/// Converts a reply to the caller's result.
fn told(answer: Answer) -> Result<Outcome, AskError> {
    match answer {
        Answer::Outcome(outcome) => Ok(outcome?),
        Answer::Again(again) => Err(AskError::Unavailable(again)),
        _ => Err(AskError::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Rejection, Version};

    fn done(version: u64) -> Answer {
        Answer::Outcome(Ok(Outcome::Done(Version(version))))
    }

    /// The number of results for the caller, and whether the other commands are sent again.
    fn round(given: &[Answer]) -> (usize, bool) {
        let round = Round::of(given.to_vec());
        (round.answers.len(), matches!(round.then, Then::Again(_)))
    }

    #[test]
    fn only_what_nothing_was_taken_after_is_sent_again() {
        let (busy, unknown) = (Answer::Again(Again::Busy), Answer::Unknown);
        let refused = Answer::Outcome(Err(Rejection::BadName("".into())));
        assert_eq!(round(&[done(1), done(2)]), (2, false));
        assert_eq!(round(&[done(1), busy.clone(), busy.clone()]), (1, true));
        assert_eq!(round(&[busy.clone(), busy.clone()]), (0, true));
        assert_eq!(round(&[busy.clone(), refused, busy.clone()]), (2, true));
        assert_eq!(round(&[done(1), unknown, busy]), (2, false));
    }
}
