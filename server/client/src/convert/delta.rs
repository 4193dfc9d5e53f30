//! Conversion of deltas, and of the interests of their readers.

use super::job::{phase, strings, task_state, texts};
use super::machine::{node_list, nodes};
use super::rows::{by_row, in_rows};
use super::rules::{level, selector_list};
use super::{
    Malformed, all, amounts, given, kind_list, kinds, narrow, overcommit, overcommit_list,
    policies, tenant_config, values,
};
use crate::proto;
use omega_cellstate::{
    ColocationBound, CoresLeft, Count, CountingMachines, Delta, DemandProfileSum, Devices,
    DomainName, Interest, JobDelta, LoadReport, MachineDelta, MachineStatus, Share, TaskDelta,
    TenantDelta, TenantTerms, Tracked, TrackerId, TrackerKey,
};
use omega_core::limits::{DEVICES_MAX, NUMA_NODES_MAX};
use omega_core::{
    DeviceSet, JobId, KindId, LabelSelector, MachineId, NodeCores, SequenceNumber, TaskId,
    TaskState, Version,
};
use std::sync::Arc;

/// Converts an interest to a message.
#[must_use]
pub fn interested(interest: &Interest) -> Option<proto::sync_request::Interest> {
    use proto::sync_request::{AllJobs, Interest as Given, JobsOf};
    match interest {
        Interest::Machines => None,
        Interest::AllJobs => Some(Given::AllJobs(AllJobs {})),
        Interest::JobsOf(scheduler, share) => Some(Given::JobsOf(JobsOf {
            scheduler: scheduler.to_string(),
            share_index: share.index,
            share_of: share.of,
        })),
    }
}

/// Converts the interest that a message contains. A message without an interest means an interest in machines only.
#[must_use]
pub fn interest(given: Option<proto::sync_request::Interest>) -> Interest {
    use proto::sync_request::Interest as Given;
    match given {
        None => Interest::Machines,
        Some(Given::AllJobs(_)) => Interest::AllJobs,
        Some(Given::JobsOf(jobs)) => {
            let share = Share { index: jobs.share_index, of: jobs.share_of };
            Interest::JobsOf(jobs.scheduler.into(), share)
        }
    }
}

impl From<&Delta> for proto::Delta {
    fn from(delta: &Delta) -> Self {
        let mut message = proto::Delta {
            from: delta.from.0,
            to: delta.to.0,
            lineage: delta.lineage.0,
            full: delta.full,
            kinds: delta.kinds.as_ref().map(kind_list).unwrap_or_default(),
            overcommit_max: overcommit_list(&delta.overcommit_max),
            bands: delta.bands.iter().map(|band| (*band).into()).collect(),
            evictions_left: delta.evictions_left,
            rows: delta.rows as u32,
            machines: delta.machines.iter().map(Into::into).collect(),
            slots: delta.slots.clone(),
            sequences: delta.sequences.iter().map(|sequence| sequence.0).collect(),
            free: delta.free.clone(),
            devices: delta.devices.iter().map(devices_out).collect(),
            cores: delta.cores.iter().map(cores_out).collect(),
            quotas: delta.quotas,
            now_ms: delta.now_ms,
            ..proto::Delta::default()
        };
        policies::put(&delta.policies, &mut message);
        message.demand_profiles = delta
            .demand_profiles
            .iter()
            .flat_map(|(slot, sum)| demand_profiles_out(*slot, sum))
            .collect();
        message.loads = delta.loads.iter().map(load_out).collect();
        let tracker = |(id, key): &(TrackerId, Option<TrackerKey>)| proto::Tracker {
            id: id.0,
            key: key.as_ref().map(Into::into),
        };
        message.trackers = delta.trackers.iter().map(tracker).collect();
        message.counts = (!delta.counts.is_empty()).then(|| counts_out(&delta.counts));
        let job = |job: &JobDelta| proto::JobDelta {
            id: job.id.0,
            // Schedulers and readers do not need programs, and must not see them.
            job: job.job.as_deref().map(|job| proto::Job::from(job).without_programs()),
        };
        message.jobs = delta.jobs.iter().map(job).collect();
        let tenant = |tenant: &TenantDelta| proto::TenantDelta {
            name: tenant.terms.name.to_string(),
            tenant_config: Some((&tenant.terms.tenant_config).into()),
            used: tenant.used.to_vec(),
            limit: tenant.terms.limit.as_ref().map(|limit| proto::Quota { limit: values(limit) }),
        };
        message.tenants = delta.tenants.iter().map(tenant).collect();
        for (at, held) in &delta.allocations {
            let held = proto::Allocation { at: *at, amounts: values(held) };
            message.allocations.push(held);
        }
        let cores =
            |(at, cores): &(u32, NodeCores)| proto::TaskCores { at: *at, nodes: node_list(cores) };
        message.task_cores = delta.task_cores.iter().map(cores).collect();
        for task in &delta.tasks {
            push_task(task, &mut message);
        }
        message
    }
}

fn push_task(task: &TaskDelta, message: &mut proto::Delta) {
    let (phase, machine) = phase(task.state);
    let machine = machine.unwrap_or_default();
    message.task_jobs.push(task.id.job.0);
    message.task_indices.push(task.id.index);
    message.task_groups.push(task.group.into());
    message.task_phases.push(phase.into());
    message.task_slots.push(machine.slot);
    message.task_incarnations.push(machine.incarnation);
    message.task_devices.push(task.devices.0);
    message.task_placed_ms.push(task.placed_ms);
}

impl From<&MachineDelta> for proto::MachineDelta {
    fn from(delta: &MachineDelta) -> Self {
        proto::MachineDelta {
            slot: delta.slot,
            incarnation: delta.incarnation,
            draining: delta.status == MachineStatus::Draining,
            full: delta.status == MachineStatus::Full,
            machine: delta.machine.as_deref().map(Into::into),
        }
    }
}

fn load_out((slot, report): &(u32, LoadReport)) -> proto::Load {
    let LoadReport { used, claimed, at_ms } = report;
    proto::Load { slot: *slot, used: values(used), at_ms: *at_ms, claimed: values(claimed) }
}

fn demand_profiles_out(
    slot: u32,
    sum: &DemandProfileSum,
) -> impl Iterator<Item = proto::DemandProfileSum> {
    sum.parts().map(move |(kind, tasks, points)| proto::DemandProfileSum {
        slot,
        kind: kind.0.into(),
        tasks,
        points: points.to_vec(),
    })
}

fn devices_out((slot, devices): &(u32, Devices)) -> proto::DevicesLeft {
    let milli = devices.left().iter().map(|left| i32::from(*left)).collect();
    proto::DevicesLeft { slot: *slot, milli }
}

fn cores_out((slot, cores): &(u32, CoresLeft)) -> proto::CoresLeft {
    let left = cores.left();
    let last = left.iter().rposition(|left| *left != 0).map_or(0, |last| last + 1);
    proto::CoresLeft { slot: *slot, left: left[..last].iter().map(|n| i32::from(*n)).collect() }
}

/// Converts a message to a delta. The columns of the result have matching lengths, and its rows are below
/// [`Delta::rows`].
///
/// # Errors
/// The message is not a valid delta.
pub fn delta(mut message: proto::Delta) -> Result<Delta, Malformed> {
    let tasks = tasks(&message)?;
    let rows = message.rows as usize;
    let policies = policies::get(&mut message, rows)?;
    let kinds = if message.full { Some(kinds(message.kinds)?) } else { None };
    column("sequences", message.sequences.len(), message.slots.len())?;
    for slot in &message.slots {
        in_rows(*slot, rows, "slots")?;
    }
    let mut read = Delta {
        from: Version(message.from),
        to: Version(message.to),
        lineage: Version(message.lineage),
        full: message.full,
        kinds,
        overcommit_max: overcommit(message.overcommit_max)?,
        bands: message.bands.into_iter().map(Into::into).collect(),
        evictions_left: message.evictions_left,
        rows,
        slots: message.slots,
        sequences: message.sequences.into_iter().map(SequenceNumber).collect(),
        free: message.free,
        quotas: message.quotas,
        now_ms: message.now_ms,
        tasks,
        policies,
        ..Delta::default()
    };
    for machine in message.machines {
        in_rows(machine.slot, rows, "machines.slot")?;
        read.machines.push(machine.try_into()?);
    }
    read.devices = by_row("devices.slot", rows, message.devices, devices_in)?;
    read.cores = by_row("cores.slot", rows, message.cores, cores_in)?;
    read.demand_profiles = demand_profiles_in(message.demand_profiles, rows)?;
    read.loads = by_row("loads.slot", rows, message.loads, load_in)?;
    read_holdings(&mut read, message.allocations, &message.task_cores)?;
    for tracker in message.trackers {
        let key = tracker.key.map(TryFrom::try_from).transpose()?;
        read.trackers.push((TrackerId(tracker.id), key));
    }
    if let Some(counts) = message.counts {
        read.counts = counts_in(&counts, rows)?;
    }
    for job in message.jobs {
        let spec = job.job.map(TryFrom::try_from).transpose()?.map(Arc::new);
        read.jobs.push(JobDelta { id: JobId(job.id), job: spec });
    }
    for tenant in message.tenants {
        let terms = TenantTerms {
            name: tenant.name.into(),
            tenant_config: tenant_config(tenant.tenant_config),
            limit: tenant.limit.map(|quota| amounts(quota.limit)),
        };
        let used = tenant.used.into_iter().collect();
        read.tenants.push(TenantDelta { terms: Arc::new(terms), used });
    }
    Ok(read)
}

fn load_in(load: proto::Load) -> Result<(u32, LoadReport), Malformed> {
    let (used, claimed) = (amounts(load.used), amounts(load.claimed));
    Ok((load.slot, LoadReport { used, claimed, at_ms: load.at_ms }))
}

/// Converts allocations that differ from the request of their task's group.
fn read_holdings(
    read: &mut Delta,
    held: Vec<proto::Allocation>,
    cores: &[proto::TaskCores],
) -> Result<(), Malformed> {
    let tasks = read.tasks.len() as u64;
    let held = held.into_iter().map(|held| (held.at, Ok(amounts(held.amounts))));
    read.allocations = by_position(held, tasks, "allocations.at")?;
    let of = |cores: &proto::TaskCores| (cores.at, nodes(&cores.nodes, "task_cores.nodes"));
    read.task_cores = by_position(cores.iter().map(of), tasks, "task_cores.at")?;
    Ok(())
}

/// Converts values for some of `tasks` tasks. Each value comes with its task's position; the positions must ascend.
fn by_position<T>(
    list: impl Iterator<Item = (u32, Result<T, Malformed>)>,
    tasks: u64,
    field: &'static str,
) -> Result<Vec<(u32, T)>, Malformed> {
    let mut read: Vec<(u32, T)> = Vec::new();
    for (at, reported) in list {
        let after = read.last().is_none_or(|(before, _)| *before < at);
        let given = u64::from(at);
        if !after || given >= tasks {
            let max = tasks.saturating_sub(1);
            return Err(Malformed::TooLarge { field, given, max });
        }
        read.push((at, reported?));
    }
    Ok(read)
}

/// Converts demand profiles by row. The profiles of a row are adjacent, one for each resource kind.
fn demand_profiles_in(
    sums: Vec<proto::DemandProfileSum>,
    rows: usize,
) -> Result<Vec<(u32, Arc<DemandProfileSum>)>, Malformed> {
    let mut read = Vec::new();
    let mut sums = sums.into_iter().peekable();
    while let Some(slot) = sums.peek().map(|sum| sum.slot) {
        in_rows(slot, rows, "demand_profiles.slot")?;
        let mut parts: Vec<(KindId, u64, Vec<i64>)> = Vec::new();
        let goes_on = |sum: &proto::DemandProfileSum, parts: &[(KindId, u64, Vec<i64>)]| {
            let ascends = parts.last().is_none_or(|(kind, ..)| u32::from(kind.0) < sum.kind);
            sum.slot == slot && ascends
        };
        while let Some(sum) = sums.next_if(|sum| goes_on(sum, &parts)) {
            let kind = KindId(narrow(sum.kind, u8::MAX, "demand_profiles.kind")?);
            parts.push((kind, sum.tasks, sum.points));
        }
        let points = parts.last().map_or(0, |(.., points)| points.len() as i64);
        let wrong = Malformed::NoSuchValue { field: "demand_profiles.points", given: points };
        read.push((slot, Arc::new(DemandProfileSum::from_parts(parts).ok_or(wrong)?)));
    }
    Ok(read)
}

fn column(field: &'static str, given: usize, expected: usize) -> Result<(), Malformed> {
    if given == expected { Ok(()) } else { Err(Malformed::Columns { field, given, expected }) }
}

fn tasks(message: &proto::Delta) -> Result<Vec<TaskDelta>, Malformed> {
    let count = message.task_jobs.len();
    column("task_indices", message.task_indices.len(), count)?;
    column("task_groups", message.task_groups.len(), count)?;
    column("task_phases", message.task_phases.len(), count)?;
    column("task_slots", message.task_slots.len(), count)?;
    column("task_incarnations", message.task_incarnations.len(), count)?;
    column("task_devices", message.task_devices.len(), count)?;
    // An older server does not send this column.
    let times = &message.task_placed_ms;
    column("task_placed_ms", times.len(), if times.is_empty() { 0 } else { count })?;
    let task = |i: usize| {
        let machine =
            MachineId { slot: message.task_slots[i], incarnation: message.task_incarnations[i] };
        let state: TaskState = task_state(message.task_phases[i], machine)?;
        Ok(TaskDelta {
            id: TaskId { job: JobId(message.task_jobs[i]), index: message.task_indices[i] },
            group: narrow(message.task_groups[i], u16::MAX, "task_groups")?,
            state,
            devices: DeviceSet(message.task_devices[i]),
            placed_ms: times.get(i).copied().unwrap_or(0),
        })
    };
    (0..count).map(task).collect()
}

impl TryFrom<proto::MachineDelta> for MachineDelta {
    type Error = Malformed;

    fn try_from(delta: proto::MachineDelta) -> Result<Self, Malformed> {
        let machine = delta.machine.map(TryFrom::try_from).transpose()?.map(Arc::new);
        let status = match (&machine, delta.draining, delta.full) {
            (None, _, _) => MachineStatus::Absent,
            (Some(_), true, _) => MachineStatus::Draining,
            (Some(_), false, true) => MachineStatus::Full,
            (Some(_), false, false) => MachineStatus::Schedulable,
        };
        Ok(MachineDelta { slot: delta.slot, incarnation: delta.incarnation, status, machine })
    }
}

fn devices_in(devices: proto::DevicesLeft) -> Result<(u32, Devices), Malformed> {
    let left = left_of_each("devices.milli", &devices.milli, DEVICES_MAX.into())?;
    Ok((devices.slot, Devices::from_left(&left).expect("no more than there may be")))
}

fn cores_in(cores: proto::CoresLeft) -> Result<(u32, CoresLeft), Malformed> {
    let left = left_of_each("cores.left", &cores.left, NUMA_NODES_MAX)?;
    Ok((cores.slot, CoresLeft::from_left(&left).expect("no more than there may be")))
}

/// Converts the free amounts of the devices or NUMA nodes of a machine.
fn left_of_each(field: &'static str, reported: &[i32], max: usize) -> Result<Vec<i16>, Malformed> {
    if reported.len() > max {
        return Err(Malformed::TooLarge { field, given: reported.len() as u64, max: max as u64 });
    }
    let no_such = |given: i32| Malformed::NoSuchValue { field, given: given.into() };
    reported.iter().map(|left| i16::try_from(*left).map_err(|_| no_such(*left))).collect()
}

fn counts_out(counts: &[(TrackerId, DomainName, Count)]) -> proto::TrackerCounts {
    let mut message = proto::TrackerCounts::default();
    for (tracker, domain, count) in counts {
        message.trackers.push(tracker.0);
        match domain {
            DomainName::Row(row) => {
                message.domains.push(0);
                message.rows.push(*row);
            }
            DomainName::Value(name) => {
                if message.names.last().is_none_or(|last| **last != **name) {
                    message.names.push(name.to_string());
                }
                message.domains.push(message.names.len() as u32);
                message.rows.push(0);
            }
        }
        message.matched.push(count.matched);
        message.holders.push(count.holders);
        message.seekers.push(count.seekers);
        message.pullers.push(count.pullers);
        message.pull.push(count.pull);
    }
    message
}

fn counts_in(
    message: &proto::TrackerCounts,
    cell_rows: usize,
) -> Result<Vec<(TrackerId, DomainName, Count)>, Malformed> {
    let len = message.trackers.len();
    column("counts.domains", message.domains.len(), len)?;
    column("counts.rows", message.rows.len(), len)?;
    column("counts.matched", message.matched.len(), len)?;
    column("counts.holders", message.holders.len(), len)?;
    column("counts.seekers", message.seekers.len(), len)?;
    column("counts.pullers", message.pullers.len(), len)?;
    column("counts.pull", message.pull.len(), len)?;
    let names = texts(message.names.clone());
    let mut counts = Vec::with_capacity(len);
    for i in 0..len {
        let domain = match message.domains[i] as usize {
            0 => {
                let row = message.rows[i];
                in_rows(row, cell_rows, "counts.rows")?;
                DomainName::Row(row)
            }
            name => DomainName::Value(given(names.get(name - 1), "counts.names")?.clone()),
        };
        let count = Count {
            matched: message.matched[i],
            holders: message.holders[i],
            seekers: message.seekers[i],
            pullers: message.pullers[i],
            pull: message.pull[i],
        };
        counts.push((TrackerId(message.trackers[i]), domain, count));
    }
    Ok(counts)
}

impl From<&TrackerKey> for proto::TrackerKey {
    fn from(key: &TrackerKey) -> Self {
        let among = |among: &CountingMachines| proto::CountingMachines {
            keys: strings(&among.keys),
            affinity: among.affinity.as_deref().map(selector_list),
            tolerations: among
                .tolerations
                .as_ref()
                .map(|all| proto::Tolerations { all: all.iter().map(Into::into).collect() }),
        };
        proto::TrackerKey {
            tracked: Some((&key.tracked).into()),
            level: Some((&key.level).into()),
            among: key.among.as_ref().map(among),
            beside: key.colocation.map(|bound| match bound {
                ColocationBound::AtMost(most) => proto::tracker_key::Beside::AtMost(most),
                ColocationBound::AtLeast(least) => proto::tracker_key::Beside::AtLeast(least),
            }),
        }
    }
}

impl TryFrom<proto::TrackerKey> for TrackerKey {
    type Error = Malformed;

    fn try_from(key: proto::TrackerKey) -> Result<Self, Malformed> {
        let among = |among: proto::CountingMachines| -> Result<_, Malformed> {
            Ok(CountingMachines {
                keys: texts(among.keys),
                affinity: among.affinity.map(|given| all(given.any)).transpose()?,
                tolerations: among.tolerations.map(|given| all(given.all)).transpose()?,
            })
        };
        Ok(TrackerKey {
            tracked: given(key.tracked, "tracker.tracked")?.try_into()?,
            level: level(key.level),
            among: key.among.map(among).transpose()?,
            colocation: key.beside.map(|bound| match bound {
                proto::tracker_key::Beside::AtMost(most) => ColocationBound::AtMost(most),
                proto::tracker_key::Beside::AtLeast(least) => ColocationBound::AtLeast(least),
            }),
        })
    }
}

impl From<&Tracked> for proto::Tracked {
    fn from(tracked: &Tracked) -> Self {
        use proto::tracked::{All, Group, Labelled, Tenants, Tracked as Given};
        let tracked = match tracked {
            Tracked::Group(job, group) => {
                Given::Group(Group { job: job.0, group: (*group).into() })
            }
            Tracked::Job(job) => Given::Job(job.0),
            Tracked::Labels(tenants, labels) => Given::Labels(Labelled {
                tenants: tenants.as_ref().map(|names| Tenants { names: strings(names) }),
                labels: labels.requirements.iter().map(Into::into).collect(),
            }),
            Tracked::Port(port) => Given::Port(port.into()),
            Tracked::All(all) => Given::All(All { tracked: all.iter().map(Into::into).collect() }),
        };
        proto::Tracked { tracked: Some(tracked) }
    }
}

impl TryFrom<proto::Tracked> for Tracked {
    type Error = Malformed;

    fn try_from(tracked: proto::Tracked) -> Result<Self, Malformed> {
        use proto::tracked::Tracked as Given;
        Ok(match given(tracked.tracked, "tracked")? {
            Given::Group(group) => {
                Tracked::Group(JobId(group.job), narrow(group.group, u16::MAX, "tracked.group")?)
            }
            Given::Job(job) => Tracked::Job(JobId(job)),
            Given::Labels(labelled) => Tracked::Labels(
                labelled.tenants.map(|tenants| texts(tenants.names)),
                LabelSelector { requirements: all(labelled.labels)? },
            ),
            Given::Port(port) => Tracked::Port(port.try_into()?),
            Given::All(given) => Tracked::All(all(given.tracked)?),
        })
    }
}
