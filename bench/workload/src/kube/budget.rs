//! PodDisruptionBudgets, converted to the disruption budgets that schedulers respect when they evict.

use super::api::{DisruptionBudget as Object, NumberOrShare};
use super::input::{Fault, Place};
use super::notes::Notes;
use super::selector::labels;
use omega_cellstate::TaskSet;
use omega_core::Text;
use omega_schedulers::disruption::{DisruptionBudget, Keep, Share};

/// The budgets of a file. A budget that selects no pod or has no bound is left out. As in kube-scheduler, a budget with
/// an empty selector is left out, too, although it stops other evictions of all pods of its namespace.
///
/// # Errors
/// If a bound is neither a number nor a percentage up to 100, or a budget has two bounds; the API server rejects these,
/// too.
pub(super) fn budgets(
    objects: &[(Place, Object)],
    notes: &mut Notes,
) -> Result<Vec<DisruptionBudget>, Fault> {
    let mut budgets = Vec::new();
    let (mut idle, mut whole) = (0, 0);
    for (place, object) in objects {
        let spec = &object.spec;
        let min = share(place, "spec.minAvailable", spec.min_available.as_ref())?;
        let max = share(place, "spec.maxUnavailable", spec.max_unavailable.as_ref())?;
        if min.is_some() && max.is_some() {
            let message = "has both minAvailable and maxUnavailable: give only one of them";
            return Err(place.fault("spec", message));
        }
        let keep = min.map(Keep::MinAvailable).or(max.map(Keep::MaxUnavailable));
        let tasks = spec.selector.as_ref().map(labels).unwrap_or_default();
        match keep.filter(|_| !tasks.requirements.is_empty()) {
            Some(keep) => {
                let tenant = match object.metadata.namespace.as_str() {
                    "" => "default",
                    namespace => namespace,
                };
                let set = TaskSet { tenant: tenant.into(), tasks };
                budgets.push(DisruptionBudget { set, keep });
            }
            None if keep.is_some() && spec.selector.is_some() => whole += 1,
            None => idle += 1,
        }
    }
    if whole > 0 {
        notes.sentence(format!(
            "disruption budgets with an empty selector, for all pods of a namespace, are ignored, as \
             kube-scheduler does when it preempts: {whole}"
        ));
    }
    if idle > 0 {
        notes.sentence(format!(
            "disruption budgets that protect no pod, because they have no selector or no bound: \
             {idle}"
        ));
    }
    Ok(budgets)
}

fn share(
    place: &Place,
    field: &str,
    value: Option<&NumberOrShare>,
) -> Result<Option<Share>, Fault> {
    let wrong = |text: &str| {
        place.fault(field, format!("is {text:?}: must be a number or a percentage such as 30%"))
    };
    match value {
        None => Ok(None),
        Some(NumberOrShare::Number(count)) => {
            let count = u32::try_from(*count).map_err(|_| wrong(&count.to_string()))?;
            Ok(Some(Share::Tasks(count)))
        }
        Some(NumberOrShare::Share(text)) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok());
            let percent = percent.ok_or_else(|| wrong(text))?;
            match percent {
                0..=100 => Ok(Some(Share::Percent(percent))),
                _ => Err(place.fault(field, format!("is {text:?}: must be at most 100%"))),
            }
        }
    }
}

/// The label keys in the selectors of the budgets.
pub(super) fn keys(budgets: &[DisruptionBudget]) -> impl Iterator<Item = Text> {
    let requirements = budgets.iter().flat_map(|budget| &budget.set.tasks.requirements);
    requirements.map(|requirement| requirement.key.clone())
}
