//! Files of jobs, machines and transactions with typing errors: each is either read, or rejected with one line that
//! names the file. None causes a panic.

use crate::commands::files::job_file::JobFile;
use crate::commands::files::machine_file::{MachinesFile, machines};
use crate::commands::files::txn_file::TransactionFile;
use omega_client::proto;
use omega_core::Kinds;
use omega_core::limits::MACHINES_MAX;
use omega_tests::fuzz::words::{ends_in_toml, mutate};
use omega_tests::random::Dice;
use omega_workload::file;
use std::error::Error;
use std::path::Path;

const ROUNDS: u64 = 4000;

const JOB: &str = r#"
name = "web"
kind = "batch"
precedence = 10
preemption = "never"
gang_min = 2
gang_timeout = "30s"
run_time = "1.5s"
deadline = "@1764000000"
[[group]]
count = 3
grace = "10s"
restarts = 2
request = { cpu = 0.5, memory = "2GiB" }
devices = { count = 1 }
optional = { cpu = 1 }
labels = { app = "web" }
required = [{ labels = [{ key = "zone", values = ["a", "b"] }] }]
tolerations = [{ key = "k", operator = "exists", effect = "NoSchedule" }]
ports = [{ number = 80 }, { number = 53, protocol = "UDP", address = "10.0.0.1" }]
rules = [
    { anti_affinity = { level = "machine" } },
    { max_share = { level = "zone", percent = 50 } },
    { spread = { level = "rack", skew_max = 1, schedule_anyway = true } },
]
[[group]]
count = 1
cores = { count = 2 }
"#;

const MACHINES: &str = r#"
[[machine]]
name = "m{n}"
count = 3
capacity = { cpu = 32, memory = "256GiB", gpu = 4 }
devices = 4
numa = [16, 16]
labels = { zone = "z1", rack = "r2" }
taints = ["dedicated=team-a:NoSchedule"]
overcommit = { cpu = 200 }
[[machine]]
name = "large"
capacity = { cpu = "64", memory = "1TiB" }
"#;

const TRANSACTION: &str = r#"
granularity = "all_or_nothing"
check = "sequence"
releases = ["web/0"]
evictions = ["batch/3"]
[[claim]]
task = "web/1"
machine = "m1"
seen = 7
devices = [0, 3]
optional = true
[[resize]]
task = "web/2"
to = { cpu = 2, memory = "1GiB" }
"#;

/// Reads mutated forms of a file, and expects that some are accepted and some are rejected.
fn try_all(text: &str, read: impl Fn(&Path) -> Result<(), Box<dyn Error>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("given.toml");
    std::fs::write(&path, text).unwrap();
    read(&path).unwrap_or_else(|why| panic!("the file itself is refused: {why}"));
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..ROUNDS {
        let mutated = mutate(text, ends_in_toml, &mut Dice::new(seed));
        std::fs::write(&path, &mutated).unwrap();
        match read(&path) {
            Ok(()) => taken += 1,
            Err(why) => {
                let why = why.to_string();
                assert!(why.contains("given.toml"), "seed {seed}: {why}\n{mutated}");
                refused += 1;
            }
        }
    }
    assert!(taken > ROUNDS / 100 && refused > ROUNDS / 10, "{taken} taken, {refused} refused");
}

#[test]
fn a_mutated_job_is_read_or_refused() {
    try_all(JOB, |path| {
        let described: JobFile = file::read(path)?;
        let job = described.job(&Kinds::standard(), path)?;
        let sent = proto::Job::from(&job);
        assert_eq!(sent.groups.len(), job.groups.len());
        Ok(())
    });
}

#[test]
fn mutated_machines_are_read_or_refused() {
    try_all(MACHINES, |path| {
        let described: MachinesFile = file::read(path)?;
        let all = machines(&described, &Kinds::standard(), Some(path))?;
        assert!(all.iter().map(proto::Machine::from).count() <= MACHINES_MAX);
        Ok(())
    });
}

#[test]
fn a_mutated_transaction_is_read_or_refused() {
    try_all(TRANSACTION, |path| {
        let described: TransactionFile = file::read(path)?;
        described.claims(path)?;
        described.resizes(path)?;
        TransactionFile::tasks(("releases", &described.releases), path)?;
        TransactionFile::tasks(("evictions", &described.evictions), path)?;
        Ok(())
    });
}
