//! All obstacles of a machine for a task, not only the first one.
//!
//! The obstacles are in the order of the cell's check and use the same data. A test compares them with the check: a
//! machine has no obstacle if and only if the cell's check and the profile accept the task on this machine.

use crate::framework::plugin::{Filter, Tasks};
use crate::plugins::{missing_of_cell, why_held_back, why_reserved};
use omega_cellstate::{BLOCK, CoresLeft, GroupRef, QuotaLack, RuleFamily};
use omega_core::{CorePlace, CoreRequest, KindId, Reason, Taint, TaintEffect};

/// An obstacle that keeps a task off a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// The whole cell has too little left of a cluster resource, so every machine is excluded.
    Cell {
        /// The resource kind.
        kind: KindId,
        /// Amount that the cell lacks for the task's request, in the kind's unit.
        missing: u64,
    },
    /// A tenant's quota leaves too little for the task, on every machine.
    Quota(QuotaLack),
    /// The machine is draining.
    Draining,
    /// The task names another machine.
    OtherMachine,
    /// The machine does not meet the required affinity.
    Affinity,
    /// Taints that the task does not tolerate, in the machine's order.
    Taints(Vec<Taint>),
    /// The machine is reserved. The text is a clause that gives the tenants and the time.
    Reserved(String),
    /// Batch tasks have used up their share of the machine for this hour. The text is a clause that gives the end of
    /// the peak hours.
    Peak(String),
    /// Too little of a kind is free.
    Room {
        /// The resource kind.
        kind: KindId,
        /// Amount that the machine lacks for the task's request, in the kind's unit.
        missing: u64,
    },
    /// Too few devices have enough free capacity.
    Devices {
        /// Number of missing devices.
        missing: u32,
    },
    /// Too few exclusive cores are free.
    Cores {
        /// Number of missing cores. If the cores must be on one NUMA node, this is the number that the best node lacks.
        missing: u32,
    },
    /// A rule about other tasks rejects the machine. Only the first violated rule of each family of rules is given.
    Rule(Reason),
    /// A filter that the profile adds to the cell's check rejects the machine. These filters are called only for
    /// machines that the cell's check accepts, so this obstacle is always the only one.
    Filter(&'static str),
    /// A filter of the profile rejects the machine and gives a reason.
    Told {
        /// Name of the filter.
        filter: &'static str,
        /// The reason, as a clause.
        why: String,
    },
}

impl Obstacle {
    /// Name of the obstacle in one word, for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Obstacle::Cell { .. } => "cell",
            Obstacle::Quota(_) => "quota",
            Obstacle::Draining => "draining",
            Obstacle::OtherMachine => "other_machine",
            Obstacle::Affinity => "affinity",
            Obstacle::Taints(_) => "taints",
            Obstacle::Reserved(_) => "reserved",
            Obstacle::Peak(_) => "peak",
            Obstacle::Room { .. } => "room",
            Obstacle::Devices { .. } => "devices",
            Obstacle::Cores { .. } => "cores",
            Obstacle::Rule(_) => "rule",
            Obstacle::Filter(_) | Obstacle::Told { .. } => "filter",
        }
    }

    /// Whether the obstacle is a lack of free resources, which the end of other tasks on the machine may remove.
    #[must_use]
    pub fn is_room(&self) -> bool {
        matches!(self, Obstacle::Room { .. } | Obstacle::Devices { .. } | Obstacle::Cores { .. })
    }
}

const FAMILIES: [RuleFamily; 4] =
    [RuleFamily::Ports, RuleFamily::Spread, RuleFamily::Neighbours, RuleFamily::Limits];

/// Returns all obstacles that keep a task off the machine in a row; none if the machine is feasible. The row must have
/// a machine.
#[must_use]
pub fn obstacles(
    tasks: &Tasks<'_>,
    group: GroupRef,
    filters: &[&dyn Filter],
    row: usize,
) -> Vec<Obstacle> {
    let of_cell = missing_of_cell(tasks).map(|(kind, missing)| Obstacle::Cell { kind, missing });
    let mut found: Vec<Obstacle> = of_cell.collect();
    found.extend(tasks.view.quota_lack(group).map(Obstacle::Quota));
    found.extend(of_the_machine(tasks, row));
    found.extend(of_room(tasks, row));
    let rules =
        FAMILIES.into_iter().filter_map(|f| tasks.view.check_rules(tasks.need, f, row).err());
    found.extend(rules.map(Obstacle::Rule));
    let ports = tasks.view.check_any_ports(tasks.need, row).err().map(Obstacle::Rule);
    found.extend(ports.filter(|ports| !found.contains(ports)));
    let has_all = tasks.view.has_all_of_its_tenant(row, tasks.job);
    let has_all = has_all && !tasks.view.is_full(row);
    found.extend(has_all.then_some(Obstacle::Rule(Reason::TasksPerMachine)));
    if found.is_empty() {
        debug_assert!(
            tasks.view.check_fit(row, group).is_ok(),
            "check_fit rejects more than is found"
        );
        let (block, bit) = (tasks.view.block(row / BLOCK), 1 << (row % BLOCK));
        let removes = |filter: &&&dyn Filter| filter.filter(tasks, block, bit) & bit == 0;
        found.extend(filters.iter().find(removes).map(|filter| match filter.why(tasks, row) {
            Some(why) => Obstacle::Told { filter: filter.name(), why },
            None => Obstacle::Filter(filter.name()),
        }));
    }
    found
}

/// Obstacles from properties of the machine.
fn of_the_machine(tasks: &Tasks<'_>, row: usize) -> Vec<Obstacle> {
    let (need, block) = (tasks.need, tasks.view.block(row / BLOCK));
    let is_in = |word: u64| word >> (row % BLOCK) & 1 == 1;
    let mut found = Vec::new();
    if tasks.view.is_full(row) {
        found.push(Obstacle::Rule(Reason::TasksPerMachine));
    } else if !is_in(block.schedulable()) {
        found.push(Obstacle::Draining);
    }
    if need.machine.is_some_and(|set| !is_in(block.set(set))) {
        found.push(Obstacle::OtherMachine);
    }
    if need.affinity.is_some_and(|set| !is_in(block.set(set))) {
        found.push(Obstacle::Affinity);
    }
    if !is_in(block.set(need.tolerated)) {
        let tolerations = &tasks.group.rules.tolerations;
        let keeps_off = |taint: &&Taint| {
            taint.effect != TaintEffect::PreferNoSchedule
                && !tolerations.iter().any(|toleration| toleration.covers(taint))
        };
        let taints = tasks.view.machine(row).map_or(&[][..], |machine| &machine.taints);
        found.push(Obstacle::Taints(taints.iter().filter(keeps_off).cloned().collect()));
    }
    found.extend(why_reserved(tasks, row).map(Obstacle::Reserved));
    found.extend(why_held_back(tasks, row).map(Obstacle::Peak));
    found
}

/// Obstacles from a lack of room.
fn of_room(tasks: &Tasks<'_>, row: usize) -> impl Iterator<Item = Obstacle> {
    let (view, need) = (tasks.view, tasks.need);
    let room = (0..).map(KindId).zip(&need.request).filter_map(move |(kind, request)| {
        if *request == 0 {
            return None;
        }
        let missing = view.taken(row, need, kind).checked_sub(view.free(row, kind))?;
        (missing > 0).then_some(Obstacle::Room { kind, missing: missing.unsigned_abs() })
    });
    let devices = need.devices.and_then(|request| {
        let left = view.devices(row).map_or(&[][..], |devices| devices.left());
        let enough =
            left.iter().filter(|left| i32::from(**left) >= i32::from(request.milli_each)).count();
        let missing = u32::from(request.count).saturating_sub(enough as u32);
        // A request for zero devices still requires a machine with devices.
        let none = view.devices(row).is_none();
        (missing > 0 || none).then_some(Obstacle::Devices { missing: missing.max(1) })
    });
    let cores = need.cores.and_then(|request| {
        let missing = missing_cores(view.cores(row), request);
        (missing > 0).then_some(Obstacle::Cores { missing })
    });
    room.chain(devices).chain(cores)
}

/// Returns the number of cores that a request lacks. If the cores must be on one NUMA node, this is the number that the
/// node with the most free cores lacks.
pub(super) fn missing_cores(left: Option<&CoresLeft>, request: CoreRequest) -> u32 {
    let there = left.map_or(0, |left| match request.place {
        CorePlace::OneNode => left.most().max(0),
        CorePlace::AnyNodes => left.total(),
    });
    u32::from(request.count).saturating_sub(u32::from(there.unsigned_abs()))
}
