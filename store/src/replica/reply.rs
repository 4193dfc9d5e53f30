//! Where answers go: requests may be asked together, and whoever asked waits for all of their answers.
//!
//! It is woken once, by the last one: to wake a thread costs more than to answer.

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

/// Where the answer to one of them goes. If there will be none, it is dropped.
#[derive(Debug)]
pub(super) struct Reply {
    to: Arc<Awaited>,
    number: usize,
}

impl Awaited {
    /// No answer yet, to so many requests.
    pub(super) fn new(count: usize) -> Arc<Awaited> {
        // A replica that ends before it answers may have sent the request on.
        let given = Given { answers: vec![Answer::Unknown; count], missing: count };
        Arc::new(Awaited { given: Mutex::new(given), complete: Condvar::new() })
    }

    /// Where the answer to a request goes. To be called once for each number.
    pub(super) fn reply(self: &Arc<Awaited>, number: usize) -> Reply {
        Reply { to: Arc::clone(self), number }
    }

    /// Waits for all answers. They are in the order of the requests.
    pub(super) fn wait(&self) -> Vec<Answer> {
        let mut given = self.given.lock();
        self.complete.wait_while(&mut given, |given| given.missing > 0);
        std::mem::take(&mut given.answers)
    }
}

impl Reply {
    /// Answers.
    pub(super) fn give(self, answer: Answer) {
        self.to.given.lock().answers[self.number] = answer;
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let mut given = self.to.given.lock();
        given.missing -= 1;
        let last = given.missing == 0;
        drop(given);
        if last {
            self.to.complete.notify_one();
        }
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
