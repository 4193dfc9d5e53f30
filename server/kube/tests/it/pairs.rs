//! An adapter with its workers beside a double of the API server, in one thread.

use crate::double::{Double, NODES, PODS};
use omega_kube::adapter::answer::{Answer, Found};
use omega_kube::adapter::{Adapter, Binding, Settings, State};
use omega_kube::profiles::KubeProfile;
use omega_kube::workers::{Collect, worker};
use omega_schedulers::Scheduler;
use omega_workload::kube::api::{Node, Pod};
use omega_workload::kube::live::Converter;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) struct Pair {
    pub(crate) server: Double,
    pub(crate) adapter: Adapter,
    pub(crate) workers: Vec<Scheduler>,
    pub(crate) timeout_ms: u64,
    now: u64,
    /// The number of changes that the watches have delivered.
    delivered: usize,
}

pub(crate) fn pod(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).expect("a pod")
}

pub(crate) fn node(value: &Value) -> Node {
    serde_json::from_value(value.clone()).expect("a node")
}

impl Pair {
    /// Nodes of 4 cores, `n0` and so on, and workers.
    pub(crate) fn new(nodes: u32, workers: u32) -> Pair {
        let mut server = Double::default();
        for index in 0..nodes {
            add_node(&mut server, index);
        }
        let objects: Vec<_> = server.all(NODES).map(|value| node(value)).collect();
        let converter = Converter::new(&objects, &[], &[]).expect("kinds");
        let names = BTreeSet::from(["omega".to_owned()]);
        let timeout_ms = 10_000;
        let settings = Settings { scheduler_names: names, request_timeout_ms: timeout_ms };
        let adapter = Adapter::new(converter, settings);
        let profile = KubeProfile::new("omega");
        let schedulers =
            (0..workers).map(|i| worker(adapter.cell(), &profile, i, workers).expect("a name"));
        let workers = schedulers.collect();
        Pair { server, adapter, workers, timeout_ms, now: 0, delivered: 0 }
    }

    pub(crate) fn create(&mut self, name: &str, milli: u32) {
        let spec = json!({"schedulerName": "omega", "containers": [
            {"name": "c", "resources": {"requests": {"cpu": format!("{milli}m")}}}]});
        self.create_with(name, &spec.to_string());
    }

    pub(crate) fn create_with(&mut self, name: &str, spec: &str) {
        let spec: Value = serde_json::from_str(spec).expect("JSON");
        let body = json!({"metadata": {"name": name, "labels": {"app": "t"}}, "spec": spec});
        self.server.call("POST", "/api/v1/namespaces/t/pods", &body);
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.server.call("DELETE", &format!("/api/v1/namespaces/t/pods/{name}"), &Value::Null);
    }

    pub(crate) fn bind_elsewhere(&mut self, name: &str, to: &str) {
        self.server.bind_elsewhere("t", name, to);
    }

    /// Delivers one event of the watches, if there is one.
    pub(crate) fn deliver_one(&mut self) -> bool {
        let Some(change) = self.server.changes.get(self.delivered) else { return false };
        self.delivered += 1;
        match (change.key.resource.as_str(), change.gone) {
            (PODS, false) => self.adapter.pod_changed(pod(&change.new)),
            (PODS, true) => self.adapter.pod_deleted(&pod(&change.new)),
            (NODES, false) => self.adapter.node_changed(&node(&change.new)),
            (_, true) => self.adapter.node_deleted(&change.key.name),
            (resource, false) => panic!("{resource}"),
        }
        true
    }

    pub(crate) fn deliver(&mut self) {
        while self.deliver_one() {}
    }

    /// Loses the watches, and lists instead.
    pub(crate) fn relist(&mut self) {
        self.delivered = self.server.changes.len();
        let nodes: Vec<_> = self.server.all(NODES).map(|value| node(value)).collect();
        self.adapter.nodes_listed(&nodes);
        let pods = self.server.all(PODS).map(|value| pod(value)).collect();
        self.adapter.pods_listed(pods, &self.server.version.to_string());
    }

    /// Steps one worker once.
    pub(crate) fn step(&mut self, worker: usize) -> (Vec<Binding>, bool) {
        self.now += 20_000_000_000;
        let mut collect = Collect::default();
        let cell = self.adapter.cell().clone();
        let step = self.workers[worker].step(&cell, self.now, &mut collect).expect("a cell");
        let bindings =
            collect.accepted.iter().filter_map(|a| self.adapter.decided(a.task, a.machine));
        (bindings.collect(), step.idle)
    }

    /// Steps all workers until they are idle.
    pub(crate) fn decide(&mut self) -> Vec<Binding> {
        let mut all = Vec::new();
        for worker in 0..self.workers.len() {
            for _ in 0..100 {
                let (bindings, idle) = self.step(worker);
                all.extend(bindings);
                if idle {
                    break;
                }
            }
        }
        all
    }

    pub(crate) fn send(&mut self, binding: &Binding) -> Answer {
        let body = json!({"metadata": {"name": binding.pod.name, "uid": binding.uid},
            "target": {"kind": "Node", "name": binding.node}});
        let path = format!("/api/v1/namespaces/t/pods/{}/binding", binding.pod.name);
        match self.server.call("POST", &path, &body).status {
            201 => Answer::Bound,
            404 | 409 => Answer::Conflict,
            _ => Answer::Failed,
        }
    }

    pub(crate) fn get(&mut self, binding: &Binding) -> Found {
        let path = format!("/api/v1/namespaces/t/pods/{}", binding.pod.name);
        let answer = self.server.call("GET", &path, &Value::Null);
        match answer.status {
            200 => Found::Pod(Box::new(pod(&answer.body))),
            _ => Found::Gone,
        }
    }

    /// Number of pods that are pending in the adapter.
    pub(crate) fn pending(&self) -> usize {
        self.adapter.count(|state| *state == State::Pending)
    }
}

pub(crate) fn add_node(server: &mut Double, index: u32) {
    let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let body = json!({"metadata": {"name": format!("n{index}"), "labels": {"topology.kubernetes.io/zone": "z"}},
        "status": {"allocatable": resources, "capacity": resources}});
    server.call("POST", "/api/v1/nodes", &body);
}
