//! `omega-kube`: a scheduler for a live Kubernetes API server.

use clap::{Args, Parser, Subcommand};
use omega_kube::client::Client;
use omega_kube::client::config::Config;
use omega_kube::explain::explain;
use omega_kube::profiles::{self, Configuration, ElectionFields, KubeProfile};
use omega_kube::run::engine::Mode;
use omega_kube::run::lease::Candidate;
use omega_kube::run::notices::{Choice, Written};
use omega_kube::run::{Options, run};
use omega_kube::watch;
use omega_workload::{command_line, readable};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Schedule the pods of a Kubernetes cluster with several parallel workers, whose concurrent decisions never overcommit
/// a node.
#[derive(Parser)]
#[command(
    name = "omega-kube",
    version,
    after_help = "Examples:\n  omega-kube run --dry-run --scheduler-name default-scheduler\n  \
        omega-kube explain default/web-0\n\nExit codes: 0 is success; 1 is a failure; 2 is an invalid argument."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Schedule pods until SIGTERM or Ctrl-C.
    Run(RunArgs),
    /// Explain why a pod is pending in the present state of the cluster. Nothing is written.
    Explain(ExplainArgs),
}

/// The API server.
#[derive(Args)]
struct ServerArgs {
    /// Kubeconfig file [default: the files that KUBECONFIG names, or else the service account of the pod that runs
    /// omega-kube, or else ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use [default: its current context].
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Address of an API server that needs no credentials, such as that of `kubectl proxy`.
    #[arg(long, value_name = "URL", conflicts_with = "kubeconfig")]
    server: Option<String>,
    /// Time limit of a request to the API server, in seconds, at most 300.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    request_timeout: u64,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  omega-kube run --dry-run --scheduler-name default-scheduler\n  \
    omega-kube run --scheduler-name omega --workers 4 --leader-elect on"
)]
struct RunArgs {
    /// Schedule the pods whose spec.schedulerName is NAME. May be repeated.
    #[arg(long, value_name = "NAME", default_value = "omega", conflicts_with = "config")]
    scheduler_name: Vec<String>,
    /// KubeSchedulerConfiguration file, whose `profiles` are used instead of --scheduler-name, and whose
    /// `leaderElection` and `clientConnection` are the defaults of other options. A field of scheduling that is not
    /// supported is an error [default: the default plugins of kube-scheduler].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of workers for each profile, which decide in parallel, from 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Maximum number of bindings that are being sent at the same time, from 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,
    /// Write nothing. Compare each decision with the node chosen by the pod's present scheduler, and count the results
    /// in the metric omega_kube_dry_run_total. Name the present scheduler with --scheduler-name.
    #[arg(long)]
    dry_run: bool,
    /// Delete pods of lower priority for pods that fit on no node, as kube-scheduler does.
    #[arg(long, value_name = "on|off", hide_possible_values = true, default_value = "on")]
    preemption: Choice,
    /// Delete a pod that has not started if another scheduler has overcommitted its node and the pod's controller will
    /// create it again. At most one pod per node and minute, and only as PodDisruptionBudgets allow.
    #[arg(long, value_name = "on|off", hide_possible_values = true, default_value = "off")]
    repair_overcommit: Choice,
    /// Write Events, which `kubectl describe pod` shows.
    #[arg(long, value_name = "on|off", hide_possible_values = true, default_value = "on")]
    events: Choice,
    /// Maximum number of PodScheduled=False conditions written per second; 0 writes none.
    #[arg(long, value_name = "N", default_value_t = 5)]
    condition_rate: u32,
    /// Elect a leader among several processes with a Lease, so that only one of them schedules [default: off].
    #[arg(
        long,
        help_heading = "Leader election",
        value_name = "on|off",
        hide_possible_values = true
    )]
    leader_elect: Option<Choice>,
    /// Namespace of the Lease [default: kube-system].
    #[arg(long, help_heading = "Leader election", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// Name of the Lease [default: omega-kube].
    #[arg(long, help_heading = "Leader election", value_name = "NAME")]
    lease_name: Option<String>,
    /// Time after which another process takes over if the Lease is not renewed, in seconds, at most 300 [default: 15].
    #[arg(long, help_heading = "Leader election", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=300))]
    lease_duration: Option<u64>,
    /// Name of this process in Events, and with a random suffix in the Lease [default: the name of the host].
    #[arg(long, help_heading = "Leader election", value_name = "NAME", env = "POD_NAME")]
    identity: Option<String>,
    /// Address at which to serve /healthz, /readyz and /metrics; `off` serves nothing.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10259")]
    listen: String,
    /// Format of log events on standard error; the variable OMEGA_LOG sets their level, which is info by default.
    #[arg(long, default_value = "text")]
    log_format: LogFormat,
    #[command(flatten, next_help_heading = "API server")]
    server: ServerArgs,
}

/// The format of the log.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Args)]
#[command(after_help = "Example:\n  omega-kube explain default/web-0")]
struct ExplainArgs {
    /// Name of the pod, as NAMESPACE/NAME, or as NAME in the namespace `default`.
    #[arg(value_name = "POD")]
    pod: String,
    #[command(flatten, next_help_heading = "API server")]
    server: ServerArgs,
}

fn main() -> ExitCode {
    let cli: Cli = match command_line::parse("omega-kube") {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(async {
                match cli.command {
                    Command::Run(args) => schedule(args).await,
                    Command::Explain(args) => print_explanation(args).await,
                }
            });
            runtime.shutdown_background();
            done
        }
        Err(why) => Err(format!("the runtime cannot start: {why}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => command_line::fail("omega-kube", &why, 1),
    }
}

/// Returns a client. `file` is the kubeconfig file if the options name none.
fn client(args: &ServerArgs, file: Option<&Path>) -> Result<Client, String> {
    let config = match &args.server {
        Some(server) => Ok(Config::plain(server)),
        None => Config::find(args.kubeconfig.as_deref().or(file), args.context.as_deref()),
    };
    let made =
        config.and_then(|config| Client::new(config, Duration::from_secs(args.request_timeout)));
    made.map_err(|why| why.to_string())
}

fn log(format: LogFormat) {
    let targets = std::env::var("OMEGA_LOG").ok().and_then(|level| level.parse().ok());
    let targets = targets.unwrap_or_else(|| Targets::new().with_default(tracing::Level::INFO));
    let text = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let shown = tracing_subscriber::registry().with(targets);
    match format {
        LogFormat::Text => shown.with(text).init(),
        LogFormat::Json => shown.with(text.json()).init(),
    }
}

/// Returns the name of the host.
fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().is_empty() { "omega-kube".into() } else { host.trim().into() }
}

/// Returns a name that no other process has, not even one that is started again under the same name: a request of its
/// predecessor may still be in flight.
fn identity(name: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    format!("{name}_{random:016x}")
}

async fn schedule(args: RunArgs) -> Result<(), String> {
    log(args.log_format);
    omega_kube::run::end_on_panic();
    let listen = match args.listen.as_str() {
        "off" => None,
        text => Some(text.parse::<SocketAddr>().map_err(|_| {
            format!("--listen {text:?} must be an address such as 127.0.0.1:10259, or off")
        })?),
    };
    let configuration = configuration(&args)?;
    let client = client(&args.server, configuration.kubeconfig.as_deref())?;
    let instance = args.identity.clone().unwrap_or_else(host);
    let candidate = candidate(&args, configuration.election, identity(&instance));
    let (events, conditions_per_second) =
        if args.dry_run { (Choice::Off, 0) } else { (args.events, args.condition_rate) };
    let options = Options {
        profiles: configuration.profiles,
        workers: args.workers,
        in_flight: args.in_flight,
        mode: if args.dry_run { Mode::DryRun } else { Mode::Bind },
        preemption: args.preemption,
        repair: args.repair_overcommit,
        written: Written { events, conditions_per_second },
        candidate: candidate.filter(|_| !args.dry_run),
        listen,
        instance,
        watch: watch::Settings::default(),
    };
    run(client, options, ended()).await.map_err(|why| why.to_string())
}

/// Reads the configuration file, or makes the default profiles of the given scheduler names.
fn configuration(args: &RunArgs) -> Result<Configuration, String> {
    let Some(path) = &args.config else {
        let profiles = args.scheduler_name.iter().map(KubeProfile::new).collect();
        return Ok(Configuration { profiles, ..Configuration::default() });
    };
    let text = readable::read_text(path).map_err(|why| why.to_string());
    let read = text.and_then(|text| profiles::parse(&text));
    read.map_err(|why| format!("--config {}: {why}", path.display()))
}

/// Returns the lease to acquire; `None` without leader election. An option is stronger than the file.
fn candidate(args: &RunArgs, file: ElectionFields, identity: String) -> Option<Candidate> {
    let elects = args.leader_elect.map_or(file.elects == Some(true), |it| it == Choice::On);
    let namespace = args.lease_namespace.clone().or(file.namespace);
    let name = args.lease_name.clone().or(file.name);
    let duration = args.lease_duration.map(Duration::from_secs).or(file.duration);
    elects.then(|| Candidate {
        namespace: namespace.unwrap_or_else(|| "kube-system".into()),
        name: name.unwrap_or_else(|| "omega-kube".into()),
        identity,
        duration: duration.unwrap_or(Duration::from_secs(15)),
    })
}

/// Waits until the process gets SIGTERM or Ctrl-C.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

async fn print_explanation(args: ExplainArgs) -> Result<(), String> {
    let client = client(&args.server, None)?;
    let (namespace, name) = args.pod.split_once('/').unwrap_or(("default", &args.pod));
    println!("{}", explain(&client, namespace, name).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_started_again_under_its_name_is_another_holder_of_the_lease() {
        let (first, second) = (identity("pod-0"), identity("pod-0"));
        assert!(first.starts_with("pod-0_") && second.starts_with("pod-0_"));
        assert_ne!(first, second);
        assert!(!host().is_empty());
    }
}
