//! `omega task logs`: output of a task, or of all tasks of a job, as their agents have stored it.

mod job;
mod shown;

use crate::commands::call::Caller;
use crate::commands::jobs::named_job;
use crate::commands::resize::name;
use crate::commands::show::Format;
use crate::commands::{CommandArgs, CommandError, task_pages};
use clap::Args;
use omega_client::convert::Malformed;
use omega_client::proto::list_tasks_request::Of;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_client::{ErrorCode, proto};
use shown::{Printed, Shown};
use std::io::{self, Write};
use std::time::Duration;

/// Interval at which `--follow` requests more output after an empty reply.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The task or job, and the part of the output to print.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Task: the name of its job and its number, such as web/0. With the name of a job alone, the output of all its
    /// tasks is printed, each line after the name of the task.
    #[arg(value_name = "JOB[/INDEX]", value_parser = target)]
    target: Target,
    /// Print only the standard output of the tasks [default: standard output and standard error, each on the same
    /// stream of this program].
    #[arg(long)]
    stdout: bool,
    /// Print only the standard error of the tasks, on standard output.
    #[arg(long, conflicts_with = "stdout")]
    stderr: bool,
    /// Go on printing output as it is written, until the task, or all tasks of the job, have ended.
    #[arg(long, short)]
    follow: bool,
    /// Print only the last N lines of each stream of each task [default: all that the agent keeps].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tail: Option<u32>,
    #[command(flatten)]
    common: CommandArgs,
}

/// Tasks whose output is printed.
#[derive(Clone, Debug)]
enum Target {
    Task(String, u32),
    Job(String),
}

fn target(text: &str) -> Result<Target, String> {
    match name(text) {
        Ok((job, index)) => Ok(Target::Task(job, index)),
        Err(why) if text.is_empty() => Err(why),
        // Shells complete the name of a job with a slash.
        Err(_) => Ok(Target::Job(text.strip_suffix('/').unwrap_or(text).to_owned())),
    }
}

impl LogsArgs {
    fn streams(&self) -> Vec<Stream> {
        use proto::LogStream::{Stderr, Stdout};
        let stream = |of, printed| Stream { of, printed };
        match (self.stdout, self.stderr) {
            (true, _) => vec![stream(Stdout, Printed::Stdout)],
            (_, true) => vec![stream(Stderr, Printed::Stdout)],
            _ => vec![stream(Stdout, Printed::Stdout), stream(Stderr, Printed::Stderr)],
        }
    }
}

/// Prints the log.
pub(super) fn run(args: &LogsArgs) -> Result<(), CommandError> {
    if args.common.output != Format::Table {
        let why = "the output of tasks is printed as it is: leave out this option";
        return Err(CommandError::Field { place: "--output".to_owned(), why: why.to_owned() });
    }
    let source = Source { caller: args.common.caller()?, tail: args.tail, streams: args.streams() };
    match &args.target {
        Target::Task(job, index) => one(&source, job, *index, args.follow),
        Target::Job(job) => job::run(&source, job, args.follow),
    }
}

/// Prints the output of one task.
fn one(source: &Source, job: &str, index: u32, follow: bool) -> Result<(), CommandError> {
    let mut outputs = source.outputs();
    let mut awaited = Awaited::default();
    while !outputs.iter().all(Output::is_done) {
        let mut is_new = false;
        'outputs: for output in &mut outputs {
            while !output.is_done() {
                let part = match source.read(job, index, output) {
                    Ok(part) => part,
                    Err(why) if follow => {
                        awaited.fail(why, || source.has_ended(job, index))?;
                        break 'outputs;
                    }
                    Err(why) => return Err(why),
                };
                awaited.has_ended = false;
                is_new |= !part.data.is_empty();
                let text = output.take(part, follow);
                if output.stream.printed.print(&text).is_err() {
                    // The stream was closed, for example by `head`. This is not an error.
                    return Ok(());
                }
                // With --follow, the other stream has its turn.
                if follow {
                    break;
                }
            }
        }
        if !is_new && !outputs.iter().all(Output::is_done) {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(())
}

/// A log that cannot be read now, because the task has not started, or its agent is away.
#[derive(Debug, Default)]
struct Awaited {
    is_told: bool,
    /// Whether the task had ended at the last attempt, so that the next one is the last.
    has_ended: bool,
}

impl Awaited {
    /// Handles a failed attempt. The reason is printed once.
    ///
    /// # Errors
    /// If another attempt will not help.
    fn fail(
        &mut self,
        why: CommandError,
        has_ended: impl FnOnce() -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let reason = match &why {
            CommandError::Refused(error) if error.code == ErrorCode::UnknownTask => &error.message,
            _ => return Err(why),
        };
        if self.has_ended {
            return Err(why);
        }
        self.has_ended = has_ended()?;
        if !self.is_told && !self.has_ended {
            // If standard error cannot be written, the output is printed nevertheless.
            drop(writeln!(io::stderr(), "omega: {reason}: waiting"));
            self.is_told = true;
        }
        Ok(())
    }
}

/// A stream of a task, and the stream of this program to which it is printed.
#[derive(Clone, Copy)]
struct Stream {
    of: proto::LogStream,
    printed: Printed,
}

/// One stream of a task, which was read up to a place.
struct Output {
    stream: Stream,
    place: Place,
    shown: Shown,
}

impl Output {
    /// Takes a part of the log. Returns what is to be printed.
    fn take(&mut self, part: proto::ReadTaskLogResponse, follow: bool) -> Vec<u8> {
        let data = self.place.take(part, follow);
        self.shown.text(data)
    }

    fn is_done(&self) -> bool {
        self.place.is_done
    }

    /// Whether a part is of another machine's log than the part before.
    fn has_moved(&self, part: &proto::ReadTaskLogResponse) -> bool {
        self.place.has_moved(part)
    }
}

/// A place in a task's log, up to which it was read.
struct Place {
    /// Position of the next part; `None` for the last lines.
    from: Option<u64>,
    /// End of the log at the first reply.
    end: Option<u64>,
    /// Machine of the last part.
    machine: Option<proto::MachineId>,
    /// Whether all was read that is to be printed.
    is_done: bool,
}

impl Place {
    fn has_moved(&self, part: &proto::ReadTaskLogResponse) -> bool {
        self.machine.zip(part.machine).is_some_and(|(before, now)| before != now)
    }

    /// Advances by a part of the log, and returns the part's bytes. A part of another machine's log is left out, because
    /// that log is read from its beginning.
    fn take(&mut self, part: proto::ReadTaskLogResponse, follow: bool) -> Vec<u8> {
        let has_moved = self.has_moved(&part);
        self.machine = part.machine.or(self.machine);
        if has_moved {
            (self.from, self.end) = (Some(0), None);
            return Vec::new();
        }
        let is_empty = part.data.is_empty();
        let next = part.from.saturating_add(part.data.len() as u64);
        self.from = Some(next);
        // Without --follow, output that is written after the first reply is not printed.
        let end = *self.end.get_or_insert(part.end);
        self.is_done = if follow { is_empty && !part.running } else { is_empty || next >= end };
        part.data
    }
}

/// The cell, and the part of the logs to read.
struct Source {
    caller: Caller,
    tail: Option<u32>,
    streams: Vec<Stream>,
}

impl Source {
    /// The streams of a task, of which nothing was read.
    fn outputs(&self) -> Vec<Output> {
        let from = if self.tail.is_some() { None } else { Some(0) };
        let output = |stream: &Stream| Output {
            stream: *stream,
            place: Place { from, end: None, machine: None, is_done: false },
            shown: Shown::on(stream.printed),
        };
        self.streams.iter().map(output).collect()
    }

    /// Whether a task has ended.
    ///
    /// # Errors
    /// If there is no such task.
    fn has_ended(&self, job: &str, index: u32) -> Result<bool, CommandError> {
        let of = named_job::by_name(job).map(Of::Job);
        let request = proto::ListTasksRequest { of, index: Some(index), ..Default::default() };
        let page = task_pages::page(&self.caller, &request)?;
        Ok(job::has_ended(page.tasks.first().ok_or(Malformed::Missing("tasks"))?))
    }

    /// Reads the next part of a stream of a task.
    fn read(
        &self,
        job: &str,
        index: u32,
        output: &Output,
    ) -> Result<proto::ReadTaskLogResponse, CommandError> {
        let request = proto::ReadTaskLogRequest {
            job: named_job::by_name(job),
            index,
            stream: output.stream.of.into(),
            from: output.place.from,
            tail_lines: self.tail.unwrap_or_default(),
        };
        self.caller.call(&request, |channel, request| async move {
            TaskServiceClient::new(channel).read_task_log(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_client::ApiError;

    fn refused(code: ErrorCode) -> CommandError {
        CommandError::Refused(ApiError::new(code, "no log"))
    }

    #[test]
    fn a_log_is_awaited_until_the_task_has_ended() {
        let mut awaited = Awaited::default();
        for has_ended in [false, false, true] {
            assert!(awaited.fail(refused(ErrorCode::UnknownTask), || Ok(has_ended)).is_ok());
        }
        let last = awaited.fail(refused(ErrorCode::UnknownTask), || Ok(true));
        assert!(last.is_err(), "it was read once more after the end");
        let mut awaited = Awaited::default();
        let unknown = || Err(refused(ErrorCode::UnknownTask));
        assert!(awaited.fail(refused(ErrorCode::UnknownTask), unknown).is_err(), "no such task");
        assert!(awaited.fail(refused(ErrorCode::Denied), || Ok(false)).is_err());
    }
}
