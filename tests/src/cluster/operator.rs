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
    /// Whether an answer is awaited, and since how many turns.
    waiting: Option<usize>,
    /// The highest id that was used.
    pub highest: u64,
    /// Amount that clients had asked when the faults ended.
    pub asked_before_calm: usize,
    /// Replicas to be made, before the next change.
    pub to_make: Vec<ReplicaId>,
    /// Leader that is to be removed: another one must lead first.
    pub leads: Option<ReplicaId>,
}

/// Turns after which an answer is not awaited any more.
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

    /// A replica was lost: another one takes its place.
    pub fn replace(&mut self, lost: ReplicaId) {
        self.change(vec![MemberStep::Remove(lost)]);
        self.add();
    }

    /// Adds a replica: first it follows, then it votes.
    pub fn add(&mut self) {
        self.highest += 1;
        let id = ReplicaId(self.highest);
        self.to_make.push(id);
        self.change(vec![MemberStep::AddLearner(id)]);
        self.change(vec![MemberStep::Promote(id)]);
    }

    /// Adds a replica under an id that was used before, which must be refused.
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

    /// Lets another replica lead.
    pub fn transfer(&mut self, to: ReplicaId) {
        self.todo.push_back(Ask::Transfer(to));
    }

    /// Lets another replica lead before all else.
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

    /// The replica that was asked is down: there will be no answer.
    pub fn cut_off(&mut self) {
        self.waiting = None;
    }

    /// An answer came.
    pub fn answered(&mut self, answer: &Answer) {
        self.waiting = None;
        match answer {
            // It was done, now or before.
            Answer::Changed(Ok(_)) | Answer::Begun => _ = self.todo.pop_front(),
            Answer::Changed(Err(
                ChangeError::Unknown(_)
                | ChangeError::IdUsed(..)
                | ChangeError::Votes(_)
                | ChangeError::NoVoters
                | ChangeError::TooMany
                | ChangeError::Empty,
            )) => _ = self.todo.pop_front(),
            // It can be made when others are back, or after what else is to be done.
            Answer::Changed(Err(ChangeError::NoQuorum { .. })) => {
                let first = self.todo.pop_front();
                self.todo.extend(first);
            }
            // The leader cannot remove itself: any other one may.
            Answer::Changed(Err(ChangeError::Leads(id))) => self.leads = Some(*id),
            _ => {}
        }
    }
}
