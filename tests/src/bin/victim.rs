//! A durable replica under load, which a test kills: `victim FOLDER`. It prints the number of each acknowledged
//! transaction.

use omega_cellstate::CellHandle;
use omega_store::RealDisk;
use omega_store::log::ReplicaId;
use omega_store::replica::{Network, ReplicatedCell, Running};
use omega_tests::durable::{BEFORE, open, setup, transaction};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: victim FOLDER")?;
    let started = open(Arc::new(RealDisk), Path::new(&folder))?;
    let network = Network::default();
    let running = Running::start(started, network.port(ReplicaId(1)), Duration::from_millis(50));
    let cell = ReplicatedCell::new(&running);
    cell.catch_up_with_all()?;
    if cell.read(|cell| cell.version().0) < BEFORE {
        for command in setup() {
            // The command is rejected if an earlier run has already applied it.
            let _ = cell.apply(command);
        }
    }
    let (_, mut next) = cell.register("load".into())?;
    let mut out = std::io::stdout();
    loop {
        let txn = cell.read(|cell| transaction(cell, next));
        let commit = cell.commit(&txn)?;
        if !commit.conflicts.is_empty() {
            return Err(format!("transaction {next}: {:?}", commit.conflicts).into());
        }
        writeln!(out, "{next}")?;
        out.flush()?;
        next += 1;
    }
}
