//! Ports that the cell chooses, as users see them: in files, flags, listings, and programs on a served cell.

use crate::kit::cell::Served;
use crate::kit::programs::{Cell, documented};
use crate::kit::wait::until;
use std::collections::BTreeSet;

/// The web service of `docs/run-programs.md`, in a folder of the test and run by the current user.
fn web_of_the_page() -> String {
    let page = include_str!("../../../../docs/run-programs.md");
    let (_, section) = page.split_once("## The program of a group").expect("the page has it");
    let (_, job) = section.split_once("```toml\n").expect("it has a job");
    let (job, _) = job.split_once("```").expect("the job ends");
    job.replace("user = \"nobody\"\n", "").replace("/srv/web", "FOLDER")
}

#[test]
fn the_web_service_of_the_page_gets_its_ports() {
    if crate::work::updates::python().is_none() {
        return;
    }
    let cell = Cell::new(&[("web.toml", &web_of_the_page())]);
    let agent = cell.agent("one");
    cell.served.ok("job apply -f web.toml --wait");
    let ports = || {
        let listed = cell.served.json("task list --job web");
        let tasks = listed["items"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["ports"]["http"].as_u64().unwrap()).collect::<Vec<u64>>()
    };
    let before = ports();
    let distinct: BTreeSet<&u64> = before.iter().collect();
    assert_eq!(distinct.len(), 3, "three tasks of one machine: {before:?}");
    assert!(before.iter().all(|port| (20_000..32_000).contains(port)), "{before:?}");
    for port in &before {
        std::net::TcpStream::connect(("127.0.0.1", *port as u16)).unwrap();
    }
    let shown = documented("omega task list --job web");
    let wide = cell.served.ok(shown[0].0.strip_prefix("omega ").unwrap());
    assert!(wide.contains(&format!("http={}", before[0])), "{wide}");
    assert!(cell.served.ok("task get web/0").contains(&format!("http={}", before[0])));
    let file = cell.served.ok("job get web -o toml");
    assert!(file.contains("http = \"any\""), "{file}");
    assert!(cell.served.ok("job apply -f web.toml --dry-run").contains("web"));
    drop(agent);
    let _agent = cell.agent("one");
    until(|| cell.tasks("web", "running") == 3);
    assert_eq!(ports(), before, "an agent that restarts keeps them");
    cell.served.ok("job kill web");
    cell.nothing_is_left();
}

#[test]
fn a_task_without_a_free_port_waits_and_the_cell_says_why() {
    let world = Cell::new(&[]);
    let cell = &world.served;
    cell.ok("machine add m1 --cpu 4 --memory 4GiB --ports 21000-21001");
    assert!(cell.ok("machine get m1").contains("21000-21001"));
    cell.ok("job submit web --count 3 --cpu 0.1 --port http=any -- serve");
    cell.ok("job submit one --count 2 --cpu 0.1 --port metrics=9100 -- serve");
    until(|| placed(cell, "web") == 2 && placed(cell, "one") == 1);
    assert_eq!(ports(cell, "web", "http"), [Some(21_000), Some(21_001), None]);
    assert_eq!(ports(cell, "one", "metrics"), [Some(9100), None]);
    let why = cell.ok("job explain web");
    assert!(why.contains("too few free ports in the machine's range"), "{why}");
    cell.ok("job kill web");
    cell.ok("job submit next --cpu 0.1 --port rpc=any --port admin=any -- serve");
    until(|| placed(cell, "next") == 1);
    let why = cell.fails(2, "job submit -f job.toml --port http=any");
    assert!(why.contains("--port"), "{why}");
    assert!(cell.fails(2, "job submit x --port http=some").contains("must be NAME=any"));
    assert!(
        cell.fails(2, "machine add m2 --cpu 1 --ports 9-8").contains("is not a range of ports")
    );
}

fn placed(cell: &Served, job: &str) -> u64 {
    cell.json(&format!("job get {job}"))["tasks"]["placed"].as_u64().unwrap()
}

/// The numbers of the port with this name on each task of a job, ascending. Tasks without such a port come last.
fn ports(cell: &Served, job: &str, name: &str) -> Vec<Option<u64>> {
    let listed = cell.json(&format!("task list --job {job}"));
    let tasks = listed["items"].as_array().unwrap().iter();
    let mut ports: Vec<Option<u64>> = tasks.map(|task| task["ports"][name].as_u64()).collect();
    ports.sort_by_key(|port| (port.is_none(), *port));
    ports
}
