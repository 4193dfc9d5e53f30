//! Comparison of streams with whole workloads, through the public API.

use super::*;
use crate::testing::{folder, message};
use crate::{MachineChange, RunTime, csv};
use omega_core::{Amounts, Job, TaskGroup};

/// Results of a stream at each step.
fn steps(stream: &mut dyn Stream) -> Vec<(u64, String)> {
    let mut steps = Vec::new();
    while let Some(event) = stream.next_event().unwrap() {
        let name = match &event {
            Event::Machine(MachineEvent { change: MachineChange::Remove(name), .. }) => {
                name.clone()
            }
            Event::Machine(MachineEvent { change: MachineChange::Add(machine), .. }) => {
                machine.name.clone()
            }
            Event::Job(job) => job.arrival.job.name.clone(),
        };
        steps.push((event.at_ms(), name.to_string()));
    }
    steps
}

fn table(times: &[u64]) -> tempfile::TempDir {
    let rows = times.iter().enumerate().map(|(i, at)| format!("j{i},1,1,1Gi,{at}\n"));
    let jobs = format!("name,count,cpu,memory,arrival_s\n{}", rows.collect::<String>());
    folder(&[("m.csv", "name,cpu,memory\nm,4,16Gi\n"), ("j.csv", &jobs)])
}

fn open(dir: &tempfile::TempDir, window: Window) -> csv::CsvStream {
    csv::open(&dir.path().join("m.csv"), &dir.path().join("j.csv"), window).unwrap()
}

#[test]
fn a_stream_gives_what_the_whole_has_for_rows_out_of_order() {
    for seed in 0..50_u64 {
        // The rows are out of order by less than the window, and many have equal times.
        let mut state = seed;
        let mut random = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let times: Vec<u64> = (0..300).map(|i| i / 3 + random(20)).collect();
        let dir = table(&times);
        let given = steps(&mut open(&dir, Window::Bounded));
        let whole = whole(&mut open(&dir, Window::All)).unwrap();
        let jobs = whole.arrivals.iter().map(|a| (a.at_ms, a.job.name.to_string()));
        assert_eq!(given, jobs.collect::<Vec<_>>(), "seed {seed}");
        let mut naive: Vec<(u64, String)> =
            times.iter().enumerate().map(|(i, at)| (at * 1000, format!("j{i}"))).collect();
        naive.sort_by_key(|(at, _)| *at);
        assert_eq!(given, naive, "seed {seed}");
    }
}

#[test]
fn a_row_beyond_the_window_is_told_and_the_whole_reader_takes_it() {
    let mut times: Vec<u64> = (1..order::WINDOW_ROWS as u64 + 2).collect();
    times.push(0);
    let dir = table(&times);
    let mut stream = open(&dir, Window::Bounded);
    let error = loop {
        match stream.next_event() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the late row was taken"),
            Err(error) => break error,
        }
    };
    let expected = "j.csv:8195: arrival_s: is out of order by more than 8192 rows: sort the rows \
         of the file by this column";
    assert_eq!(message::<()>(dir.path(), Err(error)), expected);
    assert_eq!(whole(&mut open(&dir, Window::All)).unwrap().arrivals[0].at_ms, 0);
}

#[test]
fn what_is_in_memory_is_a_stream_of_itself() {
    let job = |name: &str, at_ms| Arrival {
        at_ms,
        job: Job::batch(name, TaskGroup::new(1, Amounts::zero())),
        placed: Vec::new(),
        run: RunTime::Forever,
    };
    let dir = table(&[]);
    let mut workload = whole(&mut open(&dir, Window::All)).unwrap();
    workload.arrivals = vec![job("a", 0), job("b", 7)];
    let change = || MachineChange::Remove("m".into());
    workload.machine_events =
        [3, 7, 9].map(|at_ms| MachineEvent { at_ms, change: change() }).to_vec();
    let given = steps(&mut Held::new(workload, Path::new("x")));
    let names: Vec<(u64, &str)> = given.iter().map(|(at, name)| (*at, &**name)).collect();
    assert_eq!(names, [(0, "a"), (3, "m"), (7, "m"), (7, "b"), (9, "m")]);
}

#[test]
fn a_name_that_comes_twice_is_told_without_the_jobs() {
    let dir = table(&[]);
    let head = open(&dir, Window::All).head().clone();
    let job = |name: &str, line| JobEvent {
        arrival: Arrival {
            at_ms: 0,
            job: Job::batch(name, TaskGroup::new(1, Amounts::zero())),
            placed: Vec::new(),
            run: RunTime::Forever,
        },
        line: Some(line),
    };
    let mut names = Names::default();
    for (name, line) in [("a", 2), ("b", 3), ("", 4)] {
        names.admit(&job(name, line), &head.jobs_at).unwrap();
    }
    let error = names.admit(&job("b", 5), &head.jobs_at);
    let expected =
        "j.csv:5: name: \"b\" is already the name of the job in line 3: give each job its own name";
    assert_eq!(message::<()>(dir.path(), error), expected);
}
