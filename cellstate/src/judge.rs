//! The one judge: whether a task may have a part of a machine.
//!
//! The master asks it at commit, a view before it proposes, the simulator and the audit likewise.
//! There is no second judge and there are no switches. Where a scheduler and the cell judge by
//! two pieces of code, the scheduler can ask for ever what the cell refuses for ever.
//!
//! What the judge does not see, because it is not a matter of one machine, the commit judges:
//! quotas, what belongs to no machine, gangs, and whether the task may be placed at all.

use crate::cores::CoresLeft;
use crate::demand_profiles::DemandProfileSum;
use crate::devices::Devices;
use crate::policy::{Checks, Context, Placement};
use omega_core::{DeviceSet, KindId, MachineId, NodeCores, Reason, Take};
use serde::{Deserialize, Serialize};

/// Whether a row has a machine, and whether that takes tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MachineStatus {
    /// No machine is in this row.
    #[default]
    Absent,
    /// It takes tasks.
    Schedulable,
    /// It keeps its tasks and takes no new ones.
    Draining,
}

/// One machine, as the judge sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) id: MachineId,
    pub(crate) status: MachineStatus,
    /// What may still be claimed of each kind; below zero on a machine that shrank.
    pub(crate) free: &'a [i64],
    /// What its tasks claim that varies over the day, beside the highest point of which `free` is left.
    pub(crate) demand_profiles: Option<&'a DemandProfileSum>,
    pub(crate) devices: Option<&'a Devices>,
    /// What is left of its cores that tasks may have to themselves.
    pub(crate) cores: Option<&'a CoresLeft>,
}

/// A claim's choices of its part of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) take: Take,
    /// The only devices that will do, unless there are none.
    pub(crate) devices: DeviceSet,
}

/// The rules that a placement is checked by, beside what is free.
pub(crate) struct Rules<'a, C> {
    pub(crate) policies: &'a C,
    pub(crate) context: &'a Context<'a>,
}

/// What a task gets of a machine that others do not share: beside its amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The devices.
    pub devices: DeviceSet,
    /// How many cores of which NUMA node.
    pub cores: NodeCores,
}

/// Judges a claim of one task on one machine, which takes so much, of these devices. The answer is the devices and the
/// cores that the task gets.
///
/// # Errors
/// The first reason, in the order of the table in ARCHITECTURE.md.
pub(crate) fn judge(
    machine: MachineId,
    spot: &Spot<'_>,
    at: &Placement<'_>,
    rules: &Rules<'_, impl Checks>,
    asked: Asked,
) -> Result<Grant, Reason> {
    let (need, facts) = (at.need, rules.context.facts);
    match spot.status {
        MachineStatus::Absent => return Err(Reason::MachineGone),
        _ if spot.id != machine => return Err(Reason::MachineGone),
        MachineStatus::Draining => return Err(Reason::MachineDraining),
        MachineStatus::Schedulable => {}
    }
    let row = machine.row();
    if need.machine.is_some_and(|set| !facts.sets.contains(set, row)) {
        return Err(Reason::OtherMachine);
    }
    if need.affinity.is_some_and(|set| !facts.sets.contains(set, row)) {
        return Err(Reason::AffinityUnmet);
    }
    if !facts.sets.contains(need.tolerated, row) {
        return Err(Reason::Tainted);
    }
    rules.policies.admit(at, rules.context)?;
    let (request, devices) = need.taken(asked.take);
    for (kind, (free, request)) in (0..).map(KindId).zip(spot.free.iter().zip(request)) {
        if !need.fits((kind, *request), *free, spot.demand_profiles) {
            return Err(Reason::NoRoom(kind));
        }
    }
    let devices = match (devices, spot.devices) {
        (None, _) => DeviceSet::default(),
        (Some(_), None) => return Err(Reason::NoDevices),
        (Some(request), Some(devices)) => {
            devices.choose(request, asked.devices).ok_or(Reason::NoDevices)?
        }
    };
    let mut grant = Grant { devices, cores: NodeCores::NONE };
    if let Some(request) = need.cores {
        let chosen = spot.cores.and_then(|left| left.choose(request));
        grant.cores = chosen.ok_or(Reason::NoCores)?;
    }
    if let Some(of_group) = &need.rules {
        facts.rules.judge(of_group, row, &facts.sets)?;
    }
    rules.policies.check(at, rules.context)?;
    Ok(grant)
}

/// Whether so much of every kind is free.
///
/// # Errors
/// The first kind of which there is too little.
#[inline]
pub(crate) fn room(free: &[i64], request: &[i64]) -> Result<(), Reason> {
    for (kind, (free, request)) in free.iter().zip(request).enumerate() {
        // A kind that is not asked for does not count, even where the machine has less than none.
        if request > free && *request > 0 {
            return Err(Reason::NoRoom(KindId(kind as u8)));
        }
    }
    Ok(())
}
