//! Parts of jobs in the transaction that is being decided. The jobs' turns end with the answer to the transaction.

use crate::placing::refusals::RejectingPlugins;
use crate::queue::{Basis, Verdict};
use omega_core::JobId;
use smallvec::SmallVec;

/// A job's part of the open transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) job: JobId,
    pub(super) asked: usize,
    /// Number of tasks in the transaction.
    pub(super) placed: usize,
    /// Whether tasks found no machine. False if the transaction was full, because the cell may then have room for the
    /// remaining tasks.
    pub(super) short: bool,
    /// Number of tasks that wait for a permit.
    pub(super) held: usize,
    /// Whether a plugin rejected claims after the decision.
    pub(super) rejected_later: bool,
    /// Plugins that rejected the tasks without a machine.
    pub(super) by: RejectingPlugins,
    /// Basis of that rejection.
    pub(super) basis: Basis,
    /// Value of `Queue::news` before the decision.
    pub(super) news: u64,
}

impl Decided {
    pub(super) fn new(job: JobId, news: u64) -> Decided {
        Decided {
            job,
            asked: 0,
            placed: 0,
            short: false,
            held: 0,
            rejected_later: false,
            by: RejectingPlugins::default(),
            basis: Basis::Job,
            news,
        }
    }

    /// Returns the result of the turn, provided that the cell accepts all claims.
    pub(super) fn verdict(&self) -> Verdict {
        if self.rejected_later || self.short {
            Verdict::Refused { by: self.by, news: self.news, basis: self.basis }
        } else {
            Verdict::More
        }
    }

    fn add(&mut self, more: Decided) {
        self.asked += more.asked;
        self.placed += more.placed;
        self.short |= more.short;
        self.rejected_later |= more.rejected_later;
        self.by = self.by.and(more.by);
    }
}

/// The jobs whose turns end with the answer to the open transaction.
///
/// Empty between transactions; its memory is reused.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// Parts of jobs. A small transaction has one part, which needs no allocation.
    decided: SmallVec<[Decided; 1]>,
    /// Jobs that lacked room because of claims in open or unanswered transactions.
    missed: Vec<JobId>,
    /// Whether the transaction has claims that waited for permits.
    resumed: bool,
}

impl Decisions {
    /// Adds a job's part.
    pub(super) fn add(&mut self, decided: Decided) {
        // A job has one turn in a transaction, and may also have claims that waited for a permit.
        let part = if self.resumed { self.of(decided.job) } else { None };
        match part {
            Some(part) => part.add(decided),
            None => self.decided.push(decided),
        }
    }

    /// Adds a job's part with claims that waited for permits.
    pub(super) fn resume(&mut self, decided: Decided) {
        self.resumed = true;
        self.add(decided);
    }

    /// Whether the transaction has claims that waited for permits.
    pub(super) fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// The part of a job.
    pub(super) fn of(&mut self, job: JobId) -> Option<&mut Decided> {
        self.decided.iter_mut().find(|part| part.job == job)
    }

    /// Whether a job has a part.
    pub(super) fn includes(&self, job: JobId) -> bool {
        self.decided.iter().any(|part| part.job == job)
    }

    /// Adds a job that lacked room because of claims without an answer.
    pub(super) fn miss(&mut self, job: JobId) {
        self.missed.push(job);
    }

    /// The parts of jobs, and the jobs that lacked room.
    pub(super) fn parts(&self) -> (&[Decided], &[JobId]) {
        (&self.decided, &self.missed)
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.decided.clear();
        self.missed.clear();
        self.resumed = false;
    }
}
