//! Replicas that join, move and leave while the others run: their addresses are part of the
//! membership.

use crate::kit::callers::{certificates, certified};
use crate::kit::cell::{Process, ports, run_omega_at, serve};
use crate::kit::certificates::{issue, tls};
use crate::kit::process::{folder, run_omega};
use crate::kit::wait::insist;
use omega_client::connect::tls_endpoint;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::{self};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// A cell over TLS, and the ports of its replicas.
struct Cell {
    dir: TempDir,
    runtime: Runtime,
    clients: Vec<u16>,
    peers: Vec<u16>,
}

impl Cell {
    fn new() -> Cell {
        let dir = certified();
        for id in 2..=4 {
            issue(dir.path(), "certs", &format!("replica/{id}"), &[]);
        }
        let all = ports(10);
        let (clients, peers) = all.split_at(4);
        let runtime = Runtime::new().unwrap();
        Cell { dir, runtime, clients: clients.to_vec(), peers: peers.to_vec() }
    }

    /// Returns `ID=ADDRESS` of a replica for `--peers`. `port` is an index into the ports for peers.
    fn peer(&self, id: usize, port: usize) -> String {
        format!("{id}=127.0.0.1:{}", self.peers[port])
    }

    fn start(&self, id: usize, peers: &[String], how: &[&str]) -> Process {
        let mut arguments = vec![
            format!("--dir=r{id}"),
            format!("--listen=127.0.0.1:{}", self.clients[id - 1]),
            format!("--replica={id}"),
            format!("--peers={}", peers.join(",")),
        ];
        arguments.extend(how.iter().map(|how| (*how).to_owned()));
        arguments.extend(certificates(&format!("replica-{id}")));
        serve(self.dir.path(), &arguments)
    }

    /// Runs an operator's command until it succeeds, because leaders change, and learners must catch up first.
    fn operate(&self, command: &str) -> String {
        let all: Vec<String> =
            self.clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let keys = "--tls-ca certs/ca.pem --tls-cert certs/operator-ann.pem --tls-key certs/operator-ann.key";
        let line = format!("{command} --cell {} {keys}", all.join(","));
        let arguments: Vec<&str> = line.split_whitespace().collect();
        loop {
            let output = run_omega(self.dir.path(), &arguments);
            match output.code {
                Some(0) => return output.stdout,
                _ if ["has not caught up", "does not reach"]
                    .iter()
                    .any(|why| output.stderr.contains(why)) =>
                {
                    std::thread::yield_now();
                }
                _ => panic!("{command}: {}", output.stderr),
            }
        }
    }

    /// The replicas, as the leader reports them.
    fn members(&self) -> Vec<Value> {
        serde_json::from_str(&self.operate("member list -o json")).unwrap()
    }

    /// Waits until the leader is in contact with a replica. Returns the replica's status.
    fn await_contact(&self, id: u64) -> Value {
        loop {
            let members = self.members();
            let of = members.into_iter().find(|member| member["replica"] == id).unwrap();
            if of["silent_ms"].as_u64().is_some_and(|silent| silent < 1000) {
                return of;
            }
            std::thread::yield_now();
        }
    }

    fn leader(&self) -> usize {
        loop {
            let members = self.members();
            let leads = |member: &&Value| member["leads"] == true;
            if let Some(leader) = members.iter().find(leads) {
                return leader["replica"].as_u64().unwrap() as usize;
            }
        }
    }

    /// An operator's connection to a replica.
    fn connect(&self, id: usize) -> Channel {
        let _entered = self.runtime.enter();
        let operator = tls(self.dir.path(), "certs", "operator-ann");
        let url = format!("https://127.0.0.1:{}", self.clients[id - 1]);
        let endpoint = Endpoint::from_shared(url).unwrap();
        tls_endpoint(endpoint, &operator).unwrap().connect_lazy()
    }

    /// Waits until a replica has applied the cell's present version.
    fn follows(&self, id: usize) {
        let channel = self.connect(id);
        insist(|| {
            let mut client = CellServiceClient::new(channel.clone());
            let call = client.describe_cell(proto::DescribeCellRequest {});
            Ok(self.runtime.block_on(call)?)
        });
    }
}

#[test]
fn a_replica_joins_by_the_address_in_the_membership() {
    let cell = Cell::new();
    let three: Vec<String> = (1..=3).map(|id| cell.peer(id, id - 1)).collect();
    let mut replicas: Vec<Option<Process>> =
        (1..=3).map(|id| Some(cell.start(id, &three, &["--bootstrap"]))).collect();
    cell.operate("job submit first --count 1");
    for member in cell.members() {
        let port = cell.peers[member["replica"].as_u64().unwrap() as usize - 1];
        let address = format!("127.0.0.1:{port}");
        assert_eq!(member["peer_address"], address.as_str(), "that of the settings");
    }
    let lost = cell.leader() % 3 + 1;
    replicas[lost - 1] = None;
    cell.operate(&format!("member remove {lost}"));

    // Without an address, the other replicas could not reach the new replica, and it would wait forever.
    let keys = ["--tls-ca", "certs/ca.pem", "--tls-cert", "certs/operator-ann.pem"];
    let leader = format!("127.0.0.1:{}", cell.clients[cell.leader() - 1]);
    let mut arguments = vec!["member", "add", "4", "--cell", &leader];
    arguments.extend(keys.iter().chain(&["--tls-key", "certs/operator-ann.key"]));
    let output = run_omega(cell.dir.path(), &arguments);
    assert!(output.stderr.contains("omega member add 4 HOST:PORT"), "{}", output.stderr);

    // The new replica is given only its own address. The other replicas get that address with the membership, without a
    // restart.
    let new = cell.start(4, &[cell.peer(4, 3)], &["--join"]);
    let address = format!("127.0.0.1:{}", cell.peers[3]);
    cell.operate(&format!("member add 4 {address}"));
    assert_eq!(cell.await_contact(4)["peer_address"], address.as_str());
    cell.operate("member promote 4");
    cell.follows(4);

    // The new replica votes: the cell continues with it and one of the first three.
    let gone = cell.leader();
    let gone = if gone == 4 { (1..=3).find(|id| *id != lost).unwrap() } else { gone };
    replicas[gone - 1] = None;
    cell.operate("job submit second --count 1");
    // The addresses that the replica has received survive a restart.
    drop(new);
    let _new = cell.start(4, &[cell.peer(4, 3)], &[]);
    cell.operate("job submit third --count 1");
    let listed = cell.operate("job list -o json");
    assert!(["first", "second", "third"].iter().all(|name| listed.contains(name)), "{listed}");
}

/// Otherwise a scheduler that reads from a removed replica would wait for changes without end.
#[test]
fn the_streams_of_a_removed_replica_end() {
    let cell = Cell::new();
    let three: Vec<String> = (1..=3).map(|id| cell.peer(id, id - 1)).collect();
    let _replicas: Vec<Process> =
        (1..=3).map(|id| cell.start(id, &three, &["--bootstrap"])).collect();
    cell.operate("job submit first --count 1");
    let removed = cell.leader() % 3 + 1;
    let channel = cell.connect(removed);
    let (mut schedulers, mut jobs) =
        (SchedulingServiceClient::new(channel.clone()), JobServiceClient::new(channel));
    let (mut deltas, mut watch) = cell.runtime.block_on(async {
        let sync = schedulers.sync(proto::SyncRequest::default()).await.unwrap();
        let watch = jobs.watch_jobs(proto::WatchJobsRequest::default()).await.unwrap();
        (sync.into_inner(), watch.into_inner())
    });
    cell.operate(&format!("member remove {removed}"));
    let ends = cell.runtime.block_on(async {
        let of_sync = loop {
            if let Err(end) = deltas.message().await {
                break end;
            }
        };
        let of_watch = loop {
            if let Err(end) = watch.message().await {
                break end;
            }
        };
        [of_sync, of_watch]
    });
    for end in ends {
        assert!(end.message().contains("this replica was removed"), "{end}");
    }
    let keys =
        "--tls-ca certs/ca.pem --tls-cert certs/operator-ann.pem --tls-key certs/operator-ann.key";
    let at = cell.clients[removed - 1];
    let line = format!("cell --cell 127.0.0.1:{at} --timeout 100ms {keys}");
    let shown = run_omega(cell.dir.path(), &line.split_whitespace().collect::<Vec<_>>());
    assert!(shown.stderr.contains("this replica was removed"), "{}", shown.stderr);
    assert_ne!(shown.code, Some(0), "{}", shown.stdout);
}

#[test]
fn a_replica_that_has_moved_is_reached_at_its_new_address() {
    let cell = Cell::new();
    let three: Vec<String> = (1..=3).map(|id| cell.peer(id, id - 1)).collect();
    let mut replicas: Vec<Option<Process>> =
        (1..=3).map(|id| Some(cell.start(id, &three, &["--bootstrap"]))).collect();
    cell.operate("job submit first --count 1");
    let moved = cell.leader() % 3 + 1;
    replicas[moved - 1] = None;
    let mut peers = three.clone();
    peers[moved - 1] = cell.peer(moved, 4);
    replicas[moved - 1] = Some(cell.start(moved, &peers, &[]));
    let address = format!("127.0.0.1:{}", cell.peers[4]);
    cell.operate(&format!("member update {moved} {address}"));
    assert_eq!(cell.await_contact(moved as u64)["peer_address"], address.as_str());
    // Wrong addresses are rejected, by whichever replica the command is sent to.
    let refused = |arguments: &str, why: &str| {
        let keys = "--tls-ca certs/ca.pem --tls-cert certs/operator-ann.pem --tls-key certs/operator-ann.key";
        for at in &cell.clients[..3] {
            let line = format!("member update {arguments} --cell 127.0.0.1:{at} {keys}");
            let output = run_omega(cell.dir.path(), &line.split_whitespace().collect::<Vec<_>>());
            let is_refused = output.code != Some(0) && output.stderr.contains(why);
            assert!(is_refused, "{line}: {}", output.stderr);
        }
    };
    let other = moved % 3 + 1;
    let gone = (1..=3).find(|id| *id != moved && *id != other).unwrap();
    let unused = format!("127.0.0.1:{}", ports(1)[0]);
    refused(&format!("{other} {unused}"), "cannot be reached at");
    let of_another = format!("127.0.0.1:{}", cell.peers[gone - 1]);
    refused(&format!("{other} {of_another}"), "the frame's receiver is");
    let for_clients = format!("127.0.0.1:{}", cell.clients[other - 1]);
    refused(&format!("{other} {for_clients}"), "not that of a listener for peers");
    refused(&format!("{other} {address}"), "give each replica its own");
    refused(&format!("{other} nowhere"), "must be host:port");
    refused("9 127.0.0.1:9", "is not a replica of this cell");
    // The moved replica and the other one are a majority.
    replicas[gone - 1] = None;
    cell.operate("job submit second --count 1");
}

#[test]
fn a_replica_without_a_listener_for_peers_gets_no_address() {
    let dir = folder(&[]);
    let ports = ports(2);
    let (at, unused) = (ports[0], ports[1]);
    let address = format!("127.0.0.1:{at}");
    let _server = serve(dir.path(), &["--dir=cell".to_owned(), format!("--listen={address}")]);
    let line = format!("member update 1 127.0.0.1:{unused}");
    let refused = run_omega_at(dir.path(), &address, &line);
    assert!(refused.stderr.contains("was started without --peers"), "{}", refused.stderr);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let listed = run_omega_at(dir.path(), &address, "member list");
    assert!(!listed.stdout.contains(&unused.to_string()), "{}", listed.stdout);
}
