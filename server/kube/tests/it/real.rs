//! A day of a cluster without faults. The test always runs against the double. It also runs against a real API server
//! if `OMEGA_KUBE_SERVER` is the name of a context in a kubeconfig, or `current` for the current one. The test uses its
//! own namespace and scheduler name, and needs no kubelet.

use crate::process::{Program, block_on, server};
use http::Method;
use omega_kube::client::config::Config;
use omega_kube::client::{Call, Client};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Duration;

const PODS: u32 = 20;

struct Cluster {
    client: Client,
    /// Arguments by which the program finds the server.
    arguments: Vec<String>,
    namespace: String,
}

impl Cluster {
    fn new(config: Config, arguments: &[&str]) -> Cluster {
        let client = Client::new(config, Duration::from_secs(10)).expect("a client");
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let namespace = format!("omega-kube-test-{}", std::process::id());
        Cluster { client, arguments, namespace }
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let call =
            if method == Method::GET { Call::get(path) } else { Call::json(method, path, body) };
        let answer = self.client.call(&call).await.expect("an answer");
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    async fn create(&self, name: &str, cpu: &str) {
        let body = json!({"metadata": {"name": name}, "spec": {"schedulerName": self.namespace,
            "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.1",
                "resources": {"requests": {"cpu": cpu}}}]}});
        let (status, body) = self.call(Method::POST, &self.pods(), &body).await;
        assert_eq!(status, 201, "{body}");
    }

    /// Waits until a pod fulfils a condition, by watching its versions.
    async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{}/{name}", self.pods());
        loop {
            let (_, pod) = self.call(Method::GET, &path, &Value::Null).await;
            if wanted(&pod) {
                return pod;
            }
            let version = pod["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let watch = format!(
                "{}?watch=1&timeoutSeconds=30&fieldSelector=metadata.name%3D{name}&resourceVersion={version}",
                self.pods()
            );
            let opened = self.client.stream(&Call::get(watch), Duration::from_secs(60)).await;
            let _ = opened.expect("a watch").lines.next().await;
        }
    }

    fn start(&self) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
        command.args(["run", "--listen", "off", "--workers", "4", "--scheduler-name"]);
        command.arg(&self.namespace).args(&self.arguments);
        command.env("OMEGA_LOG", "warn").stdin(Stdio::null());
        Program(command.spawn().expect("the program starts"))
    }

    async fn day(&self) {
        let namespace = json!({"metadata": {"name": self.namespace}});
        let (status, _) = self.call(Method::POST, "/api/v1/namespaces", &namespace).await;
        assert_eq!(status, 201);
        for index in 0..PODS / 2 {
            self.create(&format!("before-{index}"), "10m").await;
        }
        let _program = self.start();
        for index in 0..PODS / 2 {
            self.create(&format!("after-{index}"), "10m").await;
        }
        self.create("big", "1000000").await;
        for index in 0..PODS / 2 {
            for when in ["before", "after"] {
                let name = format!("{when}-{index}");
                self.until(&name, |pod| pod["spec"]["nodeName"].is_string()).await;
            }
        }
        let has_reason = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "Unschedulable"))
        };
        let big = self.until("big", has_reason).await;
        assert!(big["spec"].get("nodeName").is_none());
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        self.call(Method::DELETE, &path, &json!({})).await;
    }
}

#[test]
fn a_day_without_faults_on_the_double() {
    block_on(async {
        let server = server(3).await;
        let url = server.url();
        Cluster::new(Config::plain(&url), &["--server", &url]).day().await;
        crate::process::check(&server);
    });
}

#[test]
fn a_day_without_faults_on_a_real_server() {
    let Ok(context) = std::env::var("OMEGA_KUBE_SERVER") else {
        println!("skipped: OMEGA_KUBE_SERVER is not set");
        return;
    };
    block_on(async {
        let context = Some(context.as_str()).filter(|context| *context != "current");
        let config = Config::find(None, context).expect("a kubeconfig");
        let arguments: Vec<&str> =
            context.into_iter().flat_map(|name| ["--context", name]).collect();
        Cluster::new(config, &arguments).day().await;
    });
}
