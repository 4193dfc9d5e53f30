//! Capacity planning: the smallest cell for a load, or the largest load for a cell, by a search over simulated runs.
//!
//! ```text
//!   workload ──scale.rs──▶ with N machines, or X times the jobs ──simulate──▶ waits, placed jobs, usage
//!      ▲                                                                                    │
//!      └───────── search.rs: next sizes ◀───── objective.rs: are the objectives met? ◀──────┘
//! ```
//!
//! The search assumes that more machines are never worse, and more load is never better; if the probes contradict that,
//! a note says so. Equal inputs give equal probes, on any number of processors.

mod objective;
mod report;
pub mod scale;
mod search;

pub use objective::{Objective, Of};
pub use report::{Answer, CapacityReport, Finding, Probe, sentence};
pub use search::{Found, Limits, Sense, search};

use crate::scenario::{ScenarioSettings, simulate_from};
use crate::shipped::{ShippedError, Start};
use omega_workload::Workload;
use rayon::prelude::*;

/// Seconds for which a probe continues after the last arrival, so that the job that arrives last can be placed, too.
pub const TAIL_S: f64 = 600.0;

/// Quantity to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Smallest number of machines that meets the objectives.
    Machines,
    /// Largest load that meets the objectives, as a multiple of the load of the input.
    Load,
}

/// Parameters of a search.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Quantity to search for.
    pub question: Question,
    /// Objectives to meet.
    pub objectives: Vec<Objective>,
    /// Largest size to try: a number of machines, or of thousandths of the load.
    pub most: u64,
    /// Largest difference between the two sizes that enclose the answer, as a share of the answer. A difference of one
    /// machine, or of one thousandth of the load, always suffices.
    pub precision: f64,
}

impl Question {
    /// Bounds and direction of the search.
    fn limits(self, workload: &Workload, most: u64) -> (Limits, Sense) {
        match self {
            Question::Machines => {
                let limits = Limits { from: 1, start: workload.machines.len() as u64, to: most };
                (limits, Sense::Least)
            }
            // A hundredth of the load has hardly any jobs, so smaller loads are not tried.
            Question::Load => (Limits { from: 10, start: 1000, to: most }, Sense::Most),
        }
    }

    /// The workload of a probe.
    fn scaled(self, workload: &Workload, number: u64) -> Workload {
        match self {
            Question::Machines => scale::machines(workload, number as usize),
            Question::Load => scale::load(workload, number),
        }
    }
}

/// Searches, and passes each round of probes to `tell`.
///
/// # Errors
/// If the cell rejects a part of the workload, or `tell` fails.
pub fn find<E: From<ShippedError>>(
    workload: &Workload,
    settings: &ScenarioSettings,
    asked: &Asked,
    mut tell: impl FnMut(&Probe) -> Result<(), E>,
) -> Result<Finding, E> {
    let base = ScenarioSettings { end_s: None, ..settings.clone() }.end_of(workload);
    // During the tail nothing arrives, so the cell's use is not measured then.
    let start = Start { used_until_s: Some(settings.end_s.unwrap_or(base)), ..Start::default() };
    let settings = ScenarioSettings {
        end_s: Some(settings.end_s.unwrap_or(base + TAIL_S)),
        ..settings.clone()
    };
    let mut probes: Vec<Probe> = Vec::new();
    let probe = |number: &u64| {
        let scaled = asked.question.scaled(workload, *number);
        let outcome = simulate_from(&scaled, &settings, &start)?;
        let figures: Vec<f64> = asked.objectives.iter().map(|one| one.figure(&outcome)).collect();
        let holds = asked.objectives.iter().zip(&figures).all(|(one, figure)| one.holds(*figure));
        let machines = scaled.machines.len();
        let jobs = scaled.arrivals.len();
        Ok(Probe { number: *number, machines, jobs, figures, holds })
    };
    let (limits, sense) = asked.question.limits(workload, asked.most);
    let found = search(limits, sense, asked.precision, &mut |numbers: &[u64]| {
        let round: Result<Vec<Probe>, ShippedError> = numbers.par_iter().map(probe).collect();
        let round = round?;
        round.iter().try_for_each(&mut tell)?;
        let holds = round.iter().map(|probe| probe.holds).collect();
        probes.extend(round);
        Ok::<_, E>(holds)
    })?;
    probes.sort_by_key(|probe| probe.number);
    Ok(Finding { question: asked.question, probes, answer: Answer::of(found) })
}
