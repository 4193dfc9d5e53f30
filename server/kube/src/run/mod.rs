//! The program: watches, engine, workers and outbox together.
//!
//! In reading order: [`input`], [`first`], [`engine`], `victims`, `attempts`, `figures`, `groups`, [`outbox`],
//! `repairs`, `refusals`, [`fence`], [`lease`], [`notices`], [`reasons`], [`preempter`], [`metrics`], `process`,
//! [`serve`].

mod attempt_notes;
mod attempts;
pub mod engine;
pub mod fence;
mod figures;
pub mod first;
mod groups;
pub mod input;
pub mod lease;
pub mod metrics;
pub mod notices;
pub mod outbox;
pub mod preempter;
mod process;
pub mod reasons;
mod refusals;
mod repairs;
pub mod serve;
mod victims;

use self::engine::{Engine, EngineError, Mode, Readiness};
use self::fence::Fence;
use self::input::{Input, Into};
use self::lease::{Candidate, Election};
use self::metrics::Metrics;
use self::notices::{Choice, Notices, Written};
use self::outbox::Outbox;
use self::preempter::Preempting;
use self::serve::Shown;
use crate::adapter::storage::{Stored, StoredKind};
use crate::client::Client;
use crate::profiles::KubeProfile;
use crate::watch::progress::Progress;
use crate::watch::{self, Event, Resource};
use omega_workload::kube::api::{DisruptionBudget, Namespace, Node, Pod};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// Maximum number of queued inputs. If the queue is full, the watches wait.
const QUEUE_MAX: usize = 8192;

/// All pods that have not ended. Ended pods use no resources.
pub const PODS: Resource =
    Resource { path: "/api/v1/pods", fields: "status.phase!=Succeeded,status.phase!=Failed" };

/// All nodes.
pub const NODES: Resource = Resource { path: "/api/v1/nodes", fields: "" };

/// All disruption budgets.
pub const BUDGETS: Resource = Resource { path: "/apis/policy/v1/poddisruptionbudgets", fields: "" };

/// All namespaces.
pub const NAMESPACES: Resource = Resource { path: "/api/v1/namespaces", fields: "" };

/// Starts the watches of the storage objects.
pub(crate) fn watch_storage(
    client: &Client,
    settings: watch::Settings,
    queue: &Sender<Input>,
    progress: &Progress,
) -> [tokio::task::JoinHandle<()>; 7] {
    macro_rules! keep {
        ($kind:ident, $path:literal) => {{
            let (client, queue, progress) = (client.clone(), queue.clone(), progress.clone());
            let wrap = |event: Event<_>| {
                Input::Storage(StoredKind::$kind, event.map(|it| Stored::$kind(Box::new(it))))
            };
            let resource = Resource { path: $path, fields: "" };
            tokio::spawn(async move {
                watch::keep(&client, resource, settings, Into { queue, wrap, progress }).await;
            })
        }};
    }
    [
        keep!(Claim, "/api/v1/persistentvolumeclaims"),
        keep!(Volume, "/api/v1/persistentvolumes"),
        keep!(Class, "/apis/storage.k8s.io/v1/storageclasses"),
        keep!(CsiNode, "/apis/storage.k8s.io/v1/csinodes"),
        keep!(Driver, "/apis/storage.k8s.io/v1/csidrivers"),
        keep!(Capacity, "/apis/storage.k8s.io/v1/csistoragecapacities"),
        keep!(Attachment, "/apis/storage.k8s.io/v1/volumeattachments"),
    ]
}

/// Options of the program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The profiles, by the `schedulerName`s of the pods to schedule.
    pub profiles: Vec<KubeProfile>,
    /// Number of workers of each profile.
    pub workers: u32,
    /// Maximum number of bindings in flight.
    pub in_flight: u32,
    /// Use of the decisions: carried out, or only compared.
    pub mode: Mode,
    /// Whether pods of lower priority are deleted for pods that fit on no node.
    pub preemption: Choice,
    /// Whether pods that have not started are deleted from nodes that another scheduler has overcommitted.
    pub repair: Choice,
    /// Kinds of notices that are written to users.
    pub written: Written,
    /// The lease that the process needs to schedule; `None` without leader election.
    pub candidate: Option<Candidate>,
    /// The address for probes and metrics.
    pub listen: Option<SocketAddr>,
    /// The name of this process in Events.
    pub instance: String,
    /// Settings of the watches.
    pub watch: watch::Settings,
}

impl Options {
    /// Returns the settings of the adapter, for requests with this time limit.
    fn of_adapter(&self, timeout: Duration) -> crate::adapter::Settings {
        let binds = self.mode == Mode::Bind;
        crate::adapter::Settings {
            scheduler_names: self.profiles.iter().map(|profile| profile.name.clone()).collect(),
            request_timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            preempts: self.preemption == Choice::On && binds,
            repairs: self.repair == Choice::On && binds,
            binds,
        }
    }

    /// Returns the name of the Lease in metrics, even without leader election.
    fn lease_name(&self) -> &str {
        self.candidate.as_ref().map_or("omega-kube", |candidate| &candidate.name)
    }
}

/// Error that ends the program.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The engine cannot continue. The underlying error has the remedy.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The address for probes and metrics cannot be used. Give another address.
    #[error("--listen {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// The system cannot start a thread. Raise its limits.
    #[error("a thread cannot start: {0}")]
    Thread(std::io::Error),
    /// Another process has the lease. Start this process again, so that it waits for the lease.
    #[error(
        "the lease was lost, and another process may lead now: start this process again, so that \
         it waits for the lease"
    )]
    LeaseLost,
}

/// Runs the program until it is told to end, or until an error ends it.
///
/// # Errors
/// If the program cannot start or continue.
pub async fn run(
    client: Client,
    options: Options,
    end: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let (queue, inputs) = channel(QUEUE_MAX);
    let metrics = Arc::<Metrics>::default();
    let (readiness, progress) = (Readiness::default(), Progress::default());
    let fence = if options.candidate.is_some() { Fence::closed() } else { Fence::open() };
    let shown = Shown {
        readiness: readiness.clone(),
        progress: progress.clone(),
        metrics: Arc::clone(&metrics),
    };
    listen(&options, shown).await?;
    let outbox = Outbox::new(
        client.clone(),
        options.in_flight,
        queue.clone(),
        fence.clone(),
        Arc::clone(&metrics),
    );
    let parts = notices::Parts {
        client: client.clone(),
        fence: fence.clone(),
        metrics: Arc::clone(&metrics),
        instance: options.instance.clone(),
        written: options.written,
    };
    let notices = Notices::start(parts, queue.clone()).map_err(RunError::Thread)?;
    metrics.begin_profiles(options.profiles.iter().map(|profile| &*profile.name));
    metrics.stands_by(options.lease_name());
    let preempting = Preempting::start(queue.clone()).map_err(RunError::Thread)?;
    let engine = Engine::new(engine::Parts {
        settings: options.of_adapter(client.timeout()),
        profiles: options.profiles.clone(),
        workers: options.workers,
        mode: options.mode,
        outbox: outbox.clone(),
        notices,
        preempting,
        metrics: Arc::clone(&metrics),
        progress: progress.clone(),
        readiness,
        queue: queue.clone(),
    });
    let mut thread = tokio::task::spawn_blocking(move || engine.run(inputs));
    let watches = watches(&client, &options, &queue, &progress);
    let lease = options.lease_name().to_owned();
    let mut election = options.candidate.map(|candidate| Election::new(client, candidate, fence));
    let ended = tokio::select! {
        ended = &mut thread => Some(ended),
        () = end => None,
        () = lead(&mut election, &lease, &queue, &metrics) => return Err(RunError::LeaseLost),
    };
    watches.into_iter().for_each(|watch| watch.abort());
    if let Some(ended) = ended {
        ended.map_err(|why| RunError::Thread(std::io::Error::other(why)))??;
        return Ok(());
    }
    // The order matters: decisions stop first, then the requests in flight end, and only then is the lease released. If
    // a request is still in flight, the lease is left to expire.
    let _ = queue.send(Input::Stop).await;
    let _ = thread.await;
    let is_idle = outbox.close().await;
    if let Some(election) = election.as_mut().filter(|_| is_idle) {
        election.give_back().await;
    }
    Ok(())
}

/// Makes a panic in any thread or task end the process. Otherwise, one part would be missing without notice: a worker,
/// a watch, or a binding on its way. The process is started again, or another process takes over.
pub fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        tracing::error!("omega-kube ends because of a bug: report the message above");
        std::process::exit(1);
    }));
}

async fn listen(options: &Options, shown: Shown) -> Result<(), RunError> {
    let Some(address) = options.listen else { return Ok(()) };
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.map_err(|why| RunError::Listen(address, why))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "probes and metrics");
    }
    tokio::spawn(serve::serve(listener, shown));
    Ok(())
}

/// Starts the watches, and the sender of ticks.
fn watches(
    client: &Client,
    options: &Options,
    queue: &Sender<Input>,
    progress: &Progress,
) -> Vec<tokio::task::JoinHandle<()>> {
    let settings = options.watch;
    let (of, to) = (|| queue.clone(), || progress.clone());
    let pods = Into { queue: of(), wrap: Input::Pods, progress: to() };
    let nodes = Into { queue: of(), wrap: |event| Input::Nodes(Box::new(event)), progress: to() };
    let namespaces = Into { queue: of(), wrap: Input::Namespaces, progress: to() };
    let budgets = Into { queue: of(), wrap: Input::Budgets, progress: to() };
    let clients = [client.clone(), client.clone(), client.clone(), client.clone()];
    let [of_pods, of_nodes, of_namespaces, of_budgets] = clients;
    let ticks = queue.clone();
    let storage = watch_storage(client, settings, queue, progress);
    let others = [
        tokio::spawn(
            async move { watch::keep::<Arc<Pod>, _>(&of_pods, PODS, settings, pods).await },
        ),
        tokio::spawn(
            async move { watch::keep::<Node, _>(&of_nodes, NODES, settings, nodes).await },
        ),
        tokio::spawn(async move {
            watch::keep::<Namespace, _>(&of_namespaces, NAMESPACES, settings, namespaces).await;
        }),
        tokio::spawn(async move {
            watch::keep::<DisruptionBudget, _>(&of_budgets, BUDGETS, settings, budgets).await;
        }),
        tokio::spawn(async move {
            let mut clock = tokio::time::interval(Duration::from_millis(500));
            while ticks.send(Input::Tick).await.is_ok() {
                clock.tick().await;
            }
        }),
    ];
    let groups = tokio::spawn(groups::keep(client.clone(), settings, queue.clone(), to()));
    others.into_iter().chain(storage).chain([groups]).collect()
}

/// Waits until this process is the leader, and renews the lease until it is lost.
async fn lead(
    election: &mut Option<Election>,
    name: &str,
    queue: &Sender<Input>,
    metrics: &Metrics,
) {
    if let Some(election) = election {
        tracing::info!("waiting for the lease");
        election.win().await;
    }
    metrics.leads(name);
    if queue.send(Input::Lead).await.is_err() {
        return std::future::pending().await;
    }
    match election {
        Some(election) => election.keep().await,
        None => std::future::pending().await,
    }
}
