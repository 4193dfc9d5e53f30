//! Random deletions and updates of jobs.

use super::{Dice, Generator};
use crate::reference::Reference;
use omega_core::{Command, JobId};

impl Generator {
    /// Creates a history in which jobs are deleted and updated.
    #[must_use]
    pub fn with_updates(self, seed: u64) -> Generator {
        Generator { updates: Some(Dice::new(seed ^ 0x0DA7E)), ..self }
    }

    pub(super) fn update(&mut self, reference: &Reference) -> Option<Command> {
        let dice = self.updates.as_mut().filter(|_| !reference.jobs().is_empty())?;
        match dice.below(100) {
            0..2 => Some(Command::DeleteJob { job: some_job(dice, reference) }),
            _ => None,
        }
    }
}

/// A job of the cell; occasionally an unknown one.
fn some_job(dice: &mut Dice, reference: &Reference) -> JobId {
    let known: Vec<JobId> = reference.jobs().keys().copied().collect();
    if dice.chance(5) { JobId(1 << 20) } else { *dice.pick(&known) }
}
