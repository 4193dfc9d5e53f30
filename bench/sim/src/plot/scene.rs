//! A drawing as a list of shapes, which `svg.rs` and `png.rs` write.

/// Number of line colours; further lines reuse them with another dash pattern.
pub(super) const COLOURS: usize = 8;

/// Drawing, in units of a 720 x 420 sheet.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Text alternative for readers who cannot see the plot.
    pub(super) description: String,
    pub(super) shapes: Vec<Shape>,
}

/// Colour of a shape, whose value depends on the theme (light or dark).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// Important text.
    Strong,
    /// Labels.
    Soft,
    /// The grid.
    Faint,
    /// The line with this number.
    Line(usize),
}

/// Anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Start,
    Middle,
    End,
}

pub(super) type Point = (f64, f64);

#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A line through these points.
    Path { points: Vec<Point>, ink: Ink, width: f64, dashes: bool },
    /// A dot.
    Dot { at: Point, ink: Ink, radius: f64 },
    /// A text on one line; if `turned`, it runs upwards.
    Text { at: Point, text: String, ink: Ink, size: f64, align: Align, bold: bool, turned: bool },
}
