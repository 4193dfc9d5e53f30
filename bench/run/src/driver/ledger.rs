//! Accounting of each tenant and each scheduler: waits, shares over time, evictions, preferences.
//!
//! All times are in the workload's time. A task waits from its job's arrival to the time at which the cell accepts its
//! placement. After an eviction or the loss of its machine, it waits from that time to its next placement. This is the
//! wait that a user sees.

use crate::report::{SchedulerReport, TenantReport};
use hdrhistogram::Histogram;
use omega_cellstate::Cell;
use omega_core::{Affinity, Job, JobId, MachineId, TaskId, Text};
use omega_schedulers::dominant::Totals;
use omega_workload::fragments::Requests;
use std::collections::{BTreeMap, HashMap};

/// Maximum recorded wait: a year.
const WAIT_MS_MAX: u64 = 365 * 86_400_000;

/// Number of tenants whose shares over time are in the report, one for each colour of a plot.
const SERIES_MAX: usize = 8;

/// The accounting of a run. See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Records of the jobs, by number.
    jobs: Vec<Known>,
    tenants: Vec<Book>,
    by_name: BTreeMap<Text, usize>,
    schedulers: Vec<Book>,
    /// Start times of running tasks; `None` if no scheduler evicts.
    since: Option<HashMap<TaskId, u64>>,
    /// Time at which a task that was lost or evicted became pending again.
    again: HashMap<TaskId, u64>,
    /// For each distinct request, the number of tasks that have it.
    pub(crate) requests: Requests,
    /// Number of samples of the tenants' shares.
    samples: usize,
}

/// Record of a job.
#[derive(Debug)]
struct Known {
    tenant: usize,
    arrived_ms: u64,
    /// Whether a group of the job prefers some machines.
    prefers: bool,
}

/// Accounting of one tenant, or of one scheduler.
#[derive(Debug)]
struct Book {
    jobs: usize,
    tasks: u64,
    placements: u64,
    wait_ms: Histogram<u64>,
    /// The longest wait.
    wait_ms_max: u64,
    evicted: u64,
    /// Number of evictions for the guarantees of other tenants.
    reclaimed: u64,
    /// Sum of the run times that evicted tasks had completed.
    lost_ms: u64,
    /// Sum of the weights of the placed tasks' preferences. The next field is the sum for the satisfied preferences.
    asked: u64,
    met: u64,
    /// Dominant share at each sample.
    shares: Vec<f64>,
}

impl Book {
    fn new() -> Book {
        // The histogram has only two digits, and grows with the longest wait, because a workload may have many tenants.
        let wait_ms = Histogram::new(2);
        Book {
            jobs: 0,
            tasks: 0,
            placements: 0,
            wait_ms: wait_ms.expect("two digits are valid"),
            wait_ms_max: 0,
            evicted: 0,
            reclaimed: 0,
            lost_ms: 0,
            asked: 0,
            met: 0,
            shares: Vec::new(),
        }
    }

    /// Records placements of tasks that have waited for the same time.
    fn placed(&mut self, wait_ms: u64, tasks: u64) {
        self.placements += tasks;
        let wait_ms = wait_ms.min(WAIT_MS_MAX);
        self.wait_ms_max = self.wait_ms_max.max(wait_ms);
        let recorded = self.wait_ms.record_n(wait_ms, tasks);
        recorded.expect("the histogram can grow to a year");
    }

    /// A quantile of the waits. It is at most 1 % above an actual wait, never below it, and never above the longest
    /// wait, which is exact.
    fn wait_s(&self, quantile: f64) -> Option<f64> {
        let at_most = self.wait_ms.highest_equivalent(self.wait_ms.value_at_quantile(quantile));
        let wait_ms = if quantile < 1.0 { at_most.min(self.wait_ms_max) } else { self.wait_ms_max };
        (!self.wait_ms.is_empty()).then_some(wait_ms as f64 / 1000.0)
    }

    fn preferences_met(&self) -> Option<f64> {
        (self.asked > 0).then(|| self.met as f64 / self.asked as f64)
    }
}

/// Tasks that were evicted in a transaction to make room for its claims.
#[derive(Debug)]
pub(crate) struct Leavers<'a> {
    pub(crate) tasks: &'a [TaskId],
    /// The tasks of the transaction that were placed.
    pub(crate) placed: &'a [(TaskId, MachineId)],
}

impl Ledger {
    /// Creates the accounts of this many schedulers; `evict` is whether any of them evicts tasks.
    pub(crate) fn begin(&mut self, schedulers: usize, evict: bool) {
        self.schedulers = (0..schedulers).map(|_| Book::new()).collect();
        self.since = evict.then(HashMap::new);
    }

    /// Records the next job. Jobs are numbered by arrival.
    pub(crate) fn came(&mut self, job: &Job, at_ms: u64) {
        let tenant = self.tenant(&job.tenant);
        let book = &mut self.tenants[tenant];
        book.jobs += 1;
        book.tasks += job.task_count();
        let prefers = job.groups.iter().any(|group| !group.rules.affinity.preferred.is_empty());
        self.jobs.push(Known { tenant, arrived_ms: at_ms, prefers });
        job.groups.iter().for_each(|group| self.requests.note(group));
    }

    /// Records tasks that a scheduler placed.
    pub(crate) fn placed(
        &mut self,
        scheduler: usize,
        tasks: &[(TaskId, MachineId)],
        now_ms: u64,
        read: impl Fn(TaskId, MachineId) -> Option<(u64, u64)>,
    ) {
        for of_job in tasks.chunk_by(|(a, _), (b, _)| a.job == b.job) {
            let Some(known) = self.jobs.get(of_job[0].0.job.0 as usize) else { continue };
            let mut books = [&mut self.tenants[known.tenant], &mut self.schedulers[scheduler]];
            if self.again.is_empty() {
                // All of these tasks have waited for the same time.
                let wait = now_ms.saturating_sub(known.arrived_ms);
                books.iter_mut().for_each(|book| book.placed(wait, of_job.len() as u64));
            } else {
                for (task, _) in of_job {
                    let since = self.again.remove(task).unwrap_or(known.arrived_ms);
                    let wait = now_ms.saturating_sub(since);
                    books.iter_mut().for_each(|book| book.placed(wait, 1));
                }
            }
            let preferences = of_job.iter().filter(|_| known.prefers);
            for (asked, met) in preferences.filter_map(|(task, machine)| read(*task, *machine)) {
                for book in &mut books {
                    book.asked += asked;
                    book.met += met;
                }
            }
            if let Some(all) = &mut self.since {
                all.extend(of_job.iter().map(|(task, _)| (*task, now_ms)));
            }
        }
    }

    /// Records tasks that ended.
    pub(crate) fn ended(&mut self, tasks: &[(TaskId, MachineId)]) {
        if let Some(since) = &mut self.since {
            for (task, _) in tasks {
                since.remove(task);
            }
        }
    }

    /// Records tasks that lost their machine and are pending again.
    pub(crate) fn lost(&mut self, tasks: &[TaskId], now_ms: u64) {
        for task in tasks {
            self.again.insert(*task, now_ms);
            if let Some(since) = &mut self.since {
                since.remove(task);
            }
        }
    }

    /// Records tasks that were evicted for placements of a scheduler. Evictions that precedence does not allow are
    /// recorded as evictions for a guarantee.
    pub(crate) fn evicted(
        &mut self,
        scheduler: usize,
        leavers: &Leavers<'_>,
        now_ms: u64,
        cell: &Cell,
    ) {
        let precedence = |job: JobId| cell.job(job).map(|job| job.precedence);
        let strongest = leavers.placed.iter().filter_map(|(task, _)| precedence(task.job)).max();
        for task in leavers.tasks {
            let Some(known) = self.jobs.get(task.job.0 as usize) else { continue };
            // A task without a start time was running at the start of the run.
            let since = self.since.as_mut();
            let ran = since.map_or(0, |all| now_ms - all.remove(task).unwrap_or(0).min(now_ms));
            let reclaimed = precedence(task.job) >= strongest;
            self.again.insert(*task, now_ms);
            for book in [&mut self.tenants[known.tenant], &mut self.schedulers[scheduler]] {
                book.evicted += 1;
                book.reclaimed += u64::from(reclaimed);
                book.lost_ms += ran;
            }
        }
    }

    /// Records each tenant's share of the cell.
    pub(crate) fn sample(&mut self, cell: &Cell) {
        let totals = Totals::of_cell(cell);
        for (name, _, used) in cell.tenants() {
            let tenant = self.tenant(name);
            let used = used.iter().map(|used| (*used).max(0).cast_unsigned()).collect();
            let share = totals.share([&used], omega_schedulers::dominant::Weight::ONE);
            let shares = &mut self.tenants[tenant].shares;
            // The cell did not know the tenant at earlier samples.
            shares.resize(self.samples, 0.0);
            shares.push(share.fraction());
        }
        self.samples += 1;
    }

    /// Adds a scheduler's totals to its report.
    pub(crate) fn tell_scheduler(&self, scheduler: usize, report: &mut SchedulerReport) {
        let Some(book) = self.schedulers.get(scheduler) else { return };
        report.wait_s_p50 = book.wait_s(0.5);
        report.wait_s_p99 = book.wait_s(0.99);
        report.evictions = book.evicted;
        report.evictions_for_guarantees = book.reclaimed;
        report.lost_work_s = book.lost_ms as f64 / 1000.0;
        report.preferences_met = book.preferences_met();
    }

    /// The reports of the tenants. The tenant with the largest mean share is first.
    pub(crate) fn tenants(mut self, cell: &Cell) -> Vec<TenantReport> {
        let mut pending = vec![0u64; self.tenants.len()];
        for (id, _) in cell.jobs() {
            let waits = |task: &(TaskId, _)| task.1 == omega_core::TaskState::Pending;
            let tasks = cell.tasks(id).filter(waits).count();
            if let Some(known) = self.jobs.get(id.0 as usize) {
                pending[known.tenant] += tasks as u64;
            }
        }
        let mut reports: Vec<TenantReport> = Vec::new();
        for (name, tenant) in std::mem::take(&mut self.by_name) {
            let book = &mut self.tenants[tenant];
            let mut shares = std::mem::take(&mut book.shares);
            shares.resize(self.samples, 0.0);
            reports.push(TenantReport {
                parent: cell
                    .tenant_config(&name)
                    .and_then(|s| Some(s.parent.as_ref()?.to_string())),
                name: name.to_string(),
                jobs: book.jobs,
                tasks: book.tasks,
                placements: book.placements,
                pending: pending[tenant],
                wait_s_p50: book.wait_s(0.5),
                wait_s_p99: book.wait_s(0.99),
                wait_s_max: book.wait_s(1.0),
                share_at_end: shares.last().copied().unwrap_or(0.0),
                share_mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
                share_at_peak: shares.iter().copied().fold(0.0, f64::max),
                evicted: book.evicted,
                evicted_for_guarantees: book.reclaimed,
                lost_work_s: book.lost_ms as f64 / 1000.0,
                preferences_met: book.preferences_met(),
                shares,
            });
        }
        // The sort is stable, so tenants with equal shares stay in the order of their names.
        reports.sort_by(|a, b| b.share_mean.total_cmp(&a.share_mean));
        reports.iter_mut().skip(SERIES_MAX).for_each(|report| report.shares = Vec::new());
        reports
    }

    fn tenant(&mut self, name: &Text) -> usize {
        if let Some(&tenant) = self.by_name.get(name) {
            return tenant;
        }
        self.tenants.push(Book::new());
        self.by_name.insert(name.clone(), self.tenants.len() - 1);
        self.tenants.len() - 1
    }
}

/// Returns the total weight of a task's preferences, and the weight of the preferences that its machine satisfies.
pub(crate) fn preferences(cell: &Cell, task: TaskId, machine: MachineId) -> Option<(u64, u64)> {
    let job = cell.job(task.job)?;
    let Affinity { preferred, .. } = &job.groups.get(cell.task_group(task)?)?.rules.affinity;
    let machine = cell.machine(machine)?.machine;
    let sum = |met: bool| {
        let counts = preferred.iter().filter(|one| !met || one.machines.matches(machine));
        counts.map(|one| u64::from(one.weight)).sum::<u64>()
    };
    Some((sum(false), sum(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{
        Amounts, Command, Kinds, Machine, MachineSelector, Outcome, Precedence, Preferred,
        SchedulerId, TaskGroup, Transaction, TransactionId,
    };

    #[test]
    fn an_account_takes_little_memory_and_has_waits_to_two_digits() {
        let mut book = Book::new();
        assert!(book.wait_ms.distinct_values() <= 256, "{}", book.wait_ms.distinct_values());
        book.placed(0, 1);
        book.placed(1234, 1);
        assert!(book.wait_ms.distinct_values() <= 1024, "{}", book.wait_ms.distinct_values());
        book.placed(WAIT_MS_MAX / 2, 1);
        book.placed(2 * WAIT_MS_MAX, 1);
        let year_s = WAIT_MS_MAX as f64 / 1000.0;
        for (quantile, wait_s) in [(0.25, 0.0), (0.5, 1.234), (0.75, year_s / 2.0), (1.0, year_s)] {
            let got = book.wait_s(quantile).unwrap();
            assert!((got - wait_s).abs() <= wait_s / 100.0, "{quantile}: {got} for {wait_s}");
            assert!(got >= wait_s, "{quantile}: {got} for {wait_s}");
        }
        assert_eq!(book.wait_s(1.0), Some(year_s));
    }

    #[test]
    fn equal_waits_are_exact() {
        let mut book = Book::new();
        book.placed(100_000, 50);
        assert_eq!([0.5, 0.99, 1.0].map(|quantile| book.wait_s(quantile)), [Some(100.0); 3]);
    }

    #[test]
    fn shares_are_those_of_all_samples() {
        let mut cell = Cell::new(Kinds::standard());
        let machine = Machine::new("m", Amounts::new([2000, 4 << 30]));
        let Ok(Outcome::Machine(machine)) = cell.apply(Command::RegisterMachine(machine)) else {
            panic!("it is registered")
        };
        let mut ledger = Ledger::default();
        ledger.begin(1, false);
        // No tenant is known at the first two samples.
        ledger.sample(&cell);
        ledger.sample(&cell);
        let job = Job::batch("late", TaskGroup::new(1, Amounts::new([1000, 1 << 30])));
        ledger.came(&job, 1000);
        cell.apply(Command::SubmitJob(job)).unwrap();
        let task = TaskId { job: JobId(0), index: 0 };
        cell.apply(Command::AdoptTask { task, machine }).unwrap();
        ledger.sample(&cell);
        ledger.sample(&cell);
        let tenants = ledger.tenants(&cell);
        assert_eq!(tenants[0].shares, [0.0, 0.0, 0.5, 0.5]);
        assert_eq!((tenants[0].share_mean, tenants[0].share_at_end), (0.25, 0.5));
    }

    #[test]
    fn a_wait_begins_anew_with_an_eviction_and_work_is_lost() {
        let mut cell = Cell::new(Kinds::standard());
        let machine = Machine::new("m", Amounts::new([2000, 4 << 30]));
        let Ok(Outcome::Machine(machine)) = cell.apply(Command::RegisterMachine(machine)) else {
            panic!("it is registered")
        };
        cell.apply(Command::RegisterScheduler { name: "s".into() }).unwrap();
        let mut ledger = Ledger::default();
        ledger.begin(1, true);
        let mut low = Job::batch("low", TaskGroup::new(2, Amounts::new([1000, 1 << 30])));
        let like = |name: &str| MachineSelector {
            names: vec![omega_core::Requirement::equals("", name)],
            ..MachineSelector::default()
        };
        let prefers = |weight, name| Preferred { weight, machines: like(name) };
        low.groups[0].rules.affinity.preferred = vec![prefers(30, "m"), prefers(10, "other")];
        let mut high = Job::batch("high", TaskGroup::new(1, Amounts::new([1000, 1 << 30])));
        high.precedence = Precedence(9);
        high.tenant = "rich".into();
        for (job, at) in [(&low, 1000), (&high, 5000)] {
            ledger.came(job, at);
            cell.apply(Command::SubmitJob(job.clone())).unwrap();
        }
        let task = |job, index| TaskId { job: JobId(job), index };
        let commit = |cell: &mut Cell, number, tasks: &[TaskId], evictions: Vec<TaskId>| {
            let claim = |task: &TaskId| {
                omega_core::Claim::new(*task, machine, omega_core::SequenceNumber(0))
            };
            let id = TransactionId { scheduler: SchedulerId(0), number };
            let claims = tasks.iter().map(claim).collect();
            let txn = Transaction { evictions, ..Transaction::new(id, cell.version(), claims) };
            assert!(cell.commit(&txn).unwrap().is_complete());
        };
        let low_tasks = [task(0, 0), task(0, 1)];
        commit(&mut cell, 1, &low_tasks, Vec::new());
        let placed: Vec<_> = low_tasks.iter().map(|task| (*task, machine)).collect();
        ledger.placed(0, &placed, 3000, |task, machine| preferences(&cell, task, machine));
        ledger.sample(&cell);
        commit(&mut cell, 2, &[task(1, 0)], vec![task(0, 1)]);
        let placed = [(task(1, 0), machine)];
        ledger.placed(0, &placed, 7000, |_, _| None);
        let leavers = Leavers { tasks: &[task(0, 1)], placed: &placed };
        ledger.evicted(0, &leavers, 7000, &cell);
        ledger.sample(&cell);
        // The wait of a task that lost its machine begins at the loss, here at 9 s, not at its job's arrival.
        ledger.lost(&[task(1, 0)], 9000);
        ledger.placed(0, &[(task(1, 0), machine)], 9500, |_, _| None);
        let mut scheduler = SchedulerReport::default();
        ledger.tell_scheduler(0, &mut scheduler);
        assert_eq!((scheduler.evictions, scheduler.evictions_for_guarantees), (1, 0));
        assert_eq!((scheduler.lost_work_s, scheduler.preferences_met), (4.0, Some(0.75)));
        let tenants = ledger.tenants(&cell);
        let [default, rich] = &tenants[..] else { panic!("two tenants: {tenants:?}") };
        assert_eq!((&*default.name, &*rich.name), ("default", "rich"));
        assert_eq!((default.shares.clone(), rich.shares.clone()), (vec![1.0, 0.5], vec![0.0, 0.5]));
        assert_eq!((default.share_mean, default.share_at_peak), (0.75, 1.0));
        assert_eq!((default.pending, default.evicted, default.lost_work_s), (1, 1, 4.0));
        assert!((default.wait_s_p50.unwrap() - 2.0).abs() < 0.05);
        assert_eq!((rich.placements, rich.preferences_met), (2, None));
        assert!((rich.wait_s_p50.unwrap() - 0.5).abs() < 0.01 && rich.wait_s_max.unwrap() < 2.1);
    }
}
