//! Claims that are bound together with their pod (`WaitForFirstConsumer`).
//!
//! For each unbound claim of a pod, the worker has reserved a free volume, or decided that a new volume is to be
//! created. The adapter writes this choice to the API server. Once the controller has bound all claims, the adapter
//! sends the pod's binding:
//!
//! ```text
//!   decided ─▶ selected-node of the claim, or claimRef of the volume ─┬─▶ the controller binds ─▶ binding of the pod
//!                                                                     └─▶ annotation removed, claim gone, or ten
//!                                                                         minutes over ─▶ decided anew
//! ```
//!
//! As with kube-scheduler, a claim with a node in `selected-node` restricts its pods to this node, until its
//! provisioner removes the annotation.

use super::effects::{Action, ClaimChoice, Done};
use super::{Adapter, Binding, Effect, PodName};
use omega_core::Text;
use omega_schedulers::volumes::Aspect;
use omega_workload::kube::api::{BindingMode, PersistentVolumeClaim};
use omega_workload::kube::live::Converter;
use omega_workload::kube::storage::is_bound;
use std::collections::BTreeSet;

/// Time for which a pod waits for its claims, in milliseconds. kube-scheduler's `VolumeBinding` has the same default.
pub const CLAIMS_TIMEOUT_MS: u64 = 600_000;

/// A binding that waits until the claims of its pod are bound.
#[derive(Debug)]
pub(super) struct Waiting {
    binding: Binding,
    claims: Vec<Text>,
    /// Claims for which the choice was written, or needs no write.
    written: BTreeSet<Text>,
    /// Claims that the watch has already reported with this node in their annotation.
    seen: BTreeSet<Text>,
    /// Time at which the wait began; `None` before the first tick.
    since_ms: Option<u64>,
    /// Number of writes that conflicted.
    conflicts: u32,
}

impl Adapter {
    /// Returns a decided binding if it can be sent at once. Otherwise stores the binding and returns `None`; the
    /// binding is sent when the pod's claims are bound.
    pub(super) fn bind_with_claims(&mut self, binding: Binding) -> Option<Binding> {
        let pod = &self.pods.get(&binding.pod)?.pod;
        if self.foreign_claim(pod).is_some() {
            self.give_up_claims(&binding.pod);
            return None;
        }
        let mut claims = Converter::claims(pod);
        claims.sort_unstable();
        claims.dedup();
        let is_open = |claim: &Text| !self.storage.claims.get(claim).is_some_and(is_bound);
        if !claims.iter().any(is_open) {
            return Some(binding);
        }
        let name = binding.pod.clone();
        for claim in &claims {
            self.storage.waiting.entry(claim.clone()).or_default().insert(name.clone());
        }
        let (written, seen) = (BTreeSet::new(), BTreeSet::new());
        let waiting = Waiting { binding, claims, written, seen, since_ms: None, conflicts: 0 };
        self.pods.get_mut(&name)?.waiting = Some(Box::new(waiting));
        self.advance(&name);
        None
    }

    /// Takes the next step for each pod that waits for a claim, after the claim has changed.
    pub(super) fn claim_changed(&mut self, claim: &Text) {
        let pods: Vec<PodName> =
            self.storage.waiting.get(claim).into_iter().flatten().cloned().collect();
        pods.iter().for_each(|pod| self.advance(pod));
    }

    /// Ends a pod's wait for its claims. Returns its binding and progress, if it waited.
    pub(super) fn stop_waiting(&mut self, name: &PodName) -> Option<Box<Waiting>> {
        let waiting = self.pods.get_mut(name)?.waiting.take()?;
        for claim in &waiting.claims {
            if let Some(pods) = self.storage.waiting.get_mut(claim) {
                pods.remove(name);
                if pods.is_empty() {
                    self.storage.waiting.remove(claim);
                }
            }
        }
        Some(waiting)
    }

    /// Takes the next step for a waiting pod: writes choices that are not written yet, sends the binding, or gives up
    /// the decision.
    fn advance(&mut self, name: &PodName) {
        let Some(waiting) = self.pods.get(name).and_then(|entry| entry.waiting.as_ref()) else {
            return;
        };
        let (binding, claims) = (waiting.binding.clone(), waiting.claims.clone());
        if self.pods.get(name).is_some_and(|entry| self.foreign_claim(&entry.pod).is_some()) {
            self.give_up_claims(name);
            return;
        }
        let mut open = false;
        for claim in &claims {
            match self.claim_step(name, claim, &binding) {
                Step::Bound => {}
                Step::Waits => open = true,
                Step::Failed(why) => {
                    tracing::info!(pod = %name, %claim, why, "a volume claim of the pod is not \
                         bound: the pod is decided again");
                    self.give_up_claims(name);
                    return;
                }
            }
        }
        if open {
            return;
        }
        let machine = self.nodes.get(&binding.node).copied();
        let machine = machine
            .and_then(|id| self.cell.read(|cell| cell.machine(id).map(|m| m.machine.clone())));
        let obstacle = machine.map(|it| self.storage.list.obstacle_of(&claims, Aspect::Zone, &it));
        match obstacle {
            Some(None) => {
                self.stop_waiting(name);
                self.effects.push(Effect::Act(Action::Bind(binding, 0)));
            }
            obstacle => {
                tracing::info!(pod = %name, ?obstacle, "the volumes of the pod are on another \
                     node: the pod is decided again");
                self.give_up_claims(name);
            }
        }
    }

    fn claim_step(&mut self, name: &PodName, claim: &Text, binding: &Binding) -> Step {
        let Some(object) = self.storage.claims.get(claim) else {
            return Step::Failed("the claim was deleted");
        };
        if is_bound(object) {
            return Step::Bound;
        }
        let selected = object.metadata.annotations.selected_node.as_deref();
        let here = selected == Some(binding.node.as_str());
        let others = self.storage.waiting.get(claim).into_iter().flatten();
        let shared = others.filter(|other| *other != name).any(|other| {
            let entry = self.pods.get(other).and_then(|entry| entry.waiting.as_ref());
            entry.is_some_and(|waiting| waiting.written.contains(claim))
        });
        let need = self.need(object, claim, binding);
        let Some(waiting) = self.pods.get_mut(name).and_then(|entry| entry.waiting.as_mut()) else {
            return Step::Waits;
        };
        if here {
            waiting.seen.insert(claim.clone());
        }
        if !here && waiting.seen.contains(claim) {
            return Step::Failed("the provisioner removed the annotation of the chosen node");
        }
        // Nothing is written if another pod's decision has already written a choice for this claim. Then this pod uses
        // that choice.
        let writes = !shared && waiting.written.insert(claim.clone());
        match need {
            Need::Decision => {
                return Step::Failed("the volume that was chosen for the claim is gone");
            }
            Need::Choice(choice) if writes && !(here && choice.volume.is_none()) => {
                self.effects.push(Effect::Act(Action::Claim(*choice, 0)));
            }
            Need::Choice(_) | Need::Nothing => {}
        }
        Step::Waits
    }

    /// Whether a claim of a decided pod is gone, or has lost the volume that was chosen for it.
    pub(super) fn lacks_volume(&self, name: &PodName) -> bool {
        let claims = self.pods.get(name).map(|entry| Converter::claims(&entry.pod));
        claims.into_iter().flatten().any(|claim| match self.storage.claims.get(&claim) {
            Some(object) => self.awaits_choice(object) && self.chosen_volume(&claim).is_none(),
            None => true,
        })
    }

    /// Whether a claim is unbound, and its controller waits for the scheduler's choice of a node.
    fn awaits_choice(&self, object: &PersistentVolumeClaim) -> bool {
        let class = self.storage.classes.get(object.spec.class.as_deref().unwrap_or_default());
        let waits = class.is_some_and(|class| class.binding_mode != BindingMode::Immediate);
        waits && !is_bound(object) && object.spec.volume.is_empty()
    }

    /// Returns the volume that is chosen for a claim. A volume that is yet to be created has a name, too.
    fn chosen_volume(&self, claim: &Text) -> Option<Text> {
        self.storage.list.claim(claim).and_then(|state| state.volume)
    }

    /// Returns the step that an unbound claim needs from the scheduler.
    fn need(&self, object: &PersistentVolumeClaim, claim: &Text, binding: &Binding) -> Need {
        if !self.awaits_choice(object) {
            return Need::Nothing;
        }
        let Some(chosen) = self.chosen_volume(claim) else { return Need::Decision };
        let existing = self.storage.volumes.get(&chosen);
        if existing.is_some_and(|volume| volume.spec.claim.is_some()) {
            return Need::Nothing;
        }
        Need::Choice(Box::new(ClaimChoice {
            binding: binding.clone(),
            namespace: object.metadata.namespace.clone(),
            claim: object.metadata.name.clone(),
            uid: object.metadata.uid.clone(),
            version: object.metadata.version.clone(),
            volume: existing
                .map(|volume| (volume.metadata.name.clone(), volume.metadata.version.clone())),
        }))
    }

    /// Handles the outcome of a written choice.
    pub fn chosen(&mut self, choice: ClaimChoice, done: Done, now_ms: u64) -> Option<Action> {
        let name = choice.binding.pod.clone();
        let waiting = self.pods.get_mut(&name).and_then(|entry| entry.waiting.as_mut());
        let waiting = waiting.filter(|it| it.binding.decision == choice.binding.decision)?;
        match done {
            // The watch will report the change.
            Done::Done => None,
            Done::Throttled(ms) => Some(Action::Claim(choice, now_ms + ms)),
            Done::Unknown => Some(Action::Claim(choice, now_ms + 1000)),
            // The object has changed since it was read. The choice is written again with the new version, at the next
            // change or tick.
            Done::Gone if waiting.conflicts < super::bind_reply::FAILURES_MAX => {
                waiting.conflicts += 1;
                let claim = format!("{}/{}", choice.namespace, choice.claim);
                waiting.written.remove(claim.as_str());
                None
            }
            Done::Gone | Done::Refused => {
                tracing::warn!(pod = %name, ?done, "the API server rejected the choice of a \
                     volume");
                self.give_up(&name, now_ms);
                None
            }
        }
    }

    /// Gives up pods whose wait for claims has taken too long, and takes the next step for the others.
    pub(super) fn tick_claims(&mut self, now_ms: u64) {
        let pods: BTreeSet<PodName> = self.storage.waiting.values().flatten().cloned().collect();
        for name in pods {
            let Some(waiting) = self.pods.get_mut(&name).and_then(|entry| entry.waiting.as_mut())
            else {
                continue;
            };
            let since = *waiting.since_ms.get_or_insert(now_ms);
            if now_ms >= since + CLAIMS_TIMEOUT_MS {
                tracing::warn!(pod = %name, "the volume claims of the pod were not bound in time: \
                     the pod is decided again");
                self.give_up(&name, now_ms);
            } else {
                self.advance(&name);
            }
        }
    }

    /// Gives up a decision whose claims are not bound. The pod's backoff begins at the next tick.
    fn give_up_claims(&mut self, name: &PodName) {
        self.give_up(name, self.now_ms);
    }
}

/// The step that an unbound claim needs from the scheduler.
enum Need {
    /// The controller binds the claim without a choice.
    Nothing,
    /// The choice is to be written.
    Choice(Box<ClaimChoice>),
    /// The pod must be decided again, because the chosen volume was deleted, or another claim has it. A new volume on
    /// the chosen node is no alternative: the node may not support one, and then the claim would stay bound to this
    /// node.
    Decision,
}

/// The next step for one claim of a waiting pod.
enum Step {
    Bound,
    Waits,
    Failed(&'static str),
}
