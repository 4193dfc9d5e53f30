//! `omega dev`: a whole cell on one machine, to try it out.
//!
//! Replicas, a scheduler and an agent of simulated machines are separate processes, as in production, so that each can
//! be killed while the others continue. Their output is written to files in the cell's folder.

mod error;
mod part;

pub(crate) use error::DevError;

use crate::output;
use crate::signals::Signals;
use clap::Args;
use part::{POLL_INTERVAL, Part};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// Run a complete cell on this machine, to try it out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega dev\n  \
    omega dev --replicas 1 --machines 10 --dir cell")]
pub(crate) struct DevArgs {
    /// Number of replicas, from 1 to 7.
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(1..=7))]
    replicas: u16,
    /// Folder of the cell, created if missing. If the folder contains a cell, this cell is started again [default: a
    /// temporary folder, which is deleted at the end].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Client port of the first replica; the other replicas use the following ports. Peer ports are 100 higher, and web
    /// ports are 200 higher.
    #[arg(long, value_name = "PORT", default_value_t = 7600,
          value_parser = clap::value_parser!(u16).range(1024..=65_000))]
    port: u16,
    /// Number of worker threads of the scheduler, from 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// File that contains a profile with the name `default`, for the scheduler; docs/profiles.md describes the format
    /// [default: the built-in profile of batch jobs].
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    /// Number of simulated machines, managed by one agent; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    machines: u32,
}

/// Starts a cell, and runs it until a signal arrives.
pub(crate) fn run(args: &DevArgs) -> Result<(), DevError> {
    let temporary = match &args.dir {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("omega-dev-")
                .tempdir()
                .map_err(|why| DevError::Folder { path: std::env::temp_dir(), why })?,
        ),
    };
    let root = match (&args.dir, &temporary) {
        (Some(dir), _) => dir.clone(),
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => unreachable!("one of the two is there"),
    };
    let folder = |why| DevError::Folder { path: root.clone(), why };
    std::fs::create_dir_all(&root).map_err(folder)?;
    check_that_addresses_are_free(args)?;
    let mut parts = Vec::new();
    for replica in 1..=args.replicas {
        parts.push(Part::start(&format!("r{replica}"), &root, &serve(args, &root, replica))?);
    }
    for (part, replica) in parts.iter_mut().zip(1..) {
        part.wait_until_it_listens(client_address(args, replica))?;
    }
    let cell: Vec<String> =
        (1..=args.replicas).map(|replica| client_address(args, replica).to_string()).collect();
    let cell = cell.join(",");
    let workers = args.workers.to_string();
    // After a restart, the cell may still have the lease of the former scheduler. The new scheduler waits until this
    // lease expires.
    let scheduler =
        ["scheduler", "--cell", &cell, "--workers", &workers, "--standby", "--lease=2s"];
    let mut scheduler = scheduler.map(str::to_owned).to_vec();
    if let Some(profile) = &args.profile {
        scheduler.extend(["--profile".to_owned(), profile.display().to_string()]);
    }
    parts.push(Part::start("scheduler", &root, &scheduler)?);
    if args.machines > 0 {
        let machines = args.machines.to_string();
        let agent = ["agent", "--cell", &cell, "--simulate", &machines].map(str::to_owned);
        parts.push(Part::start("agent", &root, &agent)?);
    }
    print_now(&format!("{}\n", summary(args, &root, &parts)));
    watch(&mut parts)
}

fn client_address(args: &DevArgs, replica: u16) -> SocketAddr {
    ([127, 0, 0, 1], args.port + replica - 1).into()
}

/// Address of a replica's web page.
fn web_address(args: &DevArgs, replica: u16) -> SocketAddr {
    ([127, 0, 0, 1], args.port + 200 + replica - 1).into()
}

/// Address of a replica for its peers.
fn peer_address(args: &DevArgs, replica: u16) -> SocketAddr {
    ([127, 0, 0, 1], args.port + 100 + replica - 1).into()
}

/// Checks that no other process listens on an address of the cell. Otherwise the scheduler and the agent could connect
/// to another cell, and place its jobs on simulated machines.
fn check_that_addresses_are_free(args: &DevArgs) -> Result<(), DevError> {
    for replica in 1..=args.replicas {
        let peer = (args.replicas > 1).then(|| peer_address(args, replica));
        let others = [client_address(args, replica), web_address(args, replica)];
        for address in others.into_iter().chain(peer) {
            TcpListener::bind(address).map_err(|why| DevError::Address { address, why })?;
        }
    }
    Ok(())
}

/// The arguments of a replica.
fn serve(args: &DevArgs, root: &Path, replica: u16) -> Vec<String> {
    let dir = root.join(format!("r{replica}"));
    let is_new = !dir.join("IDENTITY").exists();
    let mut all: Vec<String> = vec!["serve".into()];
    let mut push = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    push("--dir", dir.display().to_string());
    push("--listen", client_address(args, replica).to_string());
    push("--web-listen", web_address(args, replica).to_string());
    if args.replicas > 1 {
        let peer = |id: u16| format!("{id}={}", peer_address(args, id));
        let peers: Vec<String> = (1..=args.replicas).map(peer).collect();
        push("--cell-name", "dev".into());
        push("--replica", replica.to_string());
        push("--peers", peers.join(","));
        if is_new {
            push("--bootstrap", "true".into());
        }
    }
    all
}

fn summary(args: &DevArgs, root: &Path, parts: &[Part]) -> String {
    let mut text = String::new();
    for (part, replica) in parts.iter().zip(1..) {
        let pid = part.id();
        text += &if replica <= args.replicas {
            let address = client_address(args, replica);
            format!("  {:<10} {address}   process {pid}\n", part.name())
        } else {
            format!("  {:<10} {:<16} process {pid}\n", part.name(), "")
        };
    }
    let root = root.display();
    let page = web_address(args, 1);
    let cell = client_address(args, 1);
    let machines = match args.machines {
        0 => format!("none; to add this one: omega agent --no-limits --cell {cell}"),
        machines => format!("{machines}, simulated: tasks take room and time, but no programs run"),
    };
    format!(
        "the cell runs; press Ctrl-C to end it\n\n{text}\nmachines: {machines}\nweb page: \
         http://{page}\nlogs of the processes: {root}/*.log"
    )
}

/// Reports parts that end, until a signal ends this process and all parts.
fn watch(parts: &mut [Part]) -> Result<(), DevError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DevError::Process)?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(DevError::Process)?;
        loop {
            tokio::select! {
                () = signals.end() => return Ok(()),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            for part in parts.iter_mut() {
                if let Some(end) = part.new_end()? {
                    print_now(&format!("{end}; the other processes continue\n"));
                }
            }
        }
    })
}

/// Prints a text at once. If nothing reads it, the cell continues.
fn print_now(text: &str) {
    drop(output::print(text));
}
