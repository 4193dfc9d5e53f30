//! Google's cluster trace of May 2011: its first hour and a half as a replay, or ten days of its jobs.
//!
//! The folder has `machine_events_compact.csv.gz`, `tasks_replay.csv.gz` and `jobs_dev_days0-10.csv.gz`, all derived
//! from the published tables. The replay is converted as follows ([`jobs`] describes the conversion of the list of
//! jobs):
//!
//! - **Scale.** The trace gives amounts as fractions of the largest machine. Here that machine has 64 cores, 256 GiB of
//!   memory and 16 TiB of disk. Requests are rounded up. Capacities are rounded to the nearest unit, which changes only
//!   memory capacities, by less than a byte, so rounding never makes room for a task.
//! - **Disk.** The trace does not give the machines' disks. Every machine gets 16 TiB, of which the initial
//!   tasks need at most 2 %, so disk never affects a placement.
//! - **Overcommit.** A request of the trace is a limit, and the cell was overcommitted: the initial tasks
//!   request up to 1.58 times a machine's CPU and 2.00 times its memory. So both kinds are compressible, and
//!   160 % of a machine's CPU and 200 % of its memory may be claimed. With the production tasks alone, 141 % of
//!   the CPU is needed, and the bounds are 145 % and 100 %.
//! - **Time.** The replay begins at 600 s of the trace's clock. The run time of an initial task is counted from
//!   the clock's zero, so 600 s of it have passed at the start. For 2 % of these tasks the run time is shorter
//!   than that; it cannot be counted from zero, and is not reduced.
//! - **Jobs.** Tasks of one trace job that arrive at different times, or have different priorities, become
//!   several jobs, `ID.1`, `ID.2`, …; tasks of one job with different requests become groups.
//! - **Service** is defined as in the paper: production (priority 9 and above) and scheduling class 2 or 3. All
//!   other jobs are batch.
//! - A task that failed or was killed ends after its run time, like a task that finished.
//! - **Order.** Rows are sorted by time. A stream has in memory the machines and the tasks of one time, at most
//!   [`TASKS_PER_JOB_MAX`](omega_core::limits::TASKS_PER_JOB_MAX) (144,339 tasks arrive at the start). The parts of a
//!   job must be known when its first part arrives, so the file is read twice; the first pass keeps a few numbers of
//!   each job.

pub mod jobs;
mod machines;
mod tasks;

pub use tasks::Production;

use crate::stream::{Event, Head, JobsAt, Stream, whole};
use crate::trace_files::TraceFiles;
use crate::{LoadError, Workload};
use machines::Machines;
use omega_core::{KindId, Kinds, Overcommit, Policy, ResourceKind, Unit};
use tasks::Tasks;

/// Selection of the replayed part of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoogleOptions {
    /// Selection of the tasks.
    pub production: Production,
}

/// Reads the trace. The replay and its machine events end with the last arrival.
///
/// # Errors
/// If a file is missing or invalid.
pub fn load(files: impl Into<TraceFiles>, options: &GoogleOptions) -> Result<Workload, LoadError> {
    whole(&mut open(files, options)?)
}

/// Opens the trace as a stream.
///
/// # Errors
/// If a file is missing, or the initial machines are invalid.
pub fn open(
    files: impl Into<TraceFiles>,
    options: &GoogleOptions,
) -> Result<GoogleStream, LoadError> {
    let files = files.into();
    let overcommit = match options.production {
        Production::All => Overcommit::none().with(KindId::CPU, 160).with(KindId::MEMORY, 200),
        Production::OnlyProduction => Overcommit::none().with(KindId::CPU, 145),
    };
    let mut machines = Machines::open(&files, overcommit.clone())?;
    let start = machines.read_start()?;
    let file = files.path("tasks", "tasks_replay.csv")?;
    let tasks = Tasks::open(&file, start.rows, options.production)?;
    let name = match options.production {
        Production::All => "google 2011",
        Production::OnlyProduction => "google 2011, production only",
    };
    let jobs_at = JobsAt { file, column: "job" };
    let head = Head {
        policy: Policy { overcommit_max: overcommit, ..Policy::default() },
        ..Head::new(name.to_owned(), kinds(), start.machines, jobs_at)
    };
    Ok(GoogleStream { head, machines, tasks, next: None })
}

/// The replay, as a stream.
pub struct GoogleStream {
    head: Head,
    machines: Machines,
    tasks: Tasks,
    /// The next job, if it was already read.
    next: Option<Event>,
}

impl Stream for GoogleStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        if self.next.is_none() {
            self.next = self.tasks.next_job()?.map(Event::Job);
        }
        // After the last job, only machine events remain, up to the arrival of the last task.
        let until_ms = self.next.as_ref().map_or(self.tasks.end_ms(), Event::at_ms);
        if let Some(event) = self.machines.next_until(until_ms)? {
            return Ok(Some(Event::Machine(event)));
        }
        Ok(self.next.take())
    }

    fn notes(&self) -> Vec<String> {
        self.tasks.notes()
    }
}

/// The standard kinds without devices. Memory is compressible, because the trace's requests are limits.
fn kinds() -> Kinds {
    let kind =
        |name: &str, unit, compressible| ResourceKind { name: name.to_owned(), unit, compressible };
    Kinds::new(vec![
        kind("cpu", Unit::Milli, true),
        kind("memory", Unit::Bytes, true),
        kind("disk", Unit::Bytes, false),
    ])
    .expect("three kinds with different names")
}

#[cfg(test)]
mod tests {
    use super::machines::CPU_MILLIS;
    use super::*;
    use crate::public_data;
    use crate::testing::{capacity, folder, message};
    use omega_core::{Amounts, JobKind, TaskRule, TaskSelector};

    const MACHINES: &str = "time,machine,event,platform,cpu,mem\n\
        0,5,0,P2,0.5,0.2493\n0,6,0,P1,1.0,1.0\n\
        700000000,6,1,P1,1.0,1.0\n650000000,7,2,P2,0.5,0.5\n9900000000,8,0,P2,0.5,0.5\n";
    const TASKS: &str = "job,idx,submit_us,user,sched,prio,cpu,mem,disk,diff,init_machine,\
        first_sched_us,run_us,last_event,evictions\n";

    fn read(
        tasks: &str,
        production: Production,
    ) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[
            ("machine_events_compact.csv.gz", MACHINES),
            ("tasks_replay.csv.gz", &format!("{TASKS}{tasks}")),
        ]);
        let result = load(dir.path(), &GoogleOptions { production });
        (dir, result)
    }

    #[test]
    fn a_small_trace_becomes_jobs_and_groups() {
        let tasks = "1,0,0,7,2,9,0.07,0.1,0,0,5,0,,1,0\n\
            1,1,0,7,2,9,0.5,0.1,0,0,,0,,1,0\n\
            1,2,0,7,2,9,0.07,0.1,0,0,6,0,700000000,4,0\n\
            2,0,0,8,0,0,0.1,0.1,0,1,99,0,2500000,4,0\n\
            2,1,800000000,8,0,0,0.1,0.1,0,1,,800000000,2500000,4,0\n";
        let workload = read(tasks, Production::All).1.unwrap();
        let names: Vec<&str> = workload.arrivals.iter().map(|a| &*a.job.name).collect();
        assert_eq!(names, ["1", "2.1", "2.2"]);

        let first = &workload.arrivals[0];
        assert_eq!((first.job.kind, &*first.job.tenant), (JobKind::Service, "user-7"));
        assert_eq!(first.job.groups.iter().map(|g| g.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(first.job.groups[0].request.get(KindId::CPU), 4480);
        assert_eq!(first.placed, [(0, 0), (1, 1)]);
        assert_eq!([0, 1, 2].map(|task| first.run.of(task)), [None, Some(100_000), None]);

        let last = &workload.arrivals[2];
        assert_eq!((last.at_ms, last.run.of(0)), (200_000, Some(2500)));
        assert_eq!(last.job.groups[0].labels.get("job").map(|id| &**id), Some("2"));
        let [TaskRule::AntiAffinity { from: TaskSelector::Labels { labels, .. }, .. }] =
            &last.job.groups[0].rules.tasks[..]
        else {
            panic!("{:?}", last.job.groups[0].rules)
        };
        assert!(labels.matches(&workload.arrivals[1].job.groups[0].labels));
        assert!(workload.notes[0].starts_with("1 task ran"), "{:?}", workload.notes);

        let times: Vec<u64> = workload.machine_events.iter().map(|event| event.at_ms).collect();
        assert_eq!(times, [50_000, 100_000]);
    }

    #[test]
    fn faults_of_the_trace_are_told_in_one_line() {
        let cases = [
            ("1,0,0,7,4,9,0.1,0.1,0,0,5,0,,1,0", "2: sched: \"4\" is too large: must be at most 3"),
            (
                "1,0,0,7,2,12,0.1,0.1,0,0,5,0,,1,0",
                "2: prio: \"12\" is too large: must be at most \
                 11",
            ),
            ("1,0,0,7,2,9,,0.1,0,0,5,0,,1,0", "2: cpu: is empty"),
            ("1,0,0,7,2,9,0.1,-0.1,0,0,5,0,,1,0", "2: mem: \"-0.1\" is negative"),
            ("1,0,0,7,2,9,0.1,0.1,0,2,5,0,,1,0", "2: diff: \"2\" is too large: must be at most 1"),
            ("1,0,soon,7,2,9,0.1,0.1,0,0,5,0,,1,0", "2: submit_us: \"soon\" is not a number"),
            (
                "1,0,700000000,7,2,9,0.1,0.1,0,0,,0,,1,0\n2,0,0,7,2,9,0.1,0.1,0,0,5,0,,1,0",
                "3: submit_us: is earlier than in the line above: rows must be sorted by this \
                 column",
            ),
        ];
        for (row, expected) in cases {
            let (dir, result) = read(&format!("{row}\n"), Production::All);
            assert_eq!(message(dir.path(), result), format!("tasks_replay.csv.gz:{expected}"));
        }
        let twice = "time,machine,event,platform,cpu,mem\n0,5,0,P2,1,1\n0,5,0,P2,1,1\n";
        let dir = folder(&[("machine_events_compact.csv.gz", twice)]);
        let error = message(dir.path(), load(dir.path(), &GoogleOptions::default()));
        let expected = "machine_events_compact.csv.gz:3: machine: 5 is added twice";
        assert_eq!(error, expected);
        let late = "time,machine,event,platform,cpu,mem\n7,5,1,P2,1,1\n0,6,0,P2,1,1\n";
        let task = format!("{TASKS}1,0,0,7,2,9,0.1,0.1,0,0,5,0,,1,0\n");
        let dir =
            folder(&[("machine_events_compact.csv.gz", late), ("tasks_replay.csv.gz", &task)]);
        let error = message(dir.path(), load(dir.path(), &GoogleOptions::default()));
        let expected = "machine_events_compact.csv.gz:3: time: is 0 after a later time: the rows \
             of machines that exist at the start must come first";
        assert_eq!(error, expected);
    }

    /// Numbers of all tasks, of initial tasks, and of tasks of service jobs.
    fn counts(workload: &Workload) -> [usize; 3] {
        let arrivals = &workload.arrivals;
        let tasks = |arrival: &crate::Arrival| arrival.job.task_count() as usize;
        [
            arrivals.iter().map(tasks).sum(),
            arrivals.iter().map(|a| a.placed.len()).sum(),
            arrivals.iter().filter(|a| a.job.kind == JobKind::Service).map(tasks).sum(),
        ]
    }

    /// Whether the initial tasks fit on the machines with their overcommit.
    fn fits(workload: &Workload) -> bool {
        let mut used = vec![Amounts::zero(); workload.machines.len()];
        for arrival in &workload.arrivals {
            let groups = arrival.job.groups.iter();
            let requests: Vec<&Amounts> =
                groups.flat_map(|group| (0..group.count).map(move |_| &group.request)).collect();
            for (task, row) in &arrival.placed {
                let sum = &mut used[*row as usize];
                *sum = sum.checked_add(requests[*task as usize]).unwrap();
            }
        }
        let mut pairs = used.iter().zip(&workload.machines);
        pairs.all(|(used, machine)| {
            used.iter().all(|(kind, amount)| amount <= machine.claimable(kind))
        })
    }

    #[test]
    fn the_real_trace_has_the_published_counts() {
        let Some(dir) = public_data("google2011") else { return };
        let all = load(&dir, &GoogleOptions::default()).unwrap();
        assert_eq!(all.machines.len(), 12_477);
        // There are 132,982 initial tasks, 13 of them on machines that the trace does not list.
        assert_eq!(counts(&all), [190_926, 132_969, 42_761]);
        assert!(all.notes[0].starts_with("13 tasks"), "{:?}", all.notes);
        assert!(fits(&all));
        assert!(all.arrivals.is_sorted_by_key(|arrival| arrival.at_ms));
        assert!(all.machine_events.is_sorted_by_key(|event| event.at_ms));
        assert_eq!(all.machine_events.len(), 26);
        assert_eq!(capacity(&all.machines).get(KindId::CPU) / CPU_MILLIS, 6603);

        let options = GoogleOptions { production: Production::OnlyProduction };
        let production = load(&dir, &options).unwrap();
        assert_eq!(counts(&production)[0], 56_344);
        let note = "134582 of 190926 tasks are left out: they are not production";
        assert_eq!(production.notes[0], note);
        assert!(fits(&production));
    }
}
