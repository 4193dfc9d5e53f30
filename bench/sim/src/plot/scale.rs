//! Ticks of an axis, and their labels.

use super::data::{Axis, Scale, Unit};

/// An axis whose ends are computed.
#[derive(Clone, Debug)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// Ticks: the position from 0 at the low end to 1 at the high end, and the label.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Ruler {
    /// Creates the axis for these values, extended to the values that it must include.
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Ruler {
        let usable =
            |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
        let bounds = [axis.least, axis.most].into_iter().flatten();
        let (low, high) = values
            .chain(bounds)
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        match axis.scale {
            Scale::Linear if low > high => Ruler::linear(axis, 0.0, 1.0),
            Scale::Linear => Ruler::linear(axis, low, high),
            Scale::Log if low > high => Ruler::log(axis, 1.0, 10.0),
            Scale::Log => Ruler::log(axis, axis.least.filter(usable).unwrap_or(low), high),
        }
    }

    /// A linear axis with round ends around these values. It starts at zero if the values are near zero.
    fn linear(axis: &Axis, low: f64, high: f64) -> Ruler {
        let low = if low > 0.0 && low < 0.5 * high { 0.0 } else { low };
        let (low, high) = if low < high { (low, high) } else { (low.min(0.0), low.max(0.0) + 1.0) };
        let step = round_step((high - low) / 5.0);
        let first = (low / step + 1e-9).floor();
        let last = (high / step - 1e-9).ceil();
        let (low, high) = (first * step, last * step);
        let steps = (last - first).round();
        let tick = |index: u32| {
            let value = (first + f64::from(index)) * step;
            (f64::from(index) / steps, label(value, axis.unit))
        };
        Ruler { scale: Scale::Linear, low, high, ticks: (0..=steps as u32).map(tick).collect() }
    }

    /// A logarithmic axis that ends at powers of ten, or, if it spans less than two decades, at 1, 2 or 5 times a power
    /// of ten.
    fn log(axis: &Axis, low: f64, high: f64) -> Ruler {
        let high = high.max(low * 1.000_001);
        let decades = (high / low).log10();
        let marks: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all: Vec<f64> = (low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1)
            .flat_map(|power| marks.iter().map(move |mark| mark * 10_f64.powi(power)))
            .collect();
        let from = all.iter().rposition(|&tick| tick <= low * (1.0 + 1e-9)).unwrap_or(0);
        let to = all.iter().position(|&tick| tick >= high * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
        let ticks = &all[from..=to.max(from + 1).min(all.len() - 1)];
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        // At most eight labels are shown, because more would be too close together.
        let every = ticks.len().div_ceil(8);
        let span = (high / low).log10();
        let tick = |&value: &f64| ((value / low).log10() / span, label(value, axis.unit));
        Ruler {
            scale: Scale::Log,
            low,
            high,
            ticks: ticks.iter().step_by(every).map(tick).collect(),
        }
    }

    /// Position of a value, from 0 to 1; `None` if it is outside of this axis.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        (place.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&place)).then_some(place)
    }
}

/// Returns the smallest number that is 1, 2, 2.5 or 5 times a power of ten, and not below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|f| f * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Formats a tick's number in its shortest form.
fn label(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Share => format!("{} %", number(value * 100.0)),
        Unit::Number => number(value),
    }
}

/// Formats a number with at most four significant digits, with k, M and G for thousands, millions and billions.
fn number(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        s if s >= 1e9 => (value / 1e9, "G"),
        s if s >= 1e6 => (value / 1e6, "M"),
        s if s >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    if size > 0.0 && size < 1e-4 {
        return format!("{value:.0e}");
    }
    let text = format!("{scaled:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    // Zero is printed without a sign.
    let text = if text == "-0" { "0" } else { text };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> String {
        let ruler = Ruler::of(axis, values.iter().copied());
        let labels: Vec<&str> = ruler.ticks.iter().map(|(_, label)| label.as_str()).collect();
        labels.join(" ")
    }

    #[test]
    fn linear_ticks_are_round() {
        let plain = Axis::default();
        for (values, text) in [
            (&[0.0, 1.0][..], "0 0.2 0.4 0.6 0.8 1"),
            (&[3.0, 97.0], "0 20 40 60 80 100"),
            (&[80.0, 97.0], "80 85 90 95 100"),
            (&[-3.0, 4.0], "-4 -2 0 2 4"),
            (&[0.0, 151_000.0], "0 50k 100k 150k 200k"),
            (&[], "0 0.2 0.4 0.6 0.8 1"),
            (&[7.0], "0 2 4 6 8"),
            (&[0.0], "0 0.2 0.4 0.6 0.8 1"),
            (&[f64::NAN, f64::INFINITY, 2.0, 1.0], "1 1.2 1.4 1.6 1.8 2"),
        ] {
            assert_eq!(labels(&plain, values), text, "{values:?}");
        }
        assert_eq!(labels(&Axis::share(""), &[0.0, 0.9]), "0 % 20 % 40 % 60 % 80 % 100 %");
    }

    #[test]
    fn logarithmic_ticks_are_powers() {
        let log = Axis::log("");
        for (values, text) in [
            (&[0.01, 100.0][..], "0.01 0.1 1 10 100"),
            (&[0.0, -1.0, 3.0, 40.0], "2 5 10 20 50"),
            (&[1e-7, 1e-2], "1e-7 1e-6 1e-5 0.0001 0.001 0.01"),
            (&[5.0], "5 10"),
            (&[], "1 2 5 10"),
        ] {
            assert_eq!(labels(&log, values), text, "{values:?}");
        }
    }

    #[test]
    fn values_have_their_place() {
        let ruler = Ruler::of(&Axis::log(""), [1.0, 100.0].into_iter());
        assert_eq!(ruler.place(10.0), Some(0.5));
        assert_eq!(ruler.place(0.0), None);
        assert_eq!(ruler.place(1000.0), None);
        let least = Axis { least: Some(1.0), ..Axis::log("") };
        let ruler = Ruler::of(&least, [0.001, 100.0].into_iter());
        assert_eq!((ruler.place(1.0), ruler.place(0.1)), (Some(0.0), None));
    }
}
