//! Backups of served cells, and cells restored from them: real processes, some of which are killed.

use crate::kit::cell::{Process, Served, ports, serve, start};
use crate::kit::process::{CommandOutput, folder, listing, omega, run_omega};
use crate::kit::programs::is_anything_left;
use crate::kit::wait::until;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A cell of one replica in the folder `cell`, and its address.
struct BackupCell {
    address: String,
    server: Option<Process>,
    /// Dropped last, after the processes that use the folder.
    dir: TempDir,
}

impl BackupCell {
    fn new() -> BackupCell {
        let machines = "[[machine]]\nname = \"m-{n}\"\ncount = 4\n\
                        capacity = { cpu = 64, memory = \"64GiB\" }\n";
        let kept = BackupCell::with(&[("machines.toml", machines)]);
        kept.ok("machine add -f machines.toml");
        kept
    }

    /// A cell without machines, and files beside it.
    fn with(files: &[(&str, &str)]) -> BackupCell {
        let address = format!("127.0.0.1:{}", ports(1)[0]);
        let mut kept = BackupCell { dir: folder(files), address, server: None };
        kept.serve("cell");
        kept
    }

    fn serve(&mut self, folder: &str) {
        self.server = None;
        let arguments = [format!("--dir={folder}"), format!("--listen={}", self.address)];
        self.server = Some(serve(self.dir.path(), &arguments));
    }

    fn run_omega(&self, line: &str) -> CommandOutput {
        let mut command = omega(self.dir.path());
        command.args(line.split_whitespace()).env("OMEGA_CELL", &self.address);
        command.output().unwrap().into()
    }

    fn ok(&self, line: &str) -> String {
        let output = self.run_omega(line);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{line}");
        output.stdout
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json"))).unwrap()
    }

    /// All data of the cell that users can read.
    fn all(&self) -> Vec<Value> {
        let mut jobs = self.json("job list --all")["items"].clone();
        for job in jobs.as_array_mut().unwrap() {
            // A replica measures the age of a job only from the time at which it got the job, so ages are not compared.
            job.as_object_mut().unwrap().remove("age_ms").unwrap();
        }
        let mut all = vec![self.json("machine list")["items"].clone(), jobs.clone()];
        for job in jobs.as_array().unwrap() {
            let name = job["name"].as_str().unwrap();
            all.push(self.json(&format!("task list --job {name}"))["items"].clone());
        }
        all
    }

    /// Places pending tasks by a scheduler, which is stopped afterwards.
    fn place(&self, job: &str) {
        let mut command = omega(self.dir.path());
        // In the restored cell, a scheduler of the saved cell may still own its name.
        command.args(["scheduler", "--standby", "--lease=1s"]).env("OMEGA_CELL", &self.address);
        let scheduler = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let _scheduler = Process(scheduler);
        self.ok(&format!("job watch {job} --until placed"));
    }
}

/// Error of a verb, which must be one line.
fn fails(dir: &Path, line: &str) -> String {
    let output = run_omega(dir, &line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(
        (output.code, output.stderr.lines().count()),
        (Some(2), 1),
        "{line}: {}",
        output.stderr
    );
    output.stderr
}

#[test]
fn a_restored_cell_is_the_cell_that_was_saved() {
    let mut kept = BackupCell::new();
    kept.ok("job submit web --count 6 --cpu 1 --memory 1GiB");
    kept.place("web");
    kept.ok("job submit waits --count 2 --cpu 500");
    kept.ok("quota set team-a --cpu 10");
    let response = kept.json("backup saved");
    let file = kept.dir.path().join("saved");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(
        (mode & 0o777, &response["machines"], &response["jobs"]),
        (0o600, &4.into(), &2.into())
    );
    assert_eq!(kept.json("backup --verify saved"), response);
    let device = kept.run_omega("backup /dev/null");
    assert!(device.stderr.contains("it is not a regular file"), "{}", device.stderr);
    let before = (kept.all(), kept.json("quota list")["items"].clone(), kept.json("cell"));
    assert_eq!(response["cell"], before.2["cell"]);
    kept.ok("restore saved --dir again");
    kept.serve("again");
    let after = (kept.all(), kept.json("quota list")["items"].clone(), kept.json("cell"));
    assert_eq!((&before.0, &before.1), (&after.0, &after.1));
    assert_eq!(before.2["version"], after.2["version"]);
    assert_ne!(before.2["cell"], after.2["cell"], "no old replica can join it");
    // The restored cell works: pending tasks are placed once there is room, and a job that exists is not created twice.
    kept.ok("job submit web --count 6 --cpu 1 --memory 1GiB");
    kept.ok("machine add large --cpu 2000 --memory 64GiB");
    kept.place("waits");
    assert_eq!(kept.json("job list")["items"].as_array().unwrap().len(), 2);
    // A backup of a restored cell can be restored.
    kept.ok("backup second");
    kept.ok("restore second --dir third");
    kept.serve("third");
    assert_eq!(kept.json("job get waits")["tasks"]["placed"], 2);
}

/// A job of one task that writes its name, and then sleeps.
fn talker(name: &str, tenant: &str, cpu: f64, sleeps_s: u32) -> String {
    format!(
        "name = {name:?}\ntenant = {tenant:?}\n[[group]]\ncount = 1\nrequest = {{ cpu = {cpu:?} }}\n\
         [group.run]\ncommand = \"/bin/sh\"\n\
         args = [\"-c\", \"echo I am {name}; exec sleep {sleeps_s}\"]\n"
    )
}

/// A restored cell gives the numbers of lost jobs to other jobs, perhaps of another tenant and before an agent attaches.
#[test]
fn a_job_gets_neither_the_run_nor_the_log_of_a_lost_job_with_its_number() {
    let jobs = [
        ("lost.toml", talker("lost", "a", 1.5, 9999)),
        ("done.toml", talker("done", "a", 0.5, 0)),
        ("ours.toml", talker("ours", "b", 1.5, 9999)),
        ("waits.toml", talker("waits", "b", 1.0, 0)),
    ];
    let mut kept = BackupCell::with(&jobs.each_ref().map(|(file, text)| (*file, text.as_str())));
    let agent = |kept: &BackupCell| {
        let flags = ["agent", "--no-limits", "--cpu=2", "--memory=1GiB", "--name=one", "--dir=one"];
        start(kept.dir.path(), &[&flags[..], &["--cell", &kept.address]].concat())
    };
    let logs = |kept: &BackupCell, job: &str| kept.run_omega(&format!("task logs {job}/0"));
    let first = agent(&kept);
    kept.ok("backup saved");
    for job in ["lost", "done"] {
        kept.ok(&format!("job submit -f {job}.toml"));
        kept.place(job);
        until(|| logs(&kept, job).stdout == format!("I am {job}\n"));
    }
    until(|| kept.json("job get done")["tasks"]["finished"] == 1);
    drop(first);
    kept.ok("restore saved --dir again");
    kept.serve("again");
    kept.ok("job submit -f ours.toml");
    kept.place("ours");
    kept.ok("job submit -f waits.toml");
    let _second = agent(&kept);
    until(|| logs(&kept, "ours").stdout == "I am ours\n");
    let output = logs(&kept, "waits");
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{}", output.stderr);
    kept.ok("job stop ours");
    until(|| !is_anything_left(kept.dir.path()));
}

#[test]
fn a_backup_under_load_is_the_state_at_its_version() {
    let mut kept = BackupCell::new();
    let is_over = AtomicBool::new(false);
    let backups: Vec<Value> = std::thread::scope(|scope| {
        for writer in 0..2 {
            let (kept, is_over) = (&kept, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    kept.ok(&format!("job submit j-{writer}-{number} --count 20 --cpu 1"));
                }
            });
        }
        let taken = (0..4).map(|i| kept.json(&format!("backup b{i}"))).collect();
        is_over.store(true, Ordering::Relaxed);
        taken
    });
    kept.server = None;
    for response in backups {
        let version = response["version"].to_string();
        let output =
            run_omega(kept.dir.path(), &["log", "replay", "cell", "--all", "--to", &version]);
        let hash = response["state_hash"].as_str().unwrap();
        assert!(
            output.stdout.contains(hash),
            "{version}: {hash} in {}{}",
            output.stdout,
            output.stderr
        );
    }
}

#[test]
fn a_cell_in_memory_can_be_saved_and_kept_from_then_on() {
    let served = Served::new(&[]);
    served.ok("machine add m --cpu 4 --memory 8GiB");
    served.ok("job submit web --count 2 --cpu 1");
    let file = format!("{}/saved", served.path().display());
    served.ok(&format!("backup {file}"));
    let kept = folder(&[]);
    let output = run_omega(kept.path(), &["restore", &file, "--dir", "deep/in/cell"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let replay = run_omega(kept.path(), &["log", "replay", "deep/in/cell"]);
    assert!(replay.stdout.contains("jobs               1"), "{}", replay.stdout);
}

#[test]
fn three_replicas_are_restored_and_old_ones_stay_out() {
    let kept = BackupCell::new();
    kept.ok("job submit web --count 6 --cpu 1");
    kept.ok("backup saved");
    let dir = kept.dir.path();
    let all = ports(7);
    let peers: Vec<String> = (1..=3).map(|id| format!("{id}=127.0.0.1:{}", all[id])).collect();
    let peers = peers.join(",");
    let restore = |id: usize, file: &str, generation: u32| {
        format!(
            "restore {file} --dir g{generation}-{id} --cell-name prod --cell-generation {generation} \
             --replica {id} --peers {peers}"
        )
    };
    let start = |id: usize, generation: u32| {
        let arguments = [
            format!("--dir=g{generation}-{id}"),
            format!("--listen=127.0.0.1:{}", all[3 + id]),
            "--cell-name=prod".to_owned(),
            format!("--cell-generation={generation}"),
            format!("--replica={id}"),
            format!("--peers={peers}"),
        ];
        serve(dir, &arguments)
    };
    (1..=3).for_each(|id| drop(kept.ok(&restore(id, "saved", 0))));
    let servers: Vec<Process> = (1..=3).map(|id| start(id, 0)).collect();
    let address = format!("127.0.0.1:{},127.0.0.1:{}", all[5], all[6]);
    let ok = |line: &str| {
        let mut command = omega(dir);
        let result: CommandOutput = command
            .args(line.split_whitespace())
            .env("OMEGA_CELL", &address)
            .output()
            .unwrap()
            .into();
        assert_eq!(result.code, Some(0), "{line}: {}", result.stderr);
        result.stdout
    };
    ok("job resize web 7");
    ok("backup later");
    drop(servers);
    // A restored cell with the next generation is a different cell. An equal or lower generation is rejected.
    let result = fails(dir, &restore(1, "later", 0).replace("g0-1", "other"));
    assert!(result.contains("--cell-generation 1 or more"), "{result}");
    [1, 2].into_iter().for_each(|id| drop(kept.ok(&restore(id, "later", 1))));
    let result = fails(dir, &restore(3, "missing", 1));
    assert!(result.contains("missing: cannot be read"), "{result}");
    // A replica of the old cell is started in place of the third replica, and must be ignored.
    let servers: Vec<Process> = vec![start(1, 1), start(2, 1), start(3, 0)];
    ok("job resize web 8");
    let response = ok("job get web -o json");
    assert!(response.contains("\"count\": 8"), "{response}");
    drop(servers);
    let result = run_omega(
        dir,
        &[
            "serve",
            "--dir=g0-3",
            "--cell-name=prod",
            "--cell-generation=1",
            "--replica=3",
            &format!("--peers={peers}"),
        ],
    );
    assert!(result.stderr.contains("belongs to cell"), "{}", result.stderr);
}

#[test]
fn what_is_no_whole_backup_is_refused_before_anything_is_made() {
    let kept = BackupCell::new();
    kept.ok("backup saved");
    let dir = kept.dir.path();
    let bytes = std::fs::read(dir.join("saved")).unwrap();
    let newer = [&bytes[..8], &9_u32.to_le_bytes(), &bytes[12..]].concat();
    let mut flipped = bytes.clone();
    flipped[200] ^= 1;
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("empty", vec![], "is damaged at byte 0"),
        ("cut", bytes[..bytes.len() - 1].to_vec(), "must have"),
        ("long", [&bytes[..], b"x"].concat(), "must have"),
        ("flipped", flipped, "is damaged at byte"),
        ("foreign", vec![b'x'; 4096], "is not a backup of a cell"),
        ("newer", newer, "has format 9"),
    ];
    for (name, bytes, expected) in cases {
        std::fs::write(dir.join(name), bytes).unwrap();
        for line in [format!("restore {name} --dir new"), format!("backup --verify {name}")] {
            let output = fails(dir, &line);
            assert!(output.contains(expected) && output.contains(name), "{line}: {output}");
        }
    }
    std::fs::create_dir(dir.join("full")).unwrap();
    std::fs::write(dir.join("full/mine"), "x").unwrap();
    assert!(fails(dir, "restore saved --dir full").contains("is not empty"));
    assert!(fails(dir, "restore saved --dir cell").contains("is not empty"));
    assert!(fails(dir, "restore saved --dir saved").contains("saved:"));
    assert!(fails(dir, "restore saved --dir new --replica 2").contains("--peers"));
    let output =
        fails(dir, "restore saved --dir new --replica 4 --cell-name c --peers 1=a:1,2=b:1");
    assert!(output.contains("the address of replica r4 is missing"), "{output}");
    assert!(fails(dir, "restore saved --dir new --replica 0").contains("--replica"));
    assert!(!listing(dir).iter().any(|name| name.starts_with("new") && name != "newer"));
    assert_eq!(listing(&dir.join("full")), ["mine"]);
    let output = kept.run_omega("backup no/such/folder/file");
    assert!(
        output.code == Some(2) && output.stderr.contains("cannot be written"),
        "{}",
        output.stderr
    );
}

/// Number of kills in a cycle. The first kill comes at once, each other one a twelfth of the usual time later.
const CYCLE: u32 = 18;

/// Maximum number of cycles, until some results were whole and some were not.
const CYCLES_MAX: u32 = 10;

#[test]
fn a_kill_leaves_a_whole_backup_and_a_whole_replica_or_none() {
    let kept = BackupCell::new();
    for i in 0..20 {
        kept.ok(&format!("job submit j{i} --count 2000 --cpu 1"));
    }
    let time = |line: &str| {
        let began = Instant::now();
        kept.ok(line);
        began.elapsed()
    };
    let backup_time = time("backup whole");
    let restore_time = time("restore whole --dir first");
    let dir = kept.dir.path();
    let kill = |line: &str, after: Duration| {
        let mut command = omega(dir);
        command.args(line.split_whitespace()).env("OMEGA_CELL", &kept.address);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(after);
        drop(Process(child));
    };
    let (mut taken, mut restored, mut rounds) = (0, 0, 0);
    // The machine may have become slower since the times were measured, so the kills come later in each cycle.
    let is_some_and_not_all = |whole: u32, rounds: u32| whole > 0 && whole < rounds;
    while rounds < CYCLE
        || (rounds < CYCLE * CYCLES_MAX
            && ![taken, restored].iter().all(|whole| is_some_and_not_all(*whole, rounds)))
    {
        let twelfths = rounds % CYCLE * (1 + rounds / CYCLE);
        rounds += 1;
        kill("backup saved", backup_time * twelfths / 12);
        if dir.join("saved").exists() {
            taken += 1;
            kept.ok("backup --verify saved");
            std::fs::remove_file(dir.join("saved")).unwrap();
        }
        kill("restore whole --dir new", restore_time * twelfths / 12);
        if dir.join("new").exists() {
            restored += 1;
            let replay = kept.ok("log replay new");
            assert!(replay.contains("jobs               20"), "{replay}");
            std::fs::remove_dir_all(dir.join("new")).unwrap();
        } else if dir.join("new.restoring").exists() {
            assert!(fails(dir, "restore whole --dir new").contains("was interrupted"));
            std::fs::remove_dir_all(dir.join("new.restoring")).unwrap();
        }
    }
    println!("{taken} backups and {restored} restores of {rounds} were whole");
    assert!(is_some_and_not_all(taken, rounds), "{taken} of {rounds} backups were whole");
    assert!(is_some_and_not_all(restored, rounds), "{restored} of {rounds} restores were whole");
    kept.ok("backup saved");
    kept.ok("restore saved --dir new");
}
