//! Preemption by the program as a process: the calls that it makes, and restarts in the middle.

use crate::double::http::Server;
use crate::double::{Double, PODS, text};
use crate::process::{block_on, check, create, pod, server, start};
use crate::replay::transcript;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn ranked(name: &str, milli: u32, priority: u32) -> Value {
    let mut pod = pod(name, milli);
    pod["spec"]["priority"] = priority.into();
    pod
}

fn find<'a>(double: &'a Double, name: &str) -> Option<&'a Value> {
    double.all(PODS).find(|pod| text(pod, "/metadata/name") == name).map(|pod| &**pod)
}

fn is_bound(double: &Double, name: &str) -> bool {
    find(double, name).is_some_and(|pod| !text(pod, "/spec/nodeName").is_empty())
}

fn leaves(double: &Double, name: &str) -> bool {
    find(double, name).is_some_and(|pod| pod["metadata"].get("deletionTimestamp").is_some())
}

/// Reasons of Events about a pod.
fn reasons(double: &Double, name: &str) -> Vec<String> {
    let events = double.all("/apis/events.k8s.io/v1/events");
    let about = events.filter(|event| text(event, "/regarding/name") == name);
    about.map(|event| text(event, "/reason").to_owned()).collect()
}

/// The calls about pods, as `METHOD path`.
fn calls(server: &Server) -> Vec<String> {
    let calls = server.calls().into_iter().filter(|call| call.method != "GET");
    let calls = calls.filter(|call| call.path.contains("/pods/"));
    calls.map(|call| format!("{} {}", call.method, call.path)).collect()
}

#[test]
fn the_calls_are_those_of_kube_scheduler() {
    block_on(async {
        let server = server(1).await;
        create(&server, &ranked("low1", 3000, 10));
        let _program = start(&server, &[]);
        server.until(|double| is_bound(double, "low1")).await;
        create(&server, &ranked("high", 3000, 1000));
        server.until(|double| leaves(double, "low1")).await;
        server.until(|double| reasons(double, "low1").contains(&"Preempted".into())).await;
        let nominated = |double: &Double| {
            find(double, "high").is_some_and(|pod| text(pod, "/status/nominatedNodeName") == "n0")
        };
        server.until(nominated).await;
        {
            let double = server.lock();
            let low = find(&double, "low1").expect("its kubelet has not ended it");
            let conditions = low["status"]["conditions"].as_array().expect("conditions");
            let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget");
            let target = target.expect("the condition");
            assert_eq!(target["reason"], "PreemptionByScheduler");
            assert_eq!(target["message"], "omega: preempting to accommodate a higher priority pod");
        }
        server.with(|double| double.end("t", "low1"));
        let binding = "POST /api/v1/namespaces/t/pods/high/binding".to_owned();
        server.until(|_| calls(&server).contains(&binding)).await;
        check(&server);
        let calls = calls(&server);
        let at = |call: &str| calls.iter().position(|made| made == call);
        let pods = "/api/v1/namespaces/t/pods";
        let target = at(&format!("PATCH {pods}/low1/status")).expect("the condition of the victim");
        let deletion = at(&format!("DELETE {pods}/low1")).expect("the deletion");
        let binding = at(&binding).expect("the binding");
        assert!(target < deletion && deletion < binding, "{calls:?}");
        // The real kube-scheduler made exactly these calls about its two pods.
        let Some(real) = transcript("kube-scheduler.jsonl") else { return };
        let real =
            real.iter().filter(|call| (15..=21).contains(&call["seq"].as_u64().unwrap_or(0)));
        for call in real.filter(|call| text(call, "/uri").contains("/pods/")) {
            let verb = match text(call, "/verb") {
                "create" => "POST".to_owned(),
                verb => verb.to_uppercase(),
            };
            let call = format!("{verb} {}", text(call, "/uri"));
            assert!(calls.contains(&call), "{call} is not among {calls:?}");
        }
    });
}

#[test]
fn the_double_answers_a_recorded_preemption_as_the_real_server_did() {
    let Some(calls) = transcript("kube-scheduler.jsonl") else { return };
    let mut double = Double::default();
    let mut checked = BTreeMap::<&str, u32>::new();
    for call in calls.iter().filter(|call| text(call, "/uri").contains("/pods/")) {
        let (verb, uri) = (text(call, "/verb"), text(call, "/uri"));
        let name = uri.split('/').nth(6).expect("the name of a pod").to_owned();
        if find(&double, &name).is_none() {
            let of_response = text(call, "/response/metadata/uid");
            let of_request = text(call, "/request/metadata/uid");
            let uid = if of_response.is_empty() { of_request } else { of_response };
            let spec = call.pointer("/response/spec").cloned().unwrap_or_else(|| json!({}));
            let class = json!({"metadata": {"name": text(&spec, "/priorityClassName")}});
            double.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", &class);
            double.uids.push_back(uid.to_owned());
            let body = json!({"metadata": {"name": name}, "spec": spec});
            double.call("POST", "/api/v1/namespaces/t/pods", &body);
        }
        let method = match verb {
            "create" => "POST",
            "patch" => "PATCH",
            "delete" => "DELETE",
            verb => panic!("{verb}"),
        };
        let answer = double.call(method, uri, &call["request"]);
        assert_eq!(u64::from(answer.status), call["status"], "{uri}: {}", answer.body);
        let (ours, theirs) = (&answer.body, &call["response"]);
        assert_eq!(
            text(ours, "/status/nominatedNodeName"),
            text(theirs, "/status/nominatedNodeName"),
            "{uri}"
        );
        let period = "/metadata/deletionGracePeriodSeconds";
        assert_eq!(ours.pointer(period), theirs.pointer(period), "{uri}");
        let target = |pod: &Value| {
            let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
            conditions?.iter().find(|one| one["type"] == "DisruptionTarget").cloned()
        };
        assert_eq!(target(ours), target(theirs), "{uri}");
        *checked.entry(method).or_default() += 1;
    }
    assert!(checked["PATCH"] >= 6 && checked["DELETE"] == 1 && checked["POST"] >= 6, "{checked:?}");
}

#[test]
fn a_program_that_is_killed_in_the_middle_ends_what_it_began() {
    block_on(async {
        for moment in 0..4 {
            let server = server(1).await;
            create(&server, &ranked("low", 3000, 0));
            let mut program = start(&server, &[]);
            server.until(|double| is_bound(double, "low")).await;
            create(&server, &ranked("high", 3000, 1000));
            // The nomination and the deletion are requested at the same time. A program that is killed before the
            // nomination was written keeps no room.
            let is_nominated = |double: &Double| {
                find(double, "high")
                    .is_some_and(|pod| !text(pod, "/status/nominatedNodeName").is_empty())
            };
            server
                .until(|double| match moment {
                    0 => true,
                    1 => is_nominated(double),
                    2 => {
                        let low =
                            find(double, "low").map(|pod| pod["status"]["conditions"].to_string());
                        is_nominated(double)
                            && low.is_some_and(|conditions| conditions.contains("DisruptionTarget"))
                    }
                    _ => is_nominated(double) && leaves(double, "low"),
                })
                .await;
            program.0.kill().expect("it runs");
            let _next = start(&server, &[]);
            server.until(|double| leaves(double, "low")).await;
            // After a restart, the room of the victim is still kept for the pod, if the pod is nominated for it.
            let is_kept = is_nominated(&server.lock());
            assert!(is_kept || moment == 0, "a nomination stays");
            if is_kept {
                create(&server, &ranked("other", 3000, 0));
            }
            server.with(|double| double.end("t", "low"));
            server.until(|double| is_bound(double, "high")).await;
            check(&server);
            assert!(!is_bound(&server.lock(), "other"));
        }
    });
}

#[test]
fn without_preemption_nobody_is_deleted() {
    block_on(async {
        let server = server(1).await;
        create(&server, &ranked("low", 3000, 0));
        let _program = start(&server, &["--preemption", "off"]);
        server.until(|double| is_bound(double, "low")).await;
        create(&server, &ranked("high", 3000, 1000));
        server.until(|double| reasons(double, "high").contains(&"FailedScheduling".into())).await;
        assert!(!leaves(&server.lock(), "low"));
        assert!(calls(&server).iter().all(|call| !call.starts_with("DELETE")));
    });
}
