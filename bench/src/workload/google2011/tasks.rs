//! The tasks of the trace, and the jobs that they make up.

use super::{
    CLOCK_START_MS, CPU_MILLIS, DISK_BYTES, MEMORY_BYTES, PRODUCTION_PRIORITY, since_start,
};
use crate::workload::decimal::Rounding;
use crate::workload::table::{Column, Row, Table};
use crate::workload::{Arrival, LoadError, RunTime};
use omega_core::{
    Amounts, Job, JobKind, LabelSelector, Labels, Precedence, Preemption, Requirement, TaskGroup,
    TaskRule, TaskSelector, Tenants, Text, TopologyLevel,
};
use std::collections::HashMap;

/// The lowest scheduling class of service jobs.
const SERVICE_CLASS: u8 = 2;

/// Where a task is when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Pending,
    Machine(u32),
    /// On a machine that the trace does not list.
    Unknown,
}

/// A task of the trace.
pub(super) struct Task {
    job: u64,
    pub(super) at_ms: u64,
    user: u64,
    class: u8,
    pub(super) priority: u8,
    /// CPU, memory, disk, and whether it keeps away from the job's other tasks.
    shape: ([u64; 3], bool),
    pub(super) machine: Place,
    run_ms: Option<u64>,
}

/// The columns of `tasks_replay` that are read.
struct TaskColumns {
    job: Column,
    submit: Column,
    user: Column,
    class: Column,
    priority: Column,
    request: [Column; 3],
    different: Column,
    machine: Column,
    run: Column,
}

/// Reads all tasks; `rows` has the position of each machine by its id in the trace.
pub(super) fn read(table: &mut Table, rows: &HashMap<u64, u32>) -> Result<Vec<Task>, LoadError> {
    let [job, submit, user, class] = table.find(["job", "submit_us", "user", "sched"])?;
    let [priority, different] = table.find(["prio", "diff"])?;
    let [machine, run] = table.find(["init_machine", "run_us"])?;
    let request = table.find(["cpu", "mem", "disk"])?;
    let columns =
        TaskColumns { job, submit, user, class, priority, request, different, machine, run };
    let mut tasks = Vec::new();
    while let Some(row) = table.next_row()? {
        tasks.push(read_task(&row, &columns, rows)?);
    }
    Ok(tasks)
}

fn read_task(
    row: &Row<'_>,
    columns: &TaskColumns,
    rows: &HashMap<u64, u32>,
) -> Result<Task, LoadError> {
    let [cpu, memory, disk] = columns.request;
    let machine = match row.optional_integer(columns.machine, u64::MAX)? {
        None => Place::Pending,
        Some(id) => rows.get(&id).map_or(Place::Unknown, |row| Place::Machine(*row)),
    };
    let run_ms = row.optional_integer(columns.run, u64::MAX)?.map(|us| us / 1000);
    Ok(Task {
        job: row.integer(columns.job, u64::MAX)?,
        at_ms: since_start(row.integer(columns.submit, u64::MAX)?),
        user: row.integer(columns.user, u64::MAX)?,
        class: row.integer(columns.class, 3)? as u8,
        priority: row.integer(columns.priority, 11)? as u8,
        shape: (
            [
                row.amount(cpu, CPU_MILLIS, Rounding::Up)?,
                row.amount(memory, MEMORY_BYTES, Rounding::Up)?,
                row.amount(disk, DISK_BYTES, Rounding::Up)?,
            ],
            row.integer(columns.different, 1)? == 1,
        ),
        machine,
        run_ms: match machine {
            Place::Pending => run_ms,
            Place::Machine(_) | Place::Unknown => run_ms.map(remaining),
        },
    })
}

/// What remains at the start of the run time of a task that runs then.
fn remaining(run_ms: u64) -> u64 {
    run_ms.checked_sub(CLOCK_START_MS).unwrap_or(run_ms)
}

/// The jobs, in the order of arrival.
pub(super) fn arrivals(tasks: &[&Task]) -> Vec<Arrival> {
    let mut positions: HashMap<(u64, u64, u8), usize> = HashMap::new();
    let mut parts_of: HashMap<u64, u32> = HashMap::new();
    let mut parts: Vec<(u32, Vec<&Task>)> = Vec::new();
    for task in tasks {
        let key = (task.job, task.at_ms, task.priority);
        let position = *positions.entry(key).or_insert_with(|| {
            let count = parts_of.entry(task.job).or_insert(0);
            *count += 1;
            parts.push((*count, Vec::new()));
            parts.len() - 1
        });
        parts[position].1.push(task);
    }
    let mut tenants: HashMap<u64, Text> = HashMap::new();
    let mut arrivals: Vec<Arrival> = parts
        .into_iter()
        .map(|(number, tasks)| {
            let user = tasks[0].user;
            let tenant = tenants.entry(user).or_insert_with(|| format!("user-{user}").into());
            let part = (parts_of[&tasks[0].job] > 1).then_some(number);
            arrival(tasks, part, tenant.clone())
        })
        .collect();
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    arrivals
}

/// One job of these tasks, which are all of a trace job, or its part of this number.
fn arrival(mut tasks: Vec<&Task>, part: Option<u32>, tenant: Text) -> Arrival {
    // Tasks are numbered group by group; the groups stand in the order of their first tasks.
    let mut group_of: HashMap<([u64; 3], bool), usize> = HashMap::new();
    for task in &tasks {
        let next = group_of.len();
        group_of.entry(task.shape).or_insert(next);
    }
    tasks.sort_by_key(|task| group_of[&task.shape]);

    let mut groups: Vec<TaskGroup> = Vec::with_capacity(group_of.len());
    for same in tasks.chunk_by(|a, b| a.shape == b.shape) {
        let name = if group_of.len() == 1 { "main".into() } else { groups.len().to_string() };
        groups.push(group(same, part, name));
    }
    let placed = (0..).zip(&tasks).filter_map(|(number, task)| match task.machine {
        Place::Machine(row) => Some((number, row)),
        Place::Pending | Place::Unknown => None,
    });
    let first = tasks[0];
    let service = first.priority >= PRODUCTION_PRIORITY && first.class >= SERVICE_CLASS;
    let name = match part {
        Some(number) => format!("{}.{number}", first.job),
        None => first.job.to_string(),
    };
    Arrival {
        at_ms: first.at_ms,
        placed: placed.collect(),
        run: if tasks.iter().all(|task| task.run_ms.is_none()) {
            RunTime::Forever
        } else {
            RunTime::Each(tasks.iter().map(|task| task.run_ms).collect())
        },
        job: Job {
            name: name.into(),
            tenant,
            scheduler: if service { "service".into() } else { "batch".into() },
            precedence: Precedence(i32::from(first.priority)),
            preemption: Preemption::default(),
            kind: if service { JobKind::Service } else { JobKind::Batch },
            groups,
            gang_min: None,
            run_ms_expected: None,
        },
    }
}

/// A group of these tasks, which are alike.
fn group(tasks: &[&Task], part: Option<u32>, name: String) -> TaskGroup {
    let (request, different) = tasks[0].shape;
    let mut group = TaskGroup::new(tasks.len() as u32, Amounts::new(request));
    group.name = name.into();
    if different {
        let from = if part.is_none() {
            TaskSelector::SameJob
        } else {
            // The rule holds over all parts: they find each other by the trace job's id.
            let id: Text = tasks[0].job.to_string().into();
            group.labels = Labels::new([("job", id.clone())]);
            let requirements = vec![Requirement::equals("job", id)];
            TaskSelector::Labels { tenants: Tenants::Own, labels: LabelSelector { requirements } }
        };
        group.rules.tasks.push(TaskRule::AntiAffinity { from, level: TopologyLevel::Machine });
    }
    group
}
