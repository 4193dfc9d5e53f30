//! The operator, who changes the membership: replaces replicas that were lost, adds and removes others, and moves the
//! leadership.

use omega_store::log::ReplicaId;
use omega_store::membership::{ChangeError, MemberStep, MembershipChange};
use omega_store::replica::{Answer, Ask};
use std::collections::VecDeque;

/// The operator; see the head of the file.
#[derive(Debug)]
pub struct Operator {
    /// Steps to do, in order.
    todo: VecDeque<Ask>,
    /// Number of turns for which an answer is awaited, if any.
    waiting: Option<usize>,
    /// The highest id that was used.
    pub highest: u64,
    /// Number of clients' calls at the end of the faults.
    pub asked_before_calm: usize,
    /// Replicas to create before the next change.
    pub to_make: Vec<ReplicaId>,
    /// Leader to remove, which requires another leader first.
    pub leads: Option<ReplicaId>,
}

/// Number of turns after which an answer is no longer awaited.
const TURNS_MAX: usize = 30;

impl Operator {
    /// An operator of a cell with replicas up to this id.
    #[must_use]
    pub fn new(highest: u64) -> Operator {
        Operator {
            todo: VecDeque::new(),
            waiting: None,
            highest,
            asked_before_calm: 0,
            to_make: Vec::new(),
            leads: None,
        }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.todo.is_empty()
    }

    fn change(&mut self, steps: Vec<MemberStep>) {
        self.todo.push_back(Ask::Change(MembershipChange { steps }));
    }

    /// Replaces a lost replica.
    pub fn replace(&mut self, lost: ReplicaId) {
        self.change(vec![MemberStep::Remove(lost)]);
        self.add();
    }

    /// Adds a replica, first as a follower, then as a voter.
    pub fn add(&mut self) {
        self.highest += 1;
        let id = ReplicaId(self.highest);
        self.to_make.push(id);
        self.change(vec![MemberStep::AddLearner(id)]);
        self.change(vec![MemberStep::Promote(id)]);
    }

    /// Adds a replica with a used id, which must be rejected.
    pub fn add_again(&mut self, id: ReplicaId) {
        self.change(vec![MemberStep::AddLearner(id)]);
    }

    /// Adds a replica and removes another, in one step.
    pub fn exchange(&mut self, old: ReplicaId) {
        self.highest += 1;
        let id = ReplicaId(self.highest);
        self.to_make.push(id);
        self.change(vec![MemberStep::AddLearner(id)]);
        self.change(vec![MemberStep::Promote(id), MemberStep::Remove(old)]);
    }

    /// Removes a replica.
    pub fn remove(&mut self, id: ReplicaId) {
        self.change(vec![MemberStep::Remove(id)]);
    }

    /// Transfers the leadership.
    pub fn transfer(&mut self, to: ReplicaId) {
        self.todo.push_back(Ask::Transfer(to));
    }

    /// Transfers the leadership before any other task.
    pub fn transfer_first(&mut self, to: ReplicaId) {
        self.todo.push_front(Ask::Transfer(to));
    }

    /// The next request.
    pub fn ask(&mut self) -> Option<Ask> {
        if let Some(turns) = &mut self.waiting {
            *turns += 1;
            if *turns < TURNS_MAX {
                return None;
            }
        }
        let next = self.todo.front().cloned()?;
        self.waiting = Some(0);
        Some(next)
    }

    /// Handles that the called replica is down, so that no answer will come.
    pub fn cut_off(&mut self) {
        self.waiting = None;
    }

    /// Handles an answer.
    pub fn answered(&mut self, answer: &Answer) {
        self.waiting = None;
        match answer {
            // It was done, by this call or before.
            Answer::Changed(Ok(_)) | Answer::Begun => _ = self.todo.pop_front(),
            Answer::Changed(Err(
                ChangeError::Unknown(_)
                | ChangeError::IdUsed(..)
                | ChangeError::Votes(_)
                | ChangeError::NoVoters
                | ChangeError::TooMany
                | ChangeError::Empty,
            )) => _ = self.todo.pop_front(),
            // It may succeed when others are back, or after other tasks.
            Answer::Changed(Err(ChangeError::NoQuorum { .. })) => {
                let first = self.todo.pop_front();
                self.todo.extend(first);
            }
            // A leader does not remove itself: another replica must lead first.
            Answer::Changed(Err(ChangeError::Leads(id))) => self.leads = Some(*id),
            _ => {}
        }
    }
}
