//! A client of the cell: a scheduler with a view, and sometimes an operator.
//!
//! It sends a call to one replica and waits. If the call was not executed, or its outcome is unknown, it repeats the
//! call like the library's own handle, possibly at another replica.

use super::checker::{ClientCall, Fate, History, Read};
use super::plan::Micros;
use super::truth::Truth;
use crate::random::{Dice, Generator};
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, View};
use omega_core::{
    Claim, Command, Commit, Granularity, Outcome, SchedulerId, Text, Transaction, TransactionId,
    Version,
};
use omega_store::log::ReplicaId;
use omega_store::replica::{Applied, Reply, Request, RequestId};

/// Numbers of tries after which a client gives up. One of them is chosen for each call.
const TRIES: [usize; 4] = [1, 3, 12, 12];

/// The call whose answer a client waits for.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Command of the call; `None` for a read.
    pub command: Option<Command>,
    /// Time of the first request.
    pub invoked: Micros,
    /// The last request: the replica, the number of its start, and the id.
    pub at: Option<(ReplicaId, u64, RequestId)>,
    /// Whether an earlier request may have been executed.
    doubt: bool,
    /// Number of requests that the client may still send.
    tries: usize,
}

/// A client; see the head of the file.
#[derive(Debug)]
pub struct Client {
    name: Text,
    scheduler: Option<SchedulerId>,
    next: u64,
    /// The call whose answer the client waits for.
    pub pending: Option<Pending>,
    generator: Generator,
    /// The replica to which it sends calls.
    pub home: ReplicaId,
    /// The client's view, with the replica and the number of the replica's start from which it was synced.
    view: Option<(ReplicaId, u64, View)>,
}

impl Client {
    /// A client without calls so far.
    #[must_use]
    pub fn new(number: usize, generator: Generator, home: ReplicaId) -> Client {
        Client {
            name: format!("client-{number}").into(),
            scheduler: None,
            next: 0,
            pending: None,
            generator,
            home,
            view: None,
        }
    }

    /// Chooses the next call.
    pub fn choose(&mut self, now: Micros, reads: usize, world: (&Cell, &Truth), dice: &mut Dice) {
        let (cell, truth) = world;
        let command = match dice.below(100) {
            _ if self.scheduler.is_none() => {
                Some(Command::RegisterScheduler { name: self.name.clone() })
            }
            n if n < reads => None,
            n if n < reads + 35 => Some(self.other_command(truth)),
            _ => Some(self.transaction(cell, truth, dice)),
        };
        let (tries, doubt) = (*dice.pick(&TRIES), false);
        self.pending = Some(Pending { command, invoked: now, at: None, doubt, tries });
    }

    /// A command of an operator or an agent.
    fn other_command(&mut self, truth: &Truth) -> Command {
        loop {
            match self.generator.next(truth.reference()) {
                Command::Commit(_) => {}
                command => return command,
            }
        }
    }

    /// A few claims, most of them valid.
    fn transaction(&mut self, cell: &Cell, truth: &Truth, dice: &mut Dice) -> Command {
        let machines: Vec<_> =
            cell.machines().map(|machine| (machine.id, machine.sequence)).collect();
        let jobs: Vec<_> = cell.jobs().map(|(id, _)| id).collect();
        let tasks: Vec<_> = jobs.iter().flat_map(|id| cell.tasks(*id)).collect();
        if machines.is_empty() || tasks.is_empty() {
            return self.other_command(truth);
        }
        let pending: Vec<_> = tasks.iter().filter(|(_, state)| state.machine().is_none()).collect();
        let claims = (0..1 + dice.below(4)).map(|_| {
            let (machine, seen) = *dice.pick(&machines);
            let (task, _) = if pending.is_empty() || dice.chance(5) {
                *dice.pick(&tasks)
            } else {
                **dice.pick(&pending)
            };
            Claim::new(task, machine, seen)
        });
        let claims = claims.collect();
        let scheduler = self.scheduler.expect("it has registered");
        let id = TransactionId { scheduler, number: self.next };
        self.next += 1;
        let mut txn = Transaction::new(id, cell.version(), claims);
        if dice.chance(25) {
            txn.granularity = Granularity::AllOrNothing;
        }
        let placed: Vec<_> = tasks.iter().filter(|(_, state)| state.machine().is_some()).collect();
        if !placed.is_empty() && dice.chance(15) {
            txn.releases.push(dice.pick(&placed).0);
        }
        Command::Commit(txn)
    }

    /// Returns the request to send to the replica; `None` if there is none.
    #[must_use]
    pub fn ask(&mut self) -> Option<Request> {
        let pending = self.pending.as_mut()?;
        pending.tries = pending.tries.saturating_sub(1);
        Some(match &pending.command {
            Some(command) if pending.doubt => Request::Retry(command.clone()),
            Some(command) => Request::Command(command.clone()),
            None => Request::Read,
        })
    }

    /// Handles an answer; `None` means that the request timed out, or its replica ended. Returns whether the call is
    /// finished.
    pub fn answered(&mut self, now: Micros, answer: Option<Reply>, history: &mut History) -> bool {
        let Some(mut pending) = self.pending.take() else { return true };
        pending.at = None;
        let is_commit = matches!(pending.command, Some(Command::Commit(_)));
        match answer {
            Some(Reply::Outcome(outcome)) => {
                self.learn(&outcome);
                self.close(pending, now, Fate::Answered(outcome), history);
            }
            Some(Reply::Fresh(version)) => {
                let invoked = pending.invoked;
                history.reads.push(Read { invoked, completed: now, version });
            }
            Some(Reply::Retry(_)) if pending.tries > 0 => {
                self.pending = Some(pending);
                return false;
            }
            Some(Reply::Retry(_)) if !pending.doubt => {
                self.close(pending, now, Fate::NotDone, history);
            }
            // Calls that may be executed twice without harm are sent again.
            Some(Reply::Unknown) | None if is_commit && pending.tries > 0 => {
                pending.doubt = true;
                if omega_cellstate::injected!(RetryUnderNewId)
                    && let Some(Command::Commit(txn)) = &mut pending.command
                {
                    txn.id.number = self.next;
                    self.next += 1;
                }
                self.pending = Some(pending);
                return false;
            }
            _ => self.close(pending, now, Fate::Unknown, history),
        }
        true
    }

    fn learn(&mut self, outcome: &Result<Outcome, omega_core::Rejection>) {
        if let Ok(Outcome::Scheduler { id, next_transaction }) = outcome
            && self.scheduler.is_none()
        {
            self.scheduler = Some(*id);
            self.next = self.next.max(*next_transaction);
        }
    }

    fn close(&self, pending: Pending, completed: Micros, fate: Fate, history: &mut History) {
        let Some(command) = pending.command else { return };
        let invoked = pending.invoked;
        history.calls.push(ClientCall { command, invoked, completed, fate });
    }

    /// At the end of the run, records the outcome of the open request as unknown.
    pub fn end(&mut self, now: Micros, history: &mut History) {
        if let Some(pending) = self.pending.take() {
            self.close(pending, now, Fate::Unknown, history);
        }
    }

    /// Syncs the client's view with a replica, and compares the two.
    ///
    /// # Errors
    /// If they differ, or the view went back to an earlier version.
    pub fn sync(&mut self, at: (ReplicaId, u64), applied: &Applied) -> Result<(), String> {
        let known = self.view.take().filter(|(id, life, _)| (*id, *life) == at);
        let scheduler = self.scheduler.unwrap_or(SchedulerId(0));
        let mut view = known.map_or_else(|| View::new(scheduler, 0), |(.., view)| view);
        let before = view.version();
        view.sync(&Local(applied)).map_err(|error| error.to_string())?;
        if view.version() < before {
            return Err(format!("a view went back from {before} to {}", view.version()));
        }
        compare(&view, &applied.lock().cell)?;
        self.view = Some((at.0, at.1, view));
        Ok(())
    }
}

/// Checks that a view has the cell's state of each machine.
fn compare(view: &View, cell: &Cell) -> Result<(), String> {
    if view.version() != cell.version() {
        return Err(format!("a view has {}, the cell {}", view.version(), cell.version()));
    }
    for machine in cell.machines() {
        for (kind, free) in machine.free.iter().enumerate() {
            let kind = omega_core::KindId(kind as u8);
            let seen = view.free(machine.id.row(), kind);
            if seen != *free {
                return Err(format!("{}: a view has {seen}, the cell {free}", machine.id));
            }
        }
    }
    Ok(())
}

/// The state of one replica, as a view syncs from it.
struct Local<'a>(&'a Applied);

impl CellHandle for Local<'_> {
    fn register(&self, _: Text) -> Result<(SchedulerId, u64), HandleError> {
        Err(HandleError::Unavailable)
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.0.lock().cell.delta_since(since, interest, delta);
        Ok(())
    }

    fn commit(&self, _: &Transaction) -> Result<Commit, HandleError> {
        Err(HandleError::Unavailable)
    }
}
