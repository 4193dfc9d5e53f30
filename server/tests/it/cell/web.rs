//! The web page: routes, headers, access, and hostile names.

use crate::kit::calls::unavailable;
use crate::kit::cell::{Served, Three, ports, serve};
use crate::kit::certificates::{authority, issue, tls};
use crate::kit::http::{HttpResponse, get, get_tls, send_request};
use crate::kit::process::{folder, run_omega};
use crate::kit::wait::{insist, until};
use omega_client::proto;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// A name that would be harmful if it was interpreted as markup.
pub(crate) const HOSTILE: &str = "<script>alert(1)";

const MACHINES: &str = r#"
[[machine]]
name = "a-{n}"
count = 20
capacity = { cpu = 4, memory = "16GiB" }
labels = { rack = "a" }

[[machine]]
name = "b-{n}"
count = 20
capacity = { cpu = 4, memory = "16GiB" }
labels = { rack = "b" }

[[machine]]
name = "<script>alert(1)"
capacity = { cpu = 4, memory = "16GiB" }
labels = { rack = "<b>bold</b>" }
"#;

const JOB: &str = r#"
name = "<script>alert(1)"
scheduler = "<i>nobody</i>"
[[group]]
count = 3
request = { cpu = 1 }
restarts = 2
[group.run]
command = "/bin/<b>bold</b>"
args = ["--one", "two words", "line\n\u202ebreak"]
env = { SECRET = "is-not-shown" }
image = "<i>image</i>"
restart = { attempts = 3, delay = "2s" }
"#;

/// A transaction that is accepted, and one that is not.
const PLACED: &str = r#"
[[claim]]
task = "<script>alert(1)/0"
machine = "a-1"
"#;
const TOO_LARGE: &str = r#"
[[claim]]
task = "wide/0"
machine = "a-1"
[[claim]]
task = "wide/1"
machine = "a-1"
"#;

/// A cell in memory with machines and jobs, and the port of its page.
pub(crate) fn shown() -> (Served, u16) {
    let port = ports(1)[0];
    let files = [
        ("machines.toml", MACHINES),
        ("job.toml", JOB),
        ("placed.toml", PLACED),
        ("too-large.toml", TOO_LARGE),
    ];
    let cell = Served::with(&files, &[format!("--web-listen=127.0.0.1:{port}")]);
    cell.ok("machine add -f machines.toml");
    cell.ok("machine drain b-3");
    cell.ok("job submit wide --count 2 --cpu 9");
    cell.ok("job submit -f job.toml");
    (cell, port)
}

/// Like [`shown`], with tenants, and with transactions of two schedulers.
pub(crate) fn shown_at_work() -> (Served, u16) {
    let (cell, port) = shown();
    cell.ok("quota set default --cpu 2");
    cell.ok("quota guarantee default --parent <i>company</i> --cpu 1 --weight 3");
    cell.ok("quota admit <i>company</i> --cpu 100");
    let output = cell.run_omega("txn commit -f too-large.toml --as first");
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    cell.ok("txn commit -f placed.toml --as <i>second</i>");
    (cell, port)
}

fn json(port: u16, path: &str) -> Value {
    let answered = get(port, path);
    assert_eq!(answered.status, 200, "{path}: {answered:?}");
    assert!(answered.headers.contains("content-type: application/json"), "{answered:?}");
    answered.json()
}

/// Escapes a name as part of a query.
fn quoted(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn the_data_is_that_of_the_cell() {
    let (_cell, port) = shown();
    // The statistics are up to a second old.
    until(|| json(port, "/api/v1/cell")["tasks"]["pending"] == 5);
    let cell = json(port, "/api/v1/cell");
    assert_eq!(cell["machines"], 41);
    assert_eq!(cell["draining"], 1);
    assert_eq!(cell["resources"][0]["claimable"], 41 * 4000);
    assert_eq!(cell["replicas"], Value::Array(vec![]));
    let waiting = cell["schedulers"].as_array().unwrap();
    assert_eq!(waiting[0]["name"], "<i>nobody</i>");
    assert_eq!((&waiting[1]["name"], &waiting[1]["pending_tasks"]), (&"default".into(), &2.into()));
    assert_eq!(waiting[1]["oldest_job"], "wide");

    let heat = json(port, "/api/v1/heat");
    assert_eq!(heat["level"], "rack");
    assert_eq!(heat["domains"].as_array().unwrap().len(), 3);
    assert_eq!(heat["machines"]["name"].as_array().unwrap().len(), 41);
    let one = json(port, "/api/v1/heat?level=rack&domain=b");
    assert_eq!(one["machines"]["name"].as_array().unwrap().len(), 20);
    assert_eq!(json(port, "/api/v1/heat?level=")["domains"].as_array().unwrap().len(), 1);

    let machine = json(port, "/api/v1/machine?name=b-3");
    assert_eq!(machine["machine"]["status"], "draining");
    assert_eq!(machine["machine"]["resources"]["cpu"]["claimable"], 4000);
    let hostile = json(port, &format!("/api/v1/machine?name={}", quoted(HOSTILE)));
    assert_eq!(hostile["machine"]["name"], HOSTILE);
    let hostile = get(port, &format!("/api/v1/job?name={}", quoted(HOSTILE)));
    assert!(!format!("{hostile:?}").contains("is-not-shown"), "{hostile:?}");
    let hostile = hostile.json();
    let hostile = &hostile["groups"][0];
    let program = &hostile["program"];
    assert_eq!((&program["image"], &hostile["restarts"]), (&"<i>image</i>".into(), &2.into()));
    assert_eq!((&program["args"][1], &program["cut"]), (&"two words".into(), &false.into()));
    assert_eq!(program["restart"]["delay_ms"], 2000);

    let job = json(port, "/api/v1/job?name=wide");
    assert_eq!(
        (&job["job"]["tasks"]["pending"], &job["groups"][0]["program"]),
        (&2.into(), &Value::Null)
    );
    assert_eq!((&job["job"]["version"], &job["job"]["update"]), (&0.into(), &Value::Null));
    assert_eq!(
        (&job["groups"][0]["current"], &job["groups"][0]["failures"]),
        (&true.into(), &0.into())
    );
    assert_eq!(job["groups"][0]["request"]["cpu"], 9000);
    assert_eq!(job["tasks"].as_array().unwrap().len(), 2);
    let happened = json(port, "/api/v1/events?job=wide");
    assert_eq!(
        (&happened["items"][0]["event"], &happened["more"]),
        (&"submitted".into(), &false.into())
    );
    let drained = json(port, "/api/v1/events?machine=b-3&limit=1");
    assert_eq!(
        (&drained["items"][0]["event"], &drained["more"]),
        (&"drained".into(), &true.into())
    );
    let why = json(port, "/api/v1/explain?job=wide");
    assert!(why["summary"].as_str().unwrap().contains("; what would help: "), "{why}");
    assert!(why["text"].as_str().unwrap().contains("what would help"), "{why}");
    assert_eq!(json(port, "/api/v1/jobs?state=waiting")["items"].as_array().unwrap().len(), 2);
    assert_eq!(json(port, "/api/v1/jobs?name=wid")["items"].as_array().unwrap().len(), 1);
}

#[test]
fn tenants_are_listed_with_limits_and_usage() {
    let (_cell, port) = shown_at_work();
    let response = json(port, "/api/v1/tenants");
    let all = response["items"].as_array().unwrap();
    let named = |name: &str| all.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((all.len(), &response["next_page"]), (2, &Value::Null));
    let (own, above) = (named("default"), named("<i>company</i>"));
    assert_eq!((&own["parent"], &above["parent"]), (&"<i>company</i>".into(), &Value::Null));
    assert_eq!((&own["weight"], &above["weight"]), (&3.into(), &1.into()));
    assert_eq!(own["limit"]["cpu"], 2000);
    assert_eq!((&own["limit"]["memory"], &above["limit"]), (&Value::Null, &Value::Null));
    assert_eq!((&own["guaranteed"]["cpu"], &above["guaranteed"]["cpu"]), (&1000.into(), &0.into()));
    assert_eq!(
        (&own["request_limit"], &above["request_limit"]["cpu"]),
        (&Value::Null, &100_000.into())
    );
    // The numbers of a tenant include those of the tenants below it.
    for one in [own, above] {
        assert_eq!(one["used"]["cpu"], 1000, "{one}");
        assert_eq!(one["requested"]["cpu"], 2 * 9000 + 3 * 1000, "{one}");
        assert_eq!(one["jobs"], 2, "{one}");
        assert_eq!(
            (&one["tasks"]["pending"], &one["tasks"]["placed"]),
            (&4.into(), &1.into()),
            "{one}"
        );
    }
    let found = |path: &str| json(port, path)["items"].as_array().unwrap().len();
    assert_eq!(found("/api/v1/tenants?name=faul"), 1);
    let first = json(port, "/api/v1/tenants?limit=1");
    let next = first["next_page"].as_str().unwrap();
    let second = json(port, &format!("/api/v1/tenants?limit=1&page={next}"));
    assert_ne!(first["items"][0]["name"], second["items"][0]["name"]);
    assert_eq!(second["next_page"], Value::Null);
}

#[test]
fn schedulers_are_listed_with_leases_and_transactions() {
    let (cell, port) = shown_at_work();
    let response = json(port, "/api/v1/schedulers");
    let all = response["items"].as_array().unwrap();
    let names: Vec<&Value> = all.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["<i>second</i>", "first"], "the latest first");
    let counts = |one: &Value| {
        ["committed", "conflicted", "claims", "placements"].map(|of| one[of].as_u64().unwrap())
    };
    assert_eq!(counts(&all[0]), [1, 0, 1, 1]);
    assert_eq!(counts(&all[1]), [0, 1, 2, 0]);
    assert_eq!(all[1]["conflicts"], serde_json::json!({ "NO_ROOM": 2 }));
    assert!(all.iter().all(|one| one["lease"] == "none" && one["process"] == Value::Null));
    let latest = response["transactions"].as_array().unwrap();
    let of: Vec<&Value> = latest.iter().map(|one| &one["scheduler"]).collect();
    assert_eq!(of, ["<i>second</i>", "first"]);
    assert_eq!(latest[0]["conflicts"], serde_json::json!({}));
    assert_eq!(latest[1]["conflicts"], serde_json::json!({ "NO_ROOM": 2 }));
    assert_eq!(latest[0]["version"], all[0]["last_version"]);

    let register = |name: &str, lease_ms| proto::RegisterRequest {
        name: name.to_owned(),
        holder: 7,
        lease_ms,
        process: "a process".to_owned(),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let url = format!("http://{}", cell.address);
        let mut client = SchedulingServiceClient::connect(url).await.unwrap();
        client.register(register("leased", omega_core::limits::LEASE_MS_MAX)).await.unwrap();
        client.register(register("brief", 1000)).await.unwrap();
    });
    let lease = |name: &str| {
        let found = json(port, &format!("/api/v1/schedulers?name={name}"));
        let one = &found["items"][0];
        assert_eq!(one["process"], "a process");
        one["lease"].as_str().unwrap().to_owned()
    };
    while lease("brief") != "expired" {
        assert_eq!(lease("leased"), "live");
    }
    assert_eq!(lease("leased"), "live");
    let first = json(port, "/api/v1/schedulers?limit=1");
    assert_eq!((first["items"].as_array().unwrap().len(), &first["more"]), (1, &true.into()));
}

#[test]
fn lists_are_filtered() {
    let (_cell, port) = shown();
    let found = |path: &str| json(port, path)["items"].as_array().unwrap().len();
    let all = found("/api/v1/machines");
    assert_eq!(found("/api/v1/machines?state=draining"), 1);
    assert_eq!(found("/api/v1/machines?state=up"), all - 1);
    assert_eq!(found("/api/v1/machines?state=unreachable"), 0);
    let with_rack = found("/api/v1/machines?label=rack");
    let of_b = found("/api/v1/machines?label=rack=b");
    assert!(0 < of_b && of_b < with_rack, "{of_b} of {with_rack}");
    assert_eq!(found("/api/v1/machines?label=rack=b&name=b-3"), 1);
    assert_eq!(found("/api/v1/machines?state="), all);
    let jobs = found("/api/v1/jobs");
    let pending = found("/api/v1/jobs?state=pending");
    assert_eq!(pending, found("/api/v1/jobs?state=waiting"));
    assert!(0 < pending && pending == jobs, "{pending} of {jobs}");
    assert_eq!(found("/api/v1/jobs?scheduler=default"), 1);
    assert_eq!(found("/api/v1/jobs?tenant=default"), 2);
    assert_eq!(found("/api/v1/jobs?state=failed"), 0);
    assert_eq!(found("/api/v1/jobs?tenant=nobody-has-this-name"), 0);
}

#[test]
fn lists_come_in_pages_that_hold_everything_once() {
    let (_cell, port) = shown();
    for limit in [1, 7, 41, 1000] {
        let mut names: Vec<String> = Vec::new();
        let mut path = format!("/api/v1/machines?limit={limit}");
        loop {
            let page = json(port, &path);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit);
            names.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
            match page["next_page"].as_str() {
                Some(next) => path = format!("/api/v1/machines?limit={limit}&page={next}"),
                None => break,
            }
        }
        assert_eq!(names.len(), 41, "{limit}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 41, "{limit}");
    }
}

#[test]
fn every_answer_tells_browsers_what_to_bear_in_mind() {
    let (_cell, port) = shown();
    let index = get(port, "/");
    assert!(!index.body.contains("<script>") && !index.body.contains("style="), "{}", index.body);
    let mut paths =
        vec!["/".to_owned(), "/api/v1/cell".into(), "/nothing".into(), "/healthz".into()];
    for part in index.body.split('"').filter(|part| part.starts_with('/') && part.contains('.')) {
        paths.push(part.to_owned());
    }
    for path in ["/main.js", "/overview.js", "/heat.js", "/dom.js"] {
        paths.push(path.to_owned());
    }
    for path in paths {
        let answered = get(port, &path);
        assert_eq!(answered.status == 200, path != "/nothing", "{path}");
        for header in [
            "content-security-policy: default-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(answered.headers.contains(header), "{path}: {header}: {}", answered.headers);
        }
    }
}

#[test]
fn every_module_that_the_page_asks_for_is_there_and_none_makes_markup() {
    let (_cell, port) = shown();
    let mut left = vec!["/main.js".to_owned()];
    let mut seen = Vec::new();
    while let Some(path) = left.pop() {
        let answered = get(port, &path);
        assert_eq!(answered.status, 200, "{path}");
        assert!(answered.headers.contains("content-type: text/javascript"), "{path}");
        for word in ["innerHTML =", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!answered.body.contains(word), "{path}: {word}");
        }
        let imports = answered.body.lines().filter(|line| line.starts_with("import "));
        for line in imports {
            let name = line.split('"').nth(1).unwrap().trim_start_matches('.').to_owned();
            if !seen.contains(&name) {
                seen.push(name.clone());
                left.push(name);
            }
        }
    }
    assert!(seen.len() >= 8, "{seen:?}");
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let (_cell, port) = shown();
    let check = |path: &str, status: u16, code: &str| {
        let answered = get(port, path);
        assert_eq!(answered.status, status, "{path}: {answered:?}");
        assert_eq!(answered.json()["code"], code, "{path}");
    };
    check("/api/v1/machine?name=nobody", 404, "UNKNOWN_MACHINE");
    check("/api/v1/job?name=nobody", 404, "UNKNOWN_JOB");
    check("/api/v1/explain?job=nobody", 404, "UNKNOWN_JOB");
    check("/api/v1/jobs?page=xyz", 400, "BAD_PAGE_TOKEN");
    check("/api/v1/tenants?page=xyz", 400, "BAD_PAGE_TOKEN");
    for list in ["machines", "jobs"] {
        let path = format!("/api/v1/{list}?state=bogus");
        check(&path, 400, "MALFORMED");
        let response = get(port, &path).json();
        assert!(
            response["message"].as_str().unwrap().starts_with("no such state: bogus"),
            "{response}"
        );
    }
    check("/api/v2/cell", 404, "NOT_FOUND");
    check("/api/v1/machine", 400, "MALFORMED");
    check("/api/v1/machines?limit=many", 400, "MALFORMED");
    check("/api/v1/machines?limit=0", 400, "MALFORMED");
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(send_request(port, method, "localhost", "/api/v1/cell").status, 405, "{method}");
    }
}

#[test]
fn other_names_of_this_machine_are_refused() {
    let (_cell, port) = shown();
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1", ""] {
        for path in ["/", "/api/v1/cell", "/metrics", "/healthz"] {
            assert_eq!(send_request(port, "GET", host, path).status, 403, "{host} {path}");
        }
    }
    for host in ["localhost", "127.0.0.1:9", "[::1]"] {
        assert_eq!(send_request(port, "GET", host, "/api/v1/cell").status, 200, "{host}");
    }
}

#[test]
fn long_and_slow_headers_are_not_waited_for() {
    let (_cell, port) = shown();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // If the server has already closed the connection, writing the rest fails.
    let _ =
        write!(stream, "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 16));
    let mut output = Vec::new();
    let _ = stream.read_to_end(&mut output);
    assert!(!String::from_utf8_lossy(&output).contains("200 OK"));
    let mut slow = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(slow, "GET / HTTP/1.1\r\nHost").unwrap();
    let mut output = Vec::new();
    // The connection ends because the server closes it.
    let _ = slow.read_to_end(&mut output);
    assert!(!String::from_utf8_lossy(&output).contains("200 OK"));
}

#[test]
fn the_page_is_of_this_machine_alone_without_certificates() {
    let dir = folder(&[]);
    let output = run_omega(dir.path(), &["serve", "--memory", "--web-listen=0.0.0.0:0"]);
    assert_eq!(output.code, Some(78), "{}", output.stderr);
    assert!(output.stderr.contains("--web-listen 0.0.0.0:0 is open"), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    let port = ports(1)[0];
    let arguments = [
        "--memory".to_owned(),
        "--listen=127.0.0.1:0".into(),
        format!("--web-listen=0.0.0.0:{port}"),
        "--insecure".into(),
    ];
    let _server = serve(dir.path(), &arguments);
    assert_eq!(send_request(port, "GET", "any.example", "/api/v1/cell").status, 200);
}

#[test]
fn with_certificates_the_page_is_for_those_who_may_look() {
    let dir = folder(&[]);
    authority(dir.path(), "certs");
    let callers = ["reader/eve", "scheduler/web", "agent/m0", "operator/ann", "replica/1"];
    callers.iter().for_each(|whom| issue(dir.path(), "certs", whom, &[]));
    for whom in ["reader/own", "submitter/own"] {
        issue(dir.path(), "certs", whom, &["--tenant=own"]);
    }
    let all = ports(2);
    let arguments = [
        "--memory".to_owned(),
        format!("--listen=127.0.0.1:{}", all[0]),
        format!("--web-listen=127.0.0.1:{}", all[1]),
        "--tls-cert=certs/replica-1.pem".into(),
        "--tls-key=certs/replica-1.key".into(),
        "--client-ca=certs/ca.pem".into(),
        "--cell-name=test".into(),
        "--audit-log=audit".into(),
    ];
    let _server = serve(dir.path(), &arguments);
    let ca = std::fs::read(dir.path().join("certs/ca.pem")).unwrap();
    let get = |whom: Option<&str>, path: &str| -> HttpResponse {
        let own = whom.map(|whom| tls(dir.path(), "certs", &whom.replace('/', "-")));
        get_tls(all[1], &ca, own.as_ref(), path)
    };
    let pages = ["/", "/api/v1/cell", "/api/v1/heat", "/api/v1/jobs", "/metrics"];
    for path in pages.into_iter().chain(["/api/v1/tenants", "/api/v1/schedulers"]) {
        assert_eq!(get(None, path).status, 401, "{path}");
        assert_eq!(get(Some("agent/m0"), path).status, 403, "{path}");
        assert_eq!(get(Some("replica/1"), path).status, 403, "{path}");
        // These callers see only one tenant, and all routes have data of several tenants.
        assert_eq!(get(Some("reader/own"), path).status, 403, "{path}");
        assert_eq!(get(Some("submitter/own"), path).status, 403, "{path}");
        for whom in ["reader/eve", "scheduler/web", "operator/ann"] {
            assert_eq!(get(Some(whom), path).status, 200, "{whom} {path}");
        }
    }
    assert_eq!(get(None, "/healthz").status, 200);
    assert_eq!(get(None, "/readyz").status, 200);
    // Like the calls of the API, the page shows programs to operators, and not to readers of all tenants.
    let address = format!("127.0.0.1:{}", all[0]);
    let flags = ["--tls-ca=certs/ca.pem", "--tls-cert=certs/operator-ann.pem"];
    let flags =
        [&flags[..], &["--tls-key=certs/operator-ann.key", "--cell", address.as_str()]].concat();
    let line = [&["job", "submit", "web"][..], &flags, &["--", "/bin/secret"]].concat();
    let submitted = run_omega(dir.path(), &line);
    assert_eq!(submitted.code, Some(0), "{}", submitted.stderr);
    for (whom, is_shown) in
        [("reader/eve", false), ("operator/ann", true), ("scheduler/web", false)]
    {
        let job = get(Some(whom), "/api/v1/job?name=web").json();
        let command = &job["groups"][0]["program"]["command"];
        assert_eq!(*command == "/bin/secret", is_shown, "{whom}: {job}");
    }
    let audit = std::fs::read_to_string(dir.path().join("audit")).unwrap();
    assert!(audit.contains("omega://test/agent/m0") && audit.contains("DENIED"), "{audit}");
}

/// Three replicas that have a page each, and the ports of the pages.
pub(crate) fn three_shown() -> (Three, Vec<u16>) {
    let mut three = Three::found();
    let all = ports(3);
    // Each replica is restarted with a page.
    for (id, port) in (1..=3).zip(&all) {
        three.kill(id);
        three.start(id, &[&format!("--web-listen=127.0.0.1:{port}")]);
    }
    (three, all)
}

#[test]
fn a_leader_tells_how_far_the_others_are() {
    let (_three, all) = three_shown();
    loop {
        let response: Vec<Value> =
            all.iter().map(|port| get(*port, "/api/v1/cell").json()).collect();
        let leader = response.iter().find(|cell| cell["leader"] == cell["replica"]);
        let lags = leader.map(|cell| cell["replicas"].as_array().unwrap().clone());
        let is_level = |one: &Value| one["lag_entries"] == 0;
        if lags.is_some_and(|all| all.len() == 3 && all.iter().all(is_level)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Only the leader has the leases. Transactions and tenants are those of the cell on all replicas.
#[test]
fn a_follower_lists_what_it_knows() {
    let (three, all) = three_shown();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let register = proto::RegisterRequest {
        name: "leased".to_owned(),
        holder: 7,
        lease_ms: 60_000,
        process: "a process".to_owned(),
    };
    insist(|| {
        let url = three.url(three.leader(&runtime));
        runtime.block_on(async {
            let mut client = SchedulingServiceClient::connect(url).await.map_err(unavailable)?;
            Ok(client.register(register.clone()).await?)
        })
    });
    loop {
        let response =
            |path: &str| -> Vec<Value> { all.iter().map(|port| get(*port, path).json()).collect() };
        let cells = response("/api/v1/cell");
        let leads: Vec<bool> = cells.iter().map(|cell| cell["leader"] == cell["replica"]).collect();
        let schedulers = response("/api/v1/schedulers");
        let lease = |of: &Value| {
            (of["items"][0]["name"] == "leased").then(|| of["items"][0]["lease"].clone())
        };
        let leases: Option<Vec<Value>> = schedulers.iter().map(lease).collect();
        let expected: Vec<Value> =
            leads.iter().map(|leads| if *leads { "live".into() } else { Value::Null }).collect();
        // An election may have changed the leader between the requests.
        if leads.contains(&true) && leases == Some(expected) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
