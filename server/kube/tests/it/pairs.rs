//! An adapter with its workers and a double of the API server, in one thread.

use crate::double::{
    BUDGETS, CLAIMS, Double, GROUPS, NAMESPACES, NODES, PODS, STORAGE, VOLUMES, WORKLOADS,
};
use omega_core::{JobId, MachineId};
use omega_kube::adapter::bind_reply::{BindReply, PodRead};
use omega_kube::adapter::effects::{
    Action, ClaimChoice, Done, Eviction, GroupCondition, Nominee, Repair,
};
use omega_kube::adapter::preempt::{Proposal, Verdict};
use omega_kube::adapter::storage::{Stored, StoredKind};
use omega_kube::adapter::{Adapter, Binding, Effect, PodName, Settings, State};
use omega_kube::profiles::KubeProfile;
use omega_kube::run::preempter::{Preempter, Search};
use omega_kube::workers::{Accepted, Collect, worker};
use omega_schedulers::Scheduler;
use omega_workload::kube::api::{Node, Pod};
use omega_workload::kube::live::Converter;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) struct Pair {
    pub(crate) server: Double,
    pub(crate) adapter: Adapter,
    pub(crate) workers: Vec<Scheduler>,
    pub(crate) timeout_ms: u64,
    pub(crate) preempter: Preempter,
    /// Pods that fitted on no node, with their jobs.
    pub(crate) unplaced: Vec<(PodName, JobId)>,
    /// Machines that the next search for victims for a pod leaves out.
    left_out: BTreeMap<PodName, BTreeSet<MachineId>>,
    /// Number of events after which groups of pods are settled.
    pub(crate) batch: usize,
    now: u64,
    /// Number of changes that the watches have delivered.
    delivered: usize,
}

pub(crate) fn pod(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).expect("a pod")
}

pub(crate) fn node(value: &Value) -> Node {
    serde_json::from_value(value.clone()).expect("a node")
}

impl Pair {
    /// Creates a pair with workers and nodes of 4 cores, named `n0` and so on.
    pub(crate) fn new(nodes: u32, workers: u32) -> Pair {
        let mut server = Double::default();
        for index in 0..nodes {
            add_node(&mut server, index);
        }
        Pair::of(server, workers)
    }

    /// Creates a pair of this server and an adapter that begins with the server's lists.
    pub(crate) fn of(server: Double, workers: u32) -> Pair {
        Pair::with_settings(server, workers, |_| {})
    }

    /// Creates a pair whose adapter has changed settings.
    pub(crate) fn with_settings(
        server: Double,
        workers: u32,
        change: impl FnOnce(&mut Settings),
    ) -> Pair {
        let objects: Vec<_> = server.all(NODES).map(|value| node(value)).collect();
        let pods: Vec<_> = server.all(PODS).map(|value| pod(value)).collect();
        let converter = Converter::new(&objects, &pods, &[]).expect("kinds");
        let names = BTreeSet::from(["omega".to_owned()]);
        let timeout_ms = 10_000;
        let mut settings = Settings {
            scheduler_names: names,
            request_timeout_ms: timeout_ms,
            preempts: true,
            repairs: false,
            binds: true,
        };
        change(&mut settings);
        let mut adapter = Adapter::new(converter, settings);
        adapter.lead();
        adapter.budgets().listed(&[]);
        list_storage(&mut adapter, &server);
        list_groups(&mut adapter, &server);
        let profile = KubeProfile::new("omega");
        let (shared, budgets) = (adapter.shared(), adapter.budgets().clone());
        let preempter = Preempter::new(shared.clone(), vec![profile.clone()], budgets);
        let schedulers =
            (0..workers).map(|i| worker(&shared, &profile, i, workers).expect("a name"));
        let workers = schedulers.collect();
        Pair {
            server,
            adapter,
            workers,
            timeout_ms,
            preempter,
            unplaced: Vec::new(),
            left_out: BTreeMap::new(),
            batch: 1,
            now: 0,
            delivered: 0,
        }
    }

    /// Replaces the adapter with an empty adapter, which lists the server's objects.
    pub(crate) fn restart(&mut self, workers: u32) {
        let server = std::mem::take(&mut self.server);
        *self = Pair { now: self.now, batch: self.batch, ..Pair::of(server, workers) };
        self.relist();
    }

    pub(crate) fn create(&mut self, name: &str, milli: u32) {
        let spec = json!({"schedulerName": "omega", "containers": [
            {"name": "c", "resources": {"requests": {"cpu": format!("{milli}m")}}}]});
        self.create_with(name, &spec.to_string());
    }

    pub(crate) fn create_ranked(&mut self, name: &str, milli: u32, priority: u32) {
        let spec = json!({"schedulerName": "omega", "priority": priority, "containers": [
            {"name": "c", "resources": {"requests": {"cpu": format!("{milli}m")}}}]});
        self.create_with(name, &spec.to_string());
    }

    pub(crate) fn create_with(&mut self, name: &str, spec: &str) {
        let spec: Value = serde_json::from_str(spec).expect("JSON");
        let body = json!({"metadata": {"name": name, "labels": {"app": "t"}}, "spec": spec});
        self.server.call("POST", "/api/v1/namespaces/t/pods", &body);
    }

    /// Deletes a pod at once.
    pub(crate) fn delete(&mut self, name: &str) {
        self.server.end("t", name);
    }

    pub(crate) fn bind_elsewhere(&mut self, name: &str, to: &str) {
        self.server.bind_elsewhere("t", name, to);
    }

    /// Delivers one event of the watches, if there is one. After a batch of events, settles groups of pods.
    pub(crate) fn deliver_one(&mut self) -> bool {
        let Some(change) = self.server.changes.get(self.delivered) else { return false };
        self.delivered += 1;
        match (change.key.resource.as_str(), change.gone) {
            (PODS, false) => self.adapter.pod_changed(pod(&change.new)),
            (PODS, true) => self.adapter.pod_deleted(&pod(&change.new)),
            (NODES, false) => self.adapter.node_changed(&node(&change.new)),
            (NODES, true) => self.adapter.node_deleted(&change.key.name),
            (NAMESPACES, false) => {
                self.adapter.namespace_changed(
                    &serde_json::from_value(Value::clone(&change.new)).expect("one"),
                );
            }
            (BUDGETS, gone) => {
                let budget = serde_json::from_value(Value::clone(&change.new)).expect("a budget");
                let budgets = self.adapter.budgets();
                if gone { budgets.deleted(&budget) } else { budgets.changed(&budget) }
            }
            (GROUPS, gone) => {
                let group = serde_json::from_value(Value::clone(&change.new)).expect("a group");
                if gone {
                    self.adapter.group_deleted(&group);
                } else {
                    self.adapter.group_changed(group);
                }
            }
            // Pods name their group themselves, so no scheduler watches workloads.
            (WORKLOADS, _) => {}
            (resource, gone) => {
                let Some(object) = stored(resource, &change.new) else { panic!("{resource}") };
                if gone {
                    self.adapter.storage_deleted(&object);
                } else {
                    self.adapter.storage_changed(object);
                }
            }
        }
        if self.delivered.is_multiple_of(self.batch) {
            self.adapter.settle_groups();
        }
        true
    }

    /// Requests victims for the pods that fit on no node, and passes the proposals to the adapter.
    pub(crate) fn preempt(&mut self) -> Vec<Verdict> {
        let unplaced = std::mem::take(&mut self.unplaced);
        let able = unplaced.into_iter().filter(|(pod, _)| self.adapter.may_preempt(pod));
        let able: Vec<_> = able.collect();
        let propose = |(pod, job)| {
            let left_out = self.left_out.remove(&pod).unwrap_or_default();
            self.preempter.propose(Search { pod, job, left_out })
        };
        let proposals: Vec<Proposal> = able.into_iter().filter_map(propose).collect();
        let nominate = |proposal: &Proposal| {
            let verdict = self.adapter.preempt(proposal);
            if verdict == Verdict::InFlight {
                let left_out = self.left_out.entry(proposal.pod.clone()).or_default();
                left_out.insert(proposal.machine);
            }
            if matches!(verdict, Verdict::Again | Verdict::InFlight) {
                self.unplaced.push((proposal.pod.clone(), proposal.job));
            }
            verdict
        };
        proposals.iter().map(nominate).collect()
    }

    /// Returns the requests that are effects of events.
    pub(crate) fn requests(&mut self) -> Vec<Action> {
        let request = |effect| match effect {
            Effect::Act(action) => Some(action),
            Effect::Tell(..) | Effect::Refuse(..) | Effect::GiveUp(_) => None,
        };
        self.adapter.effects().into_iter().filter_map(request).collect()
    }

    /// Sends the requests about victims and nominations, and returns the bindings.
    pub(crate) fn carry_out(&mut self) -> Vec<Binding> {
        let mut bindings = Vec::new();
        for request in self.requests() {
            match request {
                Action::Bind(binding, _) | Action::Get(binding, _) => bindings.push(binding),
                Action::Nominate(nominee, _) => {
                    let done = self.nominate(&nominee);
                    assert_eq!(self.adapter.nominated(nominee, done, 0), None);
                }
                Action::Group(condition, _) => {
                    let done = self.show_group(&condition);
                    assert_eq!(self.adapter.group_shown(condition, done, 0), None);
                }
                Action::Claim(choice, _) => {
                    let done = self.choose(&choice);
                    assert_eq!(self.adapter.chosen(choice, done, 0), None);
                }
                Action::Evict(eviction, _) => {
                    let done = self.evict(&eviction);
                    self.adapter.evicted(eviction, done, 0);
                }
                Action::Repair(repair, _) => {
                    let done = self.repair(&repair);
                    self.adapter.repaired(repair, done);
                }
            }
        }
        bindings
    }

    pub(crate) fn nominate(&mut self, nominee: &Nominee) -> Done {
        let path = format!("{}/status", path(&nominee.pod));
        let body = json!({"metadata": {"uid": nominee.uid}, "status": {"nominatedNodeName": nominee.node}});
        done(self.server.call("PATCH", &path, &body).status)
    }

    pub(crate) fn show_group(&mut self, condition: &GroupCondition) -> Done {
        let GroupCondition { namespace, name, uid, unschedulable } = condition;
        let path = format!(
            "/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups/{name}/status"
        );
        let status = if unschedulable.is_none() { "True" } else { "False" };
        let body = json!({"metadata": {"uid": uid}, "status": {"conditions": [{
            "type": "PodGroupScheduled", "status": status,
            "message": unschedulable.as_deref().unwrap_or_default()}]}});
        done(self.server.call("PATCH", &path, &body).status)
    }

    pub(crate) fn choose(&mut self, choice: &ClaimChoice) -> Done {
        let ClaimChoice { binding, namespace, claim, uid, version, volume } = choice;
        let (path, body) = match volume {
            None => (
                format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"),
                json!({"metadata": {"uid": uid, "resourceVersion": version,
                    "annotations": {"volume.kubernetes.io/selected-node": binding.node}}}),
            ),
            Some((volume, version)) => (
                format!("/api/v1/persistentvolumes/{volume}"),
                json!({"metadata": {"resourceVersion": version},
                    "spec": {"claimRef": {"namespace": namespace, "name": claim, "uid": uid}}}),
            ),
        };
        done(self.server.call("PATCH", &path, &body).status)
    }

    pub(crate) fn evict(&mut self, eviction: &Eviction) -> Done {
        let body = json!({"preconditions": {"uid": eviction.uid}});
        done(self.server.call("DELETE", &path(&eviction.pod), &body).status)
    }

    pub(crate) fn repair(&mut self, repair: &Repair) -> Done {
        let body = json!({"preconditions": {"uid": repair.uid}});
        done(self.server.call("DELETE", &path(&repair.pod), &body).status)
    }

    pub(crate) fn deliver(&mut self) {
        while self.deliver_one() {}
        self.adapter.settle_groups();
    }

    /// The version up to which the watches have delivered.
    pub(crate) fn delivered_version(&self) -> u64 {
        let last = self.delivered.checked_sub(1).and_then(|at| self.server.changes.get(at));
        last.map_or(0, |change| change.version)
    }

    /// Skips the events that the watches have not delivered, and lists all objects instead.
    pub(crate) fn relist(&mut self) {
        self.delivered = self.server.changes.len();
        let nodes: Vec<_> = self.server.all(NODES).map(|value| node(value)).collect();
        self.adapter.nodes_listed(&nodes);
        let budgets = self.server.all(BUDGETS).map(|value| Value::clone(value));
        let budgets: Vec<_> =
            budgets.map(|value| serde_json::from_value(value).expect("a budget")).collect();
        self.adapter.budgets().listed(&budgets);
        list_storage(&mut self.adapter, &self.server);
        list_groups(&mut self.adapter, &self.server);
        let namespaces = self.server.all(NAMESPACES).map(|value| Value::clone(value));
        let namespaces: Vec<_> =
            namespaces.map(|value| serde_json::from_value(value).expect("a namespace")).collect();
        self.adapter.namespaces_listed(&namespaces);
        let pods = self.server.all(PODS).map(|value| Arc::new(pod(value))).collect();
        self.adapter.pods_listed(pods, &self.server.version.to_string());
    }

    /// Lets time pass for the workers.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += ms * 1_000_000;
    }

    /// Steps one worker once.
    pub(crate) fn step(&mut self, worker: usize) -> (Vec<Binding>, bool) {
        let (accepted, idle) = self.commit(worker);
        let bindings = accepted.iter().filter_map(|a| self.adapter.decided(a.task, a.machine));
        (bindings.collect(), idle)
    }

    /// Steps one worker once, and returns the accepted claims, which were not passed to the adapter.
    pub(crate) fn commit(&mut self, worker: usize) -> (Vec<Accepted>, bool) {
        self.now += 20_000_000_000;
        let mut collect = Collect::default();
        let cell = self.adapter.cell().clone();
        let step = self.workers[worker].step(&cell, self.now, &mut collect).expect("a cell");
        for job in &collect.unplaced {
            self.unplaced.extend(self.adapter.pod_of(*job).map(|pod| (pod.clone(), *job)));
        }
        (collect.accepted, step.idle)
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

    pub(crate) fn send(&mut self, binding: &Binding) -> BindReply {
        let body = json!({"metadata": {"name": binding.pod.name, "uid": binding.uid},
            "target": {"kind": "Node", "name": binding.node}});
        let path = format!("{}/binding", path(&binding.pod));
        match self.server.call("POST", &path, &body).status {
            201 => BindReply::Bound,
            404 | 409 => BindReply::Conflict,
            _ => BindReply::Failed,
        }
    }

    pub(crate) fn get(&mut self, binding: &Binding) -> PodRead {
        let answer = self.server.call("GET", &path(&binding.pod), &Value::Null);
        match answer.status {
            200 => PodRead::Pod(Box::new(pod(&answer.body))),
            _ => PodRead::Gone,
        }
    }

    /// Number of pods that are pending in the adapter.
    pub(crate) fn pending(&self) -> usize {
        self.adapter.count(|state| *state == State::Pending)
    }
}

/// Paths and kinds of storage objects.
fn storage_paths() -> [(String, StoredKind); 7] {
    [
        (CLAIMS.to_owned(), StoredKind::Claim),
        (VOLUMES.to_owned(), StoredKind::Volume),
        (format!("{STORAGE}/storageclasses"), StoredKind::Class),
        (format!("{STORAGE}/csinodes"), StoredKind::CsiNode),
        (format!("{STORAGE}/csidrivers"), StoredKind::Driver),
        (format!("{STORAGE}/csistoragecapacities"), StoredKind::Capacity),
        (format!("{STORAGE}/volumeattachments"), StoredKind::Attachment),
    ]
}

/// Reads a storage object; `None` if the resource is not a storage object.
fn stored(resource: &str, value: &Value) -> Option<Stored> {
    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Box<T> {
        Box::new(serde_json::from_value(value.clone()).expect("an object"))
    }
    let paths = storage_paths();
    let (_, kind) = paths.iter().find(|(path, _)| path == resource)?;
    Some(match kind {
        StoredKind::Claim => Stored::Claim(read(value)),
        StoredKind::Volume => Stored::Volume(read(value)),
        StoredKind::Class => Stored::Class(read(value)),
        StoredKind::CsiNode => Stored::CsiNode(read(value)),
        StoredKind::Driver => Stored::Driver(read(value)),
        StoredKind::Capacity => Stored::Capacity(read(value)),
        StoredKind::Attachment => Stored::Attachment(read(value)),
    })
}

fn list_storage(adapter: &mut Adapter, server: &Double) {
    for (path, kind) in storage_paths() {
        let all = server.all(&path).filter_map(|value| stored(&path, value));
        adapter.storage_listed(kind, all.collect());
    }
}

fn list_groups(adapter: &mut Adapter, server: &Double) {
    let all = server.all(GROUPS).map(|value| serde_json::from_value(Value::clone(value)));
    adapter.groups_listed(all.map(|group| group.expect("a group")).collect());
}

fn path(pod: &PodName) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

fn done(status: u16) -> Done {
    match status {
        200 => Done::Done,
        404 | 409 | 422 => Done::Gone,
        _ => Done::Refused,
    }
}

pub(crate) fn add_node(server: &mut Double, index: u32) {
    let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let body = json!({"metadata": {"name": format!("n{index}"), "labels": {"topology.kubernetes.io/zone": "z"}},
        "status": {"allocatable": resources, "capacity": resources}});
    server.call("POST", "/api/v1/nodes", &body);
}
