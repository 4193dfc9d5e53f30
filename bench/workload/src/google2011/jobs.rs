//! The jobs that arrived in the first ten days of the trace, with their arrival times, classes and run times.
//!
//! The list has neither requests nor numbers of tasks, so each job is one task without a request. It shows how jobs
//! arrive and how long they run, but nothing about capacity. Jobs of scheduling class 2 or 3 are services, because the
//! list has no priority. A job whose end is not in the trace runs forever; jobs from before the trace arrive at time 0.
//! The file is sorted. A stream has a window of its rows ([`crate::stream`]) and the machines in memory.

use super::kinds;
use super::machines::{Machines, since_start};
use crate::stream::order::Order;
use crate::stream::{Event, Head, JobEvent, JobsAt, Stream, Window};
use crate::text::table::{Column, Row, Table};
use crate::trace_files::TraceFiles;
use crate::{Arrival, LoadError, RunTime};
use omega_core::{Amounts, Job, JobKind, Overcommit, Precedence, Preemption, TaskGroup};

/// The columns that are read.
struct Columns {
    submit: Column,
    run: Column,
    class: Column,
    user: Column,
}

/// The list of jobs, as a stream.
pub struct JobStream {
    head: Head,
    machines: Machines,
    table: Table,
    columns: Columns,
    order: Order<JobEvent>,
}

/// Opens the list.
///
/// # Errors
/// If a file is missing, or the initial machines are invalid.
pub fn open(files: impl Into<TraceFiles>) -> Result<JobStream, LoadError> {
    let files = files.into();
    let mut machines = Machines::open(&files, Overcommit::none())?;
    let start = machines.read_start()?;
    let file = files.path("jobs", "jobs_dev_days0-10.csv")?;
    let table = Table::open(&file)?;
    let [submit, run, class, user] = table.find(["submit_us", "run_us", "class", "user"])?;
    let columns = Columns { submit, run, class, user };
    let jobs_at = JobsAt { file, column: "submit_us" };
    let head =
        Head::new("google 2011, jobs of ten days".to_owned(), kinds(), start.machines, jobs_at);
    Ok(JobStream { head, machines, table, columns, order: Order::new(Window::Bounded) })
}

impl Stream for JobStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        while !self.order.is_full() {
            let Some(row) = self.table.next_row()? else { break };
            let job = JobEvent { arrival: read(&row, &self.columns)?, line: Some(row.line()) };
            let pushed = self.order.push(job.arrival.at_ms, job);
            pushed.map_err(|message| row.error(self.columns.submit, message))?;
        }
        let Some(at_ms) = self.order.earliest_ms() else { return Ok(None) };
        if let Some(event) = self.machines.next_until(at_ms)? {
            return Ok(Some(Event::Machine(event)));
        }
        Ok(self.order.pop().map(Event::Job))
    }

    fn notes(&self) -> Vec<String> {
        let what = "the list has no requests and no numbers of tasks: each job is one task \
             without a request";
        vec![what.to_owned()]
    }
}

/// The job of a row, named after its line.
fn read(row: &Row<'_>, columns: &Columns) -> Result<Arrival, LoadError> {
    let is_service = row.integer(columns.class, 3)? >= u64::from(super::tasks::SERVICE_CLASS);
    let run_ms = row.optional_integer(columns.run, u64::MAX)?.map(|us| us / 1000);
    let user = row.integer(columns.user, u64::MAX)?;
    Ok(Arrival {
        at_ms: since_start(row.integer(columns.submit, u64::MAX)?),
        placed: Vec::new(),
        run: run_ms.map_or(RunTime::Forever, RunTime::Same),
        job: Job {
            name: format!("line-{}", row.line()).into(),
            tenant: format!("user-{user}").into(),
            scheduler: if is_service { "service".into() } else { "batch".into() },
            precedence: Precedence(0),
            preemption: Preemption::default(),
            kind: if is_service { JobKind::Service } else { JobKind::Batch },
            groups: [TaskGroup::new(1, Amounts::zero()).into()].into(),
            gang_min: None,
            gang_timeout_ms: None,
            runtime_estimate_ms: run_ms,
            deadline_ms: None,
            update: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use crate::public_data;
    use crate::stream::whole;
    use crate::testing::{folder, message};

    const MACHINES: &str = "time,machine,event,platform,cpu,mem\n0,5,0,P2,0.5,0.25\n\
        700000000,5,1,P2,,\n9900000000,8,0,P2,0.5,0.5\n";
    const JOBS: &str = "submit_us,sched_wait_us,run_us,end_event,class,user,name\n";

    fn load(jobs: &str) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[
            ("machine_events_compact.csv.gz", MACHINES),
            ("jobs_dev_days0-10.csv.gz", &format!("{JOBS}{jobs}")),
        ]);
        let result = open(dir.path()).and_then(|mut stream| whole(&mut stream));
        (dir, result)
    }

    #[test]
    fn a_row_is_a_job_of_one_task() {
        let workload = load("0,0,,,3,0,0\n800000000,5,2500000,4,0,7,1\n").1.unwrap();
        let [first, second] = &workload.arrivals[..] else { panic!("{:?}", workload.arrivals) };
        assert_eq!(
            (first.at_ms, &first.run, first.job.kind),
            (0, &RunTime::Forever, JobKind::Service)
        );
        assert_eq!((second.at_ms, &second.run), (200_000, &RunTime::Same(2500)));
        assert_eq!((&*second.job.name, &*second.job.tenant), ("line-3", "user-7"));
        assert_eq!((workload.machines.len(), workload.machine_events.len()), (1, 1));
    }

    #[test]
    fn faults_of_the_list_are_told_in_one_line() {
        let cases = [
            ("0,0,,,4,0,0", "2: class: \"4\" is too large: must be at most 3"),
            ("0,0,,,,0,0", "2: class: is empty"),
            ("x,0,,,3,0,0", "2: submit_us: \"x\" is not a number"),
            ("0,0,-5,,3,0,0", "2: run_us: \"-5\" is negative"),
        ];
        for (row, expected) in cases {
            let (dir, result) = load(&format!("{row}\n"));
            assert_eq!(message(dir.path(), result), format!("jobs_dev_days0-10.csv.gz:{expected}"));
        }
    }

    #[test]
    fn the_real_list_has_the_published_counts() {
        let Some(dir) = public_data("google2011") else { return };
        let workload = whole(&mut open(&dir).unwrap()).unwrap();
        assert_eq!((workload.arrivals.len(), workload.machines.len()), (223_766, 12_477));
        let services = workload.arrivals.iter().filter(|a| a.job.kind == JobKind::Service);
        assert_eq!(services.count(), 2643 + 60_008);
    }
}
