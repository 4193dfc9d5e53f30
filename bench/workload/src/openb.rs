//! Alibaba's cluster trace of 2023 of tasks that share GPUs ("openb"). Only the order of arrivals is used, not their
//! times.
//!
//! The folder has `openb_node_list_all_node.csv.gz` and the task lists `openb_pod_list_LIST.csv.gz`, as published but
//! compressed. Each task is a job. Tasks arrive one millisecond apart in the order of the list and run forever, because
//! the lists are meant to fill the cell. With the times of the trace, the cell would be nearly empty.
//!
//! Tasks of the classes `LS` (latency-sensitive) and `Guaranteed` are service jobs; tasks of `BE` (best effort) and
//! `Burstable` are batch jobs. Lists without a class have only service jobs. The list is in order of time, so a stream
//! has only one row in memory.

use crate::stream::{Event, Head, JobEvent, JobsAt, Stream, whole};
use crate::text::compressed::plain_name;
use crate::text::decimal::Rounding;
use crate::text::table::{Column, Row, Table};
use crate::trace_files::TraceFiles;
use crate::{Arrival, LoadError, RunTime, Workload};
use omega_core::limits::{AMOUNT_MAX, DEVICE_MILLI, DEVICES_MAX};
use omega_core::{
    Amounts, DeviceRequest, Job, JobKind, KindId, Kinds, Labels, Machine, MachineSelector,
    Operator, Precedence, Preemption, Requirement, TaskGroup, Text,
};
use std::collections::HashMap;
use std::path::Path;

/// Label with a machine's GPU model.
pub const GPU_MODEL: &str = "gpu-model";

/// A mebibyte in bytes.
const MIB: u64 = 1 << 20;

const LIST_PREFIX: &str = "openb_pod_list_";
const LIST_SUFFIX: &str = ".csv";

/// Reads the machines and one list of tasks, such as `default` or `gpuspec33`.
///
/// # Errors
/// If there is no such list, or a file is missing or invalid.
pub fn load(files: impl Into<TraceFiles>, list: &str) -> Result<Workload, LoadError> {
    whole(&mut open(files, list)?)
}

/// Opens the machines and one list of tasks as a stream.
///
/// # Errors
/// If there is no such list, a file is missing, or the machines are invalid.
pub fn open(files: impl Into<TraceFiles>, list: &str) -> Result<OpenbStream, LoadError> {
    let files = files.into();
    if files.named("tasks").is_none() {
        let dir = files.folder("tasks")?;
        let lists = lists(dir)?;
        if !lists.iter().any(|name| name == list) {
            let names = lists.join(", ");
            let message = format!("there is no task list {list:?}; the lists are: {names}");
            return Err(LoadError::new(dir, message));
        }
    }
    let machines = machines(&files.path("machines", "openb_node_list_all_node.csv")?)?;
    let file = files.path("tasks", &format!("{LIST_PREFIX}{list}{LIST_SUFFIX}"))?;
    let table = Table::open(&file)?;
    let columns = TaskColumns::of(&table)?;
    let jobs_at = JobsAt { file, column: "name" };
    let head = Head::new(format!("openb {list}"), Kinds::standard(), machines, jobs_at);
    Ok(OpenbStream { head, table, columns, texts: Texts::default(), count: 0 })
}

/// A list of tasks, as a stream.
pub struct OpenbStream {
    head: Head,
    table: Table,
    columns: TaskColumns,
    texts: Texts,
    count: u64,
}

impl Stream for OpenbStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        let job = read_job(&row, &self.columns, &self.texts)?;
        let (at_ms, line) = (self.count, Some(row.line()));
        self.count += 1;
        let arrival = Arrival { at_ms, job, placed: Vec::new(), run: RunTime::Forever };
        Ok(Some(Event::Job(JobEvent { arrival, line })))
    }

    fn notes(&self) -> Vec<String> {
        let order = "tasks arrive in the order of the list and never end: the times of the list \
             are not used";
        let mut notes = vec![order.to_owned()];
        if self.columns.class.is_none() {
            notes.push("the list has no classes: all tasks are service jobs".to_owned());
        }
        notes
    }
}

/// The names of the task lists in a folder, ascending.
fn lists(dir: &Path) -> Result<Vec<String>, LoadError> {
    let cannot = |error| LoadError::new(dir, format!("cannot be read: {error}"));
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let list = name.to_str().and_then(|name| {
            plain_name(name)
                .strip_prefix(LIST_PREFIX)
                .and_then(|rest| rest.strip_suffix(LIST_SUFFIX))
        });
        lists.extend(list.map(str::to_owned));
    }
    lists.sort();
    lists.dedup();
    Ok(lists)
}

fn machines(file: &Path) -> Result<Vec<Machine>, LoadError> {
    let mut table = Table::open(file)?;
    let [name, cpu, memory] = table.find(["sn", "cpu_milli", "memory_mib"])?;
    let [gpu, model] = table.find(["gpu", "model"])?;
    let mut labels: HashMap<String, Labels> = HashMap::new();
    let mut lines: HashMap<Text, u64> = HashMap::new();
    let mut machines = Vec::new();
    while let Some(row) = table.next_row()? {
        let capacity = Amounts::new([
            row.integer(cpu, AMOUNT_MAX)?,
            row.amount(memory, MIB, Rounding::Nearest)?,
        ]);
        let devices = row.integer(gpu, u64::from(DEVICES_MAX))? as u8;
        let mut machine =
            Machine::new(row.required(name)?, capacity).with_devices(KindId::GPU, devices);
        let model = row.text(model);
        if !model.is_empty() {
            let shared =
                labels.entry(model.to_owned()).or_insert_with(|| Labels::new([(GPU_MODEL, model)]));
            machine.labels = shared.clone();
        }
        if let Some(line) = lines.insert(machine.name.clone(), row.line()) {
            let message =
                format!("{:?} is already the name of the machine in line {line}", machine.name);
            return Err(row.error(name, message));
        }
        machines.push(machine);
    }
    Ok(machines)
}

/// The columns of a task list; some lists lack the last two.
struct TaskColumns {
    name: Column,
    cpu: Column,
    memory: Column,
    devices: Column,
    milli: Column,
    models: Option<Column>,
    class: Option<Column>,
}

impl TaskColumns {
    fn of(table: &Table) -> Result<TaskColumns, LoadError> {
        let [name, cpu, memory] = table.find(["name", "cpu_milli", "memory_mib"])?;
        let [devices, milli] = table.find(["num_gpu", "gpu_milli"])?;
        let models = table.optional_column("gpu_spec");
        let class = table.optional_column("qos");
        Ok(TaskColumns { name, cpu, memory, devices, milli, models, class })
    }
}

/// Texts that all jobs share.
struct Texts {
    group: Text,
    tenant: Text,
    service: Text,
    batch: Text,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts {
            group: "main".into(),
            tenant: "default".into(),
            service: "service".into(),
            batch: "batch".into(),
        }
    }
}

fn read_job(row: &Row<'_>, columns: &TaskColumns, texts: &Texts) -> Result<Job, LoadError> {
    let mut request = Amounts::new([
        row.integer(columns.cpu, AMOUNT_MAX)?,
        row.amount(columns.memory, MIB, Rounding::Up)?,
    ]);
    let devices = read_devices(row, columns)?;
    if let Some(devices) = devices {
        request.set(KindId::GPU, u64::from(devices.count) * u64::from(devices.milli_each));
    }
    let mut group = TaskGroup::new(1, request);
    group.name = texts.group.clone();
    group.devices = devices;
    let models = columns.models.map_or("", |column| row.text(column));
    if !models.is_empty() {
        let values = models.split('|').map(Into::into).collect();
        let model = Requirement { key: GPU_MODEL.into(), operator: Operator::In, values };
        let machines = MachineSelector { labels: vec![model], names: Vec::new() };
        group.rules.affinity.required = Some(vec![machines]);
    }
    let kind = read_kind(row, columns)?;
    let scheduler = match kind {
        JobKind::Service => texts.service.clone(),
        JobKind::Batch => texts.batch.clone(),
    };
    Ok(Job {
        name: row.required(columns.name)?.into(),
        tenant: texts.tenant.clone(),
        scheduler,
        precedence: Precedence(0),
        preemption: Preemption::default(),
        kind,
        groups: [group.into()].into(),
        gang_min: None,
        gang_timeout_ms: None,
        runtime_estimate_ms: None,
        deadline_ms: None,
        update: None,
    })
}

/// Reads the requested devices of a task: a share of one device, or whole devices.
fn read_devices(row: &Row<'_>, columns: &TaskColumns) -> Result<Option<DeviceRequest>, LoadError> {
    let count = row.integer(columns.devices, u64::from(DEVICES_MAX))? as u8;
    let milli = row.optional_integer(columns.milli, u64::from(DEVICE_MILLI))?;
    let milli_each = milli.unwrap_or(u64::from(DEVICE_MILLI)) as u16;
    if count > 0 && milli_each == 0 {
        return Err(row.error(columns.milli, "is 0 although the task asks for a GPU"));
    }
    Ok((count > 0).then_some(DeviceRequest { count, milli_each }))
}

fn read_kind(row: &Row<'_>, columns: &TaskColumns) -> Result<JobKind, LoadError> {
    let Some(class) = columns.class else { return Ok(JobKind::Service) };
    match row.text(class) {
        "LS" | "Guaranteed" => Ok(JobKind::Service),
        "BE" | "Burstable" => Ok(JobKind::Batch),
        other => {
            let message = format!(
                "{other:?} is not a class: it must be LS, Guaranteed, BE or \
                 Burstable"
            );
            Err(row.error(class, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_data;
    use crate::testing::{capacity, folder, message};

    const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1024,0,\nn1,1,1,8,T4\n";
    const TASKS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n";

    fn read(machines: &str, tasks: &str) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[
            ("openb_node_list_all_node.csv.gz", machines),
            ("openb_pod_list_x.csv.gz", tasks),
            ("openb_pod_list_a.csv.gz", ""),
            ("README", ""),
        ]);
        let result = load(dir.path(), "x");
        (dir, result)
    }

    #[test]
    fn tasks_become_jobs_with_devices_and_models() {
        let tasks = format!("{TASKS}a,1,2,0,,,BE\nb,3,4,1,460,,LS\nc,5,6,2,,T4|G2,Guaranteed\n");
        let workload = read(MACHINES, &tasks).1.unwrap();
        assert_eq!(workload.machines[1].devices, 8);
        assert_eq!(workload.machines[1].capacity, Amounts::new([1, 1 << 20, 0, 8000]));
        let jobs: Vec<&Job> = workload.arrivals.iter().map(|arrival| &arrival.job).collect();
        assert_eq!(jobs[0].groups[0].devices, None);
        assert_eq!(&*jobs[0].scheduler, "batch");
        assert_eq!(jobs[1].groups[0].request, Amounts::new([3, 4 << 20, 0, 460]));
        assert_eq!(jobs[2].groups[0].devices, Some(DeviceRequest { count: 2, milli_each: 1000 }));
        let required = jobs[2].groups[0].rules.affinity.required.as_ref().unwrap();
        assert_eq!(
            workload.machines.iter().map(|m| required[0].matches(m)).collect::<Vec<_>>(),
            [false, true]
        );
        assert_eq!(workload.arrivals.iter().map(|a| a.at_ms).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn faults_of_the_lists_are_told_in_one_line() {
        let cases = [
            ("a,1,2,33,,,BE", "2: num_gpu: \"33\" is too large: must be at most 32"),
            ("a,1,2,1,1001,,BE", "2: gpu_milli: \"1001\" is too large: must be at most 1000"),
            ("a,1,2,1,0,,BE", "2: gpu_milli: is 0 although the task asks for a GPU"),
            (
                "a,1,2,0,0,,",
                "2: qos: \"\" is not a class: it must be LS, Guaranteed, BE or \
                 Burstable",
            ),
            (",1,2,0,0,,BE", "2: name: is empty"),
            ("a,1.5,2,0,0,,BE", "2: cpu_milli: \"1.5\" is not a whole number"),
        ];
        for (row, expected) in cases {
            let (dir, result) = read(MACHINES, &format!("{TASKS}{row}\n"));
            assert_eq!(message(dir.path(), result), format!("openb_pod_list_x.csv.gz:{expected}"));
        }
        let (dir, _) = read(MACHINES, TASKS);
        let error = load(dir.path(), "b").err().unwrap();
        assert_eq!(error.message, "there is no task list \"b\"; the lists are: a, x");
    }

    #[test]
    fn the_real_lists_have_the_published_counts() {
        let Some(dir) = public_data("openb") else { return };
        let workload = load(&dir, "default").unwrap();
        assert_eq!(workload.machines.len(), 1523);
        assert_eq!(workload.arrivals.len(), 8152);
        assert_eq!(capacity(&workload.machines).get(KindId::GPU), 6_212_000);
        let tasks = |list| load(&dir, list).unwrap().arrivals;
        assert_eq!((tasks("cpu050").len(), tasks("multigpu20").len()), (7439, 8324));
        let bound = tasks("gpuspec33");
        let bound = bound.iter().filter(|a| a.job.groups[0].rules.affinity.required.is_some());
        assert_eq!(bound.count(), 8152 - 5764);
    }
}
