//! Peak calendars, and times near the edges of their peaks.

use super::{Dice, Generator};
use crate::reference::Reference;
use omega_core::{
    Command, DAY_MS, KindId, KindShare, MachineSelector, Peak, PeakCalendar, Requirement, Text,
};

impl Generator {
    /// Creates a history in which peak calendars are added, changed and removed.
    #[must_use]
    pub fn with_peaks(self, seed: u64) -> Generator {
        Generator { peaks: Some(Dice::new(seed ^ 0x9EA4)), ..self }
    }

    /// Occasionally makes a command about peaks.
    pub(super) fn peak(&mut self, reference: &Reference) -> Option<Command> {
        let kinds = self.kinds.count();
        let dice = self.peaks.as_mut()?;
        match dice.below(30) {
            0..3 => Some(Command::SetPeaks(calendar(dice, kinds, reference))),
            3 => match (dice.chance(30), reference.peak_calendars().first()) {
                (true, Some(known)) => Some(Command::SetPeaks((*known).clone())),
                _ => Some(Command::RemovePeaks { name: name(dice) }),
            },
            4..7 => Some(Command::Expire { now_ms: reference.now_ms() + dice.below(10) as u64 }),
            7 if dice.chance(5) => {
                Some(Command::Expire { now_ms: reference.now_ms() + u64::from(DAY_MS) - 5 })
            }
            _ => None,
        }
    }
}

fn name(dice: &mut Dice) -> Text {
    (*dice.pick(&["web", "noon", "noon", "night", ""])).into()
}

fn calendar(dice: &mut Dice, kinds: usize, reference: &Reference) -> PeakCalendar {
    let machines = match dice.below(6) {
        0 => MachineSelector::default(),
        1 => {
            let names = vec![Requirement::equals("", format!("m{}", 1 + dice.below(6)))];
            MachineSelector { labels: Vec::new(), names }
        }
        2 => MachineSelector::label("disk", "ssd"),
        _ => MachineSelector::label("zone", *dice.pick(&["z0", "z1"])),
    };
    let none = usize::from(!dice.chance(3));
    let count = none + dice.below(2);
    let peaks = (0..count).map(|_| peak(dice, kinds, reference)).collect();
    PeakCalendar { name: name(dice), machines, peaks }
}

fn peak(dice: &mut Dice, kinds: usize, reference: &Reference) -> Peak {
    // The edge is near the present time, because the history would not reach a random time of day.
    let today = reference.now_ms() % u64::from(DAY_MS);
    let near = (today + dice.below(14) as u64).saturating_sub(4).min(u64::from(DAY_MS)) as u32;
    let long = dice.below(20) as u32;
    let day = DAY_MS + u32::from(dice.chance(2));
    let (from_ms, until_ms) = match dice.below(8) {
        0 => (0, day),
        // The peak lasts over midnight.
        1 => (near.saturating_add(long), near),
        _ => (near, (near + long).min(day)),
    };
    let mut batch_max: Vec<KindShare> = Vec::new();
    for kind in 0..kinds + usize::from(dice.chance(1)) {
        if dice.chance(60) {
            let percent = *dice.pick(&[0, 20, 34, 50, 50, 80, 100]) + u8::from(dice.chance(1));
            batch_max.push(KindShare { kind: KindId(kind as u8), percent });
        }
    }
    if dice.chance(2) {
        batch_max.reverse();
    }
    Peak { from_ms, until_ms, batch_max }
}
