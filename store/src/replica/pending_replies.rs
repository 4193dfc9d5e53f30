//! Destinations of replies: a waiting thread, or a callback.
//!
//! Requests may be sent together. Their caller then gets all replies at once, when the last reply has arrived, because
//! waking a thread costs more than a reply.

use super::request::Reply;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Replies to requests that were sent together.
pub(super) struct PendingReplies {
    /// The replies so far.
    collected: Mutex<Collected>,
    complete: Condvar,
}

struct Collected {
    replies: Vec<Reply>,
    missing: usize,
    /// Called with all replies, instead of waking a thread.
    then: Option<Then>,
}

type Then = Box<dyn FnOnce(Vec<Reply>) + Send>;

/// Destination of the reply to one of several requests. If it is dropped without a reply, the outcome is unknown.
pub(super) struct ReplySender(Option<(Arc<PendingReplies>, usize)>);

impl PendingReplies {
    /// Creates pending replies to `count` requests, for which a thread waits.
    pub(super) fn new(count: usize) -> Arc<PendingReplies> {
        PendingReplies::with(count, None)
    }

    /// Creates pending replies to `count` requests, at least one. The last reply calls `then`.
    pub(super) fn calling(
        count: usize,
        then: impl FnOnce(Vec<Reply>) + Send + 'static,
    ) -> Arc<PendingReplies> {
        PendingReplies::with(count, Some(Box::new(then)))
    }

    fn with(count: usize, then: Option<Then>) -> Arc<PendingReplies> {
        let collected = Collected { replies: vec![Reply::Unknown; count], missing: count, then };
        Arc::new(PendingReplies { collected: Mutex::new(collected), complete: Condvar::new() })
    }

    /// Destination of the reply to the request with this number. To be called once for each number.
    pub(super) fn sender(self: &Arc<PendingReplies>, number: usize) -> ReplySender {
        ReplySender(Some((Arc::clone(self), number)))
    }

    fn set(&self, number: usize, reply: Reply) {
        let mut collected = self.collected.lock();
        collected.replies[number] = reply;
        collected.missing -= 1;
        if collected.missing > 0 {
            return;
        }
        match collected.then.take() {
            Some(then) => {
                let replies = std::mem::take(&mut collected.replies);
                drop(collected);
                then(replies);
            }
            None => {
                drop(collected);
                self.complete.notify_one();
            }
        }
    }

    /// Waits for all replies. They are in the order of the requests.
    pub(super) fn wait(&self) -> Vec<Reply> {
        let mut collected = self.collected.lock();
        self.complete.wait_while(&mut collected, |collected| collected.missing > 0);
        std::mem::take(&mut collected.replies)
    }
}

impl ReplySender {
    /// Delivers the reply.
    pub(super) fn send(mut self, reply: Reply) {
        self.end(reply);
    }

    fn end(&mut self, reply: Reply) {
        if let Some((pending, number)) = self.0.take() {
            pending.set(number, reply);
        }
    }
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        self.end(Reply::Unknown);
    }
}

impl std::fmt::Debug for ReplySender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_no_answer_is_told_that_it_is_unknown() {
        let pending = PendingReplies::new(2);
        let (first, second) = (pending.sender(0), pending.sender(1));
        let waits = std::thread::spawn(move || pending.wait());
        second.send(Reply::Begun);
        drop(first);
        assert_eq!(waits.join().expect("it waits"), [Reply::Unknown, Reply::Begun]);
    }

    #[test]
    fn the_last_answer_calls() {
        let (to, replies) = std::sync::mpsc::channel();
        let pending =
            PendingReplies::calling(2, move |replies| to.send(replies).expect("it is heard"));
        let (first, second) = (pending.sender(0), pending.sender(1));
        second.send(Reply::Begun);
        assert!(replies.try_recv().is_err(), "one is missing");
        drop(first);
        assert_eq!(replies.try_recv(), Ok(vec![Reply::Unknown, Reply::Begun]));
    }
}
