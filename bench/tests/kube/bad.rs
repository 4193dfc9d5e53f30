//! Bad input: each file gives a one-line error with the place and the reason.

use crate::{list, node, pod, read};

#[track_caller]
fn check(content: &str, message: &str) {
    assert_eq!(read(content).map(|_| ()), Err(message.to_owned()));
}

/// A list with a node and this item.
fn with_node(item: &str) -> String {
    list(&[&node("a"), item])
}

#[test]
fn text_that_is_no_json() {
    for text in ["apiVersion: v1\nkind: List", "---\n{}", "NAME  STATUS\na  Ready"] {
        check(
            text,
            ":1: the file does not begin as JSON: write it with `kubectl get nodes,pods -A -o json`, because \
             neither YAML nor tables are read",
        );
    }
    check(
        "Warning: x\nNAME  STATUS",
        ":2: the file does not begin as JSON: write it with `kubectl get nodes,pods -A -o json`, because \
         neither YAML nor tables are read",
    );
    let resolve = "resolve it, and write the file again with `kubectl get nodes,pods -A -o json`";
    let forbidden = "Error from server (Forbidden): pods is forbidden";
    let message = format!("is an error of kubectl, {forbidden:?}: {resolve}");
    check(&format!("{forbidden}\n{}", list(&[])), &format!(":1: {message}"));
    check(&format!("{}\n\n{forbidden}\n", list(&[&node("a")])), &format!(":4: {message}"));
    check("{} \n {} x", ":1: kind: is missing, expected a List of Nodes and Pods");
    check(&format!("{}\n{} x", list(&[]), list(&[])), ":2: column 28: is not JSON: expected value");
    check(
        r#"{"kind":"Status","status":"Failure","message":"pods is \"forbidden\"","code":403}"#,
        &format!(
            ":1: kind: is \"Status\", an answer of the API server instead of a list, with the message \
             \"pods is \\\"forbidden\\\"\": {resolve}"
        ),
    );
    check(
        "{\n  \"kind\": \"List\",\n  \"items\": [}\n",
        ":3: column 13: is not JSON: expected value",
    );
    check(r#"{"kind":"List","items":["#, ":1: column 24: is not JSON: EOF while parsing a list");
    assert_eq!(
        read(b"\xff\xfe{").map(|_| ()),
        Err(": is UTF-16 text: save it as UTF-8".to_owned())
    );
    assert_eq!(read(b"{\xff").map(|_| ()), Err(": is not UTF-8 text: save it as UTF-8".to_owned()));
    let broken = [0x1f, 0x8b, 8, 0, 0];
    assert!(read(broken).unwrap_err().starts_with(": the gzip data "));
}

#[test]
fn documents_that_are_no_list_of_nodes_and_pods() {
    for empty in ["", " \n"] {
        check(empty, ": is empty: write it with `kubectl get nodes,pods -A -o json`");
    }
    for (bytes, format) in
        [(&b"\xfd7zXZ\0\0"[..], "xz"), (b"BZh91AY", "bzip2"), (b"PK\x03\x04", "zip")]
    {
        let why = read(bytes).unwrap_err();
        assert!(why.starts_with(&format!(": is compressed with {format}, which is not")), "{why}");
    }
    check("3", ":1: must be an object, the List of Nodes and Pods, not 3");
    check("{}", ":1: kind: is missing, expected a List of Nodes and Pods");
    check(
        r#"{"kind":"DeploymentList","items":[]}"#,
        ":1: kind: is \"DeploymentList\", expected a List of Nodes and Pods",
    );
    check(r#"{"kind":"List"}"#, ":1: items: is missing");
    check(
        "[\n{\"kind\":\"NodeList\",\"items\":[]},\n{\"kind\":\"PodList\",\"items\":{}}]",
        ":3: [1].items: must be a list, not an object",
    );
    check(
        &list(&[]),
        ": has no Node: it must be the output of `kubectl get nodes,pods -A -o \
         json`",
    );
    check(
        &list(&[&pod("p", "")]),
        ": has no Node: it must be the output of `kubectl get nodes,pods -A -o json`",
    );
}

#[test]
fn items_that_are_no_objects_or_have_no_name() {
    check(&with_node("7"), ":2: items[1]: must be an object, not 7");
    check(&with_node(r#"{"metadata":{"name":"x"}}"#), ":2: items[1].kind: is missing");
    check(&with_node(r#"{"kind":"Pod"}"#), ":2: items[1].metadata.name: is missing");
    check(
        &with_node(r#"{"kind":"Node","metadata":{"labels":{}}}"#),
        ":2: items[1].metadata.name: is missing",
    );
    check(
        &with_node(r#"{"kind":"Pod","metadata":{"name":"p","labels":["a"]}}"#),
        ":2: items[1].metadata.labels: must be an object, not a list",
    );
}

#[test]
fn names_that_are_there_twice() {
    check(
        &with_node(&node("a")),
        ":2: items[1].metadata.name: the node \"a\" appears twice: \
         remove one of the two",
    );
    check(
        &list(&[&node("a"), &pod("p", ""), &pod("p", "")]),
        ":2: items[2].metadata.name: the pod \"default/p\" appears twice: remove one of the two",
    );
}

#[test]
fn objects_of_storage_that_are_there_twice() {
    for kind in ["PersistentVolume", "StorageClass", "PersistentVolumeClaim"] {
        let object = format!(r#"{{"kind":"{kind}","metadata":{{"name":"x"}}}}"#);
        let name = if kind == "PersistentVolumeClaim" { "default/x" } else { "x" };
        let message = format!(
            ":2: items[2].metadata.name: the {kind} {name:?} appears twice: \
             remove one of the two"
        );
        check(&list(&[&node("a"), &object, &object]), &message);
    }
}

#[test]
fn words_of_classes_budgets_and_spreads_that_kubernetes_refuses() {
    check(
        &with_node(r#"{"kind":"StorageClass","metadata":{"name":"x"},"volumeBindingMode":"Late"}"#),
        ":2: items[1].volumeBindingMode: unknown value `Late`, expected `Immediate` or \
         `WaitForFirstConsumer`",
    );
    let budget = |spec: &str| {
        let head = r#"{"kind":"PodDisruptionBudget","metadata":{"name":"b"},"spec":{"#;
        with_node(&format!("{head}{spec}}}}}"))
    };
    check(
        &budget(r#""minAvailable":1,"maxUnavailable":1"#),
        ":2: items[1].spec: has both minAvailable and maxUnavailable: give only one of them",
    );
    check(
        &budget(r#""maxUnavailable":"150%""#),
        ":2: items[1].spec.maxUnavailable: is \"150%\": must be at most 100%",
    );
    let spread = r#""topologySpreadConstraints":[{"maxSkew":1},{"maxSkew":0}]"#;
    check(
        &with_node(&pod("p", spread)),
        ":2: items[1].spec.topologySpreadConstraints[1].maxSkew: is 0 or missing: must be a whole \
         number from 1",
    );
}

#[test]
fn quantities_that_are_none() {
    let asks = |quantity: &str| {
        let requests = format!(r#"{{"resources":{{"requests":{{"memory":{quantity}}}}}}}"#);
        with_node(&pod("p", &format!("\"containers\":[{{}},\n{requests}]")))
    };
    let path = "items[1].spec.containers[1].resources.requests.memory";
    let expected = "must be a number such as 2, 0.5, 100m, 1e3 or 512Mi";
    check(&asks(r#""12GB""#), &format!(":3: {path}: \"12GB\" is not a quantity: {expected}"));
    check(&asks(r#""""#), &format!(":3: {path}: \"\" is not a quantity: must not be empty"));
    check(&asks(r#""-1Gi""#), &format!(":3: {path}: \"-1Gi\" is negative"));
    check(&asks("-5"), &format!(":3: {path}: \"-5\" is negative"));
    check(&asks("[]"), &format!(":3: {path}: must be a quantity, not a list"));
    check(
        r#"{"kind":"Node","metadata":{"name":"a"},"status":{"capacity":{"nvidia.com/gpu":"two"}}}"#,
        &format!(":1: status.capacity.nvidia.com/gpu: \"two\" is not a quantity: {expected}"),
    );
}

#[test]
fn words_and_numbers_that_kubernetes_does_not_know() {
    check(
        &list(&[
            r#"{"kind":"Node","metadata":{"name":"a"},"spec":{"taints":[{"key":"k","effect":"No"}]}}"#,
        ]),
        ":1: items[0].spec.taints[0].effect: unknown value `No`, expected one of `NoSchedule`, \
         `PreferNoSchedule`, `NoExecute`",
    );
    let affinity = r#""affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Near"}]}]}}}"#;
    check(
        &with_node(&pod("p", affinity)),
        ":3: items[1].spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.\
         nodeSelectorTerms[0].matchExpressions[0].operator: unknown value `Near`, expected one \
         of `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`",
    );
    check(
        &with_node(&pod("p", r#""containers":[{"ports":[{"hostPort":70000}]}]"#)),
        ":2: items[1].spec.containers[0].ports[0].hostPort: must be a whole number from 0 to 65535, \
         not 70000",
    );
    check(
        &with_node(&pod("p", r#""priority":"high""#)),
        ":2: items[1].spec.priority: must be a whole number, not the text \"high\"",
    );
}

#[test]
fn more_resources_than_a_cell_has_kinds() {
    let requests: Vec<String> = (0..13).map(|i| format!(r#""example.com/r{i}":1"#)).collect();
    let requests = requests.join(",");
    check(
        &with_node(&pod(
            "p",
            &format!(r#""containers":[{{"resources":{{"requests":{{{requests}}}}}}}]"#),
        )),
        ": the pods request 13 extended resources: at most 10 are allowed",
    );
}

#[test]
fn a_file_that_is_not_there() {
    let error = crate::load(std::path::Path::new("no/such/file.json")).unwrap_err().to_string();
    assert!(error.starts_with("no/such/file.json: cannot be read: "), "{error}");
}
