//! A scene as PNG, for uses without SVG: light, two pixels per unit, with letters of a built-in font.

use super::scene::{Align, Ink, Point, Scene, Shape};
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash,
    Transform,
};
use ttf_parser::{Face, OutlineBuilder};

/// Pixels per unit.
const SCALE: f32 = 2.0;

/// The colours of lines, as in the light theme of `svg.rs`.
const LINES: [u32; 8] =
    [0x1f_66c1, 0xc2_560a, 0x0b_8068, 0x8a_3fb0, 0x8a_6a00, 0xc2_286f, 0x5c_6675, 0x3b_3fa8];

pub(super) fn render(scene: &Scene) -> Vec<u8> {
    let [width, height] =
        [scene.width, scene.height].map(|units| (units as f32 * SCALE).ceil() as u32);
    // A scene has a non-zero size, which can be allocated and encoded.
    let Some(mut pixels) = Pixmap::new(width.max(1), height.max(1)) else { return Vec::new() };
    pixels.fill(Color::WHITE);
    let face = Face::parse(epaint_default_fonts::UBUNTU_LIGHT, 0).ok();
    for shape in &scene.shapes {
        draw(shape, face.as_ref(), &mut pixels);
    }
    pixels.encode_png().unwrap_or_default()
}

fn draw(shape: &Shape, face: Option<&Face>, pixels: &mut Pixmap) {
    let scale = Transform::from_scale(SCALE, SCALE);
    match shape {
        Shape::Path { points, ink, width, dashes } => {
            let stroke = Stroke {
                width: *width as f32,
                line_join: LineJoin::Round,
                line_cap: LineCap::Butt,
                dash: dashes.then(|| StrokeDash::new(vec![5.0, 4.0], 0.0)).flatten(),
                ..Stroke::default()
            };
            if let Some(path) = polyline(points) {
                pixels.stroke_path(&path, &paint(*ink), &stroke, scale, None);
            }
        }
        Shape::Dot { at, ink, radius } => {
            if let Some(path) = PathBuilder::from_circle(at.0 as f32, at.1 as f32, *radius as f32) {
                pixels.fill_path(&path, &paint(*ink), FillRule::Winding, scale, None);
            }
        }
        Shape::Text { at, text, ink, size, align, bold, turned } => {
            let Some(face) = face else { return };
            let zoom = *size as f32 / f32::from(face.units_per_em());
            let Letters { outline, width } = Letters::of(face, text);
            let start = match align {
                Align::Start => 0.0,
                Align::Middle => -0.5 * width * zoom,
                Align::End => -width * zoom,
            };
            let Some(path) = outline.finish() else { return };
            // A font's vertical axis points upwards from the baseline, so the letters are flipped.
            let turn = if *turned { Transform::from_rotate(-90.0) } else { Transform::identity() };
            let place = Transform::from_scale(zoom, -zoom)
                .post_translate(start, 0.0)
                .post_concat(turn)
                .post_translate(at.0 as f32, at.1 as f32)
                .post_concat(scale);
            pixels.fill_path(&path, &paint(*ink), FillRule::Winding, place, None);
            // The font has one weight only, so a line is drawn around the letters of bold text.
            let width = if *bold { 60.0 } else { 24.0 };
            let stroke = Stroke { width, ..Stroke::default() };
            pixels.stroke_path(&path, &paint(*ink), &stroke, place, None);
        }
    }
}

fn polyline(points: &[Point]) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if index == 0 { builder.move_to(x, y) } else { builder.line_to(x, y) }
    }
    builder.finish()
}

fn paint(ink: Ink) -> Paint<'static> {
    let rgb = match ink {
        Ink::Strong => 0x18_202c,
        Ink::Soft => 0x5a_6473,
        Ink::Faint => 0xe2_e6eb,
        Ink::Line(number) => LINES[number % LINES.len()],
    };
    let [_, red, green, blue] = u32::to_be_bytes(rgb);
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

/// The outlines of a text's letters, in the font's units.
struct Letters {
    outline: PathBuilder,
    width: f32,
}

impl Letters {
    fn of(face: &Face, text: &str) -> Letters {
        let mut letters = Letters { outline: PathBuilder::new(), width: 0.0 };
        for c in text.chars() {
            let Some(glyph) = face.glyph_index(c).or_else(|| face.glyph_index('?')) else {
                continue;
            };
            // A blank has a width but no outline.
            let _ = face.outline_glyph(glyph, &mut letters);
            letters.width += f32::from(face.glyph_hor_advance(glyph).unwrap_or(0));
        }
        letters
    }
}

impl OutlineBuilder for Letters {
    fn move_to(&mut self, x: f32, y: f32) {
        self.outline.move_to(self.width + x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.outline.line_to(self.width + x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let at = self.width;
        self.outline.quad_to(at + x1, y1, at + x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let at = self.width;
        self.outline.cubic_to(at + x1, y1, at + x2, y2, at + x, y);
    }

    fn close(&mut self) {
        self.outline.close();
    }
}

#[cfg(test)]
mod tests {
    use crate::plot::{Axis, Line, Plot};
    use tiny_skia::Pixmap;

    fn decoded(plot: &Plot) -> Pixmap {
        Pixmap::decode_png(&plot.png()).unwrap()
    }

    #[test]
    fn a_line_leaves_its_colour_and_text_leaves_ink() {
        let empty = Plot::new("", Axis::linear(""), Axis::linear(""));
        let line = Line::new("", vec![(0.0, 0.0), (1.0, 1.0)]);
        let pixels = decoded(&empty.clone().line(line));
        assert_eq!(pixels.width(), 1_440);
        let blue = |pixels: &Pixmap| {
            let rgb = |p: &tiny_skia::PremultipliedColorU8| (p.red(), p.green(), p.blue());
            pixels.pixels().iter().filter(|p| rgb(p) == (0x1f, 0x66, 0xc1)).count()
        };
        assert!(blue(&pixels) > 500, "{}", blue(&pixels));
        assert_eq!(blue(&decoded(&empty)), 0);
        let dark = |pixels: &Pixmap| pixels.pixels().iter().filter(|p| p.red() < 0x40).count();
        let titled = Plot { title: "A title".to_owned(), ..empty.clone() };
        assert!(dark(&decoded(&titled)) > dark(&decoded(&empty)) + 100);
    }

    #[test]
    fn the_same_plot_has_the_same_bytes() {
        let plot = Plot::new("title", Axis::log("x, s"), Axis::share("y"))
            .line(Line::new("näme 漢", vec![(1.0, 0.1), (10.0, 0.7)]));
        assert_eq!(plot.png(), plot.png());
        assert_eq!(plot.svg(), plot.svg());
    }
}
