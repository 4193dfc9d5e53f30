//! Axes: positions and labels of ticks.

use super::number::{amount, short};

/// Unit of the numbers of a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    /// Shares of one, shown as percentages.
    Share,
    /// Whole numbers, so there are no ticks between two of them.
    Count,
    /// Any other quantity.
    Amount,
}

/// An axis from `low` to `high`.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    /// Ticks of the axis: the position from 0 at `low` to 1 at `high`, and the label.
    pub(super) ticks: Vec<(f64, String)>,
    /// Unit of the labels; empty if the labels contain it.
    pub(super) unit: &'static str,
}

impl Axis {
    /// An axis from zero to a round number that is not less than `max`.
    pub(super) fn of_values(max: f64, unit: Unit) -> Axis {
        // If all values are zero, the axis needs an end above zero.
        let max = match unit {
            _ if max.is_finite() && max > 0.0 => max,
            Unit::Share => 0.01,
            Unit::Count | Unit::Amount => 1.0,
        };
        let least = if unit == Unit::Count { 1.0 } else { 0.0 };
        // With four steps there is room between the labels even in a plot of the smallest height.
        let step = round_step(max / 4.0).max(least);
        let steps = (max / step - 1e-9).ceil().max(1.0);
        let high = steps * step;
        let label = |value: f64| match unit {
            Unit::Share => format!("{} %", amount(value * 100.0)),
            Unit::Count | Unit::Amount => short(value),
        };
        let ticks = (0..=steps as usize)
            .map(|index| (index as f64 / steps, label(index as f64 * step)))
            .collect();
        Axis { low: 0.0, high, ticks, unit: "" }
    }

    /// An axis between two times in seconds.
    pub(super) fn of_time(from: f64, to: f64) -> Axis {
        let span = (to - from).max(0.0);
        let (unit, seconds, steps): (_, _, &[f64]) = match span {
            s if s >= 3.0 * 86_400.0 => ("days", 86_400.0, &[0.5, 1.0, 2.0, 5.0, 7.0]),
            s if s >= 3.0 * 3_600.0 => ("hours", 3_600.0, &[0.5, 1.0, 2.0, 3.0, 6.0, 12.0]),
            s if s >= 180.0 => ("minutes", 60.0, &[0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0]),
            _ => ("seconds", 1.0, &[]),
        };
        let rough = span / seconds / 6.0;
        let step = steps
            .iter()
            .copied()
            .find(|&step| step >= rough)
            .unwrap_or_else(|| round_step(rough.max(1e-6)))
            * seconds;
        if span == 0.0 {
            // If the range has no length, the tick is in the middle.
            let ticks = vec![(0.5, short(from / seconds))];
            return Axis { low: from - step, high: from + step, ticks, unit };
        }
        let (low, high) = (from, to);
        let first = (low / step - 1e-9).ceil();
        let ticks = (0..12)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|&at| at <= high + step * 1e-9)
            .map(|at| ((at - low) / (high - low), short(at / seconds)))
            .collect();
        Axis { low, high, ticks, unit }
    }

    /// Position of a value, from 0 to 1. NaN becomes 0, so that no coordinate of a drawing is NaN.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = (value - self.low) / (self.high - self.low);
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The smallest number that is 1, 2, 2.5 or 5 times a power of ten, and not below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|f| f * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> String {
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        labels.join(" | ")
    }

    #[test]
    fn ticks_are_round() {
        for (max, unit, text) in [
            (1.0, Unit::Share, "0 % | 25 % | 50 % | 75 % | 100 %"),
            (1.12, Unit::Share, "0 % | 50 % | 100 % | 150 %"),
            (0.031, Unit::Share, "0 % | 1 % | 2 % | 3 % | 4 %"),
            (3.0, Unit::Count, "0 | 1 | 2 | 3"),
            (0.0, Unit::Count, "0 | 1"),
            (0.0, Unit::Share, "0 % | 0.25 % | 0.5 % | 0.75 % | 1 %"),
            (f64::NAN, Unit::Amount, "0 | 0.25 | 0.5 | 0.75 | 1"),
            (151_000.0, Unit::Count, "0 | 50k | 100k | 150k | 200k"),
        ] {
            assert_eq!(labels(&Axis::of_values(max, unit)), text);
        }
    }

    #[test]
    fn time_has_the_unit_that_fits() {
        for (to, text, unit) in [
            (90.0, "0 | 20 | 40 | 60 | 80", "seconds"),
            (3_600.0, "0 | 10 | 20 | 30 | 40 | 50 | 60", "minutes"),
            (86_400.0, "0 | 6 | 12 | 18 | 24", "hours"),
            (29.0 * 86_400.0, "0 | 5 | 10 | 15 | 20 | 25", "days"),
            (99.0 * 86_400.0, "0 | 20 | 40 | 60 | 80", "days"),
            (0.0, "0", "seconds"),
        ] {
            let axis = Axis::of_time(0.0, to);
            assert_eq!((labels(&axis).as_str(), axis.unit), (text, unit));
        }
        let broken = Axis::of_time(f64::NAN, 5.0);
        assert!(broken.place(3.0) == 0.0 && labels(&broken) == "–");
        let late = Axis::of_time(600.0, 4_200.0);
        assert_eq!(labels(&late), "10 | 20 | 30 | 40 | 50 | 60 | 70");
        assert!(late.place(600.0) == 0.0 && late.place(4_200.0) == 1.0);
    }
}
