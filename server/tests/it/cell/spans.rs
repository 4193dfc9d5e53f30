//! Traces of commits: their times, their parents, and which commits are traced.

use crate::kit::cell::{Process, ports};
use crate::kit::process::{folder, omega, run_omega};
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::{self, CommitRequest};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// Stores exported spans.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    /// Names of the services that sent spans.
    services: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of in request.into_inner().resource_spans {
            let about = of.resource.unwrap().attributes.into_iter();
            self.services.lock().unwrap().extend(about.map(|one| format!("{one:?}")));
            let spans = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector, and a cell that exports to it.
struct Traced {
    runtime: Runtime,
    collector: Collector,
    at: u16,
    dir: tempfile::TempDir,
}

impl Traced {
    fn new() -> Traced {
        let runtime = Runtime::new().unwrap();
        let (collector, at) = (Collector::default(), ports(1)[0]);
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", at))).unwrap();
        let service = TraceServiceServer::new(collector.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Traced { runtime, collector, at, dir: folder(&[]) }
    }

    /// Serves the cell, makes a request, and ends the server by SIGTERM. The server exports all spans before it ends.
    fn serve(&self, arguments: &[&str], endpoint: Option<&str>, ask: impl FnOnce(&Self, Channel)) {
        let port = ports(1)[0];
        let mut command = omega(self.dir.path());
        command
            .args(["serve", "--dir=cell", &format!("--listen=127.0.0.1:{port}")])
            .args(arguments);
        command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.envs(endpoint.map(|url| ("OTEL_EXPORTER_OTLP_ENDPOINT", url)));
        let mut server = Process(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut output = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut output).unwrap();
        let url = format!("http://127.0.0.1:{port}");
        made(self.dir.path(), &url);
        let entered = self.runtime.enter();
        let channel = Endpoint::from_shared(url).unwrap().connect_lazy();
        drop(entered);
        ask(self, channel);
        let pid = server.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(server.0.wait().unwrap().success());
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.at)
    }

    fn spans(&self) -> Vec<Span> {
        std::mem::take(&mut self.collector.spans.lock().unwrap())
    }

    /// A transaction that claims a task on the only machine, with the `traceparent` of a trace.
    fn claim(&self, (number, index): (u64, u32), parent: Option<&str>) -> Request<CommitRequest> {
        let mut request = Request::new(CommitRequest {
            number,
            claim_jobs: vec![0],
            claim_indices: vec![index],
            claim_slots: vec![0],
            claim_seen: vec![0],
            retry: true,
            ..CommitRequest::default()
        });
        if let Some(parent) = parent {
            request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        }
        request
    }
}

/// Spans that a served cell exports. A server that ends drops spans that are not exported within two seconds, so on a
/// busy computer, new cells are served until one has exported so many spans.
fn exported(count: usize, serve: impl Fn(&Traced)) -> (Traced, Vec<Span>) {
    let attempt = || {
        let traced = Traced::new();
        serve(&traced);
        let spans = traced.spans();
        (traced, spans)
    };
    let mut first = std::iter::repeat_with(attempt).take(9);
    first.find(|(_, spans)| spans.len() >= count).unwrap_or_else(attempt)
}

/// Creates a machine, a job and a scheduler, if they are missing.
fn made(dir: &Path, url: &str) {
    let cell = url.trim_start_matches("http://");
    for line in ["machine add m --cpu 9", "job submit web --count 9 --cpu 1"] {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(["--cell", cell]);
        let output = run_omega(dir, &arguments);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
}

async fn register(client: &mut SchedulingServiceClient<Channel>) -> u64 {
    let request = proto::RegisterRequest { name: "s".to_owned(), ..Default::default() };
    client.register(request).await.unwrap().into_inner().next_transaction
}

fn number(span: &Span, key: &str) -> Option<i64> {
    let found = span.attributes.iter().find(|one| one.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::IntValue(number) => Some(*number),
        _ => None,
    }
}

/// The spans below a root, in the order in which they began. Checks that each is within the root's time.
fn below<'s>(root: &Span, spans: &'s [Span]) -> Vec<&'s Span> {
    let mut below: Vec<&Span> =
        spans.iter().filter(|span| span.parent_span_id == root.span_id).collect();
    below.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
    for span in &below {
        assert_eq!(span.trace_id, root.trace_id);
        let (from, to) = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert!(root.start_time_unix_nano <= from && from <= to, "{span:?}");
        assert!(to <= root.end_time_unix_nano, "{span:?}");
    }
    below
}

fn names(spans: &[&Span]) -> Vec<String> {
    let mut names: Vec<String> = spans.iter().map(|span| span.name.clone()).collect();
    names.sort();
    names
}

const STAGES: [&str; 7] =
    ["answered", "applied", "logged", "pre_checked", "queued", "received", "replicated"];

#[test]
fn a_commit_is_told_of_in_the_trace_of_its_sender() {
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let sampled = format!("00-{trace}-{span}-01");
    let not_sampled = format!("00-1{}-{span}-00", &trace[1..]);
    let (traced, spans) = exported(1 + STAGES.len(), |traced| {
        let endpoint = format!("--otlp-endpoint={}", traced.url());
        traced.serve(&[&endpoint, "--trace-fraction=0"], None, |traced, channel| {
            traced.runtime.block_on(async {
                let mut client = SchedulingServiceClient::new(channel);
                assert_eq!(register(&mut client).await, 0);
                for (index, parent) in [(0, None), (1, Some(&*sampled)), (2, Some(&*not_sampled))] {
                    let request = traced.claim((index.into(), index), parent);
                    let answer = client.commit(request).await.unwrap().into_inner();
                    assert_eq!(answer.conflicts, [], "{index}");
                }
            });
        });
    });
    let root = spans.iter().find(|one| one.name == "commit").unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(
        (hex(&root.trace_id), hex(&root.parent_span_id)),
        (trace.to_owned(), span.to_owned())
    );
    assert_eq!(number(root, "omega.transaction"), Some(1), "one of three: {spans:?}");
    assert_eq!((number(root, "omega.claims"), number(root, "omega.conflicts")), (Some(1), Some(0)));
    assert!(number(root, "omega.entry").is_some());
    let stages = below(root, &spans);
    assert_eq!(names(&stages), STAGES);
    assert_eq!(spans.len(), 1 + STAGES.len());
    // The stages are one after the other, except that the log is written while other replicas receive the entries.
    let line = ["received", "queued", "pre_checked", "replicated", "applied", "answered"];
    let line = line.map(|name| stages.iter().find(|stage| stage.name == name).unwrap());
    for two in line.windows(2) {
        assert_eq!(two[0].end_time_unix_nano, two[1].start_time_unix_nano, "{two:?}");
    }
    let services = traced.collector.services.lock().unwrap().join("\n");
    assert!(services.contains("\"omega\"") && services.contains("r1 of cell"), "{services}");
}

#[test]
fn commits_of_a_stream_are_drawn_one_by_one() {
    let (_traced, spans) = exported(2 * (1 + STAGES.len()), |traced| {
        let url = traced.url();
        traced.serve(&["--trace-fraction=1"], Some(&url), |traced, channel| {
            traced.runtime.block_on(async {
                let mut client = SchedulingServiceClient::new(channel);
                let next = register(&mut client).await;
                // The second transaction claims the room that the first one got.
                let requests =
                    [(next, 0), (next + 1, 0)].map(|one| traced.claim(one, None).into_inner());
                let stream = client.commit_stream(tokio_stream::iter(requests)).await.unwrap();
                let mut answers = stream.into_inner();
                assert!(answers.message().await.unwrap().is_some());
                assert!(answers.message().await.unwrap().is_some());
            });
        });
    });
    let mut roots: Vec<&Span> = spans.iter().filter(|one| one.parent_span_id.is_empty()).collect();
    roots.sort_by_key(|root| number(root, "omega.transaction"));
    assert_eq!(roots.len(), 2, "{spans:?}");
    assert_ne!(roots[0].trace_id, roots[1].trace_id);
    for (root, conflicts) in roots.iter().zip([0, 1]) {
        assert_eq!(root.name, "commit");
        assert_eq!(number(root, "omega.conflicts"), Some(conflicts), "{root:?}");
        assert_eq!(names(&below(root, &spans)), STAGES);
    }
}

#[test]
fn a_collector_that_is_not_there_costs_nobody_anything() {
    let traced = Traced::new();
    let nobody = format!("--otlp-endpoint=http://127.0.0.1:{}", ports(1)[0]);
    let mut claims = 0..;
    for arguments in [&[&nobody, "--trace-fraction=1"][..], &[]] {
        let claim = claims.next().unwrap();
        traced.serve(arguments, None, |traced, channel| {
            traced.runtime.block_on(async {
                let mut client = SchedulingServiceClient::new(channel);
                let next = register(&mut client).await;
                let answer = client.commit(traced.claim((next, claim), None)).await.unwrap();
                assert_eq!(answer.into_inner().conflicts, []);
            });
        });
    }
    assert_eq!(traced.spans(), [], "nobody was told to tell");
    for bad in ["--otlp-endpoint=https://a:1", "--trace-fraction=2"] {
        let output = run_omega(traced.dir.path(), &["serve", "--memory", bad]);
        assert_eq!((output.code, output.stderr.lines().count()), (Some(2), 1), "{}", output.stderr);
    }
}
