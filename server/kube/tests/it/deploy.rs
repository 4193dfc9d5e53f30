//! The manifest and the chart: the manifest is the chart with its default values, in the namespace `kube-system`.

use std::collections::BTreeMap;
use std::path::Path;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn the_manifest_is_the_chart_with_its_default_values() {
    let values: BTreeMap<String, serde_json::Value> =
        serde_saphyr::from_str(&read("chart/values.yaml")).expect("values");
    let mut rendered = read("chart/templates/omega-kube.yaml");
    rendered = rendered.replace("{{ .Release.Namespace }}", "kube-system");
    for (name, value) in &values {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let place = format!("{{{{ .Values.{name} }}}}");
        assert!(rendered.contains(&place), "{name} is used");
        rendered = rendered.replace(&place, &text);
    }
    assert_eq!(rendered, read("omega-kube.yaml"));
    let objects = rendered.split("\n---\n");
    for object in objects {
        let value: serde_json::Value = serde_saphyr::from_str(object).expect("YAML");
        assert!(value["kind"].is_string(), "{object}");
    }
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
