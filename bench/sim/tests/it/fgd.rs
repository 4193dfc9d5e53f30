//! `omega-sim fgd --check` on folders with and without published means.

use crate::support::{command, text};

const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,64000,262144,4,T4\n";
const TASKS: &str =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,500\nb,1000,1024,1,1000\n";

/// Runs `omega-sim fgd --check` for one policy on the list `mine`, with this table of published means. Returns exit
/// code and standard error.
fn check(table: Option<&str>, policy: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &str| {
        std::fs::write(dir.path().join(name), content).expect("written")
    };
    write("openb_node_list_gpu_node.csv", MACHINES);
    write("openb_pod_list_mine.csv", TASKS);
    table.into_iter().for_each(|table| write("published_fgd_table.csv", table));
    let words =
        ["fgd", "--data", ".", "--list", "mine", "--seeds", "1", "--check", "--policy", policy];
    let said = command(&words).current_dir(dir.path()).output().expect("the command starts");
    (said.status.code(), text(&said.stderr))
}

/// A table with the same mean at all loads, for the best-fit policy on this list.
fn table(list: &str, mean: u32) -> String {
    let loads = [80, 90, 100, 110, 120, 130];
    let names: Vec<String> = loads.iter().map(|load| format!("alloc{load}_mean")).collect();
    let means = vec![mean.to_string(); loads.len()].join(",");
    format!("workload,policy,{}\nopenb_pod_list_{list},05-BestFit,{means}\n", names.join(","))
}

#[test]
fn a_check_without_published_means_fails() {
    let lacks =
        |what: &str| format!("--check: the table of published means has no row for {what}\n");
    let lacking = (Some(1), lacks("mine under best-fit"));
    assert_eq!(check(None, "best-fit"), lacking);
    assert_eq!(check(Some(&table("other", 50)), "best-fit"), lacking);
    assert_eq!(check(Some(&table("mine", 50)), "fgd"), (Some(1), lacks("mine under fgd")));
    assert_eq!(check(None, "fgd-ahead"), (Some(1), lacks("these policies")));
}

#[test]
fn a_check_compares_the_means_of_its_table() {
    let (code, said) = check(Some(&table("mine", 1)), "best-fit");
    assert_eq!((code, said.contains("further from the published ones")), (Some(1), true), "{said}");
}
