//! The metrics: kube-scheduler's names, types and labels, and values after known histories.

use crate::double::http::Server;
use crate::process::{Program, block_on, bound, create, pod, server};
use omega_kube::client::config::Config;
use omega_kube::client::{Call, Client};
use omega_kube::run::metrics::{Metrics, Outcome};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Metrics of kube-scheduler v1.36: name, type and labels.
const OF_KUBE_SCHEDULER: [(&str, &str, &[&str]); 11] = [
    ("scheduler_cache_size", "gauge", &["type"]),
    ("scheduler_pending_pods", "gauge", &["queue"]),
    ("scheduler_pod_scheduling_attempts", "histogram", &[]),
    ("scheduler_pod_scheduling_sli_duration_seconds", "histogram", &["attempts"]),
    ("scheduler_preemption_attempts", "counter", &[]),
    ("scheduler_preemption_victims", "histogram", &[]),
    ("scheduler_queue_incoming_pods", "counter", &["queue", "event"]),
    ("scheduler_schedule_attempts", "counter", &["result", "profile"]),
    ("scheduler_scheduling_algorithm_duration_seconds", "histogram", &[]),
    ("scheduler_scheduling_attempt_duration_seconds", "histogram", &["result", "profile"]),
    ("leader_election_master_status", "gauge", &["name"]),
];

/// Maximum number of reads of a sample until it must have its value. The program updates its metrics twice a second,
/// and a second has at most some thousand reads.
pub(crate) const READS_MAX: u32 = 100_000;

/// Names of the labels of a sample, without the bound of a histogram's bucket.
fn labels(line: &str) -> Vec<&str> {
    let Some((_, rest)) = line.split_once('{') else { return Vec::new() };
    let (inside, _) = rest.split_once('}').expect("a brace");
    let names = inside.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name);
    names.filter(|name| *name != "le").collect()
}

#[test]
fn metrics_of_kube_scheduler_have_its_types_and_labels() {
    let metrics = Metrics::default();
    metrics.begin_profiles(["omega"].into_iter());
    metrics.bound(1, Duration::from_millis(20));
    metrics.leads("omega-kube");
    metrics.attempted("omega", Outcome::Error, Duration::from_millis(3));
    let text = metrics.text();
    for (name, kind, expected) in OF_KUBE_SCHEDULER {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}: {text}");
        let mut samples = text.lines().filter(|line| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            ["{", " ", "_total", "_bucket"].iter().any(|end| rest.starts_with(end))
        });
        let sample = samples.next().unwrap_or_else(|| panic!("{name}: no sample"));
        assert_eq!(labels(sample), expected, "{sample}");
    }
    for of_process in
        ["cpu_seconds_total", "resident_memory_bytes", "start_time_seconds", "open_fds"]
    {
        let sample = format!("process_{of_process} ");
        assert!(text.lines().any(|line| line.starts_with(&sample)), "{sample}: {text}");
    }
    let mut ours: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE scheduler_"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    ours.sort_unstable();
    let known = OF_KUBE_SCHEDULER.iter().filter_map(|(name, ..)| name.strip_prefix("scheduler_"));
    assert_eq!(ours, known.collect::<Vec<_>>());
}

/// A program with a client of its metrics.
struct Measured {
    _program: Program,
    client: Client,
}

impl Measured {
    /// Starts the program, with this time limit of a request in seconds.
    async fn start(server: &Server, timeout: &str) -> Measured {
        let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
        command.args(["run", "--server", &server.url(), "--listen", "127.0.0.1:0"]);
        command.args(["--request-timeout", timeout, "--log-format", "json"]);
        command.env("OMEGA_LOG", "info").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut program = Program(command.spawn().expect("the program starts"));
        let log = BufReader::new(program.0.stderr.take().expect("it is piped"));
        let (found, address) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut found = Some(found);
            // The log is read to its end, so that the program never waits for this reader.
            for line in log.lines().map_while(Result::ok) {
                let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                if let Some(address) = line["fields"]["address"].as_str()
                    && let Some(found) = found.take()
                {
                    let _ = found.send(format!("http://{address}"));
                }
            }
        });
        let config = Config::plain(&address.await.expect("an address"));
        let client = Client::new(config, Duration::from_secs(60)).expect("a client");
        Measured { _program: program, client }
    }

    /// Returns the value of a sample; `None` if there is none.
    async fn value(&self, sample: &str) -> Option<f64> {
        let answer = self.client.call(&Call::get("/metrics")).await.expect("an answer");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let mut values =
            text.lines().filter_map(|line| line.strip_prefix(sample)?.trim().parse().ok());
        values.next()
    }

    /// Waits until samples have these values.
    async fn until(&self, expected: &[(&str, f64)]) {
        for (sample, value) in expected {
            let (mut last, mut reads) = (None, 0);
            while last != Some(*value) {
                assert!(reads < READS_MAX, "{sample} is {last:?} after {reads} reads, not {value}");
                last = self.value(sample).await;
                reads += 1;
                tokio::task::yield_now().await;
            }
        }
    }
}

#[test]
fn attempts_and_queues_are_counted_as_by_kube_scheduler() {
    block_on(async {
        let server = server(1).await;
        let measured = Measured::start(&server, "60").await;
        let mut gated = pod("gated", 100);
        gated["spec"]["schedulingGates"] = json!([{"name": "x/y"}]);
        let mut foreign = pod("foreign", 100);
        foreign["spec"]["schedulerName"] = "other".into();
        for pod in [pod("a", 3000), pod("big", 64_000), gated, foreign] {
            create(&server, &pod);
        }
        let scheduled = r#"{result="scheduled",profile="omega"}"#;
        let attempts = format!("scheduler_schedule_attempts_total{scheduled}");
        let seconds = format!("scheduler_scheduling_attempt_duration_seconds_count{scheduled}");
        measured
            .until(&[
                (&attempts, 1.0),
                (&seconds, 1.0),
                (r#"scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}"#, 1.0),
                (r#"scheduler_pending_pods{queue="unschedulable"}"#, 1.0),
                (r#"scheduler_queue_incoming_pods_total{queue="active",event="PodAdd"}"#, 2.0),
                (r#"leader_election_master_status{name="omega-kube"}"#, 1.0),
                (r#"scheduler_pending_pods{queue="active"}"#, 0.0),
                (r#"scheduler_pending_pods{queue="gated"}"#, 1.0),
                (r#"scheduler_pending_pods{queue="backoff"}"#, 0.0),
                (r#"scheduler_cache_size{type="nodes"}"#, 1.0),
                (r#"scheduler_cache_size{type="pods"}"#, 1.0),
                (r#"scheduler_cache_size{type="assumed_pods"}"#, 0.0),
            ])
            .await;
        // A pod of another scheduler is no attempt of ours.
        server.with(|double| double.bind_elsewhere("t", "foreign", "n0"));
        measured.until(&[(r#"scheduler_cache_size{type="pods"}"#, 2.0)]).await;
        assert_eq!(measured.value("scheduler_pod_scheduling_attempts_count").await, Some(1.0));
        let mut high = pod("high", 3000);
        high["spec"]["priority"] = 1000.into();
        create(&server, &high);
        measured.until(&[("scheduler_preemption_victims_count", 1.0)]).await;
        assert_eq!(measured.value("scheduler_preemption_victims_sum").await, Some(1.0));
        assert!(measured.value("scheduler_preemption_attempts_total").await > Some(0.0));
        server.with(|double| double.end("t", "a"));
        measured.until(&[(&attempts, 2.0), ("scheduler_pod_scheduling_attempts_count", 2.0)]).await;
        // The first attempt of the preempting pod found no room.
        assert!(measured.value("scheduler_pod_scheduling_attempts_sum").await >= Some(3.0));
    });
}

#[test]
fn a_binding_that_fails_is_an_attempt_with_an_error() {
    block_on(async {
        let server = server(1).await;
        server.faults(|faults| faults.failing = 5);
        // The pod is tried again when no late request can bind it any more.
        let measured = Measured::start(&server, "10").await;
        create(&server, &pod("a", 500));
        server.until(|double| bound(double) == 1).await;
        measured
            .until(&[
                (r#"scheduler_schedule_attempts_total{result="error",profile="omega"}"#, 1.0),
                (r#"scheduler_schedule_attempts_total{result="scheduled",profile="omega"}"#, 1.0),
                (r#"scheduler_pod_scheduling_sli_duration_seconds_count{attempts="2"}"#, 1.0),
            ])
            .await;
    });
}
