//! A log as a workload: the jobs of a batch queue, for schedulers that place tasks on machines.
//!
//! - **Jobs.** Each job is a gang with one task per processor; these start together or not at all. Its size is the
//!   allocated number of processors or, if that is unknown, the requested one. Its run time is that of the log, but not
//!   longer than requested; the requested time is the runtime estimate for schedulers. Memory is not requested, because
//!   few logs have it. Jobs without a time of submission, processors or a run time are left out and counted.
//! - **Machines.** The processors of the header, distributed evenly over its nodes; or the user's machines.
//! - **Time** is counted from a second before the first job. The format requires lines in the order of submission; a
//!   stream has a window of them in memory ([`crate::stream`]).

use super::{Header, Log, LoggedJob};
use crate::gangs;
use crate::stream::order::Order;
use crate::stream::{Event, Head, JobEvent, JobsAt, Stream, Window};
use crate::text::compressed::{plain_name, stored};
use crate::text::words::plural;
use crate::{Arrival, LoadError, RunTime};
use omega_core::limits::{MACHINES_MAX, TASKS_PER_JOB_MAX};
use omega_core::{Amounts, Job, JobKind, Kinds, Machine, Precedence, Preemption, TaskGroup};
use std::path::{Path, PathBuf};

/// Time between the start of the workload and the first job.
const BEFORE_MS: u64 = 1000;

/// A log, as a stream.
pub struct SwfStream {
    head: Head,
    log: Log,
    file: PathBuf,
    /// Time of the first job in the log.
    first_ms: u64,
    order: Order<LoggedJob>,
    left_out: u64,
}

/// Path of the log: `data` itself, or the log with this name in `data` if that is a folder.
///
/// # Errors
/// If `data` is a folder without such a log.
pub fn find(data: &Path, name: Option<&str>) -> Result<PathBuf, LoadError> {
    if !data.is_dir() {
        return Ok(data.to_path_buf());
    }
    let name = name.ok_or_else(|| {
        LoadError::new(
            data,
            "is a folder: name a log in this folder with --part, or give the \
             path of the log with --data",
        )
    })?;
    let files = [stored(&data.join(format!("{name}.swf"))), data.join(name)];
    let found = files.into_iter().find(|file| file.is_file());
    found.ok_or_else(|| LoadError::new(data, format!("there is no log {name:?}")))
}

/// Opens a log. If no machines are given, those of its header are used.
///
/// # Errors
/// If the file is missing, its first lines are invalid, or the header lacks the machines.
pub fn open(
    file: &Path,
    machines: Option<Vec<Machine>>,
    window: Window,
) -> Result<SwfStream, LoadError> {
    let log = Log::open(file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = plain_name(&name).trim_end_matches(".swf").to_owned();
    let jobs_at = JobsAt { file: file.to_path_buf(), column: "job number" };
    let mut stream = SwfStream {
        head: Head::new(name, Kinds::standard(), Vec::new(), jobs_at),
        log,
        file: file.to_path_buf(),
        first_ms: 0,
        order: Order::new(window),
        left_out: 0,
    };
    stream.fill()?;
    stream.head.machines = match machines {
        Some(machines) => machines,
        None => of_header(stream.log.header()).map_err(|why| LoadError::new(file, why))?,
    };
    stream.first_ms = stream.order.earliest_ms().unwrap_or(0);
    Ok(stream)
}

impl Stream for SwfStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        self.fill()?;
        Ok(self.order.pop().map(|job| Event::Job(event(&job, self.first_ms))))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.log.notes();
        if self.left_out > 0 {
            notes.push(format!(
                "left out, because the log has no time of submission, no processors or no run time \
                 for them: {}",
                plural(self.left_out, "job")
            ));
        }
        notes
    }
}

impl SwfStream {
    /// Reads until the window is full or the log ends.
    fn fill(&mut self) -> Result<(), LoadError> {
        while !self.order.is_full() {
            let Some(job) = self.log.next_job()? else { break };
            let fault = |field: &str, message: String| LoadError {
                line: Some(job.line),
                field: Some(field.to_owned()),
                ..LoadError::new(&self.file, message)
            };
            let processors = processors(&job);
            if processors > u64::from(TASKS_PER_JOB_MAX) {
                let message = format!(
                    "{processors} is too large: must be at most \
                     {TASKS_PER_JOB_MAX}"
                );
                return Err(fault("processors", message));
            }
            let submit_ms = job.submit_ms.filter(|_| processors > 0 && job.run_ms.is_some());
            let Some(submit_ms) = submit_ms else {
                self.left_out += 1;
                continue;
            };
            let pushed = self.order.push(submit_ms, job);
            pushed.map_err(|message| fault("submit time", message))?;
        }
        Ok(())
    }
}

/// Processors of a job; 0 if unknown.
fn processors(job: &LoggedJob) -> u64 {
    let known = [job.allocated, job.requested].into_iter().flatten();
    known.into_iter().find(|processors| *processors > 0).unwrap_or(0)
}

/// The machines of a header.
fn of_header(header: Header) -> Result<Vec<Machine>, String> {
    let processors = header.processors.or(header.nodes);
    let Some(processors) = processors else {
        return Err(
            "the header has neither MaxProcs nor MaxNodes: give the machines with --on, such as \
             --on 200,cpu=64,memory=256Gi"
                .to_owned(),
        );
    };
    let nodes = header.nodes.unwrap_or(processors).min(processors);
    if nodes > MACHINES_MAX as u64 {
        return Err(format!(
            "the header has {nodes} nodes: a cell has at most {MACHINES_MAX} \
             machines"
        ));
    }
    let machine = |i: u64| {
        let cores = (i + 1) * processors / nodes - i * processors / nodes;
        Machine::new(format!("m{i}"), Amounts::new([cores * 1000]))
    };
    Ok((0..nodes).map(machine).collect())
}

fn event(job: &LoggedJob, first_ms: u64) -> JobEvent {
    let count = processors(job) as u32;
    // The batch system ended a job after its requested time.
    let limit_ms = job.requested_ms.filter(|requested_ms| *requested_ms > 0);
    let run_ms = job.run_ms.map(|run_ms| run_ms.min(limit_ms.unwrap_or(u64::MAX)));
    let arrival = Arrival {
        at_ms: job.submit_ms.unwrap_or(0).saturating_sub(first_ms).saturating_add(BEFORE_MS),
        placed: Vec::new(),
        run: run_ms.map_or(RunTime::Forever, RunTime::Same),
        job: Job {
            name: format!("line-{}", job.line).into(),
            tenant: "default".into(),
            scheduler: "batch".into(),
            precedence: Precedence(0),
            preemption: Preemption::default(),
            kind: JobKind::Batch,
            groups: [TaskGroup::new(count, Amounts::new([1000])).into()].into(),
            gang_min: Some(count),
            gang_timeout_ms: gangs::timeout_ms(Some(count)),
            runtime_estimate_ms: job.requested_ms,
            deadline_ms: None,
            update: None,
        },
    };
    JobEvent { arrival, line: Some(job.line) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use crate::public_data;
    use crate::stream::whole;
    use crate::testing::{folder, message};

    const HEADER: &str = "; MaxNodes: 3\n; MaxProcs: 8\n";

    fn read(log: &str) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[("a.swf", log)]);
        let result = find(dir.path(), Some("a"))
            .and_then(|file| open(&file, None, Window::Bounded))
            .and_then(|mut stream| whole(&mut stream));
        (dir, result)
    }

    /// Makes a line from: number, submission, run time, allocated and requested processors, and requested time.
    fn line(of: [i64; 6]) -> String {
        let [number, submit, run, got, asked, limit] = of;
        format!("{number} {submit} -1 {run} {got} -1 -1 {asked} {limit} -1 1 7 -1 -1 -1 -1 -1 -1\n")
    }

    #[test]
    fn a_job_is_a_gang_of_processors() {
        let jobs = [
            [9, 500, 60, 4, -1, -1],
            [8, 480, 15, 2, 3, 10],
            [7, 600, -1, 1, 1, 5],
            [6, 700, 5, 0, -1, 5],
            [5, -1, 5, 1, 1, 5],
        ];
        let log = format!("{HEADER}{}", jobs.map(line).concat());
        let workload = read(&log).1.unwrap();
        let cores: Vec<u64> = workload.machines.iter().map(|m| m.capacity.as_slice()[0]).collect();
        assert_eq!(cores, [2000, 3000, 3000]);
        let [first, second] = &workload.arrivals[..] else { panic!("{:?}", workload.arrivals) };
        assert_eq!((first.at_ms, &*first.job.name, first.job.gang_min), (1000, "line-4", Some(2)));
        assert_eq!(
            (first.run.clone(), first.job.runtime_estimate_ms),
            (RunTime::Same(10_000), Some(10_000))
        );
        assert_eq!((second.at_ms, second.job.task_count()), (21_000, 4));
        let note = "left out, because the log has no time of submission, no processors or no run time \
            for them: 3 jobs";
        assert_eq!(workload.notes, [note]);
    }

    #[test]
    fn faults_of_a_log_are_told_in_one_line() {
        let good = line([1, 5, 60, 4, -1, -1]);
        let cases = [
            (
                good.clone(),
                "a.swf: the header has neither MaxProcs nor MaxNodes: give the machines with \
                 --on, such as --on 200,cpu=64,memory=256Gi",
            ),
            (
                format!("{HEADER}{}", line([1, 5, 60, 1 << 21, 4, -1])),
                "a.swf:3: processors: 2097152 is too large: must be at most 1048576",
            ),
            (
                format!("{HEADER}{}", good.replace("60", "soon")),
                "a.swf:3: run time: \"soon\" is not a number",
            ),
            (format!("{HEADER}1 2 3\n"), "a.swf:3: the line has 3 fields: a job must have 18"),
            (
                "; MaxNodes: 2000000\n".to_owned(),
                "a.swf: the header has 2000000 nodes: a cell has at most 1048576 machines",
            ),
        ];
        for (log, expected) in cases {
            let (dir, result) = read(&log);
            assert_eq!(message(dir.path(), result), expected);
        }
        let dir = folder(&[]);
        let error = message(dir.path().parent().unwrap(), find(dir.path(), Some("b")));
        assert!(error.ends_with(": there is no log \"b\""), "{error}");
        let error = message(dir.path().parent().unwrap(), find(dir.path(), None));
        assert!(
            error.ends_with(
                ": is a folder: name a log in this folder with --part, or give the \
                 path of the log with --data"
            ),
            "{error}"
        );
    }

    #[test]
    fn the_real_logs_have_the_published_counts() {
        // Some published counts are lower, because they leave out jobs with a run time of zero seconds.
        let Some(dir) = public_data("swf") else { return };
        let logs = [
            ("KTH-SP2-1996-2.1-cln", 28_475, 100),
            ("theta_2022", 23_911, 4360),
            ("UniLu-Gaia-2014-1", 51_860, 2004),
            ("lublin_256", 10_000, 256),
        ];
        for (name, jobs, processors) in logs {
            let file = find(&dir, Some(name)).unwrap();
            let workload = whole(&mut open(&file, None, Window::Bounded).unwrap()).unwrap();
            let cores: u64 = workload.machines.iter().map(|m| m.capacity.as_slice()[0]).sum();
            assert_eq!((workload.arrivals.len(), cores), (jobs, processors * 1000), "{name}");
        }
    }
}
