//! Where answers go: to a thread that waits for them, or to a call.
//!
//! Requests may be asked together, and whoever asked waits for all of their answers. It is woken once,
//! by the last one: to wake a thread costs more than to answer.

use super::ask::Answer;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The answers to requests that were asked together.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Guards what was answered so far. Held for one answer.
    given: Mutex<Given>,
    complete: Condvar,
}

#[derive(Debug)]
struct Given {
    answers: Vec<Answer>,
    missing: usize,
}

/// Where the answer to one request goes. If there will be none, it is dropped: then nobody knows.
pub(super) struct Reply(Option<To>);

enum To {
    /// One of several that a thread waits for.
    Awaited(Arc<Awaited>, usize),
    Call(Box<dyn FnOnce(Answer) + Send>),
}

impl Awaited {
    /// No answer yet, to so many requests.
    pub(super) fn new(count: usize) -> Arc<Awaited> {
        let given = Given { answers: vec![Answer::Unknown; count], missing: count };
        Arc::new(Awaited { given: Mutex::new(given), complete: Condvar::new() })
    }

    /// Where the answer to a request goes. To be called once for each number.
    pub(super) fn reply(self: &Arc<Awaited>, number: usize) -> Reply {
        Reply(Some(To::Awaited(Arc::clone(self), number)))
    }

    fn answer(&self, number: usize, answer: Answer) {
        let mut given = self.given.lock();
        given.answers[number] = answer;
        given.missing -= 1;
        let last = given.missing == 0;
        drop(given);
        if last {
            self.complete.notify_one();
        }
    }

    /// Waits for all answers. They are in the order of the requests.
    pub(super) fn wait(&self) -> Vec<Answer> {
        let mut given = self.given.lock();
        self.complete.wait_while(&mut given, |given| given.missing > 0);
        std::mem::take(&mut given.answers)
    }
}

impl Reply {
    /// One that calls.
    pub(super) fn call(then: impl FnOnce(Answer) + Send + 'static) -> Reply {
        Reply(Some(To::Call(Box::new(then))))
    }

    /// Answers.
    pub(super) fn give(mut self, answer: Answer) {
        self.end(answer);
    }

    fn end(&mut self, answer: Answer) {
        match self.0.take() {
            Some(To::Awaited(awaited, number)) => awaited.answer(number, answer),
            Some(To::Call(then)) => then(answer),
            None => {}
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
}
