//! The engine's part of preemption: it requests victims for pods, and handles the proposals.

use super::engine::Engine;
use crate::adapter::PodName;
use crate::adapter::preempt::{Proposal, Verdict};
use crate::watch::Event;
use omega_workload::kube::api::DisruptionBudget;

impl Engine {
    pub(super) fn budgets(&mut self, event: Event<DisruptionBudget>) {
        let Some(adapter) = &self.adapter else { return };
        let budgets = adapter.budgets();
        match event {
            Event::Listed(all, _) => budgets.listed(&all),
            Event::Changed(budget) => budgets.changed(&budget),
            Event::Deleted(budget) => budgets.deleted(&budget),
        }
    }

    /// Requests victims for a pod that fits on no node, unless a request for the pod is already pending.
    pub(super) fn request_victims(&mut self, pod: PodName) {
        let Some(adapter) = &self.adapter else { return };
        let Some(job) = adapter.job_of(&pod).filter(|_| self.parts.settings.preempts) else {
            return;
        };
        if !adapter.budgets().are_listed() {
            self.again.insert(pod);
        } else if adapter.may_preempt(&pod) && self.asking.insert(pod.clone()) {
            self.parts.metrics.preemptions.inc();
            self.parts.preempting.request(pod, job);
        }
    }

    pub(super) fn proposed(&mut self, pod: PodName, proposal: Option<Proposal>) {
        self.asking.remove(&pod);
        let (Some(adapter), Some(proposal)) = (&mut self.adapter, proposal) else { return };
        let before = adapter.counters().victims;
        match adapter.preempt(&proposal) {
            Verdict::Again => drop(self.again.insert(pod)),
            Verdict::Obsolete => {}
            Verdict::Nominated => {
                let victims = adapter.counters().victims - before;
                #[expect(clippy::cast_precision_loss, reason = "a node has few pods")]
                self.parts.metrics.victims_of_pod.observe(victims as f64);
            }
        }
    }
}
