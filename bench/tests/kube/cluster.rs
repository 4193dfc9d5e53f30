//! Small clusters, and the example of the documentation.

use crate::{list, node, one, pod, read};
use omega_core::limits::AMOUNT_MAX;
use omega_core::{Amounts, JobKind, KindId, Precedence, Preemption};
use omega_run::{RunOptions, run};
use omega_schedulers::config::{Profiles, Registry};
use omega_schedulers::disruption::{Keep, Share};
use omega_workload::{Arrival, RunTime, Workload};
use std::io::Write;
use std::path::Path;

/// Describes a job in one line: its name, scheduler, precedence, and the machines of each group, with `-` for a pending
/// task.
fn describe(arrival: &Arrival) -> String {
    let job = &arrival.job;
    let mut line = format!("{} {} {}", job.name, job.scheduler, job.precedence);
    let mut first = 0;
    for group in &job.groups {
        let machine = |task: u32| arrival.placed.iter().find(|(number, _)| *number == task);
        let tasks = (first..first + group.count).map(|task| match machine(task) {
            Some((_, machine)) => machine.to_string(),
            None => "-".to_owned(),
        });
        line += &format!(" [{}]", tasks.collect::<Vec<_>>().join(" "));
        first += group.count;
    }
    line
}

fn jobs(workload: &Workload) -> Vec<String> {
    workload.arrivals.iter().map(describe).collect()
}

#[test]
fn the_example_of_the_documentation() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cluster.json");
    let workload = crate::load(&file).unwrap();
    assert_eq!(workload.name, "Kubernetes cluster of cluster.json");
    assert_eq!(workload.machines.len(), 6);
    let kinds: Vec<&str> = workload.kinds.iter().map(|(_, kind)| kind.name.as_str()).collect();
    assert_eq!(
        kinds,
        ["cpu", "memory", "disk", "pods", "nvidia.com/gpu", "cpu (nominal)", "memory (nominal)"]
    );
    assert_eq!(
        jobs(&workload),
        [
            "kube-system/node-agent service p2000001000 [0] [1] [2] [3] [4] [5]",
            "shop/web-6d4cf56db6 service p0 [0 1 2 4 -]",
            "shop/cache service p1000 [3 0 -]",
            "shop/gateway-5c8b7d9f4 service p1000 [1 4]",
            "ml/train batch p0 [5 -]",
            "ml/notebook service p0 [-]",
            "shop/report-29384220 batch p0 [-]",
        ]
    );
    assert_eq!(
        workload.notes,
        [
            "left out, because finished: 1 pod",
            "no pod of a DaemonSet is added for a machine that joins later: 6 pods",
            "persistent volume claims are ignored, because the file has none: get it with \
             `kubectl get nodes,pods,pvc,pv,sc,csinodes -A -o json`: 3 pods",
        ]
    );
    // The request is the maximum: the init container needs more processor time than the container, which needs more
    // memory.
    let web = &workload.arrivals[1].job.groups[0];
    assert_eq!(web.request, Amounts::new([2000, 2 << 30, 0, 1, 0, 2000, 2 << 30]));
    let largest = workload.machines.iter().map(|m| m.capacity.get(KindId::CPU)).max();
    assert!(largest < Some(workload.arrivals[5].job.groups[0].request.get(KindId::CPU)));
}

#[test]
fn a_compressed_file_a_stream_and_an_array_say_the_same() {
    let nodes = list(&[&node("a"), &node("b")]);
    let pods = r#"{"kind":"PodList","items":[{"metadata":{"name":"p"}}]}"#;
    let stream = format!("\u{feff}{nodes}\n{pods}\n");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(stream.as_bytes()).unwrap();
    let array = format!("[{nodes},{pods}]");
    for content in [stream.into_bytes(), gzip.finish().unwrap(), array.into_bytes()] {
        let workload = read(content).unwrap();
        assert_eq!(workload.machines.len(), 2);
        assert_eq!(jobs(&workload), ["default/p service p0 [-]"]);
        assert_eq!(workload.notes, [""; 0]);
    }
}

#[test]
fn a_node_is_a_machine() {
    let node = r#"{"kind":"Node","metadata":{"name":"a","labels":{"zone":"z"}},
        "spec":{"unschedulable":true,"taints":[{"key":"k","value":"v","effect":"NoExecute"}]},
        "status":{"capacity":{"cpu":"3500m","memory":"1.5Gi","ephemeral-storage":"1e9","pods":110,
        "hugepages-2Mi":"4Mi","example.com/none":"0"},"images":[{"names":["x:1","x@sha"]}]}}"#;
    let workload = read(list(&[node, super::node("b").as_str()])).unwrap();
    let machine = &workload.machines[0];
    assert_eq!(&*machine.name, "a");
    assert_eq!(
        machine.capacity,
        Amounts::new([3500, 3 << 29, 1_000_000_000, 110, 4 << 20, AMOUNT_MAX, AMOUNT_MAX])
    );
    assert_eq!(workload.kinds.count(), 7);
    assert_eq!(workload.kinds.display(KindId(4), 4 << 20), "4.0 MiB");
    assert_eq!(machine.labels.get("zone").map(|zone| &**zone), Some("z"));
    let taints: Vec<String> =
        machine.taints.iter().map(|t| format!("{}={}:{:?}", t.key, t.value, t.effect)).collect();
    assert_eq!(taints, ["k=v:NoExecute", "node.kubernetes.io/unschedulable=:NoSchedule"]);
    assert_eq!(machine.images.len(), 2);
    assert_eq!(
        workload.notes,
        ["the file has no pods: it should be the output of `kubectl get \
         nodes,pods -A -o json`"]
    );
}

#[test]
fn resources_that_nobody_asks_for_make_room_first() {
    let kinds: Vec<String> = (0..13).map(|i| format!(r#""example.com/r{i:02}":"1""#)).collect();
    let node = format!(
        r#"{{"kind":"Node","metadata":{{"name":"a"}},"status":{{"allocatable":{{{}}}}}}}"#,
        kinds.join(",")
    );
    let asks = r#""containers":[{"resources":{"limits":{"example.com/r12":"1"}}}]"#;
    let workload = read(list(&[&node, &pod("p", asks)])).unwrap();
    assert_eq!(workload.kinds.count(), 16);
    assert_eq!(workload.kinds.by_name("example.com/r12"), Some(KindId(4)));
    // The nominal kinds, used for scores, are last. A container without requests has small default amounts of these.
    let request = [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 200 << 20];
    assert_eq!(workload.arrivals[0].job.groups[0].request, Amounts::new(request));
    assert_eq!(
        workload.notes,
        ["3 resource kinds left out, because a cell counts a limited number of kinds and no pod \
             requests these: \
          example.com/r09, example.com/r10, example.com/r11"]
    );
}

#[test]
fn amounts_beyond_the_largest_are_capped() {
    let workload = one(r#""overhead":{"memory":"2Pi"}"#);
    let request = &workload.arrivals[0].job.groups[0].request;
    assert_eq!(request.get(KindId::MEMORY), 1 << 50);
    assert_eq!(workload.notes, ["an amount above 2^50 is counted as 2^50: 1 pod"]);
}

/// The CPU request in thousandths of a core of a running pod with this spec and status.
fn resized(spec: &str, status: &str) -> u64 {
    let pod = pod("p", &format!(r#""nodeName":"a",{spec}"#));
    let pod = pod.replace(r#""spec""#, &format!(r#""status":{{{status}}},"spec""#));
    let workload = read(list(&[&node("a"), &pod])).unwrap();
    workload.arrivals[0].job.groups[0].request.get(KindId::CPU)
}

#[test]
fn of_a_pod_that_is_resized_the_largest_amounts_count() {
    let cpu = |amount: &str| format!(r#"{{"requests":{{"cpu":"{amount}"}}}}"#);
    let container = |name: &str, amount: &str, more: &str| {
        format!(r#"{{"name":"{name}","resources":{}{more}}}"#, cpu(amount))
    };
    let spec = format!(r#""containers":[{},{}]"#, container("x", "1", ""), container("y", "1", ""));
    let of_x = |amount: &str, more: &str| {
        format!(r#""containerStatuses":[{}]"#, container("x", amount, more))
    };
    let pending = |reason: &str| {
        format!(
            r#","conditions":[{{"type":"Ready"}},{{"type":"PodResizePending","reason":"{reason}"}}]"#
        )
    };
    assert_eq!(resized(&spec, ""), 2000);
    // The specified amount of x is 1 core. The node still uses 3 cores for it, and has allocated 2.
    let shrinks = of_x("3", r#","allocatedResources":{"cpu":"2"}"#);
    assert_eq!(resized(&spec, &shrinks), 4000);
    // The specified amount of x is 1 core, of which the node cannot give more than half.
    assert_eq!(resized(&spec, &of_x("500m", "")), 2000);
    assert_eq!(resized(&spec, &format!("{}{}", of_x("500m", ""), pending("Deferred"))), 2000);
    assert_eq!(resized(&spec, &format!("{}{}", of_x("500m", ""), pending("Infeasible"))), 1500);
    let sidecar = format!(
        r#"{spec},"initContainers":[{}]"#,
        container("s", "1", r#","restartPolicy":"Always""#)
    );
    let status = format!(r#""initContainerStatuses":[{}]"#, container("s", "4", ""));
    assert_eq!(resized(&sidecar, &status), 6000);
    // The status of the whole pod includes the overhead.
    let whole = format!(r#"{spec},"resources":{},"overhead":{{"cpu":"1"}}"#, cpu("5"));
    let status = format!(r#""resources":{},"allocatedResources":{{"cpu":"7"}}"#, cpu("8"));
    assert_eq!(resized(&whole, &status), 8000);
    assert_eq!(resized(&whole, &format!(r#""resources":{}"#, cpu("4"))), 6000);
    assert_eq!(
        resized(&whole, &format!(r#""resources":{}{}"#, cpu("4"), pending("Infeasible"))),
        4000
    );
}

/// The note on pods whose class is not in the file.
const UNKNOWN_PRIORITY: &str = "the priority is taken as 0, because the file does not have the pod's PriorityClass: \
                                get it with `kubectl get nodes,pods,priorityclasses -A -o json`: 1 pod";

#[test]
fn a_class_gives_the_priority_that_a_pod_does_not_have() {
    let class = |name: &str, value: i32, more: &str| {
        format!(
            r#"{{"kind":"PriorityClass","metadata":{{"name":"{name}"}},"value":{value}{more}}}"#
        )
    };
    let items = [
        node("a"),
        class("high", 70, r#","preemptionPolicy":"Never""#),
        class("usual", 7, r#","globalDefault":true"#),
        pod("a", r#""priorityClassName":"high""#),
        pod("b", r#""priorityClassName":"high","priority":60"#),
        pod("c", r#""priorityClassName":"system-node-critical""#),
        pod("d", r#""priorityClassName":"system-cluster-critical","priority":null"#),
        pod("e", r#""priorityClassName":"other""#),
        pod("f", ""),
        pod("g", r#""priorityClassName":"other","priority":0"#),
    ];
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let workload = read(list(&items)).unwrap();
    let priorities =
        workload.arrivals.iter().map(|a| (&*a.job.name, a.job.precedence.0, a.job.preemption));
    assert_eq!(
        priorities.collect::<Vec<_>>(),
        [
            ("default/c", 2_000_001_000, Preemption::LowerPrecedence),
            ("default/d", 2_000_000_000, Preemption::LowerPrecedence),
            ("default/a", 70, Preemption::Never),
            ("default/b", 60, Preemption::LowerPrecedence),
            ("default/f", 7, Preemption::LowerPrecedence),
            ("default/e", 0, Preemption::LowerPrecedence),
            ("default/g", 0, Preemption::LowerPrecedence),
        ]
    );
    assert_eq!(workload.notes, [UNKNOWN_PRIORITY]);
}

#[test]
fn pending_pods_are_in_the_order_of_the_queue() {
    let pod = |name: &str, priority: i32, created: &str| {
        owned(
            &format!(r#""name":"{name}","creationTimestamp":"{created}""#),
            &format!(r#""priority":{priority}"#),
        )
    };
    let [old, new] = ["2020-01-01T00:00:00Z", "2024-01-01T00:00:00Z"];
    let items = [
        node("a"),
        pod("new", 5, new),
        pod("undated", 5, ""),
        pod("old-1", 5, old),
        pod("low", 4, old),
        pod("old-2", 5, old),
        pod("urgent", 6, new),
    ];
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let workload = read(list(&items)).unwrap();
    let names: Vec<&str> =
        workload.arrivals.iter().map(|a| &a.job.name["default/".len()..]).collect();
    assert_eq!(names, ["urgent", "old-1", "old-2", "new", "undated", "low"]);
}

#[test]
fn warnings_of_kubectl_and_null_lists_are_skipped() {
    let text = format!(
        "Warning: v1 Endpoints is deprecated\n\nWarning: x\n{}\n{}\nWarning: y\n{}\nWarning: z",
        list(&[&node("a")]),
        r#"{"kind":"PodList","items":null}"#,
        list(&[&pod("p", "")]),
    );
    let workload = read(text).unwrap();
    assert_eq!((workload.machines.len(), workload.arrivals.len()), (1, 1));
}

#[test]
fn what_is_not_understood_is_noted_once_per_kind() {
    let odd = r#""volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}},
        {"name":"h","hostPath":{"path":"/"}},{"name":"d","rbd":{}}],"resourceClaims":[{"name":"r"}],
        "runtimeClassName":"sandbox","schedulerName":"mine",
        "schedulingGroup":{"podGroupName":"g"}"#;
    let items = [node("a"), pod("p", odd), pod("q", odd)];
    let service = r#"{"kind":"Service","metadata":{"name":"s"}}"#;
    let items: Vec<&str> = items.iter().map(String::as_str).chain([service]).collect();
    assert_eq!(
        read(list(&items)).unwrap().notes,
        [
            "ignored items of kind Service, which omega does not read: 1",
            "a group of pods that start together is ignored: 2 pods",
            "a volume on a cloud disk is ignored: 2 pods",
            "persistent volume claims are ignored, because the file has none: get it with \
             `kubectl get nodes,pods,pvc,pv,sc,csinodes -A -o json`: 2 pods",
            "resource claims (DRA) are ignored: 2 pods",
            "spec.schedulerName is ignored: 2 pods",
            "the runtime class is ignored, apart from the fields in the pod itself: 2 pods",
        ]
    );
}

/// A pod with this metadata and this spec.
fn owned(metadata: &str, spec: &str) -> String {
    format!(r#"{{"kind":"Pod","metadata":{{{metadata}}},"spec":{{{spec}}}}}"#)
}

#[test]
fn a_cluster_of_three_nodes() {
    let owner = |name: &str, kind: &str, labels: &str| {
        format!(
            r#""name":"{name}","namespace":"n","labels":{{{labels}}},"ownerReferences":
            [{{"kind":"{kind}","name":"o","controller":true}}]"#
        )
    };
    let hash = r#""app":"x","pod-template-hash":"1""#;
    let seen = r#""affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":
        {"apps.kubernetes.io/pod-index":"1"}}}]}}"#;
    let items = [
        node("a"),
        node("b"),
        node("c"),
        owned(&owner("web-1", "ReplicaSet", hash), r#""nodeName":"b","priority":7"#),
        owned(&owner("web-2", "ReplicaSet", hash), r#""priority":7"#),
        owned(&owner("set-0", "StatefulSet", r#""apps.kubernetes.io/pod-index":"0""#), ""),
        owned(&owner("set-1", "StatefulSet", r#""apps.kubernetes.io/pod-index":"1""#), ""),
        owned(&owner("job-1", "Job", ""), r#""nodeName":"c""#),
        owned(&owner("static", "Node", ""), r#""nodeName":"a""#),
        owned(&owner("ray", "RayCluster", ""), r#""restartPolicy":"Never""#),
        owned(r#""name":"gated""#, r#""schedulingGates":[{"name":"g"}]"#),
        owned(r#""name":"far""#, r#""nodeName":"elsewhere""#),
        owned(r#""name":"gone","deletionTimestamp":"2030-01-01T00:00:00Z""#, ""),
        r#"{"kind":"Pod","metadata":{"name":"done"},"status":{"phase":"Failed"}}"#.to_owned(),
        owned(r#""name":"alone""#, seen),
    ];
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let workload = read(list(&items)).unwrap();
    assert_eq!(
        jobs(&workload),
        [
            "n/o service p7 [1 -]",
            "n/o#2 batch p0 [2]",
            "n/static service p0 [0]",
            "n/o#3 service p0 [-] [-]",
            "n/o#4 batch p0 [-]",
            "default/alone service p0 [-]",
        ]
    );
    let web = &workload.arrivals[0];
    assert_eq!(web.job.kind, JobKind::Service);
    assert_eq!(web.job.precedence, Precedence(7));
    assert_eq!(&*web.job.tenant, "n");
    assert_eq!((web.at_ms, web.run.clone()), (0, RunTime::Forever));
    assert_eq!(web.job.groups[0].labels, omega_core::Labels::new([("app", "x")]));
    assert_eq!(
        workload.notes,
        [
            "left out, because deleted before running: 1 pod",
            "left out, because finished: 1 pod",
            "left out, because of scheduling gates: 1 pod",
            "left out, because the node is not in the file: 1 pod",
        ]
    );
}

#[test]
fn a_job_of_too_many_groups_goes_on_in_another() {
    let nodes = [node("a")];
    let pods = (0..257).map(|i| {
        owned(
            &format!(
                r#""name":"p{i}","ownerReferences":[{{"kind":"Job","name":"j","controller":true}}]"#
            ),
            &format!(r#""nodeSelector":{{"k":"{i}"}}"#),
        )
    });
    let items: Vec<String> = nodes.into_iter().chain(pods).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let workload = read(list(&items)).unwrap();
    let counts: Vec<(&str, usize)> =
        workload.arrivals.iter().map(|a| (&*a.job.name, a.job.groups.len())).collect();
    assert_eq!(counts, [("default/j", 256), ("default/j#2", 1)]);
}

#[test]
fn disruption_budgets_are_carried_over() {
    let budget = |namespace: &str, spec: &str| {
        format!(
            r#"{{"kind":"PodDisruptionBudget","metadata":{{"name":"b","namespace":"{namespace}"}},
            "spec":{{{spec}}}}}"#
        )
    };
    let web = r#""selector":{"matchLabels":{"pod-template-hash":"7"}}"#;
    let labels = r#""name":"p","labels":{"pod-template-hash":"7","controller-uid":"x"}"#;
    let items = [
        node("a"),
        owned(labels, ""),
        budget("", &format!(r#"{web},"minAvailable":2"#)),
        budget("shop", &format!(r#"{web},"maxUnavailable":"30%""#)),
        budget("shop", web),
        budget("shop", r#""selector":{},"minAvailable":1"#),
        budget("shop", r#""selector":null,"minAvailable":1"#),
    ];
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let workload = read(list(&items)).unwrap();
    let found: Vec<_> = workload.budgets.iter().map(|b| (&*b.set.tenant, b.keep)).collect();
    let expected = [
        ("default", Keep::MinAvailable(Share::Tasks(2))),
        ("shop", Keep::MaxUnavailable(Share::Percent(30))),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        workload.notes,
        [
            "disruption budgets with an empty selector, for all pods of a namespace, are ignored, as \
             kube-scheduler does when it preempts: 1",
            "disruption budgets that protect no pod, because they have no selector or no bound: 2"
        ]
    );
    // Labels that only identify pods are dropped, unless a disruption budget selects pods by them.
    let labels = &workload.arrivals[0].job.groups[0].labels;
    assert!(labels.get("pod-template-hash").is_some() && labels.get("controller-uid").is_none());
    for bound in ["-1", r#""many""#] {
        let items = [node("a"), budget("", &format!(r#"{web},"minAvailable":{bound}"#))];
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let why = read(list(&items)).unwrap_err();
        assert!(why.contains("spec.minAvailable"), "{why}");
    }
}

/// The names of jobs, in their order, for pods that have run or been pending since these times.
fn order(pods: &[(&str, &str, &str)]) -> Vec<String> {
    let pods = pods.iter().map(|(name, on, started)| {
        let status = format!(r#""status":{{"startTime":"{started}"}},"spec""#);
        pod(name, &format!(r#""nodeName":"{on}""#)).replace(r#""spec""#, &status)
    });
    let items: Vec<String> = [node("a")].into_iter().chain(pods).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let workload = read(list(&items)).unwrap();
    workload.arrivals.iter().map(|arrival| arrival.job.name.to_string()).collect()
}

#[test]
fn jobs_are_numbered_by_the_age_of_their_pods() {
    let [old, new] = ["2020-01-01T00:00:00Z", "2024-01-01T00:00:00Z"];
    let pods = [("waits", "", old), ("some", "a", ""), ("new", "a", new), ("old", "a", old)];
    let expected = ["default/old", "default/new", "default/some", "default/waits"];
    assert_eq!(order(&pods), expected);
    assert_eq!(order(&pods[..2]), ["default/some", "default/waits"], "bound pods come first");
}

#[test]
fn of_equal_victims_the_younger_goes() {
    let run_of = |pod: &str, on: &str, started: &str| {
        let status = format!(r#""status":{{"phase":"Running","startTime":"{started}"}},"spec""#);
        let spec = format!(
            r#""nodeName":"{on}","containers":[{{"resources":{{"requests":{{"cpu":"3"}}}}}}]"#
        );
        crate::pod(pod, &spec).replace(r#""spec""#, &status)
    };
    let urgent = pod("x", r#""priority":10,"containers":[{"resources":{"requests":{"cpu":"4"}}}]"#);
    let [old, new] = ["2020-01-01T00:00:00Z", "2024-01-01T00:00:00Z"];
    for (a, b, evicted) in [(old, new, "default/rb"), (new, old, "default/ra")] {
        let items =
            [node("a"), node("b"), run_of("ra", "a", a), run_of("rb", "b", b), urgent.clone()];
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let workload = read(list(&items)).unwrap();
        let profile = "[[profile]]\nname = 'service'\nbase = 'kube'\n";
        let profiles = Profiles::parse(profile, &Registry::built_in()).unwrap();
        let options = RunOptions { profiles, ..RunOptions::default() };
        let report = run(workload, &options, &mut |_| {}).unwrap();
        let waits: Vec<&str> = report.unplaced.iter().map(|jobs| &*jobs.example).collect();
        assert_eq!((report.evictions, &waits[..]), (1, &[evicted][..]));
    }
}
