//! `docs/quickstart.md` and the files of `docs/cli.md`, to the letter.

use crate::process::{folder, omega};
use crate::served::ports;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The commands of all blocks of a page, and what it says that they print. A command goes on over the lines
/// of a here-document.
fn commands(page: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let (mut in_block, mut in_text) = (false, false);
    for line in page.lines() {
        match line {
            "```console" => in_block = true,
            "```" => in_block = false,
            _ if !in_block => {}
            _ if in_text => {
                all.last_mut().unwrap().0 += &format!("\n{line}");
                in_text = line != "END";
            }
            _ => match line.strip_prefix("$ ") {
                Some(command) => {
                    all.push((command.to_owned(), String::new()));
                    in_text = command.ends_with("<<'END'");
                }
                None => all.last_mut().unwrap().1 += &format!("{line}\n"),
            },
        }
    }
    all
}

/// A port so that all that `omega dev` needs is free, and is nobody else's: three for clients, three for peers a
/// hundred above, and three for pages another hundred above.
fn free_base() -> u16 {
    const SPAN: u16 = 203;
    loop {
        let all = ports(SPAN.into());
        if all[all.len() - 1] == all[0] + SPAN - 1 {
            return all[0];
        }
    }
}

/// Runs a script in a group of processes of its own, which ends with it.
fn run(dir: &Path, script: &str) -> Output {
    let omega = omega(dir).get_program().to_owned();
    let bin = Path::new(&omega).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let out = std::fs::File::create(dir.join("out")).unwrap();
    let err = std::fs::File::create(dir.join("err")).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(dir).env("PATH", path).process_group(0);
    let mut child = bash.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
    let status = child.wait().unwrap();
    let group = format!("-{}", child.id());
    // Whatever it has left behind; mostly there is nothing.
    let _ = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
    let [stdout, stderr] = ["out", "err"].map(|name| std::fs::read(dir.join(name)).unwrap());
    Output { status, stdout, stderr }
}

#[test]
fn the_quickstart_does_what_it_says() {
    let base = free_base();
    let dir = folder(&[]);
    let mut script = "set -e\n".to_owned();
    let page = include_str!("../../../docs/quickstart.md");
    let all = commands(page);
    assert!(all.len() > 15, "{all:?}");
    for (index, (command, _)) in all.iter().enumerate() {
        let mut command = command.replace("omega dev", &format!("omega dev --port {base}"));
        for replica in 0..3 {
            command =
                command.replace(&format!(":{}", 7600 + replica), &format!(":{}", base + replica));
            command = command
                .replace(&format!(":{}", 7800 + replica), &format!(":{}", base + 200 + replica));
        }
        script += &format!("echo '# {index}'\n{command}\n");
    }
    let output = run(dir.path(), &script);
    let said = String::from_utf8(output.stdout).unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}\n{why}");
    let parts: Vec<&str> = said.split("# ").skip(1).collect();
    for (index, (command, expected)) in all.iter().enumerate() {
        let printed = parts[index].split_once('\n').unwrap().1;
        assert!(expected.is_empty() || printed == expected, "{command}: {printed}");
    }
    assert!(said.contains("what would help") && said.contains("16 cpu short"), "{said}");
    assert!(said.contains("running") && said.contains("finished"), "{said}");
}

#[test]
fn the_files_of_the_page_are_taken() {
    let page = include_str!("../../../docs/cli.md");
    let blocks: Vec<&str> = page.split("```toml\n").skip(1).collect();
    let blocks: Vec<&str> = blocks.iter().map(|rest| rest.split("```").next().unwrap()).collect();
    let file = |start: &str| *blocks.iter().find(|block| block.starts_with(start)).unwrap();
    let files = [("machines.toml", file("[[machine]]")), ("job.toml", file("name = "))];
    let cell = crate::commands::Served::new(&files);
    assert_eq!(cell.ok("machine add -f machines.toml"), "20 machines are in the cell\n");
    assert_eq!(cell.ok("job submit -f job.toml"), "job web is submitted: 3 tasks\n");
}
