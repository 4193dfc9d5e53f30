//! Entries of an objectives file for single machines, curves of load, and costs of moves.

use super::error::ObjectivesError;
use super::names::kind;
use crate::text::table::Table;
use omega_core::{Kinds, Text, TopologyLevel};
use omega_schedulers::rebalance::aims::curve::{Curve, Point};
use omega_schedulers::rebalance::aims::demand::Demand;
use omega_schedulers::rebalance::aims::machines::{MachineAims, MachineSet};
use omega_schedulers::rebalance::aims::move_costs::{
    COST_MAX, ENTRIES_MAX, MoveCost, MoveCosts, PAIRS_MAX,
};

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Largest safety level in percent: ten times the capacity of a machine.
const SAFETY_MAX: u32 = 1000;

/// Largest cost of a machine in use, in percent of the cost of a mean machine.
const IN_USE_MAX: u32 = 10_000;

/// Set of machines.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetEntry {
    #[serde(default)]
    names: Vec<Text>,
    #[serde(default)]
    labels: BTreeMap<Text, Text>,
}

impl SetEntry {
    fn set(&self) -> MachineSet {
        let labels = self.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        MachineSet { names: self.names.clone(), labels: labels.collect() }
    }
}

/// Safety levels, and the cost of use, for a set of machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MachinesEntry {
    #[serde(default)]
    names: Vec<Text>,
    #[serde(default)]
    labels: BTreeMap<Text, Text>,
    #[serde(default)]
    safety: BTreeMap<String, u32>,
    in_use: Option<u32>,
}

impl MachinesEntry {
    pub(super) fn aims(
        &self,
        index: usize,
        kinds: &Kinds,
        place: &dyn Fn(&str) -> String,
    ) -> Result<MachineAims, ObjectivesError> {
        let place = |field: String| place(&format!("machines[{index}].{field}"));
        let of = |(name, percent): (&String, &u32)| {
            let field = place(format!("safety.{name}"));
            Ok((kind(kinds, &field, name)?, at_most(&field, *percent, SAFETY_MAX)?))
        };
        let in_use =
            self.in_use.map(|percent| at_most(&place("in-use".to_owned()), percent, IN_USE_MAX));
        let of_set = SetEntry { names: self.names.clone(), labels: self.labels.clone() };
        Ok(MachineAims {
            of: of_set.set(),
            safety: self.safety.iter().map(of).collect::<Result<_, ObjectivesError>>()?,
            in_use: in_use.transpose()?,
        })
    }
}

/// Curve of the load of a resource kind as a function of its use.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadEntry {
    pub(super) kind: String,
    points: Vec<(u32, u32)>,
}

impl LoadEntry {
    pub(super) fn curve(&self, place: &str) -> Result<Curve, ObjectivesError> {
        let points = self.points.iter().map(|(used, cost)| Point { used: *used, cost: *cost });
        Curve::new(points.collect())
            .map_err(|why| ObjectivesError::Aim { place: place.to_owned(), why: why.to_string() })
    }
}

/// Resource usage of a job over time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DemandEntry {
    pub(super) kind: String,
    job: Text,
    percent: Vec<u16>,
}

impl DemandEntry {
    pub(super) fn add_to(&self, demand: &mut Demand, place: &str) -> Result<(), ObjectivesError> {
        demand.add(self.job.clone(), self.percent.clone()).map_err(|why| ObjectivesError::Aim {
            place: place.to_owned(),
            why: format!("of {:?} {why}", self.job),
        })
    }
}

/// Cost of moves between two sets of machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveEntry {
    #[serde(default)]
    from: SetEntry,
    #[serde(default)]
    to: SetEntry,
    across: Option<Text>,
    cost: u32,
}

/// Converts the costs of moves in an objectives file. `table` is the file with costs between single machines.
pub(super) fn move_costs(
    entries: &[MoveEntry],
    jobs: &BTreeMap<Text, u32>,
    table: Option<&Path>,
    place: &dyn Fn(&str) -> String,
) -> Result<MoveCosts, ObjectivesError> {
    if entries.len() > ENTRIES_MAX {
        let why = format!(
            "has {} entries; give at most {ENTRIES_MAX}, and the rest as a table in between",
            entries.len()
        );
        return Err(ObjectivesError::Aim { place: place("move"), why });
    }
    let cost = |(index, entry): (usize, &MoveEntry)| {
        Ok(MoveCost {
            from: entry.from.set(),
            to: entry.to.set(),
            across: entry.across.clone().map(TopologyLevel::Label),
            cost: at_most(&place(&format!("move[{index}].cost")), entry.cost, COST_MAX)?,
        })
    };
    let of_job = |(job, cost): (&Text, &u32)| {
        Ok((job.clone(), at_most(&place(&format!("move-of.{job}")), *cost, COST_MAX)?))
    };
    Ok(MoveCosts {
        entries: entries.iter().enumerate().map(cost).collect::<Result<_, ObjectivesError>>()?,
        table: table.map(between).transpose()?.unwrap_or_default(),
        jobs: jobs.iter().map(of_job).collect::<Result<_, ObjectivesError>>()?,
    })
}

/// Reads the table of costs between single machines.
fn between(file: &Path) -> Result<BTreeMap<(Text, Text), u32>, ObjectivesError> {
    let mut table = Table::open(file)?;
    let [from, to, cost] = table.find(["from", "to", "cost"])?;
    let mut costs = BTreeMap::new();
    while let Some(row) = table.next_row()? {
        let pair = (row.required(from)?.into(), row.required(to)?.into());
        let amount = row.integer(cost, u64::from(COST_MAX))? as u32;
        if costs.insert(pair, amount).is_some() {
            return Err(row.error(from, "this pair has two costs; remove one").into());
        }
        if costs.len() > PAIRS_MAX {
            return Err(row
                .error(from, format!("the table has more than {PAIRS_MAX} pairs"))
                .into());
        }
    }
    Ok(costs)
}

fn at_most(place: &str, value: u32, max: u32) -> Result<u32, ObjectivesError> {
    if value <= max {
        return Ok(value);
    }
    let why = format!("is {value}; give at most {max}");
    Err(ObjectivesError::Aim { place: place.to_owned(), why })
}
