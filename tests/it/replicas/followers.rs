//! Calls that a follower answers while it is behind its leader.

use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{Amounts, Job, Kinds, TaskGroup};
use omega_service::{Extras, Host, ListenerConfig, ReplicaIdentity, serve_clients};
use omega_store::directory::{Directory, EngineKind, Expected, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::Membership;
use omega_store::node::MessageKind;
use omega_store::replica::{
    Network, PeerMessage, ReplicatedCell, Running, Settings, Transport, bootstrap, start,
};
use omega_store::{CellId, Origin, RealDisk};
use omega_tests::retries::submit;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;

const IDS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];

/// The replica to which no entries are sent until it requests a read index.
type Behind = Arc<Mutex<Option<ReplicaId>>>;

/// A replica's network port. It drops entries for the replica that is kept behind.
#[derive(Debug)]
struct Port {
    from: ReplicaId,
    network: Arc<dyn Transport>,
    behind: Behind,
}

impl Transport for Port {
    fn send(&self, to: ReplicaId, message: PeerMessage) {
        let mut behind = self.behind.lock().unwrap();
        match &message {
            PeerMessage::Raft(agree) if *behind == Some(to) => match agree.kind {
                MessageKind::Append | MessageKind::Snapshot => return,
                _ => {}
            },
            PeerMessage::Raft(agree)
                if *behind == Some(self.from) && agree.kind == MessageKind::ReadIndex =>
            {
                *behind = None;
            }
            _ => {}
        }
        drop(behind);
        self.network.send(to, message);
    }
}

/// Bootstraps and runs the first replicas of a cell with three.
fn run(count: usize, folder: &Path, behind: &Behind) -> Vec<Arc<Running>> {
    let network = Network::default();
    let founders = Membership::initial(IDS);
    let run = |id: ReplicaId| {
        let path = folder.join(id.to_string());
        let origin = Origin { cell: CellId(9), kinds: Kinds::standard() };
        let identity = Identity { origin, replica: id, engine: EngineKind::Segment };
        let directory = Directory::create(Arc::new(RealDisk), &path, identity).unwrap();
        bootstrap(&directory, &founders).unwrap();
        drop(directory);
        let directory = Directory::open(Arc::new(RealDisk), &path, Expected::default()).unwrap();
        let mut settings = Settings { incarnation: 1, ..Settings::default() };
        settings.node.seed = id.0;
        let port = Port { from: id, network: network.port(id), behind: behind.clone() };
        let started = start(directory, settings).unwrap();
        let running = Running::start(started, Arc::new(port), Duration::from_millis(10));
        network.connect(id, &running);
        Arc::new(running)
    };
    IDS.into_iter().take(count).map(run).collect()
}

/// Serves a replica to clients, while the runtime lives.
fn serve(runtime: &Runtime, replica: ReplicaId, running: &Arc<Running>) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let me = ReplicaIdentity { cell: CellId(9), replica };
    let host = Host::replica(running.clone());
    let listener_config = ListenerConfig::open(listener);
    let endless = std::future::pending();
    runtime.spawn(serve_clients(listener_config, host, me, Extras::default(), endless));
    address
}

fn job(name: &str) -> Job {
    Job::batch(name, TaskGroup::new(2, Amounts::new([100])))
}

#[test]
fn a_job_that_is_sent_again_through_a_follower_is_found_there() {
    let folder = tempfile::tempdir().unwrap();
    let behind = Behind::default();
    let running = run(IDS.len(), folder.path(), &behind);
    let cells: Vec<_> = running.iter().map(|one| ReplicatedCell::new(one)).collect();
    let runtime = Runtime::new().unwrap();
    let leads = |one: &Arc<Running>| one.status().leadership.is_leader;
    let mut names = (0..).map(|count| format!("job{count}"));
    // If the chosen replica has just become the leader, it is not behind; the test then tries another job and another
    // follower.
    let (name, id, follower) = names
        .find_map(|name| {
            let leader = running.iter().position(leads)?;
            let follower = (leader + 1) % IDS.len();
            *behind.lock().unwrap() = Some(IDS[follower]);
            let id = submit(&cells[leader], job(&name));
            let is_behind = cells[follower].read(|cell| cell.job(id).is_none());
            is_behind.then_some((name, id, follower))
        })
        .unwrap();

    let address = serve(&runtime, IDS[follower], &running[follower]);
    let request = proto::SubmitJobRequest { job: Some((&job(&name)).into()) };
    let answered = runtime.block_on(async {
        let mut jobs = JobServiceClient::connect(format!("http://{address}")).await.unwrap();
        loop {
            match jobs.submit_job(request.clone()).await.map_err(ApiError::from) {
                Ok(answer) => return answer.into_inner(),
                Err(error) if error.code == ErrorCode::NameTaken => panic!("{error}"),
                // The leader may change at any time.
                Err(_) => {}
            }
        }
    });
    assert_eq!((answered.id, answered.ended), (id.0, false));
}

/// Nothing was sent, so the caller need not check whether something was done.
#[test]
fn a_read_that_gets_no_answer_in_time_does_not_have_an_unknown_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let alone = run(1, folder.path(), &Behind::default());
    let host = Host::replica(alone[0].clone());
    let refused = Runtime::new().unwrap().block_on(host.refresh(Instant::now()));
    assert_eq!(refused.map_err(|error| error.code), Err(ErrorCode::NoLeader));
}
