//! Remedies: single changes that would make a machine feasible for a task.
//!
//! If a machine has a single obstacle, removing the obstacle makes the machine feasible. Each remedy gives the number
//! of such machines. If every machine has several obstacles, no single change helps; then the nearest misses show what
//! is missing.

use super::obstacle::{Obstacle, missing_cores};
use crate::framework::plugin::Tasks;
use omega_cellstate::CoresLeft;
use omega_core::{KindId, MachineId};

/// Missing resources of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Id of the machine.
    pub machine: MachineId,
    /// Missing amount of each kind, in the kind's unit.
    pub amounts: Vec<(KindId, u64)>,
    /// Number of further devices with enough free capacity that the task needs.
    pub devices: u32,
    /// Number of missing exclusive cores.
    pub cores: u32,
}

impl Shortage {
    /// Returns the missing resources that a machine's obstacles name.
    pub(super) fn of(machine: MachineId, obstacles: &[Obstacle]) -> Shortage {
        let mut shortage = Shortage { machine, amounts: Vec::new(), devices: 0, cores: 0 };
        for obstacle in obstacles {
            match obstacle {
                Obstacle::Room { kind, missing } => shortage.amounts.push((*kind, *missing)),
                Obstacle::Devices { missing } => shortage.devices = *missing,
                Obstacle::Cores { missing } => shortage.cores = *missing,
                _ => {}
            }
        }
        shortage
    }

    /// Returns the shortage that a machine would have if it were empty. Its overcommit counts as capacity.
    pub(super) fn when_empty(tasks: &Tasks<'_>, row: usize) -> Shortage {
        let mut shortage = Shortage::of(tasks.view.machine_id(row), &[]);
        let Some(machine) = tasks.view.machine(row) else { return shortage };
        for (kind, request) in (0..).map(KindId).zip(&tasks.need.request) {
            let missing = request.unsigned_abs().saturating_sub(machine.claimable(kind));
            if missing > 0 {
                shortage.amounts.push((kind, missing));
            }
        }
        let devices = tasks.need.devices.map_or(0, |request| request.count);
        shortage.devices = u32::from(devices.saturating_sub(machine.devices));
        let cores = tasks.need.cores;
        let all = CoresLeft::all(&machine.numa);
        shortage.cores = cores.map_or(0, |request| missing_cores(Some(&all), request));
        shortage
    }

    /// Returns the shortage as a list of obstacles.
    #[must_use]
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let amounts = self.amounts.iter();
        let room = amounts.map(|(kind, missing)| Obstacle::Room { kind: *kind, missing: *missing });
        let devices = (self.devices > 0).then_some(Obstacle::Devices { missing: self.devices });
        let cores = (self.cores > 0).then_some(Obstacle::Cores { missing: self.cores });
        room.chain(devices).chain(cores).collect()
    }

    /// Whether nothing is missing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.amounts.is_empty() && self.devices == 0 && self.cores == 0
    }

    /// Returns the largest missing amount of any resource, in millionths of the requested amount.
    pub(super) fn share(&self, tasks: &Tasks<'_>) -> u64 {
        let share = |missing: u64, of: u64| {
            let millionths = u128::from(missing) * 1_000_000 / u128::from(of.max(1));
            u64::try_from(millionths).unwrap_or(u64::MAX)
        };
        let request = |kind: KindId| tasks.need.request.get(kind.index()).copied().unwrap_or(0);
        let amounts = self.amounts.iter().map(|(kind, n)| share(*n, request(*kind).unsigned_abs()));
        let asked = tasks.need.devices.map_or(1, |request| u64::from(request.count));
        let cores = tasks.need.cores.map_or(1, |request| u64::from(request.count));
        let pieces = [share(self.devices.into(), asked), share(self.cores.into(), cores)];
        amounts.chain(pieces).max().unwrap_or(0)
    }
}

/// A single change that would make some machines feasible for the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// More free room on a machine that would be large enough if no task ran there.
    Room {
        /// Missing resources of the machine with the smallest shortage.
        shortage: Shortage,
        /// Number of machines that would be large enough if they were empty.
        hold: usize,
    },
    /// A machine with more capacity. No machine that lacks only room would be large enough, even if it were empty.
    LargerMachine {
        /// Shortage that the nearest machine would have if it were empty.
        shortage: Shortage,
    },
    /// Removal of the obstacle that is the only one of some machines. For example, the task tolerates a taint, or no
    /// longer requires a label, or the machines stop draining.
    Lift {
        /// The obstacle, which is never a lack of room.
        obstacle: Obstacle,
        /// Number of machines for which this is the only obstacle.
        machines: usize,
    },
}

impl Remedy {
    /// Name of the remedy in one word, for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Remedy::Room { .. } => "room",
            Remedy::LargerMachine { .. } => "larger_machine",
            Remedy::Lift { .. } => "lift",
        }
    }
}

/// Adds a machine to the count of machines that have only this obstacle.
pub(super) fn count(lifts: &mut Vec<(Obstacle, usize)>, obstacle: &Obstacle) {
    match lifts.iter_mut().find(|(known, _)| known == obstacle) {
        Some((_, machines)) => *machines += 1,
        None => lifts.push((obstacle.clone(), 1)),
    }
}
