//! The shipped cell and scheduler as a batch queue policy.
//!
//! Each job is a gang of one-core tasks, which are placed together or not at all. The cell's clock is the log's time.
//! At each event the scheduler steps until it is idle, so the result measures the order of jobs, not the speed of
//! decisions.

use super::simulate::{Place, Policy};
use super::trace::SimJob;
use omega_cellstate::{Cell, SharedCell};
use omega_core::{
    Amounts, Command, Commit, Job, JobId, Kinds, Machine, Policy as CellPolicy, TaskGroup, TaskId,
    TaskReport, Transaction,
};
use omega_schedulers::{
    Backfill, BackfillFigures, Backoff, Nanos, Observer, Profile, Scheduler, Settings,
};

/// The machines of a cell, which together represent the log's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Number of machines.
    pub count: u64,
    /// Processors of each machine.
    pub cores: u64,
}

/// Nanoseconds of a millisecond.
const NANOS: u64 = 1_000_000;

/// Latest time of the scheduler's clock, which counts nanoseconds.
pub const NOW_MS_MAX: u64 = Nanos::MAX / NANOS;

/// One processor, in thousandths of a core.
const CORE: u64 = 1000;

/// Result of a scheduler's step: the jobs that it placed, and its plans.
#[derive(Default)]
struct Seen {
    placed: Vec<Place>,
    figures: BackfillFigures,
}

impl Observer for Seen {
    fn committed(&mut self, txn: &Transaction, commit: &Commit) {
        assert!(commit.is_complete(), "one scheduler conflicts with nobody");
        // Jobs are numbered in the order of arrival, and the tasks of a job are adjacent.
        self.placed.extend(txn.claims.iter().map(|claim| claim.task.job.0 as Place));
        self.placed.dedup();
    }

    fn backfill(&mut self, figures: BackfillFigures) {
        self.figures = figures;
    }
}

/// Policy `omega`. See the module documentation.
pub struct Shipped<'a> {
    jobs: &'a [SimJob],
    cell: SharedCell,
    scheduler: Scheduler,
    seen: Seen,
    /// First planned start of each job.
    promised_ms: Vec<Option<u64>>,
}

impl<'a> Shipped<'a> {
    /// Creates an empty cell with these machines. The first `depth` jobs of the queue have plans; with 0, no job
    /// has a plan.
    ///
    /// # Panics
    /// If a machine has more cores than a cell supports.
    #[must_use]
    pub fn new(jobs: &'a [SimJob], machines: Machines, depth: usize) -> Shipped<'a> {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        // Ended jobs are never read, so the cell need not keep them.
        let policy = CellPolicy { ttl_after_finished_ms: 0, ..CellPolicy::default() };
        cell.apply(Command::SetPolicy(policy)).expect("a cell may forget jobs at once");
        for index in 0..machines.count {
            let capacity = Amounts::new([machines.cores * CORE]);
            let machine = Machine::new(format!("m{index}"), capacity);
            cell.apply(Command::RegisterMachine(machine)).expect("the machine is well formed");
        }
        let profile = match depth {
            0 => Profile::batch(),
            depth => Profile::batch().with_backfill(Backfill::new(depth).with_interval_ms(0)),
        };
        // Time advances from event to event, so there is no backoff: a job that does not fit is tried again at the next
        // event.
        let backoff = Backoff { backoff_min: 0, backoff_max: 0, sleep_max: Nanos::MAX / 2 };
        let settings = Settings { backoff, ..Settings::new("default") };
        let scheduler = Scheduler::new(&cell, profile, settings).expect("it is the only one");
        let promised_ms = vec![None; jobs.len()];
        Shipped { jobs, cell, scheduler, seen: Seen::default(), promised_ms }
    }

    /// First planned start of each job that had a plan.
    #[must_use]
    pub fn promised_ms(&self) -> &[Option<u64>] {
        &self.promised_ms
    }

    /// Counts of plans and their outcomes.
    #[must_use]
    pub fn figures(&self) -> BackfillFigures {
        self.seen.figures
    }

    fn tell_time(&self, now_ms: u64) {
        self.cell.apply(Command::Expire { now_ms }).expect("a cell can always be told the time");
    }
}

impl Policy for Shipped<'_> {
    fn submitted(&mut self, place: Place, now_ms: u64) {
        self.tell_time(now_ms);
        let SimJob { requested_ms, processors, .. } = self.jobs[place];
        let tasks = processors as u32;
        let job = Job::batch(format!("job-{place}"), TaskGroup::new(tasks, Amounts::new([CORE])));
        let job = Job { gang_min: Some(tasks), runtime_estimate_ms: Some(requested_ms), ..job };
        self.cell.apply(Command::SubmitJob(job)).expect("the job fits the machine");
    }

    fn ended(&mut self, place: Place, now_ms: u64) {
        self.tell_time(now_ms);
        let job = JobId(place as u64);
        let tasks: Vec<_> = self.cell.read(|cell| cell.tasks(job).collect());
        let report = |(task, state): &(TaskId, omega_core::TaskState)| {
            let machine = state.machine().expect("a job that runs has its machines");
            Command::ReportTask { task: *task, machine, placed_ms: 0, report: TaskReport::Finished }
        };
        self.cell.apply_all(tasks.iter().map(report));
    }

    fn start(&mut self, now_ms: u64, starting: &mut Vec<Place>) {
        self.tell_time(now_ms);
        let now = now_ms.checked_mul(NANOS).expect("no job starts after NOW_MS_MAX");
        loop {
            let step = self.scheduler.step(&self.cell, now, &mut self.seen);
            for (id, start_ms) in self.scheduler.planned() {
                self.promised_ms[id.0 as Place].get_or_insert(start_ms);
            }
            if step.expect("a cell in this process answers").idle {
                break;
            }
        }
        starting.append(&mut self.seen.placed);
    }

    fn wakes_ms(&self) -> Option<u64> {
        let now_ms = self.cell.read(Cell::now_ms);
        let starts = self.scheduler.planned().into_iter().map(|(_, start_ms)| start_ms);
        starts.filter(|start_ms| *start_ms > now_ms).min()
    }
}
