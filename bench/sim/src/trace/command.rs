//! `omega-sim trace`: its verbs, their arguments, and what they print.

use super::collector::Collector;
use super::info::Info;
use super::plots;
use super::show;
use super::synth::{self, Form, Size, SynthError, SynthOptions};
use clap::{Args, Subcommand, ValueEnum};
use omega_core::Kinds;
use omega_workload::input::{InputArgs, InputError};
use omega_workload::reopened::Reopened;
use omega_workload::stream::{Event, Names};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

/// Describe traces, and generate similar ones.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Describe a trace: its machines and jobs, percentiles of their sizes, and its load against its capacity.
    ///
    /// Give at most one input: --trace, --cluster, or --machines with --jobs. Without an input, the synthetic workload
    /// is described.
    Info(InfoArgs),
    /// Generate a longer or larger trace with the distributions of an example.
    ///
    /// Give at most one input as the example: --trace, --cluster, or --machines with --jobs. Without an input, the
    /// example is the synthetic workload.
    Synth(SynthArgs),
}

/// The trace, and the output format.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega-sim trace info --trace openb --data data")]
pub struct InfoArgs {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Write plots of the load over time and of each distribution to this folder, as SVG and PNG [default: no plots].
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Seed of the synthetic workload, and of the run times of the azure trace.
    ///
    /// The azure trace has a range for each run time, from which a run time is drawn at random. The seed has no effect
    /// on other traces.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    input: InputArgs,
}

/// The example trace, and the generated one.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  omega-sim trace synth --trace openb --data data --out-machines x4 --out large"
)]
pub struct SynthArgs {
    /// Folder for machines.csv and jobs.csv. The command fails if one of these files exists.
    #[arg(long, value_name = "DIR", help_heading = "Result")]
    out: PathBuf,
    /// Compress the tables: write machines.csv.gz and jobs.csv.gz.
    #[arg(long, help_heading = "Result")]
    gzip: bool,
    /// Number of machines, such as 5000, or x4 for four times as many as in the example.
    ///
    /// The rate of arrivals grows in proportion.
    #[arg(long, value_name = "xN|N", allow_negative_numbers = true, default_value = "x1",
          value_parser = size, help_heading = "Result")]
    out_machines: Size,
    /// Load per machine, as a multiple of the example's load per machine: x1.5 for 50 % more jobs.
    #[arg(long, value_name = "xF", allow_negative_numbers = true, default_value = "x1",
          value_parser = factor, help_heading = "Result")]
    out_load: u64,
    /// Length in hours [default: the length of the example].
    #[arg(long, value_name = "HOURS", allow_negative_numbers = true, value_parser = hours,
          help_heading = "Result")]
    out_hours: Option<u64>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1)]
    seed: u64,
    /// Format of the printed comparison of the example and the generated trace.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    input: InputArgs,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text in columns.
    Table,
    /// JSON.
    Json,
}

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The trace cannot be read. Correct the file.
    #[error(transparent)]
    Input(#[from] InputError),
    /// No trace could be generated. The message has the reason.
    #[error(transparent)]
    Synth(#[from] SynthError),
    /// A plot cannot be written. Name another folder, or make room on the disk.
    #[error("{}: cannot be written: {why}", dir.display())]
    Write {
        /// The folder.
        dir: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The output cannot be written. Make room on the disk.
    #[error("cannot write to standard output: {0}")]
    Print(io::Error),
}

/// Parses a multiple from `x0.001` to `x1000` in thousandths; the `x` is optional.
fn factor(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix('x').unwrap_or(text).parse::<f64>();
    match number.map(|number| (number * 1000.0).round()) {
        Ok(permille) if (1.0..=1_000_000.0).contains(&permille) => Ok(permille as u64),
        _ => Err("must be a factor from x0.001 to x1000".to_owned()),
    }
}

fn size(text: &str) -> Result<Size, String> {
    if text.starts_with('x') {
        return factor(text).map(Size::Times);
    }
    match text.parse() {
        Ok(count) if count > 0 => Ok(Size::Count(count)),
        _ => Err("must be a number of machines, or a factor such as x4".to_owned()),
    }
}

/// Parses hours, at most ten years, and returns milliseconds.
fn hours(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(hours) if (0.001..=87_600.0).contains(&hours) => {
            Ok((hours * 3_600_000.0).round() as u64)
        }
        _ => Err("must be a number of hours from 0.001 to 87600".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// If a trace cannot be read, or the result cannot be written.
pub fn run(command: &TraceCommand) -> Result<(), TraceError> {
    match command {
        TraceCommand::Info(args) => {
            let (info, kinds) = look(&args.input, args.seed)?;
            if let Some(dir) = &args.plots {
                plots::write(dir, &info, &kinds)
                    .map_err(|why| TraceError::Write { dir: dir.clone(), why })?;
            }
            print(args.output, &info, || show::info(&info, &kinds))
        }
        TraceCommand::Synth(args) => {
            let options = SynthOptions {
                out: args.out.clone(),
                form: if args.gzip { Form::Gzip } else { Form::Plain },
                size: args.out_machines,
                load_permille: args.out_load,
                span_ms: args.out_hours,
                seed: args.seed,
            };
            let input = Reopened::new(&args.input, args.seed)?;
            let (report, kinds) = synth::make(&|| input.open(), &options)?;
            print(args.output, &report, || synth::show(&report, &kinds))
        }
    }
}

/// Statistics of an input whose jobs have different names, and its resource kinds.
fn look(input: &InputArgs, seed: u64) -> Result<(Info, Kinds), InputError> {
    let mut stream = input.open(seed)?;
    let kinds = stream.head().kinds.clone();
    let (mut collector, mut names) = (Collector::new(stream.head()), Names::default());
    while let Some(event) = stream.next_event()? {
        if let Event::Job(job) = &event {
            names.admit(job, &stream.head().jobs_at)?;
        }
        collector.add(&event);
    }
    Ok((collector.finish(stream.notes()), kinds))
}

/// Prints a result. It is not an error if the reader closes the output early, as `head` does.
fn print(
    output: Output,
    value: &impl Serialize,
    table: impl FnOnce() -> String,
) -> Result<(), TraceError> {
    let text = match output {
        Output::Table => table(),
        Output::Json => {
            serde_json::to_string_pretty(value).expect("the result has string keys only") + "\n"
        }
    };
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => Err(TraceError::Print(why)),
        _ => Ok(()),
    }
}
