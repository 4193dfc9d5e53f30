//! A model of a cell on more processors than this computer has.
//!
//! Question: how many tasks do 1 to 64 workers place in a second on up to 64 processors, and what limits them?

mod costs;
mod rate;

use crate::measure::Options;
use crate::measure::cells::{self, Made};
use crate::measure::clock::median;
use crate::measure::scaling;
use crate::print::say;
use clap::Args;
use costs::Costs;
use omega_sim::plot::{Axis, Line, Plot, Style};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Numbers of claims of a transaction, which are also the numbers of tasks of a job.
const CLAIMS: [usize; 3] = [1, 10, 100];

/// Numbers of workers.
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Numbers of processors for which rates are predicted.
const PROCESSORS: [usize; 3] = [4, 16, 64];

/// Number of leading entries of [`WORKERS`] whose rates are also measured.
const MEASURED: usize = 4;

/// Index of two workers in [`WORKERS`].
const TWO: usize = 1;

/// Nanoseconds that a second prediction adds to each placement without the lock, as for many score plugins.
const LONGER: f64 = 10_000.0;

/// Options of the command.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    /// Make fewer and shorter runs, whose figures are too inexact to publish.
    #[arg(long)]
    quick: bool,
    /// Write a plot of the predicted rates to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The model of transactions with one number of claims.
struct Model {
    claims: usize,
    /// Costs for each number of workers.
    costs: [Costs; WORKERS.len()],
    /// Measured placements per second, for the first entries of [`WORKERS`].
    measured: [f64; MEASURED],
    /// Nanoseconds per placement to fetch cache lines from other processors.
    fetch: f64,
}

/// Measures the costs, and prints the predicted rates.
pub(crate) fn print(args: &ModelArgs) -> ExitCode {
    // A file that cannot be written is an error before the measurements. Until they end, an old file stays as it is.
    if let Some(path) = &args.svg
        && let Err(why) = File::options().append(true).create(true).open(path)
    {
        return failed(path, &why);
    }
    let options = Options::outside_of_table(args.quick);
    let made = cells::in_use(10_000);
    let models = CLAIMS.map(|claims| {
        eprintln!("measuring placements, {claims} per transaction");
        Model::measure(&options, &made, claims)
    });
    say!("Costs of a placement, by the number of workers that take turns on one thread:");
    for model in &models {
        model.print_costs();
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    say!("\nPlacements on {processors} processors, M/s (fitted to the rate of two workers):");
    for model in &models {
        model.print_check(processors);
    }
    say!("\nPredicted placements, M/s:");
    for model in &models {
        model.print_rates(0.0);
    }
    say!("\nPredicted placements, M/s, if each takes {} us longer without the lock:", LONGER / 1e3);
    for model in &models {
        model.print_rates(LONGER);
    }
    let Some(path) = &args.svg else { return ExitCode::SUCCESS };
    match std::fs::write(path, plot(&models).svg()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(path, &why),
    }
}

fn failed(path: &Path, why: &io::Error) -> ExitCode {
    eprintln!("omega-bench: {} cannot be written: {why}", path.display());
    ExitCode::FAILURE
}

impl Model {
    /// Measures costs and rates by turns, so that a slow minute slows both.
    fn measure(options: &Options, made: &Made, claims: usize) -> Model {
        let mut costs = WORKERS.map(|_| Vec::new());
        let mut walls = [(); MEASURED].map(|()| Vec::new());
        for _ in 0..options.runs() {
            for (costs, workers) in costs.iter_mut().zip(WORKERS) {
                costs.push(costs::by_turns(options, made, workers, claims));
            }
            for (walls, workers) in walls.iter_mut().zip(WORKERS) {
                walls.push(scaling::wall(options, made, workers, claims));
            }
        }
        let costs = costs.map(|runs| Costs::median(&runs));
        let measured = walls.map(|runs| 1e9 / median(runs));
        let fetch = rate::fitted_fetch(&costs[TWO], measured[TWO]);
        Model { claims, costs, measured, fetch }
    }

    /// Predicted placements per second if each placement takes `longer` more nanoseconds without the lock. `at` is an index
    /// of [`WORKERS`].
    fn rate(&self, at: usize, processors: usize, longer: f64) -> f64 {
        let costs = Costs { unlocked: self.costs[at].unlocked + longer, ..self.costs[at] };
        rate::placements_per_s(&costs, processors.min(WORKERS[at]), self.fetch)
    }

    /// Text such as `1 claim` or `10 claims`.
    fn claims(&self) -> String {
        format!("{} claim{}", self.claims, if self.claims == 1 { "" } else { "s" })
    }

    fn print_costs(&self) {
        say!("{} per transaction", self.claims());
        row("  workers", WORKERS.iter().map(ToString::to_string));
        let figures = |figure: fn(&Costs) -> f64| {
            self.costs.iter().map(move |costs| format!("{:.0}", figure(costs)))
        };
        row("  ns with the lock", figures(|costs| costs.locked));
        row("  ns without the lock", figures(|costs| costs.unlocked));
        row("  placements per lock", figures(|costs| costs.at_once));
    }

    fn print_check(&self, processors: usize) {
        say!("{} per transaction", self.claims());
        row("  workers", WORKERS.iter().take(MEASURED).map(ToString::to_string));
        row("  measured", self.measured.into_iter().map(millions));
        row("  predicted", (0..MEASURED).map(|at| millions(self.rate(at, processors, 0.0))));
        say!("  fitted: {:.0} ns per placement to fetch cache lines", self.fetch);
    }

    fn print_rates(&self, longer: f64) {
        say!("{} per transaction", self.claims());
        row("  workers", WORKERS.iter().map(ToString::to_string));
        for processors in PROCESSORS {
            let rates = (0..WORKERS.len()).map(|at| millions(self.rate(at, processors, longer)));
            row(&format!("  on {processors} processors"), rates);
        }
    }
}

fn millions(per_s: f64) -> String {
    format!("{:.2}", per_s / 1e6)
}

fn row(name: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!("{cell:>8}")).collect();
    say!("{name:<32}{cells}");
}

/// Plot of predicted rates on few and on many processors; for 10 claims, also with [`LONGER`].
fn plot(models: &[Model]) -> Plot {
    let x = Axis::log("workers");
    let y = Axis { least: Some(0.0), ..Axis::linear("placements per second, millions") };
    let mut plot = Plot::new("Predicted rates of one cell of 10,000 machines", x, y);
    let cheap = models.iter().map(|model| (model, 0.0));
    let longer = models.iter().filter(|model| model.claims == 10).map(|model| (model, LONGER));
    for (colour, (model, longer)) in cheap.chain(longer).enumerate() {
        let more = if longer > 0.0 { ", 10 us longer" } else { "" };
        for (processors, style) in [(64, Style::Solid), (4, Style::Dashed)] {
            let rate = |at| model.rate(at, processors, longer) / 1e6;
            let points =
                WORKERS.iter().enumerate().map(|(at, workers)| (*workers as f64, rate(at)));
            let name = format!("{}{more}, {processors} processors", model.claims());
            let line = Line::new(name, points.collect()).styled(style);
            plot = plot.line(Line { colour: Some(colour), ..line });
        }
    }
    plot
}
