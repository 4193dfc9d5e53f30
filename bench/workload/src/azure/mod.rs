//! Azure's trace of virtual machines of 2017, as arrivals of batches that tenants requested.
//!
//! The folder has `dev.csv.gz`, a list made from the published table, or the published table itself (`azure/raw.rs`).
//! The list is converted as follows:
//!
//! - **Jobs.** A batch of virtual machines that were requested together is a job; each virtual machine is a
//!   task, and the machines of one size are a group. All jobs are batch jobs, because the list does not mark services.
//! - **Time.** The list gives the end of the five minutes in which a batch arrived. Time is counted from the
//!   beginning of the first such interval. Rows are sorted by time, and batches are numbered in this order. A
//!   stream has in memory the batches of one time, with at most [`TASKS_PER_JOB_MAX`] tasks.
//! - **Lifetime.** The trace gives a range `[low, high]` of five-minute steps, counting both ends: a life of
//!   `low` steps lasts between `low` and `low` plus five minutes. So the lifetime is drawn evenly between `low`
//!   and `high` plus five minutes. The generator is seeded with the seed and the number of the virtual machine,
//!   so the result does not depend on the order of rows. A machine that was still alive at the end of the trace
//!   runs forever.
//! - **Machines.** The trace has no physical machines, so the user gives some.

mod raw;
mod vm;

use crate::stream::{Event, Head, JobEvent, JobsAt, Stream, whole};
use crate::text::decimal::Rounding;
use crate::text::table::{Column, Row, Table};
use crate::trace_files::TraceFiles;
use crate::{Arrival, LoadError, RunTime, Workload};
use omega_core::limits::{AMOUNT_MAX, TASKS_PER_JOB_MAX};
use omega_core::{
    Amounts, Job, JobKind, Kinds, Machine, Precedence, Preemption, SharedGroup, TaskGroup, Text,
};
use std::collections::{HashMap, VecDeque};
use vm::{STEP_MS, Vm, draw};

/// Name of the part of the trace.
const PART: &str = "vms";

/// Machines for the trace, and the seed of the lifetimes.
#[derive(Clone, Debug, Default)]
pub struct AzureOptions {
    /// The machines; empty if only jobs are read.
    pub machines: Vec<Machine>,
    /// Seed of the lifetimes.
    pub seed: u64,
}

/// Reads the trace.
///
/// # Errors
/// If the file is missing or invalid.
pub fn load(files: impl Into<TraceFiles>, options: AzureOptions) -> Result<Workload, LoadError> {
    whole(&mut open(files, options)?)
}

/// Opens the trace as a stream.
///
/// # Errors
/// If the file is missing, its header is invalid, or a row of the raw table is invalid.
pub fn open(files: impl Into<TraceFiles>, options: AzureOptions) -> Result<AzureStream, LoadError> {
    let files = files.into();
    let mut file = files.path(PART, "dev.csv")?;
    if files.named(PART).is_none() && !file.is_file() {
        let raw = files.path(PART, "vmtable.csv")?;
        file = if raw.is_file() { raw } else { file };
    }
    let mut table = Table::open_bare(&file, &raw::COLUMNS)?;
    let column = if is_raw(&table) { "deploymentid" } else { "batch" };
    let source = if is_raw(&table) {
        Source::Raw(raw::read(&mut table, options.seed)?.into_iter())
    } else {
        Source::List(Columns::of(&table)?)
    };
    let name = match source {
        Source::Raw(_) => "azure vm v1, raw",
        Source::List(_) => "azure vm v1",
    };
    let jobs_at = JobsAt { file, column };
    Ok(AzureStream {
        head: Head::new(name.to_owned(), Kinds::standard(), options.machines, jobs_at),
        table,
        source,
        seed: options.seed,
        tenant: "default".into(),
        clock: Clock::default(),
        next: None,
        ready: VecDeque::new(),
    })
}

/// Whether a table is the published one, which has exactly these columns.
fn is_raw(table: &Table) -> bool {
    table.columns() == raw::COLUMNS
}

/// Rows, which are read one by one from the list, or all at once from the raw table.
enum Source {
    List(Columns),
    Raw(std::vec::IntoIter<Vm>),
}

/// The columns that are read.
struct Columns {
    id: Column,
    arrival: Column,
    batch: Column,
    cores: Column,
    memory: Column,
    low: Column,
    high: Column,
    censored: Column,
}

impl Columns {
    fn of(table: &Table) -> Result<Columns, LoadError> {
        let [id, arrival, batch] = table.find(["vm", "arrival_s", "batch"])?;
        let [cores, memory] = table.find(["cores", "mem_gb"])?;
        let [low, high, censored] = table.find(["dur_bin_lo_s", "dur_bin_hi_s", "censored"])?;
        Ok(Columns { id, arrival, batch, cores, memory, low, high, censored })
    }
}

/// Progress of the trace's time and batch numbers.
#[derive(Default)]
struct Clock {
    /// The trace's clock at the start.
    start_ms: Option<u64>,
    now_ms: u64,
    /// Minimum number of the next new batch.
    batch_min: u64,
}

/// The trace, as a stream.
pub struct AzureStream {
    head: Head,
    table: Table,
    source: Source,
    seed: u64,
    /// The tenant of all jobs of a list, because a list has no tenants.
    tenant: Text,
    clock: Clock,
    /// The first row with the next arrival time, which was already read.
    next: Option<Vm>,
    ready: VecDeque<JobEvent>,
}

impl Stream for AzureStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        if self.ready.is_empty() {
            self.read_moment()?;
        }
        Ok(self.ready.pop_front().map(Event::Job))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            match self.source {
                Source::List(_) => {
                    "life times are drawn within their bins of five minutes to a day, by the seed"
                }
                Source::Raw(_) => "life times are drawn within five minutes, by the seed",
            }
            .to_owned(),
        ];
        if self.head.machines.is_empty() {
            notes.push("the trace has no machines".to_owned());
        }
        notes
    }
}

impl AzureStream {
    /// Reads all rows with the next arrival time.
    fn read_moment(&mut self) -> Result<(), LoadError> {
        let first = match self.next.take() {
            Some(first) => Some(first),
            None => self.read()?,
        };
        let Some(first) = first else { return Ok(()) };
        let now_ms = first.at_ms;
        let mut positions: HashMap<u64, usize> = HashMap::new();
        let mut batches: Vec<Vec<Vm>> = Vec::new();
        let (mut next, mut count) = (Some(first), 0);
        while let Some(vm) = next.take_if(|vm| vm.at_ms == now_ms) {
            count += 1;
            if count > TASKS_PER_JOB_MAX {
                let message = format!("more than {TASKS_PER_JOB_MAX} virtual machines at one time");
                return Err(self.table.error_at(Some("arrival_s"), message));
            }
            let position = *positions.entry(vm.batch).or_insert(batches.len());
            if position == batches.len() {
                self.clock.check_new(vm.batch).map_err(|message| LoadError {
                    line: Some(vm.line),
                    ..self.table.error_at(Some("batch"), message)
                })?;
                batches.push(Vec::new());
            }
            batches[position].push(vm);
            next = self.read()?;
        }
        self.next = next;
        self.ready = batches.into_iter().map(job).collect();
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Vm>, LoadError> {
        let columns = match &mut self.source {
            Source::Raw(vms) => return Ok(vms.next()),
            Source::List(columns) => columns,
        };
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        let mut vm = read_vm(&row, columns, (&mut self.clock, self.seed))?;
        vm.tenant = self.tenant.clone();
        Ok(Some(vm))
    }
}

impl Clock {
    /// Advances to a time of the trace, and returns the time since the start.
    fn advance(&mut self, trace_ms: u64) -> Result<u64, &'static str> {
        let start_ms = *self.start_ms.get_or_insert(trace_ms.saturating_sub(STEP_MS));
        let at_ms = trace_ms.checked_sub(start_ms).filter(|at_ms| *at_ms >= self.now_ms);
        self.now_ms = at_ms.ok_or(
            "is earlier than in the line above: rows must be sorted by this \
             column",
        )?;
        Ok(self.now_ms)
    }

    /// Checks that the number of a new batch is above the numbers of all earlier batches.
    fn check_new(&mut self, batch: u64) -> Result<(), String> {
        if batch < self.batch_min {
            return Err(format!(
                "{batch} is not above the numbers of earlier batches: number the batches by \
                 arrival, and give all rows of a batch the same arrival_s"
            ));
        }
        self.batch_min = batch + 1;
        Ok(())
    }
}

fn read_vm(
    row: &Row<'_>,
    columns: &Columns,
    (clock, seed): (&mut Clock, u64),
) -> Result<Vm, LoadError> {
    let trace_ms = row.amount(columns.arrival, 1000, Rounding::Nearest)?;
    let at_ms = clock.advance(trace_ms).map_err(|why| row.error(columns.arrival, why))?;
    let id = row.integer(columns.id, u64::MAX)?;
    let low_ms = row.amount(columns.low, 1000, Rounding::Nearest)?;
    let high_ms = row.amount(columns.high, 1000, Rounding::Nearest)?;
    if high_ms < low_ms {
        return Err(row.error(columns.high, "is below dur_bin_lo_s"));
    }
    let is_alive = row.integer(columns.censored, 1)? == 1;
    Ok(Vm {
        line: row.line(),
        at_ms,
        batch: row.integer(columns.batch, AMOUNT_MAX)?,
        size: [
            row.amount(columns.cores, 1000, Rounding::Up)?,
            row.amount(columns.memory, 1 << 30, Rounding::Up)?,
        ],
        run_ms: (!is_alive).then(|| low_ms + draw(seed, id, high_ms - low_ms + STEP_MS)),
        kind: JobKind::Batch,
        tenant: Text::default(),
    })
}

/// The job of a batch, with groups in the order of their first rows.
fn job(mut batch: Vec<Vm>) -> JobEvent {
    let mut group_of: HashMap<[u64; 2], usize> = HashMap::new();
    for vm in &batch {
        let next = group_of.len();
        group_of.entry(vm.size).or_insert(next);
    }
    let line = Some(batch[0].line);
    batch.sort_by_key(|vm| group_of[&vm.size]);
    let mut groups: Vec<TaskGroup> = Vec::with_capacity(group_of.len());
    for same in batch.chunk_by(|a, b| a.size == b.size) {
        let mut group = TaskGroup::new(same.len() as u32, Amounts::new(same[0].size));
        group.name =
            if group_of.len() == 1 { "main".into() } else { groups.len().to_string().into() };
        groups.push(group);
    }
    let runs: Vec<Option<u64>> = batch.iter().map(|vm| vm.run_ms).collect();
    let arrival = Arrival {
        at_ms: batch[0].at_ms,
        placed: Vec::new(),
        run: match &runs[..] {
            _ if runs.iter().all(Option::is_none) => RunTime::Forever,
            [Some(run_ms)] => RunTime::Same(*run_ms),
            _ => RunTime::Each(runs),
        },
        job: Job {
            name: format!("batch-{}", batch[0].batch).into(),
            tenant: batch[0].tenant.clone(),
            scheduler: match batch[0].kind {
                JobKind::Service => "service".into(),
                JobKind::Batch => "batch".into(),
            },
            precedence: Precedence(0),
            preemption: Preemption::default(),
            kind: batch[0].kind,
            groups: groups.into_iter().map(SharedGroup::from).collect(),
            gang_min: None,
            gang_timeout_ms: None,
            runtime_estimate_ms: None,
            deadline_ms: None,
            update: None,
        },
    };
    JobEvent { arrival, line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_data;
    use crate::testing::{folder, message};

    const HEADER: &str = "vm,arrival_s,batch,cores,mem_gb,dur_bin_lo_s,dur_bin_hi_s,censored\n";

    fn read(rows: &str) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[("dev.csv.gz", &format!("{HEADER}{rows}"))]);
        let result = load(dir.path(), AzureOptions { machines: Vec::new(), seed: 7 });
        (dir, result)
    }

    #[test]
    fn batches_become_jobs_and_sizes_groups() {
        let rows = "0,1800,0,8.0,14.0,300,300,0\n1,1800,1,1.0,0.75,0,0,1\n\
            2,1800,0,2.0,3.5,3900,7200,0\n3,1800,0,8.0,14.0,0,0,0\n4,2100,2,1,2,0,0,1\n";
        let workload = read(rows).1.unwrap();
        let jobs: Vec<(u64, &str, u64)> =
            workload.arrivals.iter().map(|a| (a.at_ms, &*a.job.name, a.job.task_count())).collect();
        let expected = [(300_000, "batch-0", 3), (300_000, "batch-1", 1), (600_000, "batch-2", 1)];
        assert_eq!(jobs, expected);
        let first = &workload.arrivals[0];
        let groups: Vec<(u32, Amounts)> =
            first.job.groups.iter().map(|g| (g.count, g.request.clone())).collect();
        let large = Amounts::new([8000, 14 << 30]);
        assert_eq!(groups, [(2, large), (1, Amounts::new([2000, 7 << 29]))]);
        let runs = [0, 1, 2].map(|task| first.run.of(task).unwrap());
        assert!((300_001..=600_000).contains(&runs[0]), "{runs:?}");
        assert!((1..=300_000).contains(&runs[1]), "{runs:?}");
        assert!((3_900_001..=7_500_000).contains(&runs[2]), "{runs:?}");
        assert_eq!(workload.arrivals[1].run, RunTime::Forever);
    }

    /// A table with two deployments. Times are whole steps, and the last one is the end of the table.
    const RAW: &str = "a,s1,d1,600,1200,9.5,1.5,3.5,Delay-insensitive,1,1.75\n\
        b,s1,d1,0,9000,9.5,1.5,3.5,Interactive,>24,>64\nc,s2,d2,600,9000,9.5,1.5,3.5,Unknown,2,3.5\n\
        d,s1,d1,600,600,9.5,1.5,3.5,Interactive,4,7\ne,s1,d1,600,900,9.5,1.5,3.5,Unknown,1,1.75\n";

    fn raw(file: &str, content: &str) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[(file, content)]);
        let result = load(dir.path(), AzureOptions { machines: Vec::new(), seed: 7 });
        (dir, result)
    }

    #[test]
    fn the_published_table_is_read_without_a_header() {
        let workload = raw("vmtable.csv.gz", RAW).1.unwrap();
        let jobs: Vec<(u64, &str, &str, u64)> = workload
            .arrivals
            .iter()
            .map(|a| (a.at_ms, &*a.job.scheduler, &*a.job.tenant, a.job.task_count()))
            .collect();
        let expected = [
            (0, "service", "subscription-0", 1),
            (600_000, "service", "subscription-0", 1),
            (600_000, "batch", "subscription-0", 2),
            (600_000, "batch", "subscription-1", 1),
        ];
        assert_eq!(jobs, expected);
        let [old, short, pair, last] = &workload.arrivals[..] else { panic!("{jobs:?}") };
        assert_eq!(old.job.groups[0].request, Amounts::new([24_000, 64 << 30]));
        assert_eq!((&old.run, &last.run), (&RunTime::Forever, &RunTime::Forever));
        assert!((1..=300_000).contains(&short.run.of(0).unwrap()), "{short:?}");
        assert!((600_001..=900_000).contains(&pair.run.of(0).unwrap()), "{pair:?}");
        assert!((300_001..=600_000).contains(&pair.run.of(1).unwrap()), "{pair:?}");
        // A header that was added changes only the line numbers, on which the random lifetimes depend.
        let headed = format!("{}\n{RAW}", raw::COLUMNS.join(","));
        let again = raw("vmtable.csv", &headed).1.unwrap();
        assert_eq!(again.arrivals.len(), 4);
        assert_eq!(again.arrivals[2].job.groups, workload.arrivals[2].job.groups);
    }

    #[test]
    fn faults_of_the_published_table_are_told_in_one_line() {
        let row = |of: &str| format!("{RAW}{of}\n");
        let cases = [
            (row("f,s,d,600,300,9,1,3,Unknown,1,1"), "6: vmdeleted: is before vmcreated"),
            (row("f,s,,600,900,9,1,3,Unknown,1,1"), "6: deploymentid: is empty"),
            (row("f,s,d,0,0,9,1,3,Unknown,>>1,1"), "6: vmcorecount: \">1\" is not a number"),
            (
                "name,cpu,mem,num_gpu,gpu,spec,qos,phase,created,deleted,at\np,1,2,3,4,5,6,7,8,9,10\n".into(),
                "1: the line is a header of other columns: the columns are vmid, subscriptionid, deploymentid, \
                 vmcreated, vmdeleted, maxcpu, avgcpu, p95maxcpu, vmcategory, vmcorecount, vmmemory",
            ),
            (
                row("f,s,d,0,0,9,1,3,Unknown,1"),
                "6: the row has 10 fields, but the header has 11: give each row as many fields as the header",
            ),
        ];
        for (content, expected) in cases {
            let (dir, result) = raw("vmtable.csv", &content);
            assert_eq!(message(dir.path(), result), format!("vmtable.csv:{expected}"));
        }
    }

    #[test]
    fn faults_of_the_list_are_told_in_one_line() {
        let cases = [
            ("0,1800,0,8.0,14.0,600,300,0", "2: dur_bin_hi_s: is below dur_bin_lo_s"),
            ("0,1800,0,8.0,14.0,0,0,2", "2: censored: \"2\" is too large: must be at most 1"),
            ("0,1800,,8.0,14.0,0,0,0", "2: batch: is empty"),
            ("0,1800,0,-8,14.0,0,0,0", "2: cores: \"-8\" is negative"),
            ("0,1800,0,8,much,0,0,0", "2: mem_gb: \"much\" is not a number"),
            ("0,1800,0,8,1e30,0,0,0", "2: mem_gb: \"1e30\" is too large: must be at most 1048576"),
            (
                "0,1800,0,8,1,0,0,0\n1,1500,1,8,1,0,0,0",
                "3: arrival_s: is earlier than in the line above: rows must be sorted by this \
                 column",
            ),
            (
                "0,1800,0,8,1,0,0,0\n1,2100,0,8,1,0,0,0",
                "3: batch: 0 is not above the numbers of earlier batches: number the batches by \
                 arrival, and give all rows of a batch the same arrival_s",
            ),
            (
                "0,1800,0,8,1,0,0",
                "2: the row has 7 fields, but the header has 8: give each row as many fields as the header",
            ),
        ];
        for (row, expected) in cases {
            let (dir, result) = read(&format!("{row}\n"));
            assert_eq!(message(dir.path(), result), format!("dev.csv.gz:{expected}"));
        }
    }

    #[test]
    fn the_real_list_has_the_published_counts() {
        let Some(dir) = public_data("azure-vm-v1") else { return };
        let workload = load(&dir, AzureOptions::default()).unwrap();
        let tasks: u64 = workload.arrivals.iter().map(|a| a.job.task_count()).sum();
        assert_eq!((workload.arrivals.len(), tasks), (53_109, 259_159));
        assert_eq!(workload.arrivals.iter().map(|a| a.job.task_count()).max(), Some(587));
        let last = workload.arrivals.last().unwrap();
        assert_eq!(last.at_ms / 3_600_000, 83);
        let again = load(&dir, AzureOptions::default()).unwrap();
        let runs = |workload: &Workload| {
            workload.arrivals.iter().map(|a| a.run.clone()).collect::<Vec<_>>()
        };
        assert_eq!(runs(&workload), runs(&again));
    }
}
