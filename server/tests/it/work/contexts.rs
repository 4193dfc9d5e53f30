//! Contexts, which are named cells in a file of the user; the output of commands without a subcommand, such as
//! `omega job`; and lists that are filtered.

use crate::kit::cell::Served;
use crate::kit::process::{CommandOutput, folder, omega};
use std::path::Path;

/// Runs a command line with a file of contexts, without OMEGA_CELL.
fn run_omega(dir: &Path, line: &str) -> CommandOutput {
    let mut command = omega(dir);
    command
        .args(line.split_whitespace())
        .env("OMEGA_CONFIG", dir.join("config").join("omega.toml"));
    command.env_remove("OMEGA_CELL").output().expect("omega starts").into()
}

fn ok(dir: &Path, line: &str) -> String {
    let output = run_omega(dir, line);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{line}");
    output.stdout
}

fn fails(dir: &Path, line: &str) -> String {
    let output = run_omega(dir, line);
    assert_eq!(output.code, Some(2), "{line}: {}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{line}: {}", output.stderr);
    output.stderr
}

#[test]
fn a_context_names_a_cell_for_every_command() {
    let cell = Served::new(&[]);
    let dir = cell.path();
    assert_eq!(ok(dir, "context list"), "CURRENT  NAME  CELL  TLS\n");
    ok(dir, &format!("context set here --cell {}", cell.address));
    ok(dir, "context set gone --cell 127.0.0.1:1");
    ok(dir, "machine add m-1 --cpu 4");
    assert_eq!(ok(dir, "machine list -o name"), "m-1\n");
    ok(dir, "context use gone");
    assert!(run_omega(dir, "machine list --timeout 1s").stderr.contains("127.0.0.1:1"));
    assert_eq!(ok(dir, "machine list -o name --context here"), "m-1\n");
    assert_eq!(ok(dir, &format!("machine list -o name --cell {}", cell.address)), "m-1\n");
    let listed = ok(dir, "context list");
    assert!(listed.contains("\n*        gone  127.0.0.1:1"), "{listed}");
    let mut overridden = omega(dir);
    overridden.args(["context", "list"]).env("OMEGA_CELL", &cell.address);
    overridden.env("OMEGA_CONFIG", dir.join("config").join("omega.toml"));
    let overridden: CommandOutput = overridden.output().expect("omega starts").into();
    let line = "OMEGA_CELL is set, and takes precedence over the current context\n";
    assert_eq!(overridden.stdout, format!("{listed}{line}"));
    let removed = ok(dir, "context remove gone");
    assert!(removed.contains("none is the current one now"), "{removed}");
    ok(dir, "context use here");
    let json: serde_json::Value = serde_json::from_str(&ok(dir, "context list -o json")).unwrap();
    assert_eq!(json[0]["name"], "here");
    assert_eq!(json[0]["current"], true);
    assert_eq!(json[0]["cell"][0], cell.address.as_str());
}

#[test]
fn the_file_of_contexts_is_not_the_settings_of_a_server() {
    let dir = folder(&[]);
    ok(dir.path(), "context set here --cell 127.0.0.1:7600");
    let checked = ok(dir.path(), "serve --memory --check-config");
    assert!(checked.starts_with("clients   127.0.0.1:7600\n"), "{checked}");
}

#[test]
fn a_context_at_fault_is_named_with_its_file() {
    let cell = Served::new(&[]);
    let dir = cell.path();
    assert!(fails(dir, "context use no").contains("omega.toml: there is no context \"no\""));
    assert!(fails(dir, "machine list --context no").contains("there is no context \"no\""));
    assert!(fails(dir, "context set a --cell nowhere").contains("must be an address"));
    let missing = "context set a --cell h:1 --tls-ca a.pem --tls-cert b.pem --tls-key c.key";
    assert!(fails(dir, missing).contains("context \"a\": tls-ca: "));
    assert!(fails(dir, "context set a --cell h:1 --tls-ca a.pem").contains("--tls-cert"));
    assert!(fails(dir, "machine list --context a --cell h:1").contains("cannot be given together"));
    std::fs::create_dir_all(dir.join("config")).unwrap();
    std::fs::write(
        dir.join("config").join("omega.toml"),
        "current = \"a\"\n[contexts.a]\ncel = []\n",
    )
    .unwrap();
    assert!(fails(dir, "machine list").contains("omega.toml:3:1"));
}

#[test]
fn a_noun_without_its_verb_lists_its_verbs_and_a_fault_names_its_help() {
    let cell = Served::new(&[]);
    let output = run_omega(cell.path(), "job");
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    for verb in ["list", "submit", "explain"] {
        assert!(output.stderr.contains(&format!("\n  {verb} ")), "{}", output.stderr);
    }
    let fault = fails(cell.path(), "job submit --nothing");
    assert!(fault.ends_with("; see omega job submit --help\n"), "{fault}");
}

#[test]
fn lists_are_sorted_filtered_and_as_wide_as_asked() {
    let cell = Served::new(&[]);
    for machine in ["m-10", "m-2", "m-1"] {
        cell.ok(&format!("machine add {machine} --cpu 4 --label rack={machine}"));
    }
    assert_eq!(cell.ok("machine list -o name"), "m-1\nm-2\nm-10\n");
    cell.ok("machine drain m-2");
    assert_eq!(cell.ok("machine list -o name --state draining"), "m-2\n");
    assert_eq!(cell.ok("machine list -o name --state up -l rack=m-10"), "m-10\n");
    let wide = cell.ok("machine list -o wide");
    assert!(wide.lines().next().unwrap().ends_with("LABELS     TAINTS  ID"), "{wide}");
    for job in ["b", "a"] {
        cell.ok(&format!("job submit {job} --count 2"));
    }
    assert_eq!(cell.ok("job list -o name"), "a\nb\n");
    assert_eq!(cell.ok("task list --job a -o name").lines().count(), 2);
    assert!(cell.ok("job list -o wide").contains("PRECEDENCE"));
    cell.ok("job scale a 3");
    assert!(cell.ok("job status a").contains("3 pending"));
    cell.ok("job stop b");
    assert_eq!(cell.ok("job list -o name"), "a\n");
}

#[test]
fn a_page_of_the_manual_is_written_for_each_command() {
    let cell = Served::new(&[]);
    let man = cell.path().join("man1");
    cell.ok(&format!("man --dir {}", man.display()));
    let page = std::fs::read_to_string(man.join("omega-job-submit.1")).unwrap();
    assert!(page.contains(".TH OMEGA-JOB-SUBMIT 1"), "{page}");
    assert!(page.contains("anti\\-affinity"), "{page}");
    assert!(man.join("omega.1").exists() && !man.join("omega-help.1").exists());
}

#[test]
fn completions_and_the_manual_know_the_verbs() {
    let dir = folder(&[]);
    for shell in ["bash", "zsh", "fish"] {
        let output = run_omega(dir.path(), &format!("completions {shell}"));
        assert!(output.code == Some(0) && output.stdout.contains("transfer"), "{shell}");
    }
    let output = run_omega(dir.path(), "man");
    assert!(
        output.code == Some(0) && output.stdout.contains("anti\\-affinity"),
        "{}",
        output.stderr
    );
}

const WORKERS: &str = r#"
name = "workers"

[[group]]
name = "worker"
count = 2
request = { cpu = 1 }
"#;

#[test]
fn lists_are_filtered_by_label_and_state() {
    let cell = Served::new(&[("workers.toml", WORKERS)]);
    cell.ok("job submit web --count 2 --label app=web --label tier=front");
    cell.ok("job submit db --label app=db");
    cell.ok("job submit -f workers.toml");
    let listed = |options: &str| -> Vec<String> {
        let response = cell.json(&format!("job list {options}"));
        let items = response["items"].as_array().unwrap().iter();
        items.map(|job| job["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed("-l app=web"), ["web"]);
    assert_eq!(listed("-l app=web --label tier=front"), ["web"]);
    assert_eq!(listed("-l app=web -l tier=back"), [""; 0]);
    assert_eq!(listed("--state pending"), ["db", "web", "workers"]);
    assert_eq!(listed("--state running"), [""; 0]);
    cell.ok("job kill db");
    assert_eq!(listed("--state killed"), ["db"]);
    let limited = |options: &str| {
        let response = cell.json(&format!("job list {options} --limit 1"));
        (response["items"][0]["name"].clone(), response["more"].clone())
    };
    assert_eq!(limited("--state killed"), ("db".into(), false.into()));
    assert_eq!(limited("-l app=web"), ("web".into(), false.into()));
    assert_eq!(limited("--state pending").1, true);
    let tasks = |state: &str| {
        let response = cell.json(&format!("task list --job web --state {state}"));
        response["items"].as_array().unwrap().len()
    };
    assert_eq!((tasks("pending"), tasks("running")), (2, 0));
}

#[test]
fn a_job_with_one_group_is_resized_without_its_name() {
    let cell = Served::new(&[("workers.toml", WORKERS)]);
    cell.ok("job submit -f workers.toml");
    assert_eq!(cell.ok("job scale workers 5"), "job workers is resized from 2 to 5 tasks\n");
    assert_eq!(cell.json("job get workers")["groups"][0]["count"], 5);
    assert!(cell.fails(1, "job resize workers 6 --group main").contains("[UNKNOWN_GROUP]"));
}
