//! The job lists on which the Omega paper's lightweight simulator was compared with other simulators.
//!
//! A cell consists of identical machines of 4 cores and 16 GiB. Its jobs are a *prefill* of service jobs that arrive at
//! the start and never end, then batch and service jobs. Each row of a list is one job of identical tasks. The prefill
//! is placed like any other job. Of jobs with equal arrival times, those of the prefill come first, then batch, then
//! service.
//!
//! Requests are rounded up to thousandths of a core and to bytes. In a stream, each list passes through a separate
//! window ([`crate::stream`]).

use crate::stream::order::Order;
use crate::stream::{Event, Head, JobEvent, JobsAt, Stream, Window, whole};
use crate::text::decimal::Rounding;
use crate::text::table::{Column, Table};
use crate::trace_files::TraceFiles;
use crate::{Arrival, LoadError, RunTime, Workload};
use omega_core::limits::TASKS_PER_JOB_MAX;
use omega_core::{Amounts, Job, JobKind, Kinds, Machine, Precedence, Preemption, TaskGroup, Text};
use std::path::Path;

/// Capacity of every machine: 4 cores and 16 GiB.
const MACHINE: [u64; 2] = [4000, 16 << 30];

/// A cell: its name, its machines, and its lists (prefill, batch, service).
struct Cell {
    name: &'static str,
    machines: u32,
    lists: [&'static str; 3],
}

const CELLS: [Cell; 3] = [
    Cell { name: "M", machines: 2000, lists: ["M_prefill", "M_batch", "M_service"] },
    Cell { name: "L", machines: 10_000, lists: ["L_prefill", "L_batch_x1", "L_service"] },
    Cell { name: "L4", machines: 10_000, lists: ["L_prefill", "L_batch_x4", "L_service"] },
];

/// Reads a cell: `M` (2,000 machines, a day), `L` (10,000 machines, six hours), or `L4` (like `L`, but with
/// four times the batch load).
///
/// # Errors
/// If there is no such cell, or a file is missing or invalid.
pub fn load(files: impl Into<TraceFiles>, cell: &str) -> Result<Workload, LoadError> {
    whole(&mut open(files, cell, Window::All)?)
}

/// Opens a cell as a stream.
///
/// # Errors
/// If there is no such cell, a file is missing, or its header is invalid.
pub fn open(
    files: impl Into<TraceFiles>,
    cell: &str,
    window: Window,
) -> Result<OmegaSimStream, LoadError> {
    let files = files.into();
    let Some(cell) = CELLS.iter().find(|known| known.name == cell) else {
        let names: Vec<&str> = CELLS.iter().map(|known| known.name).collect();
        let message = format!("there is no cell {cell:?}; the cells are: {}", names.join(", "));
        let place = files.named("batch").map_or_else(|| files.folder("batch"), Ok)?;
        return Err(LoadError::new(place, message));
    };
    let names = [("prefill", Run::Forever), ("batch", Run::AsListed), ("service", Run::AsListed)];
    let (mut lists, mut paths) = (Vec::new(), Vec::new());
    for (list, (name, run)) in cell.lists.iter().zip(names) {
        let file = files.path(name, &format!("{list}.csv"))?;
        lists.push(List::open(&file, name, run, window)?);
        paths.push(file);
    }
    let machine = |i: u32| Machine::new(format!("m{i}"), Amounts::new(MACHINE));
    // Names consist of the list and a number, so no name occurs twice.
    let jobs_at = JobsAt { file: paths.swap_remove(0), column: "name" };
    let machines = (0..cell.machines).map(machine).collect();
    let name = format!("omega-sim {}", cell.name);
    Ok(OmegaSimStream { head: Head::new(name, Kinds::standard(), machines, jobs_at), lists })
}

/// The lists of a cell, merged by time.
pub struct OmegaSimStream {
    head: Head,
    lists: Vec<List>,
}

impl Stream for OmegaSimStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        for list in &mut self.lists {
            list.fill()?;
        }
        let waiting = self.lists.iter_mut().filter(|list| list.order.earliest_ms().is_some());
        // Of rows with equal times, the row of the first list is taken. The order of the lists is prefill, batch,
        // service.
        let Some(list) = waiting.min_by_key(|list| list.order.earliest_ms()) else {
            return Ok(None);
        };
        Ok(list.order.pop().map(|arrival| Event::Job(JobEvent { arrival, line: None })))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Run time of the jobs of a list.
#[derive(Clone, Copy)]
enum Run {
    AsListed,
    Forever,
}

/// One list. Its jobs are named `NAME-0`, `NAME-1`, ….
struct List {
    table: Table,
    columns: Columns,
    name: Text,
    group_name: Text,
    kind: JobKind,
    run: Run,
    count: u64,
    order: Order<Arrival>,
}

/// The columns of a list.
#[derive(Clone, Copy)]
struct Columns {
    submit: Column,
    count: Column,
    duration: Column,
    cpu: Column,
    memory: Column,
}

impl List {
    fn open(file: &Path, name: &str, run: Run, window: Window) -> Result<List, LoadError> {
        let table = Table::open(file)?;
        let [submit, count, duration] = table.find(["submit_s", "num_tasks", "duration_s"])?;
        let [cpu, memory] = table.find(["cpus_per_task", "mem_gb_per_task"])?;
        let columns = Columns { submit, count, duration, cpu, memory };
        let kind = if name == "batch" { JobKind::Batch } else { JobKind::Service };
        let (name, group_name) = (name.into(), "main".into());
        let order = Order::new(window);
        Ok(List { table, columns, name, group_name, kind, run, count: 0, order })
    }

    /// Reads until the window is full or the list ends.
    fn fill(&mut self) -> Result<(), LoadError> {
        while !self.order.is_full() {
            let Some(row) = self.table.next_row()? else { break };
            let Columns { submit, count, duration, cpu, memory } = self.columns;
            let request = Amounts::new([
                row.amount(cpu, 1000, Rounding::Up)?,
                row.amount(memory, 1 << 30, Rounding::Up)?,
            ]);
            let tasks = row.integer(count, u64::from(TASKS_PER_JOB_MAX))? as u32;
            if tasks == 0 {
                return Err(row.error(count, "is 0: a job must have at least one task"));
            }
            let mut group = TaskGroup::new(tasks, request);
            group.name = self.group_name.clone();
            let run_ms = row.amount(duration, 1000, Rounding::Nearest)?;
            let (run, runtime_estimate_ms) = match self.run {
                Run::AsListed => (RunTime::Same(run_ms), Some(run_ms)),
                Run::Forever => (RunTime::Forever, None),
            };
            let job = Job {
                name: format!("{}-{}", self.name, self.count).into(),
                tenant: self.name.clone(),
                scheduler: match self.kind {
                    JobKind::Service => "service".into(),
                    JobKind::Batch => "batch".into(),
                },
                precedence: Precedence(0),
                preemption: Preemption::default(),
                kind: self.kind,
                groups: [group.into()].into(),
                gang_min: None,
                gang_timeout_ms: None,
                runtime_estimate_ms,
                deadline_ms: None,
                update: None,
            };
            self.count += 1;
            let at_ms = row.amount(submit, 1000, Rounding::Nearest)?;
            let pushed = self.order.push(at_ms, Arrival { at_ms, job, placed: Vec::new(), run });
            pushed.map_err(|message| row.error(submit, message))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_data;
    use crate::testing::{folder, message};

    const HEADER: &str = "submit_s,num_tasks,duration_s,cpus_per_task,mem_gb_per_task\n";

    fn read(batch: &str) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[
            ("M_prefill.csv.gz", &format!("{HEADER}0.0,3,864000.0,0.137339,2.0\n")),
            ("M_batch.csv.gz", &format!("{HEADER}{batch}")),
            ("M_service.csv.gz", &format!("{HEADER}1.5,1,9.0,1,1\n")),
        ]);
        let result = load(dir.path(), "M");
        (dir, result)
    }

    #[test]
    fn lists_are_merged_by_time() {
        let workload = read("2.0,2,0.0015,0.5,0.5\n1.5,1,1,1,1\n").1.unwrap();
        let jobs: Vec<(u64, &str)> =
            workload.arrivals.iter().map(|a| (a.at_ms, &*a.job.name)).collect();
        assert_eq!(
            jobs,
            [(0, "prefill-0"), (1500, "batch-1"), (1500, "service-0"), (2000, "batch-0")]
        );
        let prefill = &workload.arrivals[0];
        assert_eq!(prefill.run, RunTime::Forever);
        assert_eq!(prefill.job.groups[0].request, Amounts::new([138, 2 << 30]));
        assert_eq!(workload.arrivals[3].run, RunTime::Same(2));
    }

    #[test]
    fn faults_of_the_lists_are_told_in_one_line() {
        let cases = [
            ("1,0,1,1,1", "2: num_tasks: is 0: a job must have at least one task"),
            ("1,1048577,1,1,1", "2: num_tasks: \"1048577\" is too large: must be at most 1048576"),
            ("1,1,1,-1,1", "2: cpus_per_task: \"-1\" is negative"),
            ("1,1,1,1,1e30", "2: mem_gb_per_task: \"1e30\" is too large: must be at most 1048576"),
            ("1,1,nan,1,1", "2: duration_s: \"nan\" is not a finite number"),
            (
                "1,1,1,1",
                "2: the row has 4 fields, but the header has 5: give each row as many fields as the header",
            ),
        ];
        for (row, expected) in cases {
            let (dir, result) = read(row);
            assert_eq!(message(dir.path(), result), format!("M_batch.csv.gz:{expected}"));
        }
        let error = load(Path::new("d"), "S").err().unwrap();
        assert_eq!(error.to_string(), "d: there is no cell \"S\"; the cells are: M, L, L4");
    }

    /// The number of jobs whose names have this prefix, and the number of their tasks.
    fn count(workload: &Workload, prefix: &str) -> (usize, u64) {
        let jobs = workload.arrivals.iter().map(|arrival| &arrival.job);
        let jobs: Vec<&Job> = jobs.filter(|job| job.name.starts_with(prefix)).collect();
        (jobs.len(), jobs.iter().map(|job| job.task_count()).sum())
    }

    #[test]
    fn the_real_lists_have_the_published_counts() {
        let Some(dir) = public_data("omega-sim") else { return };
        let m = load(&dir, "M").unwrap();
        assert_eq!(count(&m, "batch"), (21_590, 482_278));
        assert_eq!(count(&m, "service"), (1476, 13_392));
        assert_eq!((m.machines.len(), count(&m, "prefill")), (2000, (486, 9580)));
        let l = load(&dir, "L4").unwrap();
        assert_eq!((l.machines.len(), count(&l, "batch")), (10_000, (21_506, 497_008)));
        assert_eq!(count(&load(&dir, "L").unwrap(), "batch"), (5232, 110_060));
    }
}
