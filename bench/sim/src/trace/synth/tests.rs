//! Tests of generated traces, which are read back as any command reads them.

use super::*;
use crate::trace::testing::{azure, folder, google, omega_sim, openb, tables};
use omega_core::{KindId, Labels};
use omega_workload::public_data;
use omega_workload::stream::{Event, whole};

/// Options for a trace of the same size in this folder.
fn options(dir: &Path) -> SynthOptions {
    SynthOptions {
        out: dir.join("out"),
        form: Form::Plain,
        size: Size::Times(1000),
        load_permille: 1000,
        span_ms: None,
        seed: 7,
    }
}

/// A trace of ten machines and of a week of jobs, of which more arrive by day than by night.
fn week() -> tempfile::TempDir {
    let machines = "name,cpu,memory,zone,count\na,8,32Gi,z1,6\nb,16,64Gi,z2,4\n";
    let mut jobs = "name,count,cpu,memory,arrival_s,run_s,kind,tenant,require,gang\n".to_owned();
    jobs += "web,20,0.5,1Gi,0,,service,ann,zone=z1,\n";
    let mut state = 1_u64;
    let mut random = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for i in 0..4000 {
        // Three of four jobs arrive by day; the rest at any hour.
        let hour = if random(4) > 0 { 8 + random(12) } else { random(24) };
        let at_s = (random(7) * 24 + hour) * 3600 + 1 + random(3599);
        let gang = if i % 5 == 0 { "all" } else { "" };
        let size = 1 + i % 13 * (i % 3);
        jobs += &format!(
            "j{i},{size},0.{},{}Mi,{at_s},{},batch,u{},,{gang}\n",
            1 + i % 9,
            64 + i % 11,
            60 + i * 31 % 5000,
            i % 6
        );
    }
    folder(&[("m.csv", machines), ("j.csv", &sorted(&jobs))])
}

/// Rows of the table in order of time, without the header and the first row.
fn sorted(jobs: &str) -> String {
    let mut lines: Vec<&str> = jobs.lines().collect();
    lines[2..].sort_by_key(|line| line.split(',').nth(4).unwrap().parse::<u64>().unwrap());
    lines.join("\n") + "\n"
}

fn bytes(report: &Report) -> [Vec<u8>; 2] {
    [&report.machines_file, &report.jobs_file].map(|file| std::fs::read(file).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let dir = week();
    let make_in = |name: &str, seed| {
        let options = SynthOptions { out: dir.path().join(name), seed, ..options(dir.path()) };
        bytes(&make(&|| tables(&dir), &options).unwrap().0)
    };
    let first = make_in("a", 7);
    assert_eq!(first, make_in("b", 7));
    let other = make_in("c", 8);
    assert_eq!(first[0], other[0], "machines are not drawn");
    assert_ne!(first[1], other[1]);
}

#[test]
fn a_trace_of_the_same_size_has_the_same_distributions() {
    let dir = week();
    let (report, _) = make(&|| tables(&dir), &options(dir.path())).unwrap();
    for pair in &report.fit {
        assert!(pair.distance < 0.03, "{}: {}", pair.original.what, pair.distance);
    }
    let (a, b) = (&report.original, &report.made);
    assert_eq!(b.jobs.at_start, 1);
    assert_eq!((a.rules.gangs > 0, b.rules.machines), (true, 1));
    assert!(
        a.tenants.count == 7 && b.tenants.count == 7,
        "{} {}",
        a.tenants.count,
        b.tenants.count
    );
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.05;
    assert!(near(a.jobs_per_hour, b.jobs_per_hour), "{} {}", a.jobs_per_hour, b.jobs_per_hour);
    let share = |info: &Info| info.load[0].mean_share.unwrap();
    assert!(near(share(a), share(b)), "{} {}", share(a), share(b));
    let text = show(&report, &Kinds::standard());
    assert!(text.contains("jobs.csv") && text.contains("KS"), "{text}");
}

#[test]
fn the_curve_of_the_day_is_kept() {
    let dir = week();
    let options = SynthOptions { span_ms: Some(14 * 86_400_000), ..options(dir.path()) };
    let (report, _) = make(&|| tables(&dir), &options).unwrap();
    let mut by_hour = [0_u64; 24];
    let mut made = csv::open(&report.machines_file, &report.jobs_file, Window::Bounded).unwrap();
    while let Some(Event::Job(job)) = made.next_event().unwrap() {
        by_hour[(job.arrival.at_ms / 3_600_000 % 24) as usize] += 1;
    }
    let night: u64 = by_hour[2..6].iter().sum();
    let day: u64 = by_hour[12..16].iter().sum();
    assert!(day > 3 * night && night > 0, "{by_hour:?}");
    assert_eq!(report.made.span_ms / 86_400_000, 13, "it goes on to the end");
}

/// The trace has two empty days, and then a day with more jobs than are sampled, so the run after the empty days is
/// probably not drawn.
#[test]
fn a_trace_that_begins_late_keeps_its_empty_days() {
    let mut jobs = "name,count,cpu,memory,arrival_s,run_s\n".to_owned();
    jobs.extend((0..80_000_u64).map(|i| format!("j{i},1,0.1,1Gi,{},60\n", 172_800 + i)));
    let dir = folder(&[("m.csv", "name,cpu,memory,count\nm,8,32Gi,10\n"), ("j.csv", &jobs)]);
    for (hours, share) in [(None, 1.0), (Some(36), 0.5), (Some(144), 2.0)] {
        let options = SynthOptions {
            span_ms: hours.map(|hours| hours * 3_600_000),
            out: dir.path().join(format!("{hours:?}")),
            ..options(dir.path())
        };
        let (report, _) = make(&|| tables(&dir), &options).unwrap();
        let times = report.made.jobs.all as f64 / report.original.jobs.all as f64 / share;
        assert!((0.97..1.03).contains(&times), "{hours:?}: {times} times the jobs");
        let first = report.made.first_ms as f64 / report.original.first_ms as f64 / share;
        assert!((0.97..1.03).contains(&first), "{hours:?}: begins at {}", report.made.first_ms);
    }
}

#[test]
fn a_larger_cell_has_more_jobs_and_as_much_load_on_each_machine() {
    let dir = week();
    let options = SynthOptions { size: Size::Count(30), form: Form::Gzip, ..options(dir.path()) };
    let (report, _) = make(&|| tables(&dir), &options).unwrap();
    let (a, b) = (&report.original, &report.made);
    assert!(report.jobs_file.to_string_lossy().ends_with("jobs.csv.gz"));
    assert_eq!((b.machines.count, b.jobs.at_start), (30, 3));
    let times = b.jobs.all as f64 / a.jobs.all as f64;
    assert!((2.85..3.15).contains(&times), "{times}");
    let share = |info: &Info| info.load[0].mean_share.unwrap();
    assert!((share(b) / share(a) - 1.0).abs() < 0.05, "{} {}", share(a), share(b));
    // Machine sizes keep their frequencies and labels.
    let read =
        whole(&mut csv::open(&report.machines_file, &report.jobs_file, Window::All).unwrap())
            .unwrap();
    let large = read.machines.iter().filter(|m| m.capacity.get(KindId::CPU) == 16_000);
    let zone = Labels::new([("zone", "z2")]);
    assert_eq!(large.filter(|machine| machine.labels == zone).count(), 12);
    let twice = SynthOptions { out: dir.path().join("twice"), load_permille: 2000, ..options };
    let (report, _) = make(&|| tables(&dir), &twice).unwrap();
    let times = report.made.jobs.all as f64 / b.jobs.all as f64;
    assert!((1.9..2.1).contains(&times), "{times}");
}

#[test]
fn what_cannot_be_made_is_told_and_leaves_nothing() {
    let dir = week();
    let fault = |open: &dyn Fn() -> Result<Box<dyn Stream>, InputError>, options: &SynthOptions| {
        let error = make(open, options).err().unwrap().to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    };
    let no_machines = || {
        Ok(Box::new(omega_workload::azure::open(dir.path(), Default::default())?)
            as Box<dyn Stream>)
    };
    let row = "vm,arrival_s,batch,cores,mem_gb,dur_bin_lo_s,dur_bin_hi_s,censored\n";
    std::fs::write(dir.path().join("dev.csv.gz"), row).unwrap();
    let expected = "azure vm v1: has no machines: give them with --on, such as --on \
         2000,cpu=64,memory=256Gi";
    assert_eq!(fault(&no_machines, &options(dir.path())), expected);
    let many = SynthOptions { size: Size::Times(1_000_000_000), ..options(dir.path()) };
    assert_eq!(
        fault(&|| tables(&dir), &many),
        "10000000 machines are too many: a cell has at \
         most 1048576"
    );
    assert!(!dir.path().join("out").exists());

    std::fs::create_dir(dir.path().join("out")).unwrap();
    std::fs::write(dir.path().join("out/jobs.csv"), "mine").unwrap();
    let expected = "out/jobs.csv: already exists: name another folder with --out";
    assert_eq!(fault(&|| tables(&dir), &options(dir.path())), expected);
    assert_eq!(std::fs::read_to_string(dir.path().join("out/jobs.csv")).unwrap(), "mine");

    let file = SynthOptions { out: dir.path().join("m.csv"), ..options(dir.path()) };
    assert!(fault(&|| tables(&dir), &file).starts_with("m.csv: cannot be written: "));
    std::fs::write(dir.path().join("j.csv"), "name,count,cpu,memory\n").unwrap();
    let empty = SynthOptions { out: dir.path().join("empty"), ..options(dir.path()) };
    assert_eq!(
        fault(&|| tables(&dir), &empty),
        "j: has no jobs, so no similar trace can be \
         generated from it"
    );
}

/// Generates a trace from a real one, and compares all distributions, and the mean load within a tolerance.
fn check_real(open: &dyn Fn() -> Result<Box<dyn Stream>, InputError>, load: f64) {
    let dir = folder(&[]);
    let (report, _) = make(open, &options(dir.path())).unwrap();
    for pair in &report.fit {
        assert!(pair.distance < 0.03, "{}: {}", pair.original.what, pair.distance);
    }
    for (a, b) in report.original.load.iter().zip(&report.made.load) {
        let ratio = b.mean / a.mean;
        assert!((ratio - 1.0).abs() < load, "{}: {ratio} times the load", a.kind);
    }
}

#[test]
fn distances_to_the_real_traces_are_small() {
    if let Some(dir) = public_data("google2011") {
        check_real(&|| google(&dir), 0.35);
    }
    if let Some(dir) = public_data("openb") {
        check_real(&|| openb(&dir), 0.1);
    }
    if let Some(dir) = public_data("omega-sim") {
        check_real(&|| omega_sim(&dir), 0.1);
    }
    if let Some(dir) = public_data("azure-vm-v1") {
        check_real(&|| azure(&dir), 0.15);
    }
}

#[test]
fn a_trace_without_times_is_not_made_longer() {
    let mut jobs = "name,count,cpu,memory,arrival_s,run_s\n".to_owned();
    jobs.extend((1..=500).map(|i| format!("j{i},1,0.1,1Gi,0.{i:03},60\n")));
    let dir = folder(&[("m.csv", "name,cpu,memory,count\nm,8,32Gi,10\n"), ("j.csv", &jobs)]);
    let make_for = |hours: Option<u64>| {
        let span_ms = hours.map(|hours| hours * 3_600_000);
        let out = dir.path().join(format!("{hours:?}"));
        make(&|| tables(&dir), &SynthOptions { span_ms, out, ..options(dir.path()) })
    };
    assert!((400..600).contains(&make_for(None).unwrap().0.made.jobs.all));
    let why = make_for(Some(2)).unwrap_err().to_string();
    assert!(why.contains("all jobs arrive within 500 ms") && why.ends_with("--out-hours"), "{why}");
}
