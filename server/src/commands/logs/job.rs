//! Output of all tasks of a job, with each line after the name of its task.

use super::{Output, POLL_INTERVAL, Source};
use crate::commands::jobs::named_job;
use crate::commands::show::clean_name;
use crate::commands::task_state::State;
use crate::commands::{CommandError, task_pages};
use clap::ValueEnum;
use omega_client::ErrorCode;
use omega_client::proto::list_tasks_request::Of;
use omega_client::proto::{ReadTaskLogResponse, TaskStatus};
use omega_workload::words::plural;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Instant;

/// Maximum length of a line whose end has not arrived. A longer line is printed in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Output of one task.
struct TaskOutput {
    name: String,
    streams: Vec<Lines>,
    /// Whether the log could not be read at the last attempt.
    has_failed: bool,
}

/// One stream of a task, in lines.
struct Lines {
    output: Output,
    /// A line whose end has not arrived.
    begun: Vec<u8>,
}

/// The logs of a job's tasks.
struct Logs<'a> {
    source: &'a Source,
    job: &'a str,
    follow: bool,
    tasks: BTreeMap<u32, TaskOutput>,
}

/// Reason why no more output is printed.
enum Stop {
    /// The stream was closed, for example by `head`. This is not an error.
    Closed,
    Error(CommandError),
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Stop {
        Stop::Closed
    }
}

impl From<CommandError> for Stop {
    fn from(why: CommandError) -> Stop {
        Stop::Error(why)
    }
}

/// Prints the output of all tasks that have been placed; with `follow`, until all tasks of the job have ended.
pub(super) fn run(source: &Source, job: &str, follow: bool) -> Result<(), CommandError> {
    let mut logs = Logs { source, job, follow, tasks: BTreeMap::new() };
    match logs.print() {
        Err(Stop::Error(why)) => Err(why),
        Ok(()) | Err(Stop::Closed) => Ok(()),
    }
}

pub(super) fn has_ended(task: &TaskStatus) -> bool {
    State::value_variants().iter().any(|state| state.is_end() && state.is_of(task))
}

fn index(task: &TaskStatus) -> u32 {
    task.task.unwrap_or_default().index
}

impl Logs<'_> {
    fn print(&mut self) -> Result<(), Stop> {
        loop {
            let began = Instant::now();
            let of = named_job::by_name(self.job).map(Of::Job);
            let tasks = task_pages::list(&self.source.caller, of, None, None)?.items;
            for task in tasks.iter().filter(|task| !State::Pending.is_of(task)) {
                let (job, source) = (self.job, self.source);
                let new = || TaskOutput::new(job, index(task), source);
                self.tasks.entry(index(task)).or_insert_with(new);
            }
            let may_write: BTreeSet<u32> =
                tasks.iter().filter(|task| !has_ended(task)).map(index).collect();
            let mut busy = BTreeSet::new();
            for index in self.tasks.keys().copied().collect::<Vec<_>>() {
                if self.advance(index, may_write.contains(&index))? {
                    busy.insert(index);
                }
            }
            let is_over = may_write.is_empty() && self.tasks.values().all(TaskOutput::is_done);
            if !self.follow || is_over {
                return self.end();
            }
            // Tasks with much output are read again at once; the other tasks, and the list, once in each interval.
            while !busy.is_empty() && began.elapsed() < POLL_INTERVAL {
                for index in std::mem::take(&mut busy) {
                    if self.advance(index, true)? {
                        busy.insert(index);
                    }
                }
            }
            std::thread::sleep(POLL_INTERVAL.saturating_sub(began.elapsed()));
        }
    }

    /// Prints what a task has written: with `follow`, one part of each stream, so that each task has its turn;
    /// otherwise, all. Returns whether there was output.
    fn advance(&mut self, index: u32, may_write: bool) -> Result<bool, Stop> {
        let Some(task) = self.tasks.get_mut(&index) else { return Ok(false) };
        let mut is_new = false;
        for lines in &mut task.streams {
            while !lines.output.is_done() {
                let part = match self.source.read(self.job, index, &lines.output) {
                    Ok(part) => part,
                    // No agent has the log, or its agent is away.
                    Err(CommandError::Refused(why)) if why.code == ErrorCode::UnknownTask => {
                        task.fail(&why.to_string(), !self.follow || !may_write);
                        return Ok(is_new);
                    }
                    Err(why) => return Err(why.into()),
                };
                task.has_failed = false;
                is_new |= !part.data.is_empty();
                let text = lines.take(part, &task.name, self.follow);
                lines.output.stream.printed.print(&text)?;
                if self.follow {
                    break;
                }
            }
        }
        Ok(is_new)
    }

    /// Tells what could not be printed.
    fn end(&self) -> Result<(), Stop> {
        if self.tasks.is_empty() {
            let job = clean_name(self.job);
            drop(writeln!(io::stderr(), "omega: no task of job {job} has been placed yet"));
        }
        match self.tasks.values().filter(|task| task.has_failed).count() {
            0 => Ok(()),
            failed => Err(Stop::Error(CommandError::NoOutput(plural(failed as u64, "task")))),
        }
    }
}

impl TaskOutput {
    fn new(job: &str, index: u32, source: &Source) -> TaskOutput {
        let lines = |output| Lines { output, begun: Vec::new() };
        TaskOutput {
            name: format!("{}/{index}", clean_name(job)),
            streams: source.outputs().into_iter().map(lines).collect(),
            has_failed: false,
        }
    }

    fn is_done(&self) -> bool {
        self.streams.iter().all(|lines| lines.output.is_done())
    }

    /// Records that the log cannot be read, and prints the reason once. `is_final` ends the output of the task.
    fn fail(&mut self, why: &str, is_final: bool) {
        if !self.has_failed {
            // If standard error cannot be written, the output of the other tasks is printed nevertheless.
            drop(writeln!(io::stderr(), "omega: {}: {why}", self.name));
        }
        self.has_failed = true;
        for lines in &mut self.streams {
            lines.output.place.is_done |= is_final;
        }
    }
}

impl Lines {
    /// Takes a part of the log. Returns the lines to print, each after the name of the task.
    fn take(&mut self, part: ReadTaskLogResponse, name: &str, follow: bool) -> Vec<u8> {
        let has_moved = self.output.has_moved(&part);
        self.begun.extend(self.output.take(part, follow));
        let mut lines = Vec::new();
        let lines_end = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let is_cut =
            has_moved || self.output.is_done() || self.begun.len() - lines_end > LINE_BYTES_MAX;
        let whole = if is_cut { self.begun.len() } else { lines_end };
        let rest = self.begun.split_off(whole);
        for line in self.begun.split_inclusive(|byte| *byte == b'\n') {
            lines.extend(format!("{name} | ").into_bytes());
            lines.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                lines.push(b'\n');
            }
        }
        self.begun = rest;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::shown::{Printed, Shown};
    use super::super::{Place, Stream};
    use super::*;
    use omega_client::proto::LogStream;

    fn lines() -> Lines {
        let stream = Stream { of: LogStream::Stdout, printed: Printed::Stdout };
        let place = Place { from: Some(0), end: None, machine: None, is_done: false };
        Lines { output: Output { stream, place, shown: Shown::Raw }, begun: Vec::new() }
    }

    #[test]
    fn lines_are_whole_and_have_the_name_of_their_task() {
        let mut lines = lines();
        let mut from = 0;
        let mut take = |text: &str, running: bool| {
            let data = text.as_bytes().to_vec();
            let part = ReadTaskLogResponse { from, end: 99, running, data, machine: None };
            from += text.len() as u64;
            String::from_utf8(lines.take(part, "web/7", true)).expect("text")
        };
        assert_eq!(take("a\nb", true), "web/7 | a\n");
        assert_eq!(take("", true), "");
        assert_eq!(take("c\n\nd", true), "web/7 | bc\nweb/7 | \n");
        assert_eq!(
            take(&"x".repeat(LINE_BYTES_MAX), true).len(),
            "web/7 | d\n".len() + LINE_BYTES_MAX
        );
        let many = "line\n".repeat(LINE_BYTES_MAX) + "be";
        assert!(take(&many, true).ends_with("| line\n"));
        assert_eq!(take("gun\nend", true), "web/7 | begun\n");
        assert_eq!(take("", false), "web/7 | end\n");
        assert!(lines.output.is_done());
    }

    #[test]
    fn without_follow_the_output_ends_where_it_ended_at_first() {
        let mut lines = lines();
        let mut take = |part| lines.take(part, "web/0", false);
        let part = |from, data: &[u8]| ReadTaskLogResponse {
            from,
            end: from + 4,
            running: true,
            data: data.to_vec(),
            machine: None,
        };
        assert_eq!(take(part(0, b"a\n")), b"web/0 | a\n");
        assert_eq!(take(part(2, b"b\nc\n")), b"web/0 | b\nweb/0 | c\n");
        assert!(
            lines.output.is_done(),
            "the end of the second reply is further, because the task writes"
        );
    }

    #[test]
    fn a_log_on_another_machine_is_read_from_its_beginning() {
        let mut lines = lines();
        let part = |slot, from, data: &[u8]| ReadTaskLogResponse {
            from,
            end: 4,
            running: true,
            data: data.to_vec(),
            machine: Some(omega_client::proto::MachineId { slot, incarnation: 0 }),
        };
        assert_eq!(lines.take(part(1, 0, b"a\nb"), "web/0", true), b"web/0 | a\n");
        assert_eq!(lines.take(part(2, 3, b"\n"), "web/0", true), b"web/0 | b\n");
        assert_eq!(lines.output.place.from, Some(0));
        assert_eq!(lines.take(part(2, 0, b"c\nd\n"), "web/0", true), b"web/0 | c\nweb/0 | d\n");
    }
}
