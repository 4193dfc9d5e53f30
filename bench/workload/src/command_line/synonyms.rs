//! Words of other systems for which Omega has other commands and options.

use clap::Command;

/// Nouns of other systems, with those of `omega`.
const NOUNS: [(&str, &str); 12] = [
    ("alloc", "task"),
    ("allocation", "task"),
    ("config", "context"),
    ("deployment", "job"),
    ("namespace", "quota"),
    ("node", "machine"),
    ("ns", "quota"),
    ("operator", "member"),
    ("pod", "task"),
    ("replica", "member"),
    ("server", "member"),
    ("tenant", "quota"),
];

/// Verbs that a noun may lack, with the verbs that are meant. The first of these that the noun has is suggested.
const VERBS: [(&str, &[&str]); 23] = [
    ("cancel", &["kill"]),
    ("create", &["submit", "add", "set"]),
    ("current", &["list"]),
    ("current-context", &["list"]),
    ("delete", &["remove", "clear"]),
    ("describe", &["get", "list"]),
    ("destroy", &["delete", "remove", "clear"]),
    ("get", &["list"]),
    ("get-contexts", &["list"]),
    ("inspect", &["get", "list"]),
    ("ls", &["list"]),
    ("members", &["list"]),
    ("remove", &["delete", "clear"]),
    ("revert", &["rollback"]),
    ("rm", &["delete", "remove", "clear"]),
    ("run", &["apply"]),
    ("set-context", &["set"]),
    ("show", &["get", "list"]),
    ("start", &["apply"]),
    ("status", &["get", "list"]),
    ("undo", &["rollback"]),
    ("update", &["apply", "set"]),
    ("use-context", &["use"]),
];

/// Remedy for `exec`.
const NO_EXEC: &str = "there is no exec: use omega task logs, or SSH";

/// Remedy for a restart.
const NO_RESTART: &str =
    "to restart the tasks of a service, change its group, such as its env, and use omega job apply";

/// Remedy for a pause.
const NO_PAUSE: &str = "a job cannot be paused: use omega job kill, and later omega job apply";

/// Remedy for commands about updates.
const UPDATES: &str = "use omega job versions, omega job rollback or omega job watch";

/// Remedy for a program that is submitted alone.
const SUBMIT: &str = "use omega job submit NAME -- PROGRAM";

/// Remedy for limits of run times.
const NO_TIME_LIMIT: &str = "tasks have no time limit: --run-time is an estimate";

/// Remedy for the deletion of a tenant.
const NO_DELETE: &str = "a tenant cannot be deleted: omega quota clear removes its limit";

/// Remedy for taints.
const TAINTS: &str = "use --taint of omega machine add, or taints in its file";

/// Words and options after a command, with the remedy.
const REMEDIES: [(&str, &[&str], &str); 39] = [
    ("omega", &["event", "events"], "use omega job history or omega machine get"),
    ("omega", &["exec"], NO_EXEC),
    ("omega", &["logs"], "use omega task logs"),
    ("omega", &["restart"], NO_RESTART),
    ("omega", &["rollout"], UPDATES),
    ("omega", &["sacct"], "use omega accounting"),
    ("omega", &["sbatch", "srun"], SUBMIT),
    ("omega", &["scancel"], "use omega job kill"),
    ("omega", &["sinfo"], "use omega machine list"),
    ("omega", &["squeue"], "use omega job list"),
    ("omega", &["version"], "use omega --version"),
    ("omega job", &["edit"], "use omega job get -o toml and omega job apply"),
    ("omega job", &["event", "events"], "use omega job history"),
    ("omega job", &["exec"], NO_EXEC),
    ("omega job", &["hold", "pause", "suspend"], NO_PAUSE),
    ("omega job", &["log", "logs"], "use omega task logs"),
    ("omega job", &["plan"], "use omega job apply --dry-run"),
    ("omega job", &["restart"], NO_RESTART),
    ("omega job", &["rollout"], UPDATES),
    ("omega job get", &["--watch", "-w"], "use omega job watch"),
    ("omega job list", &["--watch", "-w"], "use omega top, or omega job watch for one job"),
    ("omega job submit", &["--array"], "use --count: OMEGA_TASK_INDEX is the number of a task"),
    ("omega job submit", &["--constraint", "--partition", "-p"], "use --require"),
    ("omega job submit", &["--cpus-per-task", "-c"], "use --cpu"),
    ("omega job submit", &["--export", "-e"], "use --env"),
    ("omega job submit", &["--gpus", "--gres"], "use --gpu"),
    ("omega job submit", &["--nodes", "--ntasks", "-N"], "use --count"),
    ("omega job submit", &["--time", "--time-limit", "--timelimit"], NO_TIME_LIMIT),
    ("omega job submit", &["-n"], "use --count, or --tenant for a namespace"),
    ("omega machine", &["event", "events", "history"], "use omega machine get"),
    ("omega machine", &["label"], "use --label of omega agent or omega machine add"),
    ("omega machine", &["taint", "untaint"], TAINTS),
    ("omega machine drain", &["--ignore-daemonsets"], "tasks of per_machine groups stay"),
    ("omega quota", &["delete", "remove", "rm"], NO_DELETE),
    ("omega task", &["delete", "kill", "rm", "stop"], "use omega job kill or omega job resize"),
    ("omega task", &["exec"], NO_EXEC),
    ("omega task", &["get"], "use omega task list --job NAME or omega task get NAME/0"),
    ("omega task", &["restart"], NO_RESTART),
    ("omega task logs", &["--previous", "-p"], "a restarted program continues its log"),
];

/// Options of other systems, with the option that a command has if the remedy applies, and the remedy. Without such an
/// option, the remedy applies to all commands.
const OPTIONS: [(&[&str], Option<&str>, &str); 6] = [
    (&["--json"], Some("output"), "use -o json"),
    (&["--yaml"], Some("output"), "use -o yaml"),
    (&["-n"], Some("tail"), "use --tail"),
    (&["--namespace", "-n"], Some("tenant"), "use --tenant"),
    (&["--instances", "--replicas"], Some("count"), "use --count"),
    (&["--assume-yes", "--yes", "-y"], None, "no command asks for confirmation"),
];

/// The remedy for a word or an option after the command with this path.
pub(super) fn remedy(path: &str, word: &str) -> Option<&'static str> {
    let found = REMEDIES.iter().find(|(at, words, _)| *at == path && words.contains(&word));
    found.map(|(_, _, remedy)| *remedy)
}

/// The remedy for an option that a command lacks.
pub(super) fn option(command: &Command, word: &str) -> Option<&'static str> {
    let applies = |has: Option<&str>| has.is_none_or(|long| has_option(command, long));
    let found = OPTIONS.iter().find(|(words, has, _)| words.contains(&word) && applies(*has));
    found.map(|(_, _, remedy)| *remedy)
}

/// Whether a command has an option with this long name.
pub(super) fn has_option(command: &Command, long: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some(long))
}

/// The noun that a word means, in singular or plural.
pub(super) fn noun<'a>(root: &'a Command, word: &str) -> Option<&'a Command> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    let named = NOUNS.iter().find(|(other, _)| *other == word || *other == singular);
    let named = named.map_or(singular, |(_, noun)| *noun);
    root.find_subcommand(named).filter(|noun| !noun.is_hide_set())
}

/// Verbs that a word may mean, first the word itself.
pub(super) fn verbs(word: &str) -> Vec<&str> {
    let mut verbs = vec![word];
    if let Some((_, others)) = VERBS.iter().find(|(other, _)| *other == word) {
        verbs.extend(others.iter().copied());
    }
    verbs
}

/// The verb of a noun that a word means.
pub(super) fn verb_of<'a>(noun: &Command, word: &'a str) -> Option<&'a str> {
    verbs(word).into_iter().find(|verb| noun.find_subcommand(verb).is_some())
}
