//! Frameworks, one per tenant. Each fills offers with its tasks, the oldest job first. It declines the rest until the
//! machine has more free resources, or other tasks are pending.

use super::client::{Client, Round};
use crate::cell::RunCell;
use omega_cellstate::{CellHandle, HandleError};
use omega_core::{Amounts, Job, JobId, KindId, MachineId, TaskId, Text};
use omega_schedulers::Nanos;
use omega_schedulers::mesos::{
    Event, Framework, FrameworkId, Frontend, Happened, Launch, NotLaunched, Offer, Refuse, Settings,
};
use std::collections::{BTreeSet, HashSet};

/// Filter duration for a declined machine that gets no more free resources: an hour, which is longer than most runs.
const WHILE: Nanos = 3_600_000_000_000;

/// The frameworks of a run. See the module documentation.
pub(super) struct Offers {
    front: Frontend,
    frameworks: Vec<Thinker>,
}

/// State of a framework between offers.
struct Thinker {
    id: FrameworkId,
    /// Pairs of a job and a machine that the cell rejected for a reason other than lack of resources, such as a rule.
    avoided: HashSet<(JobId, MachineId)>,
    is_suppressed: bool,
    /// The newest job that has had pending tasks of the framework. The next field is the number of the framework's
    /// tasks that were pending after its last answer to offers.
    seen: Option<JobId>,
    waiting: usize,
}

/// Resources of an offer that the tasks chosen for it leave free.
struct Room {
    left: Amounts,
}

impl Offers {
    pub(super) fn new(cell: &RunCell, name: &str, jobs: &[Job]) -> Result<Offers, HandleError> {
        let mut front = Frontend::new(cell, Settings::new(name))?;
        let tenants: BTreeSet<_> = jobs.iter().map(|job| job.tenant.clone()).collect();
        let framework = |tenant: Text| {
            let least = least(jobs.iter().filter(|job| job.tenant == tenant));
            let framework = Framework { least, ..Framework::new(tenant.clone(), tenant) };
            // A frontend has a maximum number of frameworks. If a trace has more tenants, the remaining tenants are not
            // served.
            front.register(framework).ok().map(Thinker::new)
        };
        let frameworks = tenants.into_iter().filter_map(framework).collect();
        Ok(Offers { front, frameworks })
    }
}

impl Client for Offers {
    fn step(&mut self, cell: &dyn CellHandle, now: Nanos) -> Result<Round, HandleError> {
        let events = self.front.step(cell, now)?;
        let mut waiting = 0;
        for thinker in &mut self.frameworks {
            thinker.hear(&events);
            waiting += thinker.answer(&mut self.front, now);
        }
        // As long as there are offers, the framework may accept one.
        let offered = events.iter().any(|event| matches!(event.happened, Happened::Offered(_)));
        let patience = if offered { u32::MAX } else { 2 };
        Ok(Round { version: self.front.version(), waiting, patience })
    }
}

/// For each kind, the smallest amount that any task of these jobs requests.
fn least<'a>(jobs: impl Iterator<Item = &'a Job>) -> Amounts {
    let mut requests = jobs.flat_map(|job| &job.groups).map(|group| &group.request);
    let Some(mut least) = requests.next().cloned() else { return Amounts::zero() };
    for request in requests {
        let known: Vec<(KindId, u64)> = least.iter().collect();
        known.into_iter().for_each(|(kind, most)| least.set(kind, most.min(request.get(kind))));
    }
    least
}

impl Thinker {
    fn new(id: FrameworkId) -> Thinker {
        Thinker { id, avoided: HashSet::new(), is_suppressed: false, seen: None, waiting: 0 }
    }

    fn hear(&mut self, events: &[Event]) {
        for event in events.iter().filter(|event| event.framework == self.id) {
            if let Happened::NotLaunched { task, machine, why: NotLaunched::Refused(reason) } =
                &event.happened
                && !matches!(reason, omega_core::Reason::NoRoom(_))
            {
                self.avoided.insert((task.job, *machine));
            }
        }
    }

    /// Answers the open offers. Returns the number of tasks that are still pending.
    fn answer(&mut self, front: &mut Frontend, now: Nanos) -> usize {
        let mut jobs: Vec<Waiting> = Vec::new();
        for (id, job) in front.jobs_of(self.id) {
            for group in 0..job.groups.len() {
                let tasks: Vec<TaskId> = front.waiting(id, group).collect();
                if !tasks.is_empty() {
                    let request = job.groups[group].request.clone();
                    jobs.push(Waiting { id, request, tasks });
                }
            }
        }
        self.look_again(front, &jobs);
        let offers: Vec<Offer> = front.offers_of(self.id).cloned().collect();
        for offer in offers {
            let launches = self.fill(&offer, &mut jobs);
            let refuse = Refuse::Amounts { until: now.saturating_add(WHILE) };
            let answered = if launches.is_empty() {
                front.decline(self.id, &[offer.id], refuse).is_ok()
            } else {
                front.accept(self.id, &[offer.id], &launches, refuse).is_ok()
            };
            if !answered {
                // The frontend's view rejects one of these launches. On later offers of this machine, the framework
                // launches no task of these launches' jobs.
                self.avoided.extend(launches.iter().map(|one| (one.task.job, one.machine)));
                let _ = front.decline(self.id, &[offer.id], refuse);
            }
        }
        self.waiting = count(&jobs);
        self.waiting
    }

    /// Suppresses offers to frameworks without pending tasks. If a framework has received new tasks since it last
    /// declined an offer, it requests offers again.
    fn look_again(&mut self, front: &mut Frontend, jobs: &[Waiting]) {
        let newest = jobs.iter().map(|job| job.id).max();
        let others = newest > self.seen || count(jobs) > self.waiting;
        self.seen = self.seen.max(newest);
        let nothing = jobs.is_empty();
        if nothing && !self.is_suppressed {
            self.is_suppressed = front.suppress(self.id).is_ok();
        } else if !nothing && (self.is_suppressed || others) {
            self.is_suppressed = front.revive(self.id).is_err();
        }
    }

    /// Chooses the tasks to launch on an offered machine.
    fn fill(&self, offer: &Offer, jobs: &mut [Waiting]) -> Vec<Launch> {
        let mut room = Room { left: offer.amounts.clone() };
        let mut launches = Vec::new();
        for job in jobs {
            if self.avoided.contains(&(job.id, offer.machine)) {
                continue;
            }
            while let Some(task) = job.tasks.last().copied().filter(|_| room.takes(&job.request)) {
                job.tasks.pop();
                launches.push(Launch { task, machine: offer.machine });
            }
        }
        launches
    }
}

/// Pending tasks of one group.
struct Waiting {
    id: JobId,
    request: Amounts,
    tasks: Vec<TaskId>,
}

fn count(jobs: &[Waiting]) -> usize {
    jobs.iter().map(|job| job.tasks.len()).sum()
}

impl Room {
    /// Subtracts a request if it fits. Returns whether it fits.
    fn takes(&mut self, request: &Amounts) -> bool {
        if request.iter().any(|(kind, amount)| self.left.get(kind) < amount) {
            return false;
        }
        let asked: Vec<(KindId, u64)> = request.iter().collect();
        asked.into_iter().for_each(|(kind, amount)| {
            let left = self.left.get(kind) - amount;
            self.left.set(kind, left);
        });
        true
    }
}
