//! Tasks that the machines could not hold even if they had no other tasks.
//!
//! Freed room does not help such tasks, so their jobs sleep until a machine is added or changed. Without this rule,
//! each end of a task would cause a search for each of them.

use crate::framework::evaluator::Evaluator;
use crate::framework::events::Events;
use crate::framework::plugin::{Reads, Tasks, lanes, tasks};
use crate::placing::refusals::RejectingPlugins;
use omega_cellstate::{Block, CoresLeft, GroupRef, Need, View};
use omega_core::limits::DEVICE_MILLI;
use omega_core::{DeviceRequest, KindId, Machine};

/// Returns the rejection of tasks that empty machines could not hold.
pub(crate) fn rejecting_plugins() -> RejectingPlugins {
    RejectingPlugins::waiting_for(Events::MACHINE_ADDED | Events::MACHINE_CHANGED)
}

/// Number of tasks of a group, up to `wanted`, that the machines would hold without other tasks. An upper bound: rules
/// about other tasks, ports, and filters that depend on more than the machines' descriptions are not considered.
pub(crate) fn held_at_most(
    view: &View,
    evaluator: &Evaluator,
    group: GroupRef,
    wanted: u64,
) -> u64 {
    let tasks = tasks(view, group);
    let mut held = 0;
    for index in 0..view.blocks() {
        let block = view.block(index);
        for lane in lanes(accepted(evaluator, &tasks, block)) {
            if held >= wanted {
                return wanted;
            }
            let more = block.machine(lane).map_or(0, |machine| held_by(machine, tasks.need));
            held = u64::saturating_add(held, more);
        }
    }
    held.min(wanted)
}

/// Machines of a block whose description the filters accept.
fn accepted(evaluator: &Evaluator, tasks: &Tasks<'_>, block: Block<'_>) -> u64 {
    let of_machines = Events::MACHINE_ADDED | Events::MACHINE_CHANGED;
    let by_description = evaluator.filters().filter(|filter| {
        let is_woken_by_others = !filter.wakes_on().without(of_machines).is_empty();
        filter.reads() == Reads::DESCRIPTION && !is_woken_by_others
    });
    by_description
        .filter(|filter| filter.applies(tasks))
        .fold(block.present(), |left, filter| left & filter.filter(tasks, block, left))
}

/// Number of tasks that fit on a machine without other tasks.
fn held_by(machine: &Machine, need: &Need) -> u64 {
    if need.cores.is_some_and(|cores| !CoresLeft::all(&machine.numa).fits(cores)) {
        return 0;
    }
    let requests = (0..).map(KindId).zip(need.least()).filter(|(_, amount)| **amount > 0);
    let by_kind = requests.map(|(kind, amount)| machine.claimable(kind) / amount.unsigned_abs());
    let by_devices = need.devices.map(|devices| held_by_devices(machine, devices));
    by_kind.chain(by_devices).min().unwrap_or(u64::MAX)
}

/// Number of tasks with this request for which the devices of a machine suffice.
fn held_by_devices(machine: &Machine, request: DeviceRequest) -> u64 {
    if request.count > machine.devices {
        return 0;
    }
    let claimed = u64::from(request.count) * u64::from(request.milli_each);
    let there = u64::from(machine.devices) * u64::from(DEVICE_MILLI);
    there.checked_div(claimed).unwrap_or(u64::MAX)
}
