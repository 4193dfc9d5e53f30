//! Plots of results: lines over an axis, as SVG for documents and pages, and as PNG for other uses.
//!
//! ```text
//!   Plot ──layout.rs──▶ shapes ──svg.rs──▶ SVG, with colours for light and dark themes
//!     scale.rs: ticks           └─png.rs──▶ PNG, light
//! ```
//!
//! A plot is plain data. Its layout is computed once, so both outputs show the same shapes. Equal data give equal bytes
//! on any machine, because the letters of a PNG come from a built-in font.

mod data;
mod layout;
mod png;
mod scale;
mod scene;
mod svg;

pub use data::{Axis, Guide, Line, Plot, Scale, Style, Unit};
pub(crate) use svg::escape;

impl Plot {
    /// Converts to an SVG document, which can be embedded in a page.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::render(&layout::scene(self))
    }

    /// Converts to a PNG file with a light background.
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        png::render(&layout::scene(self))
    }
}
