//! Reservations, and jobs with runtime estimates.

use super::{Dice, Generator};
use crate::reference::Reference;
use omega_core::{Command, MachineSelector, Requirement, Reservation, Text};

impl Generator {
    /// Creates a history with occasional reservations.
    #[must_use]
    pub fn with_reservations(mut self, seed: u64) -> Generator {
        self.planner = Some(Dice::new(seed ^ 0xB00C));
        self
    }

    /// Occasionally makes a command about a reservation.
    pub(super) fn plan(&mut self, reference: &Reference) -> Option<Command> {
        let dice = self.planner.as_mut()?;
        match dice.below(24) {
            0..2 => Some(Command::Reserve(reservation(dice, reference))),
            2 => Some(Command::Unreserve { name: name(dice) }),
            3 => Some(Command::Expire { now_ms: later(dice, reference) }),
            _ => None,
        }
    }

    /// Occasionally gives a job a runtime estimate and a deadline.
    pub(super) fn time(&mut self, command: Command) -> Command {
        let (Some(dice), Command::SubmitJob(mut job)) = (self.planner.as_mut(), command.clone())
        else {
            return command;
        };
        job.runtime_estimate_ms = dice.chance(60).then(|| dice.below(30) as u64);
        job.deadline_ms = dice.chance(30).then(|| dice.below(100) as u64);
        if dice.chance(1) {
            job.runtime_estimate_ms = Some(u64::MAX);
        }
        Command::SubmitJob(job)
    }
}

fn name(dice: &mut Dice) -> Text {
    (*dice.pick(&["demo", "night", "repair", ""])).into()
}

/// A time near the present time of the model.
fn later(dice: &mut Dice, reference: &Reference) -> u64 {
    (reference.now_ms() + dice.below(12) as u64).saturating_sub(2)
}

fn reservation(dice: &mut Dice, reference: &Reference) -> Reservation {
    let machines = match dice.below(5) {
        0 => MachineSelector::default(),
        1 => {
            let names = vec![Requirement::equals("", format!("m{}", 1 + dice.below(6)))];
            MachineSelector { labels: Vec::new(), names }
        }
        2 => MachineSelector::label("disk", "ssd"),
        _ => MachineSelector::label("zone", *dice.pick(&["z0", "z1"])),
    };
    let tenants = (0..dice.below(4)).map(|_| *dice.pick(&["red", "blue", "all", "half"]));
    let tenants = tenants.map(Text::from).collect();
    let from_ms = later(dice, reference);
    let until_ms = from_ms + dice.below(25) as u64;
    Reservation { name: name(dice), machines, tenants, from_ms, until_ms }
}
