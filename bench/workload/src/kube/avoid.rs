//! The old annotation by which a node requests that the pods of some controllers avoid the node.
//!
//! The annotation names controllers by their uids. The machine gets a label that names the jobs of these controllers'
//! pods. These jobs avoid the machine where possible.

use super::api::{AvoidPods, Metadata};
use super::notes::Remarks;
use omega_core::limits::TEXT_BYTES_MAX;
use omega_core::{Machine, Text};
use omega_schedulers::plugins::PREFER_AVOID;
use std::collections::BTreeMap;

/// Adds to a machine the label that the node's annotation requests. `controllers` has the names of the jobs of each
/// controller's pods, by the controller's uid.
pub(super) fn mark(
    machine: &mut Machine,
    metadata: &Metadata,
    controllers: &BTreeMap<&str, Vec<Text>>,
) -> Remarks {
    let Some(annotation) = &metadata.annotations.avoid_pods else { return Remarks::new() };
    let Ok(AvoidPods { avoid }) = serde_json::from_str(annotation) else {
        return Remarks::from(["the annotation preferAvoidPods cannot be read"]);
    };
    let named = avoid.iter().map(|avoid| avoid.signature.controller.uid.as_str());
    let jobs = named.filter_map(|uid| controllers.get(uid)).flatten();
    let jobs = jobs.map(|job| format!("job/{job}"));
    let mut said = machine.labels.get(PREFER_AVOID).map_or(String::new(), |said| said.to_string());
    let mut remarks = Remarks::new();
    for job in jobs {
        let separator = if said.is_empty() { "" } else { ", " };
        if said.len() + separator.len() + job.len() > TEXT_BYTES_MAX {
            remarks.insert(
                "the annotation preferAvoidPods names more controllers than fit into a \
                 label",
            );
            break;
        }
        said = [said.as_str(), separator, &job].concat();
    }
    if !said.is_empty() {
        let labels = machine.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        machine.labels = labels.chain([(PREFER_AVOID.into(), said.into())]).collect();
    }
    remarks
}
