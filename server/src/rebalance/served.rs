//! `omega rebalance` on a served cell, or on a cell from a backup or a stopped replica.

use super::error::ServedError;
use super::unknown::{KnownNames, unknown};
use super::{ALL, NAME, RebalanceArgs, RebalanceError, tried};
use crate::connect::CellArgs;
use crate::run::Error;
use crate::{log, output};
use clap::Parser;
use omega_cellstate::{CellHandle, View};
use omega_client::RemoteCell;
use omega_run::report::rebalanced::RebalanceReport;
use omega_run::{Carry, Pass, rebalance_at};
use omega_store::backup::read_cell;
use omega_store::history::ReplayOptions;
use omega_workload::command_line::argument_error;
use std::path::{Path, PathBuf};

/// Rebalances a copy of a cell from a backup or a stopped replica.
pub(super) fn from_backup(args: &RebalanceArgs, from: &Path) -> Result<RebalanceReport, Error> {
    let outputs: Vec<&Path> = args.output.json.iter().map(PathBuf::as_path).collect();
    output::check(&outputs, &[from])?;
    let options = ReplayOptions { scope: log::which(args.all), ..ReplayOptions::default() };
    let cell = read_cell(from, &options)
        .map_err(|why| ServedError::Kept(Box::new(why)))
        .map_err(RebalanceError::Served)?;
    let name = format!("{} at version {}", from.display(), cell.version());
    let settings = args.settings(cell.kinds(), Vec::new())?;
    tried(args, cell, name, settings)
}

/// Options for calling a served cell, read from the environment, for commands that have no flags for them.
#[derive(Debug, Parser)]
struct Environment {
    #[command(flatten)]
    cell: CellArgs,
}

/// Rebalances a served cell.
pub(super) fn served(args: &RebalanceArgs, cell: &str) -> Result<RebalanceReport, Error> {
    if !args.pass.drain.is_empty() {
        return Err(Error::Arguments(
            "--drain is not for --cell: drain a machine of a served cell with `omega machine \
             drain`",
        ));
    }
    let outputs: Vec<&Path> = args.output.json.iter().map(PathBuf::as_path).collect();
    output::check(&outputs, &[])?;
    let environment = Environment::try_parse_from(["omega", "--cell", cell]);
    let wrong = |error: clap::Error| ServedError::Environment(argument_error("omega", &error));
    let arguments = environment.map_err(wrong).map_err(RebalanceError::Served)?;
    let address = arguments.cell.address().map_err(ServedError::Context);
    let address = address.map_err(RebalanceError::Served)?;
    let remote = RemoteCell::connect(&address)
        .map_err(ServedError::Address)
        .map_err(RebalanceError::Served)?;
    let (id, number) =
        remote.register(NAME.into()).map_err(ServedError::Cell).map_err(RebalanceError::Served)?;
    let mut view = View::new(id, number);
    view.sync(&remote).map_err(ServedError::Cell).map_err(RebalanceError::Served)?;
    let settings = args.settings(view.kinds(), Vec::new())?;
    let clock = args.clock()?;
    let mut go_on = || clock.spent_of(ALL) < 1.0;
    let carry = if args.output.apply { Carry::Out } else { Carry::PlanOnly };
    let annealing = args.annealing(&clock);
    let unknown = unknown(&settings.objectives, &KnownNames::of_view(&view));
    let pass = Pass { settings, drain: Vec::new(), annealing, go_on: &mut go_on, carry };
    let name = format!("the cell at {cell}");
    let mut report = rebalance_at(&remote, name, pass).map_err(RebalanceError::Run)?;
    report.notes.extend(unknown);
    Ok(report)
}
