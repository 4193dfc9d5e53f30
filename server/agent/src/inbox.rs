//! The inputs of a supervisor: signals, and events of other threads. Each wakes the supervisor's loop through a pipe.

use crate::supervisor_event::SupervisorEvent;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// The inputs of a supervisor.
#[derive(Debug)]
pub(crate) struct Inbox {
    killed: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    child_ended: Arc<AtomicBool>,
    events: Receiver<SupervisorEvent>,
    wakes: PipeReader,
}

/// Sends events of a thread to the inbox.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    events: mpsc::Sender<SupervisorEvent>,
    wake: Arc<PipeWriter>,
}

impl Sender {
    /// Sends an event.
    pub(crate) fn send(&self, event: SupervisorEvent) {
        // Once there is no receiver, the process ends.
        let _ = self.events.send(event);
        // If the pipe is full, the loop will wake up anyway.
        let _ = (&*self.wake).write(&[0]);
    }
}

/// A channel for events, and the pipe that has a byte for each.
pub(crate) fn channel() -> io::Result<(Sender, Receiver<SupervisorEvent>, PipeReader)> {
    let (wakes, wake) = io::pipe()?;
    never_block(&wakes)?;
    never_block(&wake)?;
    let (events, received) = mpsc::channel();
    Ok((Sender { events, wake: Arc::new(wake) }, received, wakes))
}

/// Makes reads and writes of a pipe return at once.
pub(crate) fn never_block(pipe: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?)
}

impl Inbox {
    /// Creates the inbox, and handles the signals from now on.
    pub(crate) fn new() -> io::Result<(Inbox, Sender)> {
        let (sender, events, wakes) = channel()?;
        let flag = |signal| -> io::Result<Arc<AtomicBool>> {
            let set = Arc::new(AtomicBool::new(false));
            flag::register(signal, set.clone())?;
            low_level::pipe::register(signal, sender.wake.try_clone()?)?;
            Ok(set)
        };
        let (killed, stopped, child_ended) = (flag(SIGUSR1)?, flag(SIGTERM)?, flag(SIGCHLD)?);
        // These signals come from the terminal of an agent in the foreground. They do not stop the task.
        for signal in [SIGINT, SIGHUP] {
            flag::register(signal, Arc::default())?;
        }
        Ok((Inbox { killed, stopped, child_ended, events, wakes }, sender))
    }

    /// Waits until there may be an event, until one of the pipes is readable, or until a time.
    pub(crate) fn wait<'a>(
        &'a self,
        until: Option<Instant>,
        pipes: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> io::Result<()> {
        let pipes = pipes.into_iter().chain([self.wakes.as_fd()]);
        let mut pipes: Vec<PollFd<'_>> =
            pipes.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)).collect();
        let left = until.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.map(|left| left.min(Duration::from_secs(3600)));
        let left = left.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match rustix::event::poll(&mut pipes, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Takes the next event. A stop is taken before the end of a child, so that a program that ends because of it
    /// counts as stopped.
    pub(crate) fn take(&mut self) -> Option<SupervisorEvent> {
        // The pipe is emptied before the inputs are checked, so that an input after the check wakes the loop again.
        while self.wakes.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        let flags = [
            (&self.killed, SupervisorEvent::Kill),
            (&self.stopped, SupervisorEvent::Stop),
            (&self.child_ended, SupervisorEvent::Child),
        ];
        let signal = flags.into_iter().find(|(flag, _)| flag.swap(false, Ordering::SeqCst));
        signal.map(|(_, event)| event).or_else(|| self.events.try_recv().ok())
    }
}
