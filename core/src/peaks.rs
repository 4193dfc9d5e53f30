//! Peak hours: times of day in which batch tasks get less of a machine, so that services get more.
//!
//! A calendar gives machines, times of day, and the share of each of these machines that batch tasks may have at these
//! times.

use crate::amounts::KindId;
use crate::selector::MachineSelector;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// Length of a day, in milliseconds of [`Command::Expire`](crate::Command::Expire). Days begin at multiples of this
/// length. If that command counts time from 1970, days begin at midnight UTC.
pub const DAY_MS: u32 = 86_400_000;

/// A calendar of peak hours on some machines.
///
/// During a peak, the batch tasks of a machine together may have only their share of it. A task of a
/// [batch](crate::JobKind::Batch) job that would exceed the share is neither placed nor grown. Existing allocations
/// stay. If several peaks overlap, all of them apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PeakCalendar {
    /// Name of the calendar, unique in the cell.
    pub name: Text,
    /// Selector of the machines, including machines that are added later.
    pub machines: MachineSelector,
    /// Peaks of each day.
    pub peaks: Vec<Peak>,
}

/// A part of each day, and the largest share of a machine that batch tasks may have in this time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peak {
    /// Start, in milliseconds since the beginning of the day.
    pub from_ms: u32,
    /// End, in milliseconds since the beginning of the day. If it is not after the start, the peak crosses midnight.
    pub until_ms: u32,
    /// Largest share of a machine that all its batch tasks together may have, ascending by kind. Kinds that are not in
    /// the list are not limited.
    pub batch_max: Vec<KindShare>,
}

/// A share of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KindShare {
    /// The resource kind.
    pub kind: KindId,
    /// Percentage of a machine's capacity.
    pub percent: u8,
}

impl KindShare {
    /// The percentage of a capacity, rounded down.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        (u128::from(capacity) * u128::from(self.percent) / 100) as u64
    }
}

impl Peak {
    /// Whether the peak is in effect at a time.
    #[must_use]
    pub fn is_active(&self, now_ms: u64) -> bool {
        self.since(now_ms) < self.length_ms()
    }

    /// The time at which the peak ends; `None` if it is not in effect.
    #[must_use]
    pub fn ends_ms(&self, now_ms: u64) -> Option<u64> {
        let left = self.length_ms().checked_sub(self.since(now_ms)).filter(|left| *left > 0)?;
        Some(now_ms.saturating_add(u64::from(left)))
    }

    /// Whether the peak begins or ends within `within_ms` milliseconds from now.
    #[must_use]
    pub fn changes_within(&self, now_ms: u64, within_ms: u32) -> bool {
        let until = |edge: u32| (edge % DAY_MS + DAY_MS - day_ms(now_ms)) % DAY_MS;
        until(self.from_ms) <= within_ms || until(self.until_ms) <= within_ms
    }

    /// Duration in milliseconds.
    #[must_use]
    pub fn length_ms(&self) -> u32 {
        if self.from_ms < self.until_ms {
            self.until_ms - self.from_ms
        } else {
            DAY_MS - self.from_ms + self.until_ms
        }
    }

    /// Time since the peak last began, in milliseconds.
    fn since(&self, now_ms: u64) -> u32 {
        (day_ms(now_ms) + DAY_MS - self.from_ms) % DAY_MS
    }
}

/// The time of day in milliseconds.
fn day_ms(now_ms: u64) -> u32 {
    (now_ms % u64::from(DAY_MS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u32 = DAY_MS / 24;

    #[test]
    fn a_peak_holds_each_day_and_over_midnight() {
        let peak = |from: u32, until: u32| Peak {
            from_ms: from * HOUR,
            until_ms: until * HOUR,
            batch_max: Vec::new(),
        };
        let cases = [
            // Start, end and present time of day, and expected time until the peak ends, all in hours.
            (8, 20, 7, None),
            (8, 20, 8, Some(12)),
            (8, 20, 19, Some(1)),
            (8, 20, 20, None),
            (22, 6, 21, None),
            (22, 6, 22, Some(8)),
            (22, 6, 0, Some(6)),
            (22, 6, 5, Some(1)),
            (22, 6, 6, None),
            (0, 24, 0, Some(24)),
            (0, 24, 23, Some(1)),
            (12, 0, 23, Some(1)),
            (12, 0, 0, None),
        ];
        for (from, until, now, ends) in cases {
            for day in [0, 1, 20_000] {
                let now_ms = u64::from(DAY_MS) * day + u64::from(now * HOUR);
                let ends = ends.map(|hours: u32| now_ms + u64::from(hours * HOUR));
                assert_eq!(peak(from, until).ends_ms(now_ms), ends, "{from} {until} {now}");
                assert_eq!(peak(from, until).is_active(now_ms), ends.is_some());
            }
        }
        assert!(peak(8, 20).changes_within(u64::from(8 * HOUR - 1), 1));
        assert!(peak(8, 20).changes_within(u64::from(20 * HOUR), 0));
        assert!(peak(8, 24).changes_within(u64::from(DAY_MS - 5), 5));
        assert!(!peak(8, 24).changes_within(u64::from(DAY_MS - 5), 4));
    }

    #[test]
    fn a_share_is_rounded_down() {
        let share = |percent| KindShare { kind: KindId::CPU, percent };
        assert_eq!((share(33).of(1000), share(33).of(10), share(0).of(9)), (330, 3, 0));
        assert_eq!(share(100).of(u64::MAX), u64::MAX);
    }
}
