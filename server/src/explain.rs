//! `omega explain`: runs a workload and explains the jobs that are pending at its end, or explains a job of a served
//! cell.

use crate::output;
use crate::run::{Error, HowArgs, prepare, with_bar};
use clap::Args;
use omega_run::Which;
use omega_run::report::waiting;
use omega_workload::input::InputArgs;
use std::path::{Path, PathBuf};

/// The job, and the options of `omega run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega explain --trace openb --data data\n  \
    omega explain --machines machines.csv --jobs jobs.csv huge\n  \
    omega explain --cell 10.0.0.1:7600 web")]
#[command(mut_arg("cell", |cell| cell.hide(false).value_name("HOST:PORT").help(
    "Address of a served cell that has JOB. If the cell uses TLS, OMEGA_CA, OMEGA_CERT and OMEGA_KEY name the \
     certificate files")))]
pub(crate) struct ExplainArgs {
    /// Name of the job; required with --cell [default: one job for each reason why tasks are pending].
    #[arg(value_name = "JOB")]
    job: Option<String>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Write the explanation as JSON to this file; `-` writes it to standard output, instead of the text.
    /// docs/explain.md describes the fields.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Explains a job of a served cell.
#[cfg(not(feature = "serve"))]
fn served(_: &str, _: &str, _: &ExplainArgs) -> Result<(), Error> {
    Err(crate::served::Error::NotBuilt("omega explain --cell ADDRESS".to_owned()).into())
}

/// Explains a job of a served cell.
#[cfg(feature = "serve")]
fn served(cell: &str, job: &str, args: &ExplainArgs) -> Result<(), Error> {
    let json = args.output.json.as_deref();
    output::check(json.as_slice(), &[])?;
    let response = crate::commands::jobs::explain::served(cell, job, args.how.profile())
        .map_err(crate::served::Error::from)?;
    let table = waiting::render_job(&response);
    let data = json.map(|file| {
        let (name, pending) = (cell.to_owned(), response.waiting);
        let (jobs, notes) = (vec![response], Vec::new());
        (file, waiting::json(&waiting::WaitingReport { name, pending, jobs, notes }))
    });
    output::show(&table, data.as_ref().map(|(file, text)| (*file, text.as_str())))?;
    Ok(())
}

pub(crate) fn explain(args: &ExplainArgs) -> Result<(), Error> {
    if let Some(cell) = args.input.served() {
        let job = args
            .job
            .as_deref()
            .ok_or(Error::Arguments("JOB is missing: with --cell, give the name of one job"))?;
        return served(cell, job, args);
    }
    let outputs: Vec<&Path> = args.output.json.iter().map(PathBuf::as_path).collect();
    let (workload, options) = prepare((&args.input, &args.how), &outputs)?;
    let which = match &args.job {
        Some(name) if workload.arrivals.iter().any(|arrival| *arrival.job.name == **name) => {
            Which::Job(name)
        }
        Some(name) => return Err(Error::NoJob { job: name.clone(), input: workload.name }),
        None => Which::EachReason,
    };
    let report = with_bar(args.output.quiet, workload, |workload, progress| {
        omega_run::explain(workload, &options, which, progress)
    })?;
    show(args, &report)
}

fn show(args: &ExplainArgs, report: &waiting::WaitingReport) -> Result<(), Error> {
    let json = args.output.json.as_deref().map(|file| (file, waiting::json(report)));
    let data = json.as_ref().map(|(file, text)| (*file, text.as_str()));
    Ok(output::show(&waiting::render(report), data)?)
}
