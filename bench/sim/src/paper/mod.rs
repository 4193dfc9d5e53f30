//! The figures of the Omega paper (Schwarzkopf et al., EuroSys 2013) as repeatable experiments: the paper's claims, the
//! results, and whether the shapes of the curves agree.
//!
//! The paper has no tables and its traces are not public, so only the shapes of its curves are compared. Job lists are
//! generated ([`CellPair::generated`]) or read from a folder.

mod conflicts;
mod decision_time;
mod found;
mod lists;
mod load;
mod mapreduce;
mod ours;
mod runs;
mod sections;
mod setting;
mod trace;
mod two_level;
mod workers;

pub use runs::CellPair;

use crate::page::{Page, Section};

/// A figure of the paper, or several that show the same runs.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name of the experiment's section in the report: the name of its first figure.
    pub name: &'static str,
    /// The figures of the paper that the experiment reproduces; each can be named on the command line.
    pub figures: &'static [&'static str],
    /// Title of the experiment's section.
    pub title: &'static str,
    /// Input that the experiment needs.
    pub ground: Ground,
    run: fn(&CellPair) -> Section,
}

/// Input of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Job lists, which are always available.
    Lists,
    /// Google's trace of May 2011, which is optional.
    Trace,
}

/// All experiments, in the order of the paper.
pub const ALL: [Experiment; 8] = [
    Experiment {
        name: "fig5",
        figures: &["fig5", "fig6"],
        title: "Figures 5 and 6: decision times of service jobs",
        ground: Ground::Lists,
        run: decision_time::of_jobs,
    },
    Experiment {
        name: "fig7",
        figures: &["fig7"],
        title: "Figure 7: two-level offers",
        ground: Ground::Lists,
        run: two_level::run,
    },
    Experiment {
        name: "fig8",
        figures: &["fig8"],
        title: "Figure 8: more batch jobs",
        ground: Ground::Lists,
        run: load::saturation,
    },
    Experiment {
        name: "fig9",
        figures: &["fig9"],
        title: "Figure 9: several batch schedulers",
        ground: Ground::Lists,
        run: load::schedulers,
    },
    Experiment {
        name: "fig10",
        figures: &["fig10"],
        title: "Figure 10: decision times of jobs and of tasks",
        ground: Ground::Lists,
        run: decision_time::of_tasks,
    },
    Experiment {
        name: "fig13",
        figures: &["fig13"],
        title: "Figure 13: three batch schedulers on a real trace",
        ground: Ground::Trace,
        run: trace::run,
    },
    Experiment {
        name: "fig14",
        figures: &["fig14"],
        title: "Figure 14: ways to find conflicts",
        ground: Ground::Lists,
        run: conflicts::run,
    },
    Experiment {
        name: "fig15",
        figures: &["fig15", "fig16"],
        title: "Figures 15 and 16: workers by what is idle",
        ground: Ground::Lists,
        run: mapreduce::run,
    },
];

/// Figures of the paper that are not reproduced, with the reason.
const ELSEWHERE: [(&[&str], &str); 3] = [
    (&["fig1"], "the figure is a drawing of the architectures, which docs/sim.md explains"),
    (
        &["fig2", "fig3", "fig4"],
        "the figure shows the jobs of three of Google's cells, whose traces are not public; \
         `omega-sim trace info` prints the same data of public traces",
    ),
    (
        &["fig11", "fig12"],
        "the figure needs a trace whose tasks are not public; `omega-sim sweep` makes such runs \
         on other traces",
    ),
];

/// Error of an unknown experiment name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoExperiment {
    /// The paper has the figure, but it is not reproduced here, for this reason.
    #[error("omega-sim cannot reproduce this figure: {0}")]
    Elsewhere(&'static str),
    /// The paper has no such figure.
    #[error("there is no such figure; the figures are: all, {}", figures().join(", "))]
    Unknown,
}

/// The names of all figures that are reproduced.
#[must_use]
pub fn figures() -> Vec<&'static str> {
    ALL.iter().flat_map(|experiment| experiment.figures).copied().collect()
}

impl Experiment {
    /// Returns the experiment that reproduces the figure with this name.
    ///
    /// # Errors
    /// If no experiment reproduces the figure; the error has the reason.
    pub fn named(figure: &str) -> Result<&'static Experiment, NoExperiment> {
        let shows = |figures: &[&str]| figures.contains(&figure);
        let elsewhere = ELSEWHERE.iter().find(|(figures, _)| shows(figures));
        let missing =
            elsewhere.map_or(NoExperiment::Unknown, |(_, why)| NoExperiment::Elsewhere(why));
        ALL.iter().find(|experiment| shows(experiment.figures)).ok_or(missing)
    }

    /// Whether the input that the experiment needs is given.
    #[must_use]
    pub fn has_ground(&self, lab: &CellPair) -> bool {
        self.ground == Ground::Lists || lab.trace().is_some()
    }

    /// Runs the experiment. The section is empty if the input is missing.
    #[must_use]
    pub fn run(&self, lab: &CellPair) -> Section {
        Section { id: self.name.to_owned(), title: self.title.to_owned(), ..(self.run)(lab) }
    }
}

/// The report of some experiments.
#[must_use]
pub fn report(lab: &CellPair, sections: Vec<Section>) -> Page {
    Page {
        title: "The figures of the Omega paper".to_owned(),
        lead: format!(
            "The paper's experiments, repeated in simulation on {}: a cell of 2,000 machines for a day, one of \
             10,000 for six hours. The paper's own traces are not public, so shapes are compared, not values. Decisions \
             take 0.1 s a job and 5 ms a task where nothing else is said. `omega-sim compat` shows that these runs are those of \
             the simulator that the paper's authors published.",
            lab.source()
        ),
        sections,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_the_paper_has_an_experiment_or_a_reason() {
        for number in 1..=16 {
            let name = format!("fig{number}");
            match Experiment::named(&name) {
                Ok(experiment) => assert!(experiment.title.contains(&number.to_string()), "{name}"),
                Err(why) => assert!(matches!(why, NoExperiment::Elsewhere(_)), "{name}: {why}"),
            }
        }
        assert_eq!(Experiment::named("fig17").unwrap_err(), NoExperiment::Unknown);
        for experiment in ALL {
            assert_eq!(Some(&experiment.name), experiment.figures.first());
        }
    }
}
