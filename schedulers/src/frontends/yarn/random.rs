//! Random histories of requests, checked against a record of what each application requested and received. A second
//! test compares several turns at once with single turns.

use super::*;
use crate::framework::profile::Profile;
use crate::frontends::fixtures::{cell, machine, place, report, submit, submit_job};
use crate::queue::dominant::Weight;
use omega_cellstate::SharedCell;
use omega_core::{Amounts, Command, Job, JobId, TaskGroup, TaskId, TaskReport, TaskState};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;

/// An application's own record: its total request, and how often each of its tasks was started.
#[derive(Default)]
struct Known {
    wanted: u32,
    runs: BTreeMap<TaskId, i32>,
}

struct Run {
    cell: SharedCell,
    front: Frontend,
    jobs: Vec<JobId>,
    known: BTreeMap<JobId, Known>,
    rng: Pcg64,
    now: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Pcg64::seed_from_u64(seed);
        let cell = cell(&[[8, 16]; 6]);
        let settings = Settings {
            machine_delay: rng.random_range(0..3),
            rack_delay: rng.random_range(0..3),
            claims_max: rng.random_range(1..9),
            seed,
            ..Settings::new("front")
        };
        let mut front = Frontend::new(&cell, Profile::batch(), settings).unwrap();
        let jobs: Vec<JobId> =
            ["a", "a", "b"].iter().map(|tenant| submit(&cell, tenant, 12, [2, 3])).collect();
        front.step(&cell, 0).unwrap();
        let mut known = BTreeMap::new();
        for job in &jobs {
            let name = cell.read(|cell| cell.job(*job).unwrap().name.clone());
            known.insert(front.join(&name, 0).unwrap(), Known::default());
        }
        Run { cell, front, jobs, known, rng, now: 0 }
    }

    fn job(&mut self) -> JobId {
        self.jobs[self.rng.random_range(0..self.jobs.len())]
    }

    /// Sends a heartbeat with random requests, and compares the reply with the model.
    fn heartbeat(&mut self) {
        let job = self.job();
        let mut heartbeat = Heartbeat::default();
        let wanted = self.rng.random_bool(0.6).then(|| self.rng.random_range(0..5));
        if let Some(count) = wanted {
            let slot = self.rng.random_range(0..7);
            heartbeat.asks =
                Ask::near("main", &format!("m{slot}"), &format!("r{}", slot / 2), count).into();
            if self.rng.random_bool(0.2) {
                heartbeat.asks.drain(..2);
            }
            if self.rng.random_bool(0.2) {
                heartbeat.asks.iter_mut().for_each(|ask| ask.relax = Relax::Forbidden);
            }
        }
        if self.rng.random_bool(0.3) {
            let runs = self.known[&job].runs.iter().find(|(_, count)| **count > 0);
            heartbeat.releases.extend(runs.map(|(task, _)| *task));
        }
        if self.rng.random_bool(0.2) {
            let name = format!("m{}", self.rng.random_range(0..6)).into();
            if self.rng.random_bool(0.5) {
                heartbeat.refuse.push(name)
            } else {
                heartbeat.readmit.push(name)
            }
        }
        let answer = match self.front.heartbeat(job, heartbeat, self.now) {
            Ok(answer) => answer,
            // The task may have ended or been released before the application was informed.
            Err(HeartbeatError::NotAContainer(_)) => return,
            Err(error) => panic!("{error}"),
        };
        let known = self.known.get_mut(&job).unwrap();
        known.wanted = wanted.unwrap_or(known.wanted);
        let got = answer.allocated.len() as u32;
        // A new request includes containers that were not yet reported.
        match wanted {
            Some(wanted) => known.wanted = wanted.saturating_sub(got),
            None => {
                assert!(got <= known.wanted, "{got} containers, {} were wanted", known.wanted);
                known.wanted -= got;
            }
        }
        answer.allocated.iter().for_each(|new| *known.runs.entry(new.task).or_default() += 1);
        answer.completed.iter().for_each(|old| *known.runs.entry(old.task).or_default() -= 1);
        known.runs.retain(|_, count| *count != 0);
        assert!(known.runs.values().all(|count| *count == 1), "told once, and ended once");
        let running: Vec<TaskId> = known.runs.keys().copied().collect();
        let has: Vec<TaskId> = self.front.containers_of(job).map(|(task, _)| task).collect();
        assert_eq!(running, has, "what it was told is what it has");
    }

    fn step(&mut self) {
        self.now += 1;
        self.front.step(&self.cell, self.now).unwrap();
        self.cell.read(|cell| cell.audit_no_overcommit()).expect("the cell is right");
    }

    fn others(&mut self) {
        let slot = self.rng.random_range(0..6);
        match self.rng.random_range(0..3) {
            0 => drop(place(&self.cell, slot, [self.rng.random_range(1..5), 1])),
            1 => {
                let draining = self.rng.random_bool(0.3);
                self.cell.apply(Command::DrainMachine { id: machine(slot), draining }).unwrap();
            }
            _ => {
                let placed: Vec<TaskId> = self.cell.read(|cell| {
                    let tasks = cell.jobs().flat_map(|(id, _)| cell.tasks(id).collect::<Vec<_>>());
                    let has = |(id, state): (TaskId, TaskState)| state.machine().map(|_| id);
                    tasks.filter_map(has).collect()
                });
                if !placed.is_empty() {
                    let task = placed[self.rng.random_range(0..placed.len())];
                    // The machine reports tasks as lost, so they are pending again, and jobs never run out of tasks.
                    report(&self.cell, task, TaskReport::Lost);
                }
            }
        }
    }
}

#[test]
fn applications_are_told_each_container_once_and_get_no_more_than_they_want() {
    let (mut near, mut rack, mut elsewhere, mut released, mut passed_up) = (0, 0, 0, 0, 0);
    for seed in 0..150 {
        let mut run = Run::new(seed);
        for _ in 0..150 {
            match run.rng.random_range(0..6) {
                0..2 => run.step(),
                2..5 => run.heartbeat(),
                _ => run.others(),
            }
        }
        let counters = run.front.counters();
        near += counters.on_machine;
        rack += counters.in_rack;
        elsewhere += counters.elsewhere;
        released += counters.released;
        passed_up += counters.passed_up;
    }
    let happened = [near, rack, elsewhere, released, passed_up];
    assert!(happened.iter().all(|count| *count > 100), "too little happened: {happened:?}");
}

/// An application of the naive reference: its queue, its group and its containers.
struct Naive {
    queue: usize,
    size: [u64; 2],
    has: u64,
    /// Number of containers that the application still requests.
    wanted: u64,
}

/// Gives containers one by one to the queue and the application with the lowest shares, computed as fractions.
fn one_by_one(applications: &mut [Naive], weights: [u64; 2], totals: [u64; 2], turns: usize) {
    let larger = |sums: [u64; 2]| (sums[0] * totals[1]).max(sums[1] * totals[0]);
    for _ in 0..turns {
        let queue_share = |queue: usize| {
            let of = applications.iter().filter(|one| one.queue == queue);
            larger(of.fold([0, 0], |sum, one| {
                [sum[0] + one.has * one.size[0], sum[1] + one.has * one.size[1]]
            }))
        };
        let is_short =
            |queue: usize| applications.iter().any(|one| one.queue == queue && one.wanted > 0);
        let queue = match (is_short(0), is_short(1)) {
            // Weighted shares are compared by cross-multiplication. If they are equal, the first queue is next.
            (true, true) if queue_share(0) * weights[1] <= queue_share(1) * weights[0] => 0,
            (_, true) => 1,
            (true, false) => 0,
            (false, false) => return,
        };
        let hungry = (0..applications.len())
            .filter(|i| applications[*i].queue == queue && applications[*i].wanted > 0);
        let share = |i: &usize| {
            let one = &applications[*i];
            (larger([one.has * one.size[0], one.has * one.size[1]]), *i)
        };
        let next = hungry.min_by_key(share).unwrap();
        applications[next].has += 1;
        applications[next].wanted -= 1;
    }
}

/// Rounds of several turns, with lost containers between them, give the containers that single turns would give.
#[test]
fn turns_in_a_row_are_those_of_turns_one_by_one() {
    let mut lost = 0;
    for seed in 0..200 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let totals = [100_000, 70_000];
        let cell = cell(&[totals]);
        let weights = [rng.random_range(1..4), rng.random_range(1..4)];
        let turns = rng.random_range(1..100);
        let rounds = rng.random_range(1..5);
        let settings = Settings { claims_max: turns, ..Settings::new("front") };
        let mut front = Frontend::new(&cell, Profile::batch(), settings).unwrap();
        for (tenant, weight) in ["a", "b"].into_iter().zip(weights) {
            front.set_weight(tenant.into(), Weight::new(weight as u32).unwrap());
        }
        let mut applications: Vec<Naive> = (0..5)
            .map(|_| Naive {
                queue: rng.random_range(0..2),
                size: [rng.random_range(1..60), rng.random_range(1..60)],
                has: 0,
                wanted: rng.random_range(1..80),
            })
            .collect();
        for one in &applications {
            let mut job = Job::batch(
                format!("job-{}", cell.read(omega_cellstate::Cell::next_job).0),
                TaskGroup::new(80, Amounts::new(one.size)),
            );
            (job.tenant, job.scheduler) = (["a", "b"][one.queue].into(), "front".into());
            submit_job(&cell, job);
        }
        front.step(&cell, 0).unwrap();
        for (i, one) in (0..).zip(&applications) {
            front.join(&format!("job-{i}"), 0).unwrap();
            let ask = Ask::new("main", Place::Anywhere, one.wanted as u32);
            front.heartbeat(JobId(i), Heartbeat::asking([ask]), 0).unwrap();
        }
        for now in 1..=rounds {
            front.step(&cell, now).unwrap();
            one_by_one(&mut applications, weights, totals, turns);
            let naive: Vec<u64> = applications.iter().map(|one| one.has).collect();
            let count = |i| front.containers_of(JobId(i)).count() as u64;
            let ours: Vec<u64> = (0..5).map(count).collect();
            assert_eq!(ours, naive, "seed {seed}, round {now}");
            let id = JobId(rng.random_range(0..5));
            let container = front.containers_of(id).next();
            if let Some((task, _)) = container.filter(|_| rng.random_bool(0.5)) {
                report(&cell, task, TaskReport::Lost);
                applications[id.0 as usize].has -= 1;
                lost += 1;
            }
        }
    }
    assert!(lost > 100, "only {lost} containers were lost");
}
