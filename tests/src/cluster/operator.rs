//! The operator, who changes the membership: replaces lost replicas, adds and removes others, and transfers the
//! leadership.

use omega_store::log::ReplicaId;
use omega_store::membership::{ChangeError, MemberStep, MembershipChange};
use omega_store::replica::{Reply, Request};
use std::collections::VecDeque;

/// The operator; see the head of the file.
#[derive(Debug)]
pub struct Operator {
    /// Steps that the operator will take, in order.
    todo: VecDeque<Request>,
    /// Number of turns for which the operator has waited for an answer; `None` if it waits for none.
    waiting: Option<usize>,
    /// The highest replica id that was used.
    pub highest: u64,
    /// Number of clients' calls at the time when the faults ended.
    pub asked_before_calm: usize,
    /// Replicas that must be created before the next change.
    pub to_make: Vec<ReplicaId>,
    /// Leader that is to be removed; another replica must become leader first.
    pub leads: Option<ReplicaId>,
}

/// Number of turns after which the operator stops waiting for an answer.
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

    /// Whether the operator has nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.todo.is_empty()
    }

    fn change(&mut self, steps: Vec<MemberStep>) {
        self.todo.push_back(Request::Change(MembershipChange { steps }));
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

    /// Adds a replica with an id that was used before, which must be rejected.
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
        self.todo.push_back(Request::Transfer(to));
    }

    /// Transfers the leadership before any other task.
    pub fn transfer_first(&mut self, to: ReplicaId) {
        self.todo.push_front(Request::Transfer(to));
    }

    /// Returns the operator's next request.
    pub fn ask(&mut self) -> Option<Request> {
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

    /// Records that the called replica is down, so there will be no answer.
    pub fn cut_off(&mut self) {
        self.waiting = None;
    }

    /// Handles an answer.
    pub fn answered(&mut self, answer: &Reply) {
        self.waiting = None;
        match answer {
            // The change was made, by this request or an earlier one.
            Reply::Changed(Ok(_)) | Reply::Begun => _ = self.todo.pop_front(),
            Reply::Changed(Err(
                ChangeError::Unknown(_)
                | ChangeError::IdUsed(..)
                | ChangeError::Votes(_)
                | ChangeError::NoVoters
                | ChangeError::TooMany
                | ChangeError::Empty,
            )) => _ = self.todo.pop_front(),
            // The change may succeed when other replicas are back, or after other steps.
            Reply::Changed(Err(ChangeError::NoQuorum { .. })) => {
                let first = self.todo.pop_front();
                self.todo.extend(first);
            }
            // A leader cannot remove itself, so another replica must become leader first.
            Reply::Changed(Err(ChangeError::Leads(id))) => self.leads = Some(*id),
            _ => {}
        }
    }
}
