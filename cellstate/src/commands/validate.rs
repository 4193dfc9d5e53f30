//! Validation of commands before they change any state.

use crate::cell::Cell;
use crate::commands::bounds::{at_most, check_counters, check_selectors, rule_count};
use crate::commands::programs;
use crate::commands::texts;
use omega_core::limits::{
    BANDS_MAX, CORES_PER_NODE_MAX, DEMAND_POINTS_MAX, DEVICE_MILLI, DEVICES_MAX, EVICTION_CAP_MAX,
    EVICTION_SPAN_MS_MAX, GANG_TIMEOUT_MS_MAX, GRACE_MS_MAX, GROUPS_PER_JOB_MAX, HEALTH_MS_MAX,
    JOB_BYTES_MAX, LABELS_MAX, MACHINE_BYTES_MAX, OVERCOMMIT_PERCENT_MAX, PEAKS_BYTES_MAX,
    PEAKS_MAX, QUOTA_MAX, RESERVATION_TENANTS_MAX, RESERVATIONS_BYTES_MAX, RESERVED_VALUES_MAX,
    RULES_PER_GROUP_MAX, TASKS_PER_JOB_MAX, TENANT_WEIGHT_MAX, VERSIONS_TOGETHER, WEIGHT_MAX,
};
use omega_core::{
    Amounts, Command, CoreRequest, DAY_MS, DeviceRequest, Job, JobKind, KindId, Kinds, Labels,
    Machine, MachineSelector, Peak, PeakCalendar, Policy, Rejection, Reservation, SharedGroup,
    TaskGroup, TaskRule, TaskSelector, TenantConfig, Text, TopologyLevel, UpdateRules,
    bytes_at_most,
};

impl Cell {
    /// Checks what depends only on the command and the resource kinds. The cell rejects a command that fails this check
    /// in every state, so a server need not write such a command to its log.
    ///
    /// # Errors
    /// As [`Cell::apply`].
    pub fn check(&self, command: &Command) -> Result<(), Rejection> {
        match command {
            Command::SubmitJob(spec) | Command::UpdateJob { spec, .. } => {
                job(spec, GroupCounts::AsSubmitted, self.kinds()).map(drop)
            }
            Command::RegisterMachine(described) => machine(described, self.kinds()),
            Command::UpdateMachine { machine: described, .. } => machine(described, self.kinds()),
            _ => Ok(()),
        }
    }
}

fn labels(what: &str, labels: &Labels) -> Result<(), Rejection> {
    at_most(&format!("labels of {what}"), labels.len(), LABELS_MAX)?;
    if !labels.is_sorted() {
        return Err(Rejection::BadJob(format!("the labels of {what} are not sorted").into()));
    }
    texts::labels(labels)
}

fn amounts(what: &Text, amounts: &Amounts, kinds: &Kinds) -> Result<(), Rejection> {
    match amounts.first_invalid(kinds) {
        Some(kind) => Err(Rejection::BadAmount { what: what.clone(), kind }),
        None => Ok(()),
    }
}

/// Checks a quota. It may exceed the amounts of one machine, so only its kinds and sums are bounded.
pub fn quota(tenant: &Text, limit: &Amounts, kinds: &Kinds) -> Result<(), Rejection> {
    let bad = |(kind, amount): (omega_core::KindId, u64)| {
        (kind.index() >= kinds.count() || amount > QUOTA_MAX).then_some(kind)
    };
    match limit.iter().find_map(bad) {
        Some(kind) => Err(Rejection::BadAmount { what: tenant.clone(), kind }),
        None => Ok(()),
    }
}

/// Checks a command that sets or removes a limit of a tenant.
pub fn tenant_limit(
    tenant: &Text,
    limit: Option<&Amounts>,
    kinds: &Kinds,
) -> Result<(), Rejection> {
    texts::name("tenant", tenant)?;
    limit.map_or(Ok(()), |limit| quota(tenant, limit, kinds))
}

/// Checks that the cell has this kind, for a command that names a kind without an amount.
pub fn known_kind(kind: KindId, kinds: &Kinds) -> Result<(), Rejection> {
    match kinds.get(kind) {
        Some(_) => Ok(()),
        None => Err(Rejection::BadAmount { what: "the cell".into(), kind }),
    }
}

/// Checks the capacity of cluster resources, with the bounds of a quota.
pub fn cluster_capacity(capacity: &Amounts, kinds: &Kinds) -> Result<(), Rejection> {
    quota(&"the cell".into(), capacity, kinds)
}

/// Checks a tenant's configuration, except its place in the tree.
pub fn tenant_config(
    tenant: &Text,
    tenant_config: &TenantConfig,
    kinds: &Kinds,
) -> Result<(), Rejection> {
    texts::name("tenant", tenant)?;
    tenant_config.parent.iter().try_for_each(|parent| texts::name("tenant", parent))?;
    quota(tenant, &tenant_config.guaranteed, kinds)?;
    if !(1..=TENANT_WEIGHT_MAX).contains(&tenant_config.weight) {
        let what = format!(
            "{tenant:?} has weight {}: must be from 1 to {TENANT_WEIGHT_MAX}",
            tenant_config.weight
        );
        return Err(Rejection::BadTenant(what.into()));
    }
    if tenant_config.tasks_per_machine_max == Some(0) {
        let what = format!(
            "{tenant:?}: tasks_per_machine_max must be at least 1: leave it out for any number of \
             tasks"
        );
        return Err(Rejection::BadTenant(what.into()));
    }
    Ok(())
}

/// Checks the policy of the cell.
pub fn policy(policy: &Policy) -> Result<(), Rejection> {
    let bad = |why: String| Err(Rejection::BadPolicy(why.into()));
    at_most("bands", policy.bands.len(), BANDS_MAX)?;
    if let Some(band) = policy.bands.iter().find(|band| band.from > band.to) {
        return bad(format!(
            "the band from {} to {} is empty: its end must not be below its \
             start",
            band.from.0, band.to.0
        ));
    }
    if let Some(pair) = policy.bands.windows(2).find(|pair| pair[0].to >= pair[1].from) {
        let (one, next) = (pair[0].to.0, pair[1].from.0);
        return bad(format!(
            "bands must ascend without overlap, but one ends at {one} and the next begins at {next}"
        ));
    }
    match policy.eviction_cap {
        Some(cap) if cap.count == 0 || cap.count > EVICTION_CAP_MAX => bad(format!(
            "a limit of {} evictions is not allowed: must be 1 to \
                 {EVICTION_CAP_MAX}",
            cap.count
        )),
        Some(cap) if cap.per_ms == 0 || cap.per_ms > EVICTION_SPAN_MS_MAX => bad(format!(
            "a limit of evictions per {} ms is not allowed: this time must be 1 to \
             {EVICTION_SPAN_MS_MAX} ms",
            cap.per_ms
        )),
        _ => Ok(()),
    }
}

/// Checks a reservation.
pub fn reservation(reservation: &Reservation, now_ms: u64) -> Result<(), Rejection> {
    let Reservation { name: called, machines, tenants, from_ms, until_ms } = reservation;
    texts::name("reservation", called)?;
    tenants.iter().try_for_each(|tenant| texts::name("tenant", tenant))?;
    at_most("tenants of a reservation", tenants.len(), RESERVATION_TENANTS_MAX)?;
    let bad =
        |why: &str| Err(Rejection::BadReservation(format!("reservation {called:?} {why}").into()));
    if !selector("a reservation", machines)? {
        return bad("names no machines: give a label or a name");
    }
    if tenants.is_empty() {
        return bad("has no tenants: give at least one tenant, or drain the machines to reserve \
             them for nobody");
    }
    if from_ms >= until_ms {
        return bad("ends before it begins: its end must be after its start");
    }
    if *until_ms <= now_ms {
        return bad("has already ended: its end must be in the future");
    }
    Ok(())
}

/// Checks the bounds that apply to all reservations together, including a new one.
pub fn all_reservations<'a>(all: impl Iterator<Item = &'a Reservation>) -> Result<(), Rejection> {
    let bytes = all.map(bytes_at_most).sum();
    at_most("bytes of all reservations", bytes, RESERVATIONS_BYTES_MAX)
}

/// Checks the bounds that apply to all calendars of peak hours together, including a new one.
pub fn all_peaks<'a>(all: impl Iterator<Item = &'a PeakCalendar>) -> Result<(), Rejection> {
    let bytes = all.map(bytes_at_most).sum();
    at_most("bytes of all peak calendars", bytes, PEAKS_BYTES_MAX)
}

/// Checks a selector. Returns whether it has a requirement. A selector without requirements selects no machine.
fn selector(of: &str, machines: &MachineSelector) -> Result<bool, Rejection> {
    let requirements = [&machines.labels, &machines.names];
    for list in requirements {
        at_most(&format!("requirements of {of}"), list.len(), RULES_PER_GROUP_MAX)?;
        let values = list.iter().map(|requirement| requirement.values.len()).sum();
        at_most(&format!("values in the requirements of {of}"), values, RESERVED_VALUES_MAX)?;
    }
    texts::selector(machines)?;
    Ok(requirements.iter().any(|list| !list.is_empty()))
}

/// Checks a calendar of peak hours.
pub fn peaks(calendar: &PeakCalendar, kinds: &Kinds) -> Result<(), Rejection> {
    let PeakCalendar { name: called, machines, peaks } = calendar;
    texts::name("peak calendar", called)?;
    at_most("peaks of a calendar", peaks.len(), PEAKS_MAX)?;
    let bad =
        |why: &str| Err(Rejection::BadPeaks(format!("peak calendar {called:?} {why}").into()));
    if !selector("a peak calendar", machines)? {
        return bad("names no machines: give a label or a name");
    }
    if peaks.is_empty() {
        return bad("has no peaks: give it at least one, or remove the calendar");
    }
    for Peak { from_ms, until_ms, batch_max } in peaks {
        if *from_ms >= DAY_MS || *until_ms > DAY_MS {
            return bad("has a peak beyond the end of the day: its times must be from 0 h to 24 h");
        }
        if from_ms == until_ms {
            return bad(
                "has a peak that ends when it begins: give two different times, or 0 h to 24 h for \
                 the whole day",
            );
        }
        if batch_max.is_empty() {
            return bad(
                "has a peak without limits: limit the share of batch tasks for at least one kind",
            );
        }
        if !batch_max.windows(2).all(|pair| pair[0].kind < pair[1].kind) {
            return bad(
                "has a peak whose shares repeat a kind or are out of order: give at most one share \
                 per kind, sorted by kind",
            );
        }
        if let Some(share) = batch_max.iter().find(|share| kinds.get(share.kind).is_none()) {
            return Err(Rejection::BadAmount { what: called.clone(), kind: share.kind });
        }
        if batch_max.iter().any(|share| share.percent > 100) {
            return bad("has a share above 100 percent: a share must be 0 to 100 percent");
        }
    }
    Ok(())
}

/// Checks a load report.
pub fn load(name: &Text, load: &Amounts, kinds: &Kinds) -> Result<(), Rejection> {
    amounts(name, load, kinds)
}

pub fn machine(machine: &Machine, kinds: &Kinds) -> Result<(), Rejection> {
    texts::name("machine", &machine.name)?;
    at_most("bytes of a machine", bytes_at_most(machine), MACHINE_BYTES_MAX)?;
    amounts(&machine.name, &machine.capacity, kinds)?;
    labels(&machine.name, &machine.labels)?;
    at_most("taints", machine.taints.len(), LABELS_MAX)?;
    at_most("images", machine.images.len(), 16 * LABELS_MAX)?;
    texts::machine(machine)?;
    at_most("devices", usize::from(machine.devices), usize::from(DEVICES_MAX))?;
    numa(machine, kinds)?;
    ports(machine)?;
    for (kind, percent) in machine.overcommit.iter() {
        if kind.index() >= kinds.count() {
            return Err(Rejection::BadAmount { what: machine.name.clone(), kind });
        }
        at_most("percent of overcommit", percent as usize, OVERCOMMIT_PERCENT_MAX as usize)?;
    }
    Ok(())
}

/// Checks the range from which the cell chooses ports.
fn ports(machine: &Machine) -> Result<(), Rejection> {
    let Machine { name, ports, .. } = machine;
    if ports.is_valid() {
        return Ok(());
    }
    let why = format!(
        "machine {name:?} has the range of ports {ports}: give the first and the last, from 1 to \
         65535, such as 20000-31999, or none"
    );
    Err(Rejection::BadMachine(why.into()))
}

/// Checks the cores of a machine's NUMA nodes. Their sum must not exceed the machine's `cpu`.
fn numa(machine: &Machine, kinds: &Kinds) -> Result<(), Rejection> {
    let Machine { name, numa, .. } = machine;
    if numa.is_empty() {
        return Ok(());
    }
    for cores in numa.as_slice() {
        at_most("cores of a NUMA node", usize::from(*cores), usize::from(CORES_PER_NODE_MAX))?;
    }
    let bad = |why: String| Err(Rejection::BadMachine(format!("machine {name:?} {why}").into()));
    let Some(cpu) = kinds.cpu() else {
        return bad("has NUMA nodes, but the cell has no kind `cpu` in thousandths of a core: \
             leave them out"
            .into());
    };
    let has = machine.capacity.get(cpu);
    if has < numa.cpu_milli() {
        let cores = numa.total();
        let has = kinds.display(cpu, has);
        return bad(format!(
            "has {cores} cores in its NUMA nodes, but only {has} cpu in total: \
             raise cpu, or name fewer cores"
        ));
    }
    Ok(())
}

/// Whether the groups of a job have the counts that it was submitted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCounts {
    AsSubmitted,
    Resized,
}

/// Whether a job may have this many tasks.
pub fn tasks_in_bounds(count: usize) -> bool {
    count <= TASKS_PER_JOB_MAX as usize
}

/// Checks a job, and returns its number of bytes as counted by [`bytes_at_most`].
pub fn job(job: &Job, counts: GroupCounts, kinds: &Kinds) -> Result<u32, Rejection> {
    texts::name("job", &job.name)?;
    texts::name("tenant", &job.tenant)?;
    texts::name("scheduler", &job.scheduler)?;
    let bad = |why: String| Err(Rejection::BadJob(why.into()));
    if job.groups.is_empty() {
        return bad(format!("job {:?} has no task group: give at least one", job.name));
    }
    let submitted = counts == GroupCounts::AsSubmitted;
    let versions = if submitted { 1 } else { VERSIONS_TOGETHER };
    at_most("task groups", job.groups.len(), versions * GROUPS_PER_JOB_MAX)?;
    if job.task_count() == 0 && submitted {
        return bad(format!("job {:?} has no task: give a group a count above 0", job.name));
    }
    if job.task_count() > u64::from(TASKS_PER_JOB_MAX) {
        return Err(Rejection::TooMany {
            what: "tasks of a job".into(),
            given: job.task_count(),
            max: u64::from(TASKS_PER_JOB_MAX),
        });
    }
    let bytes = bytes_at_most(job);
    at_most("bytes of a job", bytes, JOB_BYTES_MAX)?;
    if submitted {
        check_selectors(job)?;
    }
    if let Some(rules) = &job.update {
        update_rules(job, rules)?;
    }
    for (i, group) in job.groups.iter().enumerate() {
        let is_twice = |earlier: &SharedGroup| {
            (&earlier.name, earlier.version) == (&group.name, group.version)
        };
        if job.groups[..i].iter().any(is_twice) {
            return bad(format!(
                "job {:?} has two groups {:?}: give each group its own name",
                job.name, group.name
            ));
        }
        if group.version > 0 && submitted {
            return bad(format!(
                "group {:?} has a version: leave it out, because the cell sets \
                 it",
                group.name
            ));
        }
        task_group(job, group, kinds)?;
    }
    gang(job, counts)?;
    check_counters(job, versions)?;
    Ok(bytes as u32)
}

fn gang(job: &Job, counts: GroupCounts) -> Result<(), Rejection> {
    let bad = |why: String| Err(Rejection::BadJob(format!("job {:?} {why}", job.name).into()));
    let submitted = counts == GroupCounts::AsSubmitted;
    match (job.gang_min, job.gang_timeout_ms) {
        (None, Some(_)) => bad("has a gang timeout but no minimum: give gang_min, or leave out \
             the timeout"
            .to_owned()),
        (_, Some(timeout)) if !(1..=GANG_TIMEOUT_MS_MAX).contains(&timeout) => {
            bad(format!("has a gang timeout of {timeout} ms: must be 1 to {GANG_TIMEOUT_MS_MAX}"))
        }
        (Some(min), _) if u64::from(min) > job.task_count() && submitted => bad(format!(
            "is a gang of at least {min} tasks but has fewer: lower gang_min, or add tasks"
        )),
        _ => Ok(()),
    }
}

fn update_rules(job: &Job, rules: &UpdateRules) -> Result<(), Rejection> {
    let bad = |why: &str| Err(Rejection::BadJob(format!("job {:?} {why}", job.name).into()));
    if job.kind == JobKind::Batch {
        return bad("is a batch job, which is never updated: leave out `update`");
    }
    if rules.max_unavailable == 0 && rules.max_surge == 0 {
        return bad(
            "allows neither missing nor additional tasks during an update: give max_unavailable \
             or max_surge a value above 0",
        );
    }
    let healthy = rules.min_healthy_ms as usize;
    at_most("milliseconds until a task is healthy", healthy, HEALTH_MS_MAX as usize)
}

/// Checks a group that runs one task on each machine. The group must have a rule that keeps its tasks on different
/// machines.
fn per_machine(job: &Job, group: &TaskGroup) -> Result<(), Rejection> {
    let bad = |why: &str| Err(Rejection::BadJob(format!("group {:?} {why}", group.name).into()));
    let from = TaskSelector::SameGroup;
    let apart = TaskRule::AntiAffinity { from, level: TopologyLevel::Machine };
    if !group.per_machine {
        return Ok(());
    }
    if job.kind == JobKind::Batch || job.gang_min.is_some() {
        return bad(
            "is per_machine, but its job is a batch job or a gang: make the job a service \
                 without gang_min",
        );
    }
    if !group.rules.tasks.contains(&apart) {
        return bad("is per_machine, so it must have anti_affinity to its own tasks at the level \
             `machine`: add this rule");
    }
    Ok(())
}

fn task_rule(group: &TaskGroup, rule: &TaskRule) -> Result<(), Rejection> {
    let bad = |why: &str| Err(Rejection::BadJob(format!("group {:?} {why}", group.name).into()));
    match rule {
        TaskRule::Affinity(terms) if terms.is_empty() => {
            bad("has an affinity without terms: give \
             at least one, or leave the rule out")
        }
        TaskRule::Affinity(terms) => at_most("terms", terms.len(), RULES_PER_GROUP_MAX),
        TaskRule::Prefer { weight, .. } if weight.unsigned_abs() > WEIGHT_MAX => {
            bad(&format!("has a preference of weight {weight}: must be from -100 to 100"))
        }
        TaskRule::MaxColocated { count: 0, .. } => {
            bad("has max_colocated 0: must be at least 1; use anti_affinity to allow no other task")
        }
        TaskRule::RuntimeAffinity(near) if near.tasks == TaskSelector::SameGroup => bad(
            "has runtime_affinity to its own tasks, so its first task could never be placed: use the \
             rule affinity instead",
        ),
        _ => Ok(()),
    }
}

/// Checks demand profiles. Each kind occurs at most once, and the request equals the highest point of its profile.
fn demand_profiles(group: &TaskGroup, kinds: &Kinds) -> Result<(), Rejection> {
    let bad = |why: String| Err(Rejection::BadJob(format!("group {:?} {why}", group.name).into()));
    if !group.demand_profiles.is_sorted_by_key(|demand_profile| demand_profile.kind)
        || group.demand_profiles.windows(2).any(|pair| pair[0].kind == pair[1].kind)
    {
        return bad("has invalid demand profiles: there must be one per kind, in ascending order \
             of kind"
            .to_owned());
    }
    for demand_profile in &group.demand_profiles {
        let kind = kinds
            .get(demand_profile.kind)
            .map_or("a kind that is not registered", |kind| &kind.name);
        let points = demand_profile.points.len();
        if !demand_profile.divides_the_day() {
            return bad(format!(
                "has a demand profile of {kind} with {points} points: the number must be a \
                 divisor of {DEMAND_POINTS_MAX}"
            ));
        }
        let (peak, request) = (demand_profile.peak(), group.request.get(demand_profile.kind));
        if peak == 0 || peak != request {
            return bad(format!(
                "requests {request} of {kind}, but the highest point of its demand profile is \
                 {peak}: both must be equal and above 0"
            ));
        }
    }
    Ok(())
}

fn task_group(job: &Job, group: &TaskGroup, kinds: &Kinds) -> Result<(), Rejection> {
    texts::name("group", &group.name)?;
    amounts(&job.name, &group.request, kinds)?;
    amounts(&job.name, &group.cluster_request, kinds)?;
    labels(&group.name, &group.labels)?;
    let rules = &group.rules;
    at_most("rules of a group", rule_count(&rules.tasks), RULES_PER_GROUP_MAX)?;
    at_most("ports of a group", rules.ports.len(), RULES_PER_GROUP_MAX)?;
    at_most("ports of a group", group.any_ports.len(), RULES_PER_GROUP_MAX)?;
    at_most("tolerations of a group", rules.tolerations.len(), RULES_PER_GROUP_MAX)?;
    at_most("images of a group", group.images.len(), RULES_PER_GROUP_MAX)?;
    at_most("volumes of a group", group.volumes.len(), RULES_PER_GROUP_MAX)?;
    group.images.iter().try_for_each(|image| texts::name("image", image))?;
    group.volumes.iter().try_for_each(|volume| texts::name("volume", volume))?;
    texts::rules(rules)?;
    rules.tasks.iter().try_for_each(|rule| task_rule(group, rule))?;
    let required = rules.affinity.required.as_ref().map_or(0, Vec::len);
    at_most("required selectors", required, RULES_PER_GROUP_MAX)?;
    at_most("preferred selectors", rules.affinity.preferred.len(), RULES_PER_GROUP_MAX)?;
    at_most("milliseconds of grace", group.grace_ms as usize, GRACE_MS_MAX as usize)?;
    per_machine(job, group)?;
    programs::program(group)?;
    demand_profiles(group, kinds)?;
    if let Some(devices) = group.devices {
        devices_of(group, devices)?;
    }
    if let Some(cores) = group.cores {
        cores_of(group, cores, kinds)?;
    }
    if let Some(with) = optional(job, group)? {
        amounts(&job.name, &with.request, kinds)?;
    }
    Ok(())
}

/// Checks optional resources. Returns the group with its optional resources added to the request, if it has any.
fn optional(job: &Job, group: &TaskGroup) -> Result<Option<TaskGroup>, Rejection> {
    let Some(optional) = &group.optional else { return Ok(None) };
    let bad = |why| Err(Rejection::BadJob(format!("group {:?} {why}", group.name).into()));
    if optional.amounts.is_zero() && optional.devices.is_none() {
        return bad("has empty optional resources: leave them out");
    }
    if optional.devices.is_some() && group.devices.is_some() {
        return bad("has both requested and optional devices: leave out one of them");
    }
    if !group.demand_profiles.is_empty() {
        return bad("has both demand profiles and optional resources: leave out one of them");
    }
    if let Some(devices) = optional.devices {
        devices_of(group, devices)?;
    }
    let kind = optional.amounts.iter().next().map_or(KindId::CPU, |(kind, _)| kind);
    let too_much = || Rejection::BadAmount { what: job.name.clone(), kind };
    group.with_optional().ok_or_else(too_much).map(Some)
}

fn devices_of(group: &TaskGroup, devices: DeviceRequest) -> Result<(), Rejection> {
    at_most("devices of a task", usize::from(devices.count), usize::from(DEVICES_MAX))?;
    at_most("share of a device", usize::from(devices.milli_each), DEVICE_MILLI as usize)?;
    if devices.count == 0 || devices.milli_each == 0 {
        let why = format!(
            "group {:?} requests devices with a count or share of 0: both must be \
             at least 1, or leave devices out",
            group.name
        );
        return Err(Rejection::BadJob(why.into()));
    }
    Ok(())
}

/// Checks a request for exclusive cores. It must be at least one core, and the requested `cpu` must cover the cores.
fn cores_of(group: &TaskGroup, cores: CoreRequest, kinds: &Kinds) -> Result<(), Rejection> {
    let bad = |why: String| Err(Rejection::BadJob(format!("group {:?} {why}", group.name).into()));
    let count = cores.count;
    if count == 0 {
        return bad("requests 0 exclusive cores: must be at least 1, or leave `cores` out".into());
    }
    if !cores.fit_in(&group.request, kinds) {
        return bad(format!(
            "requests {count} exclusive cores but less `cpu`: `cpu` must be at \
             least {count}"
        ));
    }
    let of_cpu = group
        .demand_profiles
        .iter()
        .find(|demand_profile| Some(demand_profile.kind) == kinds.cpu());
    let least = of_cpu.and_then(|demand_profile| demand_profile.points.iter().min());
    if least.is_some_and(|least| *least < cores.cpu_milli()) {
        return bad(format!(
            "has {count} exclusive cores, but its demand profile of `cpu` is lower: each point \
             must be at least {count}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::JobId;

    /// A server may refuse a command by its check alone only if the cell would refuse it in the same way.
    #[test]
    fn what_the_check_refuses_the_cell_refuses_too() {
        let job = |count| Job::batch("job", TaskGroup::new(count, Amounts::new([100])));
        let nameless = || Machine::new("", Amounts::new([1000]));
        let refused = [
            Command::SubmitJob(job(0)),
            Command::SubmitJob(Job::batch("a\u{7}", TaskGroup::new(1, Amounts::zero()))),
            Command::UpdateJob { job: JobId(0), version: None, spec: job(0) },
            Command::RegisterMachine(nameless()),
            Command::UpdateMachine { id: omega_core::MachineId::first(0), machine: nameless() },
        ];
        let mut cell = Cell::new(Kinds::standard());
        for command in refused {
            let why = cell.check(&command).expect_err("it is not valid");
            assert_eq!(cell.apply(command), Err(why));
        }
        let valid = Command::SubmitJob(job(2));
        assert_eq!(cell.check(&valid), Ok(()));
        assert!(cell.apply(valid).is_ok());
    }
}
