//! Help of every verb: it names an example, no verb is missing, and no line is wider than a screen.

use crate::kit::cell::run_omega_at;
use crate::kit::process::folder;

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
    "job restart",
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
        let output = run_omega_at(dir.path(), "127.0.0.1:1", &format!("{verb} --help"));
        assert_eq!(output.code, Some(0), "{verb}");
        let example = output.stdout.split_once("Example").map(|(_, after)| after.to_owned());
        let example = example.unwrap_or_else(|| panic!("{verb} has no example: {}", output.stdout));
        assert!(example.contains(&format!("\n  omega {verb}")), "{verb}: {example}");
    }
    // The list has the verbs of every noun.
    for noun in
        ["machine", "job", "task", "quota", "policy", "member", "lease", "txn", "audit", "context"]
    {
        let output = run_omega_at(dir.path(), "127.0.0.1:1", &format!("{noun} --help"));
        let listed = output.stdout.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in listed.take_while(|line| line.starts_with("  ")) {
            let verb = line.split_whitespace().next().unwrap();
            let known = verb == "help" || VERBS.contains(&format!("{noun} {verb}").as_str());
            assert!(known || line.starts_with("   "), "{noun} {verb}");
        }
    }
}

/// Maximum width of help texts without a terminal.
const WIDTH_MAX: usize = 100;

/// If a command has at least this many options, its help groups them under headings.
const GROUPED_FROM: usize = 20;

#[test]
fn help_fits_a_screen_and_groups_many_options() {
    let dir = folder(&[]);
    let others = ["", "run", "explain", "rebalance", "serve", "scheduler", "agent", "dev", "demo"];
    for verb in VERBS.iter().chain(&others) {
        let text = run_omega_at(dir.path(), "127.0.0.1:1", &format!("{verb} --help")).stdout;
        // clap does not wrap the line of usage.
        let lines = text.lines().filter(|line| !line.starts_with("Usage:"));
        let wide = lines.clone().find(|line| line.chars().count() > WIDTH_MAX);
        assert_eq!(wide, None, "{verb}");
        // Copied examples must be complete commands, so they are never wrapped.
        let examples = text.split_once("Example").map_or("", |(_, examples)| examples);
        let wide = examples.lines().find(|line| line.starts_with("  ") && line.len() > 86);
        assert_eq!(wide, None, "{verb}");
        let options = lines.clone().filter(|line| line.trim_start().starts_with("--")).count();
        let headings = lines.filter(|line| !line.starts_with(' ') && line.ends_with(':'));
        assert!(options < GROUPED_FROM || headings.count() > 3, "{verb} has {options} options");
    }
}

#[test]
fn options_of_a_command_are_not_among_those_of_its_connection() {
    let dir = folder(&[]);
    for (verb, option) in [
        ("machine drain", "--deadline"),
        ("machine add", "--label"),
        ("job submit", "--wait"),
        ("agent", "--pids"),
    ] {
        let text = run_omega_at(dir.path(), "127.0.0.1:1", &format!("{verb} --help")).stdout;
        let (own, _) = text.split_once("\nCell and ").unwrap();
        assert!(own.contains(&format!("  {option}")), "{verb}: {text}");
    }
}

#[test]
fn only_one_job_is_printed_as_toml() {
    let dir = folder(&[]);
    for verb in VERBS {
        let text = run_omega_at(dir.path(), "127.0.0.1:1", &format!("{verb} --help")).stdout;
        assert_eq!(text.contains("- toml:"), *verb == "job get", "{verb}");
        let has_wide = ["machine list", "job list", "task list"].contains(verb);
        assert_eq!(text.contains("- wide:"), has_wide, "{verb}");
    }
    let output = run_omega_at(dir.path(), "127.0.0.1:1", "machine list -o toml");
    assert!(
        output.code == Some(2) && output.stderr.contains("invalid value 'toml'"),
        "{}",
        output.stderr
    );
    // Every list accepts `wide`, even if its table has no further columns.
    let output = run_omega_at(dir.path(), "127.0.0.1:1", "member list -o wide --timeout 100ms");
    assert!(output.code == Some(1) && output.stderr.contains("UNREACHABLE"), "{}", output.stderr);
}
