//! The monitor of machines' heartbeats: a plain state machine that gets the time as an argument.
//!
//! ```text
//!          ┌────────────── silent ──────────────┐
//!          │                                    ▼
//!        alive ── silent ─▶ tainted ─ silent ─▶ taken: its tasks are reported lost
//!          ▲  (mass loss)     │                 │
//!          └──────────────────┴─────────────────┘
//!                    heartbeats again
//! ```
//!
//! A machine is silent if it has sent no heartbeat for a timeout. A mass loss means that more than a third of the
//! machines, and at least two or all, are silent. During a mass loss, silent machines are only tainted. Otherwise, they
//! are taken. If one of two machines becomes silent, it is taken only after a further interval of heartbeats, because
//! the other one may have failed too, and its heartbeat may not be due yet.
//!
//! A network failure looks like the death of many machines at once. It would be worse to start the tasks of these
//! machines elsewhere than to wait: the remaining machines would be overloaded, and every task would run twice once the
//! network is back. So machines are tainted at a bounded rate, and during a mass loss, no task is reported lost.
//!
//! Invariant: `silent` is the number of monitored machines without a heartbeat for a timeout, as of the last step.

use omega_core::MachineId;
use std::time::Duration;

/// The operator's settings of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorSettings {
    /// Time without a heartbeat after which a machine is unreachable.
    pub timeout: Duration,
    /// Maximum number of machines per second that are tainted or whose tasks are reported lost.
    pub eviction_rate: u32,
}

impl Default for MonitorSettings {
    /// By default, a machine is unreachable after four missed heartbeats. At the default rate, a rack of forty machines
    /// is tainted within four seconds. A network failure of a minute exceeds the timeout by 20 seconds, so it displaces
    /// the tasks of at most 200 machines.
    fn default() -> Self {
        MonitorSettings { timeout: Duration::from_secs(40), eviction_rate: 10 }
    }
}

/// Limit on silent machines: if more than one in this many monitored machines is silent, the monitor assumes a network
/// failure.
const SILENT_PART: usize = 3;

/// Interval of heartbeats.
const HEARTBEAT_MS: u64 = 10_000;

/// Maximum number of machines whose taint is removed in one step. Each removal is one command, and all commands of a
/// step should take less than a second.
const RETURNS_MAX: usize = 500;

/// An action on a machine. If it fails, the caller reports this to the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Add the taint, and leave the tasks.
    Taint(MachineId),
    /// Add the taint if it is missing, and report the tasks lost.
    Take(MachineId),
    /// Remove the taint.
    Return(MachineId),
}

impl Step {
    /// The machine.
    #[must_use]
    pub fn machine(self) -> MachineId {
        let (Step::Taint(id) | Step::Take(id) | Step::Return(id)) = self;
        id
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Alive,
    /// The machine has the taint; its tasks are unchanged.
    Tainted,
    /// The machine has the taint, and its tasks were reported lost.
    Taken,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    incarnation: u32,
    /// Time of the machine's last heartbeat. `None` until the first heartbeat of a machine that was already tainted
    /// before this leader's term.
    heartbeat_ms: Option<u64>,
    condition: Condition,
}

/// The heartbeats of machines, as the leader received them.
#[derive(Clone, Debug)]
pub struct Monitor {
    settings: MonitorSettings,
    /// Monitored machines by row.
    watched: Vec<Option<Watched>>,
    count: usize,
    silent: usize,
    /// Whether every silent machine has been silent for longer than the interval of heartbeats.
    is_long_silent: bool,
    /// Time at which this replica became leader. No machine is tainted until a full timeout later.
    began_ms: u64,
    /// Remaining budget of taints, in thousandths of a machine. `reckoned_ms` is the time at which it was computed.
    allowance_milli: u64,
    reckoned_ms: u64,
}

impl Monitor {
    /// Creates a monitor. Times are milliseconds since any fixed moment, and never decrease.
    #[must_use]
    pub fn new(settings: MonitorSettings, now_ms: u64) -> Monitor {
        Monitor {
            settings,
            watched: Vec::new(),
            count: 0,
            silent: 0,
            is_long_silent: false,
            began_ms: now_ms,
            allowance_milli: 0,
            reckoned_ms: now_ms,
        }
    }

    /// Begins to monitor a machine that has an agent. A machine with a taint from an earlier leader starts as tainted.
    /// For a machine that is already monitored, records whether the taint is present, because an operator may have
    /// removed it.
    pub fn watch(&mut self, id: MachineId, has_taint: bool, now_ms: u64) {
        let row = id.row();
        if self.watched.len() <= row {
            self.watched.resize(row + 1, None);
        }
        let condition = if has_taint { Condition::Tainted } else { Condition::Alive };
        let heartbeat_ms = (!has_taint).then_some(now_ms);
        match &mut self.watched[row] {
            Some(entry) if entry.incarnation == id.incarnation => {
                match (entry.condition, has_taint) {
                    (Condition::Alive, true) | (Condition::Tainted | Condition::Taken, false) => {
                        entry.condition = condition;
                    }
                    _ => {}
                }
            }
            slot => {
                self.count += usize::from(slot.is_none());
                *slot = Some(Watched { incarnation: id.incarnation, heartbeat_ms, condition });
            }
        }
    }

    /// Records a heartbeat of a monitored machine.
    pub fn heartbeat(&mut self, id: MachineId, now_ms: u64) {
        if let Some(entry) = self.watched_mut(id) {
            entry.heartbeat_ms = Some(now_ms);
        }
    }

    /// Records which machine occupies a row, and stops monitoring the row's previous machine.
    pub fn row_is_of(&mut self, slot: u32, incarnation: Option<u32>) {
        let Some(row) = self.watched.get_mut(slot as usize) else { return };
        if row.is_some_and(|entry| Some(entry.incarnation) != incarnation) {
            *row = None;
            self.count -= 1;
        }
    }

    /// Returns the actions that are due. Each counts as done, unless [`Monitor::failed`] is called for it before the
    /// next step.
    pub fn step(&mut self, now_ms: u64) -> Vec<Step> {
        self.earn(now_ms);
        let timeout = self.settings.timeout.as_millis() as u64;
        let is_silent = |entry: &Watched| {
            entry
                .heartbeat_ms
                .is_none_or(|heartbeat_ms| now_ms.saturating_sub(heartbeat_ms) >= timeout)
        };
        self.silent = self.watched.iter().flatten().filter(|entry| is_silent(entry)).count();
        let long_ms = timeout + HEARTBEAT_MS;
        let mut silent = self.watched.iter().flatten().filter(|entry| is_silent(entry));
        self.is_long_silent = silent.all(|entry| {
            entry.heartbeat_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= long_ms)
        });
        let leave_tasks = self.is_mass_loss();
        let may_mark = now_ms.saturating_sub(self.began_ms) >= timeout;
        let mut returns = 0;
        let mut steps = Vec::new();
        for (entry, slot) in self.watched.iter_mut().zip(0..) {
            let Some(entry) = entry else { continue };
            let id = MachineId { slot, incarnation: entry.incarnation };
            let mut pay = || {
                let enough = self.allowance_milli >= 1000;
                self.allowance_milli -= if enough { 1000 } else { 0 };
                enough
            };
            match (entry.condition, is_silent(entry)) {
                (Condition::Alive, true) if leave_tasks && may_mark && pay() => {
                    entry.condition = Condition::Tainted;
                    steps.push(Step::Taint(id));
                }
                (Condition::Alive | Condition::Tainted, true)
                    if !leave_tasks && may_mark && pay() =>
                {
                    entry.condition = Condition::Taken;
                    steps.push(Step::Take(id));
                }
                (Condition::Tainted | Condition::Taken, false) if returns < RETURNS_MAX => {
                    returns += 1;
                    entry.condition = Condition::Alive;
                    steps.push(Step::Return(id));
                }
                _ => {}
            }
        }
        steps
    }

    /// Records that an action failed, so that a later step repeats it.
    pub fn failed(&mut self, step: Step) {
        if let Some(entry) = self.watched_mut(step.machine()) {
            entry.condition = match step {
                Step::Taint(_) => Condition::Alive,
                Step::Take(_) | Step::Return(_) => Condition::Tainted,
            };
        }
    }

    /// Whether too many machines were silent at the last step, so that no tasks are reported lost.
    #[must_use]
    pub fn is_mass_loss(&self) -> bool {
        // A single silent machine among several has probably failed itself.
        let is_single = self.silent == 1 && self.count > 1 && self.is_long_silent;
        self.silent * SILENT_PART > self.count && !is_single
    }

    /// Whether a mass loss is certain enough to be logged. A single silent machine among few has mostly failed alone,
    /// which shows only after a further interval of heartbeats.
    #[must_use]
    pub fn is_evident_mass_loss(&self) -> bool {
        self.is_mass_loss() && (self.silent > 1 || self.silent == self.count)
    }

    /// Number of monitored machines, and number of those that were silent at the last step.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.count, self.silent)
    }

    /// Increases the budget of taints in proportion to the elapsed time, up to the budget of one second.
    fn earn(&mut self, now_ms: u64) {
        let rate = u64::from(self.settings.eviction_rate);
        let passed = now_ms.saturating_sub(self.reckoned_ms);
        let earned = self.allowance_milli.saturating_add(passed.saturating_mul(rate));
        self.allowance_milli = earned.min(rate * 1000);
        self.reckoned_ms = now_ms.max(self.reckoned_ms);
    }

    fn watched_mut(&mut self, id: MachineId) -> Option<&mut Watched> {
        let entry = self.watched.get_mut(id.row())?.as_mut()?;
        (entry.incarnation == id.incarnation).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const TIMEOUT_MS: u64 = 40_000;

    fn id(slot: u32) -> MachineId {
        MachineId { slot, incarnation: 0 }
    }

    fn monitor(machines: u32) -> Monitor {
        let mut monitor = Monitor::new(MonitorSettings::default(), 0);
        (0..machines).for_each(|slot| monitor.watch(id(slot), false, 0));
        monitor
    }

    /// Advances the clock second by second while the machines in `alive` send heartbeats. Returns all actions.
    fn run(monitor: &mut Monitor, seconds: std::ops::Range<u64>, alive: &[u32]) -> Vec<Step> {
        let mut message = Vec::new();
        for second in seconds {
            alive.iter().for_each(|slot| monitor.heartbeat(id(*slot), second * 1000));
            message.extend(monitor.step(second * 1000));
        }
        message
    }

    #[test]
    fn a_silent_machine_is_lost_after_the_timeout_and_returns_with_a_heartbeat() {
        let mut monitor = monitor(4);
        assert_eq!(run(&mut monitor, 0..40, &[0, 1, 2]), []);
        assert_eq!(run(&mut monitor, 40..42, &[0, 1, 2]), [Step::Take(id(3))]);
        assert_eq!(run(&mut monitor, 42..60, &[0, 1, 2]), [], "once");
        assert_eq!(run(&mut monitor, 60..62, &[0, 1, 2, 3]), [Step::Return(id(3))]);
    }

    #[test]
    fn one_of_two_machines_is_no_mass_loss() {
        let mut two = monitor(2);
        assert_eq!(run(&mut two, 0..49, &[0]), [Step::Taint(id(1))]);
        assert!(two.is_mass_loss() && !two.is_evident_mass_loss(), "it is not logged");
        assert_eq!(run(&mut two, 49..52, &[0]), [Step::Take(id(1))]);
        // The last heartbeats of both came at different times.
        let mut all = monitor(2);
        let mut message = run(&mut all, 0..9, &[0]);
        message.extend(run(&mut all, 9..80, &[]));
        assert_eq!(message, [Step::Taint(id(1)), Step::Taint(id(0))]);
        // If there is only one machine, its tasks have no other place.
        assert_eq!(run(&mut monitor(1), 0..80, &[]), [Step::Taint(id(0))]);
    }

    #[test]
    fn a_mass_loss_costs_no_tasks_until_most_are_back() {
        let mut monitor = monitor(100);
        let alive: Vec<u32> = (0..60).collect();
        let message = run(&mut monitor, 0..60, &alive);
        assert_eq!(message.len(), 40);
        assert!(message.iter().all(|step| matches!(step, Step::Taint(_))), "{message:?}");
        assert!(monitor.is_mass_loss());
        // Seven machines send heartbeats again, so only 33 of 100 are silent, which is no mass loss.
        let alive: Vec<u32> = (0..67).collect();
        let message = run(&mut monitor, 60..70, &alive);
        let taken: Vec<u32> = message
            .iter()
            .filter_map(|step| matches!(step, Step::Take(_)).then_some(step.machine().slot))
            .collect();
        assert_eq!(taken, (67..100).collect::<Vec<u32>>());
        assert_eq!(message.len(), 7 + 33);
    }

    #[test]
    fn what_was_marked_before_this_leader_led_is_gone_on_with() {
        let mut monitor = Monitor::new(MonitorSettings::default(), 5000);
        (0..9).for_each(|slot| monitor.watch(id(slot), false, 5000));
        monitor.watch(id(9), true, 5000);
        let others: Vec<u32> = (0..9).collect();
        assert_eq!(run(&mut monitor, 5..45, &others), [], "not before one timeout");
        assert_eq!(run(&mut monitor, 45..46, &others), [Step::Take(id(9))]);
        monitor.failed(Step::Take(id(9)));
        assert_eq!(run(&mut monitor, 46..47, &others), [Step::Take(id(9))], "again");
        assert_eq!(run(&mut monitor, 47..48, &(0..10).collect::<Vec<_>>()), [Step::Return(id(9))]);
    }

    #[test]
    fn a_removed_machine_and_its_successor_are_two() {
        let mut monitor = monitor(3);
        monitor.row_is_of(2, None);
        let next = MachineId { slot: 2, incarnation: 1 };
        monitor.watch(next, false, 1000);
        monitor.heartbeat(id(2), 30_000);
        assert_eq!(monitor.counts().0, 3);
        assert_eq!(run(&mut monitor, 30..41, &[0, 1]), []);
        assert_eq!(run(&mut monitor, 41..42, &[0, 1]), [Step::Take(next)]);
    }

    /// State of a machine, derived from the steps that the monitor returned.
    #[derive(Clone, Copy, Default)]
    struct MachineMarks {
        is_marked: bool,
        is_taken: bool,
    }

    proptest! {
        /// Properties under random heartbeats: a machine with heartbeats is not tainted, taints respect rate and
        /// timeout, no tasks are lost in a mass loss, and each step is possible after the previous one.
        #[test]
        fn marks_are_true_and_bounded(
            machines in 1u32..60,
            rate in 1u32..20,
            heartbeats in prop::collection::vec((0u64..400_000, 0u32..60), 0..600),
            gap_ms in 100u64..3000,
        ) {
            let settings = MonitorSettings { timeout: Duration::from_millis(TIMEOUT_MS), eviction_rate: rate };
            let mut monitor = Monitor::new(settings, 0);
            (0..machines).for_each(|slot| monitor.watch(id(slot), false, 0));
            let mut heartbeats: Vec<(u64, u32)> = heartbeats.into_iter().filter(|(_, m)| *m < machines).collect();
            heartbeats.sort_unstable();
            let mut next = heartbeats.into_iter().peekable();
            let mut last = vec![0u64; machines as usize];
            let mut marks = vec![MachineMarks::default(); machines as usize];
            let mut marked_at = Vec::new();
            for now in (0..500_000).step_by(gap_ms as usize) {
                while let Some((at, slot)) = next.next_if(|(at, _)| *at <= now) {
                    monitor.heartbeat(id(slot), at);
                    last[slot as usize] = at;
                }
                let silent: BTreeSet<usize> =
                    (0..last.len()).filter(|m| now - last[*m] >= TIMEOUT_MS).collect();
                let is_long = silent.iter().all(|m| now - last[*m] >= TIMEOUT_MS + HEARTBEAT_MS);
                let is_single = silent.len() == 1 && last.len() > 1 && is_long;
                let is_mass = silent.len() * 3 > last.len() && !is_single;
                for step in monitor.step(now) {
                    let row = step.machine().row();
                    let entry = &mut marks[row];
                    match step {
                        Step::Return(_) => {
                            prop_assert!(entry.is_marked && !silent.contains(&row));
                            *entry = MachineMarks::default();
                            continue;
                        }
                        Step::Taint(_) => prop_assert!(!entry.is_marked && is_mass),
                        Step::Take(_) => prop_assert!(!entry.is_taken && !is_mass),
                    }
                    prop_assert!(silent.contains(&row) && now >= TIMEOUT_MS);
                    *entry = MachineMarks { is_marked: true, is_taken: matches!(step, Step::Take(_)) };
                    marked_at.push(now);
                }
            }
            // In any time span, the number of taints is at most the budget earned in this span, plus the saved budget
            // of one second.
            for (i, from) in marked_at.iter().enumerate() {
                for (j, to) in marked_at.iter().enumerate().skip(i) {
                    let most = u64::from(rate) * (to - from) / 1000 + u64::from(rate) + 1;
                    prop_assert!((j - i + 1) as u64 <= most);
                }
            }
        }
    }
}
