//! Layout of a sweep's plots. It selects the setting on the horizontal axis, the settings whose values make the lines
//! of a plot, and the settings whose values make separate plots.
//!
//! The numeric setting with the most values is on the horizontal axis. The other settings make lines, at most as many
//! as a plot has colours. If their combinations of values would make more lines than that, the first of these settings
//! divide the results into separate parts instead. Architectures come last, so that they stay in one plot for as long
//! as possible.

use super::file::SETTINGS;
use super::groups::Combination;
use crate::sheet::{Cell, Kind};
use std::collections::BTreeSet;

/// Maximum number of lines of a plot: the number of colours.
pub(super) const LINES_MAX: usize = 8;
/// Maximum number of parts of a page. A part has at most six plots, so a page has at most 36.
pub(super) const PARTS_MAX: usize = 6;

/// Roles of the settings, by their numbers in [`SETTINGS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Setting on the horizontal axis; `None` if no numeric setting has several values.
    pub(super) across: Option<usize>,
    /// Settings whose values make the lines: one line for each combination of values.
    pub(super) lines: Vec<usize>,
    /// Settings whose values make the parts of the page: one part for each combination of values.
    pub(super) parts: Vec<usize>,
}

impl Layout {
    pub(super) fn of(combinations: &[Combination]) -> Layout {
        let values: Vec<usize> = (0..SETTINGS.len() - 1)
            .map(|setting| {
                let all = combinations.iter().map(|it| format!("{:?}", it.settings[setting]));
                all.collect::<BTreeSet<String>>().len()
            })
            .collect();
        let kinds: Vec<Kind> = SETTINGS.iter().map(|(_, kind)| *kind).collect();
        Layout::by(&values, &kinds)
    }

    /// Chooses a layout from the number and kind of each setting's values.
    fn by(values: &[usize], kinds: &[Kind]) -> Layout {
        let swept: Vec<usize> = (0..values.len()).filter(|setting| values[*setting] > 1).collect();
        let numbers = swept.iter().copied().filter(|setting| kinds[*setting] != Kind::Text);
        // Of settings with equally many values, the first is chosen, because `max_by_key` returns the last in the
        // reversed order.
        let across = numbers.rev().max_by_key(|setting| values[*setting]);
        let mut others: Vec<usize> = swept.into_iter().filter(|it| Some(*it) != across).collect();
        if others.first() == Some(&0) {
            others.rotate_left(1);
        }
        if across.is_none() {
            return Layout { across, lines: Vec::new(), parts: others };
        }
        let lines = |from: usize| {
            others[from..].iter().map(|it| values[*it]).fold(1, usize::saturating_mul)
        };
        let last = others.len().saturating_sub(1);
        let from = (0..last).find(|from| lines(*from) <= LINES_MAX).unwrap_or(last);
        Layout { across, lines: others.split_off(from), parts: others }
    }
}

/// Returns the values that a combination has for these settings.
pub(super) fn values(combination: &Combination, settings: &[usize]) -> Vec<Cell> {
    settings.iter().map(|setting| combination.settings[*setting].clone()).collect()
}

/// Combinations grouped by the values of some settings, in order of first appearance.
pub(super) fn split<'a>(
    combinations: &[&'a Combination],
    by: &[usize],
) -> Vec<(Vec<Cell>, Vec<&'a Combination>)> {
    let mut split: Vec<(Vec<Cell>, Vec<&Combination>)> = Vec::new();
    let mut numbers = std::collections::BTreeMap::new();
    for combination in combinations {
        let key = values(combination, by);
        let number = *numbers.entry(format!("{key:?}")).or_insert(split.len());
        match split.get_mut(number) {
            Some((_, all)) => all.push(combination),
            None => split.push((key, vec![combination])),
        }
    }
    split
}

/// Returns at most `most` of the items, evenly chosen.
pub(super) fn sample<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let count = all.len();
    if count <= most {
        return all;
    }
    let taken: BTreeSet<usize> = (0..most).map(|nth| nth * count / most).collect();
    all.into_iter().enumerate().filter(|(nth, _)| taken.contains(nth)).map(|(_, it)| it).collect()
}

/// Formats values for people: `omega, batch 4`.
pub(super) fn name(settings: &[usize], values: &[Cell]) -> String {
    let one = |(setting, value): (&usize, &Cell)| match (SETTINGS[*setting], value) {
        ((_, Kind::Text), value) => value.text(),
        ((name, _), value) => format!("{name} {}", value.text()),
    };
    settings.iter().zip(values).map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(values: &[usize]) -> Layout {
        let kinds = [Kind::Text, Kind::Count, Kind::Number, Kind::Number, Kind::Text];
        Layout::by(values, &kinds[..values.len()])
    }

    fn of(across: Option<usize>, lines: &[usize], parts: &[usize]) -> Layout {
        Layout { across, lines: lines.to_vec(), parts: parts.to_vec() }
    }

    #[test]
    fn the_number_with_most_values_goes_across() {
        assert_eq!(layout(&[2, 3, 4, 4, 1]), of(Some(2), &[3, 0], &[1]));
        assert_eq!(layout(&[2, 3, 9, 4, 2]), of(Some(2), &[4, 0], &[1, 3]));
        assert_eq!(layout(&[1, 1, 3, 1, 2]), of(Some(2), &[4], &[]));
        assert_eq!(layout(&[1, 1, 3, 1, 1]), of(Some(2), &[], &[]));
        assert_eq!(layout(&[1, 20, 3, 1, 1]), of(Some(1), &[2], &[]));
    }

    #[test]
    fn architectures_stay_in_one_plot_and_what_is_too_much_makes_parts() {
        assert_eq!(layout(&[7, 2, 9, 1, 1]), of(Some(2), &[0], &[1]));
        assert_eq!(layout(&[4, 2, 9, 1, 1]), of(Some(2), &[1, 0], &[]));
        assert_eq!(
            layout(&[1, 9, 9, 10, 1]),
            of(Some(3), &[2], &[1]),
            "more than there are colours"
        );
    }

    #[test]
    fn without_a_number_there_is_nothing_to_go_across() {
        assert_eq!(layout(&[2, 1, 1, 1, 2]), of(None, &[], &[4, 0]));
        assert_eq!(layout(&[1; 5]), of(None, &[], &[]));
    }

    #[test]
    fn a_sample_is_from_all_over() {
        assert_eq!(sample((0..10).collect(), 4), [0, 2, 5, 7]);
        assert_eq!(sample((0..3).collect(), 4), [0, 1, 2]);
    }
}
