//! Creation of a run's workers: the schedulers that the options name, and the frontends that the workload needs.

use crate::cell::RunCell;
use crate::clients::{self, Fronted};
use crate::clock::RunClock;
use crate::driver::message::Message;
use crate::meter::{AT_ONCE, Meter};
use crate::{Evict, RunError, RunOptions, SCHEDULERS, Workers};
use crossbeam_channel::Sender;
use omega_core::Job;
use omega_schedulers::disruption::DisruptionBudget;
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::{Profile, Scheduler, Settings, Volumes};
use omega_workload::Workload;
use std::sync::Arc;

/// A scheduler and its meter.
pub(crate) type Measured = (Scheduler, Meter);

/// The schedulers of a run.
pub(crate) struct Schedulers {
    pub(crate) measured: Vec<Measured>,
    /// Whether any scheduler has a profile that evicts tasks.
    pub(crate) evict: bool,
}

/// Factory of a run's workers. Meters are numbered: first the meters of schedulers, then those of frontends.
pub(crate) struct WorkerFactory {
    /// Volumes of the workload, for profiles with volume plugins.
    volumes: Volumes,
    /// Whether the workload has volume claims; if it has none, no volumes are read.
    any_claims: bool,
    budgets: Vec<DisruptionBudget>,
    /// The frontends for which the workload has jobs, with those jobs.
    clients: Vec<(&'static str, Vec<Job>)>,
    /// Number of schedulers.
    schedulers: usize,
    sender: Sender<Message>,
    /// Number of messages that a busy worker sends at once.
    at_once: usize,
}

/// One of several schedulers with the same name.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    name: &'a str,
    index: u32,
    count: u32,
}

impl WorkerFactory {
    /// Creates the factory for a workload. The workers will send their messages to `sender`.
    pub(crate) fn new(
        workload: &Workload,
        options: &RunOptions,
        sender: Sender<Message>,
    ) -> WorkerFactory {
        WorkerFactory {
            volumes: workload.volumes.list().0,
            any_claims: !workload.volumes.claims.is_empty(),
            budgets: workload.budgets.clone(),
            clients: clients::jobs(&workload.arrivals),
            schedulers: (options.service_schedulers + options.batch_schedulers) as usize,
            sender,
            at_once: match options.workers {
                Workers::Threads => AT_ONCE,
                Workers::LockStep => 1,
            },
        }
    }

    /// The number of all workers.
    pub(crate) fn len(&self) -> usize {
        self.schedulers + self.clients.len()
    }

    /// The volumes of the workload.
    pub(crate) fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Creates and registers the schedulers that the options name. Cell handles are assigned round-robin.
    pub(crate) fn schedulers(
        &self,
        cells: &[RunCell],
        options: &RunOptions,
        clock: &Arc<RunClock>,
    ) -> Result<Schedulers, RunError> {
        let counts = [options.service_schedulers, options.batch_schedulers];
        let mut schedulers = Vec::new();
        let mut evict = false;
        for (name, count) in SCHEDULERS.into_iter().zip(counts) {
            for index in 0..count {
                let cell = &cells[schedulers.len() % cells.len()];
                let one = Numbered { name, index, count };
                let (profile, settings) = self.scheduler(one, cell, options)?;
                evict |= profile.post_filters().next().is_some();
                let meter = self.meter(schedulers.len(), clock);
                let name = settings.name.clone();
                let scheduler = Scheduler::new(cell, profile, settings)
                    .map_err(|why| RunError::Scheduler { name, why })?;
                schedulers.push((scheduler, meter));
            }
        }
        Ok(Schedulers { measured: schedulers, evict })
    }

    /// Creates and registers the frontends that the workload needs. A second call returns no frontend.
    pub(crate) fn fronts(
        &mut self,
        cells: &[RunCell],
        clock: &Arc<RunClock>,
    ) -> Result<Vec<Fronted>, RunError> {
        let clients = std::mem::take(&mut self.clients);
        clients::register(clients, cells, |index| self.meter(self.schedulers + index, clock))
    }

    /// The meter of a worker.
    fn meter(&self, worker: usize, clock: &Arc<RunClock>) -> Meter {
        Meter::new(worker, clock.clone(), self.sender.clone(), self.at_once)
    }

    /// Creates a scheduler with the profile for its name, or with a built-in profile if there is none.
    fn scheduler(
        &self,
        Numbered { name, index, count }: Numbered<'_>,
        cell: &RunCell,
        options: &RunOptions,
    ) -> Result<(Profile, Settings), RunError> {
        let mut settings = Settings::worker(name, index, count).with_seed(options.seed);
        settings.claims_max = options.claims_max;
        settings.hold = options.hold;
        settings.commits_in_flight = cell.commits_in_flight();
        settings.granularity = options.granularity;
        settings.check = options.check;
        let profile = match options.profiles.get(name) {
            Some(spec) => {
                settings = spec.apply(settings);
                let profile = cell.read(|cell| {
                    if self.any_claims {
                        spec.bind_with(cell.kinds(), &self.volumes)
                    } else {
                        spec.bind(cell.kinds())
                    }
                });
                profile
                    .map_err(|why| RunError::Profile { name: name.to_owned(), why: why.into() })?
            }
            None if name == "service" => Profile::service(),
            None => Profile::batch(),
        };
        let profile = match options.evict {
            Evict::AsProfilesSay => profile,
            // A profile that already evicts stays as it is, with its plugin's arguments.
            Evict::Always if profile.post_filters().next().is_some() => profile,
            Evict::Always => profile.with_post_filter(DefaultPreemption::default()),
        };
        let profile = profile.with_budgets(&self.budgets);
        settings.placement.search = options.search.unwrap_or(settings.placement.search);
        Ok((profile, settings))
    }
}
