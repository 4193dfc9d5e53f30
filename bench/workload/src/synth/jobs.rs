//! The jobs of the synthetic day, with names, tenants and rules.
//!
//! In the trace, 21 % of the service jobs and 11 % of the batch jobs require that no two of their tasks share a
//! machine. The shares are the same here. The other rules have no counterpart in the trace. Their shares are chosen so
//! that each rule occurs often enough to matter, and no rule distorts results.

use super::dice::Dice;
use super::drafts::Draft;
use super::sizes::{ZONES, zone};
use crate::{Arrival, RunTime};
use omega_core::{
    Amounts, Job, JobKind, MachineSelector, Operator, PlacementRules, Port, Precedence, Preemption,
    Requirement, Spread, TaskGroup, TaskRule, TaskSelector, Text, TopologyLevel, WhenUnsatisfiable,
};

/// Number of tenants of the jobs.
const TENANTS: u64 = 40;

/// Converts drafts to jobs. Texts and labels that many jobs have in common are shared.
pub(super) struct Writer {
    machines: u64,
    dice: Dice,
    tenants: Vec<Text>,
    service: Text,
    batch: Text,
    group: Text,
    rack: Text,
    prefills: u32,
    services: u32,
    batches: u32,
}

impl Writer {
    pub(super) fn new(machines: u64, dice: Dice) -> Writer {
        Writer {
            machines,
            dice,
            tenants: (0..TENANTS).map(|i| format!("tenant-{i}").into()).collect(),
            service: "service".into(),
            batch: "batch".into(),
            group: "main".into(),
            rack: "rack".into(),
            prefills: 0,
            services: 0,
            batches: 0,
        }
    }

    pub(super) fn arrival(&mut self, draft: &Draft) -> Arrival {
        let (name, counter) = match (draft.kind, draft.run_ms) {
            (JobKind::Service, None) => ("prefill", &mut self.prefills),
            (JobKind::Service, Some(_)) => ("service", &mut self.services),
            (JobKind::Batch, _) => ("batch", &mut self.batches),
        };
        let name = format!("{name}-{counter}").into();
        *counter += 1;
        // The lower of two random numbers is used, so a few tenants have most of the jobs, as in the trace.
        let tenant = self.dice.below(TENANTS).min(self.dice.below(TENANTS));
        let mut group = TaskGroup::new(draft.count, Amounts::new(draft.request));
        group.name = self.group.clone();
        let (scheduler, precedence) = match draft.kind {
            JobKind::Service => {
                group.rules = self.service_rules(draft.count);
                (self.service.clone(), self.dice.pick(&[9, 9, 9, 10]))
            }
            JobKind::Batch => {
                group.rules = self.batch_rules(draft.count);
                (self.batch.clone(), self.dice.pick(&[0, 0, 0, 1, 1, 2, 4, 8]))
            }
        };
        Arrival {
            at_ms: draft.at_ms,
            placed: Vec::new(),
            run: draft.run_ms.map_or(RunTime::Forever, RunTime::Same),
            job: Job {
                name,
                tenant: self.tenants[tenant as usize].clone(),
                scheduler,
                precedence: Precedence(precedence),
                preemption: Preemption::default(),
                kind: draft.kind,
                groups: [group.into()].into(),
                gang_min: None,
                gang_timeout_ms: None,
                runtime_estimate_ms: None,
                deadline_ms: None,
                update: None,
            },
        }
    }

    /// Returns rules that a job with this many tasks can satisfy. A rule that needs many machines, such as one task per
    /// machine, is returned only if there are enough.
    fn service_rules(&mut self, count: u32) -> PlacementRules {
        let count = u64::from(count);
        let mut rules = PlacementRules::default();
        if self.dice.percent(21) && count <= self.machines * 31 / 100 {
            rules.tasks.push(apart());
        } else if self.dice.percent(20) && (2..=200).contains(&count) {
            let hard = self.dice.percent(50);
            rules.tasks.push(self.spread(hard));
        }
        let few = count <= self.machines / 20;
        rules.affinity.required = match self.dice.below(100) {
            0..8 => Some(vec![MachineSelector::label("platform", "P2")]),
            8..10 if count <= self.machines / 500 => {
                Some(vec![MachineSelector::label("platform", "P1")])
            }
            10..18 if few => Some(vec![self.two_zones()]),
            _ => None,
        };
        if self.dice.percent(5) && few {
            rules.ports.push(Port::tcp(8000 + self.dice.below(8) as u16));
        }
        rules
    }

    fn batch_rules(&mut self, count: u32) -> PlacementRules {
        let mut rules = PlacementRules::default();
        if self.dice.percent(11) && u64::from(count) <= self.machines / 4 {
            rules.tasks.push(apart());
        }
        if self.dice.percent(5) {
            rules.affinity.required = Some(vec![MachineSelector::label("platform", "P2")]);
        }
        rules
    }

    /// An even spread over racks, required or preferred.
    fn spread(&self, hard: bool) -> TaskRule {
        let level = TopologyLevel::Label(self.rack.clone());
        let when =
            if hard { WhenUnsatisfiable::DoNotSchedule } else { WhenUnsatisfiable::ScheduleAnyway };
        TaskRule::Spread(Spread { when, ..Spread::new(TaskSelector::SameJob, level, 2) })
    }

    /// Selects two neighbouring zones, or the only zone of a very small cell.
    fn two_zones(&mut self) -> MachineSelector {
        let first = self.dice.below(ZONES as u64 - 1) as usize;
        let values = vec![zone(first), zone(first + 1)];
        let labels = vec![Requirement { key: "zone".into(), operator: Operator::In, values }];
        MachineSelector { labels, names: Vec::new() }
    }
}

/// A rule by which no two tasks of the job share a machine.
fn apart() -> TaskRule {
    TaskRule::AntiAffinity { from: TaskSelector::SameJob, level: TopologyLevel::Machine }
}
