//! Measures the program with a simulated API server: processor time per bound pod, the time to the first binding, the
//! binding rate, and overcommitted nodes.
//!
//! `cargo build --release -p omega-kube && cargo run --release -p omega-kube --example measure`

#[allow(dead_code, reason = "the tests use all of it")]
#[path = "../tests/double/mod.rs"]
mod double;

use double::Double;
use double::http::Server;
use omega_kube::client::config::Config;
use omega_kube::client::{Call, Client};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    fn start(server: &Server, workers: u32, more: &[&str]) -> Program {
        let here = std::env::current_exe().expect("a path");
        let folder = here.parent().and_then(|examples| examples.parent()).expect("a folder");
        let program: PathBuf = folder.join("omega-kube");
        let mut command = Command::new(program);
        command.args(["run", "--listen", "off", "--server", &server.url()]);
        command.args(["--workers", &workers.to_string()]).args(more).env("OMEGA_LOG", "error");
        Program(command.spawn().expect("build omega-kube with --release first"))
    }

    /// Processor time so far.
    fn cpu(&self) -> Duration {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
        // Fields utime and stime, in hundredths of a second.
        Duration::from_millis((ticks(12).unwrap_or(0) + ticks(13).unwrap_or(0)) * 10)
    }

    /// Peak memory so far, in MiB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) / 1024
    }
}

fn cluster(nodes: u32, cpu: u32) -> Double {
    let mut double = Double::default();
    for index in 0..nodes {
        let resources = json!({"cpu": cpu.to_string(), "memory": "64Gi", "pods": "110"});
        let zone = format!("z{}", index % 3);
        let name = format!("n{index}");
        let labels = json!({"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name});
        let node = json!({"metadata": {"name": name, "labels": labels},
            "status": {"allocatable": resources, "capacity": resources}});
        double.call("POST", "/api/v1/nodes", &node);
    }
    double.call("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "t"}}));
    double
}

fn pod(index: u32, milli: u32) -> Value {
    json!({"metadata": {"name": format!("p{index}"), "labels": {"app": format!("a{}", index % 20)}},
        "spec": {"schedulerName": "omega", "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.1",
            "resources": {"requests": {"cpu": format!("{milli}m"), "memory": "128Mi"}}}]}})
}

fn create(server: &Server, pods: std::ops::Range<u32>, milli: u32) {
    server.with(|double| {
        for index in pods {
            double.call("POST", "/api/v1/namespaces/t/pods", &pod(index, milli));
        }
    });
}

async fn start(double: Double) -> Server {
    Server::start(double, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
}

/// Processor time per pod, for pods that are created when the program has listed the cluster.
async fn per_pod(nodes: u32, pods: u32, more: &[&str]) {
    let server = start(cluster(nodes, 16)).await;
    let program = Program::start(&server, 2, more);
    // When the first pod is bound, the program has listed the whole cluster.
    create(&server, 0..1, 100);
    server.until(|double| !double.audit.is_empty()).await;
    let (before, began) = (program.cpu(), Instant::now());
    create(&server, 1..pods + 1, 100);
    server.until(|double| double.audit.len() > pods as usize).await;
    let wall = began.elapsed();
    // The program writes Events after the bindings, so wait for them.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let cpu = program.cpu() - before;
    let calls = server.calls().iter().filter(|call| call.method == "POST").count();
    println!(
        "| {nodes} | {pods} | {} | {:.3} ms | {:.0}/s | {:.2} | {} MiB |",
        if more.is_empty() { "on" } else { "off" },
        cpu.as_secs_f64() * 1000.0 / f64::from(pods),
        f64::from(pods) / wall.as_secs_f64(),
        calls as f64 / f64::from(pods),
        program.memory()
    );
}

/// Time from the start of the program to its first binding in a large cluster, and the time that the list of pods alone
/// takes.
async fn first_binding(nodes: u32, pods: u32) {
    let mut double = cluster(nodes, 64);
    for index in 0..pods {
        let mut bound = pod(index, 100);
        bound["spec"]["nodeName"] = format!("n{}", index % nodes).into();
        bound["status"] = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
        double.call("POST", "/api/v1/namespaces/t/pods", &bound);
    }
    let server = start(double).await;
    let client = Client::new(Config::plain(&server.url()), Duration::from_secs(300));
    let client = client.expect("a client");
    let began = Instant::now();
    let list = client.call(&Call::whole("/api/v1/pods")).await.expect("a list");
    let (listed, megabytes) = (began.elapsed(), list.body.len() as f64 / 1e6);
    drop(list);
    create(&server, pods..pods + 1, 100);
    let began = Instant::now();
    let program = Program::start(&server, 2, &[]);
    server.until(|double| !double.audit.is_empty()).await;
    println!(
        "| {nodes} | {pods} | {megabytes:.0} MB | {:.1} s | {:.1} s | {:.2} s | {} MiB |",
        listed.as_secs_f64(),
        began.elapsed().as_secs_f64(),
        program.cpu().as_secs_f64(),
        program.memory()
    );
}

/// Number of pods that are bound in one run.
const BOUND: u32 = 4000;

/// Number of bindings that are sent at the same time.
const IN_FLIGHT: u32 = 16;

/// Duration of a binding in a real API server with 16 bindings in flight, which carries out 960 a second for each
/// processor.
const REAL_BINDING: Duration = Duration::from_micros(16_700);

/// Pods bound per second by the program.
async fn program_rate(delay: Duration) -> f64 {
    let server = start(cluster(1000, 16)).await;
    server.faults(|faults| faults.binding_delay = delay);
    let in_flight = IN_FLIGHT.to_string();
    let _program = Program::start(&server, 2, &["--events", "off", "--in-flight", &in_flight]);
    // When the first pod is bound, the program has listed the whole cluster.
    create(&server, 0..1, 100);
    server.until(|double| !double.audit.is_empty()).await;
    create(&server, 1..BOUND + 1, 100);
    let began = Instant::now();
    server.until(|double| double.audit.len() > BOUND as usize).await;
    f64::from(BOUND) / began.elapsed().as_secs_f64()
}

/// Pods bound per second by a loop of the client that only sends bindings.
async fn bare_rate(delay: Duration) -> f64 {
    let server = start(cluster(1000, 16)).await;
    server.faults(|faults| faults.binding_delay = delay);
    let client = Client::new(Config::plain(&server.url()), Duration::from_secs(60));
    let client = client.expect("a client");
    create(&server, 0..BOUND + 1, 100);
    // The watch of a scheduler is open, so that both rates include its events.
    let watch = Call::get("/api/v1/pods?watch=1&resourceVersion=1");
    let mut watched = client.stream(&watch, Duration::from_secs(60)).await.expect("a watch").lines;
    let reader = tokio::spawn(async move { while let Ok(Some(_)) = watched.next().await {} });
    let began = Instant::now();
    let lanes = (0..IN_FLIGHT).map(|lane| {
        let client = client.clone();
        tokio::spawn(async move {
            for index in (lane..BOUND).step_by(IN_FLIGHT as usize) {
                let name = format!("p{index}");
                let target = json!({"kind": "Node", "name": format!("n{}", index % 1000)});
                let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
                let path = format!("/api/v1/namespaces/t/pods/{name}/binding");
                let answer = client.call(&Call::json(http::Method::POST, path, &body)).await;
                assert_eq!(answer.expect("an answer").status, 201);
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("it binds");
    }
    let rate = f64::from(BOUND) / began.elapsed().as_secs_f64();
    reader.abort();
    rate
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Compares the binding rate of the program with that of a bare loop, by turns: in even rounds, the program is first.
async fn binding_rates(rounds: u32, delay: Duration) {
    let (mut programs, mut bares) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            programs.push(program_rate(delay).await);
            bares.push(bare_rate(delay).await);
        } else {
            bares.push(bare_rate(delay).await);
            programs.push(program_rate(delay).await);
        }
    }
    let shares = programs.iter().zip(&bares).map(|(program, bare)| program / bare).collect();
    println!(
        "| {delay:?} | {rounds} | {:.0}/s | {:.0}/s | {:.0} % |",
        median(programs),
        median(bares),
        median(shares) * 100.0
    );
}

/// Number of overcommitted nodes if pods request five times the capacity of the cluster.
async fn overcommit(workers: u32) {
    let server = start(cluster(100, 8)).await;
    create(&server, 0..4000, 1000);
    let program = Program::start(&server, workers, &[]);
    server.until(|double| double.audit.len() >= 800).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let double = server.lock();
    println!("| {workers} | {} | {} |", double.audit.len(), double.overcommitted().len());
    drop(program);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        println!("| nodes | pods | events | CPU per pod | bound | calls per pod | memory |");
        println!("|--:|--:|---|--:|--:|--:|--:|");
        for nodes in [1000, 5000] {
            per_pod(nodes, 4000, &[]).await;
            per_pod(nodes, 4000, &["--events", "off"]).await;
        }
        println!(
            "\n| nodes | pods | bare list of pods | its time | first binding after | CPU until then | memory |"
        );
        println!("|--:|--:|--:|--:|--:|--:|--:|");
        first_binding(5000, 52_000).await;
        println!("\n| binding takes | rounds | bound by the program | bound by a bare loop | share |");
        println!("|--:|--:|--:|--:|--:|");
        binding_rates(9, REAL_BINDING).await;
        binding_rates(9, Duration::ZERO).await;
        println!("\n| workers | bound, of 800 places | overcommitted nodes |");
        println!("|--:|--:|--:|");
        for workers in [1, 2, 4, 8] {
            overcommit(workers).await;
        }
    });
    runtime.shutdown_background();
}
