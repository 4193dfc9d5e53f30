//! Machines with devices and a list of tasks, from tables in the form of Alibaba's "openb" trace.
//!
//! Tables of machines have the columns `cpu_milli, memory_mib, gpu, model`; machines without devices are ignored.
//! Tables of tasks have `cpu_milli, memory_mib, num_gpu, gpu_milli`, and optionally `gpu_spec`, the accepted models
//! separated by `|`. Files may be compressed, and other columns are ignored.

use super::machine::{DeviceMachine, Models, Shape};
use omega_core::limits::{AMOUNT_MAX, DEVICE_MILLI, DEVICES_MAX};
use omega_workload::LoadError;
use omega_workload::compressed::{plain_name, stored};
use omega_workload::table::Table;
use std::path::{Path, PathBuf};

/// Maximum number of device models, because a set of models has one bit for each.
const MODELS_MAX: usize = Models::BITS as usize;

const LIST_PREFIX: &str = "openb_pod_list_";
const LIST_SUFFIX: &str = ".csv";

/// Input of a simulation.
#[derive(Clone, Debug)]
pub struct Input {
    /// The machines that have devices.
    pub machines: Vec<DeviceMachine>,
    /// The tasks.
    pub tasks: Vec<Shape>,
}

impl Input {
    /// Reads machines and tasks.
    ///
    /// # Errors
    /// If a file is missing or invalid, no machine has devices, or no task asks for one.
    pub fn read(machines: &Path, tasks: &Path) -> Result<Input, LoadError> {
        let mut models = Vec::new();
        let list = read_machines(machines, &mut models)?;
        if list.is_empty() {
            return Err(LoadError::new(machines, "no machine has devices"));
        }
        let shapes = read_tasks(tasks, &models)?;
        if shapes.is_empty() {
            return Err(LoadError::new(tasks, "there is no task"));
        }
        if shapes.iter().all(|shape| shape.devices == 0) {
            return Err(LoadError::new(tasks, "no task asks for a GPU"));
        }
        Ok(Input { machines: list, tasks: shapes })
    }
}

/// Path of the file of machines in a folder of the trace.
#[must_use]
pub fn machines_file(dir: &Path) -> PathBuf {
    stored(&dir.join("openb_node_list_gpu_node.csv"))
}

/// Path of the file of a list of tasks in a folder of the trace.
#[must_use]
pub fn tasks_file(dir: &Path, list: &str) -> PathBuf {
    stored(&dir.join(format!("{LIST_PREFIX}{list}{LIST_SUFFIX}")))
}

/// The names of the lists of a folder, ascending.
///
/// # Errors
/// If the folder cannot be read or has no list.
pub fn lists(dir: &Path) -> Result<Vec<String>, LoadError> {
    let cannot = |error| LoadError::new(dir, format!("cannot be read: {error}"));
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let name = name.to_string_lossy();
        let list = plain_name(&name)
            .strip_prefix(LIST_PREFIX)
            .and_then(|rest| rest.strip_suffix(LIST_SUFFIX));
        lists.extend(list.map(str::to_owned));
    }
    if lists.is_empty() {
        let message = format!(
            "the folder has no list of tasks, a file \
             {LIST_PREFIX}NAME{LIST_SUFFIX}"
        );
        return Err(LoadError::new(dir, message));
    }
    lists.sort();
    lists.dedup();
    Ok(lists)
}

fn read_machines(file: &Path, models: &mut Vec<String>) -> Result<Vec<DeviceMachine>, LoadError> {
    let mut table = Table::open(file)?;
    let [cpu, memory, devices, model] = table.find(["cpu_milli", "memory_mib", "gpu", "model"])?;
    let mut machines = Vec::new();
    while let Some(row) = table.next_row()? {
        let cpu_milli = row.integer(cpu, AMOUNT_MAX)? as i64;
        let memory_mib = row.integer(memory, AMOUNT_MAX)? as i64;
        let count = row.integer(devices, u64::from(DEVICES_MAX))? as u8;
        if count == 0 {
            continue;
        }
        let name = row.text(model);
        let number = models.iter().position(|other| other == name).unwrap_or(models.len());
        if number == MODELS_MAX {
            let message = format!("there are more than {MODELS_MAX} models");
            return Err(row.error(model, message));
        }
        if number == models.len() {
            models.push(name.to_owned());
        }
        machines.push(DeviceMachine::new(cpu_milli, memory_mib, count, number as u8));
    }
    Ok(machines)
}

fn read_tasks(file: &Path, models: &[String]) -> Result<Vec<Shape>, LoadError> {
    let mut table = Table::open(file)?;
    let [cpu, memory, count, milli] =
        table.find(["cpu_milli", "memory_mib", "num_gpu", "gpu_milli"])?;
    let accepted = table.optional_column("gpu_spec");
    let mut tasks = Vec::new();
    while let Some(row) = table.next_row()? {
        let devices = row.integer(count, u64::from(DEVICES_MAX))? as u8;
        let part = row.optional_integer(milli, u64::from(DEVICE_MILLI))?;
        let part = part.unwrap_or(u64::from(DEVICE_MILLI)) as i16;
        if devices > 0 && part == 0 {
            return Err(row.error(milli, "is 0 although the task asks for a GPU"));
        }
        let names = accepted.map_or("", |column| row.text(column));
        let bit = |name: &str| models.iter().position(|other| other == name).map_or(0, |i| 1 << i);
        let named: Models = names.split('|').map(bit).fold(0, |all, bit| all | bit);
        tasks.push(Shape {
            cpu_milli: row.integer(cpu, AMOUNT_MAX)? as i64,
            device_milli: if devices == 0 { 0 } else { part },
            devices,
            models: if names.is_empty() { Models::MAX } else { named },
            memory_mib: row.integer(memory, AMOUNT_MAX)? as i64,
        });
    }
    Ok(tasks)
}
