//! Requirements and preferences of pods as placement rules.

use crate::{list, node, one, pod, read};
use omega_core::{
    LabelSelector, MachineSelector, Near, Operator, PlacementRules, Port, Protocol, Requirement,
    TaintEffect, TaskRule, TaskSelector, Tenants, TopologyLevel, WhenUnsatisfiable,
};
use omega_workload::Workload;

/// The rules of the only pod.
fn rules(workload: &Workload) -> &PlacementRules {
    &workload.arrivals[0].job.groups[0].rules
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    let values = values.iter().map(|value| (*value).into()).collect();
    Requirement { key: key.into(), operator, values }
}

#[test]
fn required_machines_are_terms_each_with_the_plain_selector() {
    let required = |terms: &str| {
        one(&format!(
            r#""nodeSelector":{{"os":"linux"}},"affinity":{{"nodeAffinity":{{
            "requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{terms}]}}}}}}"#
        ))
    };
    let plain = one(r#""nodeSelector":{"os":"linux"}"#);
    let linux = requirement("os", Operator::In, &["linux"]);
    assert_eq!(
        rules(&plain).affinity.required,
        Some(vec![MachineSelector { labels: vec![linux.clone()], names: vec![] }])
    );
    let both = required(
        r#"{"matchExpressions":[{"key":"cores","operator":"Gt","values":["8"]}]}, {},
        {"matchFields":[{"key":"metadata.name","operator":"In","values":["b"]}]}"#,
    );
    let cores = requirement("cores", Operator::Gt, &["8"]);
    let name = requirement("metadata.name", Operator::In, &["b"]);
    assert_eq!(
        rules(&both).affinity.required,
        Some(vec![
            MachineSelector { labels: vec![cores, linux.clone()], names: vec![] },
            MachineSelector { labels: vec![linux], names: vec![name] },
        ])
    );
    assert_eq!(rules(&required("{}")).affinity.required, Some(vec![]));
    assert_eq!(rules(&one("")).affinity.required, None);
}

#[test]
fn ports_are_those_of_the_machine() {
    let workload = one(r#""containers":[{"ports":[{"containerPort":80,"hostPort":8080},
        {"containerPort":80,"hostPort":8080,"hostIP":"0.0.0.0"},{"containerPort":81},
        {"hostPort":53,"protocol":"UDP","hostIP":"10.0.0.1"}]}],
        "initContainers":[{"restartPolicy":"Always","ports":[{"hostPort":9}]},
        {"ports":[{"hostPort":10}]}]"#);
    let dns = Port { address: Some("10.0.0.1".into()), protocol: Protocol::Udp, number: 53 };
    assert_eq!(rules(&workload).ports, [Port::tcp(8080), dns, Port::tcp(9)]);
    let host = one(r#""hostNetwork":true,"containers":[{"ports":[{"containerPort":80}]}]"#);
    assert_eq!(rules(&host).ports, [Port::tcp(80)]);
}

#[test]
fn tolerations_keep_their_words() {
    let workload = one(r#""tolerations":[{"operator":"Exists"},{"key":"k","value":"v",
        "effect":"NoExecute","tolerationSeconds":300},{"key":"n","operator":"Lt","value":"5"}]"#);
    let tolerations = &rules(&workload).tolerations;
    assert_eq!(tolerations.len(), 2);
    assert_eq!(tolerations[0].key, None);
    assert_eq!(tolerations[1].effect, Some(TaintEffect::NoExecute));
    assert_eq!(workload.notes, ["a toleration with the operator Gt or Lt is ignored: 1 pod"]);
}

/// A pod with labels `app` and `rev`, and these topology spread constraints.
fn spreading(constraints: &str) -> Workload {
    let pod = format!(
        r#"{{"kind":"Pod","metadata":{{"name":"p","labels":{{"app":"x","rev":"7"}}}},
        "spec":{{"topologySpreadConstraints":[{constraints}]}}}}"#
    );
    read(list(&[&node("a"), &node("b"), &pod])).unwrap()
}

#[test]
fn a_topology_spread_is_a_spread() {
    let workload = spreading(
        r#"{"maxSkew":2,"minDomains":3,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",
        "labelSelector":{"matchLabels":{"app":"x"}},"matchLabelKeys":["rev","absent"]},
        {"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway",
        "labelSelector":{"matchLabels":{"app":"x"}},"nodeAffinityPolicy":"Ignore",
        "nodeTaintsPolicy":"Honor"},
        {"maxSkew":1,"topologyKey":"zone"},{"maxSkew":1,"topologyKey":"zone","labelSelector":{}}"#,
    );
    let spreads = rules(&workload).tasks.iter().map(|rule| match rule {
        TaskRule::Spread(spread) => spread,
        _ => panic!("{rule:?}"),
    });
    let [zone, machine, null, empty] = spreads.collect::<Vec<_>>().try_into().unwrap();
    let app = requirement("app", Operator::In, &["x"]);
    let rev = requirement("rev", Operator::In, &["7"]);
    let nothing = requirement("", Operator::In, &[]);
    let labels = |mut requirements: Vec<Requirement>| {
        requirements.push(requirement("is being deleted", Operator::DoesNotExist, &[]));
        TaskSelector::Labels { tenants: Tenants::Own, labels: LabelSelector { requirements } }
    };
    assert_eq!(zone.of, labels(vec![app.clone(), rev]));
    assert_eq!(zone.level, TopologyLevel::Label("zone".into()));
    assert_eq!((zone.skew_max, zone.domains_min, zone.counts_itself), (2, 3, true));
    assert_eq!((zone.honors_affinity, zone.honors_taints), (true, false));
    assert_eq!(machine.of, labels(vec![app]));
    assert_eq!(machine.level, TopologyLevel::Machine);
    assert_eq!(machine.when, WhenUnsatisfiable::ScheduleAnyway);
    assert_eq!((machine.honors_affinity, machine.honors_taints), (false, true));
    assert_eq!((&null.of, null.counts_itself), (&labels(vec![nothing.clone()]), false));
    assert_eq!((&empty.of, empty.counts_itself), (&labels(vec![nothing]), true));
    assert_eq!(workload.notes, [""; 0]);
}

#[test]
fn preferred_neighbours_are_wishes_with_a_sign() {
    let wish = |weight: u32, selector: &str| {
        format!(
            r#""preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":{weight},
            "podAffinityTerm":{{"topologyKey":"zone"{selector}}}}}]"#
        )
    };
    let of = |near: &str, far: &str| {
        one(&format!(r#""affinity":{{"podAffinity":{{{near}}},"podAntiAffinity":{{{far}}}}}"#))
    };
    let any = r#","labelSelector":{}"#;
    let workload = of(&wish(7, any), &wish(9, any));
    let weights = rules(&workload).tasks.iter().map(|rule| match rule {
        TaskRule::Prefer { weight, .. } => *weight,
        _ => panic!("{rule:?}"),
    });
    assert_eq!(weights.collect::<Vec<_>>(), [7, -9]);
    // Terms without a label selector match no pod, but they, too, are converted to preferences.
    let workload = of(&wish(7, ""), &wish(9, ""));
    let labels = rules(&workload).tasks.iter().map(|rule| match rule {
        TaskRule::Prefer {
            near: Near { tasks: TaskSelector::Labels { labels, .. }, .. }, ..
        } => labels,
        _ => panic!("{rule:?}"),
    });
    let labels: Vec<_> = labels.collect();
    assert_eq!(labels.len(), 2);
    assert!(labels.iter().all(|labels| !labels.matches(&omega_core::Labels::default())));
}

#[test]
fn images_have_a_tag_as_machines_name_them() {
    let workload = one(r#""initContainers":[{"image":"reg:5000/a"}],
        "containers":[{"image":"b:1"},{"image":"r/c@sha256:1"},{}]"#);
    let images: Vec<&str> =
        workload.arrivals[0].job.groups[0].images.iter().map(|image| &**image).collect();
    assert_eq!(images, ["reg:5000/a:latest", "b:1", "r/c@sha256:1", ":latest"]);
}

#[test]
fn a_pod_that_is_being_deleted_is_known_by_a_label() {
    let pod = r#"{"kind":"Pod","metadata":{"name":"p","deletionTimestamp":"2030-01-01T00:00:00Z"},
        "spec":{"nodeName":"a"}}"#;
    let workload = read(list(&[&node("a"), pod])).unwrap();
    let labels = &workload.arrivals[0].job.groups[0].labels;
    assert_eq!(labels, &omega_core::Labels::new([("is being deleted", "")]));
}

#[test]
fn hostnames_that_two_nodes_share_are_labels() {
    let shared =
        r#"{"kind":"Node","metadata":{"name":"b","labels":{"kubernetes.io/hostname":"a"}}}"#;
    let spread = r#""topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname",
        "labelSelector":{"matchLabels":{"app":"x"}}}]"#;
    let workload = read(list(&[&node("a"), shared, &pod("p", spread)])).unwrap();
    let TaskRule::Spread(spread) = &rules(&workload).tasks[0] else { panic!() };
    assert_eq!(spread.level, TopologyLevel::Label("kubernetes.io/hostname".into()));
    assert_eq!(workload.notes, ["no pod fits, because there are no allocatable resources: 1 node"]);
}

/// Tenants whose pods an anti-affinity term with this content considers, and the notes on its conversion.
fn tenants(term: &str, namespaces: &[&str]) -> (Tenants, Vec<String>) {
    let spec = format!(
        r#""affinity":{{"podAntiAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[
        {{"topologyKey":"zone","labelSelector":{{}}{term}}}]}}}}"#
    );
    let (node, pod) = (node("a"), pod("p", &spec));
    let items: Vec<&str> =
        [node.as_str(), pod.as_str()].iter().chain(namespaces).copied().collect();
    let workload = read(list(&items)).unwrap();
    let TaskRule::AntiAffinity { from: TaskSelector::Labels { tenants, .. }, .. } =
        &rules(&workload).tasks[0]
    else {
        panic!("{:?}", rules(&workload).tasks)
    };
    (tenants.clone(), workload.notes.clone())
}

#[test]
fn namespaces_are_tenants() {
    let named = |names: &[&str]| Tenants::Named(names.iter().map(|name| (*name).into()).collect());
    let by_team = r#","namespaceSelector":{"matchLabels":{"team":"a"}},"namespaces":["z"]"#;
    let by_name = r#","namespaceSelector":{"matchExpressions":
        [{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["x"]}]}"#;
    let described = [r#"{"kind":"Namespace","metadata":{"name":"n","labels":{"team":"a"}}}"#];
    assert_eq!(tenants("", &[]), (Tenants::Own, vec![]));
    assert_eq!(tenants(r#","namespaceSelector":{}"#, &[]), (Tenants::Any, vec![]));
    assert_eq!(tenants(r#","namespaces":["z","y"]"#, &[]), (named(&["y", "z"]), vec![]));
    assert_eq!(tenants(by_name, &[]), (named(&["default"]), vec![]));
    assert_eq!(tenants(by_team, &described), (named(&["n", "z"]), vec![]));
    let note = "a namespaceSelector is ignored, because the file has no Namespaces: get it with \
         `kubectl get nodes,pods,namespaces -A -o json`: 1 pod";
    assert_eq!(tenants(by_team, &[]), (named(&["z"]), vec![note.to_owned()]));
}

#[test]
fn affinity_terms_without_a_selector_match_nothing() {
    let required = r#""requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]"#;
    let workload = one(&format!(
        r#""affinity":{{"podAffinity":{{{required}}},"podAntiAffinity":{{{required}}}}}"#
    ));
    let [TaskRule::Affinity(terms), TaskRule::AntiAffinity { from, .. }] =
        rules(&workload).tasks.as_slice()
    else {
        panic!("{:?}", rules(&workload).tasks)
    };
    for tasks in [&terms[0].tasks, from] {
        let TaskSelector::Labels { labels, .. } = tasks else { panic!("{tasks:?}") };
        assert!(!labels.matches(&omega_core::Labels::default()));
    }
    assert_eq!(workload.notes.len(), 2);
}
