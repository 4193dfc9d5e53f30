//! Layout of a plot.
//!
//! Its parts are, from the top: the title, the legend in as many rows as needed, the frame with grid and lines, the
//! tick labels, and the axis label.

use super::data::{Line, Plot, Style};
use super::scale::Ruler;
use super::scene::{Align, COLOURS, Ink, Point, Scene, Shape};

const WIDTH: f64 = 720.0;
const FRAME_HEIGHT: f64 = 300.0;
const MARGIN: f64 = 16.0;
const TITLE: f64 = 15.0;
const LABEL: f64 = 12.0;
/// Ratio of the mean width of a letter to its height, rounded up, so that layouts need no font.
const LETTER: f64 = 0.56;
/// Maximum number of points of a line whose points are drawn as dots.
const DOTS_MAX: usize = 40;
/// Length of a line's sample in the legend.
const SAMPLE: f64 = 22.0;
/// Half of the width of a whisker's end.
const CAP: f64 = 3.5;

/// The rectangle that contains the lines, and its axes.
struct Frame {
    x: Ruler,
    y: Ruler,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

pub(super) fn scene(plot: &Plot) -> Scene {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let x = Ruler::of(&plot.x, points().map(|point| point.0));
    let guides = plot.guides.iter().map(|guide| guide.at);
    let spread =
        plot.lines.iter().flat_map(|line| &line.spread).flat_map(|(low, high)| [*low, *high]);
    let y = Ruler::of(&plot.y, points().map(|point| point.1).chain(guides).chain(spread));
    let mut shapes = Vec::new();
    let mut top = MARGIN;
    if !plot.title.is_empty() {
        top += TITLE;
        shapes.push(text((MARGIN, top), &plot.title, Ink::Strong, TITLE, Align::Start));
        top += 8.0;
    }
    top = legend(plot, top, &mut shapes) + 10.0;
    let widest = y.ticks.iter().map(|(_, label)| width(label)).fold(0.0, f64::max);
    let left = MARGIN + 1.6 * LABEL + widest + 6.0;
    let frame = Frame { x, y, left, right: WIDTH - 1.5 * MARGIN, top, bottom: top + FRAME_HEIGHT };
    axes(plot, &frame, &mut shapes);
    for guide in &plot.guides {
        if let Some(at) = frame.y.place(guide.at) {
            let height = frame.height(at);
            let ends = vec![(frame.left, height), (frame.right, height)];
            shapes.push(Shape::Path { points: ends, ink: Ink::Soft, width: 1.0, dashes: true });
            let at = (frame.left + 6.0, height - 5.0);
            shapes.push(text(at, &guide.name, Ink::Soft, LABEL, Align::Start));
        }
    }
    // Guides are drawn before the lines, so that they are below all lines.
    for (index, line) in plot.lines.iter().enumerate() {
        whiskers(line, look(index, line).0, &frame, &mut shapes);
    }
    for (index, line) in plot.lines.iter().enumerate() {
        draw(line, look(index, line), &frame, &mut shapes);
    }
    let names: Vec<&str> = plot.lines.iter().map(|line| line.name.as_str()).collect();
    Scene {
        width: WIDTH,
        height: frame.bottom + 2.0 * LABEL + 3.0 * MARGIN / 2.0,
        description: format!(
            "{}: {} over {}; {}",
            plot.title,
            plot.y.label,
            plot.x.label,
            names.join(", ")
        ),
        shapes,
    }
}

impl Frame {
    /// Horizontal coordinate of a position on the axis.
    fn across(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    /// Vertical coordinate of a position on the axis.
    fn height(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }

    /// Coordinates of a point; `None` if it is outside of the axes.
    fn point(&self, (x, y): &Point) -> Option<Point> {
        Some((self.across(self.x.place(*x)?), self.height(self.y.place(*y)?)))
    }
}

/// Colour of a line, and whether it is dashed: dashes distinguish lines once the colours are used
/// up.
fn look(index: usize, line: &Line) -> (Ink, bool) {
    let number = line.colour.unwrap_or(index);
    let again = number / COLOURS % 2 == 1;
    (Ink::Line(number % COLOURS), (line.style == Style::Dashed) != again)
}

/// Grid, ticks and the labels of both axes.
fn axes(plot: &Plot, frame: &Frame, shapes: &mut Vec<Shape>) {
    for (place, label) in &frame.y.ticks {
        let height = frame.height(*place);
        let ends = vec![(frame.left, height), (frame.right, height)];
        shapes.push(Shape::Path { points: ends, ink: Ink::Faint, width: 1.0, dashes: false });
        let at = (frame.left - 6.0, height + 0.35 * LABEL);
        shapes.push(text(at, label, Ink::Soft, LABEL, Align::End));
    }
    for (place, label) in &frame.x.ticks {
        let at = frame.across(*place);
        let ends = vec![(at, frame.top), (at, frame.bottom)];
        shapes.push(Shape::Path { points: ends, ink: Ink::Faint, width: 1.0, dashes: false });
        let at = (at, frame.bottom + 1.4 * LABEL);
        shapes.push(text(at, label, Ink::Soft, LABEL, Align::Middle));
    }
    let middle = (frame.left + frame.right) / 2.0;
    let below = (middle, frame.bottom + 2.9 * LABEL);
    shapes.push(text(below, &plot.x.label, Ink::Strong, LABEL, Align::Middle));
    shapes.push(Shape::Text {
        at: (MARGIN + 0.8 * LABEL, (frame.top + frame.bottom) / 2.0),
        text: plot.y.label.clone(),
        ink: Ink::Strong,
        size: LABEL,
        align: Align::Middle,
        bold: false,
        turned: true,
    });
}

/// Adds the names of the lines, in rows. Returns the end of the last row.
fn legend(plot: &Plot, top: f64, shapes: &mut Vec<Shape>) -> f64 {
    if plot.lines.iter().all(|line| line.name.is_empty()) {
        return top;
    }
    let (mut at, mut row) = (MARGIN, top + LABEL);
    for (index, line) in plot.lines.iter().enumerate() {
        let takes = SAMPLE + 6.0 + width(&line.name) + 14.0;
        if at > MARGIN && at + takes > WIDTH - MARGIN {
            (at, row) = (MARGIN, row + 1.5 * LABEL);
        }
        let height = row - 0.35 * LABEL;
        let (ink, dashes) = look(index, line);
        if line.style == Style::Dots {
            shapes.push(Shape::Dot { at: (at + SAMPLE / 2.0, height), ink, radius: 3.0 });
        } else {
            let points = vec![(at, height), (at + SAMPLE, height)];
            shapes.push(Shape::Path { points, ink, width: 2.0, dashes });
        }
        shapes.push(text((at + SAMPLE + 6.0, row), &line.name, Ink::Strong, LABEL, Align::Start));
        at += takes;
    }
    row
}

/// A line, broken at points outside of the axes.
fn draw(line: &Line, (ink, dashes): (Ink, bool), frame: &Frame, shapes: &mut Vec<Shape>) {
    let placed: Vec<Option<Point>> = line.points.iter().map(|point| frame.point(point)).collect();
    let dots =
        line.style == Style::Dots || (line.style != Style::Steps && line.points.len() <= DOTS_MAX);
    for run in placed.split(Option::is_none) {
        let run: Vec<Point> = run.iter().flatten().copied().collect();
        if dots || run.len() == 1 {
            let radius = if dashes { 2.0 } else { 2.6 };
            shapes.extend(run.iter().map(|&at| Shape::Dot { at, ink, radius }));
        }
        let points = match line.style {
            Style::Dots => continue,
            Style::Steps => stairs(&run),
            Style::Solid | Style::Dashed => run,
        };
        if points.len() > 1 {
            shapes.push(Shape::Path { points, ink, width: 1.75, dashes });
        }
    }
}

/// Whiskers at the points of a line. A whisker that would begin below the axis begins at the axis' lower end.
fn whiskers(line: &Line, ink: Ink, frame: &Frame, shapes: &mut Vec<Shape>) {
    for ((x, _), (low, high)) in line.points.iter().zip(&line.spread) {
        let (Some(x), Some(to)) = (frame.x.place(*x), frame.y.place(*high)) else { continue };
        let from = frame.y.place(*low).unwrap_or(0.0);
        if from >= to {
            continue;
        }
        let (at, ends) = (frame.across(x), [frame.height(from), frame.height(to)]);
        let bar = ends.map(|end| vec![(at - CAP, end), (at + CAP, end)]);
        for points in bar.into_iter().chain([ends.map(|end| (at, end)).to_vec()]) {
            shapes.push(Shape::Path { points, ink, width: 1.0, dashes: false });
        }
    }
}

/// Converts a line to steps, which are level up to the next point's x, and then vertical.
fn stairs(points: &[Point]) -> Vec<Point> {
    let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(points.last().copied()).collect()
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER * LABEL
}

fn text(at: Point, text: &str, ink: Ink, size: f64, align: Align) -> Shape {
    let bold = size == TITLE;
    Shape::Text { at, text: text.to_owned(), ink, size, align, bold, turned: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Axis;

    fn paths(plot: &Plot) -> Vec<Vec<Point>> {
        let line = |shape| match shape {
            Shape::Path { points, ink: Ink::Line(_), .. } => Some(points),
            _ => None,
        };
        // The first line is the sample in the legend.
        scene(plot).shapes.into_iter().filter_map(line).skip(1).collect()
    }

    fn of(style: Style, points: &[Point]) -> Plot {
        let line = Line::new("line", points.to_vec()).styled(style);
        Plot::new("title", Axis::linear("x"), Axis::linear("y")).line(line)
    }

    #[test]
    fn a_line_goes_from_corner_to_corner() {
        let [path] = &paths(&of(Style::Solid, &[(0.0, 0.0), (1.0, 1.0)]))[..] else {
            panic!("one path");
        };
        assert!(path[0].0 < path[1].0 && path[0].1 > path[1].1);
        assert_eq!(path[0].1 - path[1].1, FRAME_HEIGHT);
    }

    #[test]
    fn what_is_no_number_breaks_a_line() {
        let points = [
            (0.0, 0.0),
            (1.0, 1.0),
            (2.0, f64::NAN),
            (3.0, 1.0),
            (4.0, 0.0),
            (5.0, f64::INFINITY),
            (6.0, 1.0),
        ];
        let runs: Vec<usize> = paths(&of(Style::Solid, &points)).iter().map(Vec::len).collect();
        assert_eq!(runs, [2, 2]);
    }

    #[test]
    fn steps_are_level_until_the_next_point() {
        let [path] = &paths(&of(Style::Steps, &[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]))[..] else {
            panic!("one path");
        };
        assert_eq!(path.len(), 5);
        assert!(path[0].1 == path[1].1 && path[1].0 == path[2].0);
    }

    #[test]
    fn a_spread_is_a_whisker_and_the_axis_has_room_for_it() {
        let line =
            Line::new("line", vec![(1.0, 5.0), (2.0, 6.0)]).spread(vec![(5.0, 5.0), (2.0, 10.0)]);
        let plot = Plot::new("title", Axis::linear("x"), Axis::linear("y")).line(line);
        let paths = paths(&plot);
        let [low, high, whisker, line] = &paths[..] else {
            panic!("a whisker with two ends, and the line: {paths:?}");
        };
        assert!(whisker[0].0 == line[1].0 && whisker[0].1 > line[1].1 && line[1].1 > whisker[1].1);
        assert_eq!([low[0].1, high[0].1], [whisker[0].1, whisker[1].1]);
    }

    #[test]
    fn a_plot_without_anything_has_a_sheet() {
        let scene = scene(&Plot::default());
        assert!(scene.height > FRAME_HEIGHT);
    }

    #[test]
    fn a_long_legend_takes_more_rows() {
        let many = (0..12).fold(Plot::default(), |plot, i| {
            plot.line(Line::new(format!("a rather long name, number {i}"), vec![(0.0, 1.0)]))
        });
        let one = Plot::default().line(Line::new("name", vec![(0.0, 1.0)]));
        assert!(scene(&many).height > scene(&one).height + 3.0 * LABEL);
    }
}
