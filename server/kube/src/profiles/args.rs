//! Arguments of plugins: `pluginConfig` in a profile.

use super::KubeProfile;
use super::fields::{Fields, no_repetition};
use omega_schedulers::plugins::{
    CandidateMachines, InterPodAffinity, Preferences, ShapePoint, Strategy,
};
use omega_workload::kube::kinds::kind_name;
use omega_workload::kube::rules::added_affinity;
use serde_json::json;

/// Largest number of a Kubernetes field of 32 bits.
const INT32_MAX: u32 = i32::MAX as u32;

/// Reads the arguments of all plugins of a profile.
pub(super) fn plugin_configs(
    configs: &[Fields<'_>],
    profile: &mut KubeProfile,
) -> Result<(), String> {
    no_repetition(configs, "name")?;
    for config in configs {
        config.only(&["name", "args"])?;
        let read = match config.name("name")? {
            "NodeResourcesFit" => fit,
            "NodeResourcesBalancedAllocation" => balanced,
            "NodeAffinity" => node_affinity,
            "InterPodAffinity" => neighbours,
            "PodTopologySpread" => spread,
            "DefaultPreemption" => preemption,
            "VolumeBinding" => volume_binding,
            "DynamicResources" => devices,
            _ => {
                let rule = "takes no arguments in omega-kube: remove the entry";
                return Err(config.fault("name", rule));
            }
        };
        if let Some(args) = config.object("args")? {
            read(&args, profile)?;
        }
    }
    Ok(())
}

/// Checks the fields of arguments, which may have an apiVersion and a kind.
fn only(args: &Fields<'_>, known: &[&str]) -> Result<(), String> {
    args.only(&[&["apiVersion", "kind"], known].concat())
}

fn fit(args: &Fields<'_>, profile: &mut KubeProfile) -> Result<(), String> {
    only(args, &["scoringStrategy", "ignoredResources", "ignoredResourceGroups"])?;
    for field in ["ignoredResources", "ignoredResourceGroups"] {
        if !args.is_empty_list(field) {
            return Err(args.fault(field, "must be empty, because the cell counts every resource"));
        }
    }
    let Some(strategy) = args.object("scoringStrategy")? else { return Ok(()) };
    strategy.only(&["type", "resources", "requestedToCapacityRatio"])?;
    profile.fit.strategy = match strategy.text("type")? {
        None | Some("LeastAllocated") => Strategy::LeastAllocated,
        Some("MostAllocated") => Strategy::MostAllocated,
        Some("RequestedToCapacityRatio") => Strategy::RequestedToCapacityRatio(shape(&strategy)?),
        Some(_) => {
            let rule = "must be LeastAllocated, MostAllocated or RequestedToCapacityRatio";
            return Err(strategy.fault("type", rule));
        }
    };
    let resources = strategy.list("resources")?;
    if !resources.is_empty() {
        profile.fit.resources = weighted(&resources, 1..=100)?;
    }
    Ok(())
}

/// Reads the points of the strategy `RequestedToCapacityRatio`.
fn shape(strategy: &Fields<'_>) -> Result<Vec<ShapePoint>, String> {
    let ratio = strategy.object("requestedToCapacityRatio")?;
    let points = ratio.as_ref().map_or(Ok(Vec::new()), |ratio| {
        ratio.only(&["shape"])?;
        ratio.list("shape")
    })?;
    if points.is_empty() {
        let place = strategy.place("requestedToCapacityRatio.shape");
        return Err(format!("{place}: must have at least one point of utilization and score"));
    }
    let mut shape: Vec<ShapePoint> = Vec::new();
    for point in points {
        point.only(&["utilization", "score"])?;
        let number = |field: &str, most: u32| -> Result<u8, String> {
            let number = point.number(field, 0..=most)?.unwrap_or(0);
            u8::try_from(number).map_err(|_| point.fault(field, "is too large"))
        };
        let (percent, score) = (number("utilization", 100)?, number("score", 10)?);
        if shape.last().is_some_and(|last| last.percent >= percent) {
            return Err(point.fault("utilization", "must be greater than that of the last point"));
        }
        shape.push(ShapePoint { percent, score });
    }
    Ok(shape)
}

/// Reads resources with weights, under the names of their kinds.
fn weighted(
    resources: &[Fields<'_>],
    weights: std::ops::RangeInclusive<u32>,
) -> Result<Vec<(String, u32)>, String> {
    no_repetition(resources, "name")?;
    let read = |resource: &Fields<'_>| {
        resource.only(&["name", "weight"])?;
        let name = resource.name("name")?;
        let is_known = ["cpu", "memory", "ephemeral-storage"].contains(&name)
            || name.starts_with("hugepages-")
            || name.contains('/');
        if !is_known {
            let rule = "must be cpu, memory, ephemeral-storage, hugepages-SIZE, or an extended \
                 resource such as example.com/gpu";
            return Err(resource.fault("name", rule));
        }
        let weight = resource.number("weight", weights.clone())?.unwrap_or(1);
        Ok((kind_name(name).to_owned(), weight))
    };
    resources.iter().map(read).collect()
}

fn balanced(args: &Fields<'_>, profile: &mut KubeProfile) -> Result<(), String> {
    only(args, &["resources"])?;
    let resources = weighted(&args.list("resources")?, 1..=1)?;
    if !resources.is_empty() {
        profile.balanced = resources.into_iter().map(|(name, _)| name).collect();
    }
    Ok(())
}

fn node_affinity(args: &Fields<'_>, profile: &mut KubeProfile) -> Result<(), String> {
    only(args, &["addedAffinity"])?;
    let Some(added) = args.object("addedAffinity")? else { return Ok(()) };
    added.only(&[
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    ])?;
    let value = args.get("addedAffinity").cloned().unwrap_or_default();
    let added = serde_json::from_value(value)
        .map_err(|why| format!("{}: {why}", args.place("addedAffinity")))?;
    profile.added = added_affinity(&added);
    Ok(())
}

fn neighbours(args: &Fields<'_>, profile: &mut KubeProfile) -> Result<(), String> {
    only(args, &["hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"])?;
    let required_weight = args.number("hardPodAffinityWeight", 0..=100)?;
    let preferences = match args.flag("ignorePreferredTermsOfExistingPods")? {
        Some(true) => Preferences::OfThosePreferring,
        Some(false) | None => Preferences::Everyones,
    };
    let default = InterPodAffinity::default().required_weight;
    let required_weight = required_weight.unwrap_or(default);
    profile.neighbours = InterPodAffinity { required_weight, preferences };
    Ok(())
}

/// Checks the arguments of `PodTopologySpread`. The profile has no default constraints in any case.
fn spread(args: &Fields<'_>, _: &mut KubeProfile) -> Result<(), String> {
    only(args, &["defaultingType", "defaultConstraints"])?;
    if !matches!(args.text("defaultingType")?, None | Some("System" | "List")) {
        return Err(args.fault("defaultingType", "must be System or List"));
    }
    if !args.is_empty_list("defaultConstraints") {
        let rule = "must be empty, because omega-kube has no default spread: give pods constraints";
        return Err(args.fault("defaultConstraints", rule));
    }
    Ok(())
}

/// Reads the arguments that bound the number of nodes to examine for victims.
fn preemption(args: &Fields<'_>, profile: &mut KubeProfile) -> Result<(), String> {
    only(args, &["minCandidateNodesPercentage", "minCandidateNodesAbsolute"])?;
    let default = CandidateMachines::default();
    let percentage = args.number("minCandidateNodesPercentage", 0..=100)?;
    let absolute = args.number("minCandidateNodesAbsolute", 0..=INT32_MAX)?;
    let (percentage, absolute) =
        (percentage.unwrap_or(default.percentage), absolute.unwrap_or(default.absolute));
    if percentage == 0 && absolute == 0 {
        return Err(
            args.fault("minCandidateNodesAbsolute", "and the percentage must not both be 0")
        );
    }
    profile.preemption = profile.preemption.map(|_| CandidateMachines { percentage, absolute });
    Ok(())
}

fn volume_binding(args: &Fields<'_>, _: &mut KubeProfile) -> Result<(), String> {
    only(args, &["bindTimeoutSeconds"])?;
    args.fixed("bindTimeoutSeconds", &json!(600), "omega-kube waits ten minutes")
}

/// Checks the arguments of `DynamicResources`. Pods with device claims wait, so they have no effect.
fn devices(args: &Fields<'_>, _: &mut KubeProfile) -> Result<(), String> {
    only(args, &["filterTimeout", "bindingTimeout"])
}
