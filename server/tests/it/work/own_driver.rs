//! The example of an agent with a driver of its own, as a user runs it.

#[path = "../../../runner/examples/own_driver.rs"]
#[expect(dead_code, reason = "the test calls what the example's `main` calls")]
mod example;

use crate::kit::programs::Cell;
use crate::kit::wait::until;
use tokio::runtime::Runtime;

const ARRAY: &str = r#"
name = "array"
[[group]]
count = 6
request = { cpu = 1 }
[group.run]
command = "/bin/sh"
args = ["-c", "echo $OMEGA_JOB $OMEGA_TASK_INDEX > FOLDER/results/$OMEGA_TASK_INDEX"]
"#;

const SERVICE: &str = r#"
name = "stays"
kind = "service"
[[group]]
count = 2
grace = "300ms"
request = { cpu = 1 }
[group.run]
command = "/bin/sh"
args = ["-c", "test $OMEGA_TASK_INDEX = 0 && trap '' TERM; echo $$ > FOLDER/up-$OMEGA_TASK_INDEX; while :; do sleep 0.05; done"]
"#;

#[test]
fn a_driver_of_ones_own_runs_jobs() {
    let cell = Cell::new(&[("array.toml", ARRAY), ("stays.toml", SERVICE)]);
    let runtime = Runtime::new().unwrap();
    let agent = runtime.spawn(example::run(cell.served.address.clone(), "own".to_owned()));
    cell.served.ok("job submit -f array.toml");
    until(|| cell.tasks("array", "finished") == 6);
    let result = std::fs::read_to_string(cell.served.path().join("results/5")).unwrap();
    assert_eq!(result, "array 5\n");
    cell.served.ok("job submit missing --cpu 1 -- /no/such/program");
    until(|| cell.tasks("missing", "failed") == 1);
    cell.served.ok("job submit -f stays.toml");
    let up = |index| cell.served.path().join(format!("up-{index}"));
    until(|| up(0).exists() && up(1).exists() && cell.tasks("stays", "running") == 2);
    // One of the tasks ends when it is stopped, and the other when its grace period is over.
    let pid = std::fs::read_to_string(up(0)).unwrap();
    cell.served.ok("job stop stays");
    cell.served.ok("job submit last --cpu 4 -- /bin/true");
    until(|| cell.tasks("last", "finished") == 1);
    until(|| !std::path::Path::new("/proc").join(pid.trim()).exists());
    let image = "[[group]]\ncount = 1\nrequest = { cpu = 1 }\n[group.run]\nimage = \"i\"\n";
    std::fs::write(cell.served.path().join("image.toml"), format!("name = \"image\"\n{image}"))
        .unwrap();
    cell.served.ok("job submit -f image.toml");
    until(|| cell.tasks("image", "failed") == 1);
    assert!(cell.served.ok("job history image").contains("this driver cannot give an image"));
    cell.served.ok("machine remove own");
    let ended = runtime.block_on(agent).unwrap();
    assert!(ended.unwrap_err().to_string().contains("no longer manages its machine"));
}
