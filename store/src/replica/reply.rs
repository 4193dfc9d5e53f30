//! Destinations of replies: a waiting thread, or a callback.
//!
//! Requests may be sent together. Their caller then gets all replies at once, when the last reply has arrived, because
//! waking a thread costs more than a reply.

use super::ask::Answer;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Replies to requests that were sent together.
pub(super) struct Awaited {
    /// The replies so far.
    given: Mutex<Given>,
    complete: Condvar,
}

struct Given {
    answers: Vec<Answer>,
    missing: usize,
    /// Called with all replies, instead of waking a thread.
    then: Option<Then>,
}

type Then = Box<dyn FnOnce(Vec<Answer>) + Send>;

/// Destination of the reply to one of several requests. If it is dropped without a reply, the outcome is unknown.
pub(super) struct Reply(Option<(Arc<Awaited>, usize)>);

impl Awaited {
    /// Creates pending replies to `count` requests, for which a thread waits.
    pub(super) fn new(count: usize) -> Arc<Awaited> {
        Awaited::with(count, None)
    }

    /// Creates pending replies to `count` requests, at least one. The last reply calls `then`.
    pub(super) fn calling(
        count: usize,
        then: impl FnOnce(Vec<Answer>) + Send + 'static,
    ) -> Arc<Awaited> {
        Awaited::with(count, Some(Box::new(then)))
    }

    fn with(count: usize, then: Option<Then>) -> Arc<Awaited> {
        let given = Given { answers: vec![Answer::Unknown; count], missing: count, then };
        Arc::new(Awaited { given: Mutex::new(given), complete: Condvar::new() })
    }

    /// Destination of the reply to the request with this number. To be called once for each number.
    pub(super) fn reply(self: &Arc<Awaited>, number: usize) -> Reply {
        Reply(Some((Arc::clone(self), number)))
    }

    fn answer(&self, number: usize, answer: Answer) {
        let mut given = self.given.lock();
        given.answers[number] = answer;
        given.missing -= 1;
        if given.missing > 0 {
            return;
        }
        match given.then.take() {
            Some(then) => {
                let answers = std::mem::take(&mut given.answers);
                drop(given);
                then(answers);
            }
            None => {
                drop(given);
                self.complete.notify_one();
            }
        }
    }

    /// Waits for all replies. They are in the order of the requests.
    pub(super) fn wait(&self) -> Vec<Answer> {
        let mut given = self.given.lock();
        self.complete.wait_while(&mut given, |given| given.missing > 0);
        std::mem::take(&mut given.answers)
    }
}

impl Reply {
    /// Delivers the reply.
    pub(super) fn give(mut self, answer: Answer) {
        self.end(answer);
    }

    fn end(&mut self, answer: Answer) {
        if let Some((awaited, number)) = self.0.take() {
            awaited.answer(number, answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.end(Answer::Unknown);
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_no_answer_is_told_that_it_is_unknown() {
        let awaited = Awaited::new(2);
        let (first, second) = (awaited.reply(0), awaited.reply(1));
        let waits = std::thread::spawn(move || awaited.wait());
        second.give(Answer::Begun);
        drop(first);
        assert_eq!(waits.join().expect("it waits"), [Answer::Unknown, Answer::Begun]);
    }

    #[test]
    fn the_last_answer_calls() {
        let (to, answers) = std::sync::mpsc::channel();
        let awaited = Awaited::calling(2, move |answers| to.send(answers).expect("it is heard"));
        let (first, second) = (awaited.reply(0), awaited.reply(1));
        second.give(Answer::Begun);
        assert!(answers.try_recv().is_err(), "one is missing");
        drop(first);
        assert_eq!(answers.try_recv(), Ok(vec![Answer::Unknown, Answer::Begun]));
    }
}
