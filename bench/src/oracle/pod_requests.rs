//! Suite `pod_requests`: the request of a pod for filters, and its request for scores.

use crate::oracle::case::{Amounts, Pod};
use crate::oracle::difference::Found;
use crate::oracle::objects;
use omega_workload::kube::api::Resources;
use omega_workload::kube::request::{nominal_request, pod_request};
use serde::Deserialize;

/// A pod, and the results of kube-scheduler for it.
#[derive(Deserialize)]
pub(super) struct Case {
    #[serde(rename = "id")]
    _id: String,
    pod: Pod,
}

/// Compares both requests with the recorded ones.
pub(super) fn replay(case: &Case) -> Found {
    let mut found = Found::default();
    compare(&mut found, "pod", &case.pod);
    found
}

/// Compares both requests of a pod from a case of any suite. The pod's object is built here.
pub(super) fn compare(found: &mut Found, place: &str, pod: &Pod) {
    let object = objects::pod(pod);
    let (plain, nominal) = (numbers(&pod_request(&object)), numbers(&nominal_request(&object)));
    let some = plain.into_iter().filter(|(_, amount)| *amount != 0).collect();
    found.compare_each(&format!("{place}.computedRequest"), &pod.computed_request, &some);
    let field = format!("{place}.computedNonZeroRequest");
    found.compare_each(&field, &pod.computed_non_zero_request, &nominal);
}

/// Converts amounts to numbers; cpu is in thousandths of a core.
fn numbers(resources: &Resources) -> Amounts {
    let number = |(name, amount): &(String, omega_workload::kube::quantity::Quantity)| {
        let number = if name == "cpu" { amount.milli_value() } else { amount.value() };
        (name.clone(), u64::try_from(number).unwrap_or(u64::MAX))
    };
    resources.iter().map(number).collect()
}
