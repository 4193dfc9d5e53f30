//! `omega task logs`: output of a task, as its agent has stored it.

use crate::ask::call::Caller;
use crate::ask::jobs::named_job;
use crate::ask::resize::name;
use crate::ask::{AskArgs, AskError};
use clap::Args;
use omega_client::proto;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_core::text::is_hidden;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Interval at which `--follow` requests more output after an empty reply.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The task, and the part of its output to print.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Task: the name of its job and its number, such as web/0.
    #[arg(value_name = "JOB/INDEX", value_parser = name)]
    task: (String, u32),
    /// Print standard error instead of standard output.
    #[arg(long)]
    stderr: bool,
    /// Go on printing output as it is written, until the task has ended.
    #[arg(long, short)]
    follow: bool,
    /// Print only the last N lines [default: all that the agent keeps].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tail: Option<u32>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Prints the log.
pub(super) fn run(args: &LogsArgs) -> Result<(), AskError> {
    let caller = args.ask.caller()?;
    let mut out = io::stdout().lock();
    let mut shown = if out.is_terminal() { Shown::Safe(Vec::new()) } else { Shown::Raw };
    let mut from = match args.tail {
        Some(_) => None,
        None => Some(0),
    };
    let mut end = None;
    loop {
        let part = read(&caller, args, from)?;
        let is_empty = part.data.is_empty();
        let next = part.from.saturating_add(part.data.len() as u64);
        // Without --follow, output that is written after the first reply is not printed.
        let end = *end.get_or_insert(part.end);
        let printed = out.write_all(&shown.text(part.data)).and_then(|()| out.flush());
        // Standard output was closed, for example by `head`. This is not an error.
        let is_done = if args.follow { is_empty && !part.running } else { is_empty || next >= end };
        if printed.is_err() || is_done {
            return Ok(());
        }
        from = Some(next);
        if is_empty {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn read(
    caller: &Caller,
    args: &LogsArgs,
    from: Option<u64>,
) -> Result<proto::ReadTaskLogResponse, AskError> {
    let stream = if args.stderr { proto::LogStream::Stderr } else { proto::LogStream::Stdout };
    let request = proto::ReadTaskLogRequest {
        job: named_job::by_name(&args.task.0),
        index: args.task.1,
        stream: stream.into(),
        from,
        tail_lines: args.tail.unwrap_or_default(),
    };
    caller.call(&request, |channel, request| async move {
        TaskServiceClient::new(channel).read_task_log(request).await
    })
}

/// Form in which log output is printed: unchanged for a file or a pipe; for a terminal, with control characters
/// replaced. `Safe` keeps the received bytes of an incomplete UTF-8 character.
enum Shown {
    Raw,
    Safe(Vec<u8>),
}

impl Shown {
    fn text(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let Shown::Safe(begun) = self else { return bytes };
        begun.extend(bytes);
        // An incomplete character at the end waits for its other bytes.
        let last = begun.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
        let is_incomplete = std::str::from_utf8(last).is_err_and(|why| why.error_len().is_none());
        let kept = if is_incomplete { last.len() } else { 0 };
        let rest = begun.split_off(begun.len() - kept);
        let text = String::from_utf8_lossy(&std::mem::replace(begun, rest)).into_owned();
        let is_harmful = |c: char| is_hidden(c) && c != '\n' && c != '\t';
        text.replace("\r\n", "\n").replace(is_harmful, "\u{fffd}").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(parts: &[&[u8]]) -> String {
        let mut shown = Shown::Safe(Vec::new());
        let text: Vec<u8> = parts.iter().flat_map(|part| shown.text(part.to_vec())).collect();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(safe(&[b"a\x1b[2Jb\tc\r\n\x07d\n"]), "a\u{fffd}[2Jb\tc\n\u{fffd}d\n");
        assert_eq!(safe(&["\u{202e}abc\n".as_bytes()]), "\u{fffd}abc\n");
    }

    #[test]
    fn characters_in_two_parts_are_whole() {
        assert_eq!(safe(&[b"gr\xc3", b"\xb6\xc3", b"\x9f", b"e\n"]), "größe\n");
        assert_eq!(safe(&[b"\xff\xfea", b"\xc3", b"x"]), "\u{fffd}\u{fffd}a\u{fffd}x");
    }

    #[test]
    fn bytes_that_are_no_text_take_little_time() {
        let shown = safe(&[&[0xff; 4 << 20], b"\xc3", b"\xb6"]);
        assert_eq!(shown.chars().filter(|c| *c == '\u{fffd}').count(), 4 << 20);
        assert!(shown.ends_with("\u{fffd}ö"));
    }

    #[test]
    fn a_file_gets_every_byte() {
        assert_eq!(Shown::Raw.text(b"\x1b\xff".to_vec()), b"\x1b\xff");
    }
}
