//! Effects of events: the requests to the API server, and what people are told about pods.

use super::types::{Binding, PodName, Remark};

/// An effect of an event, which the caller carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A request to the API server.
    Act(Action),
    /// An Event about a pod.
    Tell(PodName, Remark),
    /// The reason why a pod is not scheduled. The pod's owner can change the pod to remove the reason.
    Refuse(PodName, String),
    /// The decision about a pod was given up. The pod is scheduled again later.
    GiveUp(PodName),
}

/// A step for the caller to take. The number is its time, in milliseconds of the caller's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the binding (again) at this time.
    Bind(Binding, u64),
    /// Get the pod at this time.
    Get(Binding, u64),
    /// Write the nominated node into the status of a pod at this time.
    Nominate(Nominee, u64),
    /// Delete a victim at this time.
    Evict(Eviction, u64),
    /// At this time, delete a pod on an overcommitted node, if the pod has not started.
    Repair(Repair, u64),
    /// At this time, write the volume that was chosen for a claim.
    Claim(ClaimChoice, u64),
    /// Write a condition into the status of a group of pods at this time.
    Group(GroupCondition, u64),
}

impl Action {
    /// Returns the time of the step.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        let (Action::Bind(_, at)
        | Action::Get(_, at)
        | Action::Nominate(_, at)
        | Action::Evict(_, at)
        | Action::Repair(_, at)
        | Action::Claim(_, at)
        | Action::Group(_, at)) = self;
        *at
    }
}

/// The volume for a claim, to be written to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimChoice {
    /// The pod's binding, which is sent after the claim is bound.
    pub binding: Binding,
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub claim: String,
    /// Uid of the claim.
    pub uid: String,
    /// Resource version of the claim.
    pub version: String,
    /// Name and resource version of the chosen volume; `None` if a new volume is to be created.
    pub volume: Option<(String, String)>,
}

/// A condition to be written into the status of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCondition {
    /// Namespace of the group.
    pub namespace: String,
    /// Name of the group.
    pub name: String,
    /// Uid of the group.
    pub uid: String,
    /// The reason why the group's pods do not fit at the same time; `None` if they are scheduled.
    pub unschedulable: Option<String>,
}

/// A change of the node that a pod's status nominates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nominee {
    /// The pod whose status is changed.
    pub pod: PodName,
    /// Uid of the pod.
    pub uid: String,
    /// The nominated node; `None` removes the nomination.
    pub node: Option<String>,
}

/// A victim to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The victim.
    pub pod: PodName,
    /// Uid of the victim, which is a precondition of the deletion.
    pub uid: String,
    /// The pod for which the victim is deleted.
    pub by: PodName,
    /// Uid of the pod in `by`.
    pub by_uid: String,
    /// Scheduler of the pod in `by`, named in the victim's condition.
    pub scheduler: String,
    /// Node of the victim.
    pub node: String,
}

/// A pod to be deleted because another scheduler has overcommitted its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The pod.
    pub pod: PodName,
    /// Uid of the pod, which is a precondition of the deletion.
    pub uid: String,
    /// Node of the pod.
    pub node: String,
    /// The overcommitted resources, such as `cpu 4500 of 4000`.
    pub resources: String,
}

/// The outcome of a request about a nomination, a deletion, a claim or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The request was carried out.
    Done,
    /// The object is gone, or another object has its name.
    Gone,
    /// The API server rejected the request for now; it may be sent again after this many milliseconds.
    Throttled(u64),
    /// The API server rejected the request permanently.
    Refused,
    /// No answer, or an answer that leaves open whether the request had its effect.
    Unknown,
}
