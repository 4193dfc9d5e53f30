//! Help of every verb: it names an example, and no verb is missing.

use crate::commands::say_at;
use crate::process::folder;

/// All verbs. The test below finds verbs that are missing here.
const VERBS: &[&str] = &[
    "machine list",
    "machine get",
    "machine add",
    "machine drain",
    "machine resume",
    "machine remove",
    "job list",
    "job get",
    "job submit",
    "job resize",
    "job kill",
    "job delete",
    "job apply",
    "job versions",
    "job rollback",
    "job watch",
    "job history",
    "job explain",
    "task list",
    "task get",
    "task logs",
    "task resize",
    "quota list",
    "quota set",
    "quota guarantee",
    "quota admit",
    "quota clear",
    "policy get",
    "cluster-resource list",
    "cluster-resource set",
    "reservation list",
    "reservation create",
    "reservation delete",
    "peak list",
    "peak set",
    "peak remove",
    "peak run",
    "policy set",
    "member list",
    "member add",
    "member update",
    "member promote",
    "member remove",
    "member transfer",
    "lease list",
    "lease revoke",
    "txn list",
    "txn get",
    "txn commit",
    "cell",
    "context list",
    "context set",
    "context use",
    "context remove",
    "backup",
    "restore",
    "audit verify",
    "accounting",
    "completions",
    "man",
];

#[test]
fn the_help_of_each_verb_has_an_example() {
    let dir = folder(&[]);
    for verb in VERBS {
        let said = say_at(dir.path(), "127.0.0.1:1", &format!("{verb} --help"));
        assert_eq!(said.code, Some(0), "{verb}");
        let example = said.stdout.split_once("Example").map(|(_, after)| after.to_owned());
        let example = example.unwrap_or_else(|| panic!("{verb} has no example: {}", said.stdout));
        assert!(example.contains(&format!("\n  omega {verb}")), "{verb}: {example}");
    }
    // The list has the verbs of every noun.
    for noun in
        ["machine", "job", "task", "quota", "policy", "member", "lease", "txn", "audit", "context"]
    {
        let said = say_at(dir.path(), "127.0.0.1:1", &format!("{noun} --help"));
        let listed = said.stdout.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in listed.take_while(|line| line.starts_with("  ")) {
            let verb = line.split_whitespace().next().unwrap();
            let known = verb == "help" || VERBS.contains(&format!("{noun} {verb}").as_str());
            assert!(known || line.starts_with("   "), "{noun} {verb}");
        }
    }
}
