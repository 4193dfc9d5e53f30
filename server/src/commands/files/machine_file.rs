//! Machines in a file. Identical machines can be one entry with a count.

use crate::commands::CommandError;
use crate::commands::files::amount::{self, Amount};
use crate::commands::files::pairs;
use omega_core::limits::{MACHINES_MAX, NUMA_NODES_MAX};
use omega_core::{Kinds, Labels, Machine, NodeCores, Taint, Unit};
use omega_workload::file::{FileError, shown};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Placeholder for a machine's number, in its name and in the values of its labels.
const NUMBER: &str = "{n}";

/// Machines of a cell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct MachinesFile {
    /// The machines.
    pub(in crate::commands) machine: Vec<MachineFile>,
}

/// One or several identical machines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct MachineFile {
    /// Name. With `count`, `{n}` in the name stands for the machine's number.
    pub(in crate::commands) name: String,
    /// Number of machines, numbered from 1.
    pub(in crate::commands) count: Option<u32>,
    /// Capacity by resource kind.
    #[schemars(with = "BTreeMap<String, NumberOrText>")]
    pub(in crate::commands) capacity: BTreeMap<String, Amount>,
    /// Number of devices (GPUs). It sets the capacity of `gpu`, unless that is given.
    #[serde(default)]
    pub(in crate::commands) devices: u8,
    /// Exclusive cores of each NUMA node. They set the capacity of `cpu`, unless that is given.
    #[serde(default)]
    pub(in crate::commands) numa: Vec<u16>,
    /// Range from which the cell chooses ports for tasks: `20000-31999`, which is also the default, or `none`.
    pub(in crate::commands) ports: Option<String>,
    /// Labels. `{n}` in a value stands for the machine's number.
    #[serde(default)]
    pub(in crate::commands) labels: BTreeMap<String, String>,
    /// Taints: `key=value:NoSchedule`.
    #[serde(default)]
    pub(in crate::commands) taints: Vec<String>,
    /// Overcommit by resource kind: the percentage of the capacity that tasks may claim, above 100.
    #[serde(default)]
    pub(in crate::commands) overcommit: BTreeMap<String, u32>,
}

/// An amount, as a number or as text with a unit.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is there for its schema")]
pub(in crate::commands) enum NumberOrText {
    Number(f64),
    Text(String),
}

/// The machines of a file or of flags.
///
/// # Errors
/// If a machine is invalid, or does not match a cell with these kinds.
pub(in crate::commands) fn machines(
    files: &MachinesFile,
    kinds: &Kinds,
    source: Option<&Path>,
) -> Result<Vec<Machine>, CommandError> {
    let mut all = Vec::new();
    for (index, described) in files.machine.iter().enumerate() {
        let at = At { index, source };
        let machine = one(described, kinds, &at)?;
        let Some(count) = described.count else {
            all.push(machine);
            continue;
        };
        if !described.name.contains(NUMBER) {
            return Err(at.wrong(
                "name",
                format!(
                    "must contain {NUMBER}, so that each of the {count} \
                     machines gets its own name"
                ),
            ));
        }
        if all.len() + count as usize > MACHINES_MAX {
            return Err(at.wrong("count", format!("a cell has at most {MACHINES_MAX} machines")));
        }
        all.extend((1..=count).map(|number| numbered(&machine, number)));
    }
    Ok(all)
}

/// Origin of a machine, for errors: its place in a file, or the flags.
struct At<'a> {
    index: usize,
    source: Option<&'a Path>,
}

impl At<'_> {
    fn place(&self, field: &str) -> String {
        match self.source {
            Some(file) => format!("{}: machine[{}].{field}", shown(file), self.index),
            None => format!("--{}", field.rsplit('.').next().unwrap_or(field)),
        }
    }

    fn wrong(&self, field: &str, why: String) -> CommandError {
        let file = self.source.unwrap_or(Path::new("arguments")).to_owned();
        FileError::Value { file, field: format!("machine[{}].{field}", self.index), why }.into()
    }
}

fn one(described: &MachineFile, kinds: &Kinds, at: &At<'_>) -> Result<Machine, CommandError> {
    let named = described.capacity.iter();
    let named =
        named.map(|(kind, amount)| (at.place(&format!("capacity.{kind}")), kind.clone(), amount));
    let capacity = amount::amounts(kinds, named, 0)?;
    for (kind, amount) in &described.capacity {
        let known = kinds.by_name(kind).and_then(|kind| kinds.get(kind));
        if known.is_some_and(|kind| kind.unit == Unit::Bytes) {
            let place = at.place(&format!("capacity.{kind}"));
            amount::of_machine(amount).map_err(|why| CommandError::Field { place, why })?;
        }
    }
    let mut machine = Machine::new(described.name.as_str(), capacity);
    if described.devices > 0 {
        let place = at.place("devices");
        let gpu = amount::kind(kinds, place, "gpu")?;
        let output = machine.capacity.get(gpu);
        machine = machine.with_devices(gpu, described.devices);
        if described.capacity.contains_key("gpu") {
            machine.capacity.set(gpu, output);
        }
    }
    if !described.numa.is_empty() {
        let too_many = || at.wrong("numa", format!("at most {NUMA_NODES_MAX} nodes are allowed"));
        machine.numa = NodeCores::new(&described.numa).ok_or_else(too_many)?;
        let cpu = amount::kind(kinds, at.place("numa"), "cpu")?;
        if !described.capacity.contains_key("cpu") {
            machine.capacity.set(cpu, machine.numa.cpu_milli());
        }
    }
    if let Some(ports) = &described.ports {
        let wrong = |why: omega_core::BadPortRange| at.wrong("ports", why.to_string());
        machine.ports = ports.parse().map_err(wrong)?;
    }
    let labels = described.labels.iter();
    machine.labels = Labels::new(labels.map(|(key, value)| (key.as_str(), value.as_str())));
    let taint = |(index, text): (usize, &String)| {
        pairs::taint(text).map_err(|why| at.wrong(&format!("taints[{index}]"), why))
    };
    let taints = described.taints.iter().enumerate().map(taint);
    machine.taints = taints.collect::<Result<Vec<Taint>, _>>()?.into();
    for (kind, percent) in &described.overcommit {
        let id = amount::overcommitted(kinds, at.place(&format!("overcommit.{kind}")), kind)?;
        machine.overcommit = machine.overcommit.with(id, *percent);
    }
    Ok(machine)
}

/// The machine with this number, out of several identical ones.
fn numbered(machine: &Machine, number: u32) -> Machine {
    let fill = |text: &str| text.replace(NUMBER, &number.to_string());
    let labels = machine.labels.iter().map(|(key, value)| (key.to_string(), fill(value)));
    let labels = Labels::new(labels);
    Machine { name: fill(&machine.name).into(), labels, ..machine.clone() }
}
