//! The scripts of the shells that complete names. Each test is skipped if its shell is not installed.

use super::{LONG_MS, TIME, bounded, filled};
use crate::kit::cell::Served;
use crate::kit::process::omega;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Whether a shell can be run. If not, this says so.
fn is_installed(shell: &str) -> bool {
    let is_found = Command::new(shell).arg("--version").output().is_ok();
    if !is_found {
        println!("skipped: {shell} is not installed");
    }
    is_found
}

/// The home folder of a shell. The program is at `~/bin/omega`.
fn home(cell: &Served) -> PathBuf {
    let bin = cell.path().join("bin");
    if std::fs::create_dir(&bin).is_ok() {
        let program = omega(cell.path()).get_program().to_owned();
        std::os::unix::fs::symlink(program, bin.join("omega")).unwrap();
    }
    cell.path().to_owned()
}

/// Completes lines in Bash, with the words as Bash splits them. The cursor is after the word that ends with `^`, or
/// else after the last one. Returns `None` if there is no Bash.
fn in_bash(
    cell: &Served,
    address: &str,
    program: &str,
    lines: &[&[&str]],
) -> Option<Vec<Vec<String>>> {
    if !is_installed("bash") {
        return None;
    }
    let script = cell.path().join("omega.bash");
    std::fs::write(&script, cell.ok("completions bash")).unwrap();
    let mut code = format!("source '{}'; PATH=~/bin:$PATH\n", script.display());
    for words in lines {
        let quote = |word: &&str| format!("'{}'", word.trim_end_matches('^'));
        let quoted: Vec<String> = words.iter().map(quote).collect();
        let at = words.iter().position(|word| word.ends_with('^')).unwrap_or(words.len() - 1);
        let (last, before) = (&quoted[at], &quoted[at.saturating_sub(1)]);
        let (count, all) = (at + 1, quoted.join(" "));
        write!(code, "COMP_WORDS=('{program}' {all}); COMP_CWORD={count}; ").unwrap();
        writeln!(code, "_omega '{program}' {last} {before}; echo \"${{COMPREPLY[*]}}\"").unwrap();
    }
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", &code]).current_dir(cell.path());
    bash.env("OMEGA_CELL", address).env("HOME", home(cell)).env(TIME, LONG_MS);
    let output = bounded(&mut bash);
    assert_eq!(output.stderr, "");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    Some(output.stdout.lines().map(words).collect())
}

#[test]
fn bash_completes_names_and_else_verbs_and_options() {
    let cell = filled();
    let (host, port) = cell.address.split_once(':').unwrap();
    let lines: &[&[&str]] = &[
        &["job", "get", ""],
        &["job", "get", "wo"],
        &["task", "logs", "web/"],
        &["task", "list", "--job", "=", "d"],
        &["job", "ge"],
        &["job", "get", "--tls-c"],
        &["job", "get", "-o", "j"],
    ];
    let Some(completed) = in_bash(&cell, &cell.address, "omega", lines) else { return };
    let expected: [&[&str]; 7] = [
        &["db", "web", "worker"],
        &["worker"],
        &["web/0", "web/1"],
        &["db"],
        &["get"],
        &["--tls-ca", "--tls-cert"],
        &["json"],
    ];
    assert_eq!(completed, expected);
    // No cell answers at the address of the environment, but the line has another one.
    let lines: &[&[&str]] = &[
        &["job", "get", "--cell", host, ":", port, "wo"],
        &["job", "get", "wo^", "--cell", host, ":", port],
        &["job", "get", "^", "-o", "json", "--cell", "=", host, ":", port],
        &["job", "get", ""],
    ];
    let completed = in_bash(&cell, "127.0.0.1:1", "~/bin/omega", lines).unwrap();
    assert_eq!(completed[0], ["worker"]);
    assert_eq!(completed[1], ["worker"]);
    assert_eq!(completed[2], ["db", "web", "worker"]);
    assert!(completed[3].iter().any(|word| word == "--cell"), "{:?}", completed[3]);
}

/// Types keys in an interactive zsh. `^X` writes the edited line to a file, and `^B` replaces a `@` by the cursor.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty z "cd ~; PS1=READY. zsh -fi"
zpty -r z seen '*READY.*'
zpty -w z "fpath+=(~); PATH=~/bin:\$PATH; unsetopt beep; autoload -Uz compinit; compinit -u -D"
zpty -r z seen '*READY.*'
zpty -w z 'say() { print -r -- "$BUFFER" >> lines; BUFFER=; }; zle -N say; bindkey "^X" say'
zpty -r z seen '*READY.*'
zpty -w z 'there() { CURSOR=${BUFFER[(i)@]}-1; BUFFER=${BUFFER/@/}; }; zle -N there; bindkey "^B" there'
zpty -r z seen '*READY.*'
for keys in "$@"; do
    zpty -wn z "$keys"$'\x18'
    (( typed += 1 ))
    until [[ -e ~/lines && $(wc -l < ~/lines) -eq typed ]]; do
        zpty -rt z seen
        sleep 0.05
    done
done
zpty -d z
"#;

/// Lines in zsh after these keys. Returns `None` if there is no zsh.
fn in_zsh(cell: &Served, keys: &[&str]) -> Option<String> {
    if !is_installed("zsh") {
        return None;
    }
    let home = home(cell);
    std::fs::write(home.join("_omega"), cell.ok("completions zsh")).unwrap();
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", ZSH, "zsh"]).args(keys).env("HOME", &home);
    zsh.env("TERM", "dumb").env_remove("OMEGA_CELL").env(TIME, LONG_MS).stdin(Stdio::null());
    let output = bounded(&mut zsh);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    Some(std::fs::read_to_string(home.join("lines")).unwrap())
}

#[test]
fn zsh_completes_names_with_the_cell_of_the_whole_line() {
    let cell = filled();
    let at = &cell.address;
    let keys: [&str; 8] = [
        &format!("OMEGA_CELL={at} omega job get wo\t"),
        &format!("OMEGA_CELL=127.0.0.1:1 omega; OMEGA_CELL={at} omega job get wo\t"),
        &format!("OMEGA_CELL={at} omega; OMEGA_CELL=127.0.0.1:1 omega job get wo\t"),
        &format!("omega job get --cell {at} wo\t"),
        &format!("~/bin/omega job get wo@ -o json --cell={at}\x02\t"),
        &format!("OMEGA_CELL={at} omega task logs d\t1"),
        &format!("OMEGA_CELL={at} omega task list --job=d\t"),
        "omega job ge\t",
    ];
    let Some(lines) = in_zsh(&cell, &keys) else { return };
    let lines: Vec<String> = lines.lines().map(|line| line.replace(at, "CELL")).collect();
    let expected = [
        "OMEGA_CELL=CELL omega job get worker ",
        "OMEGA_CELL=127.0.0.1:1 omega; OMEGA_CELL=CELL omega job get worker ",
        "OMEGA_CELL=CELL omega; OMEGA_CELL=127.0.0.1:1 omega job get wo",
        "omega job get --cell CELL worker ",
        "~/bin/omega job get worker  -o json --cell=CELL",
        "OMEGA_CELL=CELL omega task logs db/1",
        "OMEGA_CELL=CELL omega task list --job=db ",
        "omega job get ",
    ];
    assert_eq!(lines, expected);
}

/// Completions in fish of lines with the cursor at their ends. Returns `None` if there is no fish.
fn in_fish(cell: &Served, lines: &[&str]) -> Option<Vec<Vec<String>>> {
    if !is_installed("fish") {
        return None;
    }
    let home = home(cell);
    std::fs::write(home.join("omega.fish"), cell.ok("completions fish")).unwrap();
    let code = "source ~/omega.fish; set -p PATH ~/bin; for line in $argv; complete -C $line; echo END; end";
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", code]).args(lines).env("HOME", &home);
    let output = bounded(fish.env_remove("OMEGA_CELL").env(TIME, LONG_MS).stdin(Stdio::null()));
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let of_line = |text: &str| text.lines().map(str::to_owned).collect();
    Some(output.stdout.split_terminator("END\n").map(of_line).collect())
}

#[test]
fn fish_completes_names_with_the_cell_of_the_line() {
    let cell = filled();
    let at = &cell.address;
    let lines: [&str; 6] = [
        &format!("OMEGA_CELL={at} omega job get w"),
        &format!("OMEGA_CELL={at} omega; OMEGA_CELL=127.0.0.1:1 omega job get wo"),
        &format!("omega job get --cell {at} wo"),
        &format!("OMEGA_CELL={at} ~/bin/omega job get wo"),
        &format!("OMEGA_CELL={at} omega task logs d"),
        &format!("OMEGA_CELL={at} omega task list --job=d"),
    ];
    let Some(completed) = in_fish(&cell, &lines) else { return };
    let expected: [&[&str]; 6] = [
        &["web", "worker"],
        &[],
        &["worker"],
        &["worker"],
        &["db/0", "db/1", "db/2"],
        &["--job=db"],
    ];
    assert_eq!(completed, expected);
}
