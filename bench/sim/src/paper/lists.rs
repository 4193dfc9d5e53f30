//! Generated job lists, so that the experiments need no trace. The cells are as the paper describes them.
//!
//! More than four fifths of the jobs are batch jobs, and service jobs have most of the resources. Initial tasks are
//! allocated 60 % of the processors, and never end. Jobs arrive at random (gaps are exponential). Most batch jobs have
//! one task and few have hundreds; run times are lognormal, and requests exponential. The numbers are fitted to public
//! job lists for the reference simulator (cells of 2,000 and of 10,000 machines of 4 cores and 16 GB).

use crate::compat::JobList;
use crate::engine::{Job, Kind};
use crate::reference::{ReferenceJob, Request};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Capacity of every machine: cores and GB.
const MACHINE: [f64; 2] = [4.0, 16.0];
/// Share of the processors allocated to the initial tasks.
const PREFILL: f64 = 0.6;
/// Smallest request of a task: cores and GB.
const LEAST: f64 = 0.01;
/// A run time longer than every run, in seconds.
const FOREVER_S: f64 = 1e7;

/// Properties of the jobs of a list.
struct Sort {
    kind: Kind,
    /// Mean seconds between two arrivals.
    gap_s: f64,
    /// Run times in seconds: the median, the sigma of the logarithm, and the minimum.
    run_s: (f64, f64, f64),
    /// The mean request: cores and GB.
    request: [f64; 2],
    /// Distribution of the number of tasks per job. Each entry has a share of the jobs, and two bounds. Between the
    /// bounds, the logarithm of the number of tasks is uniformly distributed.
    tasks: &'static [(f64, f64, f64)],
}

const BATCH: Sort = Sort {
    kind: Kind::Batch,
    gap_s: 4.0,
    run_s: (120.0, 1.48, 1.0),
    request: [0.3, 0.8],
    tasks: &[(0.75, 1.0, 1.0), (0.15, 2.0, 20.0), (0.09, 20.0, 200.0), (0.01, 200.0, 2_000.0)],
};

const SERVICE: Sort = Sort {
    kind: Kind::Service,
    gap_s: 60.0,
    run_s: (2_600.0, 1.48, 60.0),
    request: [0.5, 1.6],
    tasks: &[(0.2, 1.0, 1.0), (0.4, 2.0, 5.0), (0.35, 5.0, 20.0), (0.05, 20.0, 100.0)],
};

/// Generates batch jobs for this many seconds, at `load` times the usual rate.
pub(super) fn batch(seconds: f64, load: f64, seed: u64) -> JobList {
    list(&BATCH, seconds, load, Dice::new(seed, 1))
}

/// Generates service jobs for this many seconds.
pub(super) fn service(seconds: f64, seed: u64) -> JobList {
    list(&SERVICE, seconds, 1.0, Dice::new(seed, 2))
}

/// Generates the initial tasks of a cell with this number of machines.
pub(super) fn prefill(machines: u32, seed: u64) -> JobList {
    let mut dice = Dice::new(seed, 3);
    let (mut list, mut left) = (JobList::default(), PREFILL * f64::from(machines) * MACHINE[0]);
    while left > 0.0 {
        let request = dice.request(SERVICE.request);
        let tasks = 1 + (dice.even() * 40.0) as u32;
        left -= request.cpu * f64::from(tasks);
        list.jobs.push(Job { submit_s: 0.0, tasks, kind: Kind::Service });
        list.tasks.push(ReferenceJob { request, run_s: FOREVER_S });
    }
    list
}

fn list(sort: &Sort, seconds: f64, load: f64, mut dice: Dice) -> JobList {
    let mut list = JobList::default();
    let mut submit_s = 0.0;
    loop {
        submit_s += dice.exponential(sort.gap_s / load);
        if submit_s >= seconds {
            return list;
        }
        let (median, sigma, least) = sort.run_s;
        let run_s = (median * (sigma * dice.normal()).exp()).max(least);
        let tasks = dice.tasks(sort.tasks);
        list.jobs.push(Job { submit_s, tasks, kind: sort.kind });
        list.tasks.push(ReferenceJob { request: dice.request(sort.request), run_s });
    }
}

/// A seeded random generator. Logarithms and cosines come from a library, so that random numbers are equal on all
/// platforms.
pub(super) struct Dice(Pcg64);

impl Dice {
    pub(super) fn new(seed: u64, stream: u64) -> Dice {
        Dice(Pcg64::seed_from_u64(seed.wrapping_mul(4).wrapping_add(stream)))
    }

    /// Returns a number from a uniform distribution, at least 0 and below 1.
    pub(super) fn even(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.even())
    }

    /// Returns a number from a normal distribution with mean 0 and standard deviation 1, by the method of Box and
    /// Muller.
    pub(super) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.even()));
        radius * libm::cos(std::f64::consts::TAU * self.even())
    }

    fn request(&mut self, mean: [f64; 2]) -> Request {
        let [cpu, memory] =
            [0, 1].map(|kind| self.exponential(mean[kind]).clamp(LEAST, MACHINE[kind]));
        Request { cpu, memory }
    }

    fn tasks(&mut self, sorts: &[(f64, f64, f64)]) -> u32 {
        let mut which = self.even();
        for &(share, from, to) in sorts {
            if which < share {
                return libm::round(from * libm::pow(to / from, self.even())) as u32;
            }
            which -= share;
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(list: &JobList) -> f64 {
        list.jobs.iter().map(|job| f64::from(job.tasks)).sum()
    }

    #[test]
    fn a_day_is_like_the_paper_says() {
        let (batch, service) = (batch(86_400.0, 1.0, 1), service(86_400.0, 1));
        let jobs = (batch.jobs.len() as f64, service.jobs.len() as f64);
        assert!(jobs.0 / (jobs.0 + jobs.1) > 0.8, "{jobs:?}");
        assert!((20_000.0..23_500.0).contains(&jobs.0), "{jobs:?}");
        let per_job = tasks(&batch) / jobs.0;
        assert!((14.0..24.0).contains(&per_job), "{per_job}");
        let single = batch.jobs.iter().filter(|job| job.tasks == 1).count() as f64 / jobs.0;
        assert!((0.7..0.8).contains(&single), "{single}");
    }

    #[test]
    fn the_prefill_takes_its_share() {
        let list = prefill(2_000, 1);
        let taken = list
            .jobs
            .iter()
            .zip(&list.tasks)
            .map(|(job, task)| f64::from(job.tasks) * task.request.cpu);
        let share = taken.sum::<f64>() / (2_000.0 * MACHINE[0]);
        assert!((0.6..0.62).contains(&share), "{share}");
    }

    #[test]
    fn load_and_seed_are_what_they_say() {
        let jobs = |load, seed| batch(86_400.0, load, seed).jobs;
        let ratio = jobs(4.0, 1).len() as f64 / jobs(1.0, 1).len() as f64;
        assert!((3.8..4.2).contains(&ratio), "{ratio}");
        let same = |a: &[Job], b: &[Job]| {
            a.iter().zip(b).all(|(a, b)| a.submit_s == b.submit_s && a.tasks == b.tasks)
        };
        assert!(same(&jobs(1.0, 1), &jobs(1.0, 1)) && !same(&jobs(1.0, 1), &jobs(1.0, 2)));
    }
}
