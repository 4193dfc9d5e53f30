//! Plots of results: lines over an axis, as SVG for documents and pages and as PNG for everything else.
//!
//! ```text
//!   Plot ──layout.rs──▶ shapes ──svg.rs──▶ SVG, its colours by the reader's light or dark
//!     scale.rs: ticks           └─png.rs──▶ PNG, light
//! ```
//!
//! A plot is plain data, laid out once; both outputs show the same shapes. Same data, same bytes: nothing
//! here depends on the machine, as the letters of a PNG are those of a font that comes with the program.

mod layout;
mod png;
mod scale;
mod svg;

pub(crate) use svg::escape;

/// Number of colours lines that have before they begin again, with another dash.
const COLOURS: usize = 8;

/// Some lines over two axes.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Heading.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
    /// Heights to compare the lines with, such as an objective.
    pub guides: Vec<Guide>,
}

/// An axis of a plot.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// The quantity and its unit: "decision time of a service job, seconds".
    pub label: String,
    /// Scale of the axis: linear or logarithmic.
    pub scale: Scale,
    /// Unit of its numbers.
    pub unit: Unit,
    /// The axis starts here or lower; a logarithmic axis cuts off lower values.
    pub least: Option<f64>,
    /// The axis ends here or higher.
    pub most: Option<f64>,
}

/// Spacing of values on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equally long.
    #[default]
    Linear,
    /// Equal factors are equally long. Values of zero and less have no place, and are left out.
    Log,
}

/// Unit of the numbers of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Linear.
    #[default]
    Number,
    /// Shares of one, shown as percentages.
    Share,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points, ascending by x. NaN is omitted and breaks the line.
    pub points: Vec<(f64, f64)>,
    /// Range of each point that is a mean, drawn as a whisker. Empty, or one for each point.
    pub spread: Vec<(f64, f64)>,
    /// Style of the line.
    pub style: Style,
    /// Lines of one group have one colour, so that a reader sees what belongs together; without it, every
    /// line has its own.
    pub colour: Option<usize>,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A line from point to point, with dots if there are few.
    #[default]
    Solid,
    /// A dashed line: a reference to compare with.
    Dashed,
    /// Level until the next point, as a distribution is.
    Steps,
    /// The points alone.
    Dots,
}

/// A height to compare with.
#[derive(Clone, Debug)]
pub struct Guide {
    /// Position on the y axis.
    pub at: f64,
    /// Kind, written above it.
    pub name: String,
}

impl Plot {
    /// A plot without lines yet.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Plot {
        Plot { title: title.into(), x, y, ..Plot::default() }
    }

    /// Returns `self` with one more line.
    #[must_use]
    pub fn line(mut self, line: Line) -> Plot {
        self.lines.push(line);
        self
    }

    /// Returns `self` with one more horizontal reference line.
    #[must_use]
    pub fn guide(mut self, at: f64, name: impl Into<String>) -> Plot {
        self.guides.push(Guide { at, name: name.into() });
        self
    }

    /// Converts to an SVG document, which can be embedded in a page.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::render(&layout::scene(self))
    }

    /// Converts to a PNG of two pixels a unit, 1,440 wide.
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        png::render(&layout::scene(self))
    }
}

impl Axis {
    /// An axis of equal steps.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// An axis of equal factors.
    #[must_use]
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label) }
    }

    /// An axis of shares.
    #[must_use]
    pub fn share(label: impl Into<String>) -> Axis {
        Axis { unit: Unit::Share, ..Axis::linear(label) }
    }
}

impl Line {
    /// A solid line of its own colour.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), points, ..Line::default() }
    }

    /// Returns the line with whiskers at its points.
    #[must_use]
    pub fn spread(self, spread: Vec<(f64, f64)>) -> Line {
        Line { spread, ..self }
    }

    /// Returns the line in another style.
    #[must_use]
    pub fn styled(self, style: Style) -> Line {
        Line { style, ..self }
    }

    /// Returns the line in the colour of a group.
    #[must_use]
    pub fn coloured(self, colour: usize) -> Line {
        Line { colour: Some(colour), ..self }
    }
}

/// Drawing, in units of a 720 x 420 sheet.
#[derive(Clone, Debug, Default)]
struct Scene {
    width: f64,
    height: f64,
    /// Text for readers who cannot see it.
    description: String,
    shapes: Vec<Shape>,
}

/// Colour of a shape; its value depends on the light or dark theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ink {
    /// Text that matters.
    Strong,
    /// Labels.
    Soft,
    /// The grid.
    Faint,
    /// The line of this number.
    Line(usize),
}

/// Anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Start,
    Middle,
    End,
}

type Point = (f64, f64);

#[derive(Clone, Debug)]
enum Shape {
    /// A line through these points.
    Path { points: Vec<Point>, ink: Ink, width: f64, dashes: bool },
    /// A dot.
    Dot { at: Point, ink: Ink, radius: f64 },
    /// A text on one line; if turned, it runs upwards.
    Text { at: Point, text: String, ink: Ink, size: f64, align: Align, bold: bool, turned: bool },
}
