//! Metrics. A metric that kube-scheduler also has gets kube-scheduler's name; other names begin with `omega_kube_`.

use super::process::Process;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

type Labels = [(&'static str, &'static str); 1];

/// Labels of a scheduling attempt: its result, and the scheduler name of the pod, which kube-scheduler calls profile.
type Attempt = [(&'static str, String); 2];

/// Histograms by labels.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics.
pub struct Metrics {
    registry: Registry,
    /// `scheduler_schedule_attempts_total`, by result and profile.
    attempts: Family<Attempt, Counter>,
    /// `scheduler_scheduling_attempt_duration_seconds`, by result and profile.
    attempt_seconds: Histograms<Attempt>,
    /// `scheduler_pod_scheduling_attempts`: attempts of each bound pod.
    pub pod_attempts: Histogram,
    /// `scheduler_pending_pods`, by queue.
    pub pending: Family<Labels, Gauge>,
    /// `scheduler_cache_size`, by type.
    pub cache: Family<Labels, Gauge>,
    /// `scheduler_pod_scheduling_sli_duration_seconds`, by the number of attempts.
    sli_seconds: Histograms<[(&'static str, String); 1]>,
    /// `omega_kube_binding_duration_seconds`: time of a binding. kube-scheduler includes this time in
    /// `scheduler_framework_extension_point_duration_seconds`.
    pub bindings_seconds: Histogram,
    /// `omega_kube_bindings_total`, by answer.
    pub bindings: Family<Labels, Counter>,
    /// `omega_kube_conflicts_total`: claims that conflicted with a claim of another worker.
    pub conflicts: Counter,
    /// `omega_kube_foreign_bindings_total`.
    pub foreign: Counter,
    /// `scheduler_preemption_attempts_total`.
    pub preemptions: Counter,
    /// `scheduler_preemption_victims`: victims of each nominated pod.
    pub victims_of_pod: Histogram,
    /// `omega_kube_preempted_pods_total`.
    pub victims: Counter,
    /// `omega_kube_repairs_total`: pods deleted from nodes that another scheduler has overcommitted.
    pub repairs: Counter,
    /// `omega_kube_overcommits_total`.
    pub overcommits: Counter,
    /// `omega_kube_overcommitted_nodes`.
    pub overcommitted: Gauge,
    /// `omega_kube_unreadable_objects`.
    pub unreadable: Gauge,
    /// `omega_kube_left_out_changes_total`: changes of objects that are too long to be read.
    pub left_out: Counter,
    /// `omega_kube_blind_nodes`.
    pub blind: Gauge,
    /// `omega_kube_stale_lists`: lists whose mirrors may be out of date.
    pub stale: Gauge,
    /// `omega_kube_nodes`.
    pub nodes: Gauge,
    /// `omega_kube_notices_total`: Events and conditions, by outcome.
    pub notices: Family<Labels, Counter>,
    /// `omega_kube_dry_run_total`: decisions of a dry run, by whether the present scheduler chose the same node.
    pub dry_run: Family<Labels, Counter>,
    /// `leader_election_master_status`, by the name of the Lease.
    leads: Family<[(&'static str, String); 1], Gauge>,
    /// `scheduler_queue_incoming_pods_total`, by queue and event.
    incoming: Family<[(&'static str, &'static str); 2], Counter>,
    /// `scheduler_scheduling_algorithm_duration_seconds`: decisions without bindings.
    pub decisions_seconds: Histogram,
}

/// The outcome of a scheduling attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod was bound.
    Scheduled,
    /// No node was feasible.
    Unschedulable,
    /// The pod could not be bound.
    Error,
}

impl Outcome {
    const ALL: [Outcome; 3] = [Outcome::Scheduled, Outcome::Unschedulable, Outcome::Error];

    fn name(self) -> String {
        let word = match self {
            Outcome::Scheduled => "scheduled",
            Outcome::Unschedulable => "unschedulable",
            Outcome::Error => "error",
        };
        word.into()
    }
}

/// The entry of a pod into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A new pod is to be scheduled.
    New,
    /// No node was feasible.
    Unschedulable,
    /// The pod could not be bound.
    Backoff,
}

impl Entry {
    const ALL: [Entry; 3] = [Entry::New, Entry::Unschedulable, Entry::Backoff];

    /// Returns kube-scheduler's words for the queue and the event.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Entry::New => ("active", "PodAdd"),
            Entry::Unschedulable => ("unschedulable", "ScheduleAttemptFailure"),
            Entry::Backoff => ("backoff", "ScheduleAttemptFailure"),
        }
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

fn sli_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 20))
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::default(),
            attempts: Family::default(),
            attempt_seconds: Family::new_with_constructor(seconds),
            pod_attempts: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            pending: Family::default(),
            cache: Family::default(),
            sli_seconds: Family::new_with_constructor(sli_seconds),
            bindings_seconds: seconds(),
            bindings: Family::default(),
            conflicts: Counter::default(),
            foreign: Counter::default(),
            preemptions: Counter::default(),
            victims_of_pod: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            victims: Counter::default(),
            repairs: Counter::default(),
            overcommits: Counter::default(),
            overcommitted: Gauge::default(),
            unreadable: Gauge::default(),
            left_out: Counter::default(),
            blind: Gauge::default(),
            stale: Gauge::default(),
            nodes: Gauge::default(),
            notices: Family::default(),
            dry_run: Family::default(),
            leads: Family::default(),
            incoming: Family::default(),
            decisions_seconds: seconds(),
        };
        metrics.register();
        metrics.begin();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        self.register_attempts();
        self.register_queues();
        self.register_preemption();
        let all = &mut self.registry;
        let help = "Time in which the API server answered a binding";
        all.register("omega_kube_binding_duration_seconds", help, self.bindings_seconds.clone());
        let help = "Responses of the API server to bindings, by result";
        all.register("omega_kube_bindings", help, self.bindings.clone());
        let help = "Claims that the cell rejected because another worker was first";
        all.register("omega_kube_conflicts", help, self.conflicts.clone());
        let help = "Pods bound by other schedulers";
        all.register("omega_kube_foreign_bindings", help, self.foreign.clone());
        let help = "Bindings by other schedulers after which the pods of a node request more than \
             its capacity";
        all.register("omega_kube_overcommits", help, self.overcommits.clone());
        let help = "Nodes whose pods request more than the node's capacity";
        all.register("omega_kube_overcommitted_nodes", help, self.overcommitted.clone());
        let help = "Pods and nodes with fields that omega-kube does not understand";
        all.register("omega_kube_unreadable_objects", help, self.unreadable.clone());
        let help = "Changes of objects that were left out, because they are too long to be read";
        all.register("omega_kube_left_out_changes", help, self.left_out.clone());
        let help = "Nodes that accept no pods: the node or a pod on it cannot be mirrored";
        all.register("omega_kube_blind_nodes", help, self.blind.clone());
        let help = "Lists about which the API server has sent nothing for too long";
        all.register("omega_kube_stale_lists", help, self.stale.clone());
        let help = "Nodes in the cell";
        all.register("omega_kube_nodes", help, self.nodes.clone());
        let help = "Events and conditions, by outcome";
        all.register("omega_kube_notices", help, self.notices.clone());
        let help = "Decisions of a dry run, compared with those of the present scheduler";
        all.register("omega_kube_dry_run", help, self.dry_run.clone());
        let help = "1 if this process leads, 0 otherwise";
        all.register("leader_election_master_status", help, self.leads.clone());
    }

    fn register_attempts(&mut self) {
        let all = &mut self.registry;
        let help = "Attempts to schedule pods, by result";
        all.register("scheduler_schedule_attempts", help, self.attempts.clone());
        let help = "Duration of an attempt: decision and binding";
        let name = "scheduler_scheduling_attempt_duration_seconds";
        all.register(name, help, self.attempt_seconds.clone());
        let help = "Attempts until a pod was bound";
        all.register("scheduler_pod_scheduling_attempts", help, self.pod_attempts.clone());
        let help = "Pods that are not placed yet, by queue";
        all.register("scheduler_pending_pods", help, self.pending.clone());
        let help = "Nodes, bound and assumed pods, and assumed pods";
        all.register("scheduler_cache_size", help, self.cache.clone());
        let help = "Time from the first observation of a pod without gates to its binding";
        let name = "scheduler_pod_scheduling_sli_duration_seconds";
        all.register(name, help, self.sli_seconds.clone());
    }

    fn register_queues(&mut self) {
        let all = &mut self.registry;
        let help = "Pods that entered a queue, by queue and event";
        all.register("scheduler_queue_incoming_pods", help, self.incoming.clone());
        let help = "Duration of a decision, without the binding";
        let name = "scheduler_scheduling_algorithm_duration_seconds";
        all.register(name, help, self.decisions_seconds.clone());
        all.register_collector(Box::new(Process));
    }

    fn register_preemption(&mut self) {
        let all = &mut self.registry;
        let help = "Searches for pods to preempt";
        all.register("scheduler_preemption_attempts", help, self.preemptions.clone());
        let help = "Pods preempted for one pod";
        all.register("scheduler_preemption_victims", help, self.victims_of_pod.clone());
        let help = "Pods deleted by preemption";
        all.register("omega_kube_preempted_pods", help, self.victims.clone());
        let help = "Pods deleted from nodes that another scheduler has overcommitted";
        all.register("omega_kube_repairs", help, self.repairs.clone());
    }

    /// Records that this process does not lead yet, under the name of its Lease.
    pub fn stands_by(&self, lease: &str) {
        self.leads.get_or_create(&[("name", lease.to_owned())]).set(0);
    }

    /// Records that this process leads, under the name of its Lease.
    pub fn leads(&self, lease: &str) {
        self.leads.get_or_create(&[("name", lease.to_owned())]).set(1);
    }

    /// Counts a pod that entered a queue.
    pub fn entered(&self, entry: Entry) {
        let (queue, event) = entry.words();
        self.incoming.get_or_create(&[("queue", queue), ("event", event)]).inc();
    }

    /// Counts an attempt to schedule a pod with this scheduler name.
    pub fn attempted(&self, profile: &str, outcome: Outcome, took: Duration) {
        let labels = [("result", outcome.name()), ("profile", profile.to_owned())];
        self.attempts.get_or_create(&labels).inc();
        self.attempt_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Records the time from a pod's first observation to its binding, and the number of attempts in this time.
    pub fn bound(&self, attempts: u32, took: Duration) {
        self.pod_attempts.observe(f64::from(attempts));
        // As in kube-scheduler, so that the number of series is limited.
        let label = if attempts >= 15 { "15+".to_owned() } else { attempts.to_string() };
        self.sli_seconds.get_or_create(&[("attempts", label)]).observe(took.as_secs_f64());
    }

    /// Creates the series of these profiles, so that their rates begin at zero.
    pub fn begin_profiles<'a>(&self, profiles: impl Iterator<Item = &'a str>) {
        for profile in profiles {
            for outcome in Outcome::ALL {
                let labels = [("result", outcome.name()), ("profile", profile.to_owned())];
                drop(self.attempts.get_or_create(&labels));
                drop(self.attempt_seconds.get_or_create(&labels));
            }
        }
    }

    /// Creates all series, so that their rates begin at zero.
    fn begin(&self) {
        let zero = |family: &Family<Labels, Counter>, label, values: &[&'static str]| {
            for value in values {
                drop(family.get_or_create(&[(label, *value)]));
            }
        };
        let answers = ["bound", "conflict", "throttled", "failed", "unknown"];
        zero(&self.bindings, "answer", &answers);
        let outcomes = ["sent", "obsolete", "refused", "failed", "dropped"];
        zero(&self.notices, "outcome", &outcomes);
        zero(&self.dry_run, "node", &["same", "other"]);
        for queue in ["active", "backoff", "unschedulable", "gated"] {
            drop(self.pending.get_or_create(&[("queue", queue)]));
        }
        for entry in Entry::ALL {
            let (queue, event) = entry.words();
            drop(self.incoming.get_or_create(&[("queue", queue), ("event", event)]));
        }
        for kind in ["nodes", "pods", "assumed_pods"] {
            drop(self.cache.get_or_create(&[("type", kind)]));
        }
    }

    /// Returns all metrics in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = encode(&mut text, &self.registry);
        text
    }
}
