//! The manifest and the chart: the manifest is the chart with its default values, in the namespace `kube-system`.

use crate::double::text;
use crate::replay::transcript;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The chart's default values.
fn values() -> BTreeMap<String, Value> {
    serde_saphyr::from_str(&read("chart/values.yaml")).expect("values")
}

/// Renders the chart as Helm does. Conditions are lines of their own, and test texts.
fn render(values: &BTreeMap<String, Value>) -> String {
    let (mut rendered, mut shown) = (String::new(), Vec::new());
    for line in read("chart/templates/omega-kube.yaml").lines() {
        let condition = line.trim().strip_prefix("{{- if .Values.");
        if let Some(name) = condition.and_then(|rest| rest.strip_suffix(" }}")) {
            shown.push(!values[name].as_str().expect("a text").is_empty());
        } else if line.trim() == "{{- else }}" {
            let last = shown.last_mut().expect("a condition");
            *last = !*last;
        } else if line.trim() == "{{- end }}" {
            shown.pop().expect("a condition");
        } else if shown.iter().all(|shown| *shown) {
            rendered += &format!("{line}\n");
        }
    }
    for (name, value) in values {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        rendered = rendered.replace(&format!("{{{{ .Values.{name} }}}}"), &text);
        let json = value.to_string();
        rendered = rendered.replace(&format!("{{{{ toJson .Values.{name} }}}}"), &json);
    }
    let rendered = rendered.replace("{{ .Release.Namespace }}", "kube-system");
    rendered.replace("{{ .Release.Name }}", "omega-kube")
}

/// Parses the objects of a manifest.
fn parsed(manifest: &str) -> Vec<Value> {
    let objects = manifest.split("\n---\n");
    objects.map(|text| serde_saphyr::from_str(text).expect("YAML")).collect()
}

#[test]
fn the_manifest_is_the_chart_with_its_default_values() {
    let values = values();
    let template = read("chart/templates/omega-kube.yaml");
    for name in values.keys() {
        assert!(template.contains(&format!(" .Values.{name} }}}}")), "{name} is used");
    }
    let rendered = render(&values);
    assert_eq!(rendered, read("omega-kube.yaml"));
    assert!(parsed(&rendered).iter().all(|object| object["kind"].is_string()));
}

#[test]
fn a_configuration_replaces_the_scheduler_name() {
    let mut values = values();
    let configuration =
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    values.insert("config".into(), configuration.into());
    let objects = parsed(&render(&values));
    let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).expect(kind);
    assert_eq!(of("ConfigMap")["data"]["config.yaml"], configuration);
    let pod = &of("Deployment")["spec"]["template"]["spec"];
    let args: Vec<&str> = texts(&pod["containers"][0], "args").collect();
    assert!(args.contains(&"--config=/etc/omega-kube/config.yaml"), "{args:?}");
    assert!(!args.iter().any(|arg| arg.starts_with("--scheduler-name")), "{args:?}");
    assert_eq!(pod["volumes"][0]["configMap"]["name"], "omega-kube");
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["name"], "config");
}

#[test]
fn one_replica_can_be_evicted() {
    let budget = objects("PodDisruptionBudget").pop().expect("a budget");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert!(budget["spec"].get("minAvailable").is_none());
}

#[test]
fn the_roles_allow_the_calls_that_the_program_makes_and_no_others() {
    let manifest = read("omega-kube.yaml");
    let mut allowed = Vec::new();
    for object in manifest.split("\n---\n") {
        let object: serde_json::Value = serde_saphyr::from_str(object).expect("YAML");
        for rule in object["rules"].as_array().into_iter().flatten() {
            for resource in rule["resources"].as_array().into_iter().flatten() {
                for verb in rule["verbs"].as_array().into_iter().flatten() {
                    let name = |value: &serde_json::Value| value.as_str().unwrap_or("?").to_owned();
                    allowed.push(format!("{} {}", name(verb), name(resource)));
                }
            }
        }
    }
    allowed.sort();
    let expected = [
        "create events",
        "create leases",
        "create pods/binding",
        "delete pods",
        "get csidrivers",
        "get csinodes",
        "get csistoragecapacities",
        "get leases",
        "get namespaces",
        "get nodes",
        "get persistentvolumeclaims",
        "get persistentvolumes",
        "get poddisruptionbudgets",
        "get podgroups",
        "get pods",
        "get storageclasses",
        "get volumeattachments",
        "list csidrivers",
        "list csinodes",
        "list csistoragecapacities",
        "list namespaces",
        "list nodes",
        "list persistentvolumeclaims",
        "list persistentvolumes",
        "list poddisruptionbudgets",
        "list podgroups",
        "list pods",
        "list storageclasses",
        "list volumeattachments",
        "patch persistentvolumeclaims",
        "patch persistentvolumes",
        "patch podgroups/status",
        "patch pods/status",
        "update leases",
        "watch csidrivers",
        "watch csinodes",
        "watch csistoragecapacities",
        "watch namespaces",
        "watch nodes",
        "watch persistentvolumeclaims",
        "watch persistentvolumes",
        "watch poddisruptionbudgets",
        "watch podgroups",
        "watch pods",
        "watch storageclasses",
        "watch volumeattachments",
    ];
    assert_eq!(allowed, expected);
}

/// Objects of the manifest with this kind.
fn objects(kind: &str) -> Vec<Value> {
    let manifest = read("omega-kube.yaml");
    let objects = manifest.split("\n---\n").map(|text| serde_saphyr::from_str(text).expect("YAML"));
    objects.filter(|object: &Value| object["kind"] == kind).collect()
}

fn texts<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    value[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The rights that rules give, as `VERB GROUP/RESOURCE`. Rules for single names are left out.
fn rights(rules: &Value) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    let rules = rules.as_array().expect("rules").iter();
    for rule in rules.filter(|rule| rule["resourceNames"].is_null()) {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                rights
                    .extend(texts(rule, "verbs").map(|verb| format!("{verb} {group}/{resource}")));
            }
        }
    }
    rights
}

/// The rights that a recorded server offers, as `VERB GROUP/RESOURCE`.
fn offered(calls: &[Value]) -> BTreeSet<String> {
    let lists = calls.iter().map(|call| &call["response"]["body"]);
    let mut offered = BTreeSet::new();
    for list in lists.filter(|list| list["kind"] == "APIResourceList") {
        let (group, _) = text(list, "/groupVersion").split_once('/').unwrap_or_default();
        for resource in list["resources"].as_array().expect("resources") {
            let name = text(resource, "/name");
            offered.extend(texts(resource, "verbs").map(|verb| format!("{verb} {group}/{name}")));
        }
    }
    offered
}

#[test]
fn the_roles_name_what_a_real_server_has_and_little_that_kube_scheduler_may_not() {
    let Some(calls) = transcript("auth.jsonl") else { return };
    let roles = [objects("ClusterRole"), objects("Role")].concat();
    let ours: BTreeSet<String> = roles.iter().flat_map(|role| rights(&role["rules"])).collect();
    let offered = offered(&calls);
    // Groups of pods are alpha, and off in the recorded server.
    let missing = ours.iter().filter(|right| !offered.contains(*right));
    assert!(
        missing.clone().all(|right| right.contains(" scheduling.k8s.io/podgroups")),
        "{missing:?}"
    );
    let role = calls.iter().find(|call| text(call, "/step") == "the role itself");
    let theirs = rights(&role.expect("the role")["response"]["body"]["rules"]);
    let more: Vec<&str> = ours.difference(&theirs).map(String::as_str).collect();
    // Kube-scheduler has the rights to volumes and classes by the role system:volume-scheduler.
    let expected = [
        "get scheduling.k8s.io/podgroups",
        "get storage.k8s.io/storageclasses",
        "list scheduling.k8s.io/podgroups",
        "list storage.k8s.io/storageclasses",
        "patch /persistentvolumeclaims",
        "patch /persistentvolumes",
        "patch scheduling.k8s.io/podgroups/status",
        "watch scheduling.k8s.io/podgroups",
        "watch storage.k8s.io/storageclasses",
    ];
    assert_eq!(more, expected);
}

/// Whether a flow schema applies to all requests of a service account.
fn applies_to(schema: &Value, namespace: &str, name: &str) -> bool {
    let groups = ["system:authenticated", "system:serviceaccounts"];
    let is_subject = |subject: &Value| match text(subject, "/kind") {
        "Group" => groups.contains(&text(subject, "/group/name")),
        "ServiceAccount" => {
            text(subject, "/serviceAccount/namespace") == namespace
                && ["*", name].contains(&text(subject, "/serviceAccount/name"))
        }
        _ => false,
    };
    let is_for_all = |rule: &Value| texts(rule, "resources").any(|resource| resource == "*");
    let of = |rule: &Value, field: &str, is: &dyn Fn(&Value) -> bool| {
        rule[field].as_array().into_iter().flatten().any(is)
    };
    let rules = schema["spec"]["rules"].as_array().into_iter().flatten();
    rules
        .clone()
        .any(|rule| of(rule, "subjects", &is_subject) && of(rule, "resourceRules", &is_for_all))
}

#[test]
fn the_flow_schema_comes_before_those_of_a_real_server_and_names_a_level_of_it() {
    let Some(calls) = transcript("flowcontrol.jsonl") else { return };
    let ours = objects("FlowSchema").pop().expect("a flow schema");
    let account = (
        "/spec/rules/0/subjects/0/serviceAccount/namespace",
        "/spec/rules/0/subjects/0/serviceAccount/name",
    );
    let (namespace, name) = (text(&ours, account.0), text(&ours, account.1));
    assert!(applies_to(&ours, namespace, name));
    let items =
        |call: &Value| call["response"]["body"]["items"].as_array().expect("a list").clone();
    let precedence =
        |schema: &Value| schema["spec"]["matchingPrecedence"].as_u64().expect("a number");
    let schemas = items(&calls[0]);
    let others: Vec<&Value> =
        schemas.iter().filter(|schema| applies_to(schema, namespace, name)).collect();
    assert!(others.len() >= 4, "{others:?}");
    assert!(others.iter().all(|schema| precedence(&ours) < precedence(schema)));
    let level = &ours["spec"]["priorityLevelConfiguration"]["name"];
    let kube_scheduler =
        schemas.iter().find(|schema| text(schema, "/metadata/name") == "kube-scheduler");
    assert_eq!(*level, kube_scheduler.expect("it")["spec"]["priorityLevelConfiguration"]["name"]);
    assert!(items(&calls[1]).iter().any(|known| known["metadata"]["name"] == *level));
}
