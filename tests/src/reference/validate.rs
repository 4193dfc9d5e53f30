//! Validation of commands that does not depend on the cell's state. It is implemented independently of the cell.
//!
//! `compare` ignores the texts of rejections.

use super::allocations::taken;
use omega_core::limits::{
    DEVICE_MILLI, DEVICES_MAX, GROUPS_PER_JOB_MAX, LABELS_MAX, OVERCOMMIT_PERCENT_MAX,
    RULES_PER_GROUP_MAX, TASKS_PER_JOB_MAX, TEXT_BYTES_MAX,
};
use omega_core::text::is_hidden;
use omega_core::{
    Amounts, CoreRequest, DeviceRequest, Job, JobKind, Kinds, Labels, Machine, MachineSelector,
    PeakCalendar, Policy, Rejection, Reservation, Take, TaskGroup, TaskRule, TaskSelector, Tenants,
    Text, TopologyLevel,
};

pub(super) fn at_most(given: usize, max: usize) -> Result<(), Rejection> {
    if given > max {
        Err(Rejection::TooMany { what: "".into(), given: given as u64, max: max as u64 })
    } else {
        Ok(())
    }
}

pub(super) fn bad_job() -> Rejection {
    Rejection::BadJob("".into())
}

pub(super) fn name(name: &Text) -> Result<(), Rejection> {
    if name.is_empty() { Err(Rejection::BadName("".into())) } else { value(name) }
}

fn value(text: &Text) -> Result<(), Rejection> {
    if text.len() <= TEXT_BYTES_MAX && !text.chars().any(is_hidden) {
        Ok(())
    } else {
        Err(Rejection::BadName("".into()))
    }
}

/// Checks the texts of a machine selector.
fn selector(machines: &MachineSelector) -> Result<(), Rejection> {
    let all = machines.labels.iter().chain(&machines.names);
    all.flat_map(|one| one.values.iter().chain([&one.key])).try_for_each(value)
}

/// Checks the texts of a task selector and its level.
fn tasks(tasks: &TaskSelector, level: &TopologyLevel) -> Result<(), Rejection> {
    if let TopologyLevel::Label(key) = level {
        value(key)?;
    }
    let TaskSelector::Labels { tenants, labels } = tasks else { return Ok(()) };
    if let Tenants::Named(names) = tenants {
        names.iter().try_for_each(value)?;
    }
    selector(&MachineSelector { labels: labels.requirements.clone(), names: Vec::new() })
}

fn rule_texts(rule: &TaskRule) -> Result<(), Rejection> {
    match rule {
        TaskRule::AntiAffinity { from: of, level }
        | TaskRule::MaxPerDomain { of, level, .. }
        | TaskRule::MaxColocated { of, level, .. } => tasks(of, level),
        TaskRule::Affinity(terms) => {
            terms.iter().try_for_each(|near| tasks(&near.tasks, &near.level))
        }
        TaskRule::Prefer { near, .. } | TaskRule::RuntimeAffinity(near) => {
            tasks(&near.tasks, &near.level)
        }
        TaskRule::Spread(spread) => tasks(&spread.of, &spread.level),
        TaskRule::MaxShare { level, .. } => tasks(&TaskSelector::SameJob, level),
        _ => Ok(()),
    }
}

pub(super) fn amounts(what: &Text, amounts: &Amounts, kinds: &Kinds) -> Result<(), Rejection> {
    match amounts.first_invalid(kinds) {
        Some(kind) => Err(Rejection::BadAmount { what: what.clone(), kind }),
        None => Ok(()),
    }
}

pub(super) fn quota(tenant: &Text, limit: &Amounts, kinds: &Kinds) -> Result<(), Rejection> {
    for (kind, amount) in limit.iter() {
        if kind.index() >= kinds.count() || amount > i64::MAX as u64 / 2 {
            return Err(Rejection::BadAmount { what: tenant.clone(), kind });
        }
    }
    Ok(())
}

fn labels(labels: &Labels) -> Result<(), Rejection> {
    at_most(labels.len(), LABELS_MAX)?;
    for (key, value) in labels.iter() {
        name(key)?;
        if !value.is_empty() {
            name(value)?;
        }
    }
    Ok(())
}

pub(super) fn machine(machine: &Machine, kinds: &Kinds) -> Result<(), Rejection> {
    name(&machine.name)?;
    amounts(&machine.name, &machine.capacity, kinds)?;
    labels(&machine.labels)?;
    at_most(machine.taints.len(), LABELS_MAX)?;
    at_most(machine.images.len(), 16 * LABELS_MAX)?;
    machine.images.iter().try_for_each(|image| name(&image.name))?;
    machine.taints.iter().flat_map(|taint| [&taint.key, &taint.value]).try_for_each(value)?;
    at_most(usize::from(machine.devices), usize::from(DEVICES_MAX))?;
    let nodes = machine.numa.as_slice();
    nodes.iter().try_for_each(|cores| at_most(usize::from(*cores), 1024))?;
    let cores: u64 = nodes.iter().copied().map(u64::from).sum();
    let cpu = kinds.by_name("cpu").map(|cpu| machine.capacity.get(cpu));
    if cores > 0 && cpu.is_none_or(|cpu| cpu < cores * 1000) {
        return Err(Rejection::BadMachine("".into()));
    }
    let (first, last) = (machine.ports.first, machine.ports.last);
    if (first == 0 && last > 0) || last < first {
        return Err(Rejection::BadMachine("".into()));
    }
    for (kind, percent) in machine.overcommit.iter() {
        if kind.index() >= kinds.count() {
            return Err(Rejection::BadAmount { what: machine.name.clone(), kind });
        }
        at_most(percent as usize, OVERCOMMIT_PERCENT_MAX as usize)?;
    }
    Ok(())
}

pub(super) fn submitted_job(submitted: &Job, kinds: &Kinds) -> Result<(), Rejection> {
    let min = submitted.gang_min.unwrap_or(0);
    composed(submitted, kinds, Form::Submitted)?;
    if u64::from(min) > submitted.task_count() { Err(bad_job()) } else { Ok(()) }
}

/// Checks a job whose groups are of several versions.
pub(super) fn composed_job(job: &Job, kinds: &Kinds) -> Result<(), Rejection> {
    composed(job, kinds, Form::Composed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Submitted,
    Composed,
}

fn update(job: &Job) -> Result<(), Rejection> {
    let Some(rules) = job.update else { return Ok(()) };
    if job.kind == JobKind::Batch || rules.max_surge + rules.max_unavailable == 0 {
        return Err(bad_job());
    }
    at_most(rules.min_healthy_ms as usize, 3_600_000)
}

fn composed(job: &Job, kinds: &Kinds, form: Form) -> Result<(), Rejection> {
    name(&job.name)?;
    name(&job.tenant)?;
    name(&job.scheduler)?;
    if job.groups.is_empty() {
        return Err(bad_job());
    }
    let versions = if form == Form::Submitted { 1 } else { 2 };
    at_most(job.groups.len(), versions * GROUPS_PER_JOB_MAX)?;
    if job.task_count() == 0 && form == Form::Submitted {
        return Err(bad_job());
    }
    at_most(job.task_count() as usize, TASKS_PER_JOB_MAX as usize)?;
    update(job)?;
    for (i, group) in job.groups.iter().enumerate() {
        let mut earlier = job.groups[..i].iter();
        if earlier.any(|one| one.name == group.name && one.version == group.version) {
            return Err(bad_job());
        }
        if form == Form::Submitted && group.version != 0 {
            return Err(bad_job());
        }
        task_group(job, group, kinds)?;
    }
    if let Some(hold) = job.gang_timeout_ms
        && (job.gang_min.is_none() || hold == 0 || hold > 3_600_000)
    {
        return Err(bad_job());
    }
    Ok(())
}

pub(super) fn policy(policy: &Policy) -> Result<(), Rejection> {
    at_most(policy.bands.len(), 16)?;
    let mut ends: Vec<i64> = Vec::new();
    for band in &policy.bands {
        ends.extend([i64::from(band.from.0) * 2, i64::from(band.to.0) * 2 + 1]);
    }
    let apart = ends.windows(2).all(|pair| pair[0] < pair[1]);
    let bounded = policy.eviction_cap.is_none_or(|cap| {
        (1..=1 << 20).contains(&cap.count) && (1..=86_400_000).contains(&cap.per_ms)
    });
    if apart && bounded { Ok(()) } else { Err(Rejection::BadPolicy("".into())) }
}

/// Checks everything of a reservation except its times.
pub(super) fn reservation(asked: &Reservation) -> Result<(), Rejection> {
    name(&asked.name)?;
    asked.tenants.iter().try_for_each(name)?;
    at_most(asked.tenants.len(), 64)?;
    for list in [&asked.machines.labels, &asked.machines.names] {
        at_most(list.len(), RULES_PER_GROUP_MAX)?;
        at_most(list.iter().map(|requirement| requirement.values.len()).sum(), 1024)?;
    }
    selector(&asked.machines)?;
    let any = !asked.machines.labels.is_empty() || !asked.machines.names.is_empty();
    if any && !asked.tenants.is_empty() {
        Ok(())
    } else {
        Err(Rejection::BadReservation("".into()))
    }
}

pub(super) fn peaks(asked: &PeakCalendar, kinds: &Kinds) -> Result<(), Rejection> {
    name(&asked.name)?;
    at_most(asked.peaks.len(), 24)?;
    for list in [&asked.machines.labels, &asked.machines.names] {
        at_most(list.len(), RULES_PER_GROUP_MAX)?;
        at_most(list.iter().map(|requirement| requirement.values.len()).sum(), 1024)?;
    }
    selector(&asked.machines)?;
    let any = !asked.machines.labels.is_empty() || !asked.machines.names.is_empty();
    let mut good = any && !asked.peaks.is_empty();
    for peak in &asked.peaks {
        if !good {
            break;
        }
        let kinds_named: Vec<usize> = peak.batch_max.iter().map(|s| s.kind.index()).collect();
        good &= peak.from_ms < 86_400_000 && peak.until_ms <= 86_400_000;
        good &= peak.from_ms != peak.until_ms && !kinds_named.is_empty();
        good &= kinds_named.windows(2).all(|pair| pair[0] < pair[1]);
        if let Some(kind) = kinds_named.iter().find(|kind| good && **kind >= kinds.count()) {
            let kind = omega_core::KindId(*kind as u8);
            return Err(Rejection::BadAmount { what: "".into(), kind });
        }
        good &= peak.batch_max.iter().all(|share| share.percent <= 100);
    }
    if good { Ok(()) } else { Err(Rejection::BadPeaks("".into())) }
}

fn per_machine(job: &Job, group: &TaskGroup) -> Result<(), Rejection> {
    let (from, level) = (TaskSelector::SameGroup, TopologyLevel::Machine);
    let keeps_apart = group.rules.tasks.contains(&TaskRule::AntiAffinity { from, level });
    let is_possible = job.kind == JobKind::Service && job.gang_min.is_none() && keeps_apart;
    if group.per_machine && !is_possible { Err(bad_job()) } else { Ok(()) }
}

/// The number of rules as which a rule counts.
fn terms(rule: &TaskRule) -> usize {
    match rule {
        TaskRule::Affinity(terms) => terms.len(),
        _ => 1,
    }
}

fn task_group(of: &Job, group: &TaskGroup, kinds: &Kinds) -> Result<(), Rejection> {
    let job = &of.name;
    name(&group.name)?;
    amounts(job, &group.request, kinds)?;
    amounts(job, &group.cluster_request, kinds)?;
    labels(&group.labels)?;
    let rules = &group.rules;
    at_most(rules.tasks.iter().map(terms).sum(), RULES_PER_GROUP_MAX)?;
    at_most(rules.ports.len(), RULES_PER_GROUP_MAX)?;
    at_most(group.any_ports.len(), RULES_PER_GROUP_MAX)?;
    at_most(rules.tolerations.len(), RULES_PER_GROUP_MAX)?;
    at_most(group.images.len(), RULES_PER_GROUP_MAX)?;
    at_most(group.volumes.len(), RULES_PER_GROUP_MAX)?;
    group.images.iter().chain(&group.volumes).chain(&rules.machine).try_for_each(name)?;
    let tolerated = rules.tolerations.iter().flat_map(|one| one.key.iter().chain([&one.value]));
    tolerated.chain(rules.ports.iter().flat_map(|port| &port.address)).try_for_each(value)?;
    rules.affinity.required.iter().flatten().try_for_each(selector)?;
    rules.affinity.preferred.iter().try_for_each(|one| selector(&one.machines))?;
    rules.tasks.iter().try_for_each(rule_texts)?;
    for rule in &rules.tasks {
        match rule {
            TaskRule::Affinity(terms) if terms.is_empty() => return Err(bad_job()),
            TaskRule::Affinity(terms) => at_most(terms.len(), RULES_PER_GROUP_MAX)?,
            TaskRule::Prefer { weight, .. } if !(-100..=100).contains(weight) => {
                return Err(bad_job());
            }
            TaskRule::MaxColocated { count: 0, .. } => return Err(bad_job()),
            TaskRule::RuntimeAffinity(near) if near.tasks == TaskSelector::SameGroup => {
                return Err(bad_job());
            }
            _ => {}
        }
    }
    at_most(rules.affinity.required.as_ref().map_or(0, Vec::len), RULES_PER_GROUP_MAX)?;
    at_most(rules.affinity.preferred.len(), RULES_PER_GROUP_MAX)?;
    at_most(group.grace_ms as usize, 3_600_000)?;
    per_machine(of, group)?;
    super::programs::program(group)?;
    let mut last = None;
    for demand_profile in &group.demand_profiles {
        let highest = demand_profile.points.iter().max().copied().unwrap_or(0);
        let later = last < Some(demand_profile.kind);
        let divides = (1..=288).any(|each| each * demand_profile.points.len() == 288);
        if !later || !divides || highest == 0 || highest != group.request.get(demand_profile.kind) {
            return Err(bad_job());
        }
        last = Some(demand_profile.kind);
    }
    let devices = group
        .devices
        .into_iter()
        .chain(group.optional.as_ref().and_then(|optional| optional.devices));
    for devices in devices {
        devices_of(devices)?;
    }
    if let Some(cores) = group.cores {
        cores_of(group, cores, kinds)?;
    }
    let Some(optional) = &group.optional else { return Ok(()) };
    if optional.devices.is_some() && group.devices.is_some() {
        return Err(bad_job());
    }
    if optional.amounts.is_zero() && optional.devices.is_none() || !group.demand_profiles.is_empty()
    {
        return Err(bad_job());
    }
    amounts(job, &taken(group, Take::WithOptional).0, kinds)
}

fn devices_of(devices: DeviceRequest) -> Result<(), Rejection> {
    at_most(usize::from(devices.count), usize::from(DEVICES_MAX))?;
    at_most(usize::from(devices.milli_each), DEVICE_MILLI as usize)?;
    if devices.count == 0 || devices.milli_each == 0 { Err(bad_job()) } else { Ok(()) }
}

/// Checks exclusive cores: at every point of the day, the group must claim at least as much `cpu`.
fn cores_of(group: &TaskGroup, cores: CoreRequest, kinds: &Kinds) -> Result<(), Rejection> {
    let cpu = kinds.by_name("cpu").ok_or_else(bad_job)?;
    let demand_profiles =
        group.demand_profiles.iter().filter(|demand_profile| demand_profile.kind == cpu);
    let mut claimed = demand_profiles
        .flat_map(|demand_profile| demand_profile.points.clone())
        .chain([group.request.get(cpu)]);
    let needed = u64::from(cores.count) * 1000;
    if needed == 0 || claimed.any(|claimed| claimed < needed) { Err(bad_job()) } else { Ok(()) }
}
