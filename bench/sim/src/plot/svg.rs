//! A scene as SVG. Colours are CSS classes with values for light and dark themes; names are escaped.

use super::scene::{Align, Ink, Scene, Shape};
use std::fmt::Write;

/// The colours of inks in the light and in the dark theme: strong, soft, faint, then the lines.
const STYLE: &str = "<style>\
.omega-plot{--strong:#18202c;--soft:#5a6473;--faint:#e2e6eb;--l0:#1f66c1;--l1:#c2560a;--l2:#0b8068;\
--l3:#8a3fb0;--l4:#8a6a00;--l5:#c2286f;--l6:#5c6675;--l7:#3b3fa8;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',Arial,sans-serif}\
@media(prefers-color-scheme:dark){.omega-plot{--strong:#e7ebf0;--soft:#9aa5b4;--faint:#2a323d;\
--l0:#6aa9ff;--l1:#ff9b54;--l2:#3fc9a7;--l3:#c58bf2;--l4:#e0bd4a;--l5:#ff7fb0;--l6:#a3afbd;--l7:#9aa0ff}}\
</style>";

pub(super) fn render(scene: &Scene) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"omega-plot\" viewBox=\"0 0 {} {}\" \
         role=\"img\" aria-label=\"{}\">{STYLE}\n",
        round(scene.width),
        round(scene.height),
        escape(&scene.description)
    );
    for shape in &scene.shapes {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}", draw(shape));
    }
    out.push_str("</svg>\n");
    out
}

fn draw(shape: &Shape) -> String {
    match shape {
        Shape::Path { points, ink, width, dashes } => {
            let points: Vec<String> =
                points.iter().map(|(x, y)| format!("{} {}", round(*x), round(*y))).collect();
            let dashes = if *dashes { " stroke-dasharray=\"5 4\"" } else { "" };
            format!(
                "<path d=\"M{}\" fill=\"none\" style=\"stroke:{}\" stroke-width=\"{width}\" \
                 stroke-linejoin=\"round\"{dashes}/>",
                points.join("L"),
                colour(*ink)
            )
        }
        Shape::Dot { at, ink, radius } => format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" style=\"fill:{}\"/>",
            round(at.0),
            round(at.1),
            colour(*ink)
        ),
        Shape::Text { at, text, ink, size, align, bold, turned } => {
            let anchor = match align {
                Align::Start => "start",
                Align::Middle => "middle",
                Align::End => "end",
            };
            let (x, y) = (round(at.0), round(at.1));
            let turn =
                if *turned { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
            let weight = if *bold { " font-weight=\"600\"" } else { "" };
            format!(
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
                 style=\"fill:{}\"{weight}{turn}>{}</text>",
                colour(*ink),
                escape(text)
            )
        }
    }
}

fn colour(ink: Ink) -> String {
    match ink {
        Ink::Strong => "var(--strong)".to_owned(),
        Ink::Soft => "var(--soft)".to_owned(),
        Ink::Faint => "var(--faint)".to_owned(),
        Ink::Line(number) => format!("var(--l{number})"),
    }
}

/// Rounds to hundredths of a unit, which is finer than the pixels of any screen.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Escapes text for elements and attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::plot::{Axis, Line, Plot};

    #[test]
    fn names_do_not_become_markup() {
        let line = Line::new("<script>&\"'\u{1b}", vec![(0.0, 1.0)]);
        let svg = Plot::new("</svg><b>", Axis::linear("<x>"), Axis::linear("y")).line(line).svg();
        assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains("<x>"));
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(svg.contains("&lt;script&gt;&amp;&quot;&#39;\u{fffd}"));
    }

    #[test]
    fn no_number_is_missing_from_a_drawing() {
        let line = Line::new("", vec![(f64::NAN, 1.0), (0.0, f64::INFINITY), (1.0, 1.0)]);
        let svg = Plot::new("", Axis::log("x"), Axis::linear("y")).line(line).svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
