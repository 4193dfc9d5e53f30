//! Reading of kube-scheduler's configuration file, `KubeSchedulerConfiguration` v1, without changes of the file.
//!
//! A field of scheduling that is not supported causes an error that names the field, unless it has kube-scheduler's
//! default value. Rates, intervals and profiling are ignored.

use super::args::plugin_configs;
use super::fields::{Fields, document, no_repetition};
use super::{KubeProfile, SCORES};
use omega_schedulers::plugins::CandidateMachines;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// A file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The profiles.
    pub profiles: Vec<KubeProfile>,
    /// The kubeconfig file to use.
    pub kubeconfig: Option<PathBuf>,
    /// The leader election to use.
    pub election: ElectionFields,
}

/// Leader election as a file has it. A field is `None` if the file does not have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElectionFields {
    /// Whether a leader is elected.
    pub elects: Option<bool>,
    /// Namespace of the Lease.
    pub namespace: Option<String>,
    /// Name of the Lease.
    pub name: Option<String>,
    /// Time after which another process takes over.
    pub duration: Option<Duration>,
}

/// Default plugins of kube-scheduler that are no scores. All of their functions are always on, except for preemption.
const OTHERS: [&str; 14] = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "NodePorts",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "DynamicResources",
    "DefaultPreemption",
    "DefaultBinder",
    "NodeDeclaredFeatures",
    "GangScheduling",
];

/// Extension points at which the default plugins cannot be changed.
const FIXED_POINTS: [&str; 12] = [
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "preScore",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
];

/// The change of a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    Enabled,
    Disabled,
}

/// Reads a `KubeSchedulerConfiguration`.
///
/// # Errors
/// If the text is not such a configuration, or has a field that is not supported.
pub fn parse(text: &str) -> Result<Configuration, String> {
    let value = document(text)?;
    let top = Fields::new(String::new(), &value)?;
    top.only(&[
        "apiVersion",
        "kind",
        "percentageOfNodesToScore",
        "profiles",
        "leaderElection",
        "clientConnection",
        "parallelism",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "extenders",
        "enableProfiling",
        "enableContentionProfiling",
        "delayCacheUntilActive",
    ])?;
    for (field, wanted) in
        [("apiVersion", "kubescheduler.config.k8s.io/v1"), ("kind", "KubeSchedulerConfiguration")]
    {
        if top.text(field)? != Some(wanted) {
            return Err(top.fault(field, &format!("must be {wanted}")));
        }
    }
    top.fixed("parallelism", &json!(16), "use --workers instead")?;
    top.fixed("podInitialBackoffSeconds", &json!(1), "remove the field")?;
    top.fixed("podMaxBackoffSeconds", &json!(10), "remove the field")?;
    top.fixed("extenders", &json!([]), "omega-kube calls no extenders")?;
    let of_all = percentage(&top)?;
    let profiles = top.list("profiles")?;
    no_repetition(&profiles, "schedulerName")?;
    let of_file = profiles.len();
    let read = profiles.iter().map(|fields| profile(fields, of_all, of_file));
    let mut profiles = read.collect::<Result<Vec<_>, String>>()?;
    if profiles.is_empty() {
        let percentage = of_all;
        profiles.push(KubeProfile { percentage, ..KubeProfile::new("default-scheduler") });
    }
    let (kubeconfig, election) = (kubeconfig(&top)?, election(&top)?);
    Ok(Configuration { profiles, kubeconfig, election })
}

/// Reads the connection to the API server. Limits of rates have no effect, because `omega-kube` has other limits.
fn kubeconfig(top: &Fields<'_>) -> Result<Option<PathBuf>, String> {
    let Some(connection) = top.object("clientConnection")? else { return Ok(None) };
    connection.only(&["kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"])?;
    let path = connection.text("kubeconfig")?.filter(|path| !path.is_empty());
    Ok(path.map(PathBuf::from))
}

/// Reads the leader election. The intervals of renewals follow from the duration.
fn election(top: &Fields<'_>) -> Result<ElectionFields, String> {
    let Some(fields) = top.object("leaderElection")? else { return Ok(ElectionFields::default()) };
    fields.only(&[
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "resourceLock",
        "resourceName",
        "resourceNamespace",
    ])?;
    fields.fixed("resourceLock", &json!("leases"), "other locks are not supported")?;
    let text = |field: &str| -> Result<Option<String>, String> {
        Ok(fields.text(field)?.filter(|text| !text.is_empty()).map(str::to_owned))
    };
    let duration = fields.text("leaseDuration")?.map(|text| {
        let rule = "must be a duration such as 15s, at most 5m";
        duration(text).ok_or_else(|| fields.fault("leaseDuration", rule))
    });
    Ok(ElectionFields {
        elects: Some(fields.flag("leaderElect")?.unwrap_or(true)),
        namespace: text("resourceNamespace")?,
        name: text("resourceName")?,
        duration: duration.transpose()?,
    })
}

/// Parses a duration such as `1m30s` of 1 to 300 whole seconds.
fn duration(text: &str) -> Option<Duration> {
    let (mut seconds, mut rest) = (0u64, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = match rest.as_bytes()[digits] {
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    (1..=300).contains(&seconds).then(|| Duration::from_secs(seconds))
}

/// Reads one of several profiles of a file.
fn profile(fields: &Fields<'_>, of_all: Option<u8>, of_file: usize) -> Result<KubeProfile, String> {
    fields.only(&["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"])?;
    // As in kube-scheduler, the name may only be left out if there is no other profile.
    let name = match fields.get("schedulerName") {
        None if of_file == 1 => "default-scheduler",
        _ => fields.name("schedulerName")?,
    };
    let mut profile = KubeProfile::new(name);
    profile.percentage = percentage(fields)?.or(of_all);
    if let Some(plugins) = fields.object("plugins")? {
        plugins.only(&[&["score", "multiPoint", "postFilter"], &FIXED_POINTS[..]].concat())?;
        for point in FIXED_POINTS {
            plugin_set(&plugins, point, |plugin, to| match to {
                Switch::Enabled => known(plugin).map(drop),
                Switch::Disabled => Err(always_on(plugin)),
            })?;
        }
        plugin_set(&plugins, "multiPoint", |plugin, to| multi_point(plugin, to, &mut profile))?;
        plugin_set(&plugins, "postFilter", |plugin, to| post_filter(plugin, to, &mut profile))?;
        plugin_set(&plugins, "score", |plugin, to| score(plugin, to, &mut profile))?;
    }
    plugin_configs(&fields.list("pluginConfig")?, &mut profile)?;
    Ok(profile)
}

/// Reads the disabled and then the enabled plugins of an extension point.
fn plugin_set(
    plugins: &Fields<'_>,
    point: &str,
    mut apply: impl FnMut(&Fields<'_>, Switch) -> Result<(), String>,
) -> Result<(), String> {
    let Some(set) = plugins.object(point)? else { return Ok(()) };
    set.only(&["enabled", "disabled"])?;
    for (list, to) in [("disabled", Switch::Disabled), ("enabled", Switch::Enabled)] {
        let plugins = set.list(list)?;
        no_repetition(&plugins, "name")?;
        for plugin in &plugins {
            plugin.only(&["name", "weight"])?;
            apply(plugin, to)?;
        }
    }
    Ok(())
}

fn always_on(plugin: &Fields<'_>) -> String {
    let rule = "cannot be disabled, because the cell enforces the filters: disable scores under plugins.score";
    plugin.fault("name", rule)
}

/// Returns the score with the name of a plugin; `None` if it is another default plugin.
fn known(plugin: &Fields<'_>) -> Result<Option<&'static str>, String> {
    let name = plugin.name("name")?;
    match SCORES.iter().find(|(known, _)| *known == name) {
        Some((known, _)) => Ok(Some(*known)),
        None if OTHERS.contains(&name) => Ok(None),
        None => Err(plugin.fault("name", "is not a default plugin of kube-scheduler: remove it")),
    }
}

/// Enables or disables a plugin at all of its extension points.
fn multi_point(plugin: &Fields<'_>, to: Switch, profile: &mut KubeProfile) -> Result<(), String> {
    match (plugin.name("name")?, to) {
        (_, Switch::Enabled) => {
            if let Some(name) = known(plugin)? {
                profile.weights.insert(name, weight(plugin)?);
            }
        }
        // These plugins have no filter.
        (name @ ("ImageLocality" | "NodeResourcesBalancedAllocation"), Switch::Disabled) => {
            profile.weights.remove(name);
        }
        ("DefaultPreemption", Switch::Disabled) => profile.preemption = None,
        (_, Switch::Disabled) => return Err(always_on(plugin)),
    }
    Ok(())
}

/// Enables or disables preemption.
fn post_filter(plugin: &Fields<'_>, to: Switch, profile: &mut KubeProfile) -> Result<(), String> {
    profile.preemption = match (plugin.name("name")?, to) {
        ("DefaultPreemption", Switch::Enabled) => Some(CandidateMachines::default()),
        ("DefaultPreemption" | "*", Switch::Disabled) => None,
        ("DynamicResources", _) => profile.preemption,
        _ => return Err(plugin.fault("name", "is not supported: must be DefaultPreemption")),
    };
    Ok(())
}

/// Enables or disables a score.
fn score(plugin: &Fields<'_>, to: Switch, profile: &mut KubeProfile) -> Result<(), String> {
    let name = plugin.name("name")?;
    if name == "*" && to == Switch::Disabled {
        profile.weights.clear();
        return Ok(());
    }
    let Some((name, _)) = SCORES.iter().find(|(known, _)| *known == name) else {
        let names = SCORES.map(|(name, _)| name).join(", ");
        return Err(plugin.fault("name", &format!("is not a score: the scores are {names}")));
    };
    if to == Switch::Enabled {
        profile.weights.insert(name, weight(plugin)?);
    } else {
        profile.weights.remove(name);
    }
    Ok(())
}

/// Returns the weight of an enabled score. As in kube-scheduler, no weight and 0 mean 1.
fn weight(plugin: &Fields<'_>) -> Result<i32, String> {
    let weight = plugin.number("weight", 0..=100)?.unwrap_or(0).max(1);
    i32::try_from(weight).map_err(|_| plugin.fault("weight", "is too large"))
}

fn percentage(fields: &Fields<'_>) -> Result<Option<u8>, String> {
    let percentage = fields.number("percentageOfNodesToScore", 0..=100)?;
    Ok(percentage.and_then(|percentage| u8::try_from(percentage).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::Kinds;
    use omega_schedulers::plugins::{Preferences, ShapePoint, Strategy};

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
        let profiles = parse(GOOD).expect("a configuration").profiles;
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

    /// Reads one profile with this text, of one more level than the text has.
    fn one(text: &str) -> Result<KubeProfile, String> {
        let text = text.replace('\n', "\n    ");
        let head = GOOD.split("percentageOfNodesToScore").next().unwrap_or_default();
        let mut read = parse(&format!("{head}profiles:\n  - {text}\n"))?;
        Ok(read.profiles.remove(0))
    }

    #[test]
    fn arguments_of_plugins_are_honoured() {
        let args = |name: &str, args: &str| {
            one(&format!("pluginConfig: [{{name: {name}, args: {args}}}]")).expect("a profile")
        };
        let strategy = "{scoringStrategy: {type: RequestedToCapacityRatio,
            requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]},
            resources: [{name: ephemeral-storage}, {name: example.com/gpu, weight: 3}]}}";
        let fit = args("NodeResourcesFit", strategy).fit;
        let points = [(0, 0), (100, 10)].map(|(percent, score)| ShapePoint { percent, score });
        assert_eq!(fit.strategy, Strategy::RequestedToCapacityRatio(points.into()));
        let resources = [("disk", 1), ("example.com/gpu", 3)];
        assert_eq!(fit.resources, resources.map(|(name, weight)| (name.to_owned(), weight)));
        let neighbours = "{hardPodAffinityWeight: 7, ignorePreferredTermsOfExistingPods: true}";
        let neighbours = args("InterPodAffinity", neighbours).neighbours;
        assert_eq!(neighbours.required_weight, 7);
        assert_eq!(neighbours.preferences, Preferences::OfThosePreferring);
        let added = "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
            {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}";
        assert_eq!(args("NodeAffinity", added).added.required.expect("terms").len(), 1);
        let spread = "{defaultingType: List, defaultConstraints: []}";
        let default = KubeProfile::new("default-scheduler");
        assert_eq!(args("PodTopologySpread", spread), default);
        let most = "{minCandidateNodesAbsolute: 2147483647}";
        let candidates = args("DefaultPreemption", most).preemption.expect("it preempts");
        assert_eq!(candidates.absolute, 2_147_483_647);
    }

    #[test]
    fn names_and_weights_have_the_defaults_of_kube_scheduler() {
        let default = KubeProfile::new("default-scheduler");
        let head = GOOD.split("percentageOfNodesToScore").next().unwrap_or_default();
        for profiles in ["", "profiles:", "profiles: []", "profiles: [{plugins: null}]"] {
            let read = parse(&format!("{head}{profiles}\n")).expect(profiles);
            assert_eq!(read.profiles, std::slice::from_ref(&default));
        }
        let sets = "plugins:
  filter: {enabled: [{name: NodePorts}]}
  multiPoint:
    enabled: [{name: NodeName, weight: 0}, {name: NodeAffinity}, {name: TaintToleration, weight: 9}]
    disabled: [{name: ImageLocality}, {name: DefaultPreemption}]
  score: {enabled: [{name: TaintToleration, weight: 0}]}";
        let read = one(sets).expect("a profile");
        let weights = ["NodeAffinity", "TaintToleration", "ImageLocality"];
        let weights = weights.map(|name| read.weights.get(name).copied());
        assert_eq!(weights, [Some(1), Some(1), None]);
        assert_eq!(read.preemption, None);
    }

    #[test]
    fn the_file_of_kubeadm_is_read_with_its_election_and_connection() {
        let head = GOOD.split("percentageOfNodesToScore").next().unwrap_or_default();
        let more = "clientConnection: {acceptContentTypes: '', burst: 100, contentType: '', kubeconfig: /k, qps: 50}
enableContentionProfiling: true
enableProfiling: true
leaderElection: {leaderElect: true, leaseDuration: 1m15s, renewDeadline: 10s, resourceLock: leases,
  resourceName: kube-scheduler, resourceNamespace: kube-system, retryPeriod: 2s}
parallelism: 16
percentageOfNodesToScore: 0
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
";
        let read = parse(&format!("{head}{more}")).expect("a configuration");
        assert_eq!(read.kubeconfig, Some("/k".into()));
        let election = read.election;
        assert_eq!(
            (election.elects, election.duration),
            (Some(true), Some(Duration::from_secs(75)))
        );
        assert_eq!(election.name.as_deref(), Some("kube-scheduler"));
        assert_eq!(election.namespace.as_deref(), Some("kube-system"));
        let read = parse(&format!("{head}leaderElection: {{}}\n")).expect("a configuration");
        assert_eq!(read.election.elects, Some(true));
        for wrong in ["15", "s", "10m", "1.5s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
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
            ("qps: 1\n", "remove the field"),
            ("parallelism: 4\n", "use --workers"),
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
            ("profiles:", "extenders: [{urlPrefix: x}]\nprofiles:", "extenders"),
            ("weight: 5", "weight: -1", "profiles[0].plugins.score.enabled[0].weight"),
            ("weight: 5}]", "weight: 5}, {name: NodeResourcesFit}]", "score.enabled[1].name"),
            ("name: ImageLocality", "name: Other", "profiles[0].plugins.score.disabled[0].name"),
            ("      score:", "      filter:", "profiles[0].plugins.filter.disabled[0].name"),
            ("- name: NodeResourcesFit", "- name: Other", "profiles[0].pluginConfig[0].name"),
            ("type: MostAllocated", "type: Best", "scoringStrategy.type"),
            ("{name: cpu, weight: 2}", "{name: disc}", "scoringStrategy.resources[0].name"),
            ("schedulerName: plain", "schedulerName: packed", "profiles[1].schedulerName"),
            ("schedulerName: plain", "schedulerName: ''", "profiles[1].schedulerName"),
            ("schedulerName: plain", "schedulerName: 7", "profiles[1].schedulerName"),
            ("schedulerName: plain\n    ", "", "profiles[1].schedulerName"),
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
        for (config, field) in [
            (
                "{name: DefaultPreemption, args: {minCandidateNodesAbsolute: 4294967295}}",
                "Absolute",
            ),
            ("{name: NodeResourcesFit, args: {ignoredResources: [a/b]}}", "ignoredResources"),
            ("{name: NodeAffinity}, {name: NodeAffinity}", "pluginConfig[1].name"),
            ("{name: VolumeBinding, args: {bindTimeoutSeconds: 60}}", "bindTimeoutSeconds"),
        ] {
            let why = one(&format!("pluginConfig: [{config}]")).expect_err(config);
            assert!(why.contains(field), "{field}: {why}");
        }
    }
}
