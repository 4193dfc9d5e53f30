//! The policies, compared with naive models on small random logs; their guarantees; and the published figures.

use super::conservative::Conservative;
use super::figures::Figures;
use super::ordered::{Backfill, Order, Ordered, Ties};
use super::shipped::{Machines, Shipped};
use super::simulate::{Place, Policy, simulate};
use super::trace::{LeftOut, SimJob, Trace};
use clap::ValueEnum;
use omega_workload::public_data;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const PROCESSORS: u64 = 8;

/// Jobs of a few milliseconds, so that a naive model can step through time.
fn jobs() -> impl Strategy<Value = Vec<SimJob>> {
    let job = (0u64..40, 1u64..12, 0u64..8, 1u64..=PROCESSORS).prop_map(
        |(submit_ms, run, more, processors)| SimJob {
            submit_ms,
            run_ms: run,
            requested_ms: run + more,
            processors,
            waited_ms: None,
        },
    );
    prop::collection::vec(job, 1..24).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.submit_ms);
        jobs
    })
}

fn perfect(jobs: &[SimJob]) -> Vec<SimJob> {
    jobs.iter().map(|job| SimJob { requested_ms: job.run_ms, ..*job }).collect()
}

fn conservative(jobs: &[SimJob]) -> (Vec<u64>, Vec<u64>) {
    let mut policy = Conservative::new(jobs, PROCESSORS);
    let starts = simulate(jobs, PROCESSORS, &mut policy);
    (starts, policy.first_reservations_ms().to_vec())
}

fn ordered(jobs: &[SimJob], order: Order, backfill: Backfill) -> Vec<u64> {
    tied(jobs, order, backfill, Ties::default())
}

fn tied(jobs: &[SimJob], order: Order, backfill: Backfill, ties: Ties) -> Vec<u64> {
    simulate(jobs, PROCESSORS, &mut Ordered::new(jobs, PROCESSORS, order, backfill, ties))
}

/// Time before which all jobs of a test end, even if they run one after the other.
const HORIZON: usize = 1000;

/// Naive conservative backfilling on a calendar that has an entry for each millisecond, and is built again for each
/// time.
fn naive_conservative(jobs: &[SimJob]) -> Vec<u64> {
    let mut reserved: Vec<Option<u64>> = vec![None; jobs.len()];
    let mut started = vec![false; jobs.len()];
    for now in 0..HORIZON as u64 {
        let ended_early = |i: usize, reserved: &[Option<u64>]| {
            let job = &jobs[i];
            let ended = reserved[i].map(|start| start + job.run_ms) == Some(now);
            started[i] && ended && job.run_ms < job.requested_ms
        };
        let moves_up = (0..jobs.len()).any(|i| ended_early(i, &reserved));
        for i in 0..jobs.len() {
            let waits = reserved[i].is_some() && !started[i] && moves_up;
            let comes = reserved[i].is_none() && jobs[i].submit_ms == now;
            if !(waits || comes) {
                continue;
            }
            reserved[i] = None;
            let free = calendar(jobs, &reserved, &started, now);
            let fits = |start: u64| {
                (start..start + jobs[i].requested_ms)
                    .all(|t| free[t as usize] >= jobs[i].processors)
            };
            reserved[i] = (now..).find(|start| fits(*start));
        }
        for i in 0..jobs.len() {
            started[i] |= reserved[i] == Some(now);
        }
    }
    reserved.into_iter().map(|start| start.expect("all jobs came")).collect()
}

/// Number of processors in each millisecond that neither running jobs nor reservations take.
fn calendar(jobs: &[SimJob], reserved: &[Option<u64>], started: &[bool], now: u64) -> Vec<u64> {
    let mut free = vec![PROCESSORS; 4 * HORIZON];
    for (i, job) in jobs.iter().enumerate() {
        let Some(start) = reserved[i] else { continue };
        let has_ended = started[i] && start + job.run_ms <= now;
        let end = if has_ended { start + job.run_ms } else { start + job.requested_ms };
        free[start as usize..end as usize].iter_mut().for_each(|free| *free -= job.processors);
    }
    free
}

/// Naive FCFS and EASY by their definitions, with a scan of all jobs at every millisecond.
fn naive_ordered(jobs: &[SimJob], order: Order, backfill: Backfill, ties: Ties) -> Vec<u64> {
    let mut starts: Vec<Option<u64>> = vec![None; jobs.len()];
    let mut started: Vec<Place> = Vec::new();
    for now in 0..HORIZON as u64 {
        // A policy is called only when a job arrives or ends.
        let ends = |i: Place| starts[i].is_some_and(|start| start + jobs[i].run_ms == now);
        if !(0..jobs.len()).any(|i| jobs[i].submit_ms == now || ends(i)) {
            continue;
        }
        let mut waiting: Vec<Place> =
            (0..jobs.len()).filter(|i| starts[*i].is_none() && jobs[*i].submit_ms <= now).collect();
        if order == Order::Shortest {
            waiting.sort_by_key(|i| jobs[*i].requested_ms);
        }
        let runs = |i: &Place, starts: &[Option<u64>]| {
            starts[*i].is_some_and(|start| now < start + jobs[*i].run_ms)
        };
        let mut first_waits = None;
        for i in waiting {
            let used: u64 =
                started.iter().filter(|i| runs(i, &starts)).map(|i| jobs[*i].processors).sum();
            let free = PROCESSORS - used;
            let fits = jobs[i].processors <= free;
            let may = match (first_waits, backfill) {
                (None, _) => true,
                (Some(_), Backfill::None) => false,
                (Some((shadow, extra)), Backfill::Easy) => {
                    now + jobs[i].requested_ms <= shadow || jobs[i].processors <= extra
                }
            };
            if fits && may {
                starts[i] = Some(now);
                started.push(i);
                if let Some((shadow, extra)) = &mut first_waits
                    && now + jobs[i].requested_ms > *shadow
                {
                    *extra -= jobs[i].processors;
                }
            } else if first_waits.is_none() {
                let due = |i: Place| starts[i].unwrap() + jobs[i].requested_ms;
                let mut running: Vec<Place> =
                    started.iter().copied().filter(|i| runs(i, &starts)).collect();
                // The sort is stable, so jobs of equal sizes stay in the order of submission.
                match ties {
                    Ties::Started => {}
                    _ => running.sort_unstable(),
                }
                match ties {
                    Ties::Smallest => running.sort_by_key(|i| jobs[*i].processors),
                    Ties::Largest => running.sort_by_key(|i| PROCESSORS - jobs[*i].processors),
                    _ => {}
                }
                running.sort_by_key(|i| due(*i));
                let mut sum = free;
                let shadow = running.iter().find_map(|j| {
                    sum += jobs[*j].processors;
                    (sum >= jobs[i].processors).then(|| due(*j))
                });
                if let (Ties::Together, Some(shadow)) = (ties, shadow) {
                    let all = running.iter().filter(|j| due(**j) <= shadow);
                    sum = free + all.map(|j| jobs[*j].processors).sum::<u64>();
                }
                first_waits = shadow.map(|shadow| (shadow, sum - jobs[i].processors));
            }
        }
    }
    starts.into_iter().map(|start| start.expect("all jobs started")).collect()
}

/// Wraps a policy, and checks that the shadow of the first job in the queue never moves to a later time.
struct Watched<'a> {
    policy: Ordered<'a>,
    last: Option<(Place, u64)>,
}

impl Policy for Watched<'_> {
    fn submitted(&mut self, place: Place, now_ms: u64) {
        self.policy.submitted(place, now_ms);
    }

    fn ended(&mut self, place: Place, now_ms: u64) {
        self.policy.ended(place, now_ms);
    }

    fn start(&mut self, now_ms: u64, starting: &mut Vec<Place>) {
        self.policy.start(now_ms, starting);
        if let Some((place, shadow_ms)) = self.last {
            assert!(!starting.contains(&place) || now_ms <= shadow_ms, "{place} starts late");
        }
        let now = self.policy.reservation().map(|now| (now.place, now.shadow_ms));
        if let (Some((last, before_ms)), Some((place, shadow_ms))) = (self.last, now) {
            assert!(last != place || shadow_ms <= before_ms, "{place} was moved to later");
        }
        self.last = now;
    }
}

proptest! {
    #[test]
    fn ordered_policies_are_those_of_a_naive_reference(jobs in jobs()) {
        for order in [Order::Submission, Order::Shortest] {
            for backfill in [Backfill::None, Backfill::Easy] {
                for ties in Ties::value_variants() {
                    let expected = naive_ordered(&jobs, order, backfill, *ties);
                    let ours = tied(&jobs, order, backfill, *ties);
                    prop_assert_eq!(ours, expected, "{:?} {:?} {:?}", order, backfill, ties);
                }
            }
        }
    }

    #[test]
    fn conservative_backfilling_is_that_of_a_naive_reference(jobs in jobs()) {
        prop_assert_eq!(conservative(&jobs).0, naive_conservative(&jobs));
    }

    #[test]
    fn easy_never_delays_the_first_in_the_queue(jobs in jobs()) {
        for jobs in [perfect(&jobs), jobs] {
            for ties in Ties::value_variants() {
                let (order, backfill) = (Order::Submission, Backfill::Easy);
                let policy = Ordered::new(&jobs, PROCESSORS, order, backfill, *ties);
                let _ = simulate(&jobs, PROCESSORS, &mut Watched { policy, last: None });
            }
        }
    }

    #[test]
    fn conservative_backfilling_keeps_its_first_promise(jobs in jobs()) {
        let (starts, first) = conservative(&jobs);
        prop_assert!(starts.iter().zip(&first).all(|(start, first)| start <= first), "{:?} {:?}", starts, first);
        let jobs = perfect(&jobs);
        let (starts, first) = conservative(&jobs);
        prop_assert_eq!(starts, first, "who knows all has nothing to move");
    }
}

/// Shapes of the cell: one machine with all processors, one machine for each processor, and machines with four
/// processors.
const SHAPES: [Machines; 3] = [
    Machines { count: 1, cores: PROCESSORS },
    Machines { count: PROCESSORS, cores: 1 },
    Machines { count: PROCESSORS / 4, cores: 4 },
];

/// Runs jobs on the production code of the cell. Returns the start of each job, and the first planned start of those
/// that had a plan.
fn shipped(jobs: &[SimJob], machines: Machines, depth: usize) -> (Vec<u64>, Vec<Option<u64>>) {
    let mut policy = Shipped::new(jobs, machines, depth);
    let starts = simulate(jobs, PROCESSORS, &mut policy);
    (starts, policy.promised_ms().to_vec())
}

/// A depth greater than the length of any queue in these tests.
const DEEP: usize = 100;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Backfilling never delays the first job in the queue, or any job with a plan, beyond the first planned start.
    #[test]
    fn the_shipped_scheduler_keeps_its_promises(jobs in jobs()) {
        for jobs in [perfect(&jobs), jobs] {
            for machines in SHAPES {
                for depth in [1, 3, DEEP] {
                    let (starts, promised) = shipped(&jobs, machines, depth);
                    for (place, promised) in promised.iter().enumerate() {
                        let kept = promised.is_none_or(|promised| starts[place] <= promised);
                        prop_assert!(kept, "{:?} {}: {:?}, {:?} {:?}", machines, depth, place, starts, promised);
                    }
                }
            }
        }
    }

    /// On one machine, all processors are equivalent, so plans for all jobs amount to conservative backfilling.
    #[test]
    fn plans_for_all_are_conservative_backfilling(jobs in jobs()) {
        let jobs = perfect(&jobs);
        let (starts, promised) = shipped(&jobs, SHAPES[0], DEEP);
        prop_assert_eq!(&starts, &conservative(&jobs).0);
        let exact = promised.iter().zip(&starts).all(|(promised, start)| promised.is_none_or(|p| p == *start));
        prop_assert!(exact, "who knows all has nothing to move: {:?} {:?}", promised, starts);
    }
}

#[test]
fn the_shipped_scheduler_backfills_by_time_or_by_what_is_left_over() {
    let job = |submit_ms, run_ms, processors| SimJob {
        submit_ms,
        run_ms,
        requested_ms: run_ms,
        processors,
        waited_ms: None,
    };
    let queue =
        [job(0, 10, 5), job(1, 10, 6), job(2, 8, 3), job(2, 9, 3), job(3, 99, 1), job(3, 99, 2)];
    for machines in [SHAPES[0], SHAPES[1]] {
        assert_eq!(shipped(&queue, machines, 1).0, [0, 10, 2, 20, 10, 20], "{machines:?}");
    }
    let stream = [job(0, 10, 4), job(1, 10, 8), job(5, 10, 4), job(10, 10, 4), job(15, 10, 4)];
    assert_eq!(shipped(&stream, SHAPES[1], 0).0, [0, 25, 5, 10, 15], "the wide one lets all pass");
    assert_eq!(shipped(&stream, SHAPES[1], 1).0, [0, 10, 20, 20, 30]);
}

#[test]
fn easy_backfills_by_time_or_by_what_is_left_over() {
    let job = |submit_ms, requested_ms, processors| SimJob {
        submit_ms,
        run_ms: requested_ms,
        requested_ms,
        processors,
        waited_ms: None,
    };
    // Until time 10, 5 of the 8 processors are in use. The first pending job needs 6, so it leaves 2 over at time 10.
    let queue =
        [job(0, 10, 5), job(1, 10, 6), job(2, 8, 3), job(2, 9, 3), job(3, 99, 1), job(3, 99, 2)];
    let starts = ordered(&queue, Order::Submission, Backfill::Easy);
    assert_eq!(starts, [0, 10, 2, 20, 10, 20]);
    assert_eq!(ordered(&queue, Order::Submission, Backfill::None), [0, 10, 20, 20, 20, 28]);
}

/// Two running jobs that end together use 1 and 6 of 8 processors, so one is free. The first pending job needs 2. If
/// the end of the small job is counted first, 1 + 1 - 2 = 0 processors are left over for a long job; if the end of the
/// large job is, 1 + 6 - 2 = 5.
#[test]
fn the_order_of_equal_ends_decides_what_is_left_over() {
    let job = |submit_ms, requested_ms, processors| SimJob {
        submit_ms,
        run_ms: requested_ms,
        requested_ms,
        processors,
        waited_ms: None,
    };
    let queue = [job(0, 10, 6), job(0, 10, 1), job(1, 5, 2), job(2, 99, 1)];
    let long = |ties| tied(&queue, Order::Submission, Backfill::Easy, ties)[3];
    assert_eq!((long(Ties::Smallest), long(Ties::Largest)), (10, 2));
    assert_eq!((long(Ties::Started), long(Ties::Submitted), long(Ties::Together)), (2, 2, 2));
}

fn read(log: &str, processors: Option<u64>) -> Result<Trace, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.swf");
    std::fs::write(&file, log).unwrap();
    Trace::read(&file, processors)
        .map_err(|error| error.to_string().replace(&format!("{}/", dir.path().display()), ""))
}

#[test]
fn what_cannot_run_is_left_out_and_counted() {
    let line = |submit, run, got, asked, request| {
        format!("1 {submit} 7 {run} {got} -1 -1 {asked} {request} -1 1 1 1 1 1 1 -1 -1\n")
    };
    let log = [
        line(50, 20, 4, 8, 10),
        line(10, 20, -1, 2, -1),
        line(10, -1, 2, 2, 5),
        line(10, 0, 2, 2, 5),
        line(10, 5, -1, 0, 5),
        line(10, 5, 9, 4, 5),
        line(-1, 5, 2, 2, 5),
    ]
    .concat();
    let trace = read(&log, Some(8)).unwrap();
    assert_eq!(
        trace.left_out,
        LeftOut { too_large: 1, run_unknown: 2, size_unknown: 1, submission_unknown: 1 }
    );
    let job = |submit_ms, run_ms, requested_ms, processors| SimJob {
        submit_ms,
        run_ms,
        requested_ms,
        processors,
        waited_ms: Some(7000),
    };
    // Times are counted from the first submission.
    assert_eq!(trace.jobs, [job(0, 20_000, 20_000, 2), job(40_000, 10_000, 10_000, 4)]);
    assert_eq!(trace.span_ms(), 50_000);
    assert_eq!(
        trace.notes,
        [
            "the actual run time of 1 job is used as estimate, because the requested time is missing",
            "jobs are replayed by their time of submission, because 1 line of the log is out of order",
        ]
    );
    assert_eq!(read(&log, None).unwrap().processors, 9, "as large as its largest job");
    assert_eq!(read(&format!("; MaxNodes: 5\n{log}"), None).unwrap().processors, 5);
    assert_eq!(
        read(&format!("; MaxNodes: 5\n; MaxProcs: 20\n{log}"), None).unwrap().processors,
        20
    );
    assert_eq!(
        read(&log, Some(1)).unwrap_err(),
        "a.swf: no job of the log can be simulated: 2 jobs without a run time, 1 job without a number of \
         processors, 1 job without a time of submission, 3 jobs with more processors than the machine (1)"
    );
    assert_eq!(read("", None).unwrap_err(), "a.swf: the log has no jobs");
}

/// A log of the public data, or `None` with a message if it is missing.
fn data(name: &str) -> Option<PathBuf> {
    public_data(&format!("swf/{name}"))
}

/// Mean waits in minutes of four policies: FCFS, EASY with users' estimates, EASY with perfect estimates, and SJF +
/// EASY.
fn waits(file: &Path) -> [f64; 4] {
    let trace = Trace::read(file, None).unwrap();
    let perfect = trace.with_perfect_estimates();
    [
        (&trace, Order::Submission, Backfill::None),
        (&trace, Order::Submission, Backfill::Easy),
        (&perfect, Order::Submission, Backfill::Easy),
        (&trace, Order::Shortest, Backfill::Easy),
    ]
    .map(|(trace, order, backfill)| {
        let ties = Ties::default();
        let mut policy = Ordered::new(&trace.jobs, trace.processors, order, backfill, ties);
        let starts = simulate(&trace.jobs, trace.processors, &mut policy);
        Figures::of(trace, &starts).wait_mean_s / 60.0
    })
}

#[test]
fn real_logs_give_the_published_waits() {
    let published = [
        ("KTH-SP2-1996-2.1-cln.swf.gz", [5902.9, 115.2, 105.2, 79.9], 0.005),
        ("lublin_256.swf.gz", [39807.0, 1619.0, 1619.0, 994.0], 0.005),
        // The published values are rounded to 0.1, and half of that is 3 percent of 1.7.
        ("UniLu-Gaia-2014-1.swf.gz", [7.4, 4.2, 3.9, 1.7], 0.03),
        // The order of jobs that end at the same time differs from the published program's; see docs/swf.md.
        ("theta_2022.swf.gz", [2658.6, 742.4, 701.2, 232.0], 0.02),
    ];
    for (name, expected, tolerance) in published {
        let Some(file) = data(name) else { continue };
        let waits = waits(&file);
        let near = waits
            .iter()
            .zip(&expected)
            .all(|(ours, theirs)| (ours / theirs - 1.0).abs() < tolerance);
        assert!(near, "{name}: {waits:?}, published are {expected:?}");
    }
}
