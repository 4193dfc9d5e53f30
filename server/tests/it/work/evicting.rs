//! Important tasks that arrive late in a full cell are placed by evictions.

use crate::kit::outcome::run_in;
use crate::kit::process::folder;

/// Machines with forty cores in total.
const MACHINES: &str = "name,cpu,memory,count\nm,4,8Gi,10\n";

/// Jobs that fill the machines, forever or for a time, and jobs that arrive later.
const JOBS: &str = "name,kind,count,cpu,memory,arrival_s,run_s,precedence\n\
    filler,batch,20,1,1Gi,0,,0\nshort,batch,20,1,1Gi,0,100,1\nurgent,service,5,4,1Gi,50,,9\n";

const KUBE: &str = "[[profile]]\nname = \"service\"\nbase = \"kube\"\n[[profile]]\nname = \"batch\"\nbase = \"kube\"\n";

const TABLES: [&str; 4] = ["--machines", "m.csv", "--jobs", "j.csv"];

#[test]
fn late_tasks_of_high_precedence_take_a_full_cell() {
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", JOBS), ("kube.toml", KUBE)]);
    let kube = ["--profile", "kube.toml"];
    for (how, evicts) in [(&[][..], false), (&["--evict"], true), (&kube, true)] {
        let outcome = run_in(dir.path(), &[&TABLES[..], how].concat(), 1.0);
        let waits = |job: &str| {
            let unplaced = outcome.json["unplaced"].as_array().unwrap();
            unplaced.iter().any(|entry| entry["example"] == job)
        };
        assert_eq!(waits("urgent"), !evicts, "{how:?}\n{}", outcome.table);
        let evictions = outcome.number("evictions");
        if evicts {
            // Twenty cores are needed, and evicted tasks may evict other tasks.
            assert!(evictions >= 20, "{how:?}: {evictions}");
        } else {
            assert_eq!(evictions, 0);
        }
        let line = outcome.table.contains("\nevictions");
        assert_eq!(line, evicts, "{}", outcome.table);
    }
}

/// A pod of an application, which runs on a node or is pending.
fn pod(name: &str, app: &str, priority: i32, node: &str) -> String {
    format!(
        r#"{{"kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"{app}"}}}},
        "spec":{{"priority":{priority},"nodeName":"{node}",
        "containers":[{{"resources":{{"requests":{{"cpu":"3"}}}}}}]}}}}"#
    )
}

fn node(name: &str) -> String {
    format!(
        r#"{{"kind":"Node","metadata":{{"name":"{name}"}},
        "status":{{"allocatable":{{"cpu":"4","memory":"8Gi","pods":"10"}}}}}}"#
    )
}

#[test]
fn budgets_of_a_cluster_are_respected() {
    for protected in ["web", "db"] {
        let budget = format!(
            r#"{{"kind":"PodDisruptionBudget","metadata":{{"name":"b"}},"spec":
            {{"maxUnavailable":"0%","selector":{{"matchLabels":{{"app":"{protected}"}}}}}}}}"#
        );
        let items = [
            node("a"),
            node("b"),
            pod("web", "web", 0, "a"),
            pod("db", "db", 0, "b"),
            pod("urgent", "urgent", 5, ""),
            budget,
        ];
        let list = format!(r#"{{"kind":"List","items":[{}]}}"#, items.join(","));
        let dir = folder(&[("c.json", &list), ("kube.toml", KUBE)]);
        let files = ["--cluster", "c.json", "--profile", "kube.toml"];
        let outcome = run_in(dir.path(), &files, 1.0);
        assert_eq!((outcome.number("evictions"), outcome.number("pending")), (1, 1));
        let evicted = if protected == "web" { "default/db" } else { "default/web" };
        assert_eq!(outcome.json["unplaced"][0]["example"], evicted);
    }
}
