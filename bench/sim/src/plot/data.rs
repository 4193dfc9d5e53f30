//! Plots as plain data.

/// Lines over two axes.
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
    /// Horizontal reference lines, such as an objective.
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
    /// The axis starts at this value or lower; a logarithmic axis cuts off lower values.
    pub least: Option<f64>,
    /// The axis ends at this value or higher.
    pub most: Option<f64>,
}

/// Spacing of values on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal lengths.
    #[default]
    Linear,
    /// Equal ratios have equal lengths. Values of zero and less are left out.
    Log,
}

/// Unit of the numbers of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Plain numbers.
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
    /// Range of each point, drawn as a whisker, if the points are means. Either empty, or one per point.
    pub spread: Vec<(f64, f64)>,
    /// Style of the line.
    pub style: Style,
    /// Number of a colour. Lines with the same number have the same colour; a line with `None` has a colour of its own.
    pub colour: Option<usize>,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A line from point to point, with dots if there are few points.
    #[default]
    Solid,
    /// A dashed line: a reference to compare with.
    Dashed,
    /// A line that is level up to the next point, for distributions.
    Steps,
    /// The points alone.
    Dots,
}

/// A horizontal reference line.
#[derive(Clone, Debug)]
pub struct Guide {
    /// Position on the y axis.
    pub at: f64,
    /// Label of the line.
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
}

impl Axis {
    /// Creates a linear axis.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// Creates a logarithmic axis.
    #[must_use]
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label) }
    }

    /// Creates a linear axis of shares.
    #[must_use]
    pub fn share(label: impl Into<String>) -> Axis {
        Axis { unit: Unit::Share, ..Axis::linear(label) }
    }
}

impl Line {
    /// Creates a solid line with a colour of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), points, ..Line::default() }
    }

    /// Returns the line with a range for each point.
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
