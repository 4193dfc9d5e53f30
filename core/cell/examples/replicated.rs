//! A replicated cell in one process: three replicas, each with its own log, and a scheduler at one of them.
//!
//! `cargo run -p omega-cell --features store --example replicated`

use omega_cell::store::directory::{Directory, EngineKind, Identity};
use omega_cell::store::log::ReplicaId;
use omega_cell::store::membership::Membership;
use omega_cell::store::replica::Settings as ReplicaSettings;
use omega_cell::store::replica::{Network, ReplicatedCell, Running, bootstrap, start};
use omega_cell::store::{CellId, Origin, RealDisk};
use omega_cell::{Amounts, Command, Job, Kinds, Machine, Profile, Scheduler, Settings};
use omega_cell::{TaskGroup, Unobserved};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Creates three replicas in subfolders of a folder, and starts them.
fn start_cell(folder: &Path) -> Result<Vec<Running>, Box<dyn Error>> {
    let ids = [1, 2, 3].map(ReplicaId);
    let origin = Origin { cell: CellId(42), kinds: Kinds::standard() };
    let network = Network::default();
    let mut replicas = Vec::new();
    for id in ids {
        let engine = EngineKind::Segment;
        let identity = Identity { origin: origin.clone(), replica: id, engine };
        let directory =
            Directory::create(Arc::new(RealDisk), &folder.join(id.to_string()), identity)?;
        bootstrap(&directory, &Membership::initial(ids))?;
        let mut settings = ReplicaSettings { incarnation: id.0, ..ReplicaSettings::default() };
        settings.node.seed = id.0;
        let tick = Duration::from_millis(50);
        let replica = Running::start(start(directory, settings)?, network.port(id), tick);
        network.connect(id, &replica);
        replicas.push(replica);
    }
    Ok(replicas)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let replicas = start_cell(folder.path())?;
    let cells: Vec<ReplicatedCell> = replicas.iter().map(ReplicatedCell::new).collect();
    // The call returns once a leader has been elected and the cell is up to date.
    cells[0].catch_up_with_all()?;
    cells[0].apply(Command::RegisterMachine(Machine::new("m", Amounts::new([8000, 64 << 30]))))?;
    cells[0]
        .apply(Command::SubmitJob(Job::batch("web", TaskGroup::new(3, Amounts::new([500])))))?;

    let mut scheduler = Scheduler::new(&cells[1], Profile::batch(), Settings::new("default"))?;
    let placed = scheduler.step(&cells[1], 0, &mut Unobserved)?.placed;
    for cell in &cells {
        cell.catch_up_with_all()?;
    }
    let versions: Vec<_> = cells.iter().map(|cell| cell.read(|cell| cell.version())).collect();
    println!("placed {placed} tasks; the replicas are at versions {versions:?}");
    assert!(placed == 3 && versions.windows(2).all(|pair| pair[0] == pair[1]));
    replicas.into_iter().for_each(Running::end);
    Ok(())
}
