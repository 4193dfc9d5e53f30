//! The placement check: whether a task may have a part of a machine.
//!
//! A commit, a view before it claims, the simulator and the audit all call this one function. A scheduler with a
//! different check could repeat for ever a claim that the cell always rejects.
//!
//! Rules about other tasks and policies are checked here, too. The commit itself checks only whether a task may be
//! placed at all, and what depends on the whole transaction: gangs, evictions and runtime affinity. A view checks quotas
//! once, before its search.

use crate::policy::{Checks, Context, Placement};
use crate::state::cores::CoresLeft;
use crate::state::demand_profiles::DemandProfileSum;
use crate::state::devices::Devices;
use omega_core::{DeviceSet, KindId, MachineId, NodeCores, Reason, Take};
use serde::{Deserialize, Serialize};

/// The status of a row: whether it has a machine, and whether the machine accepts tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MachineStatus {
    /// The row has no machine.
    #[default]
    Absent,
    /// The machine accepts tasks.
    Schedulable,
    /// The machine keeps its tasks and accepts no new ones.
    Draining,
    /// The machine would accept tasks, but has the maximum number
    /// ([`TASKS_PER_MACHINE_MAX`](omega_core::limits::TASKS_PER_MACHINE_MAX)). The cell derives this status from the
    /// machine's tasks, and does not store it.
    Full,
}

/// The state of one machine, as far as the check reads it.
#[derive(Clone, Copy, Debug)]
pub struct MachineInfo<'a> {
    pub id: MachineId,
    pub status: MachineStatus,
    /// Free amount of each kind. Negative if the claims exceed the claimable amount, for example because the machine
    /// shrank.
    pub free: &'a [i64],
    /// The sum of the demand profiles of the machine's tasks. `free` is the amount above its highest point.
    pub demand_profiles: Option<&'a DemandProfileSum>,
    pub devices: Option<&'a Devices>,
    /// Free exclusive cores of the machine.
    pub cores: Option<&'a CoresLeft>,
}

/// The part of a machine that a claim requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimRequest {
    pub take: Take,
    /// If not empty, the claim accepts only these devices. If empty, it accepts any devices.
    pub devices: DeviceSet,
}

/// The policies that a check consults, and the state that they read.
pub struct Rules<'a, C> {
    pub policies: &'a C,
    pub context: &'a Context<'a>,
}

/// The devices and cores of a task's allocation. Unlike amounts, each of them is an individual piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Devices of the task.
    pub devices: DeviceSet,
    /// Exclusive cores of the task, by NUMA node.
    pub cores: NodeCores,
}

/// Checks one task's claim on one machine, and returns the devices and cores that it gets.
///
/// # Errors
/// The first reason against the claim. ARCHITECTURE.md lists the checks in their order.
pub fn check_fit(
    machine: MachineId,
    machine_info: &MachineInfo<'_>,
    at: &Placement<'_>,
    rules: &Rules<'_, impl Checks>,
    requested: ClaimRequest,
) -> Result<Grant, Reason> {
    let (need, machine_index) = (at.need, rules.context.machine_index);
    match machine_info.status {
        MachineStatus::Absent => return Err(Reason::MachineGone),
        _ if machine_info.id != machine => return Err(Reason::MachineGone),
        MachineStatus::Draining => return Err(Reason::MachineDraining),
        MachineStatus::Full => return Err(Reason::MACHINE_FULL),
        MachineStatus::Schedulable => {}
    }
    let row = machine.row();
    if need.machine.is_some_and(|set| !machine_index.sets.contains(set, row)) {
        return Err(Reason::OtherMachine);
    }
    if need.affinity.is_some_and(|set| !machine_index.sets.contains(set, row)) {
        return Err(Reason::AffinityUnmet);
    }
    if !machine_index.sets.contains(need.tolerated, row) {
        return Err(Reason::Tainted);
    }
    rules.policies.admit(at, rules.context)?;
    let (request, devices) = need.taken(requested.take);
    for (kind, (free, request)) in (0..).map(KindId).zip(machine_info.free.iter().zip(request)) {
        if !need.fits(kind, *request, *free, machine_info.demand_profiles) {
            return Err(Reason::NoRoom(kind));
        }
    }
    let devices = match (devices, machine_info.devices) {
        (None, _) => DeviceSet::default(),
        (Some(_), None) => return Err(Reason::NoDevices),
        (Some(request), Some(devices)) => {
            devices.choose(request, requested.devices).ok_or(Reason::NoDevices)?
        }
    };
    let mut grant = Grant { devices, cores: NodeCores::NONE };
    if let Some(request) = need.cores {
        let chosen = machine_info.cores.and_then(|left| left.choose(request));
        grant.cores = chosen.ok_or(Reason::NoCores)?;
    }
    if let Some(of_group) = &need.rules {
        machine_index.rules.check(of_group, row, &machine_index.sets)?;
    }
    rules.policies.check(at, rules.context)?;
    Ok(grant)
}

/// Checks that enough of every kind is free.
///
/// # Errors
/// The first kind of which too little is free.
#[inline]
pub fn check_room(free: &[i64], request: &[i64]) -> Result<(), Reason> {
    for (kind, (free, request)) in free.iter().zip(request).enumerate() {
        // A kind that is not requested always fits, even if its free amount is negative.
        if request > free && *request > 0 {
            return Err(Reason::NoRoom(KindId(kind as u8)));
        }
    }
    Ok(())
}
