//! `omega context`: names for the cells with which a user works.

use crate::commands::CommandError;
use crate::commands::show::{self, Align, Format, columns};
use crate::connect::{self, CellArgs};
use crate::context::{self, Context, ContextError};
use crate::output;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

/// Commands for contexts.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts. `*` marks the current one.
    #[command(after_help = "Example:\n  omega context list")]
    List(ListArgs),
    /// Add a context, or replace one of the same name. The first context becomes the current one.
    #[command(
        after_help = "Example:\n  omega context set prod --cell 10.0.0.1:7600,10.0.0.2:7600,10.0.0.3:7600"
    )]
    Set(SetArgs),
    /// Make a context the current one, which commands use by default.
    #[command(after_help = "Example:\n  omega context use prod")]
    Use(ContextName),
    /// Remove a context.
    #[command(after_help = "Example:\n  omega context remove prod")]
    Remove(ContextName),
}

/// Format of the list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Output format.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Name of a context.
#[derive(Debug, Args)]
pub(crate) struct ContextName {
    /// Name of the context.
    #[arg(value_name = "NAME")]
    name: String,
}

/// A context and its cell.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Name of the context.
    #[arg(value_name = "NAME")]
    name: String,
    /// Addresses of the cell's replicas, separated by commas.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required = true,
          value_parser = connect::replica)]
    cell: Vec<String>,
    /// Certificate of the authority that issued the replicas' certificates, if the cell uses TLS. The three --tls
    /// options must be given together.
    #[arg(long, value_name = "FILE.pem", requires_all = ["tls_cert", "tls_key"])]
    tls_ca: Option<PathBuf>,
    /// Your certificate, which the cell checks.
    #[arg(long, value_name = "FILE.pem", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Key of your certificate; only its owner may have access to the file.
    #[arg(long, value_name = "FILE.key", requires_all = ["tls_ca", "tls_cert"])]
    tls_key: Option<PathBuf>,
}

/// A context as shown in lists.
#[derive(Debug, Serialize)]
struct ContextShape {
    name: String,
    current: bool,
    #[serde(flatten)]
    context: Context,
}

/// Runs a subcommand.
pub(crate) fn run(command: &ContextCommand) -> Result<(), CommandError> {
    let file = context::path().ok_or(ContextError::NoHome)?;
    let mut all = context::read(&file)?;
    let unknown = |name: &str| ContextError::Unknown { file: file.clone(), name: name.to_owned() };
    let done = match command {
        ContextCommand::List(args) => {
            let shape = |(name, context): (String, Context)| ContextShape {
                current: all.current.as_ref() == Some(&name),
                name,
                context,
            };
            let shapes: Vec<ContextShape> = all.contexts.clone().into_iter().map(shape).collect();
            return show::print(args.output, &shapes, || {
                let precedence = if has_other_cell() { PRECEDENCE } else { "" };
                format!("{}{precedence}", table(&shapes))
            });
        }
        ContextCommand::Set(args) => {
            let absolute = |path: &PathBuf| std::path::absolute(path);
            let absolute = |path: &Option<PathBuf>| {
                let path = path.as_ref().map(absolute).transpose();
                path.map_err(|why| ContextError::Write { file: file.clone(), why })
            };
            let context = Context {
                cell: args.cell.clone(),
                tls_ca: absolute(&args.tls_ca)?,
                tls_cert: absolute(&args.tls_cert)?,
                tls_key: absolute(&args.tls_key)?,
            };
            CellArgs::check(&args.name, &context)?;
            all.contexts.insert(args.name.clone(), context);
            all.current.get_or_insert_with(|| args.name.clone());
            format!("context {} is set", show::clean_name(&args.name))
        }
        ContextCommand::Use(args) => {
            if !all.contexts.contains_key(&args.name) {
                return Err(unknown(&args.name).into());
            }
            all.current = Some(args.name.clone());
            let mut done = format!("context {} is the current one", show::clean_name(&args.name));
            if has_other_cell() {
                done += "\nwarning: OMEGA_CELL is set, and takes precedence over it";
            }
            done
        }
        ContextCommand::Remove(args) => {
            all.contexts.remove(&args.name).ok_or_else(|| unknown(&args.name))?;
            let was_current = all.current.take_if(|current| *current == args.name).is_some();
            let hint = if was_current {
                "; none is the current one now: choose one with `omega context use`"
            } else {
                ""
            };
            format!("context {} is removed{hint}", show::clean_name(&args.name))
        }
    };
    context::write(&file, &all)?;
    Ok(output::print(&format!("{done}\n"))?)
}

/// Last line of a list whose current context has no effect.
const PRECEDENCE: &str = "OMEGA_CELL is set, and takes precedence over the current context\n";

/// Whether the environment names a cell.
fn has_other_cell() -> bool {
    std::env::var_os("OMEGA_CELL").is_some()
}

fn table(shapes: &[ContextShape]) -> String {
    let left = |name| (name, Align::Left);
    let row = |shape: &ContextShape| {
        let current = if shape.current { "*" } else { "" };
        let secured = if shape.context.tls_ca.is_some() { "yes" } else { "no" };
        vec![current.into(), shape.name.clone(), shape.context.cell.join(","), secured.into()]
    };
    let rows: Vec<Vec<String>> = shapes.iter().map(row).collect();
    columns(&[left("current"), left("name"), left("cell"), left("tls")], &rows)
}
