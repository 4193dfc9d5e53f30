//! A cell behind a faulty connection: requests and replies are lost, rejected and delayed.

use crate::random::Dice;
use omega_cellstate::{CellHandle, Delta, HandleError, Interest, SharedCell};
use omega_core::{Commit, SchedulerId, Text, Transaction, Version};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Fault of one transaction on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The transaction is checked, and the reply arrives.
    None,
    /// The transaction is rejected, and nothing is done.
    Refused,
    /// The request is lost, and the outcome is unknown.
    RequestLost,
    /// The transaction is checked, and the reply is lost.
    AnswerLost,
    /// The transaction seems to be lost, but is delivered later.
    Delayed,
}

const FAULTS: [Fault; 4] = [Fault::Refused, Fault::RequestLost, Fault::AnswerLost, Fault::Delayed];

/// A handle with faults that are scripted at first, and random after that. Callers share it by reference.
#[derive(Debug)]
pub struct FaultyCell {
    cell: SharedCell,
    /// If both locks are taken, this one is taken before that of the cell.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    percent: usize,
    script: VecDeque<Fault>,
    delayed: Vec<Transaction>,
    sent: Vec<Transaction>,
}

impl FaultyCell {
    /// Creates a handle that fails with this probability in percent.
    #[must_use]
    pub fn new(cell: &SharedCell, seed: u64, percent: usize) -> FaultyCell {
        let state = State {
            dice: Dice::new(seed),
            percent,
            script: VecDeque::new(),
            delayed: Vec::new(),
            sent: Vec::new(),
        };
        FaultyCell { cell: cell.clone(), state: Mutex::new(state) }
    }

    /// Creates a handle with these faults for the next transactions, and no faults after that.
    #[must_use]
    pub fn scripted(cell: &SharedCell, faults: &[Fault]) -> FaultyCell {
        let handle = FaultyCell::new(cell, 0, 0);
        handle.state().script.extend(faults);
        handle
    }

    /// Stops all faults, and delivers the delayed transactions.
    pub fn heal(&self) {
        let mut state = self.state();
        state.percent = 0;
        state.script.clear();
        state.delayed.drain(..).for_each(|txn| drop(self.cell.commit(&txn)));
    }

    /// Every transaction that was sent, whether successful or not.
    #[must_use]
    pub fn sent(&self) -> Vec<Transaction> {
        self.state().sent.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the lock held")
    }
}

impl CellHandle for FaultyCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        let mut state = self.state();
        let percent = state.percent;
        if state.dice.chance(percent) {
            return Err(HandleError::Unavailable);
        }
        self.cell.sync(since, interest, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        let mut state = self.state();
        state.sent.push(txn.clone());
        if !state.delayed.is_empty() && state.dice.chance(50) {
            let late = state.delayed.remove(0);
            // The reply to the late transaction is lost.
            drop(self.cell.commit(&late));
        }
        let percent = state.percent;
        let by_chance = state.dice.chance(percent).then(|| *state.dice.pick(&FAULTS));
        match state.script.pop_front().or(by_chance).unwrap_or(Fault::None) {
            Fault::None => self.cell.commit(txn),
            Fault::Refused => Err(HandleError::Unavailable),
            Fault::RequestLost => Err(HandleError::Unknown),
            Fault::AnswerLost => {
                self.cell.commit(txn)?;
                Err(HandleError::Unknown)
            }
            Fault::Delayed => {
                state.delayed.push(txn.clone());
                Err(HandleError::Unknown)
            }
        }
    }
}
