//! The table of jobs.

use super::amounts::{AmountColumns, optional};
use super::forms;
use crate::gangs;
use crate::text::decimal::Rounding;
use crate::text::table::{Column, Row, Table};
use crate::{Arrival, LoadError, RunTime};
use omega_core::limits::{DEVICE_MILLI, TASKS_PER_JOB_MAX};
use omega_core::{
    DeviceRequest, Job, JobKind, KindId, Kinds, Labels, MachineSelector, PlacementRules,
    Precedence, Preemption, TaskGroup, TaskRule, TaskSelector,
};

/// Columns of the table, except those of further resource kinds.
pub(super) const COLUMNS: [&str; 19] = [
    "name",
    "count",
    "cpu",
    "memory",
    "disk",
    "gpu",
    "gpu_share",
    "arrival_s",
    "run_s",
    "kind",
    "precedence",
    "tenant",
    "gang",
    "labels",
    "require",
    "tolerate",
    "spread",
    "anti_affinity",
    "ports",
];

/// The columns that this table has.
pub(super) struct Columns {
    name: Column,
    count: Column,
    amounts: AmountColumns,
    share: Option<Column>,
    arrival: Option<Column>,
    run: Option<Column>,
    kind: Option<Column>,
    precedence: Option<Column>,
    tenant: Option<Column>,
    gang: Option<Column>,
    labels: Option<Column>,
    require: Option<Column>,
    tolerate: Option<Column>,
    spread: Option<Column>,
    anti_affinity: Option<Column>,
    ports: Option<Column>,
}

impl Columns {
    pub(super) fn of(table: &Table, kinds: &Kinds) -> Result<Columns, LoadError> {
        let [name, count] = table.find(["name", "count"])?;
        let column = |name| table.optional_column(name);
        Ok(Columns {
            name,
            count,
            amounts: AmountColumns::of(table, kinds)?,
            share: column("gpu_share"),
            arrival: column("arrival_s"),
            run: column("run_s"),
            kind: column("kind"),
            precedence: column("precedence"),
            tenant: column("tenant"),
            gang: column("gang"),
            labels: column("labels"),
            require: column("require"),
            tolerate: column("tolerate"),
            spread: column("spread"),
            anti_affinity: column("anti_affinity"),
            ports: column("ports"),
        })
    }
}

/// Converts a row to a job.
pub(super) fn read_arrival(row: &Row<'_>, columns: &Columns) -> Result<Arrival, LoadError> {
    let name =
        forms::name(row.text(columns.name)).map_err(|message| row.error(columns.name, message))?;
    let group = read_group(row, columns)?;
    let run_ms = optional(row, columns.run, forms::seconds)?;
    let kind = optional(row, columns.kind, |text| match text {
        "service" => Ok(JobKind::Service),
        "batch" => Ok(JobKind::Batch),
        _ => Err(format!("{text:?} is not a kind of job: it must be service or batch")),
    })?
    .unwrap_or(if run_ms.is_some() { JobKind::Batch } else { JobKind::Service });
    let precedence = optional(row, columns.precedence, |text| {
        text.parse().map_err(|_| {
            format!("{text:?} must be a whole number from {} to {}", i32::MIN, i32::MAX)
        })
    })?;
    let gang_min = optional(row, columns.gang, |text| match (text, text.parse()) {
        ("all", _) => Ok(group.count),
        (_, Ok(tasks)) if (1..=group.count).contains(&tasks) => Ok(tasks),
        _ => Err(format!(
            "{text:?} is not a minimum number of tasks of the gang: give `all`, or a number from 1 \
             to {}",
            group.count
        )),
    })?;
    let tenant = optional(row, columns.tenant, forms::name)?;
    Ok(Arrival {
        at_ms: optional(row, columns.arrival, forms::seconds)?.unwrap_or(0),
        placed: Vec::new(),
        run: run_ms.map_or(RunTime::Forever, RunTime::Same),
        job: Job {
            name,
            tenant: tenant.unwrap_or_else(|| "default".into()),
            scheduler: match kind {
                JobKind::Service => "service".into(),
                JobKind::Batch => "batch".into(),
            },
            precedence: Precedence(precedence.unwrap_or(0)),
            preemption: Preemption::default(),
            kind,
            groups: [group.into()].into(),
            gang_min,
            gang_timeout_ms: gangs::timeout_ms(gang_min),
            runtime_estimate_ms: run_ms,
            deadline_ms: None,
            update: None,
        },
    })
}

fn read_group(row: &Row<'_>, columns: &Columns) -> Result<TaskGroup, LoadError> {
    let count = row.integer(columns.count, u64::from(TASKS_PER_JOB_MAX))? as u32;
    if count == 0 {
        return Err(row.error(
            columns.count,
            "is 0: a job must have at least one task: write at least 1, or remove the row",
        ));
    }
    let (mut request, devices) = columns.amounts.read(row, Rounding::Up)?;
    let devices = read_devices(row, columns, devices)?;
    if let Some(devices) = devices {
        request.set(KindId::GPU, u64::from(devices.count) * u64::from(devices.milli_each));
    }
    let mut group = TaskGroup::new(count, request);
    group.devices = devices;
    group.labels = Labels::new(optional(row, columns.labels, forms::labels)?.unwrap_or_default());
    group.rules = read_rules(row, columns)?;
    Ok(group)
}

fn read_devices(
    row: &Row<'_>,
    columns: &Columns,
    count: u8,
) -> Result<Option<DeviceRequest>, LoadError> {
    let share = optional(row, columns.share, |text| match text.parse() {
        _ if count == 0 => Err("is given, but the row has no gpu: fill in the column gpu too, or \
             leave the column gpu_share empty"
            .to_owned()),
        Ok(share @ 1..=1000) => Ok(share),
        _ => Err(format!("{text:?} must be 1 to {DEVICE_MILLI} thousandths of a device")),
    })?;
    let milli_each = share.unwrap_or(DEVICE_MILLI as u16);
    Ok((count > 0).then_some(DeviceRequest { count, milli_each }))
}

fn read_rules(row: &Row<'_>, columns: &Columns) -> Result<PlacementRules, LoadError> {
    let mut rules = PlacementRules::default();
    let required = optional(row, columns.require, |text| forms::list(text, forms::requirement))?;
    rules.affinity.required =
        required.map(|labels| vec![MachineSelector { labels, names: Vec::new() }]);
    let tolerations = optional(row, columns.tolerate, |text| forms::list(text, forms::toleration))?;
    rules.tolerations = tolerations.unwrap_or_default();
    let spreads = optional(row, columns.spread, |text| forms::list(text, forms::spread))?;
    rules.tasks.extend(spreads.into_iter().flatten().map(TaskRule::Spread));
    let levels = optional(row, columns.anti_affinity, |text| forms::list(text, forms::level))?;
    let apart = |level| TaskRule::AntiAffinity { from: TaskSelector::SameJob, level };
    rules.tasks.extend(levels.into_iter().flatten().map(apart));
    let ports = optional(row, columns.ports, |text| {
        let ports = forms::list(text, forms::port)?;
        let twice = (1..ports.len()).any(|i| ports[..i].contains(&ports[i]));
        if twice { Err(format!("{text:?} has the same port twice")) } else { Ok(ports) }
    })?;
    rules.ports = ports.unwrap_or_default();
    Ok(rules)
}
