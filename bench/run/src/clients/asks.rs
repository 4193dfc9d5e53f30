//! Applications, one per job. Each requests all its containers at once, near the machines that its job prefers, if any.
//! It requests lost containers again.

use super::client::{Client, Round};
use crate::cell::RunCell;
use omega_cellstate::{CellHandle, HandleError};
use omega_core::{Job, JobId, Operator, TaskGroup, TaskId, Text};
use omega_schedulers::yarn::{Ask, Frontend, Heartbeat, How, Place, Settings};
use omega_schedulers::{Nanos, Profile};
use std::collections::{BTreeSet, VecDeque};

/// Number of rounds for which an application waits for a machine that it requested by name.
const DELAY: u32 = 4;

/// Interval, in rounds, at which an application without pending requests sends a heartbeat.
const SELDOM: u64 = 64;

/// The applications of a run. See the module documentation.
pub(super) struct Asks {
    front: Frontend,
    /// Jobs that have not arrived, in the order of arrival.
    coming: VecDeque<Job>,
    applications: Vec<Application>,
    rounds: u64,
}

struct Application {
    id: JobId,
    groups: Vec<Wanted>,
    /// Content of the application's next heartbeat.
    heartbeat: Heartbeat,
}

/// A group of a job. Tasks are numbered group by group.
struct Wanted {
    name: Text,
    tasks: u32,
    /// Number of containers that the group lacks.
    lacking: u32,
}

impl Application {
    fn lacks(&self) -> u32 {
        self.groups.iter().map(|group| group.lacking).sum()
    }

    /// The group of a task.
    fn group_of(&mut self, task: TaskId) -> Option<&mut Wanted> {
        let mut before = 0;
        self.groups.iter_mut().find(|group| {
            before += group.tasks;
            task.index < before
        })
    }

    /// Requests the missing containers.
    fn ask_again(&mut self) {
        let asks = self.groups.iter().filter(|group| group.lacking > 0);
        let ask = |group: &Wanted| Ask::new(group.name.clone(), Place::Anywhere, group.lacking);
        self.heartbeat = Heartbeat::asking(asks.map(ask));
    }
}

impl Asks {
    pub(super) fn new(cell: &RunCell, name: &str, jobs: Vec<Job>) -> Result<Asks, HandleError> {
        let settings = Settings {
            machine_delay: DELAY,
            rack_delay: DELAY,
            silence_max: None,
            ..Settings::new(name)
        };
        let front = Frontend::new(cell, Profile::batch(), settings)?;
        Ok(Asks { front, coming: jobs.into(), applications: Vec::new(), rounds: 0 })
    }

    /// Registers an application with the frontend for each job that has arrived.
    fn join(&mut self, now: Nanos) {
        while let Some(job) = self.coming.front()
            && let Ok(id) = self.front.join(&job.name, now)
        {
            let groups = job.groups.iter().map(|group| Wanted {
                name: group.name.clone(),
                tasks: group.count,
                lacking: group.count,
            });
            let mut application =
                Application { id, groups: groups.collect(), heartbeat: Heartbeat::default() };
            // Some tasks of the job may already run.
            for (task, _) in self.front.containers_of(id) {
                if let Some(group) = application.group_of(task) {
                    group.lacking -= 1;
                }
            }
            let groups = job.groups.iter().zip(&application.groups);
            let asks = groups.flat_map(|(group, wanted)| asks_of(group, wanted.lacking));
            application.heartbeat = Heartbeat::asking(asks);
            self.applications.push(application);
            self.coming.pop_front();
        }
    }

    /// Sends an application's heartbeat. Returns whether the application continues.
    fn heartbeat(front: &mut Frontend, application: &mut Application, now: Nanos) -> bool {
        let heartbeat = std::mem::take(&mut application.heartbeat);
        let Ok(answer) = front.heartbeat(application.id, heartbeat, now) else { return false };
        for container in answer.allocated {
            if let Some(group) = application.group_of(container.task) {
                group.lacking = group.lacking.saturating_sub(1);
            }
        }
        let displaced = answer.completed.iter().filter(|one| one.how == How::Displaced);
        let displaced: Vec<TaskId> = displaced.map(|one| one.task).collect();
        for task in &displaced {
            if let Some(group) = application.group_of(*task) {
                group.lacking += 1;
            }
        }
        if !displaced.is_empty() {
            application.ask_again();
        }
        !answer.is_over
    }
}

impl Client for Asks {
    fn step(&mut self, cell: &dyn CellHandle, now: Nanos) -> Result<Round, HandleError> {
        self.front.step(cell, now)?;
        self.join(now);
        self.rounds += 1;
        let Asks { front, applications, rounds, .. } = self;
        applications.retain_mut(|application| {
            let speaks = application.lacks() > 0 || rounds.is_multiple_of(SELDOM);
            !speaks || Asks::heartbeat(front, application, now)
        });
        let waiting = applications.iter().map(|one| one.lacks() as usize).sum();
        let patience = 2 * DELAY + 2;
        Ok(Round { version: self.front.version(), waiting, patience })
    }
}

/// The requests for a group: one for any machine, and one for each machine that the group prefers by name. Each is for
/// all containers that the group lacks.
fn asks_of(group: &TaskGroup, lacking: u32) -> Vec<Ask> {
    let ask = |at| Ask::new(group.name.clone(), at, lacking);
    let preferred = group.rules.affinity.preferred.iter().flat_map(|one| &one.machines.names);
    let named = preferred.filter(|one| one.operator == Operator::In).flat_map(|one| &one.values);
    let named: BTreeSet<Place> = named.map(|name| Place::Machine(name.clone())).collect();
    named.into_iter().map(ask).chain([ask(Place::Anywhere)]).collect()
}
