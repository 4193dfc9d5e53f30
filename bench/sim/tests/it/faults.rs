//! Bad input: one line that names file, line, column and the error, and exit code 2.

use crate::support::{omega_sim, text};
use std::path::Path;

const HEADER: &str = "batch,service,prefill,machines,runtime_s,arch,n_batch_scheds,tjob_service,ttask_service,\
    tjob_batch,ttask_batch,pickiness,seed,scheduler_group,busy,useful,wasted,succ_tx,fail_tx,conflict_fraction,\
    nofit_attempts,retried_tx,abandoned,left_in_queue,wl_jobs_attempted,wl_jobs_fully,wl_tasks_placed,wait_mean";
const ROW: &str = "b,s,p,4,60.0,omega-fine-inc,1,0.1,0.005,0.1,0.005,0.0,1,Batch,\
    0.001750,0.001750,0.000000,1,0,0.00000,0,0,0,0,1,1,1,0.0000";
const JOBS: &str = "submit_s,num_tasks,duration_s,cpus_per_task,mem_gb_per_task\n";

fn gzip(content: &str) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content.as_bytes()).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Runs a reference file on these job lists (batch, service, prefill). Returns stdout, stderr and the exit code.
fn run(dir: &Path, reference: &str, lists: [&str; 3]) -> (String, String, Option<i32>) {
    let file = dir.join("ref.csv");
    std::fs::write(&file, reference).expect("written");
    for (name, jobs) in ["b", "s", "p"].iter().zip(lists) {
        std::fs::write(dir.join(format!("{name}.csv.gz")), gzip(jobs)).expect("written");
    }
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    let output = omega_sim(&["compat", "--ref", &path(&file), "--data", &path(dir)]);
    let plain = |bytes: &[u8]| text(bytes).replace(&format!("{}/", dir.display()), "");
    (plain(&output.stdout), plain(&output.stderr), output.status.code())
}

const LISTS: [&str; 3] = [
    "submit_s,num_tasks,duration_s,cpus_per_task,mem_gb_per_task\n1.0,1,5.0,1.0,1.0\n",
    "submit_s,num_tasks,duration_s,cpus_per_task,mem_gb_per_task\n",
    "submit_s,num_tasks,duration_s,cpus_per_task,mem_gb_per_task\n0.0,2,100.0,1.0,1.0\n",
];

fn check(reference: &str, lists: [&str; 3], expected: &str) {
    let dir = tempfile::tempdir().expect("a folder");
    let (printed, complained, code) = run(dir.path(), reference, lists);
    assert_eq!(complained, format!("omega-sim: {expected}\n"));
    assert_eq!((printed.as_str(), code), ("", Some(2)));
}

#[test]
fn a_small_file_of_any_names_and_columns_is_run() {
    let dir = tempfile::tempdir().expect("a folder");
    // The simulation ends at 60 s, after one decision of 0.105 s, and the last sample is at 61 s. So the busy share is
    // 0.105 / 61.
    let row = ROW.replace("0.001750", "0.001721");
    let (printed, complained, code) = run(dir.path(), &format!("{HEADER}\n{row}\n"), LISTS);
    assert_eq!(complained, "");
    assert_eq!(printed, "ref.csv: 1 of 1 rows equal (14 of 14 fields, 1 points)\n");
    assert_eq!(code, Some(0));
}

#[test]
fn a_bad_reference_file_is_told_in_one_line() {
    let cases = [
        (4, "many", "ref.csv:2: machines: \"many\" is not a number"),
        (4, "0", "ref.csv:2: machines: is 0: must be at least 1"),
        (4, "1e9", "ref.csv:2: machines: \"1e9\" is too large: must be at most 1048576"),
        (5, "-1", "ref.csv:2: runtime_s: \"-1\" is negative"),
        (5, "inf", "ref.csv:2: runtime_s: \"inf\" is not a finite number"),
        (5, "1e12", "ref.csv:2: runtime_s: 1000000000000 is too large: must be at most 316224000"),
        (
            6,
            "borg",
            "ref.csv:2: arch: there is no architecture \"borg\"; the architectures are: mono, mesos, \
             omega-fine-inc, \
             omega-fine-aon, omega-coarse-inc, omega-coarse-aon",
        ),
        (7, "0", "ref.csv:2: n_batch_scheds: is 0: must be at least 1"),
        (8, "", "ref.csv:2: tjob_service: is empty"),
        (12, "1.5", "ref.csv:2: pickiness: is 1.5: a share must be from 0 to 1"),
        (13, "x", "ref.csv:2: seed: \"x\" is not a whole number of 64 bits"),
        (
            14,
            "Web",
            "ref.csv:2: scheduler_group: \"Web\" is not a group: its name must end in Batch or \
             Service",
        ),
        (15, "busy", "ref.csv:2: busy: \"busy\" is not a number"),
        (
            1,
            "../b",
            "ref.csv:2: batch: \"../b\" has a slash: it must be the name of a file, \
             without a folder",
        ),
    ];
    for (column, value, expected) in cases {
        let mut fields: Vec<&str> = ROW.split(',').collect();
        fields[column - 1] = value;
        check(&format!("{HEADER}\n{}\n", fields.join(",")), LISTS, expected);
    }
    let crowd = ROW.replace(",4,60.0,omega-fine-inc,1,", ",1000000,60.0,omega-fine-inc,1000,");
    let too_many = "ref.csv:2: n_batch_scheds: 1000 schedulers on 1000000 machines are too many: \
         the product of the two numbers must be at most 268435456";
    check(&format!("{HEADER}\n{crowd}\n"), LISTS, too_many);
    let mono = ROW.replace("omega-fine-inc,1", "mono,3");
    let one = "ref.csv:2: n_batch_scheds: is 3: the monolithic architecture has one scheduler, so \
         it must be 1";
    check(&format!("{HEADER}\n{mono}\n"), LISTS, one);
    check(
        &format!("{HEADER}\n{ROW},7\n"),
        LISTS,
        "ref.csv:2: the row has 29 fields, but the header has 28: give each row as many fields as the header",
    );
    let nothing = "ref.csv: the file has a header and no rows: there is nothing to compare";
    check(&format!("{HEADER}\n"), LISTS, nothing);
    check("", LISTS, "ref.csv: the file is empty: its first line must be a header");
    let missing = HEADER.replace(",wait_mean", "");
    check(&format!("{missing}\n"), LISTS, "ref.csv:1: wait_mean: the column is missing");
}

#[test]
fn a_bad_job_list_is_told_in_one_line() {
    let cases = [
        ("1.0,0,5.0,1.0,1.0", "b.csv.gz:2: num_tasks: is 0: a job must have at least one task"),
        (
            "1.0,2000000,5.0,1.0,1.0",
            "b.csv.gz:2: num_tasks: \"2000000\" is too large: must be at most 1048576",
        ),
        ("soon,1,5.0,1.0,1.0", "b.csv.gz:2: submit_s: \"soon\" is not a number"),
        ("-1,1,5.0,1.0,1.0", "b.csv.gz:2: submit_s: \"-1\" is negative"),
        ("1.0,1,NaN,1.0,1.0", "b.csv.gz:2: duration_s: \"NaN\" is not a finite number"),
        ("1.0,1,5.0,,1.0", "b.csv.gz:2: cpus_per_task: is empty"),
        (
            "1.0,1,5.0,1.0",
            "b.csv.gz:2: the row has 4 fields, but the header has 5: give each row as many fields as the header",
        ),
    ];
    let reference = format!("{HEADER}\n{ROW}\n");
    for (row, expected) in cases {
        let list = format!("{JOBS}{row}\n");
        check(&reference, [&list, LISTS[1], LISTS[2]], expected);
    }
    let unnamed = "submit_s,num_tasks,duration_s,cpus_per_task\n";
    let missing = "s.csv.gz:1: mem_gb_per_task: the column is missing";
    check(&reference, [LISTS[0], unnamed, LISTS[2]], missing);
    let absent = ROW.replacen("b,s,p", "b,s,q", 1);
    let nowhere = "q.csv.gz: cannot be read: No such file or directory (os error 2)";
    check(&format!("{HEADER}\n{absent}\n"), LISTS, nowhere);
}
