//! The plots of a sweep: busyness, waits and conflicts for a part of the sweep's points, with a line for each
//! combination of settings.

use super::file::SETTINGS;
use super::groups::{Combination, Figures, Spread, Whose};
use super::layout::name;
use crate::plot::{Axis, Line, Plot, Scale};
use crate::sheet::Cell;

/// Ratio of the largest to the smallest number above which an axis is logarithmic.
const DECADES: f64 = 20.0;
/// Like [`DECADES`], for the axis of waits, which vary more.
const DECADES_OF_WAITS: f64 = 100.0;
/// Smallest drawn wait, because a logarithmic axis has no zero.
const WAIT_LEAST_S: f64 = 0.01;

/// A figure that is drawn.
pub(super) struct Shown {
    /// Stem of the file names of the figure's plots.
    pub(super) file: &'static str,
    /// Headings for all jobs, batch jobs and service jobs.
    titles: [&'static str; 3],
    label: &'static str,
    of: fn(&Figures<Option<Spread>>) -> Option<Spread>,
    /// Text that replaces the plots if the figure is zero everywhere.
    pub(super) nothing: &'static str,
}

pub(super) const FIGURES: [Shown; 3] = [
    Shown {
        file: "busy",
        titles: [
            "Busyness of schedulers",
            "Busyness of schedulers of batch jobs",
            "Busyness of schedulers of service jobs",
        ],
        label: "busyness",
        of: |figures| figures.busy,
        nothing: "No scheduler was ever busy.",
    },
    Shown {
        file: "wait",
        titles: ["Wait of jobs", "Wait of batch jobs", "Wait of service jobs"],
        label: "mean wait, seconds",
        of: |figures| figures.wait_s,
        nothing: "No job waited.",
    },
    Shown {
        file: "conflicts",
        titles: [
            "Conflicts of transactions",
            "Conflicts of transactions of batch jobs",
            "Conflicts of transactions of service jobs",
        ],
        label: "conflicts for each transaction without one",
        of: |figures| figures.conflicts,
        nothing: "No transaction had a conflict.",
    },
];

/// The lines of the plots for one part of a sweep, and the settings that they show.
pub(super) struct Drawn<'a> {
    /// Setting of the horizontal axis.
    pub(super) across: usize,
    /// The settings whose values distinguish the lines.
    pub(super) settings: &'a [usize],
    pub(super) lines: Vec<(Vec<Cell>, Vec<&'a Combination>)>,
}

impl Drawn<'_> {
    /// The plots of a figure, with suffixes for their file names; empty if the figure is zero everywhere.
    pub(super) fn plots(&self, figure: &Shown) -> Vec<(&'static str, Plot)> {
        let all = || self.lines.iter().flat_map(|(_, line)| line);
        let whole = all().all(|it| it.figures.contains_key(&Whose::All));
        let [of_all, of_batch, of_service] = figure.titles;
        let kinds = if whole {
            vec![(Whose::All, "", of_all)]
        } else {
            vec![(Whose::Batch, "-batch", of_batch), (Whose::Service, "-service", of_service)]
        };
        let plot = |(whose, file, title): (Whose, &'static str, &str)| {
            let lines: Vec<Line> =
                self.lines.iter().map(|line| self.line(line, figure, whose)).collect();
            (file, Plot { lines, ..Plot::new(title, self.level(), Axis::default()) })
        };
        let mut plots: Vec<(&str, Plot)> = kinds.into_iter().map(plot).collect();
        let drawn = || plots.iter().flat_map(|(_, plot)| &plot.lines).flat_map(|line| &line.points);
        let heights: Vec<f64> = drawn().map(|point| point.1).collect();
        if heights.iter().all(|height| *height == 0.0) {
            return Vec::new();
        }
        let upright = upright(figure, &heights);
        for (_, plot) in &mut plots {
            if upright.scale == Scale::Log {
                plot.lines.iter_mut().for_each(lift);
            }
            plot.y = upright.clone();
        }
        plots
    }

    fn line(
        &self,
        (key, all): &(Vec<Cell>, Vec<&Combination>),
        figure: &Shown,
        whose: Whose,
    ) -> Line {
        let at = |it: &&Combination| {
            let figures = it.figures.get(&whose).or_else(|| it.figures.get(&Whose::All))?;
            Some((it.settings[self.across].number()?, (figure.of)(figures)?))
        };
        let mut points: Vec<(f64, Spread)> = all.iter().filter_map(at).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let means = points.iter().map(|(x, spread)| (*x, spread.mean)).collect();
        let spread = points.iter().map(|(_, spread)| (spread.least, spread.most)).collect();
        Line::new(name(self.settings, key), means).spread(spread)
    }

    /// The horizontal axis.
    fn level(&self) -> Axis {
        let all = self.lines.iter().flat_map(|(_, line)| line);
        let values: Vec<f64> = all.filter_map(|it| it.settings[self.across].number()).collect();
        let setting = SETTINGS[self.across].0;
        Axis { scale: scale(&values, DECADES), ..Axis::linear(label(setting)) }
    }
}

/// The vertical axis of the plots of a figure. It is logarithmic for both kinds of jobs, or for neither.
fn upright(figure: &Shown, heights: &[f64]) -> Axis {
    match figure.file {
        "busy" => Axis { least: Some(0.0), ..Axis::share(figure.label) },
        "wait" => {
            let lifted: Vec<f64> = heights.iter().map(|height| height.max(WAIT_LEAST_S)).collect();
            match scale(&lifted, DECADES_OF_WAITS) {
                Scale::Log => Axis { least: Some(WAIT_LEAST_S), ..Axis::log(figure.label) },
                Scale::Linear => Axis { least: Some(0.0), ..Axis::linear(figure.label) },
            }
        }
        _ => Axis { least: Some(0.0), ..Axis::linear(figure.label) },
    }
}

/// Raises values near zero to the smallest value of a logarithmic axis of waits.
fn lift(line: &mut Line) {
    line.points.iter_mut().for_each(|(_, y)| *y = y.max(WAIT_LEAST_S));
    line.spread.iter_mut().for_each(|(low, high)| {
        (*low, *high) = (low.max(WAIT_LEAST_S), high.max(WAIT_LEAST_S));
    });
}

/// Returns a logarithmic scale if no value is zero and the ratio of the largest to the smallest is high.
fn scale(values: &[f64], times: f64) -> Scale {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if least > 0.0 && most >= times * least { Scale::Log } else { Scale::Linear }
}

/// Label of a setting.
fn label(setting: &str) -> &str {
    match setting {
        "batch" => "schedulers of batch jobs",
        "service" => "schedulers of service jobs",
        "t_job_batch" => "decision time of a batch job, seconds",
        "t_task_batch" => "decision time of a task of a batch job, seconds",
        "t_job_service" => "decision time of a service job, seconds",
        "t_task_service" => "decision time of a task of a service job, seconds",
        "pickiness" => "share of the machines that schedulers of service jobs exclude",
        "near_best" => "best machines among which a scheduler chooses",
        "parts" => "parts of a view that are synced separately",
        "probes" => "machines probed for each task",
        other => other,
    }
}
