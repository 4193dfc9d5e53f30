//! Notes about names in the objectives that do not exist in the cell. Such names have no effect, so a mistyped name
//! disables a rule.

use omega_cellstate::Cell;
#[cfg(feature = "serve")]
use omega_cellstate::View;
use omega_core::{Machine, Text, TopologyLevel};
use omega_schedulers::rebalance::Objectives;
use omega_schedulers::rebalance::aims::machines::MachineSet;
use omega_schedulers::rebalance::aims::rules::Limit;
use std::collections::{BTreeSet, HashSet};

/// Maximum number of names in the note about one field.
const NAMES_MAX: usize = 5;

/// Names that a cell has.
#[derive(Default)]
pub(super) struct KnownNames {
    machines: HashSet<Text>,
    labels: HashSet<Text>,
    /// `None` if the jobs are not known.
    jobs: Option<HashSet<Text>>,
}

impl KnownNames {
    /// Names of a cell.
    pub(super) fn of_cell(cell: &Cell) -> KnownNames {
        let mut names = KnownNames::default();
        cell.machines().for_each(|state| names.add(state.machine));
        names.jobs = Some(cell.jobs().map(|(_, job)| job.name.clone()).collect());
        names
    }

    /// Names of a view, which has no list of jobs.
    #[cfg(feature = "serve")]
    pub(super) fn of_view(view: &View) -> KnownNames {
        let mut names = KnownNames::default();
        let machines = (0..view.rows()).filter_map(|row| view.machine(row));
        machines.for_each(|machine| names.add(machine));
        names
    }

    fn add(&mut self, machine: &Machine) {
        self.machines.insert(machine.name.clone());
        for (key, _) in machine.labels.iter() {
            if !self.labels.contains(key) {
                self.labels.insert(key.clone());
            }
        }
    }
}

/// The notes, one for each field with unknown names. Unknown names in the table `between` and in `move-of` give no
/// note, because these are often exported for more than one cell.
pub(super) fn unknown(objectives: &Objectives, names: &KnownNames) -> Vec<String> {
    let no_job = |name: &&Text| names.jobs.as_ref().is_some_and(|jobs| !jobs.contains(*name));
    let no_level = |level: &TopologyLevel| match level {
        TopologyLevel::Label(key) if !names.labels.contains(key) => Some(key.clone()),
        _ => None,
    };
    let no_machine = |set: &MachineSet| -> Vec<Text> {
        set.names.iter().filter(|name| !names.machines.contains(*name)).cloned().collect()
    };
    let rules = &objectives.rules;
    let moves = &objectives.move_costs.entries;
    let of_rules = rules.iter().flat_map(|rule| {
        let other = match &rule.limit {
            Limit::Domains(_) => None,
            Limit::Needs(other) | Limit::MaxColocated { other, .. } => Some(other),
        };
        [Some(&rule.job), other].into_iter().flatten()
    });
    let ends = moves.iter().flat_map(|entry| [&entry.from, &entry.to]);
    let sets = objectives.machines.iter().map(|aims| &aims.of);
    [
        note("rule", "job", of_rules.filter(no_job).cloned()),
        note("rule.level", "label", rules.iter().filter_map(|rule| no_level(&rule.level))),
        note("machines.names", "machine", sets.flat_map(no_machine)),
        note("move", "machine", ends.flat_map(no_machine)),
        note(
            "move.across",
            "label",
            moves.iter().filter_map(|entry| no_level(entry.across.as_ref()?)),
        ),
        note("level", "label", no_level(&objectives.level)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The note about the unknown names of a field; `None` if there are none.
fn note(field: &str, what: &str, names: impl IntoIterator<Item = Text>) -> Option<String> {
    let names: BTreeSet<Text> = names.into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| format!("{name:?}")).collect();
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "objectives: {field}: the cell has no {what} {}{more}: correct the name, or it has no effect",
        shown.join(", ")
    ))
}
