//! Profiles: the scheduler names whose pods are scheduled, with the scores of each.
//!
//! kube-scheduler's configuration file, `KubeSchedulerConfiguration` v1, is read unchanged. A field that is not
//! supported causes an error that names the field. If such a field were ignored, pods would be scheduled by other rules
//! than the file has.

use crate::adapter::Shared;
use omega_core::Kinds;
use omega_schedulers::plugins::{
    BalancedAllocation, CandidateMachines, FitArgs, ImageLocality, InterPodAffinity, NodeAffinity,
    NodeName, NodePorts, NodeResourcesFit, NodeUnschedulable, PodTopologySpread, Strategy,
    TaintToleration, VolumeFilter,
};
use omega_schedulers::volumes::Aspect;
use omega_schedulers::{Profile, Search, Settings};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The scores of kube-scheduler with their default weights.
const SCORES: [(&str, i32); 7] = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("NodeResourcesFit", 1),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
];

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeProfile {
    /// The `schedulerName` of the pods to which the profile applies.
    pub name: String,
    /// Scores with their weights, by kube-scheduler's names.
    weights: BTreeMap<&'static str, i32>,
    /// Arguments of `NodeResourcesFit`.
    fit: FitArgs,
    /// Percentage of the nodes to score; `None` for all.
    percentage: Option<u8>,
    /// The nodes that are examined for victims; `None` if the profile does not preempt.
    preemption: Option<CandidateMachines>,
}

impl KubeProfile {
    /// Returns the default profile under this name. It scores all nodes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> KubeProfile {
        let (weights, fit) = (BTreeMap::from(SCORES), FitArgs::default());
        let preemption = Some(CandidateMachines::default());
        KubeProfile { name: name.into(), weights, fit, percentage: None, preemption }
    }

    /// Returns this profile in the form that a scheduler uses, for a cell with these kinds.
    #[must_use]
    pub fn bind(&self, kinds: &Kinds) -> Profile {
        let fit = NodeResourcesFit::new(&self.fit, kinds);
        let mut profile = Profile::of_filters(vec![
            Box::new(NodeUnschedulable::default()),
            Box::new(NodeName),
            Box::new(TaintToleration),
            Box::new(NodeAffinity::default()),
            Box::new(NodePorts),
            Box::new(fit.clone()),
            Box::new(PodTopologySpread),
            Box::new(InterPodAffinity::default()),
        ]);
        for (name, weight) in &self.weights {
            profile = match *name {
                "TaintToleration" => profile.with_relative(TaintToleration, *weight),
                "NodeAffinity" => profile.with_relative(NodeAffinity::default(), *weight),
                "PodTopologySpread" => profile.with_relative(PodTopologySpread, *weight),
                "InterPodAffinity" => profile.with_relative(InterPodAffinity::default(), *weight),
                "NodeResourcesFit" => profile.with_score(fit.clone(), *weight),
                "ImageLocality" => profile.with_score(ImageLocality, *weight),
                _ => {
                    profile.with_score(BalancedAllocation::new(&["cpu", "memory"], kinds), *weight)
                }
            };
        }
        profile
    }

    /// Returns this profile in the form that explanations and preemption use. It has the filters for volumes, but makes
    /// no reservations.
    #[must_use]
    pub fn bind_to_look(&self, shared: &Shared) -> Profile {
        let profile = shared.cell.read(|cell| self.bind(cell.kinds()));
        let filters = Aspect::ALL.map(|aspect| VolumeFilter::new(aspect, &shared.volumes));
        filters.into_iter().fold(profile, Profile::with_filter_replaced)
    }

    /// Returns the nodes that are examined for victims; `None` if the profile does not preempt.
    #[must_use]
    pub fn candidates(&self) -> Option<CandidateMachines> {
        self.preemption
    }

    /// Returns the settings with the profile's percentage of nodes to score.
    #[must_use]
    pub fn apply(&self, settings: Settings) -> Settings {
        match self.percentage {
            None | Some(100) => settings,
            Some(percentage) => settings.with_search(Search::Percentage(percentage)),
        }
    }
}

/// Reads a `KubeSchedulerConfiguration`.
///
/// # Errors
/// If the text is not such a configuration, or has a field that is not supported.
pub fn parse(text: &str) -> Result<Vec<KubeProfile>, String> {
    let value = document(text)?;
    let top = object("", &value)?;
    only(top, "", &["apiVersion", "kind", "percentageOfNodesToScore", "profiles"])?;
    expect(top, "", "apiVersion", "kubescheduler.config.k8s.io/v1")?;
    expect(top, "", "kind", "KubeSchedulerConfiguration")?;
    let of_all = percentage(top, "")?;
    let Some(profiles) = top.get("profiles") else {
        let percentage = of_all;
        return Ok(vec![KubeProfile { percentage, ..KubeProfile::new("default-scheduler") }]);
    };
    let mut read: Vec<KubeProfile> = Vec::new();
    for (index, value) in list("profiles", profiles)?.iter().enumerate() {
        let at = format!("profiles[{index}]");
        let profile = profile(&at, value, of_all)?;
        if read.iter().any(|known| known.name == profile.name) {
            let name = &profile.name;
            return Err(format!(
                "{at}.schedulerName: {name:?} appears twice: give each profile its \
                 own name"
            ));
        }
        read.push(profile);
    }
    Ok(read)
}

/// Reads a file with one YAML document. A separator after which no document follows is ignored.
fn document(text: &str) -> Result<Value, String> {
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let text = match text.trim_end().rsplit_once("\n---") {
        Some((before, after)) if after.lines().all(is_blank) && !before.lines().all(is_blank) => {
            before
        }
        _ => text,
    };
    serde_saphyr::from_str(text).map_err(|why| {
        // Only the first line of the message is used, because the other lines quote the file. The message's remedies
        // are cut off, because they name functions and options of the library.
        let why = why.to_string();
        let line = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let line = line.split("; use from_").next().unwrap_or(line);
        let line = line.split(", set Duplicate").next().unwrap_or(line);
        let remedy = match line {
            line if line.contains("multiple YAML documents") => {
                ": keep only the KubeSchedulerConfiguration in this file"
            }
            line if line.contains("duplicate mapping key") => ": keep one of the two",
            _ => "",
        };
        format!("is not valid YAML: {line}{remedy}")
    })
}

fn profile(at: &str, value: &Value, of_all: Option<u8>) -> Result<KubeProfile, String> {
    let fields = object(at, value)?;
    only(fields, at, &["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"])?;
    let name = fields.get("schedulerName").and_then(Value::as_str).unwrap_or("default-scheduler");
    let mut profile = KubeProfile::new(name);
    profile.percentage = percentage(fields, at)?.or(of_all);
    if let Some(plugins) = fields.get("plugins") {
        let at = format!("{at}.plugins");
        let plugins = object(&at, plugins)?;
        only(plugins, &at, &["score", "multiPoint", "postFilter"])?;
        if let Some(set) = plugins.get("postFilter") {
            preemption_set(&format!("{at}.postFilter"), set, &mut profile)?;
        }
        for point in ["multiPoint", "score"] {
            if let Some(set) = plugins.get(point) {
                plugin_set(&format!("{at}.{point}"), set, &mut profile)?;
            }
        }
    }
    if let Some(configs) = fields.get("pluginConfig") {
        let at = format!("{at}.pluginConfig");
        for (index, config) in list(&at, configs)?.iter().enumerate() {
            plugin_config(&format!("{at}[{index}]"), config, &mut profile)?;
        }
    }
    Ok(profile)
}

/// Reads the enabled and the disabled plugins of one extension point.
fn plugin_set(at: &str, value: &Value, profile: &mut KubeProfile) -> Result<(), String> {
    let set = object(at, value)?;
    only(set, at, &["enabled", "disabled"])?;
    for (index, plugin) in items(set, at, "disabled")?.iter().enumerate() {
        let at = format!("{at}.disabled[{index}]");
        if at.contains("multiPoint") {
            let rule = "a filter cannot be disabled, because the cell enforces it: disable scores \
                 under plugins.score";
            return Err(format!("{at}: {rule}"));
        }
        let fields = object(&at, plugin)?;
        only(fields, &at, &["name"])?;
        match fields.get("name").and_then(Value::as_str) {
            Some("*") => profile.weights.clear(),
            name => {
                profile.weights.remove(score(&at, name)?.0);
            }
        }
    }
    for (index, plugin) in items(set, at, "enabled")?.iter().enumerate() {
        let at = format!("{at}.enabled[{index}]");
        let fields = object(&at, plugin)?;
        only(fields, &at, &["name", "weight"])?;
        let (name, default) = score(&at, fields.get("name").and_then(Value::as_str))?;
        let weight = match fields.get("weight") {
            None => i64::from(default),
            Some(weight) => weight.as_i64().unwrap_or(-1),
        };
        let weight = i32::try_from(weight).ok().filter(|weight| (1..=100).contains(weight));
        let weight =
            weight.ok_or_else(|| format!("{at}.weight: must be a whole number from 1 to 100"))?;
        profile.weights.insert(name, weight);
    }
    Ok(())
}

/// Reads whether the profile preempts.
fn preemption_set(at: &str, value: &Value, profile: &mut KubeProfile) -> Result<(), String> {
    let set = object(at, value)?;
    only(set, at, &["enabled", "disabled"])?;
    for (list, preemption) in [("disabled", None), ("enabled", Some(CandidateMachines::default()))]
    {
        for (index, plugin) in items(set, at, list)?.iter().enumerate() {
            let at = format!("{at}.{list}[{index}]");
            let fields = object(&at, plugin)?;
            only(fields, &at, &["name"])?;
            match fields.get("name").and_then(Value::as_str) {
                Some("DefaultPreemption") => profile.preemption = preemption,
                Some("*") if list == "disabled" => profile.preemption = None,
                other => {
                    return Err(format!(
                        "{at}.name: {:?} is not supported: must be DefaultPreemption",
                        other.unwrap_or("")
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Reads the arguments that bound the number of nodes to examine for victims.
fn preemption_args(
    at: &str,
    args: &Map<String, Value>,
    profile: &mut KubeProfile,
) -> Result<(), String> {
    let fields = ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"];
    only(args, at, &["apiVersion", "kind", fields[0], fields[1]])?;
    let number = |field: &str, default: u32| match args.get(field) {
        None => Ok(default),
        Some(value) => {
            let number = value.as_u64().and_then(|value| u32::try_from(value).ok());
            number.ok_or_else(|| format!("{at}.{field}: {value} must be a whole number from 0"))
        }
    };
    let default = CandidateMachines::default();
    let (percentage, absolute) =
        (number(fields[0], default.percentage)?, number(fields[1], default.absolute)?);
    if percentage > 100 || percentage + absolute == 0 {
        return Err(format!(
            "{at}: minCandidateNodesPercentage is {percentage} and minCandidateNodesAbsolute is \
             {absolute}: the percentage must be at most 100, and they must not both be 0"
        ));
    }
    profile.preemption = profile.preemption.map(|_| CandidateMachines { percentage, absolute });
    Ok(())
}

/// Returns a score by its name.
fn score(at: &str, name: Option<&str>) -> Result<(&'static str, i32), String> {
    let known = SCORES.iter().find(|(known, _)| Some(*known) == name);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = SCORES.iter().map(|(name, _)| *name).collect();
        format!(
            "{at}.name: {:?} is not a score: the scores are {}",
            name.unwrap_or(""),
            names.join(", ")
        )
    })
}

/// Reads the arguments of one plugin.
fn plugin_config(at: &str, value: &Value, profile: &mut KubeProfile) -> Result<(), String> {
    let fields = object(at, value)?;
    only(fields, at, &["name", "args"])?;
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    if !matches!(name, "NodeResourcesFit" | "DefaultPreemption") {
        let known = "only NodeResourcesFit and DefaultPreemption do";
        return Err(format!("{at}.name: {name:?} takes no arguments in omega-kube: {known}"));
    }
    let at = format!("{at}.args");
    let Some(args) = fields.get("args") else { return Ok(()) };
    let args = object(&at, args)?;
    if name == "DefaultPreemption" {
        return preemption_args(&at, args, profile);
    }
    only(args, &at, &["apiVersion", "kind", "scoringStrategy"])?;
    let Some(strategy) = args.get("scoringStrategy") else { return Ok(()) };
    let at = format!("{at}.scoringStrategy");
    let strategy = object(&at, strategy)?;
    only(strategy, &at, &["type", "resources"])?;
    profile.fit.strategy = match strategy.get("type").and_then(Value::as_str) {
        None | Some("LeastAllocated") => Strategy::LeastAllocated,
        Some("MostAllocated") => Strategy::MostAllocated,
        Some(other) => {
            return Err(format!("{at}.type: {other:?} must be LeastAllocated or MostAllocated"));
        }
    };
    let resources = items(strategy, &at, "resources")?;
    if !resources.is_empty() {
        profile.fit.resources.clear();
    }
    for (index, resource) in resources.iter().enumerate() {
        let at = format!("{at}.resources[{index}]");
        let fields = object(&at, resource)?;
        only(fields, &at, &["name", "weight"])?;
        let name = fields.get("name").and_then(Value::as_str);
        let name =
            name.ok_or_else(|| format!("{at}.name: is missing: give a resource such as cpu"))?;
        let weight = fields.get("weight").map_or(Some(1), Value::as_u64);
        let weight = weight.filter(|weight| (1..=100).contains(weight));
        let weight = weight.and_then(|weight| u32::try_from(weight).ok());
        let weight =
            weight.ok_or_else(|| format!("{at}.weight: must be a whole number from 1 to 100"))?;
        profile.fit.resources.push((name.to_owned(), weight));
    }
    Ok(())
}

fn percentage(fields: &Map<String, Value>, at: &str) -> Result<Option<u8>, String> {
    let Some(value) = fields.get("percentageOfNodesToScore") else { return Ok(None) };
    let percentage = value.as_u64().and_then(|value| u8::try_from(value).ok());
    let percentage = percentage.filter(|percentage| *percentage <= 100);
    let at = join(at, "percentageOfNodesToScore");
    let percentage = percentage.ok_or_else(|| format!("{at}: {value} must be 0 to 100"))?;
    Ok(Some(percentage))
}

fn join(at: &str, field: &str) -> String {
    if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") }
}

fn object<'a>(at: &str, value: &'a Value) -> Result<&'a Map<String, Value>, String> {
    let at = if at.is_empty() { "the file" } else { at };
    value.as_object().ok_or_else(|| format!("{at}: must be a mapping of fields"))
}

fn list<'a>(at: &str, value: &'a Value) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("{at}: must be a list"))
}

fn items<'a>(fields: &'a Map<String, Value>, at: &str, field: &str) -> Result<&'a [Value], String> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(value) => list(&join(at, field), value).map(Vec::as_slice),
    }
}

/// The remedy for a field that is not supported.
fn instead_of(at: &str, field: &str) -> String {
    let options = match field {
        _ if !at.is_empty() => return "remove the field".into(),
        "clientConnection" => "--kubeconfig, --context and --in-flight",
        "leaderElection" => "--leader-elect and the options that begin with --lease",
        "parallelism" => "--workers",
        "healthzBindAddress" | "metricsBindAddress" => "--listen",
        _ => return "remove the field".into(),
    };
    format!("remove the field, and use {options} instead")
}

/// Checks that an object has no other fields than these.
fn only(fields: &Map<String, Value>, at: &str, known: &[&str]) -> Result<(), String> {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => Err(format!(
            "{}: is not supported by omega-kube, which reads only {} here: {}",
            join(at, field),
            known.join(", "),
            instead_of(at, field)
        )),
    }
}

fn expect(fields: &Map<String, Value>, at: &str, field: &str, wanted: &str) -> Result<(), String> {
    match fields.get(field).and_then(Value::as_str) {
        Some(value) if value == wanted => Ok(()),
        other => Err(format!("{}: {:?} must be {wanted}", join(at, field), other.unwrap_or(""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 30
profiles:
  - schedulerName: packed
    plugins:
      score:
        disabled: [{name: ImageLocality}]
        enabled: [{name: NodeResourcesFit, weight: 5}]
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: MostAllocated
            resources: [{name: cpu, weight: 2}]
  - schedulerName: plain
    percentageOfNodesToScore: 100
";

    #[test]
    fn profiles_have_names_weights_and_arguments() {
        let profiles = parse(GOOD).expect("a configuration");
        assert_eq!(profiles.len(), 2);
        let packed = &profiles[0];
        assert_eq!((packed.name.as_str(), packed.percentage), ("packed", Some(30)));
        assert_eq!(packed.weights.get("NodeResourcesFit"), Some(&5));
        assert_eq!(packed.weights.get("ImageLocality"), None);
        assert_eq!(packed.fit.strategy, Strategy::MostAllocated);
        assert_eq!(packed.fit.resources, [("cpu".to_owned(), 2)]);
        let weights: Vec<_> = packed.bind(&Kinds::standard()).evaluator().weights().collect();
        assert!(weights.contains(&("node_resources_fit", 5)), "{weights:?}");
        let percentage = Some(100);
        assert_eq!(profiles[1], KubeProfile { percentage, ..KubeProfile::new("plain") });
    }

    #[test]
    fn the_default_profile_is_that_of_kube_scheduler() {
        let kinds = Kinds::standard();
        let ours = KubeProfile::new("x").bind(&kinds);
        let known = Profile::kube(&kinds);
        let names = |profile: &Profile| -> Vec<&'static str> {
            profile.evaluator().filters().map(|f| f.name()).collect()
        };
        assert_eq!(names(&ours), names(&known));
        let sorted = |profile: &Profile| {
            let mut weights: Vec<_> = profile.evaluator().weights().collect();
            weights.sort_unstable();
            weights
        };
        assert_eq!(sorted(&ours), sorted(&known));
    }

    #[test]
    fn one_document_is_read_and_several_are_told() {
        for end in ["---", "---\n", "\n---\n# the end\n"] {
            assert!(parse(&format!("{GOOD}{end}")).is_ok(), "{end:?}");
        }
        assert!(parse(&format!("---{GOOD}")).is_ok());
        for (more, expected) in [
            ("---\nkind: Other\n", "multiple YAML documents detected: keep only the"),
            ("kind: Other\n", "duplicate mapping key: kind: keep one of the two"),
            ("leaderElection: {}\n", "and use --leader-elect and the options"),
            ("clientConnection: {}\n", "and use --kubeconfig"),
            ("qps: 1\n", "remove the field"),
        ] {
            let why = parse(&format!("{GOOD}{more}")).expect_err(more);
            assert!(why.contains(expected), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_named() {
        for (from, to, field) in [
            ("config.k8s.io/v1", "config.k8s.io/v1beta3", "apiVersion"),
            ("profiles:", "parallelism: 4\nprofiles:", "parallelism"),
            ("profiles:", "extenders: []\nprofiles:", "extenders"),
            ("weight: 5", "weight: 0", "profiles[0].plugins.score.enabled[0].weight"),
            ("name: ImageLocality", "name: Other", "profiles[0].plugins.score.disabled[0].name"),
            ("      score:", "      filter:", "profiles[0].plugins.filter"),
            (
                "- name: NodeResourcesFit",
                "- name: VolumeBinding",
                "profiles[0].pluginConfig[0].name",
            ),
            ("type: MostAllocated", "type: Best", "scoringStrategy.type"),
            ("schedulerName: plain", "schedulerName: packed", "profiles[1].schedulerName"),
            (
                "percentageOfNodesToScore: 30",
                "percentageOfNodesToScore: 300",
                "percentageOfNodesToScore",
            ),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let why = parse(&text).expect_err(to);
            assert!(why.contains(field), "{field}: {why}");
        }
    }
}
