//! Volumes, claims and classes of a cluster, and nodes with taints.

use crate::{list, node, pod, read};
use omega_core::{MachineSelector, Text};
use omega_run::{RunOptions, run};
use omega_schedulers::config::{Profiles, Registry};
use omega_schedulers::volumes::{AccessModes, BindingTime, Reach};
use omega_workload::Workload;

/// A node with a label for its zone.
fn in_zone(name: &str, zone: &str) -> String {
    let label = format!(r#""labels":{{"topology.kubernetes.io/zone":"{zone}","#);
    node(name).replace(r#""labels":{"#, &label)
}

/// A storage class of local disks.
const LOCAL: &str = r#"{"kind":"StorageClass","metadata":{"name":"local"},
    "provisioner":"kubernetes.io/no-provisioner","volumeBindingMode":"WaitForFirstConsumer"}"#;

/// The default storage class, which creates volumes in zone b.
const CLOUD: &str = r#"{"kind":"StorageClass","metadata":{"name":"cloud",
    "annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},
    "provisioner":"disk.example.com","volumeBindingMode":"WaitForFirstConsumer",
    "allowedTopologies":[{"matchLabelExpressions":[
        {"key":"topology.kubernetes.io/zone","values":["b"]}]}]}"#;

const DRIVER: &str = r#"{"kind":"CSINode","metadata":{"name":"n1"},"spec":{"drivers":[
    {"name":"disk.example.com","topologyKeys":["topology.kubernetes.io/zone"],
     "allocatable":{"count":1}}]}}"#;

/// A volume of the class of local disks, on the node of this name.
fn volume(name: &str, size: &str, on: &str) -> String {
    format!(
        r#"{{"kind":"PersistentVolume","metadata":{{"name":"{name}"}},"spec":{{
        "capacity":{{"storage":"{size}"}},"accessModes":["ReadWriteOnce"],"storageClassName":"local",
        "nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":[
            {{"key":"kubernetes.io/hostname","operator":"In","values":["{on}"]}}]}}]}}}}}}}}"#
    )
}

/// A claim with these fields in its spec.
fn claim(name: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"PersistentVolumeClaim","metadata":{{"name":"{name}","namespace":"shop"}},
        "spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"5Gi"}}}}{spec}}}}}"#
    )
}

/// A pod with these claims.
fn claiming(name: &str, claims: &[&str]) -> String {
    let volume = |claim: &&str| {
        format!(r#"{{"name":"v","persistentVolumeClaim":{{"claimName":"{claim}"}}}}"#)
    };
    let volumes: Vec<String> = claims.iter().map(volume).collect();
    let pod = pod(name, &format!(r#""volumes":[{}]"#, volumes.join(",")));
    pod.replace(r#""metadata":{"#, r#""metadata":{"namespace":"shop","#)
}

fn parsed(items: &[String]) -> Workload {
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    read(list(&items)).unwrap()
}

fn nodes() -> [String; 3] {
    [in_zone("n0", "a"), in_zone("n1", "b"), in_zone("n2", "c")]
}

#[test]
fn objects_of_storage_are_read() {
    let [a, b, c] = nodes();
    let bound = claim("old", r#","storageClassName":"local","volumeName":"pv0""#);
    let objects = [a, b, c, LOCAL.into(), CLOUD.into(), DRIVER.into(), volume("pv0", "10Gi", "n2")];
    let more = [bound, claim("new", ""), claiming("p", &["old", "new"])];
    let workload = parsed(&[&objects[..], &more].concat());
    let volumes = &workload.volumes;
    let [local, cloud] = &volumes.classes[..] else { panic!("{volumes:?}") };
    assert!(local.binding == BindingTime::Late && local.provisions.is_none());
    let makes = cloud.provisions.as_ref().unwrap();
    let zone = "topology.kubernetes.io/zone";
    assert_eq!(makes.within, Reach::Matching(vec![MachineSelector::label(zone, "b")]));
    assert_eq!(makes.by, [Text::from(zone)]);
    let [volume] = &volumes.volumes[..] else { panic!("{volumes:?}") };
    let host = MachineSelector::label("kubernetes.io/hostname", "n2");
    assert_eq!((volume.bytes, &volume.reach), (10 << 30, &Reach::Matching(vec![host])));
    let [old, new] = &volumes.claims[..] else { panic!("{volumes:?}") };
    assert_eq!((&*old.name, old.volume.as_deref()), ("shop/old", Some("pv0")));
    assert_eq!((&*new.class, new.bytes, new.modes), ("cloud", 5 << 30, AccessModes::ONE_MACHINE));
    assert_eq!(volumes.limits, [("n1".into(), "disk.example.com".into(), 1)]);
    let group = &workload.arrivals[0].job.groups[0];
    assert_eq!(group.volumes, ["shop/old".into(), "shop/new".into()]);
    let note = "volume claims are considered only by a profile with base kube, or with a filter \
         of volumes: 1 pod";
    assert_eq!(workload.notes, [note]);
}

#[test]
fn labels_of_a_volume_say_where_it_is() {
    let zoned = r#"{"kind":"PersistentVolume","metadata":{"name":"pv","labels":
        {"topology.kubernetes.io/zone":"a__b"}},"spec":{"capacity":{"storage":"1Gi"},
        "claimRef":{"namespace":"shop","name":"c"},"csi":{"driver":"disk.example.com"}}}"#;
    let workload = parsed(&[in_zone("n0", "a"), in_zone("n2", "c"), zoned.into()]);
    let [volume] = &workload.volumes.volumes[..] else { panic!("{:?}", workload.volumes) };
    let reached = workload.machines.iter().map(|machine| volume.reach.includes(machine));
    assert_eq!(reached.collect::<Vec<_>>(), [true, false]);
    assert_eq!((volume.claim.as_deref(), &*volume.driver), (Some("shop/c"), "disk.example.com"));
}

/// A volume with these labels, this status, and these fields in its spec.
fn marked(labels: &str, status: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"PersistentVolume","metadata":{{"name":"pv","labels":{{{labels}}}}},
        "spec":{{"capacity":{{"storage":"9Gi"}},"accessModes":["ReadWriteOnce"],
        "storageClassName":"local"{spec}}},"status":{{{status}}}}}"#
    )
}

#[test]
fn zones_of_volumes_are_looked_for_as_kubernetes_does() {
    let old = in_zone("n0", "a").replace("topology.kub", "failure-domain.beta.kub");
    let nodes = [in_zone("n0", "a"), in_zone("n1", "b"), old.replace("n0", "n2"), node("n3")];
    let reached = |labels: &str, spec: &str| {
        let volume = marked(labels, "", spec);
        let workload = parsed(&[&nodes[..], &[volume]].concat());
        let reach = workload.volumes.volumes[0].reach.clone();
        workload.machines.iter().map(|machine| reach.includes(machine)).collect::<Vec<_>>()
    };
    let new = r#""topology.kubernetes.io/zone":"a""#;
    let old = r#""failure-domain.beta.kubernetes.io/zone":"a__c""#;
    // A label of a volume with an old key matches the new key of a node. A volume without such labels can be used
    // anywhere.
    assert_eq!(reached(new, ""), [true, false, false, true]);
    assert_eq!(reached(old, ""), [true, false, true, true]);
    assert_eq!(reached(&format!("{new},{old}"), ""), [true, false, false, true]);
    let host = r#","nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[
        {"key":"kubernetes.io/hostname","operator":"In","values":["n1","n2"]}]}]}}"#;
    assert_eq!(reached(old, host), [false, false, true, false]);
    assert_eq!(reached("", host), [false, true, true, false]);
    assert_eq!(reached("", ""), [true; 4]);
}

#[test]
fn of_default_classes_the_newest_counts() {
    let class = |name: &str, created: &str| {
        let created = format!(r#""creationTimestamp":"{created}","annotations""#);
        CLOUD.replace("cloud", name).replace(r#""annotations""#, &created)
    };
    let [old, new] = ["2020-01-01T00:00:00Z", "2024-01-01T00:00:00Z"];
    let default = |classes: [String; 2]| {
        let objects = [&[node("n0")], &classes[..], &[claim("c", "")]].concat();
        parsed(&objects).volumes.claims[0].class.clone()
    };
    assert_eq!(&*default([class("a", old), class("b", new)]), "b");
    assert_eq!(&*default([class("b", new), class("a", old)]), "b");
    assert_eq!(&*default([class("b", old), class("a", old)]), "a");
}

/// Number of pods that run if they have this claim, which is bound to this volume.
fn run_with(volume: &str, claim: &str) -> u64 {
    let objects = [node("n0"), LOCAL.into(), volume.into(), claim.into(), claiming("p", &["c"])];
    let options = RunOptions { profiles: profiles(), ..RunOptions::default() };
    run(parsed(&objects), &options, &mut |_| {}).unwrap().placements
}

#[test]
fn a_claim_has_only_what_suits_it() {
    let local = |more: &str| claim("c", &format!(r#","storageClassName":"local"{more}"#));
    let fast = r#","selector":{"matchLabels":{"tier":"fast"},
        "matchExpressions":[{"key":"old","operator":"DoesNotExist"}]}"#;
    let plain = marked("", "", "");
    assert_eq!(run_with(&plain, &local("")), 1);
    assert_eq!(run_with(&plain, &local(fast)), 0);
    assert_eq!(run_with(&marked(r#""tier":"fast""#, "", ""), &local(fast)), 1);
    assert_eq!(run_with(&marked(r#""tier":"fast","old":"""#, "", ""), &local(fast)), 0);
    let block = r#","volumeMode":"Block""#;
    assert_eq!(run_with(&plain, &local(block)), 0);
    assert_eq!(run_with(&marked("", "", block), &local("")), 0);
    assert_eq!(run_with(&marked("", "", block), &local(block)), 1);
    for phase in ["Failed", "Released"] {
        let volume = marked("", &format!(r#""phase":"{phase}""#), "");
        assert_eq!(run_with(&volume, &local("")), 0, "{phase}");
        assert_eq!(run_with(&volume, &local(r#","volumeName":"pv""#)), 1, "{phase}");
    }
    let going = r#""metadata":{"deletionTimestamp":"2024-01-01T00:00:00Z","#;
    let going = |object: &str| object.replacen(r#""metadata":{"#, going, 1);
    assert_eq!(run_with(&going(&plain), &local("")), 0);
    assert_eq!(run_with(&plain, &going(&local(""))), 0);
    assert_eq!(run_with(&plain, &going(&local(r#","volumeName":"pv""#))), 0);
}

#[test]
fn volumes_that_no_limit_counts_are_noted() {
    let disk = marked("", "", r#","gcePersistentDisk":{"pdName":"d"}"#);
    let inline = pod("p", r#""volumes":[{"name":"v","csi":{"driver":"d"}}]"#);
    assert_eq!(
        parsed(&[node("n0"), disk, inline]).notes,
        [
            "volumes of drivers that are built into Kubernetes are not counted against the limits \
             of nodes: 1",
            "inline CSI volumes are not counted against the limits of a node: 1 pod",
        ]
    );
}

#[test]
fn what_does_not_go_together_is_noted() {
    let two = ["x", "y"].map(|name| claim(name, r#","volumeName":"pv0""#));
    let workload = parsed(&[&[node("n0"), volume("pv0", "1Gi", "n0")], &two[..]].concat());
    assert_eq!(
        workload.notes[1],
        r#"volumes: the volume "pv0" belongs to another claim, "shop/x": choose another volume"#
    );
}

/// Profiles with the filters for volumes, for both schedulers.
fn profiles() -> Profiles {
    let names = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];
    let filters = names.map(|name| format!("[[profile.filter]]\nplugin = '{name}'\n")).concat();
    let of = |name| format!("[[profile]]\nname = '{name}'\nbase = '{name}'\n{filters}");
    Profiles::parse(&(of("service") + &of("batch")), &Registry::built_in()).unwrap()
}

#[test]
fn a_run_places_pods_where_their_volumes_are() {
    let [a, b, c] = nodes();
    let local = |name: &str| claim(name, r#","storageClassName":"local""#);
    let objects = [a, b, c, LOCAL.into(), CLOUD.into(), DRIVER.into(), volume("pv0", "10Gi", "n2")];
    // One pod gets the disk on n2. The cloud would create volumes for two pods, but n1 can attach only one volume. The
    // claim of one pod does not exist.
    let claims = [local("disk"), claim("one", ""), claim("two", "")];
    let pods = [("p", "disk"), ("q", "one"), ("r", "two"), ("s", "missing")];
    let pods = pods.map(|(pod, of)| claiming(pod, &[of]));
    let workload = parsed(&[&objects[..], &claims, &pods].concat());
    let placed = |profiles| {
        let options = RunOptions { profiles, service_schedulers: 2, ..RunOptions::default() };
        let report = run(workload.clone(), &options, &mut |_| {}).unwrap();
        (report.placements, report.pending)
    };
    assert_eq!(placed(Profiles::default()), (4, 0), "nobody looks at volumes");
    assert_eq!(placed(profiles()), (2, 2));
}

#[test]
fn a_node_asks_controllers_to_keep_their_pods_away() {
    let avoid = r#""annotations":{"scheduler.alpha.kubernetes.io/preferAvoidPods":
        "{\"preferAvoidPods\":[{\"podSignature\":{\"podController\":{\"kind\":\"ReplicaSet\",
        \"name\":\"web\",\"uid\":\"u-1\"}}},{\"podSignature\":{\"podController\":
        {\"uid\":\"gone\"}}}]}"},"labels":{"#
        .replace("\n        ", "");
    let asking = node("n0").replace(r#""labels":{"#, &avoid);
    let garbled = node("n1").replace(
        r#""labels":{"#,
        r#""annotations":{"scheduler.alpha.kubernetes.io/preferAvoidPods":"?"},"labels":{"#,
    );
    let owner = r#""ownerReferences":[{"kind":"ReplicaSet","name":"web","uid":"u-1",
        "controller":true}],"name""#;
    let owned = pod("p", "").replacen(r#""name""#, owner, 1);
    // A pod with another precedence becomes a separate job, although it has the same controller.
    let urgent = owned.replace(r#""name":"p""#, r#""name":"q""#);
    let urgent = urgent.replace(r#""spec":{"#, r#""spec":{"priority":5"#);
    let workload = parsed(&[asking, garbled, owned, urgent]);
    let said = |i: usize| workload.machines[i].labels.get("prefer-avoid").map(|said| &**said);
    assert_eq!((said(0), said(1)), (Some("job/default/web, job/default/web#2"), None));
    assert_eq!(workload.notes, ["the annotation preferAvoidPods cannot be read: 1 node"]);
}
