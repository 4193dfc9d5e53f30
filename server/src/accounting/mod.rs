//! `omega accounting`: the amounts that jobs and tenants were allocated and used, by hour.
//!
//! The log of a replica has every change of every allocation with its time, and the agents' reports of use. So a served
//! cell does no work for the report. The report reaches back to the oldest snapshot of the directory.

mod rows;
mod usage;

use crate::log::which;
use crate::output;
use crate::served::Error;
use clap::{Args, ValueEnum};
use omega_core::Command;
use omega_store::history::{self, ReplayOptions};
use rows::{Per, Report};
use std::path::PathBuf;
use std::time::Duration;
use usage::Usage;

/// Arguments: the log to read, and the report to print.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega accounting r1\n  omega accounting r1 --last 24h --per tenant\n  \
    omega accounting r1 --from @1769817600 --to @1769904000 -o csv > day.csv"
)]
pub(crate) struct AccountingArgs {
    /// Directory of a stopped replica, or a copy of such a directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Rows to print for each hour.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Per::Job)]
    per: Per,
    /// Length of the reported period, which ends with the log, such as 24h [default: the whole log].
    #[arg(long, value_name = "TIME", conflicts_with_all = ["from", "to"],
          value_parser = crate::duration::duration)]
    last: Option<Duration>,
    /// Start of the reported period: @ and seconds since 1970, as `date +@%s` prints [default: the beginning of the
    /// log].
    #[arg(long, value_name = "@SECONDS", value_parser = seconds)]
    from: Option<u64>,
    /// End of the reported period, in the format of --from [default: the end of the log].
    #[arg(long, value_name = "@SECONDS", value_parser = seconds)]
    to: Option<u64>,
    /// Output format; docs/accounting.md describes the fields.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Include log entries that are not known to be committed.
    #[arg(long)]
    all: bool,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text in columns, in core-hours and GiB-hours.
    Table,
    /// Comma-separated values, in core-seconds and byte-seconds.
    Csv,
    /// JSON, in core-seconds and byte-seconds.
    Json,
}

/// Parses a time such as `@1764000000`, and returns it in milliseconds since 1970.
fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.strip_prefix('@').and_then(|digits| digits.parse::<u64>().ok());
    let ms = seconds.and_then(|seconds| seconds.checked_mul(1000));
    ms.ok_or_else(|| format!("{text:?} must be @ and seconds since 1970, as `date +@%s` prints"))
}

/// Runs the command.
pub(crate) fn run(args: &AccountingArgs) -> Result<(), Error> {
    let mut history = history::open(&args.dir)?;
    let options = ReplayOptions { scope: which(args.all), ..ReplayOptions::default() };
    let mut from_ms = args.from.unwrap_or(0);
    let to_ms = args.to.unwrap_or(u64::MAX);
    if let Some(last) = args.last {
        // Only a full read of the log finds its end.
        let end_ms = history.replay(&options)?.cell().now_ms();
        from_ms = end_ms.saturating_sub(u64::try_from(last.as_millis()).unwrap_or(u64::MAX));
    }
    let mut usage = Usage::within(from_ms..to_ms);
    let mut begin_ms = None;
    let replay = history.replay_watched(&options, &mut |next, cell| {
        // The cell's time is 0 before the first entry that has a time.
        if cell.now_ms() > 0 {
            begin_ms.get_or_insert(cell.now_ms());
        }
        usage.observe(cell);
        if let Some(Command::ReportUse { machine, used }) = next {
            usage.add_use(cell, *machine, used);
        }
    })?;
    let cell = replay.cell();
    let times_ms = from_ms.max(begin_ms.unwrap_or(0))..to_ms.min(cell.now_ms());
    let report = Report::new(cell.kinds(), times_ms, usage.finish(), args.per);
    let text = match args.output {
        Format::Table => report.table(),
        Format::Csv => report.csv(),
        Format::Json => report.json(),
    };
    Ok(output::print(&text)?)
}
