//! The table of machines.

use super::amounts::{AmountColumns, optional};
use super::forms;
use crate::LoadError;
use crate::text::decimal::Rounding;
use crate::text::table::Table;
use omega_core::limits::MACHINES_MAX;
use omega_core::{KindId, Kinds, Labels, Machine, Text};
use std::collections::HashMap;

/// Columns of the table, except those of further resource kinds.
pub(super) const COLUMNS: [&str; 10] =
    ["name", "cpu", "memory", "disk", "gpu", "count", "zone", "rack", "labels", "taints"];

/// Reads all machines.
pub(super) fn read(table: &mut Table, kinds: &Kinds) -> Result<Vec<Machine>, LoadError> {
    let [name] = table.find(["name"])?;
    let amounts = AmountColumns::of(table, kinds)?;
    let [count, zone, rack, labels, taints] =
        ["count", "zone", "rack", "labels", "taints"].map(|name| table.optional_column(name));
    let mut machines: Vec<Machine> = Vec::new();
    let mut lines: HashMap<Text, u64> = HashMap::new();
    while let Some(row) = table.next_row()? {
        let base = forms::name(row.text(name)).map_err(|message| row.error(name, message))?;
        let (capacity, devices) = amounts.read(&row, Rounding::Nearest)?;
        let mut machine = Machine::new(base.clone(), capacity).with_devices(KindId::GPU, devices);
        let mut pairs = optional(&row, labels, forms::labels)?.unwrap_or_default();
        for (key, column) in [("zone", zone), ("rack", rack)] {
            let Some(value) = optional(&row, column, forms::name)? else { continue };
            if let (Some(labels), true) = (labels, pairs.iter().any(|(other, _)| &**other == key)) {
                return Err(row.error(
                    labels,
                    format!(
                        "{key:?} is also given in a column \
                     of its own: leave it out here"
                    ),
                ));
            }
            pairs.push((key.into(), value));
        }
        machine.labels = Labels::new(pairs);
        let taints = optional(&row, taints, |text| forms::list(text, forms::taint))?;
        machine.taints = taints.unwrap_or_default().into();

        let alike = match count {
            Some(column) => row.optional_integer(column, MACHINES_MAX as u64)?,
            None => None,
        };
        if let (Some(column), Some(0)) = (count, alike) {
            return Err(row.error(column, "is 0: write at least 1, or remove the row"));
        }
        for i in 0..alike.unwrap_or(1) {
            if alike.is_some() {
                let numbered = forms::name(&format!("{base}-{i}"));
                machine.name = numbered.map_err(|message| row.error(name, message))?;
            }
            if machines.len() == MACHINES_MAX {
                return Err(row.error(
                    name,
                    format!(
                        "the file has more than {MACHINES_MAX} machines, the maximum of a cell"
                    ),
                ));
            }
            if let Some(line) = lines.insert(machine.name.clone(), row.line()) {
                let message = format!(
                    "{:?} is already the name of the machine in line {line}: \
                     give each machine its own name",
                    machine.name
                );
                return Err(row.error(name, message));
            }
            machines.push(machine.clone());
        }
    }
    if machines.is_empty() {
        return Err(table.error("the table has no machines: give it a row for each machine"));
    }
    Ok(machines)
}
