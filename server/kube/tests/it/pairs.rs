//! An adapter with its workers beside a double of the API server, in one thread.

use crate::double::{Double, Event, node, pod};
use omega_kube::adapter::answer::{Answer, Found};
use omega_kube::adapter::{Adapter, Binding, Settings, State};
use omega_kube::workers::{Collect, worker};
use omega_schedulers::Scheduler;
use omega_workload::kube::live::Converter;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) struct Pair {
    pub(crate) server: Double,
    pub(crate) adapter: Adapter,
    pub(crate) workers: Vec<Scheduler>,
    pub(crate) timeout_ms: u64,
    now: u64,
}

impl Pair {
    /// Nodes of 4 cores, `n0` and so on, and workers.
    pub(crate) fn new(nodes: u32, workers: u32) -> Pair {
        let mut server = Double::default();
        for index in 0..nodes {
            add_node(&mut server, index);
        }
        let objects: Vec<_> = server.nodes.values().map(node).collect();
        let converter = Converter::new(&objects, &[], &[]).expect("kinds");
        let names = BTreeSet::from(["omega".to_owned()]);
        let timeout_ms = 10_000;
        let settings = Settings { scheduler_names: names, request_timeout_ms: timeout_ms };
        let adapter = Adapter::new(converter, settings);
        let schedulers = (0..workers).map(|i| worker(adapter.cell(), i, workers).expect("a name"));
        let workers = schedulers.collect();
        Pair { server, adapter, workers, timeout_ms, now: 0 }
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
        let body = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": to}});
        self.server.call("POST", &format!("/api/v1/namespaces/t/pods/{name}/binding"), &body);
    }

    /// Delivers one event of the watches, if there is one.
    pub(crate) fn deliver_one(&mut self) -> bool {
        match self.server.events.pop_front() {
            Some(Event::Pod(value)) => self.adapter.pod_changed(pod(&value)),
            Some(Event::PodGone(value)) => self.adapter.pod_deleted(&pod(&value)),
            Some(Event::Node(value)) => self.adapter.node_changed(&node(&value)),
            Some(Event::NodeGone(name)) => self.adapter.node_deleted(&name),
            None => return false,
        }
        true
    }

    pub(crate) fn deliver(&mut self) {
        while self.deliver_one() {}
    }

    /// Loses the watches, and lists instead.
    pub(crate) fn relist(&mut self) {
        self.server.events.clear();
        let nodes: Vec<_> = self.server.nodes.values().map(node).collect();
        self.adapter.nodes_listed(&nodes);
        let pods = self.server.pods.values().map(pod).collect();
        self.adapter.pods_listed(pods, &self.server.version.to_string());
    }

    /// Steps one worker once.
    pub(crate) fn step(&mut self, worker: usize) -> (Vec<Binding>, bool) {
        self.now += 20_000_000_000;
        let mut collect = Collect::default();
        let cell = self.adapter.cell().clone();
        let step = self.workers[worker].step(&cell, self.now, &mut collect).expect("a cell");
        let bindings = collect.0.iter().filter_map(|a| self.adapter.decided(a.task, a.machine));
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
