//! `omega-sim paper`: reproduces figures of the Omega paper, and writes a report with plots.

use super::SimError;
use super::folder::{prepare_report, write_report};
use super::streams::stdout;
use crate::page::Section;
use crate::paper::{self, CellPair, Experiment};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The figures, their job lists, and the folder of the report.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega-sim paper fig5 fig7\n  omega-sim paper all --out paper")]
pub struct PaperArgs {
    /// Figures: fig5, fig6, fig7, fig8, fig9, fig10, fig13, fig14, fig15, fig16, or all.
    ///
    /// Separate figures by spaces. fig5 and fig6 show the same runs, and so do fig15 and fig16: if one of a pair is
    /// given, both are reported.
    #[arg(value_name = "FIGURE", required = true, value_parser = experiment)]
    figures: Vec<Which>,
    /// Folder for the report, created if missing: report.html, report.md, and each plot as SVG and PNG.
    #[arg(long, value_name = "DIR", default_value = "paper")]
    out: PathBuf,
    /// Folder with the job lists of the Omega paper's simulator [default: lists are generated].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of Google's trace of May 2011, which fig13 needs. Without it, `all` leaves out fig13.
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Seed of the generated job lists.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Experiments that the command line names.
#[derive(Clone, Debug)]
enum Which {
    All,
    One(&'static Experiment),
}

fn experiment(name: &str) -> Result<Which, String> {
    if name == "all" {
        return Ok(Which::All);
    }
    Experiment::named(name).map(Which::One).map_err(|why| why.to_string())
}

pub(super) fn run(args: &PaperArgs) -> Result<ExitCode, SimError> {
    let lab = match &args.data {
        Some(dir) => CellPair::of_files(dir, args.seed)?,
        None => CellPair::generated(args.seed),
    };
    let lab = match &args.trace {
        Some(dir) => lab.with_trace(dir)?,
        None => lab,
    };
    if let Some(one) = named(&args.figures).find(|experiment| !experiment.has_ground(&lab)) {
        let why =
            format!("{} needs --trace DIR, the folder of Google's trace of May 2011", one.name);
        return Err(SimError::Lacks(why));
    }
    prepare_report(&args.out)?;
    let mut out = stdout();
    let mut sections: Vec<Section> = Vec::new();
    for experiment in chosen(&args.figures) {
        if !experiment.has_ground(&lab) {
            writeln!(out, "{}: left out without --trace", experiment.title)?;
            continue;
        }
        writeln!(out, "{}", experiment.title)?;
        let section = experiment.run(&lab);
        for check in &section.checks {
            let word = if check.holds { "holds" } else { "FAILS" };
            writeln!(out, "  {word}  {}: {}", check.claim, check.found)?;
        }
        sections.push(section);
    }
    let page = paper::report(&lab, sections);
    let file = write_report(&args.out, &page)?;
    writeln!(out, "report: {}", file.display())?;
    Ok(if page.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The experiments given by name.
fn named(asked: &[Which]) -> impl Iterator<Item = &'static Experiment> {
    asked.iter().filter_map(|which| match which {
        Which::All => None,
        Which::One(one) => Some(*one),
    })
}

/// The chosen experiments, each once, in the order of the paper.
fn chosen(asked: &[Which]) -> impl Iterator<Item = &'static Experiment> + '_ {
    let all = asked.iter().any(|which| matches!(which, Which::All));
    let is_asked = move |it: &&Experiment| all || named(asked).any(|one| one.name == it.name);
    paper::ALL.iter().filter(is_asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_figures_of_the_same_runs_are_run_once() {
        let named = |names: &[&str]| -> Vec<&str> {
            let asked: Vec<Which> = names.iter().map(|name| experiment(name).unwrap()).collect();
            chosen(&asked).map(|experiment| experiment.name).collect()
        };
        assert_eq!(named(&["fig16", "fig6", "fig5"]), ["fig5", "fig15"]);
        assert_eq!(named(&["fig6"]), ["fig5"]);
        assert_eq!(named(&["fig9", "all"]).len(), paper::ALL.len());
    }
}
