//! The run over time: several plots with the same time axis.
//!
//! Only the lines are SVG, stretched to the available width. Labels are text outside of the SVG, so that they keep
//! their size on a narrow screen.

use super::axis::{Axis, Unit};
use super::html::{label, section};
use super::number::{NOTHING, amount, count, duration, percent};
use super::text::clip;
use super::{RunReport, Sample, TenantReport, tenants};
use serde::Serialize;

/// Maximum number of points of a line: one for every two pixels of the widest plot.
const POINTS_MAX: usize = 600;
/// Minimum interval for a rate in seconds. In shorter intervals, the resolution of the clock would be visible.
const RATE_WALL_S_MIN: f64 = 1e-3;
/// Number of line colours in `style.css`.
const COLOURS: usize = 8;
/// Maximum number of characters of a tenant's name in a legend.
const NAME_MAX: usize = 24;
/// Size of the drawing, which is stretched to the size of the plot.
const SIZE: (f64, f64) = (1_000.0, 100.0);

/// Values that the script shows at the pointer, already formatted as text.
#[derive(Debug, Default, Serialize)]
pub(super) struct Readings {
    /// Position of each point, from 0 to 1000.
    at: Vec<u32>,
    /// Time of each point.
    time: Vec<String>,
    /// The values by plot, line and point.
    plots: Vec<Vec<Vec<String>>>,
}

/// One plot.
struct Plot {
    title: &'static str,
    /// Unit of the numbers, for the caption.
    measure: &'static str,
    unit: Unit,
    /// The axis ends at this value or higher.
    least_max: f64,
    lines: Vec<Line>,
}

/// One line of a plot. It has a value for each point, or `None` where there is no value.
struct Line {
    name: String,
    values: Vec<Option<f64>>,
}

/// The section with all plots, and the values that the script shows on them.
pub(super) fn render(report: &RunReport) -> (String, Readings) {
    let samples = thin(&report.series);
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        let body = "<p class=\"none\">The run took no samples.</p>\n";
        return (section("Over time", body), Readings::default());
    };
    let time = Axis::of_time(first.workload_s, last.workload_s);
    let plots = plots(report, &samples);
    let figures: String = plots
        .iter()
        .enumerate()
        .map(|(index, plot)| figure(index, plot, &samples, &time))
        .collect();
    let readings = Readings {
        at: samples.iter().map(|s| (time.place(s.workload_s) * 1_000.0).round() as u32).collect(),
        time: samples.iter().map(|sample| duration(sample.workload_s)).collect(),
        plots: plots
            .iter()
            .map(|plot| plot.lines.iter().map(|line| line.texts(plot.unit)).collect())
            .collect(),
    };
    (section("Over time", &format!("<div class=\"plots\">\n{figures}</div>\n")), readings)
}

/// Returns at most [`POINTS_MAX`] of the samples, including the first and the last.
fn thin(series: &[Sample]) -> Vec<&Sample> {
    if series.len() <= POINTS_MAX {
        return series.iter().collect();
    }
    let last = series.len() - 1;
    (0..POINTS_MAX).map(|index| &series[index * last / (POINTS_MAX - 1)]).collect()
}

/// The plots, each with its question and the lines that answer it.
fn plots(report: &RunReport, samples: &[&Sample]) -> Vec<Plot> {
    let line = |name: &str, value: &dyn Fn(&Sample) -> Option<f64>| Line {
        name: name.to_string(),
        values: samples.iter().map(|sample| value(sample)).collect(),
    };
    let used = report.resources.iter().enumerate().map(|(kind, resource)| {
        line(&resource.name, &|sample| sample.used.get(kind).copied().filter(|v| v.is_finite()))
    });
    let shares = report.tenants.iter().filter(|tenant| !tenant.shares.is_empty());
    let shares: Vec<Line> = shares.map(|tenant| share_line(tenant, report, samples)).collect();
    let waiting = line("waiting", &|sample| Some(sample.pending as f64));
    let running = line("running", &|sample| Some(sample.running as f64));
    let rate = Line { name: "placements".into(), values: placement_rates(samples) };
    let refused = Line { name: "refused".into(), values: refused_shares(samples) };
    let plot = |title, measure, unit, lines| Plot { title, measure, unit, least_max: 0.0, lines };
    let mut plots = vec![
        Plot {
            title: "Utilisation",
            measure: "claimed, % of capacity",
            unit: Unit::Share,
            least_max: 1.0,
            lines: used.collect(),
        },
        plot("Running", "tasks that have a machine", Unit::Count, vec![running]),
        plot("Waiting", "tasks in the queue", Unit::Count, vec![waiting]),
        plot("Throughput", "placements per second of the run", Unit::Amount, vec![rate]),
        plot("Conflicts", "refused, % of claims since the last point", Unit::Share, vec![refused]),
    ];
    if tenants::are_several(report) {
        plots.push(plot("Tenants", "dominant share, % of the cell", Unit::Share, shares));
    }
    plots
}

/// The share of one tenant, at the samples of the series.
fn share_line(tenant: &TenantReport, report: &RunReport, samples: &[&Sample]) -> Line {
    let of = |sample: &&Sample| {
        let at = report.series.iter().position(|known| std::ptr::eq(known, *sample))?;
        tenant.shares.get(at).copied().filter(|share| share.is_finite())
    };
    Line { name: clip(&tenant.name, NAME_MAX), values: samples.iter().map(of).collect() }
}

/// Placements per second up to each sample. Intervals that are too short are joined with the next.
fn placement_rates(samples: &[&Sample]) -> Vec<Option<f64>> {
    let mut rates = vec![None; samples.len()];
    let mut from = 0;
    for to in 1..samples.len() {
        let wall_s = samples[to].wall_s - samples[from].wall_s;
        if wall_s >= RATE_WALL_S_MIN {
            let placements = samples[to].placements.saturating_sub(samples[from].placements);
            rates[from + 1..=to].fill(Some(placements as f64 / wall_s));
            from = to;
        }
    }
    rates
}

/// The share of claims that were rejected between each sample and the previous one; `None` if there were no claims.
fn refused_shares(samples: &[&Sample]) -> Vec<Option<f64>> {
    let share = |pair: &[&Sample]| {
        let refused = pair[1].conflicts.saturating_sub(pair[0].conflicts);
        let granted = pair[1].placements.saturating_sub(pair[0].placements);
        (refused + granted > 0).then(|| refused as f64 / (refused + granted) as f64)
    };
    std::iter::once(None).chain(samples.windows(2).map(share)).take(samples.len()).collect()
}

impl Line {
    /// The values of the line as text.
    fn texts(&self, unit: Unit) -> Vec<String> {
        let text = |value: &Option<f64>| match (value, unit) {
            (None, _) => NOTHING.to_string(),
            (Some(value), Unit::Share) => percent(*value),
            (Some(value), Unit::Count) => count(*value as u64),
            (Some(value), Unit::Amount) => amount(*value),
        };
        self.values.iter().map(text).collect()
    }

    /// The path of the line, interrupted at missing values, and a path of the single points between two interruptions.
    /// Such a point is drawn as a dot, because its line has no length.
    fn paths(&self, samples: &[&Sample], time: &Axis, axis: &Axis) -> (String, String) {
        let points: Vec<Option<String>> = samples
            .iter()
            .zip(&self.values)
            .map(|(sample, value)| {
                let x = time.place(sample.workload_s) * SIZE.0;
                value.map(|value| format!("{x:.1} {:.2}", (1.0 - axis.place(value)) * SIZE.1))
            })
            .collect();
        let (mut line, mut dots) = (String::new(), String::new());
        for run in points.split(Option::is_none) {
            let run: Vec<&str> = run.iter().flatten().map(String::as_str).collect();
            match run[..] {
                [] => {}
                [point] => dots.push_str(&format!("M{point}h0")),
                _ => line.push_str(&format!("M{}", run.join("L"))),
            }
        }
        (line, dots)
    }

    /// The area below the line; empty if the line is interrupted, because the values between two parts are unknown.
    fn area(&self, path: &str) -> String {
        let from = self.values.iter().position(Option::is_some).unwrap_or(0);
        let whole = self.values[from..].iter().all(Option::is_some);
        let Some(start) = path.strip_prefix('M').and_then(|path| path.split(' ').next()) else {
            return String::new();
        };
        if !whole || self.values.len() < 2 {
            return String::new();
        }
        format!("<path class=\"area\" d=\"{path}V{}H{start}z\"/>", SIZE.1)
    }
}

/// One plot with its caption, legend and axes.
fn figure(index: usize, plot: &Plot, samples: &[&Sample], time: &Axis) -> String {
    let values = plot.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
    let axis = Axis::of_values(values.fold(plot.least_max, f64::max), plot.unit);
    let legend: String =
        plot.lines.iter().enumerate().map(|(i, line)| legend_entry(i, line, plot)).collect();
    let single = plot.lines.len() == 1;
    let lines: String = plot
        .lines
        .iter()
        .enumerate()
        .map(|(i, line)| {
            let (path, dots) = line.paths(samples, time, &axis);
            let area = if single { line.area(&path) } else { String::new() };
            format!(
                "<g class=\"line l{}\">{area}<path d=\"{path}\"/>\
                 <path class=\"dots\" d=\"{dots}\"/></g>",
                i % COLOURS
            )
        })
        .collect();
    format!(
        "<figure class=\"plot\" data-plot=\"{index}\">\n\
         <figcaption><b>{}</b> <span>{}</span></figcaption>\n\
         <p class=\"legend\">{legend}<span class=\"when\">at the end</span></p>\n\
         <div class=\"frame\"><div class=\"y\">{}</div>\
         <div class=\"area\" tabindex=\"0\" aria-label=\"{} over time\">\
         <svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}{lines}</svg>\
         <i class=\"cursor\"></i></div>\
         <div class=\"x\">{}</div></div>\n\
         <p class=\"unit\">time of the workload, {}</p>\n</figure>\n",
        plot.title,
        plot.measure,
        labels(&axis, "bottom"),
        plot.title,
        SIZE.0,
        SIZE.1,
        grid_lines(&axis, plot),
        labels(time, "left"),
        time.unit,
    )
}

/// The name of a line, its colour, and its last value.
fn legend_entry(index: usize, line: &Line, plot: &Plot) -> String {
    let last = line.texts(plot.unit).pop().unwrap_or_else(|| NOTHING.to_string());
    format!(
        "<span class=\"key l{}\"><svg viewBox=\"0 0 18 4\" aria-hidden=\"true\">\
         <path d=\"M0 2H18\"/></svg>{} <b>{last}</b></span>",
        index % COLOURS,
        label(&line.name),
    )
}

/// The labels of an axis, positioned from the given side.
fn labels(axis: &Axis, side: &str) -> String {
    let tick = |(at, text): &(f64, String)| {
        format!("<span style=\"{side}:{:.2}%\">{text}</span>", at * 100.0)
    };
    axis.ticks.iter().map(tick).collect()
}

/// A thin line at each tick, and a thick line at a share of one.
fn grid_lines(axis: &Axis, plot: &Plot) -> String {
    let line = |at: f64| format!("M0 {:.2}H{}", (1.0 - at) * SIZE.1, SIZE.0);
    let thin: String = axis.ticks.iter().map(|(at, _)| line(*at)).collect();
    let full = match plot.least_max {
        0.0 => String::new(),
        max => format!("<path class=\"full\" d=\"{}\"/>", line(axis.place(max))),
    };
    format!("<path class=\"grid\" d=\"{thin}\"/>{full}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_and_lone_points_are_dots() {
        let at = |workload_s| Sample { workload_s, ..Sample::default() };
        let samples = [at(0.0), at(25.0), at(50.0), at(75.0), at(100.0)];
        let samples: Vec<&Sample> = samples.iter().collect();
        let values = vec![Some(0.0), Some(1.0), None, Some(0.5), None];
        let line = Line { name: String::new(), values };
        let (time, axis) = (Axis::of_time(0.0, 100.0), Axis::of_values(1.0, Unit::Amount));
        let (path, dots) = line.paths(&samples, &time, &axis);
        assert_eq!((path.as_str(), dots.as_str()), ("M0.0 100.00L250.0 0.00", "M750.0 50.00h0"));
        assert_eq!(line.area(&path), "", "an area would fill the break");
    }

    fn sample(wall_s: f64, placements: u64, conflicts: u64) -> Sample {
        Sample { wall_s, placements, conflicts, ..Sample::default() }
    }

    #[test]
    fn rates_join_times_that_are_too_short() {
        let samples =
            [sample(0.0, 0, 0), sample(0.0, 3, 0), sample(2.0, 10, 0), sample(2.0, 10, 0)];
        let samples: Vec<&Sample> = samples.iter().collect();
        assert_eq!(placement_rates(&samples), [None, Some(5.0), Some(5.0), None]);
        assert_eq!(placement_rates(&[]), []);
    }

    #[test]
    fn no_claims_is_not_no_conflicts() {
        let samples = [sample(0.0, 0, 0), sample(1.0, 3, 1), sample(2.0, 3, 1), sample(3.0, 4, 1)];
        let samples: Vec<&Sample> = samples.iter().collect();
        assert_eq!(refused_shares(&samples), [None, Some(0.25), None, Some(0.0)]);
        assert_eq!(refused_shares(&[]), []);
    }

    #[test]
    fn a_long_series_keeps_its_ends() {
        let series: Vec<Sample> = (0..5_000).map(|i| sample(f64::from(i), 0, 0)).collect();
        let thin = thin(&series);
        assert_eq!(thin.len(), POINTS_MAX);
        assert_eq!((thin[0].wall_s, thin[POINTS_MAX - 1].wall_s), (0.0, 4_999.0));
    }
}
