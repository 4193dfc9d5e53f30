//! Traces of sampled commits, with the time that each spent in every stage.
//!
//! ```text
//!   commit ─┬─ received    until it was read, permitted, and passed to the cell
//!           ├─ queued      until the leader took it from the queue
//!           ├─ pre_checked checked, and encoded into an entry
//!           ├─ logged      until the entry was durable on the leader's disk
//!           ├─ replicated  from the same moment, until a majority had it
//!           ├─ applied     to the leader's cell
//!           └─ answered    until the reply was sent
//! ```
//!
//! No span exists while a commit is in progress. The store records when the entry of a traced transaction reached each
//! stage. The spans are built from these times after the reply. So tracing adds only one test of an `Option` to the
//! path of a commit.
//!
//! Only the leader has the times of the stages. Traces of other replicas, and of transactions rejected without an
//! entry, have only the first and the last span.

use crate::host::Host;
use omega_client::ApiError;
use omega_core::{Commit, TransactionId};
use omega_store::replica::{Followed, Running};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer, SdkTracerProvider};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tonic::metadata::MetadataMap;
use tonic::transport::{Endpoint, Error};

/// Export timeout of spans. Spans that are not accepted in time are dropped silently, because traces are only a sample.
const EXPORT_MAX: Duration = Duration::from_secs(5);

/// Time for which a stopping server waits for the last spans.
const END_MAX: Duration = Duration::from_secs(2);

/// Sampling of traces, and their collector.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// Address of the collector, such as `http://host:4317`.
    pub endpoint: String,
    /// Fraction of transactions that are traced, from 0 to 1. It applies to transactions whose sender made no sampling
    /// decision.
    pub fraction: f64,
}

/// Source of traces. Clones share the exporter.
#[derive(Clone, Debug)]
pub struct Traces {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    fraction: f64,
}

/// Way to decide whether a transaction is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// By the caller's sampling decision, if the call belongs to a trace, or else at random.
    Sender,
    /// Only at random, because the call is a stream of many transactions.
    Chance,
}

/// Reads `traceparent` out of the metadata of a call.
struct Metadata<'a>(&'a MetadataMap);

impl Extractor for Metadata<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        // Keys are never listed, because the propagator looks `traceparent` up by name.
        Vec::new()
    }
}

impl Traces {
    /// Starts to export spans to a collector, which need not be reachable. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn start(settings: &TraceSettings, process: String) -> Result<Traces, Error> {
        let endpoint = Endpoint::from_shared(settings.endpoint.clone())?;
        let channel = endpoint.timeout(EXPORT_MAX).connect_timeout(EXPORT_MAX).connect_lazy();
        let exporter = SpanExporter::builder().with_tonic().with_channel(channel).build();
        let exporter = exporter.expect("with a channel there is nothing else that could be wrong");
        let resource = Resource::builder().with_service_name("omega");
        let resource = resource.with_attribute(KeyValue::new("service.instance.id", process));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("omega");
        let shared = Shared { provider, tracer, fraction: settings.fraction };
        Ok(Traces { shared: Arc::new(shared) })
    }

    /// Exports the remaining spans, for at most two seconds. Blocks.
    pub fn end(&self) {
        if let Err(error) = self.shared.provider.shutdown_with_timeout(END_MAX) {
            tracing::debug!(%error, "the last traces were not sent");
        }
    }

    /// Trace to which a call belongs.
    pub(crate) fn parent(&self, metadata: &MetadataMap) -> Context {
        TraceContextPropagator::new().extract_with_context(&Context::new(), &Metadata(metadata))
    }

    /// Begins to trace a transaction whose request arrived at `began`, if it is sampled.
    pub(crate) fn begin(
        &self,
        host: &Host,
        (parent, choice): (&Context, Choice),
        id: TransactionId,
        began: Instant,
    ) -> Option<Trace> {
        let sender = parent.span().span_context().clone();
        let chosen = match choice {
            Choice::Sender if sender.is_valid() => sender.is_sampled(),
            _ => self.is_drawn(),
        };
        if !chosen {
            return None;
        }
        let running = host.running().cloned();
        if let Some(running) = &running {
            running.stages().follow(id);
        }
        let parent = parent.clone();
        let wall = SystemTime::now() - began.elapsed();
        Some(Trace { traces: self.clone(), running, parent, id, began, wall, submitted: None })
    }

    /// Decides at random, by the lower half of a trace id, like OpenTelemetry.
    fn is_drawn(&self) -> bool {
        let bytes = RandomIdGenerator::default().new_trace_id().to_bytes();
        let lower = bytes.last_chunk().expect("an id of a trace has 16 bytes");
        // The upper 53 bits, which a float represents exactly.
        let drawn = (u64::from_be_bytes(*lower) >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < self.shared.fraction
    }
}

/// A transaction that is traced.
#[derive(Debug)]
pub(crate) struct Trace {
    traces: Traces,
    running: Option<Arc<Running>>,
    parent: Context,
    id: TransactionId,
    began: Instant,
    /// Wall-clock time at `began`.
    wall: SystemTime,
    submitted: Option<Instant>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.followed();
    }
}

impl Trace {
    /// Records that the transaction was passed to the cell.
    pub(crate) fn mark_submitted(&mut self) {
        self.submitted = Some(Instant::now());
    }

    fn followed(&self) -> Option<Followed> {
        self.running.as_ref().and_then(|running| running.stages().followed(self.id))
    }

    /// Records the reply, and exports the span.
    pub(crate) fn end(self, claims: usize, answer: Result<&Commit, &ApiError>) {
        let now = Instant::now();
        let followed = self.followed();
        let tracer = &self.traces.shared.tracer;
        let mut root = tracer
            .span_builder("commit")
            .with_kind(SpanKind::Server)
            .with_start_time(self.wall)
            .with_attributes(self.attributes(claims, answer, followed.as_ref()))
            .start_with_context(tracer, &self.parent);
        if let Err(error) = answer {
            root.set_status(Status::error(error.code.name()));
        }
        let below = Context::new().with_remote_span_context(root.span_context().clone());
        for (name, from, to) in self.stages(followed.as_ref(), now) {
            let span = tracer.span_builder(name).with_start_time(self.at(from));
            span.start_with_context(tracer, &below).end_with_timestamp(self.at(to));
        }
        root.end_with_timestamp(self.at(now));
    }

    fn attributes(
        &self,
        claims: usize,
        answer: Result<&Commit, &ApiError>,
        followed: Option<&Followed>,
    ) -> Vec<KeyValue> {
        let number =
            |name, value: u64| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
        let mut all = vec![
            number("omega.scheduler", self.id.scheduler.0.into()),
            number("omega.transaction", self.id.number),
            number("omega.claims", claims as u64),
        ];
        match answer {
            Ok(commit) => {
                all.push(number("omega.version", commit.version.0));
                all.push(number("omega.conflicts", commit.conflicts.len() as u64));
            }
            Err(error) => all.push(KeyValue::new("omega.error", error.code.name())),
        }
        if let Some(Followed { entry, commands, .. }) = followed {
            all.push(number("omega.entry", entry.0));
            all.push(number("omega.entry.commands", *commands as u64));
        }
        all
    }

    fn stages(
        &self,
        followed: Option<&Followed>,
        now: Instant,
    ) -> Vec<(&'static str, Instant, Instant)> {
        let Some(submitted) = self.submitted else { return Vec::new() };
        let mut all = vec![("received", self.began, submitted)];
        if let Some(Followed { gathered, proposed, logged, committed, applied, .. }) = followed {
            // If the transaction arrived while the leader gathered others, it did not have to wait in the queue.
            let looked_at = (*gathered).max(submitted);
            all.push(("queued", submitted, looked_at));
            all.push(("pre_checked", looked_at, (*proposed).max(looked_at)));
            all.extend(logged.map(|logged| ("logged", *proposed, logged)));
            all.push(("replicated", *proposed, *committed));
            all.push(("applied", *committed, *applied));
            all.push(("answered", *applied, now));
        } else {
            all.push(("answered", submitted, now));
        }
        all
    }

    /// Wall-clock time of an instant.
    fn at(&self, moment: Instant) -> SystemTime {
        self.wall + moment.saturating_duration_since(self.began)
    }
}
