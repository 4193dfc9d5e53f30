//! A cluster with an API server: the double, or a real server without kubelets for the nodes of the tests.
//!
//! Each test has its own namespace, nodes and scheduler name. It deletes all objects that it created, even if it fails.

use crate::double::http::Server;
use crate::double::{Double, admission, text};
use crate::pairs::add_node;
use crate::process::{Program, block_on};
use http::Method;
use omega_kube::client::config::Config;
use omega_kube::client::{Call, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Cores of a node. They are so many that the pods of a cluster's own daemons do not matter.
const NODE_CORES: u32 = 1000;

/// Cores of a slot: a node has four slots, and 40 cores for daemons.
const SLOT_CORES: u32 = 240;

/// Time after which a behaviour is given up and its objects are deleted. The test runner ends tests after five minutes.
const LONGEST: Duration = Duration::from_secs(180);

/// Resources with objects of a namespace that a test or the program creates.
const IN_NAMESPACE: [&str; 7] = [
    "/api/v1/namespaces/{}/pods",
    "/api/v1/namespaces/{}/persistentvolumeclaims",
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "/apis/events.k8s.io/v1/namespaces/{}/events",
    "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups",
    "/api/v1/namespaces/{}/serviceaccounts",
];

/// A cluster as one test sees it.
#[derive(Clone)]
pub(super) struct Cluster {
    client: Client,
    /// Arguments by which the program finds the server.
    arguments: Vec<String>,
    /// The namespace, the scheduler name, and the prefix of the names of objects without a namespace.
    pub(super) name: String,
    /// Paths of the created objects without a namespace, in order.
    made: Arc<Mutex<Vec<String>>>,
    /// Time in seconds that the controller of namespaces has to end the namespace.
    patience: u32,
    /// The double; `None` if the server is real.
    double: Option<Server>,
}

impl Cluster {
    fn new(config: Config, arguments: &[&str], patience: u32) -> Cluster {
        let client = Client::new(config, Duration::from_secs(20)).expect("a client");
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let random = RandomState::new().hash_one(std::process::id());
        let name = format!("omega-kube-test-{random:016x}");
        Cluster { client, arguments, name, made: Arc::default(), patience, double: None }
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let call =
            if method == Method::GET { Call::whole(path) } else { Call::json(method, path, body) };
        let answer = self.client.call(&call).await.expect("an answer");
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Gets an object; `None` if it does not exist.
    pub(super) async fn get(&self, path: &str) -> Option<Value> {
        let (status, body) = self.call(Method::GET, path, &Value::Null).await;
        assert!(status == 200 || status == 404, "{path}: {body}");
        (status == 200).then_some(body)
    }

    /// Creates an object, which is deleted at the end of the test.
    pub(super) async fn make(&self, path: &str, object: &Value) -> Value {
        let (status, made) = self.call(Method::POST, path, object).await;
        assert_eq!(status, 201, "{path}: {made}");
        if !path.contains(&format!("/namespaces/{}/", self.name)) {
            let path = format!("{path}/{}", text(&made, "/metadata/name"));
            self.made.lock().expect("no panic with it").push(path);
        }
        made
    }

    /// Changes an object by a strategic merge patch.
    pub(super) async fn patch(&self, path: &str, patch: &Value) -> Value {
        let (status, body) = self.call(Method::PATCH, path, patch).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Deletes an object at once, as the kubelet of a deleted pod and the controllers of finalizers do.
    pub(super) async fn remove(&self, path: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        let (status, object) = self.call(Method::DELETE, path, &options).await;
        if status == 200 && object.pointer("/metadata/finalizers").is_some() {
            let none = json!({"metadata": {"finalizers": null}});
            self.call(Method::PATCH, path, &none).await;
        }
    }

    /// The path of a collection of the namespace, such as `/api/v1/namespaces/{}/pods`.
    pub(super) fn path(&self, collection: &str) -> String {
        collection.replace("{}", &self.name)
    }

    pub(super) fn pods(&self) -> String {
        self.path("/api/v1/namespaces/{}/pods")
    }

    pub(super) fn node_name(&self, index: u32) -> String {
        format!("{}-n{index}", self.name)
    }

    /// Creates a node of four slots. Its fields are merged with those of `more`.
    pub(super) async fn node(&self, index: u32, more: Value) {
        let name = self.node_name(index);
        let resources = json!({"cpu": NODE_CORES.to_string(), "memory": "64Gi", "pods": "110"});
        let status = json!({"capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]});
        let labels = json!({"kubernetes.io/hostname": name, "omega-kube-test": self.name});
        let node = json!({"metadata": {"name": name, "labels": labels}, "status": status});
        self.make("/api/v1/nodes", &node).await;
        let path = format!("/api/v1/nodes/{name}");
        self.patch(&format!("{path}/status"), &json!({"status": status})).await;
        if more.is_object() {
            self.patch(&path, &more).await;
        }
    }

    /// Creates nodes, numbered from 0.
    pub(super) async fn nodes(&self, number: u32) {
        for index in 0..number {
            self.node(index, Value::Null).await;
        }
    }

    /// A pod of so many slots, which tolerates that the nodes of the test have no kubelets.
    pub(super) fn pod(&self, name: &str, slots: u32) -> Value {
        let cpu = format!("{}m", slots * SLOT_CORES * 1000);
        let tolerate = |key: &str| json!({"key": key, "operator": "Exists"});
        let tolerations =
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(tolerate);
        json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {
            "schedulerName": self.name, "nodeSelector": {"omega-kube-test": self.name},
            "tolerations": tolerations, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.1",
                "resources": {"requests": {"cpu": cpu}}}]}})
    }

    /// Creates a pod of so many slots.
    pub(super) async fn create(&self, name: &str, slots: u32) -> Value {
        self.make(&self.pods(), &self.pod(name, slots)).await
    }

    /// Binds a pod to the first node as another scheduler would.
    pub(super) async fn bind_elsewhere(&self, name: &str) {
        let target = json!({"kind": "Node", "name": self.node_name(0)});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
        let path = format!("{}/{name}/binding", self.pods());
        let (status, body) = self.call(Method::POST, &path, &binding).await;
        assert_eq!(status, 201, "{body}");
    }

    /// Waits until the objects of a collection fulfil a condition, by watching their versions.
    pub(super) async fn until(&self, path: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let joint = if path.contains('?') { '&' } else { '?' };
        loop {
            let list = self.get(path).await.unwrap_or_default();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            if wanted(&items) {
                return items;
            }
            let version = text(&list, "/metadata/resourceVersion");
            let watch = format!("{path}{joint}watch=1&timeoutSeconds=30&resourceVersion={version}");
            let opened = self.client.stream(&Call::get(watch), Duration::from_secs(60)).await;
            let _ = opened.expect("a watch").lines.next().await;
        }
    }

    /// Waits until an object exists and fulfils a condition.
    pub(super) async fn until_one(
        &self,
        collection: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let path = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        let mut found = self.until(&path, |all| all.first().is_some_and(&wanted)).await;
        found.remove(0)
    }

    /// Waits until a pod is bound, and returns the name of its node.
    pub(super) async fn bound(&self, name: &str) -> String {
        let is_bound = |pod: &Value| !text(pod, "/spec/nodeName").is_empty();
        let pod = self.until_one(&self.pods(), name, is_bound).await;
        text(&pod, "/spec/nodeName").to_owned()
    }

    /// Waits until a pod is reported as unschedulable, and returns the message. The pod is not bound.
    pub(super) async fn unschedulable(&self, name: &str) -> String {
        let is_told = |pod: &Value| reason(pod) == "Unschedulable";
        let pod = self.until_one(&self.pods(), name, is_told).await;
        assert_eq!(text(&pod, "/spec/nodeName"), "", "{name}");
        let condition = condition(&pod, "PodScheduled").expect("it is there");
        assert_eq!(condition["status"], "False");
        text(condition, "/message").to_owned()
    }

    /// Checks that no node of the test has more slots in use than it has.
    pub(super) async fn check_slots(&self) {
        let mut used = BTreeMap::<String, u32>::new();
        for pod in self.until(&self.pods(), |_| true).await {
            let cpu = text(&pod, "/spec/containers/0/resources/requests/cpu");
            // A server may write `240` for `240000m`.
            let cores = cpu.strip_suffix("000m").unwrap_or(cpu).parse::<u32>().expect("cores");
            *used.entry(text(&pod, "/spec/nodeName").to_owned()).or_default() += cores;
        }
        used.remove("");
        assert!(used.values().all(|cores| *cores <= NODE_CORES), "{used:?}");
    }

    /// A command of the program, with the address of the server.
    pub(super) fn command(&self, command: &str) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
        program.arg(command).args(&self.arguments).stdin(Stdio::null());
        program
    }

    /// Starts the program for the pods of the test.
    pub(super) fn start(&self, more: &[&str]) -> Program {
        let mut command = self.command("run");
        command.args(["--listen", "off", "--workers", "4", "--condition-rate", "1000"]);
        command.args(["--scheduler-name", &self.name]).args(more).env("OMEGA_LOG", "warn");
        Program(command.spawn().expect("the program starts"))
    }

    /// Waits until requests of killed programs are no longer carried out. A real server does not show this.
    async fn settle(&self) {
        if let Some(double) = &self.double {
            double.until_unused().await;
        }
    }

    /// Kills the only program.
    pub(super) async fn kill(&self, program: Program) {
        drop(program);
        self.settle().await;
    }

    /// Creates the namespace, and its service account if no controller creates it.
    async fn begin(&self) {
        let named = |name: &str| json!({"metadata": {"name": name}});
        self.make("/api/v1/namespaces", &named(&self.name)).await;
        let accounts = self.path("/api/v1/namespaces/{}/serviceaccounts");
        let (status, body) = self.call(Method::POST, &accounts, &named("default")).await;
        assert!(status == 201 || status == 409, "{body}");
    }

    /// Deletes all objects of the test.
    async fn clean(&self) {
        for collection in IN_NAMESPACE {
            let path = self.path(collection);
            // Pods stay for their grace period, and claims for their finalizers.
            let list = self.get(&path).await.unwrap_or_default();
            for object in list["items"].as_array().into_iter().flatten() {
                self.remove(&format!("{path}/{}", text(object, "/metadata/name"))).await;
            }
        }
        let made = std::mem::take(&mut *self.made.lock().expect("no panic with it"));
        for path in made.iter().rev() {
            self.remove(path).await;
        }
        self.finalize().await;
    }

    /// Ends the deleted namespace if no controller does.
    async fn finalize(&self) {
        let path = format!("/api/v1/namespaces/{}", self.name);
        let Some(namespace) = self.get(&path).await else { return };
        let version = text(&namespace, "/metadata/resourceVersion");
        let watch = format!(
            "/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3D{}&resourceVersion={version}&timeoutSeconds={}",
            self.name, self.patience
        );
        let longest = Duration::from_secs(60);
        let mut lines =
            self.client.stream(&Call::get(watch), longest).await.expect("a watch").lines;
        while lines.next().await.is_ok_and(|line| line.is_some()) {}
        if let Some(mut namespace) = self.get(&path).await {
            namespace["spec"]["finalizers"] = json!([]);
            self.call(Method::PUT, &format!("{path}/finalize"), &namespace).await;
        }
    }
}

/// Returns a condition of an object.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object.pointer("/status/conditions").and_then(Value::as_array)?;
    all.iter().find(|condition| condition["type"] == kind)
}

/// The reason of a pod's condition `PodScheduled`.
fn reason(pod: &Value) -> &str {
    condition(pod, "PodScheduled").map_or("", |condition| text(condition, "/reason"))
}

/// Runs a behaviour, and then deletes its objects.
async fn run<F>(cluster: Cluster, behaviour: impl FnOnce(Cluster) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (begun, work) = (cluster.clone(), behaviour(cluster.clone()));
    let mut task = tokio::spawn(async move {
        begun.begin().await;
        work.await;
    });
    let ended = tokio::time::timeout(LONGEST, &mut task).await;
    if ended.is_err() {
        // The end of the task ends the programs that it has started.
        task.abort();
        let _ = task.await;
    }
    cluster.settle().await;
    cluster.clean().await;
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(failed)) => std::panic::resume_unwind(failed.into_panic()),
        Err(_) => panic!("the behaviour has not ended within {LONGEST:?}"),
    }
}

/// Runs a behaviour on the double, which has the admission plugins of a cluster and a node of others.
pub(super) fn on_the_double<F>(behaviour: impl FnOnce(Cluster) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    block_on(async {
        let mut double = Double { plugins: &admission::OF_A_CLUSTER, ..Double::default() };
        add_node(&mut double, 0);
        let server = Server::start(double, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
        let keys = || server.lock().objects.keys().cloned().collect::<Vec<_>>();
        let (before, url) = (keys(), server.url());
        let own = Config::plain(&server.second_url().await);
        let cluster = Cluster::new(own, &["--server", &url], 1);
        run(Cluster { double: Some(server.clone()), ..cluster }, behaviour).await;
        assert_eq!(keys(), before, "all objects of the test are deleted");
        assert!(server.lock().bound().values().all(|times| *times == 1), "bound twice");
    });
}

/// Runs a behaviour on the real server that a variable names.
pub(super) fn on_a_real_server<F>(behaviour: impl FnOnce(Cluster) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(context) = std::env::var("OMEGA_KUBE_SERVER") else {
        println!("skipped: OMEGA_KUBE_SERVER is not set");
        return;
    };
    block_on(async {
        let context = Some(context.as_str()).filter(|context| *context != "current");
        let config = Config::find(None, context).expect("a kubeconfig");
        let arguments: Vec<&str> =
            context.into_iter().flat_map(|name| ["--context", name]).collect();
        run(Cluster::new(config, &arguments, 30), behaviour).await;
    });
}
