//! `docs/quickstart.md`, the beginning of `docs/run-programs.md`, the files of `docs/cli.md` and the job of `docs/spread.md` are run exactly as written.

use crate::kit::cell::{ports, start};
use crate::kit::process::{folder, omega};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The commands of all blocks of a page, with their documented output. A command with a here-document has several
/// lines.
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

/// A base port for which all ports of `omega dev` are free: three for clients, three for peers a hundred above, and
/// three for pages another hundred above.
pub(crate) fn free_base() -> u16 {
    free_range(203)
}

/// The first of this number of free ports in a row.
fn free_range(count: u16) -> u16 {
    loop {
        let all = ports(count.into());
        if all[all.len() - 1] == all[0] + count - 1 {
            return all[0];
        }
    }
}

/// Runs a script in a separate process group, which ends with the script.
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
    // Processes that the script has left are killed; mostly there are none.
    let _ = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
    let [stdout, stderr] = ["out", "err"].map(|name| std::fs::read(dir.join(name)).unwrap());
    Output { status, stdout, stderr }
}

/// Runs a script, which prints `# ` and the number of each command before it. Returns the output, in which the documented
/// outputs occur.
fn check(dir: &Path, script: &str, commands: &[(String, String)]) -> String {
    let output = run(dir, script);
    let result = String::from_utf8(output.stdout).unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {result}\n{why}", output.status);
    let parts: Vec<&str> = result.split("# ").skip(1).collect();
    for (index, (command, expected)) in commands.iter().enumerate() {
        let printed = parts[index].split_once('\n').unwrap().1;
        assert!(expected.is_empty() || printed == expected, "{command}: {printed}");
    }
    result
}

/// The service, its update and rollback, and the array of the page.
#[test]
fn programs_run_as_the_page_says() {
    if crate::work::updates::python().is_none() {
        return;
    }
    let page = include_str!("../../../../docs/run-programs.md");
    let (section, _) = page.split_once("## The program of a group").expect("the page has it");
    let all = commands(section);
    assert!(all.len() > 12, "{all:?}");
    let cell = format!("127.0.0.1:{}", ports(1)[0]);
    let mut script = format!("set -e\nexport OMEGA_CELL={cell}\n");
    for (index, (command, _)) in all.iter().enumerate() {
        let mut command = command.replace("omega serve", &format!("omega serve --listen {cell}"));
        for documented in ["20000-20999", "21000-21999"] {
            if command.contains(documented) {
                let first = free_range(10);
                command = command.replace(documented, &format!("{first}-{}", first + 9));
            }
        }
        // The output of a server may come at any time.
        if let Some(server) = command.strip_suffix(" &") {
            command = format!("{server} > server{index}.txt 2>&1 &");
        }
        // The replica may remove a file meanwhile.
        if command.starts_with("cp -r") {
            command = format!("until {command} 2> /dev/null; do rm -r copy; done");
        }
        script += &format!("echo '# {index}'\n{command}\n");
    }
    script +=
        "while grep -qsa \"OMEGA_TASK_FOLDER=$PWD\" /proc/[0-9]*/environ; do sleep 0.1; done\n";
    let dir = folder(&[]);
    let output = check(dir.path(), &script, &all);
    assert!(output.contains("http="), "{output}");
    assert!(output.contains("current  main: run"), "{output}");
    assert!(output.contains("job web goes back to version 0, as version 2"), "{output}");
    assert!(output.lines().any(|line| line.contains("  array ")), "{output}");
}

#[test]
fn the_quickstart_does_what_it_says() {
    let base = free_base();
    let dir = folder(&[]);
    let mut script = "set -e\n".to_owned();
    let page = include_str!("../../../../docs/quickstart.md");
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
    let output = check(dir.path(), &script, &all);
    assert!(output.contains("what would help") && output.contains("16 cpu short"), "{output}");
    assert!(output.contains("running") && output.contains("finished"), "{output}");
}

#[test]
fn the_files_of_the_page_are_taken() {
    let page = include_str!("../../../../docs/cli.md");
    let blocks = blocks(page, "toml");
    let file = |start: &str| *blocks.iter().find(|block| block.starts_with(start)).unwrap();
    let files = [("machines.toml", file("[[machine]]")), ("job.toml", file("name = "))];
    let cell = crate::kit::cell::Served::new(&files);
    assert_eq!(cell.ok("machine add -f machines.toml"), "20 machines are added or unchanged\n");
    assert_eq!(cell.ok("job submit -f job.toml"), "job web is submitted: 3 tasks\n");
}

/// The blocks of a page in this language, without the fences.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let mut all = Vec::new();
    let fence = format!("```{language}\n");
    for rest in page.split(&*fence).skip(1) {
        all.push(rest.split("```").next().unwrap());
    }
    all
}

/// The job with a rule of each kind is placed as on its page, and the explanation of the pending task equals that of
/// the page.
#[test]
fn tasks_are_spread_as_the_page_says() {
    let page = include_str!("../../../../docs/spread.md");
    let machines: String = ["a1", "a2", "b1", "b2"].iter().fold(String::new(), |all, rack| {
        let labels = format!("labels = {{ rack = \"{rack}\", zone = \"{}\" }}", &rack[..1]);
        let capacity = "capacity = { cpu = 8, memory = \"32GiB\" }";
        all + &format!("[[machine]]\nname = \"{rack}-{{n}}\"\ncount = 2\n{capacity}\n{labels}\n")
    });
    // A block's output, without the command before it.
    let printed = blocks(page, "text").into_iter().map(|block| {
        if block.starts_with("$ ") { block.split_once('\n').unwrap().1 } else { block }
    });
    let printed: Vec<&str> = printed.collect();
    let files = [
        ("machines.toml", &*machines),
        ("shop.toml", blocks(page, "toml")[0]),
        ("away.toml", "releases = [\"shop/1\"]\n"),
    ];
    let cell = crate::kit::cell::Served::new(&files);
    let _scheduler = start(cell.path(), &["scheduler", "--cell", &cell.address]);
    assert_eq!(cell.ok("machine add -f machines.toml"), "8 machines are added or unchanged\n");
    assert_eq!(cell.ok("job submit -f shop.toml"), "job shop is submitted: 12 tasks\n");
    while cell.ok("task list --job shop").matches("placed").count() < 11 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(cell.ok("task list --job shop"), printed[0]);
    assert_eq!(cell.ok("job explain shop"), printed[1]);
    let refused = cell.run_omega("txn commit -f away.toml");
    assert_eq!((refused.code, &*refused.stdout), (Some(1), printed[2]));
}
