//! The preempter: proposes victims for pods that fit on no node, as kube-scheduler's `DefaultPreemption` does.
//!
//! The preempter has its own thread, and its own view with placements. So the views of workers need no placements, and
//! workers do not wait for proposals. The preempter makes one proposal at a time, so two proposals never race. The
//! adapter checks each proposal against the cell before any pod is deleted ([`crate::adapter::preempt`]).

use super::input::Input;
use crate::adapter::budgets::Budgets;
use crate::adapter::preempt::Proposal;
use crate::adapter::shared::Starts;
use crate::adapter::{PodName, Shared};
use crate::profiles::KubeProfile;
use omega_cellstate::{BLOCK, CellHandle, GroupRef, View};
use omega_core::{JobId, MachineId, Precedence, TaskId, TaskState, Text};
use omega_schedulers::plugin::tasks;
use omega_schedulers::preemption::{Candidate, Preemptor};
use omega_schedulers::{Profile, plugins::CandidateMachines};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Chooses victims. It runs on the caller's thread, so tests can call it directly.
pub struct Preempter {
    shared: Shared,
    profiles: Vec<KubeProfile>,
    budgets: Budgets,
    views: BTreeMap<Text, Looking>,
    random: Pcg64,
}

/// A search for victims.
#[derive(Clone, Debug)]
pub struct Search {
    /// The pod that fits on no node.
    pub pod: PodName,
    /// Job of the pod.
    pub job: JobId,
    /// Machines without victims, because the binding of a victim there may still arrive.
    pub left_out: BTreeSet<MachineId>,
}

/// A profile with its view.
struct Looking {
    profile: Profile,
    candidates: CandidateMachines,
    view: View,
}

impl Preempter {
    /// Creates the preempter of a cell with these profiles.
    #[must_use]
    pub fn new(shared: Shared, profiles: Vec<KubeProfile>, budgets: Budgets) -> Preempter {
        let random = Pcg64::seed_from_u64(0);
        Preempter { shared, profiles, budgets, views: BTreeMap::new(), random }
    }

    /// Returns the best proposal for a pod. Returns `None` if no victims would help, or if the pod needs none.
    pub fn propose(&mut self, search: Search) -> Option<Proposal> {
        let Search { pod, job, left_out } = search;
        let budgets = self.budgets.now()?;
        let task = TaskId { job, index: 0 };
        let spec = self.shared.cell.read(|cell| {
            let waits = cell.task(task) == Some(TaskState::Pending);
            cell.job(job).filter(|_| waits).cloned()
        })?;
        let mut looking =
            self.views.remove(&spec.scheduler).or_else(|| self.bind_view(&spec.scheduler))?;
        let Looking { profile, candidates, view } = &mut looking;
        let mut found = None;
        if view.sync(&self.shared.cell).is_ok() {
            if view.delta().full {
                profile.prepare(view);
            }
            let group = view.compile(job, &spec, 0);
            let preemptor = Preemptor {
                evaluator: profile.evaluator(),
                group,
                budgets: &budgets,
                expected: &[],
            };
            let enough = |machines| candidates.among(machines);
            let start = self.random.random_range(0..view.rows().max(1));
            if needs_victims(&preemptor, view, spec.precedence) {
                let all = choices(&preemptor, view, &left_out, start, enough);
                let harm = |candidate: &Candidate| harm(candidate, &self.shared.starts);
                found = all.into_iter().min_by_key(harm);
            }
            view.forget_job(job);
        }
        let proposal = found.map(|candidate| Proposal {
            pod,
            job,
            machine: looking.view.machine_id(candidate.row),
            victims: candidate.victims.iter().map(|task| task.id.job).collect(),
            violations: candidate.violations,
        });
        self.views.insert(spec.scheduler.clone(), looking);
        proposal
    }

    /// Returns the profile for a scheduler name, with a new view.
    fn bind_view(&self, scheduler: &Text) -> Option<Looking> {
        let profile = self.profiles.iter().find(|profile| *profile.name == **scheduler)?;
        let candidates = profile.candidates()?;
        let profile = profile.bind_read_only(&self.shared);
        let name = format!("omega-kube/preempter/{scheduler}");
        let (id, number) = self.shared.cell.register(name.into()).ok()?;
        let mut view = View::new(id, number).with_placements();
        profile.prepare(&mut view);
        Some(Looking { profile, candidates, view })
    }
}

/// Whether a task with this precedence may have victims, and does not fit without any.
fn needs_victims(preemptor: &Preemptor<'_>, view: &View, precedence: Precedence) -> bool {
    let bound = view.preemptible_below(precedence);
    view.lowest_precedence().is_some_and(|lowest| lowest < bound)
        && !fits(preemptor, view, preemptor.group)
}

/// Returns the candidates for a task, from row `start` on. `enough` returns the number of candidates that suffice, given
/// the number of possible ones. The machines in `left_out` are no candidates.
fn choices(
    preemptor: &Preemptor<'_>,
    view: &mut View,
    left_out: &BTreeSet<MachineId>,
    start: usize,
    enough: impl Fn(usize) -> usize,
) -> Vec<Candidate> {
    let mut curable = preemptor.curable(view);
    if !left_out.is_empty() {
        for (index, word) in curable.iter_mut().enumerate() {
            let is_out = |lane: &usize| left_out.contains(&view.machine_id(index * BLOCK + lane));
            let lanes = (0..BLOCK).filter(|lane| *word >> lane & 1 == 1);
            let out = lanes.filter(is_out).fold(0, |out, lane| out | 1 << lane);
            *word &= !out;
        }
    }
    let machines = curable.iter().map(|word| word.count_ones() as usize).sum();
    preemptor.candidates_among(view, &curable, start, enough(machines))
}

/// The harm of a candidate, by kube-scheduler's criteria: broken budgets, the highest priority of a victim, the sum of
/// the priorities, the number of victims, and the earliest start of a victim of the highest priority.
fn harm(candidate: &Candidate, starts: &Starts) -> impl Ord + use<> {
    let victims = &candidate.victims;
    let highest = victims.first().map_or(i32::MIN, |task| task.precedence.0);
    let sum: i64 = victims.iter().map(|task| i64::from(task.precedence.0) + (1 << 31)).sum();
    let of_highest = victims.iter().filter(|task| task.precedence.0 == highest);
    let oldest = of_highest.map(|task| (starts.of(task.id.job), task.id)).min();
    (candidate.violations, highest, sum, victims.len(), Reverse(oldest))
}

/// Whether the filters accept any machine without victims.
fn fits(preemptor: &Preemptor<'_>, view: &View, group: GroupRef) -> bool {
    let tasks = tasks(view, group);
    let active = preemptor.evaluator.active(&tasks);
    (0..view.blocks()).any(|index| {
        let block = view.block(index);
        active.feasible(&tasks, block, block.present()) != 0
    })
}

/// A request to the preempter.
enum PreempterRequest {
    Mirror(Preempter),
    Propose(Search),
}

/// The preempter in its thread, which ends when this value is dropped.
pub struct Preempting(Sender<PreempterRequest>);

impl Preempting {
    /// Starts the thread. It answers each request by sending the proposal to `back`.
    ///
    /// # Errors
    /// If the system cannot start the thread.
    pub fn start(back: tokio::sync::mpsc::Sender<Input>) -> std::io::Result<Preempting> {
        let (requests, received) = channel();
        let work = move || work(&received, &back);
        std::thread::Builder::new().name("preempter".into()).spawn(work)?;
        Ok(Preempting(requests))
    }

    /// Passes a preempter to the thread.
    pub fn mirror(&self, preempter: Preempter) {
        let _ = self.0.send(PreempterRequest::Mirror(preempter));
    }

    /// Requests a proposal. The caller must not request another proposal for a pod before the first one has arrived.
    pub fn request(&self, search: Search) {
        let _ = self.0.send(PreempterRequest::Propose(search));
    }
}

fn work(received: &Receiver<PreempterRequest>, back: &tokio::sync::mpsc::Sender<Input>) {
    let mut preempter = None;
    while let Ok(ask) = received.recv() {
        match ask {
            PreempterRequest::Mirror(new) => preempter = Some(new),
            PreempterRequest::Propose(search) => {
                let pod = search.pod.clone();
                let proposal = preempter.as_mut().and_then(|it| it.propose(search));
                if back.blocking_send(Input::Proposed(pod, proposal)).is_err() {
                    return;
                }
            }
        }
    }
}
