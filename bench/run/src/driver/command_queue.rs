//! Thread that sends the feeder's commands to the cell.
//!
//! ```text
//!   feeder ──some commands──▶ ┌───────┐ ──all that have gathered──▶ replicas
//!          ◀───── answers ─── │ queue │ ◀───────── answers ─────────
//!                             └───────┘
//! ```
//!
//! A cell in memory answers at once. Replicas answer after a disk sync. If the feeder waited for each answer, each time
//! step of a trace would take one disk sync. So a separate thread sends all queued commands, in order, while the feeder
//! continues. The result is the same, because the feeder waits for the answers before it considers the schedulers
//! caught up.

use crate::backend::BackendError;
use crate::cell::RunCell;
use crate::driver::message::{Done, Message, Purpose};
use crossbeam_channel::{Receiver, Sender, unbounded};
use omega_core::Command;
use std::thread::JoinHandle;

/// Number of unanswered commands at which the feeder waits for answers: a few batches of the replicas.
pub(crate) const ON_THE_WAY_MAX: usize = 4096;

/// A command and its purpose.
pub(crate) type QueuedCommand = (Purpose, Command);

/// The thread for the commands. See the module documentation.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    cell: RunCell,
    /// The thread with its queue; `None` for a cell in memory.
    thread: Option<(Sender<Vec<QueuedCommand>>, JoinHandle<()>)>,
    on_the_way: usize,
}

impl CommandQueue {
    /// Creates a queue to a cell. Answers that are not immediate are sent as messages.
    pub(crate) fn new(cell: RunCell, messages: Sender<Message>) -> CommandQueue {
        let thread = matches!(cell, RunCell::Replica(_)).then(|| {
            let (to, inbox) = unbounded();
            let cell = cell.clone();
            let builder = std::thread::Builder::new().name("commands".to_owned());
            let thread = builder.spawn(move || work(&cell, &inbox, &messages));
            (to, thread.expect("the system has a thread for it"))
        });
        CommandQueue { cell, thread, on_the_way: 0 }
    }

    /// Sends commands after all earlier ones. Returns the answers if the cell answers at once.
    pub(crate) fn send(&mut self, queued: Vec<QueuedCommand>) -> Option<Done> {
        let Some((to, _)) = &self.thread else { return Some(apply(&self.cell, queued)) };
        self.on_the_way += queued.len();
        // Sending fails if the thread has panicked, which `check` reports.
        let _ = to.send(queued);
        self.check();
        None
    }

    /// Number of unanswered commands.
    pub(crate) fn on_the_way(&self) -> usize {
        self.on_the_way
    }

    /// Records that this many commands were answered.
    pub(crate) fn answered(&mut self, count: usize) {
        self.on_the_way -= count;
    }

    /// Panics if the thread has panicked.
    pub(crate) fn check(&mut self) {
        if let Some((_, thread)) = self.thread.take_if(|(_, thread)| thread.is_finished())
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for CommandQueue {
    fn drop(&mut self) {
        if let Some((to, thread)) = self.thread.take() {
            drop(to);
            // A panic of the thread was already reported to the feeder, or the feeder ends with an error anyway.
            let _ = thread.join();
        }
    }
}

fn apply(cell: &RunCell, queued: Vec<QueuedCommand>) -> Done {
    let (purposes, commands): (Vec<_>, Vec<_>) = queued.into_iter().unzip();
    Done { purposes, answers: cell.apply_all(commands) }
}

/// Result of commands that were not sent, because an earlier command was not answered and the order must be kept.
fn not_sent(queued: Vec<QueuedCommand>, error: &BackendError) -> Done {
    let purposes = queued.into_iter().map(|(purpose, _)| purpose).collect();
    Done { purposes, answers: Err(error.clone()) }
}

/// Main function of the thread: sends all queued commands at once, until the feeder closes the channel.
fn work(cell: &RunCell, inbox: &Receiver<Vec<QueuedCommand>>, messages: &Sender<Message>) {
    let mut failed = None;
    while let Ok(first) = inbox.recv() {
        let queued = first.into_iter().chain(inbox.try_iter().flatten()).collect();
        let done = match &failed {
            None => apply(cell, queued),
            Some(error) => not_sent(queued, error),
        };
        failed = failed.or_else(|| done.answers.as_ref().err().cloned());
        if messages.send(Message::Done(done)).is_err() {
            return;
        }
    }
}
