//! Bad input of `omega-sim trace`: one line on standard error, exit code 2, and no file changed.

use crate::support::{command, text};

/// Arguments, the invalid files, and the expected line of the error.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);

#[test]
fn bad_input_ends_with_one_line() {
    let cases: [Case; 6] = [
        (
            "info --trace swf --data a.swf",
            &[("a.swf", "; MaxProcs: 8\n1 0 -1 soon 4 -1 -1 4 -1 -1 1 7 -1 -1 -1 -1 -1 -1\n")],
            "a.swf:2: run time: \"soon\" is not a number",
        ),
        (
            "info --machines m.csv --jobs j.csv",
            &[("j.csv", "name,count,cpu,memory\nweb,0,1,1Gi\n")],
            "j.csv:2: count: is 0: a job must have at least one task: write at least 1, or remove the row",
        ),
        (
            "info --machines m.csv --jobs j.csv",
            &[("j.csv", "name,count,cpu,memory\nweb,1,1,1Gi\nweb,2,1,1Gi\n")],
            "j.csv:3: name: \"web\" is already the name of the job in line 2: give each job its own name",
        ),
        (
            "synth --machines m.csv --jobs j.csv --out out",
            &[("out/jobs.csv", "mine\n")],
            "out/jobs.csv: already exists: name another folder with --out",
        ),
        (
            "synth --machines m.csv --jobs j.csv --out out --out-load 0",
            &[],
            "invalid value '0' for '--out-load <xF>': must be a factor from x0.001 to x1000; see \
             omega-sim trace synth --help",
        ),
        (
            "synth --trace azure --data . --out out",
            &[(
                "dev.csv.gz",
                "vm,arrival_s,batch,cores,mem_gb,dur_bin_lo_s,dur_bin_hi_s,censored\n",
            )],
            "azure vm v1: has no machines: give them with --on, such as --on \
             2000,cpu=64,memory=256Gi",
        ),
    ];
    for (arguments, files, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let sound = [
            ("m.csv", "name,cpu,memory\nm1,4,8Gi\nm2,8,16Gi\n"),
            ("j.csv", "name,count,cpu,memory\nweb,2,1,1Gi\n"),
        ];
        for (name, content) in sound.iter().chain(files) {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        let words: Vec<&str> = std::iter::once("trace").chain(arguments.split(' ')).collect();
        let said = command(&words).current_dir(dir.path()).output().expect("the command starts");
        assert_eq!(
            (said.status.code(), text(&said.stdout), text(&said.stderr)),
            (Some(2), String::new(), format!("omega-sim: {expected}\n")),
            "{arguments}"
        );
        for (name, content) in files {
            assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), *content);
        }
    }
}

#[test]
fn a_log_whose_times_have_a_sum_above_64_bits_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let job = |i| format!("{i} 0 0 1000000000000000 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n");
    let run = |jobs: u64| {
        let log: String = (1..=jobs).map(job).collect();
        std::fs::write(dir.path().join("a.swf"), log).unwrap();
        let said = command(&["swf", "a.swf"]).current_dir(dir.path()).output();
        let said = said.expect("the command starts");
        (said.status.code(), text(&said.stderr))
    };
    let (code, complained) = run(18);
    assert_eq!(code, Some(0), "{complained}");
    let (code, complained) = run(21);
    assert_eq!(code, Some(2), "{complained}");
    assert!(complained.contains("a.swf: the run times are too large"), "{complained}");
}

#[test]
fn numbers_out_of_bounds_are_named() {
    let cases = [
        ("swf a.swf --cores 0", "must be at least 1"),
        ("swf a.swf --processors 0", "must be at least 1"),
        ("swf a.swf --depth -1", "invalid value '-1' for '--depth <N>'"),
        ("fgd --data d --among 0", "must be at least 1"),
        ("compat --ref r --data d --rows 0", "must be at least 1"),
        ("run --end -1", "invalid value '-1' for '--end <HOURS>'"),
        ("what-if --from c --load -1", "invalid value '-1' for '--load <TIMES>'"),
        ("capacity --placed -1%", "must be a share such as 99% or 0.99"),
        ("capacity --used -1%", "must be a share such as 99% or 0.99"),
        ("capacity --used 1 --precision -1", "must be a share such as 99% or 0.99"),
        ("trace synth --out o --out-load -2", "must be a factor from x0.001 to x1000"),
    ];
    for (arguments, expected) in cases {
        let words: Vec<&str> = arguments.split(' ').collect();
        let said = command(&words).output().expect("the command starts");
        let complained = text(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{arguments}: {complained}");
        assert!(complained.contains(expected), "{arguments}: {complained}");
    }
}

#[test]
fn a_log_of_centuries_is_refused_and_one_in_milliseconds_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let job = |submit_s: u64| format!("1 {submit_s} 0 30 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n");
    let run = |first_s, second_s| {
        std::fs::write(dir.path().join("a.swf"), job(first_s) + &job(second_s)).unwrap();
        let mut run = command(&["swf", "a.swf", "--policy", "omega"]);
        let said = run.current_dir(dir.path()).output().expect("the command starts");
        (said.status.code(), text(&said.stderr))
    };
    // The times are in milliseconds since 1970, and are read as seconds.
    let (code, complained) = run(1_700_000_000_000, 1_700_000_060_000);
    assert_eq!(code, Some(0), "{complained}");
    let (code, complained) = run(0, 100_000_000_000_000);
    assert_eq!(code, Some(2), "{complained}");
    assert!(complained.contains("the log spans more than 584 years, "), "{complained}");
}
