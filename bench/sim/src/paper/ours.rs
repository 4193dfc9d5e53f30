//! Data points of the paper's figures, computed with the shipped cell. Job lists and decision times are those of the
//! reference simulator; placement and conflict checks are Omega's.

use super::found::{Found, Group, figures};
use super::setting::Setting;
use crate::compat::{Architecture, JobList};
use crate::engine::{Granularity, JobRecord, Kind, Retries};
use crate::scenario::{ArchitectureKind, Outcome, ScenarioSettings, simulate};
use omega_core::limits::AMOUNT_MAX;
use omega_core::{
    Amounts, ConflictCheck, Job, JobKind, Kinds, Machine, Policy, Precedence, Preemption, TaskGroup,
};
use omega_schedulers::config::Profiles;
use omega_workload::volumes::VolumesAtStart;
use omega_workload::{Arrival, RunTime, Workload};

/// Capacity of every machine: 4 cores in thousandths, and 16 GiB in bytes.
const MACHINE: [u64; 2] = [4000, 16 << 30];

/// Converts job lists to a workload, with amounts in thousandths of a core and in bytes, and times in milliseconds.
pub(super) fn workload(
    machines: u32,
    [prefill, batch, service]: [&JobList; 3],
    name: String,
) -> Workload {
    let of = |list: &JobList, name: &str, kind: JobKind, forever: bool| -> Vec<Arrival> {
        let jobs = list.jobs.iter().zip(&list.tasks).enumerate();
        let arrival = |(number, (job, task)): (usize, (&crate::engine::Job, &_))| {
            let crate::reference::ReferenceJob { request, run_s } = task;
            let request = Amounts::new([
                amount(request.cpu, 1000.0),
                amount(request.memory, (1_u64 << 30) as f64),
            ]);
            Arrival {
                at_ms: (job.submit_s * 1000.0).round() as u64,
                placed: Vec::new(),
                run: if forever {
                    RunTime::Forever
                } else {
                    RunTime::Same((run_s * 1000.0).round() as u64)
                },
                job: Job {
                    name: format!("{name}-{number}").into(),
                    tenant: name.into(),
                    scheduler: name.into(),
                    precedence: Precedence(0),
                    preemption: Preemption::default(),
                    kind,
                    groups: [TaskGroup::new(job.tasks, request).into()].into(),
                    gang_min: None,
                    gang_timeout_ms: None,
                    runtime_estimate_ms: None,
                    deadline_ms: None,
                    update: None,
                },
            }
        };
        jobs.map(arrival).collect()
    };
    let mut arrivals = of(prefill, "prefill", JobKind::Service, true);
    arrivals.extend(of(batch, "batch", JobKind::Batch, false));
    arrivals.extend(of(service, "service", JobKind::Service, false));
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    Workload {
        name,
        kinds: Kinds::standard(),
        policy: Policy::default(),
        machines: (0..machines)
            .map(|number| Machine::new(format!("m{number}"), Amounts::new(MACHINE)))
            .collect(),
        machine_events: Vec::new(),
        arrivals,
        volumes: VolumesAtStart::default(),
        budgets: Vec::new(),
        notes: Vec::new(),
    }
}

/// Converts an amount to whole units, rounded up; rounding errors of floats do not count as a fraction.
fn amount(of: f64, unit: f64) -> u64 {
    ((of * unit - 1e-6).ceil().max(1.0) as u64).min(AMOUNT_MAX)
}

/// Runs one point of an experiment on the shipped cell.
pub(super) fn run(workload: &Workload, setting: &Setting, end_s: f64) -> Found {
    let (architecture, check, granularity) = match setting.architecture {
        Architecture::SharedState(mode) => {
            (ArchitectureKind::SharedState, mode.check, mode.granularity)
        }
        other => {
            let architecture = match other {
                Architecture::TwoLevel => ArchitectureKind::TwoLevel,
                _ => ArchitectureKind::MonoMulti,
            };
            (architecture, ConflictCheck::ResourceFit, Granularity::Incremental)
        }
    };
    let settings = ScenarioSettings {
        architecture,
        batch_schedulers: setting.batch_schedulers,
        service_schedulers: 1,
        batch_decides: setting.batch,
        service_decides: setting.service,
        check,
        granularity,
        pickiness: 0.0,
        near_best: 1,
        parts: 1,
        probes: 1,
        retries: Retries::Limited,
        end_s: Some(end_s),
        seed: 1,
        profiles: Profiles::default(),
    };
    let outcome = simulate(workload, &settings);
    found(
        &outcome.expect("jobs of lists that were read have names and amounts that a cell takes"),
        setting,
    )
}

fn found(outcome: &Outcome, setting: &Setting) -> Found {
    let Outcome { records, submits, .. } = outcome;
    let group = |kind: Kind| -> Group {
        let (batch, service) = match setting.architecture {
            Architecture::Monolithic => (&records.schedulers[..], &records.schedulers[..]),
            _ => records.schedulers.split_at(setting.batch_schedulers as usize),
        };
        let schedulers = match kind {
            Kind::Batch => batch,
            Kind::Service => service,
        };
        let of_kind = |job: &&u32| submits.jobs[**job as usize].kind == kind;
        let jobs = submits.arrivals.iter().filter(of_kind).map(|job| records.jobs[*job as usize]);
        let jobs: Vec<JobRecord> = jobs.collect();
        figures(schedulers, &jobs, records.now_s)
    };
    Found { batch: group(Kind::Batch), service: group(Kind::Service) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;
    use crate::reference::{ReferenceJob, Request};

    #[test]
    fn lists_keep_their_order_and_their_amounts() {
        let list = |submit_s: f64, cpu: f64| JobList {
            jobs: vec![engine::Job { submit_s, tasks: 2, kind: Kind::Batch }],
            tasks: vec![ReferenceJob { request: Request { cpu, memory: 0.5 }, run_s: 1.5 }],
        };
        let lists = [list(0.0, 0.007), list(2.0, 0.3), list(1.0, 1e30)];
        let made = workload(3, [&lists[0], &lists[1], &lists[2]], "lists".to_owned());
        let told: Vec<_> = made
            .arrivals
            .iter()
            .map(|a| (&*a.job.name, a.at_ms, a.job.groups[0].request.clone(), a.run.clone()))
            .collect();
        let half = 1 << 29;
        assert_eq!(
            told,
            [
                ("prefill-0", 0, Amounts::new([7, half]), RunTime::Forever),
                ("service-0", 1000, Amounts::new([AMOUNT_MAX, half]), RunTime::Same(1500)),
                ("batch-0", 2000, Amounts::new([300, half]), RunTime::Same(1500)),
            ]
        );
        assert_eq!(made.machines.len(), 3);
    }
}
