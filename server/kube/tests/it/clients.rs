//! Clients of third parties: `kubectl` and Python's `kubernetes` use the double while the program schedules.

use crate::double::http::Server;
use crate::measured::READS_MAX;
use crate::process::{Program, block_on, bound, check, create, pod, server, start};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: hello, namespace: t}
spec:
  schedulerName: omega
  containers: [{name: c, image: registry.k8s.io/pause:3.10.1, resources: {requests: {cpu: 500m}}}]
";

/// Runs a client to its end; `None` if it is not installed.
async fn client(mut command: Command) -> Option<Output> {
    tokio::task::spawn_blocking(move || command.output().ok()).await.expect("a thread")
}

fn kubectl(server: &Server, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command.args(["--server", &server.url()]).args(arguments).env("HOME", home);
    command.env_remove("KUBECONFIG").env("NO_PROXY", "127.0.0.1");
    command
}

#[test]
fn kubectl_creates_pods_and_sees_them_bound() {
    block_on(async {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join("pod.yaml");
        std::fs::write(&file, PODS).expect("a file");
        let file = file.to_string_lossy().into_owned();
        let server = server(2).await;
        let create = kubectl(&server, home.path(), &["create", "--validate=false", "-f", &file]);
        let Some(created) = client(create).await else {
            println!("skipped: kubectl not found");
            return;
        };
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        let _program = start(&server, &[]);
        server.until(|double| bound(double) == 1).await;
        let get = ["get", "pod", "hello", "-n", "t", "-o", "jsonpath={.spec.nodeName}"];
        let got = client(kubectl(&server, home.path(), &get)).await.expect("it is here");
        assert!(String::from_utf8_lossy(&got.stdout).starts_with('n'), "{got:?}");
    });
}

#[test]
fn the_manifest_is_accepted_by_kubectl() {
    block_on(async {
        let home = tempfile::tempdir().expect("a folder");
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/omega-kube.yaml");
        let manifest = manifest.to_string_lossy().into_owned();
        let server = server(1).await;
        let arguments = ["apply", "--dry-run=client", "--validate=false", "-f", &manifest];
        let Some(applied) = client(kubectl(&server, home.path(), &arguments)).await else {
            println!("skipped: kubectl not found");
            return;
        };
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        let output = String::from_utf8_lossy(&applied.stdout).into_owned();
        for kind in
            ["deployment", "serviceaccount", "clusterrole", "flowschema", "poddisruptionbudget"]
        {
            assert!(output.contains(kind), "{kind}: {output}");
        }
    });
}

#[test]
fn the_python_client_creates_a_pod_and_watches_it_being_bound() {
    block_on(async {
        let server = server(2).await;
        create(&server, &pod("a", 500));
        let script = "
import sys
try:
    from kubernetes import client, watch
except ImportError:
    sys.exit(77)
configuration = client.Configuration(host=sys.argv[1])
api = client.CoreV1Api(client.ApiClient(configuration))
requests = client.V1ResourceRequirements(requests={'cpu': '500m'})
container = client.V1Container(name='c', image='registry.k8s.io/pause:3.10.1', resources=requests)
spec = client.V1PodSpec(scheduler_name='omega', containers=[container])
api.create_namespaced_pod('t', client.V1Pod(metadata=client.V1ObjectMeta(name='b'), spec=spec))
for event in watch.Watch().stream(api.list_namespaced_pod, 't'):
    pod = event['object']
    if pod.metadata.name == 'b' and pod.spec.node_name:
        break
else:
    sys.exit('the watch ended')
print([pod.spec.node_name for pod in api.list_pod_for_all_namespaces().items])
";
        let _program = start(&server, &[]);
        server.until(|double| bound(double) == 1).await;
        let python = std::env::var_os("OMEGA_PYTHON").unwrap_or_else(|| "python3".into());
        let mut command = Command::new(python);
        command.args(["-c", script, &server.url()]).env("NO_PROXY", "127.0.0.1");
        match client(command).await {
            Some(output) if output.status.success() => {
                let nodes = String::from_utf8_lossy(&output.stdout).into_owned();
                assert_eq!(nodes.matches("'n").count(), 2, "{output:?}");
            }
            Some(output) if output.status.code() == Some(77) => {
                println!("skipped: Python's kubernetes not found");
            }
            None => println!("skipped: python3 not found"),
            Some(output) => panic!("{output:?}"),
        }
        check(&server);
    });
}

#[test]
fn explain_says_why_a_pod_is_pending() {
    block_on(async {
        let server = server(3).await;
        create(&server, &pod("big", 9000));
        create(&server, &pod("small", 500));
        let explain = |pod: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
            command.args(["explain", "--server", &server.url(), pod]);
            command
        };
        let big = client(explain("t/big")).await.expect("it runs");
        let output = String::from_utf8_lossy(&big.stdout).into_owned();
        assert_eq!(output.trim(), "t/big: 0/3 nodes are available: 3 Insufficient cpu.");
        let small = client(explain("t/small")).await.expect("it runs");
        assert!(String::from_utf8_lossy(&small.stdout).contains("fits on a node"), "{small:?}");
        let none = client(explain("t/none")).await.expect("it runs");
        assert!(String::from_utf8_lossy(&none.stderr).contains("\"none\" not found"), "{none:?}");
        assert!(server.calls().iter().all(|call| call.method == "GET"), "it writes nothing");
    });
}

#[test]
fn a_dry_run_compares_and_writes_nothing() {
    block_on(async {
        let server = server(3).await;
        create(&server, &pod("a", 500));
        let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
        command.args(["run", "--dry-run", "--listen", "off", "--server", &server.url()]);
        let command = command.env("OMEGA_LOG", "info").stderr(Stdio::piped());
        let mut program = Program(command.spawn().expect("it starts"));
        let log = BufReader::new(program.0.stderr.take().expect("it is piped"));
        let mut lines = log.lines().map(|line| line.expect("text"));
        let mut wait = move |words: &str| lines.find(|line| line.contains(words)).expect("a line");
        wait("would bind");
        server.with(|double| double.bind_elsewhere("t", "a", "n1"));
        assert!(wait("dry run").contains("n1"));
        assert!(server.calls().iter().all(|call| call.method == "GET"));
    });
}

/// Gets a page from the program's own HTTP server.
fn page(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it answers in text");
    answer
}

#[test]
fn probes_answer_and_metrics_are_those_of_the_page() {
    block_on(async {
        let server = server(3).await;
        (0..5).for_each(|index| create(&server, &pod(&format!("p{index}"), 500)));
        let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
        command.args(["run", "--listen", "127.0.0.1:0", "--server", &server.url()]);
        let command = command.env("OMEGA_LOG", "info").stderr(Stdio::piped());
        let mut program = Program(command.spawn().expect("it starts"));
        let log = BufReader::new(program.0.stderr.take().expect("it is piped"));
        let mut lines = log.lines().map(|line| line.expect("text"));
        let line = lines.find(|line| line.contains("probes and metrics")).expect("a line");
        let address = line.split("address=").nth(1).expect("an address").trim().to_owned();
        server.until(|double| bound(double) == 5).await;
        assert!(page(&address, "/readyz").starts_with("HTTP/1.1 200"));
        assert!(page(&address, "/livez").starts_with("HTTP/1.1 200"));
        assert!(page(&address, "/other").starts_with("HTTP/1.1 404"));
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes.md");
        let docs = std::fs::read_to_string(docs).expect("a page");
        let (_, table) = docs.split_once("## Metrics").expect("a section");
        let names = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let names: Vec<&str> = names
            .map(|line| line.split(['`', '{']).next().unwrap_or_default())
            .take_while(|name| name.contains('_'))
            .collect();
        assert!(names.len() > 8, "{names:?}");
        let missing = |metrics: &str| {
            let name = |name: &&str| {
                !metrics.contains(name.trim_end_matches("_total").trim_end_matches('*'))
            };
            names.iter().copied().find(name)
        };
        // The page omits series without values, and the program counts a binding after the server has it.
        let mut metrics = page(&address, "/metrics");
        for _ in 0..READS_MAX {
            let Some(_) = missing(&metrics) else { break };
            tokio::task::yield_now().await;
            metrics = page(&address, "/metrics");
        }
        assert_eq!(missing(&metrics), None);
        let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        for name in types.map(|line| line.split(' ').next().unwrap_or_default()) {
            let known = names.iter().any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => known.trim_end_matches("_total") == name,
            });
            assert!(known, "{name} is not in docs/kubernetes.md");
        }
    });
}
