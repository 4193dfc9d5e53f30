//! Least cost of a search over time, as CSV or as a plot in SVG.

use std::fmt::Write;
use std::path::Path;

/// Size of the plot, and of its margins, in pixels.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 110.0;
const BOTTOM: f64 = 40.0;
const MARGIN: f64 = 20.0;

/// Earliest time on the logarithmic axis, in seconds.
const EARLIEST: f64 = 0.01;

/// Maximum number of steps on the axis of costs, before the ends of the axis are rounded to whole steps.
const STEPS: f64 = 4.0;

/// Costs from which labels are in millions.
const MILLION: f64 = 1e6;

/// A trail as text: SVG if the file's name ends in `.svg`, else CSV.
pub(super) fn text(file: &Path, trail: &[(f64, i64)], end: f64) -> String {
    if file.extension().is_some_and(|name| name.eq_ignore_ascii_case("svg")) {
        svg(trail, end)
    } else {
        csv(trail)
    }
}

fn csv(trail: &[(f64, i64)]) -> String {
    trail.iter().fold("seconds,cost\n".to_owned(), |mut text, (seconds, cost)| {
        let _ = writeln!(text, "{seconds:.3},{cost}");
        text
    })
}

/// Axes of the plot: times from [`EARLIEST`] to the end, and costs in round steps.
struct Axes {
    end: f64,
    least: f64,
    most: f64,
    step: f64,
}

/// The round step of an axis of this length: 1, 2 or 5 times a power of ten, and at least 1.
fn round_step(length: f64) -> f64 {
    let exact = (length / STEPS).max(1.0);
    let power = 10_f64.powf(exact.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * power);
    steps.into_iter().find(|step| *step >= exact).unwrap_or(10.0 * power)
}

impl Axes {
    /// Axes for costs between two values, which are rounded to whole steps.
    fn new(end: f64, least: f64, most: f64) -> Axes {
        let step = round_step(most - least);
        let least = (least / step).floor() * step;
        let most = ((most / step).ceil() * step).max(least + step);
        Axes { end: end.max(10.0 * EARLIEST), least, most, step }
    }

    fn x(&self, seconds: f64) -> f64 {
        let decades = (self.end / EARLIEST).log10();
        LEFT + (WIDTH - LEFT - MARGIN) * (seconds.max(EARLIEST) / EARLIEST).log10() / decades
    }

    fn y(&self, cost: f64) -> f64 {
        let part = (cost - self.least) / (self.most - self.least);
        MARGIN + (HEIGHT - BOTTOM - MARGIN) * (1.0 - part)
    }
}

fn svg(trail: &[(f64, i64)], end: f64) -> String {
    let costs = || trail.iter().map(|(_, cost)| *cost as f64);
    let least = costs().fold(f64::INFINITY, f64::min);
    let least = if least.is_finite() { least } else { 0.0 };
    let axes = Axes::new(end, least, costs().fold(least, f64::max));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    grid(&mut text, &axes);
    text.push_str("<path fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\" d=\"");
    let mut last = None;
    for (seconds, cost) in trail {
        let (x, y) = (axes.x(*seconds), axes.y(*cost as f64));
        match last {
            None => {
                let _ = write!(text, "M{x:.1},{y:.1}");
            }
            // Costs fall in steps. Points on the same pixel are drawn once.
            Some(before) if (x, y) != before => {
                let _ = write!(text, "H{x:.1}V{y:.1}");
            }
            Some(_) => {}
        }
        last = Some((x, y));
    }
    let _ = write!(text, "H{:.1}\"/>\n</svg>\n", axes.x(axes.end));
    text
}

/// Lines and labels of both axes.
fn grid(text: &mut String, axes: &Axes) {
    let (right, bottom) = (WIDTH - MARGIN, HEIGHT - BOTTOM);
    let (unit, name) = if axes.step < MILLION { (1.0, "") } else { (MILLION, " M") };
    let mut cost = axes.least;
    while cost <= axes.most {
        let (y, label) = (axes.y(cost), cost / unit);
        let _ = writeln!(
            text,
            "<path stroke=\"#ddd\" d=\"M{LEFT},{y:.1}H{right}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label:.0}{name}</text>",
            LEFT - 6.0,
            y + 4.0
        );
        cost += axes.step;
    }
    let mut seconds = EARLIEST;
    while seconds <= axes.end {
        let x = axes.x(seconds);
        let _ = writeln!(
            text,
            "<path stroke=\"#ddd\" d=\"M{x:.1},{MARGIN}V{bottom}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{seconds}</text>",
            bottom + 16.0
        );
        seconds *= 10.0;
    }
    let _ = writeln!(
        text,
        "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">seconds</text><text x=\"{LEFT}\" y=\"14\">cost</text>",
        bottom + 32.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIL: [(f64, i64); 3] = [(0.0, 1000), (0.1, 600), (2.0, 500)];

    #[test]
    fn the_format_follows_the_name_of_the_file() {
        let csv = text(Path::new("t.csv"), &TRAIL, 10.0);
        assert_eq!(csv, "seconds,cost\n0.000,1000\n0.100,600\n2.000,500\n");
        assert!(text(Path::new("t.svg"), &TRAIL, 10.0).starts_with("<svg "));
    }

    #[test]
    fn the_plot_falls_from_the_first_cost_to_the_least() {
        let svg = text(Path::new("t.SVG"), &TRAIL, 10.0);
        let path = "d=\"M110.0,20.0H280.0V193.3H501.2V236.7H620.0\"";
        assert!(svg.contains(path), "{svg}");
        for label in [400, 600, 800, 1000] {
            assert!(svg.contains(&format!(">{label}</text>")), "{svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn large_costs_have_round_labels_in_millions() {
        let svg = text(Path::new("t.svg"), &[(0.0, 2_272_487_840), (9.0, 1_182_125_590)], 10.0);
        for label in ["1000 M", "1500 M", "2000 M", "2500 M"] {
            assert!(svg.contains(&format!(">{label}</text>")), "{svg}");
        }
    }

    #[test]
    fn a_search_that_finds_nothing_has_a_plot() {
        let svg = text(Path::new("t.svg"), &[(0.0, 7)], 0.0);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
