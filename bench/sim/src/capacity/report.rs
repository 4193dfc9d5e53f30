//! Result of a search: data for programs, a sentence for people, and a page with plots.

use super::{Found, Objective, Question};
use crate::page::{Page, Section, Table};
use crate::plot::{Axis, Line, Plot};
use omega_workload::words::plural;
use serde::Serialize;

/// One simulated run of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    /// Number that was tried: machines, or thousandths of the load.
    pub number: u64,
    /// Number of machines.
    pub machines: usize,
    /// Number of jobs.
    pub jobs: usize,
    /// Value of each objective. A time is infinite if too many jobs were never tried or never placed completely; JSON
    /// shows it as `null`.
    pub figures: Vec<f64>,
    /// Whether all objectives are met.
    pub holds: bool,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The answer; `None` if no size that was tried meets the objectives.
    pub holds: Option<u64>,
    /// The size nearest to the answer that misses an objective; `None` if all sizes up to the limit meet the
    /// objectives.
    pub fails: Option<u64>,
    /// A size that misses an objective although a less favourable size (fewer machines, or more load) meets all.
    pub contradicts: Option<u64>,
}

/// A question with its answer.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Quantity that was searched for.
    pub question: Question,
    /// All runs, ascending by their numbers.
    pub probes: Vec<Probe>,
    /// The answer.
    pub answer: Answer,
}

/// A whole report.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityReport {
    /// Description of the run.
    pub workload: String,
    /// Original number of machines.
    pub machines: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// The version of the program.
    pub version: String,
    /// Objectives, in words. Figures of a probe have this order.
    pub objectives: Vec<String>,
    /// Each question with its answer.
    pub findings: Vec<Finding>,
    /// Input that was not converted.
    pub notes: Vec<String>,
}

impl Answer {
    pub(super) fn of(found: Found) -> Answer {
        Answer { holds: found.holds, fails: found.fails, contradicts: found.contradicts }
    }
}

/// Formats a number of machines or a load for people.
fn number(question: Question, number: u64) -> String {
    match question {
        Question::Machines => number.to_string(),
        Question::Load => format!("{:.3}", number as f64 / 1000.0),
    }
}

/// The answer, as a sentence.
#[must_use]
pub fn sentence(finding: &Finding, machines: usize) -> String {
    let say = |n| number(finding.question, n);
    let Answer { holds, fails, contradicts } = finding.answer;
    let cell = plural(machines as u64, "machine");
    let (carries, does) = if machines == 1 { ("carries", "does") } else { ("carry", "do") };
    let answer = match (finding.question, holds, fails) {
        (Question::Machines, Some(holds), Some(fails)) => {
            format!(
                "{} machines are enough, {} {} not; the workload has {machines}",
                say(holds),
                say(fails),
                if fails == 1 { "is" } else { "are" }
            )
        }
        (Question::Machines, Some(_), None) => {
            format!("even one machine is enough; the workload has {machines}")
        }
        (Question::Machines, None, _) => {
            let most = finding.probes.last().map_or_else(String::new, |probe| say(probe.number));
            format!("up to {most} machines, no number is enough; the workload has {machines}")
        }
        (Question::Load, Some(holds), Some(fails)) => {
            format!("{cell} {carries} {} times the load, and not {} times", say(holds), say(fails))
        }
        (Question::Load, Some(holds), None) => {
            format!("{cell} {carries} {} times the load, the largest load tried", say(holds))
        }
        (Question::Load, None, _) => {
            let least = finding.probes.first().map_or_else(String::new, |probe| say(probe.number));
            format!(
                "{cell} {does} not carry {least} times the load, the smallest load \
                 tried"
            )
        }
    };
    match contradicts {
        Some(other) => {
            format!("{answer} (but the objectives also fail at {}: see the probes)", say(other))
        }
        None => answer,
    }
}

impl CapacityReport {
    /// Converts to a page: the answers, a plot of each objective against machines or load, and the
    /// probes.
    #[must_use]
    pub fn page(&self, objectives: &[Objective]) -> Page {
        let lead = format!(
            "{} on {} machines, simulated by omega-sim {}, seed {}. Objectives: {}.",
            self.workload,
            self.machines,
            self.version,
            self.seed,
            self.objectives.join("; ")
        );
        let sections = self.findings.iter().map(|finding| self.section(finding, objectives));
        Page { title: "Capacity".to_owned(), lead, sections: sections.collect() }
    }

    fn section(&self, finding: &Finding, objectives: &[Objective]) -> Section {
        let (id, title, x) = match finding.question {
            Question::Machines => ("machines", "Number of machines", "machines"),
            Question::Load => ("load", "Load", "times the load"),
        };
        let at = |probe: &Probe| match finding.question {
            Question::Machines => probe.number as f64,
            Question::Load => probe.number as f64 / 1000.0,
        };
        let plot = |(i, objective): (usize, &Objective)| {
            let y = if objective.is_share() {
                Axis { least: Some(0.0), ..Axis::share(objective.name()) }
            } else {
                Axis { least: Some(0.0), ..Axis::linear(format!("{}, seconds", objective.name())) }
            };
            // An infinite value cannot be drawn, so it becomes a gap.
            let finite = |y: f64| if y.is_finite() { y } else { f64::NAN };
            let points = finding.probes.iter().map(|probe| (at(probe), finite(probe.figures[i])));
            let plot = Plot::new(objective.words(), Axis::linear(x), y)
                .line(Line::new(objective.name(), points.collect()))
                .guide(objective.bound(), "objective");
            (format!("{id}-{}", objective.name()), plot)
        };
        let row = |probe: &Probe| {
            let figures = objectives.iter().zip(&probe.figures).map(|(one, f)| one.show(*f));
            let load = number(finding.question, probe.number);
            let holds = if probe.holds { "yes" } else { "no" };
            [load, probe.jobs.to_string()]
                .into_iter()
                .chain(figures)
                .chain([holds.to_owned()])
                .collect()
        };
        let named = [x.to_owned(), "jobs".to_owned()].into_iter();
        let table = Table {
            title: "Probes".to_owned(),
            head: named
                .chain(objectives.iter().map(Objective::name))
                .chain(["holds".to_owned()])
                .collect(),
            rows: finding.probes.iter().map(row).collect(),
        };
        let answer = sentence(finding, self.machines);
        Section {
            id: id.to_owned(),
            title: title.to_owned(),
            prose: vec![format!("{answer}.")],
            plots: objectives.iter().enumerate().map(plot).collect(),
            tables: vec![table],
            ..Section::default()
        }
    }
}
