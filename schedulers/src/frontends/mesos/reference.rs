//! Random histories of offers, compared with a naive reference model that shares no code with the frontend.
//!
//! The model has plain lists. At every step it reads the cell, counts usage again, finds invalid offers, and makes
//! offers one by one to the framework with the lowest share. It compares shares as fractions. The open offers of
//! frontend and model must be equal, in order and amounts, and a failed call must change nothing.

use super::*;
use crate::frontends::fixtures::{cell, machine, place, report, submit, task};
use crate::queue::Nanos;
use crate::queue::dominant::Weight;
use omega_cellstate::{Cell, MachineStatus, SharedCell};
use omega_core::{Amounts, Command, KindId, TaskId, TaskReport, TaskState};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::cmp::Ordering;

const MACHINES: usize = 5;
const CAPACITY: [u64; 2] = [8, 12];
const TENANTS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
struct ModelFilter {
    slot: u32,
    until: Nanos,
    amounts: Option<[u64; 2]>,
}

#[derive(Clone, Debug)]
struct ModelFramework {
    id: FrameworkId,
    tenant: &'static str,
    weight: u64,
    least: [u64; 2],
    suppressed: bool,
    filters: Vec<ModelFilter>,
    from: usize,
    served: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct ModelOffer {
    framework: FrameworkId,
    slot: u32,
    amounts: [u64; 2],
    made: Nanos,
    /// Id of the offer in the frontend, once both the frontend and the model have made it.
    id: Option<OfferId>,
}

/// The reference model of a frontend.
struct Reference {
    frameworks: Vec<ModelFramework>,
    out: Vec<ModelOffer>,
    turns: u64,
    settings: Settings,
    at_most: Option<[u64; 2]>,
    within: Nanos,
}

fn pair(amounts: &Amounts) -> [u64; 2] {
    [amounts.get(KindId::CPU), amounts.get(KindId::MEMORY)]
}

/// Resources that the tasks of a tenant use, counted task by task.
fn used(cell: &Cell, tenant: &str) -> [u64; 2] {
    let mut sum = [0, 0];
    for (id, job) in
        cell.jobs().filter(|(_, job)| *job.tenant == *tenant && *job.scheduler == *"front")
    {
        let running = cell.tasks(id).filter(|(_, state)| state.machine().is_some()).count() as u64;
        let each = pair(&job.groups[0].request);
        (0..2).for_each(|kind| sum[kind] += running * each[kind]);
    }
    sum
}

fn free(cell: &Cell, slot: u32) -> Option<[u64; 2]> {
    let state = cell.machine(machine(slot))?;
    let mut free = pair(&state.machine.capacity);
    for id in state.tasks {
        let each = pair(&cell.job(id.job)?.groups[0].request);
        (0..2).for_each(|kind| free[kind] -= each[kind]);
    }
    (state.status == MachineStatus::Schedulable).then_some(free)
}

impl Reference {
    fn held(&self, slot: u32) -> [u64; 2] {
        let on = self.out.iter().filter(|offer| offer.slot == slot);
        on.fold([0, 0], |sum, offer| [sum[0] + offer.amounts[0], sum[1] + offer.amounts[1]])
    }

    fn step(&mut self, cell: &Cell, now: Nanos) {
        for slot in 0..MACHINES as u32 {
            loop {
                let (held, free) = (self.held(slot), free(cell, slot).unwrap_or([0, 0]));
                if held[0] <= free[0] && held[1] <= free[1] {
                    break;
                }
                let newest = self.out.iter().rposition(|offer| offer.slot == slot).unwrap();
                self.out.remove(newest);
            }
        }
        let late: Vec<ModelOffer> =
            self.out.iter().filter(|offer| offer.made + self.within <= now).cloned().collect();
        for offer in late {
            self.refuse(offer.framework, offer.slot, now + self.within, None);
            self.out.retain(|other| *other != offer);
        }
        let mut hungry: Vec<usize> = (0..self.frameworks.len()).collect();
        hungry.retain(|i| !self.frameworks[*i].suppressed);
        while let Some(next) = hungry.iter().copied().min_by(|a, b| self.compare(cell, *a, *b)) {
            if !self.offer(cell, next, now) {
                hungry.retain(|other| *other != next);
            }
        }
    }

    /// Compares two frameworks: by weighted dominant shares as fractions, then by the turns of their last offers, then
    /// by ids.
    fn compare(&self, cell: &Cell, a: usize, b: usize) -> Ordering {
        let share = |i: usize| {
            let framework = &self.frameworks[i];
            let mut has = used(cell, framework.tenant);
            let tenants = self.frameworks.iter().filter(|other| other.tenant == framework.tenant);
            let ids: Vec<FrameworkId> = tenants.map(|other| other.id).collect();
            for offer in self.out.iter().filter(|offer| ids.contains(&offer.framework)) {
                (0..2).for_each(|kind| has[kind] += offer.amounts[kind]);
            }
            // The larger of the shares of CPU and memory, as a numerator over their common denominator.
            let [cpu, memory] = CAPACITY;
            ((has[0] * memory).max(has[1] * cpu), framework.weight)
        };
        let ((one, of_one), (other, of_other)) = (share(a), share(b));
        let [a, b] = [a, b].map(|i| (self.frameworks[i].served, self.frameworks[i].id));
        (one * of_other).cmp(&(other * of_one)).then(a.cmp(&b))
    }

    fn offer(&mut self, cell: &Cell, index: usize, now: Nanos) -> bool {
        let id = self.frameworks[index].id;
        let room = self.settings.offers_max - self.out.iter().filter(|o| o.framework == id).count();
        let (mut made, from) = (0, self.frameworks[index].from);
        for looked in 0..MACHINES {
            let slot = ((from + looked) % MACHINES) as u32;
            if made == room.min(self.settings.machines_at_once) {
                break;
            }
            self.frameworks[index].from = (slot as usize + 1) % MACHINES;
            let Some(free) = free(cell, slot) else { continue };
            let held = self.held(slot);
            let most = self.at_most.unwrap_or([u64::MAX; 2]);
            let amounts = [0, 1].map(|kind| (free[kind] - held[kind]).min(most[kind]));
            let framework = &self.frameworks[index];
            let is_refused = framework.filters.iter().any(|filter| {
                let covers = |most: [u64; 2]| (0..2).all(|kind| amounts[kind] <= most[kind]);
                filter.slot == slot && filter.until > now && filter.amounts.is_none_or(covers)
            });
            let is_useful = (0..2).all(|kind| amounts[kind] >= framework.least[kind]);
            if amounts != [0, 0] && is_useful && !is_refused {
                made += 1;
                // The machines found in one scan are offered together.
                self.out.push(ModelOffer { framework: id, slot, amounts, made: now, id: None });
            }
        }
        if made > 0 {
            self.turns += 1;
            self.frameworks[index].served = self.turns;
        }
        made > 0
    }

    fn refuse(&mut self, id: FrameworkId, slot: u32, until: Nanos, amounts: Option<[u64; 2]>) {
        let framework = self.frameworks.iter_mut().find(|framework| framework.id == id).unwrap();
        framework.filters.retain(|filter| filter.slot != slot);
        framework.filters.push(ModelFilter { slot, until, amounts });
    }

    /// Applies an answer to the reference: the offers are removed, and filters set.
    fn answer(&mut self, offers: &[Offer], refuse: Refuse) {
        for offer in offers {
            let amounts = pair(&offer.amounts);
            self.out.retain(|reference| reference.id != Some(offer.id));
            match refuse {
                Refuse::Nothing => {}
                Refuse::Machine { until } => {
                    self.refuse(offer.framework, offer.machine.slot, until, None)
                }
                Refuse::Amounts { until } => {
                    self.refuse(offer.framework, offer.machine.slot, until, Some(amounts))
                }
            }
        }
    }
}

/// A frontend, its reference model, and the events given to both.
struct Run {
    cell: SharedCell,
    front: Frontend,
    reference: Reference,
    rng: Pcg64,
    now: Nanos,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Pcg64::seed_from_u64(seed);
        let cell = cell(&[CAPACITY; MACHINES]);
        let at_most = rng.random_bool(0.5).then_some([3, 5]);
        let portion = at_most.map_or(Portion::Whole, |most| Portion::AtMost(Amounts::new(most)));
        let machines_at_once = [1, 1, 2, usize::MAX][rng.random_range(0..4)];
        let within = 40;
        let answer_within = Some(within);
        let name = "front".into();
        let settings = Settings { name, machines_at_once, portion, offers_max: 6, answer_within };
        let mut front = Frontend::new(&cell, settings.clone()).unwrap();
        let (frameworks, out) = (Vec::new(), Vec::new());
        let mut reference = Reference { frameworks, out, turns: 0, settings, at_most, within };
        for i in 0..4 {
            let (tenant, weight) = (TENANTS[i % 3], rng.random_range(1..4));
            let least = [rng.random_range(0..3), rng.random_range(0..2)];
            let framework = Framework {
                weight: Weight::new(weight as u32).unwrap(),
                least: Amounts::new(least),
                ..Framework::new(format!("f{i}"), tenant)
            };
            let id = front.register(framework).unwrap();
            let (suppressed, filters) = (false, Vec::new());
            let new = ModelFramework {
                id,
                tenant,
                weight,
                least,
                suppressed,
                filters,
                from: 0,
                served: 0,
            };
            reference.frameworks.push(new);
        }
        Run { cell, front, reference, rng, now: 0 }
    }

    fn step(&mut self) {
        self.now += self.rng.random_range(0..8);
        self.front.step(&self.cell, self.now).unwrap();
        let now = self.now;
        self.cell.read(|cell| self.reference.step(cell, now));
        let offers = self
            .front
            .offers()
            .map(|offer| (offer.framework, offer.machine.slot, pair(&offer.amounts)));
        let references = self
            .reference
            .out
            .iter()
            .map(|reference| (reference.framework, reference.slot, reference.amounts));
        assert_eq!(offers.collect::<Vec<_>>(), references.collect::<Vec<_>>());
        for (reference, offer) in self.reference.out.iter_mut().zip(self.front.offers()) {
            assert!(reference.id.is_none_or(|id| id == offer.id), "an offer that holds stays out");
            reference.id = Some(offer.id);
        }
        self.check();
    }

    /// Checks the invariants that the module's documentation states.
    fn check(&self) {
        let Account { free, offered, held_back, available } = self.front.account();
        let sum = offered.checked_add(&held_back).and_then(|sum| sum.checked_add(&available));
        assert_eq!(sum, Some(free));
        for slot in 0..MACHINES as u32 {
            let on = self.front.offers().filter(|offer| offer.machine.slot == slot);
            let held = on.fold([0, 0], |sum, offer| {
                let amounts = pair(&offer.amounts);
                [sum[0] + amounts[0], sum[1] + amounts[1]]
            });
            let view = &self.front.session.view;
            for kind in [KindId::CPU, KindId::MEMORY] {
                assert!(
                    held[kind.index()] as i64 <= view.free(slot as usize, kind),
                    "in two offers"
                );
            }
        }
        self.cell.read(|cell| cell.audit_no_overcommit()).expect("the cell is right");
    }

    fn refuse(&mut self) -> Refuse {
        let until = self.now + self.rng.random_range(0..30);
        [Refuse::Nothing, Refuse::Machine { until }, Refuse::Amounts { until }]
            [self.rng.random_range(0..3)]
    }

    /// Answers some of a framework's offers with a random number of tasks that fit.
    fn answer(&mut self) {
        let index = self.rng.random_range(0..self.reference.frameworks.len());
        let framework = self.reference.frameworks[index].id;
        let offers: Vec<Offer> = self.front.offers_of(framework).cloned().collect();
        let offers: Vec<Offer> = offers.into_iter().filter(|_| self.rng.random_bool(0.5)).collect();
        let ids: Vec<OfferId> = offers.iter().map(|offer| offer.id).collect();
        let refuse = self.refuse();
        if self.rng.random_bool(0.3) {
            self.front.decline(framework, &ids, refuse).unwrap();
            return self.reference.answer(&offers, refuse);
        }
        let jobs: Vec<_> = self.front.jobs_of(framework).map(|(id, _)| id).collect();
        let mut waiting: Vec<TaskId> =
            jobs.iter().flat_map(|job| self.front.waiting(*job, 0)).collect();
        let mut launches = Vec::new();
        for offer in &offers {
            for _ in 0..self.rng.random_range(0..4) {
                if waiting.is_empty() {
                    break;
                }
                let task = waiting.swap_remove(self.rng.random_range(0..waiting.len()));
                launches.push(Launch { task, machine: offer.machine });
            }
        }
        let before: Vec<Offer> = self.front.offers().cloned().collect();
        match self.front.accept(framework, &ids, &launches, refuse) {
            Ok(()) => {
                self.reference.answer(&offers, refuse);
                // In half of the cases, another scheduler commits before the frontend commits the accepted offers.
                if let Some(launch) = launches.first().filter(|_| self.rng.random_bool(0.5)) {
                    place(&self.cell, launch.machine.slot, [self.rng.random_range(3..7), 1]);
                }
            }
            Err(error) => {
                assert!(matches!(error, AcceptError::TooMuch { .. }), "{error}");
                assert!(self.front.offers().eq(&before), "an error changes nothing");
            }
        }
        self.check();
    }

    /// Makes calls with invalid arguments.
    fn nonsense(&mut self) {
        let before: Vec<Offer> = self.front.offers().cloned().collect();
        let account = self.front.account();
        let framework = FrameworkId(self.rng.random_range(0..6));
        let mut ids: Vec<OfferId> = before.iter().map(|offer| offer.id).collect();
        ids.push(OfferId(self.rng.random_range(0..1000)));
        ids.push(ids[0]);
        let stray = Launch { task: task(omega_core::JobId(77), 3), machine: machine(9) };
        assert!(self.front.accept(framework, &ids, &[stray], Refuse::Nothing).is_err());
        assert!(self.front.decline(framework, &ids, Refuse::Nothing).is_err());
        assert!(self.front.accept(framework, &[], &[stray], Refuse::Nothing).is_err());
        assert!(self.front.offers().eq(&before) && self.front.account() == account);
    }

    fn others(&mut self) {
        let slot = self.rng.random_range(0..MACHINES as u32);
        match self.rng.random_range(0..4) {
            0 => drop(place(&self.cell, slot, [self.rng.random_range(1..5), 1])),
            1 => {
                let tenant = TENANTS[self.rng.random_range(0..3)];
                let request = [self.rng.random_range(1..4), self.rng.random_range(0..5)];
                submit(&self.cell, tenant, self.rng.random_range(1..5), request);
            }
            2 => {
                let draining = self.rng.random_bool(0.3);
                let id = machine(slot);
                self.cell.apply(Command::DrainMachine { id, draining }).unwrap();
            }
            _ => {
                let placed: Vec<TaskId> = self.cell.read(|cell| {
                    let tasks = cell.jobs().flat_map(|(id, _)| cell.tasks(id).collect::<Vec<_>>());
                    let has = |(id, state): (TaskId, TaskState)| state.machine().map(|_| id);
                    tasks.filter_map(has).collect()
                });
                let reports = [TaskReport::Finished, TaskReport::Failed, TaskReport::Lost];
                if !placed.is_empty() {
                    let task = placed[self.rng.random_range(0..placed.len())];
                    report(&self.cell, task, reports[self.rng.random_range(0..3)]);
                }
            }
        }
    }

    fn act(&mut self) {
        match self.rng.random_range(0..10) {
            0..3 => self.step(),
            3..6 => self.answer(),
            6 => self.nonsense(),
            7 => {
                let index = self.rng.random_range(0..self.reference.frameworks.len());
                let reference = &mut self.reference.frameworks[index];
                reference.suppressed = self.rng.random_bool(0.4);
                if reference.suppressed {
                    self.front.suppress(reference.id).unwrap();
                } else {
                    reference.filters.clear();
                    self.front.revive(reference.id).unwrap();
                }
            }
            _ => self.others(),
        }
    }
}

#[test]
fn offers_are_those_of_a_naive_reference() {
    let mut all = Counters::default();
    for seed in 0..300 {
        let mut run = Run::new(seed);
        // Prints the seed if the run fails.
        let named = Seed(seed);
        run.step();
        (0..150).for_each(|_| run.act());
        run.step();
        drop(named);
        let counters = run.front.counters();
        all.launched += counters.launched;
        all.withdrawn += counters.withdrawn;
        all.conflicts += counters.conflicts;
        all.late += counters.late;
        all.declined += counters.declined;
    }
    let Counters { launched, withdrawn, conflicts, late, declined, .. } = all;
    let happened = [launched, withdrawn, conflicts, late, declined];
    assert!(happened.iter().all(|count| *count > 100), "too little happened: {all:?}");
}

/// Seed of a test. Prints the seed if it is dropped during a panic.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}
