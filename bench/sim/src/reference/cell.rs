//! The reference's cell: the allocations of each machine, and its sequence number.
//!
//! A scheduler's copy is not stored. During a decision, every change is recorded in a journal, with the row as it was
//! before. At the end of the decision, the changed rows are reset to their state in the copy. Then the scheduler places
//! tasks on the rows, the changes are applied again, and the claims are checked. The copy is exact to the last bit, and
//! its cost depends only on the changes during the decision.

use super::pool::{Machines, Pool};
use super::row::{Claim, Request, Row};
use crate::engine::{Access, Attempt, Cell, CommitMode, Ended, Granularity, Running, Taken};
use omega_core::ConflictCheck;

/// A job of the reference simulator: the request and the run time of each task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceJob {
    /// Request of a task.
    pub request: Request,
    /// Run time of a task, in seconds.
    pub run_s: f64,
}

/// A scheduler's settings for placement.
#[derive(Clone, Copy, Debug)]
pub struct CellPlacer {
    /// Seed of the scheduler's random generator.
    pub seed: i64,
    /// Number of machines on which the scheduler places no tasks.
    pub left_out: u32,
}

/// Tasks started by one commit; each has one machine.
#[derive(Default)]
pub(super) struct Group {
    pub(super) job: u32,
    scheduler: u32,
    pub(super) machines: Vec<u32>,
}

/// Number of entries by which the journal grows before it is truncated, while copies exist. Truncation examines the
/// copy of every scheduler, so it should be rare. (Without copies, the journal is cleared after each attempt.)
const JOURNAL_CUT: usize = 4096;

/// A cell of identical machines, with its schedulers' copies.
pub struct ReferenceCell<'a> {
    pub(super) capacity: [f64; 2],
    mode: CommitMode,
    pub(super) jobs: &'a [ReferenceJob],
    pub(super) rows: Vec<Row>,
    pub(super) pools: Vec<Pool>,
    /// Position in the journal of each scheduler's copy; `None` if the scheduler has no copy.
    copies: Vec<Option<usize>>,
    copies_out: usize,
    /// Rows as they were before each change, oldest change first.
    journal: Vec<(u32, Row)>,
    journal_cut: usize,
    pub(super) claims: Vec<Claim>,
    /// Machines with a conflict in the present transaction.
    conflicted: Vec<u32>,
    pub(super) runs: Vec<Group>,
    runs_free: Vec<u32>,
    pub(super) used: [f64; 2],
    /// Resources of the running tasks of each scheduler.
    pub(super) owned: Vec<[f64; 2]>,
    /// Resources locked in offers.
    pub(super) locked: [f64; 2],
}

impl<'a> ReferenceCell<'a> {
    /// Creates a cell with machines of this capacity, these schedulers and these jobs.
    #[must_use]
    pub fn new(
        machines: u32,
        capacity: Request,
        placers: &[CellPlacer],
        mode: CommitMode,
        jobs: &'a [ReferenceJob],
    ) -> ReferenceCell<'a> {
        let pool = |seat: &CellPlacer| Pool::new(machines, seat.left_out, seat.seed);
        ReferenceCell {
            capacity: [capacity.cpu, capacity.memory],
            mode,
            jobs,
            rows: vec![Row::default(); machines as usize],
            pools: placers.iter().map(pool).collect(),
            copies: vec![None; placers.len()],
            copies_out: 0,
            journal: Vec::new(),
            journal_cut: JOURNAL_CUT,
            claims: Vec::new(),
            conflicted: Vec::new(),
            runs: Vec::new(),
            runs_free: Vec::new(),
            used: [0.0; 2],
            owned: vec![[0.0; 2]; placers.len()],
            locked: [0.0; 2],
        }
    }

    /// Places tasks that never end, job by job, by one scheduler with this seed. Returns the number of placed tasks.
    pub fn prefill(&mut self, jobs: &[(Request, u32)], seed: i64) -> u64 {
        let mut pool = Pool::new(self.rows.len() as u32, 0, seed);
        let mut placed = 0;
        for (request, tasks) in jobs {
            self.claims.clear();
            let on = Machines { rows: &mut self.rows, capacity: self.capacity };
            pool.place(on, *request, *tasks, &mut self.claims);
            placed += self.claims.len() as u64;
            let tasks = self.claims.len() as f64;
            self.used = [self.used[0] + request.cpu * tasks, self.used[1] + request.memory * tasks];
        }
        placed
    }

    /// Largest amount by which any machine is overcommitted in any resource; 0 or less if no machine is.
    #[must_use]
    pub fn overcommitted(&self) -> f64 {
        let over = |row: &Row| (row.cpu - self.capacity[0]).max(row.memory - self.capacity[1]);
        self.rows.iter().map(over).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Number of running tasks, without initial tasks.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.runs.iter().map(|run| run.machines.len() as u64).sum()
    }

    /// Adds the requests of `tasks` tasks to the resources that a scheduler's tasks use. A negative number subtracts.
    pub(super) fn count_used(&mut self, scheduler: usize, request: Request, tasks: f64) {
        let amounts = [request.cpu * tasks, request.memory * tasks];
        for (kind, amount) in amounts.into_iter().enumerate() {
            self.used[kind] += amount;
            self.owned[scheduler][kind] += amount;
        }
    }

    fn write_down(&mut self, machine: u32) {
        if self.copies_out > 0 {
            self.journal.push((machine, self.rows[machine as usize]));
        }
    }

    /// Exchanges rows with journal entries, from the last entry back to `from`. This restores the cell as it was at
    /// that position.
    fn wind_back(&mut self, from: usize) {
        for (machine, row) in self.journal[from..].iter_mut().rev() {
            std::mem::swap(row, &mut self.rows[*machine as usize]);
        }
    }

    /// Exchanges rows with journal entries again, from `from` to the last entry. This restores the present cell.
    fn wind_forward(&mut self, from: usize) {
        for (machine, row) in &mut self.journal[from..] {
            std::mem::swap(row, &mut self.rows[*machine as usize]);
        }
    }

    /// Truncates the journal to the entries that the oldest copy needs.
    fn cut_journal(&mut self) {
        if self.copies_out == 0 {
            self.journal.clear();
            self.journal_cut = JOURNAL_CUT;
        } else if self.journal.len() > self.journal_cut {
            let oldest = self.copies.iter().flatten().min().copied().unwrap_or(self.journal.len());
            self.journal.drain(..oldest);
            for copy in self.copies.iter_mut().flatten() {
                *copy -= oldest;
            }
            self.journal_cut = self.journal.len() + JOURNAL_CUT;
        }
    }

    /// Claims machines on the present rows.
    fn claim(&mut self, scheduler: usize, request: Request, tasks: u32) {
        let on = Machines { rows: &mut self.rows, capacity: self.capacity };
        self.pools[scheduler].place(on, request, tasks, &mut self.claims);
    }

    /// Claims machines on the copy made at this position of the journal, and commits the claims. Returns the number of
    /// claims.
    fn claim_on_copy(
        &mut self,
        scheduler: usize,
        from: usize,
        request: Request,
        tasks: u32,
    ) -> usize {
        if from == self.journal.len() {
            // Nothing has changed since the copy was made, so the copy equals the cell, and no claim can conflict.
            self.claim(scheduler, request, tasks);
            if self.copies_out > 0 {
                self.journal.extend(self.claims.iter().map(|claim| (claim.machine, claim.seen)));
            }
            return self.claims.len();
        }
        self.wind_back(from);
        self.claim(scheduler, request, tasks);
        for claim in self.claims.iter().rev() {
            self.rows[claim.machine as usize] = claim.seen;
        }
        self.wind_forward(from);
        let claimed = self.claims.len();
        self.commit(request);
        claimed
    }

    /// Whether a claim conflicts with commits of other schedulers since the copy was made.
    fn conflicts(&self, claim: Claim, request: Request) -> bool {
        let row = &self.rows[claim.machine as usize];
        match self.mode.check {
            ConflictCheck::ResourceFit => !row.fits(self.capacity, request),
            // If one claim on a machine conflicts, the transaction's later claims on it conflict, too. Without this
            // rule, the second of two claims could match the sequence number that another scheduler's claim has set.
            ConflictCheck::SequenceNumber => {
                row.sequence != claim.seen.sequence || self.conflicted.contains(&claim.machine)
            }
        }
    }

    /// Checks the claims in order, and keeps the accepted ones.
    fn commit(&mut self, request: Request) {
        self.conflicted.clear();
        let mut taken = 0;
        for at in 0..self.claims.len() {
            let claim = self.claims[at];
            if self.conflicts(claim, request) {
                if self.mode.granularity == Granularity::AllOrNothing {
                    self.give_back(taken, request);
                    taken = 0;
                    break;
                }
                self.conflicted.push(claim.machine);
                continue;
            }
            self.write_down(claim.machine);
            self.rows[claim.machine as usize].take(request);
            self.claims[taken] = claim;
            taken += 1;
        }
        self.claims.truncate(taken);
    }

    /// Undoes the first `claims` claims of the transaction.
    fn give_back(&mut self, claims: usize, request: Request) {
        for at in 0..claims {
            let machine = self.claims[at].machine;
            self.write_down(machine);
            self.rows[machine as usize].give_back(request);
        }
    }

    /// Records the tasks that a commit started, so that they end together.
    pub(super) fn run(&mut self, job: usize, scheduler: usize) -> Option<Taken> {
        if self.claims.is_empty() {
            return None;
        }
        let number = self.runs_free.pop().unwrap_or(self.runs.len() as u32);
        if number as usize == self.runs.len() {
            self.runs.push(Group::default());
        }
        let run = &mut self.runs[number as usize];
        (run.job, run.scheduler) = (job as u32, scheduler as u32);
        run.machines.extend(self.claims.iter().map(|claim| claim.machine));
        Some(Taken(number))
    }
}

impl Cell for ReferenceCell<'_> {
    fn arrive(&mut self, _: usize) -> Running {
        Running::default()
    }

    fn copy(&mut self, scheduler: usize) {
        self.copies[scheduler] = Some(self.journal.len());
        self.copies_out += 1;
    }

    fn attempt(&mut self, scheduler: usize, job: usize, tasks: u32, access: Access) -> Attempt {
        let request = self.jobs[job].request;
        self.claims.clear();
        let copy = self.copies[scheduler].take();
        self.copies_out -= usize::from(copy.is_some());
        let claimed = match (access, copy) {
            (Access::Copy, Some(from)) => self.claim_on_copy(scheduler, from, request, tasks),
            _ => {
                self.claim(scheduler, request, tasks);
                self.claims.len()
            }
        };
        self.cut_journal();
        let taken = self.claims.len();
        self.count_used(scheduler, request, taken as f64);
        Attempt { claimed: claimed as u32, taken: taken as u32, run: self.run(job, scheduler) }
    }

    fn runs_for(&self, run: Taken) -> Option<f64> {
        Some(self.jobs[self.runs[run.0 as usize].job as usize].run_s)
    }

    fn end(&mut self, run: Taken) -> Ended {
        let mut ended = std::mem::take(&mut self.runs[run.0 as usize]);
        let request = self.jobs[ended.job as usize].request;
        for &machine in &ended.machines {
            self.write_down(machine);
            self.rows[machine as usize].give_back(request);
        }
        let tasks = ended.machines.len();
        self.count_used(ended.scheduler as usize, request, -(tasks as f64));
        ended.machines.clear();
        // The position of the ended run is reused.
        self.runs[run.0 as usize] = ended;
        self.runs_free.push(run.0);
        Ended { tasks: tasks as u32, again_s: None }
    }

    fn used(&self) -> [f64; 2] {
        let machines = self.rows.len() as f64;
        [self.used[0] / (self.capacity[0] * machines), self.used[1] / (self.capacity[1] * machines)]
    }
}
