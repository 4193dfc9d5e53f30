//! The tasks of the trace, and the jobs that they make up.

use super::machines::{CLOCK_START_MS, CPU_MILLIS, DISK_BYTES, MEMORY_BYTES, since_start};
use crate::stream::JobEvent;
use crate::text::decimal::Rounding;
use crate::text::table::{Column, Row, Table};
use crate::text::words::plural;
use crate::{Arrival, LoadError, RunTime};
use omega_core::limits::TASKS_PER_JOB_MAX;
use omega_core::{
    Amounts, Job, JobKind, LabelSelector, Labels, Precedence, Preemption, Requirement, SharedGroup,
    TaskGroup, TaskRule, TaskSelector, Tenants, Text, TopologyLevel,
};
use std::collections::{HashMap, VecDeque};
use std::path::Path;

/// The lowest priority of production tasks.
const PRODUCTION_PRIORITY: u8 = 9;

/// Selection of the replayed tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Production {
    /// Tasks of priority 9 and above.
    OnlyProduction,
    /// All tasks.
    #[default]
    All,
}

/// The lowest scheduling class of service jobs.
pub(super) const SERVICE_CLASS: u8 = 2;

/// Location of a task when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Pending,
    Machine(u32),
    /// The task runs on a machine that the trace does not list.
    Unknown,
}

/// A task of the trace.
struct Task {
    /// Number of the task's line in the file.
    line: u64,
    job: u64,
    at_ms: u64,
    user: u64,
    class: u8,
    priority: u8,
    /// CPU, memory, disk, and anti-affinity to the job's other tasks.
    shape: ([u64; 3], bool),
    machine: Place,
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

/// The table of tasks, which are grouped into jobs in order of time.
pub(super) struct Tasks {
    table: Table,
    columns: TaskColumns,
    /// The position of each machine by its id in the trace.
    rows: HashMap<u64, u32>,
    production: Production,
    parts: HashMap<u64, Parts>,
    /// The first task with the next arrival time, which was already read.
    next: Option<Task>,
    ready: VecDeque<JobEvent>,
    count: Count,
}

/// Counts of the tasks read so far.
#[derive(Default)]
struct Count {
    tasks: u64,
    left_out: u64,
    /// Initial tasks on unlisted machines.
    lost: u64,
    end_ms: u64,
}

/// The parts of a trace job whose tasks arrive at several times.
#[derive(Clone, Copy, Default)]
struct Parts {
    count: u32,
    /// Number of jobs that were already made of the trace job.
    given: u32,
    /// Arrival time of the last of these jobs. The next field has the priorities at that time.
    at_ms: u64,
    priorities: u16,
}

impl Tasks {
    pub(super) fn open(
        file: &Path,
        rows: HashMap<u64, u32>,
        production: Production,
    ) -> Result<Tasks, LoadError> {
        let parts = Tasks::new(file, HashMap::new(), production)?.count_parts()?;
        let mut tasks = Tasks::new(file, rows, production)?;
        tasks.parts = parts;
        tasks.next = tasks.read()?;
        Ok(tasks)
    }

    fn new(
        file: &Path,
        rows: HashMap<u64, u32>,
        production: Production,
    ) -> Result<Tasks, LoadError> {
        let table = Table::open(file)?;
        let [job, submit, user, class] = table.find(["job", "submit_us", "user", "sched"])?;
        let [priority, different] = table.find(["prio", "diff"])?;
        let [machine, run] = table.find(["init_machine", "run_us"])?;
        let request = table.find(["cpu", "mem", "disk"])?;
        let columns =
            TaskColumns { job, submit, user, class, priority, request, different, machine, run };
        Ok(Tasks {
            table,
            columns,
            rows,
            production,
            parts: HashMap::new(),
            next: None,
            ready: VecDeque::new(),
            count: Count::default(),
        })
    }

    /// Returns the jobs that arrive in several parts. They must be known when the first part arrives.
    fn count_parts(mut self) -> Result<HashMap<u64, Parts>, LoadError> {
        let mut parts: HashMap<u64, Parts> = HashMap::new();
        let mut last_ms = 0;
        while let Some(task) = self.read()? {
            if task.at_ms < last_ms {
                let message = "is earlier than in the line above: rows must be sorted by this \
                     column";
                return Err(self.table.error_at(Some("submit_us"), message));
            }
            last_ms = task.at_ms;
            if self.is_replayed(&task) {
                parts.entry(task.job).or_default().see(&task);
            }
        }
        parts.retain(|_, parts| parts.count > 1);
        Ok(parts)
    }

    fn is_replayed(&self, task: &Task) -> bool {
        self.production == Production::All || task.priority >= PRODUCTION_PRIORITY
    }

    /// The next job by time.
    pub(super) fn next_job(&mut self) -> Result<Option<JobEvent>, LoadError> {
        while self.ready.is_empty() && self.next.is_some() {
            self.read_moment()?;
        }
        Ok(self.ready.pop_front())
    }

    /// Arrival time of the last task read.
    pub(super) fn end_ms(&self) -> u64 {
        self.count.end_ms
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let Count { tasks, left_out, lost, .. } = self.count;
        let mut notes = Vec::new();
        if left_out > 0 {
            notes
                .push(format!("{left_out} of {tasks} tasks are left out: they are not production"));
        }
        if lost > 0 {
            notes.push(format!(
                "{} ran at the start on machines that are not in the trace, and {} pending instead",
                plural(lost, "task"),
                if lost == 1 { "is" } else { "are" }
            ));
        }
        notes
    }

    /// Reads all tasks with the next arrival time, and makes jobs of them.
    fn read_moment(&mut self) -> Result<(), LoadError> {
        let mut next = self.next.take();
        self.count.end_ms = next.as_ref().map_or(0, |task| task.at_ms);
        let mut positions: HashMap<(u64, u8), usize> = HashMap::new();
        let mut parts: Vec<Vec<Task>> = Vec::new();
        let mut count = 0;
        while let Some(task) = next.take_if(|task| task.at_ms == self.count.end_ms) {
            count += 1;
            if count > TASKS_PER_JOB_MAX {
                let message = format!("more than {TASKS_PER_JOB_MAX} tasks at one time");
                return Err(self.table.error_at(Some("submit_us"), message));
            }
            self.count.tasks += 1;
            if self.is_replayed(&task) {
                self.count.lost += u64::from(task.machine == Place::Unknown);
                let position = *positions.entry((task.job, task.priority)).or_insert(parts.len());
                if position == parts.len() {
                    parts.push(Vec::new());
                }
                parts[position].push(task);
            } else {
                self.count.left_out += 1;
            }
            next = self.read()?;
        }
        self.next = next;
        for tasks in parts {
            let number = self.parts.get_mut(&tasks[0].job).map(|parts| {
                parts.given += 1;
                parts.given
            });
            let (line, tenant) = (Some(tasks[0].line), format!("user-{}", tasks[0].user));
            let arrival = arrival(tasks.iter().collect(), number, tenant.into());
            self.ready.push_back(JobEvent { arrival, line });
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Task>, LoadError> {
        let Some(row) = self.table.next_row()? else { return Ok(None) };
        read_task(&row, &self.columns, &self.rows).map(Some)
    }
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
        line: row.line(),
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

/// Remaining run time of a task that already runs at the start.
fn remaining(run_ms: u64) -> u64 {
    run_ms.checked_sub(CLOCK_START_MS).unwrap_or(run_ms)
}

impl Parts {
    /// Counts a task. If the task begins a new part of its job, counts the part, too.
    fn see(&mut self, task: &Task) {
        if self.count == 0 || self.at_ms != task.at_ms {
            self.at_ms = task.at_ms;
            self.priorities = 0;
        }
        let priority = 1 << task.priority;
        self.count += u32::from(self.priorities & priority == 0);
        self.priorities |= priority;
    }
}

/// Makes a job of these tasks. They are a whole trace job, or the part of it with this number.
fn arrival(mut tasks: Vec<&Task>, part: Option<u32>, tenant: Text) -> Arrival {
    // Tasks are numbered group by group, with groups in the order of their first tasks.
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
            groups: groups.into_iter().map(SharedGroup::from).collect(),
            gang_min: None,
            gang_timeout_ms: None,
            runtime_estimate_ms: None,
            deadline_ms: None,
            update: None,
        },
    }
}

/// Makes a group of these tasks, which are equal.
fn group(tasks: &[&Task], part: Option<u32>, name: String) -> TaskGroup {
    let (request, different) = tasks[0].shape;
    let mut group = TaskGroup::new(tasks.len() as u32, Amounts::new(request));
    group.name = name.into();
    if different {
        let from = if part.is_none() {
            TaskSelector::SameJob
        } else {
            // The label is the id of the trace job, so the rule covers all its parts.
            let id: Text = tasks[0].job.to_string().into();
            group.labels = Labels::new([("job", id.clone())]);
            let requirements = vec![Requirement::equals("job", id)];
            TaskSelector::Labels { tenants: Tenants::Own, labels: LabelSelector { requirements } }
        };
        group.rules.tasks.push(TaskRule::AntiAffinity { from, level: TopologyLevel::Machine });
    }
    group
}
