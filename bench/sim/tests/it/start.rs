//! Tasks that run at the start: they keep their room, whatever other jobs are pending.

use crate::changes::{machine, remove, run, tasks, workload};
use crate::support::{command, text};
use omega_core::{Amounts, Job, Kinds, Machine, TaskGroup};
use omega_workload::{Arrival, RunTime, Workload};

/// A job of tasks of four cores, some of which run on machines at the start.
fn job(name: &str, count: u32, placed: &[(u32, u32)], run: RunTime) -> Arrival {
    let job = Job::batch(name, TaskGroup::new(count, Amounts::new([4000, 4 << 30])));
    Arrival { at_ms: 0, job, placed: placed.to_vec(), run }
}

fn used(workload: &Workload, end_s: f64) -> ([f64; 2], (usize, usize)) {
    let outcome = run(workload, end_s);
    ([outcome.report.cpu_used, outcome.report.memory_used], tasks(&outcome))
}

#[test]
fn no_pending_task_gets_the_room_of_a_running_one() {
    let (forever, ten) = (RunTime::Forever, RunTime::Same(10_000));
    for run in [forever.clone(), ten.clone()] {
        let jobs = vec![job("x", 1, &[], forever.clone()), job("y", 1, &[(0, 0)], run)];
        let workload = workload(&["a"], Vec::new(), jobs);
        assert_eq!(used(&workload, 5.0), ([1.0; 2], (1, 1)));
    }
    // A job with running and pending tasks, and finite jobs that are pending.
    let jobs = vec![
        job("w", 3, &[(1, 2)], forever),
        job("x", 1, &[], ten.clone()),
        job("y", 1, &[(0, 0)], ten.clone()),
        job("z", 1, &[(0, 1)], ten),
    ];
    let workload = workload(&["a", "b", "c"], Vec::new(), jobs);
    assert_eq!(used(&workload, 5.0), ([1.0; 2], (3, 3)));
}

#[test]
fn endless_tasks_that_found_no_room_at_the_start_get_what_others_free() {
    let jobs =
        vec![job("x", 1, &[], RunTime::Forever), job("y", 1, &[(0, 0)], RunTime::Same(10_000))];
    let workload = workload(&["a"], Vec::new(), jobs);
    let before = run(&workload, 9.0);
    assert_eq!((tasks(&before), before.report.jobs_at_start), ((1, 1), 0));
    let after = run(&workload, 12.0);
    assert_eq!(tasks(&after), (1, 0));
    let placed: Vec<f64> = after.jobs().map(|job| job.placed_s).collect();
    assert!((10.0..11.2).contains(&placed[0]) && placed[1] == 0.0, "{placed:?}");
}

#[test]
fn a_machine_that_leaves_at_the_start_takes_its_running_tasks_off() {
    for time in [RunTime::Forever, RunTime::Same(10_000)] {
        let jobs = vec![job("x", 1, &[], time.clone()), job("y", 1, &[(0, 0)], time)];
        let workload = workload(&["a", "b"], vec![remove(0, "a")], jobs);
        let (used, tasks) = used(&workload, 5.0);
        assert_eq!(tasks, (1, 1));
        assert!(used[0] <= 1.0, "{used:?}");
    }
}

#[test]
fn sums_over_the_largest_machines_do_not_overflow() {
    let full = [omega_core::limits::AMOUNT_MAX; 2];
    let machines: Vec<Machine> = (0..20_000)
        .map(|i| Machine { capacity: Amounts::new(full), ..machine(&format!("m{i}"), 4) })
        .collect();
    let base = workload(&[], Vec::new(), vec![job("x", 1, &[], RunTime::Forever)]);
    let outcome = run(&Workload { machines, kinds: Kinds::standard(), ..base }, 2.0);
    assert_eq!(tasks(&outcome), (1, 0));
    assert!(outcome.report.cpu_used < 1e-9, "{}", outcome.report.cpu_used);
}

#[test]
fn a_full_start_needs_another_machine_for_what_is_pending() {
    let node = |name: &str| {
        serde_json::json!({"kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}})
    };
    let pod = |name: &str, owner: &str, on: Option<&str>| {
        let owner = serde_json::json!([{"kind": "ReplicaSet", "name": owner, "uid": owner,
            "apiVersion": "apps/v1", "controller": true}]);
        let phase = if on.is_some() { "Running" } else { "Pending" };
        let mut pod = serde_json::json!({"kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owner},
            "spec": {"containers": [{"name": "c",
                "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}]},
            "status": {"phase": phase}});
        on.into_iter().for_each(|node| pod["spec"]["nodeName"] = node.into());
        pod
    };
    let items = serde_json::json!([
        node("n1"),
        node("n2"),
        pod("a-1", "a", Some("n1")),
        pod("a-2", "a", None),
        pod("b-1", "b", Some("n2")),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": items});
    std::fs::write(dir.path().join("cluster.json"), list.to_string()).unwrap();
    let words = ["capacity", "--placed", "100%", "--find", "machines", "--cluster", "cluster.json"];
    let said = command(&words).current_dir(dir.path()).output().expect("the command starts");
    let printed = text(&said.stdout);
    assert!(printed.contains("3 machines are enough, 2 are not"), "{printed}");
}
