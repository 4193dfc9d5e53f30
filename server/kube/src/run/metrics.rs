//! Metrics. A metric that kube-scheduler also has gets kube-scheduler's name; other names begin with `omega_kube_`.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 1];

/// The metrics.
pub struct Metrics {
    registry: Registry,
    /// `scheduler_schedule_attempts_total`, by result.
    pub attempts: Family<Labels, Counter>,
    /// `scheduler_pending_pods`, by queue.
    pub pending: Family<Labels, Gauge>,
    /// `scheduler_pod_scheduling_sli_duration_seconds`.
    pub sli_seconds: Histogram,
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
    /// `omega_kube_preempted_pods_total`.
    pub victims: Counter,
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
    /// `omega_kube_nodes`.
    pub nodes: Gauge,
    /// `omega_kube_events_total`: Events and conditions, by outcome.
    pub notices: Family<Labels, Counter>,
    /// `omega_kube_dry_run_total`: decisions of a dry run, by whether the present scheduler chose the same node.
    pub dry_run: Family<Labels, Counter>,
    /// `leader_election_master_status`.
    pub leads: Gauge,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::default(),
            attempts: Family::default(),
            pending: Family::default(),
            sli_seconds: seconds(),
            bindings_seconds: seconds(),
            bindings: Family::default(),
            conflicts: Counter::default(),
            foreign: Counter::default(),
            preemptions: Counter::default(),
            victims: Counter::default(),
            overcommits: Counter::default(),
            overcommitted: Gauge::default(),
            unreadable: Gauge::default(),
            left_out: Counter::default(),
            blind: Gauge::default(),
            nodes: Gauge::default(),
            notices: Family::default(),
            dry_run: Family::default(),
            leads: Gauge::default(),
        };
        metrics.register();
        metrics.begin();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let all = &mut self.registry;
        let help = "Attempts to schedule pods, by result";
        all.register("scheduler_schedule_attempts", help, self.attempts.clone());
        let help = "Pods that are not bound yet, by queue";
        all.register("scheduler_pending_pods", help, self.pending.clone());
        let help = "Time from the first observation of a pod to its binding";
        let name = "scheduler_pod_scheduling_sli_duration_seconds";
        all.register(name, help, self.sli_seconds.clone());
        let help = "Time in which the API server answered a binding";
        all.register("omega_kube_binding_duration_seconds", help, self.bindings_seconds.clone());
        let help = "Responses of the API server to bindings, by result";
        all.register("omega_kube_bindings", help, self.bindings.clone());
        let help = "Claims that the cell rejected because another worker was first";
        all.register("omega_kube_conflicts", help, self.conflicts.clone());
        let help = "Pods bound by other schedulers";
        all.register("omega_kube_foreign_bindings", help, self.foreign.clone());
        let help = "Pods that were nominated to a node after preemption";
        all.register("scheduler_preemption_attempts", help, self.preemptions.clone());
        let help = "Pods deleted by preemption";
        all.register("omega_kube_preempted_pods", help, self.victims.clone());
        let help = "Bindings by other schedulers after which the pods of a node request more than \
             its capacity";
        all.register("omega_kube_overcommits", help, self.overcommits.clone());
        let help = "Nodes whose pods request more than the node's capacity";
        all.register("omega_kube_overcommitted_nodes", help, self.overcommitted.clone());
        let help = "Pods and nodes with fields that omega-kube does not understand";
        all.register("omega_kube_unreadable_objects", help, self.unreadable.clone());
        let help = "Changes of objects that were left out, because they are too long to be read";
        all.register("omega_kube_left_out_changes", help, self.left_out.clone());
        let help = "Nodes that accept no pods, because the requests on them are not known";
        all.register("omega_kube_blind_nodes", help, self.blind.clone());
        let help = "Nodes in the cell";
        all.register("omega_kube_nodes", help, self.nodes.clone());
        let help = "Events and conditions, by outcome";
        all.register("omega_kube_notices", help, self.notices.clone());
        let help = "Decisions of a dry run, compared with those of the present scheduler";
        all.register("omega_kube_dry_run", help, self.dry_run.clone());
        let help = "1 if this process leads, 0 otherwise";
        all.register("leader_election_master_status", help, self.leads.clone());
    }

    /// Creates all series, so that their rates begin at zero.
    fn begin(&self) {
        let zero = |family: &Family<Labels, Counter>, label, values: &[&'static str]| {
            for value in values {
                drop(family.get_or_create(&[(label, *value)]));
            }
        };
        zero(&self.attempts, "result", &["scheduled", "unschedulable"]);
        let answers = ["bound", "conflict", "throttled", "failed", "unknown"];
        zero(&self.bindings, "answer", &answers);
        let outcomes = ["sent", "obsolete", "refused", "failed", "dropped"];
        zero(&self.notices, "outcome", &outcomes);
        zero(&self.dry_run, "node", &["same", "other"]);
        for queue in ["active", "assumed", "backoff"] {
            drop(self.pending.get_or_create(&[("queue", queue)]));
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
