//! Conditions of machines that agents report, and the taints with which the cell records them.
//!
//! A machine has the taint [`DISK_FULL`] while its disk is full. The taint changes only when the agent reports a
//! condition that the cell has not recorded, so an operator may remove it until then.

use super::taints::{AT_ONCE, COMMAND_MAX, change};
use crate::host::Host;
use futures_util::StreamExt;
use omega_cellstate::Cell;
use omega_client::ApiError;
use omega_client::agent::{Condition, DISK_FULL};
use omega_core::{Command, MachineId, Taint, TaintEffect};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Pause before failed commands are repeated.
const PAUSE: Duration = Duration::from_millis(500);

/// The reported conditions that the cell may not have recorded. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    /// The newest report of each machine.
    due: BTreeMap<MachineId, Due>,
    /// Dropped when the cell has recorded the conditions.
    waiting: Vec<oneshot::Sender<()>>,
    /// Commands in progress. They return the reports that they could not record.
    carried: Option<JoinHandle<Vec<Due>>>,
    /// Time of the next commands, after some have failed.
    not_before: Option<Instant>,
}

/// A report of a machine's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) id: MachineId,
    condition: Condition,
    /// Whether the outcome of an earlier command is unknown. The cell may apply that command later, so the next command
    /// is needed even if the cell has recorded the condition.
    is_uncertain: bool,
}

impl Conditions {
    /// Notes the reported condition of a machine, in place of an earlier one.
    pub(super) fn report(&mut self, id: MachineId, condition: Condition) {
        let is_uncertain = self.due.get(&id).is_some_and(|due| due.is_uncertain);
        self.due.insert(id, Due { id, condition, is_uncertain });
    }

    /// Drops `done` when the cell has recorded the conditions, or after a failure.
    pub(super) fn wait(&mut self, done: oneshot::Sender<()>) {
        self.waiting.push(done);
    }

    /// Notes a report that could not be recorded. A later report replaces its condition.
    fn failed(&mut self, failed: Due) {
        let due = self.due.entry(failed.id).or_insert(failed);
        due.is_uncertain |= failed.is_uncertain;
    }

    /// Takes the reports, in the order of their machines.
    pub(super) fn take(&mut self) -> Vec<Due> {
        std::mem::take(&mut self.due).into_values().collect()
    }

    /// Begins to record the reports in the cell, once earlier commands have ended.
    pub(super) async fn step(&mut self, host: &Host) {
        if let Some(carried) = self.carried.take_if(|carried| carried.is_finished()) {
            // The commands do not panic. After a panic, all of them would count as done.
            let failed = carried.await.unwrap_or_default();
            self.not_before = (!failed.is_empty()).then(|| Instant::now() + PAUSE);
            failed.into_iter().for_each(|due| self.failed(due));
        }
        if self.carried.is_some() || self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let (waiting, due) = (std::mem::take(&mut self.waiting), self.take());
        if !due.is_empty() {
            let host = host.clone();
            self.carried = Some(tokio::spawn(async move {
                let failed = record(host, due).await;
                drop(waiting);
                failed
            }));
        }
    }
}

impl Due {
    /// Whether the cell needs a command to record the condition. A machine that has left the cell needs none.
    fn is_needed(&self, cell: &Cell) -> bool {
        let Some(state) = cell.machine(self.id) else { return false };
        let expected = self.condition.is_disk_full.then(taint);
        let recorded = state.machine.taints.iter().filter(|taint| *taint.key == *DISK_FULL);
        self.is_uncertain || !recorded.eq(&expected)
    }

    fn command(&self) -> Command {
        let id = self.id;
        if self.condition.is_disk_full {
            Command::AddTaint { id, taint: taint() }
        } else {
            Command::RemoveTaint { id, key: DISK_FULL.into() }
        }
    }
}

fn taint() -> Taint {
    Taint { key: DISK_FULL.into(), value: "".into(), effect: TaintEffect::NoSchedule }
}

/// Records reports in the cell, and returns those that could not be recorded.
async fn record(host: Host, mut reports: Vec<Due>) -> Vec<Due> {
    // A new leader may not have applied all commands of earlier leaders.
    if let Err(error) = host.refresh(Instant::now() + COMMAND_MAX).await {
        tracing::debug!(%error, "conditions of machines could not be recorded yet");
        return reports;
    }
    host.read(|cell| reports.retain(|due| due.is_needed(cell)));
    let done = futures_util::stream::iter(reports).map(|due| {
        let host = host.clone();
        async move {
            let changed = change(&host, due.command()).await;
            changed.err().map(|error| (Due { is_uncertain: true, ..due }, error))
        }
    });
    let failed: Vec<(Due, ApiError)> =
        done.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    if let Some((due, error)) = failed.first() {
        let machine = due.id.to_string();
        tracing::warn!(machine, %error, count = failed.len(), "conditions of machines could not \
             be recorded yet");
    }
    failed.into_iter().map(|(due, _)| due).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::SharedCell;
    use omega_core::{Amounts, Kinds, Machine, Outcome};

    const FULL: Condition = Condition { is_disk_full: true };
    const USABLE: Condition = Condition { is_disk_full: false };

    /// A cell with a machine that has another taint.
    fn cell_of_one() -> (Cell, MachineId) {
        let mut cell = Cell::new(Kinds::standard());
        let other = Taint { key: "other".into(), ..taint() };
        let machine = Machine { taints: [other].into(), ..Machine::new("m", Amounts::new([1])) };
        let added = cell.apply(Command::RegisterMachine(machine));
        let Ok(Outcome::Machine(id)) = added else { panic!("{added:?}") };
        (cell, id)
    }

    /// Records what is reported, and returns the keys of the machine's taints.
    async fn keys(conditions: &mut Conditions, host: &Host, id: MachineId) -> Vec<String> {
        conditions.step(host).await;
        while conditions.carried.is_some() {
            tokio::task::yield_now().await;
            conditions.step(host).await;
        }
        host.read(|cell| {
            let taints = &cell.machine(id).expect("it is there").machine.taints;
            taints.iter().map(|taint| taint.key.to_string()).collect()
        })
    }

    #[tokio::test]
    async fn a_full_disk_has_a_taint_until_it_is_usable() {
        let (cell, id) = cell_of_one();
        let host = Host::memory(SharedCell::new(cell));
        let mut conditions = Conditions::default();
        for _ in 0..2 {
            for (condition, expected) in [(FULL, &["other", DISK_FULL][..]), (USABLE, &["other"])] {
                conditions.report(id, condition);
                let (done, recorded) = oneshot::channel();
                conditions.wait(done);
                assert_eq!(keys(&mut conditions, &host, id).await, expected);
                assert!(recorded.await.is_err(), "the stream goes on");
                let before = host.read(Cell::version);
                conditions.report(id, condition);
                assert_eq!(keys(&mut conditions, &host, id).await, expected);
                assert_eq!(host.read(Cell::version), before, "the cell has recorded it");
            }
        }
    }

    /// A command with an unknown outcome may be applied after the next report.
    #[test]
    fn a_command_with_an_unknown_outcome_is_followed_by_another() {
        let (cell, id) = cell_of_one();
        let mut conditions = Conditions::default();
        let due = |condition, is_uncertain| Due { id, condition, is_uncertain };
        assert!(due(FULL, false).is_needed(&cell) && !due(USABLE, false).is_needed(&cell));
        let gone = MachineId { incarnation: 7, ..id };
        assert!(!Due { id: gone, ..due(FULL, true) }.is_needed(&cell));
        conditions.failed(due(FULL, true));
        assert_eq!(conditions.take(), [due(FULL, true)], "it is repeated");
        conditions.report(id, USABLE);
        conditions.failed(due(FULL, true));
        assert_eq!(conditions.take(), [due(USABLE, true)], "the later report");
        conditions.failed(due(FULL, true));
        conditions.report(id, USABLE);
        assert_eq!(conditions.take(), [due(USABLE, true)], "the later report");
        assert!(due(USABLE, true).is_needed(&cell));
        conditions.failed(due(FULL, false));
        conditions.report(id, USABLE);
        assert_eq!(conditions.take(), [due(USABLE, false)], "no command was sent");
    }
}
