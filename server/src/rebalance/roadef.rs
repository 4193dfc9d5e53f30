//! `omega rebalance --roadef`: the search on an instance of the machine reassignment contest (ROADEF/EURO 2012).

use super::error::RoadefError;
use super::{Clock, RebalanceArgs};
use crate::run::Error;
use crate::{output, progress};
use omega_reassign::contest::{self};
use omega_reassign::{Budget, Costs, Found, Instance, Problem, Settings, State, Watch, search};
use omega_workload::compressed::read_text;
use parking_lot::Mutex;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Clock of a search that also shows and records the progress of the search.
struct Progress {
    clock: Clock,
    /// The progress bar, the least cost so far, and the times at which lower costs were found.
    log: Mutex<SearchLog>,
}

struct SearchLog {
    bar: progress::SearchBar,
    least: i64,
    trail: Vec<(f64, i64)>,
}

impl Watch for Progress {
    fn spent(&self) -> f64 {
        self.clock.spent_of(super::ALL)
    }

    fn best(&self, cost: i64) {
        let log = &mut *self.log.lock();
        let elapsed = self.clock.start.elapsed();
        if cost < log.least {
            log.least = cost;
            log.trail.push((elapsed.as_secs_f64(), cost));
        }
        log.bar.show(elapsed, log.least);
    }
}

/// Reads the instance, searches, and writes the best assignment.
pub(super) fn rebalance(args: &RebalanceArgs, files: &[PathBuf]) -> Result<(), Error> {
    let [model, assignment] = files else {
        return Err(Error::Arguments("--roadef needs two files: MODEL ASSIGNMENT"));
    };
    let outputs: Vec<&Path> = [&args.output.out, &args.output.trail]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    output::check(&outputs, &[model, assignment])?;
    let instance = read(model, assignment).map_err(super::RebalanceError::Roadef)?;
    let of_problem = |why| RoadefError::Problem { file: assignment.clone(), why };
    let problem =
        Problem::new(instance).map_err(of_problem).map_err(super::RebalanceError::Roadef)?;
    let before =
        State::new(&problem).map_err(of_problem).map_err(super::RebalanceError::Roadef)?.costs();
    let clock = args.clock()?;
    let log = Mutex::new(SearchLog {
        bar: progress::SearchBar::new(args.output.quiet, clock.limit),
        least: i64::MAX,
        trail: vec![(0.0, before.total())],
    });
    let progress = Progress { clock, log };
    let settings = Settings {
        seed: args.how.seed(),
        walks: args.walks(),
        budget: args.pass.steps.map_or(Budget::Watched, Budget::Steps),
    };
    let found = search(&problem, settings, &progress)
        .map_err(of_problem)
        .map_err(super::RebalanceError::Roadef)?;
    let Progress { clock, log } = progress;
    let elapsed = clock.start.elapsed();
    let SearchLog { bar, trail, .. } = log.into_inner();
    bar.clear();
    if let Some(file) = &args.output.out {
        output::write(file, &contest::write_assignment(&found.assignment))?;
    }
    if let Some(file) = &args.output.trail {
        output::write(file, &super::trail::text(file, &trail, elapsed.as_secs_f64()))?;
    }
    output::print(&report(&problem, &before, &found, elapsed))?;
    if clock.stop.is_requested() { Err(Error::Interrupted) } else { Ok(()) }
}

fn read(model: &Path, assignment: &Path) -> Result<Instance, RoadefError> {
    let text = |file: &Path| {
        read_text(file).map_err(|why| RoadefError::File { file: file.to_owned(), why })
    };
    let format = |file: &Path| {
        let file = file.to_owned();
        |why| RoadefError::Format { file, why }
    };
    let mut instance = contest::read_model(&text(model)?).map_err(format(model))?;
    let (tasks, machines) = (instance.tasks.len(), instance.machines.len());
    let initial = contest::read_assignment(&text(assignment)?, tasks, machines);
    instance.initial = initial.map_err(format(assignment))?;
    Ok(instance)
}

fn report(problem: &Problem, before: &Costs, found: &Found, elapsed: Duration) -> String {
    let after = &found.costs;
    let instance = problem.instance();
    let mut text = format!(
        "{} processes of {} services on {} machines, {} resources\n\n  cost            {:>20} {:>20}\n",
        instance.tasks.len(),
        instance.jobs.len(),
        instance.machines.len(),
        instance.kinds.len(),
        "before",
        "after"
    );
    let rows = [
        ("load", before.load, after.load),
        ("balance", before.balance, after.balance),
        ("process moves", before.task_moves, after.task_moves),
        ("service moves", before.job_moves, after.job_moves),
        ("machine moves", before.machine_moves, after.machine_moves),
        ("total", before.total(), after.total()),
    ];
    for (name, before, after) in rows {
        let _ = writeln!(text, "  {name:<15} {before:>20} {after:>20}");
    }
    let moves = found.assignment.iter().zip(&instance.initial).filter(|(to, from)| to != from);
    let seconds = elapsed.as_secs_f64();
    let _ = writeln!(
        text,
        "\nprocesses that move: {}; {:.1} M changes tried in {seconds:.1} s",
        moves.count(),
        found.steps as f64 / 1e6
    );
    text
}
