//! The way of the feeder's commands to the cell.
//!
//! ```text
//!   feeder ──some commands──▶ ┌──────┐ ──all that have gathered──▶ replicas
//!          ◀───── answers ─── │ lane │ ◀───────── answers ─────────
//!                             └──────┘
//! ```
//!
//! A cell in memory answers at once. Replicas answer when a disk is done; if the feeder waited for it at each
//! moment of the workload, a trace of many moments would take as long as that many syncs. So a thread of its own
//! sends what has gathered, in order, while the feeder goes on. No more is different: the feeder still waits for
//! the answers before it takes the schedulers to have caught up.

use super::cell::RunCell;
use super::kept::{Answer, KeepError};
use super::meter::Message;
use crossbeam_channel::{Receiver, Sender, unbounded};
use omega_core::{Command, Text};
use std::thread::JoinHandle;

/// Commands on their way beyond which the feeder waits: a few rounds of those that replicas take together.
pub(super) const ON_THE_WAY_MAX: usize = 4096;

/// Purpose of a command.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// To submit the job of this name.
    Submit(Text),
    /// To tell that a task has ended.
    End,
    /// To forget jobs that have ended.
    Expire,
}

/// A command, and what it is for.
pub(super) type Errand = (Purpose, Command);

/// Commands that were answered, in order; or that were not all answered.
#[derive(Debug)]
pub(crate) struct Done {
    pub(super) purposes: Vec<Purpose>,
    pub(super) answers: Result<Vec<Answer>, KeepError>,
}

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Lane {
    cell: RunCell,
    /// None for a cell in memory.
    thread: Option<(Sender<Vec<Errand>>, JoinHandle<()>)>,
    on_the_way: usize,
}

impl Lane {
    /// A way to a cell. What is not answered at once is told by a message.
    pub(super) fn new(cell: RunCell, messages: Sender<Message>) -> Lane {
        let thread = matches!(cell, RunCell::Replica(_)).then(|| {
            let (to, inbox) = unbounded();
            let cell = cell.clone();
            let builder = std::thread::Builder::new().name("lane".to_owned());
            let thread = builder.spawn(move || work(&cell, &inbox, &messages));
            (to, thread.expect("the system has a thread for it"))
        });
        Lane { cell, thread, on_the_way: 0 }
    }

    /// Sends commands after those before them. The answer is theirs, if it is there already.
    pub(super) fn send(&mut self, errands: Vec<Errand>) -> Option<Done> {
        let Some((to, _)) = &self.thread else { return Some(apply(&self.cell, errands)) };
        self.on_the_way += errands.len();
        // It fails where the thread has panicked, which `check` tells.
        let _ = to.send(errands);
        self.check();
        None
    }

    /// Number of commands that are not answered.
    pub(super) fn on_the_way(&self) -> usize {
        self.on_the_way
    }

    /// Notes that so many were answered.
    pub(super) fn answered(&mut self, count: usize) {
        self.on_the_way -= count;
    }

    /// Goes on with the panic of the thread, if it had one.
    pub(super) fn check(&mut self) {
        if let Some((_, thread)) = self.thread.take_if(|(_, thread)| thread.is_finished())
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some((to, thread)) = self.thread.take() {
            drop(to);
            // Of a panic of the thread the feeder has heard, or it does not matter any more.
            let _ = thread.join();
        }
    }
}

fn apply(cell: &RunCell, errands: Vec<Errand>) -> Done {
    let (purposes, commands): (Vec<_>, Vec<_>) = errands.into_iter().unzip();
    Done { purposes, answers: cell.apply_all(commands) }
}

/// Report on commands after one that was not answered: they are not sent, to keep the order.
fn not_sent(errands: Vec<Errand>, error: &KeepError) -> Done {
    let purposes = errands.into_iter().map(|(purpose, _)| purpose).collect();
    Done { purposes, answers: Err(error.clone()) }
}

/// The thread: all that has gathered at once, until nobody sends any more.
fn work(cell: &RunCell, inbox: &Receiver<Vec<Errand>>, messages: &Sender<Message>) {
    let mut failed = None;
    while let Ok(first) = inbox.recv() {
        let errands = first.into_iter().chain(inbox.try_iter().flatten()).collect();
        let done = match &failed {
            None => apply(cell, errands),
            Some(error) => not_sent(errands, error),
        };
        failed = failed.or_else(|| done.answers.as_ref().err().cloned());
        if messages.send(Message::Done(done)).is_err() {
            return;
        }
    }
}
