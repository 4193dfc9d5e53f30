//! The engine's part of preemption: it requests victims for pods, and handles the proposals.

use super::engine::Engine;
use super::preempter::Search;
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
        if self.search(pod) {
            self.parts.metrics.preemptions.inc();
        }
    }

    /// Requests victims, or repeats a request. Returns `false` if none is needed now, or one is already pending.
    pub(super) fn search(&mut self, pod: PodName) -> bool {
        let left_out = self.left_out.get(&pod).cloned().unwrap_or_default();
        let Some(adapter) = &self.adapter else { return false };
        let Some(job) = adapter.job_of(&pod).filter(|_| self.parts.settings.preempts) else {
            self.left_out.remove(&pod);
            return false;
        };
        if !adapter.budgets().are_listed() {
            return self.search_again.insert(pod);
        }
        if !adapter.may_preempt(&pod) {
            self.left_out.remove(&pod);
            return false;
        }
        let is_new = self.searching.insert(pod.clone());
        if is_new {
            self.parts.preempting.request(Search { pod, job, left_out });
        }
        is_new
    }

    pub(super) fn proposed(&mut self, pod: PodName, proposal: Option<Proposal>) {
        self.searching.remove(&pod);
        let left_out = self.left_out.remove(&pod);
        let Some(adapter) = &mut self.adapter else { return };
        let Some(proposal) = proposal else {
            if left_out.is_some() {
                // The machines that were left out may have victims once the bindings have arrived.
                self.search_again.insert(pod);
            }
            return;
        };
        let before = adapter.counters().victims;
        match adapter.preempt(&proposal) {
            Verdict::Again => drop(self.search_again.insert(pod)),
            Verdict::InFlight => {
                let mut left_out = left_out.unwrap_or_default();
                left_out.insert(proposal.machine);
                self.left_out.insert(pod.clone(), left_out);
                self.search(pod);
            }
            Verdict::Obsolete => {}
            Verdict::Nominated => {
                let victims = adapter.counters().victims - before;
                #[expect(clippy::cast_precision_loss, reason = "a node has few pods")]
                self.parts.metrics.victims_of_pod.observe(victims as f64);
            }
        }
    }
}
