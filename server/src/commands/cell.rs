//! `omega cell`: identity of a cell, and usage of its resources.

use crate::commands::shape::{self, ByKind, MemberShape};
use crate::commands::show::{self, Align, columns, facts};
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use omega_client::{convert, proto};
use omega_core::{Kinds, ResourceKind};
use serde::Serialize;

/// The cell to describe.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega cell\n  omega cell --cell 10.0.0.1:7600,10.0.0.2:7600 -o json"
)]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    common: CommandArgs,
}

/// A cell.
#[derive(Debug, Serialize)]
struct CellShape {
    cell: String,
    version: u64,
    machines: u32,
    jobs: u64,
    resources: ByKind<SumShape>,
    /// Time for which ended jobs are kept, in milliseconds.
    ttl_after_finished_ms: u64,
    /// `null` if the cell is only in memory.
    members: Option<Vec<MemberShape>>,
    /// `null` if no leader is known.
    leader: Option<u64>,
}

/// Amount of one kind on all machines together.
#[derive(Clone, Copy, Debug, Serialize)]
struct SumShape {
    claimable: u64,
    claimed: u64,
}

/// Runs the command.
pub(crate) fn run(args: &DescribeArgs) -> Result<(), CommandError> {
    let response = args.common.caller()?.describe()?;
    let kinds = convert::kinds(response.kinds.clone())?;
    let shape = shape_of(&kinds, response);
    show::print(args.common.output, &shape, || table(&kinds, &shape))
}

fn shape_of(kinds: &Kinds, response: proto::DescribeCellResponse) -> CellShape {
    let sum = |(index, (_, kind)): (usize, (omega_core::KindId, &ResourceKind))| {
        let of = |list: &[u64]| list.get(index).copied().unwrap_or_default();
        let sums = SumShape { claimable: of(&response.claimable), claimed: of(&response.claimed) };
        (kind.name.clone(), sums)
    };
    let resources = kinds.iter().enumerate().map(sum).collect();
    let leader =
        response.members.as_ref().map(|members| members.leader).filter(|leader| *leader > 0);
    CellShape {
        resources,
        leader,
        members: response.members.as_ref().map(shape::members),
        ttl_after_finished_ms: response.policy.map_or(0, |policy| policy.ttl_after_finished_ms),
        cell: response.cell,
        version: response.version,
        machines: response.machines,
        jobs: response.jobs,
    }
}

fn table(kinds: &Kinds, cell: &CellShape) -> String {
    let replicas = match &cell.members {
        None => "none: the cell is in memory only".to_owned(),
        Some(all) => {
            let one = |member: &MemberShape| match (member.leads, member.role) {
                (true, _) => format!("r{} leads", member.replica),
                (false, "voter") => format!("r{}", member.replica),
                (false, role) => format!("r{} ({role})", member.replica),
            };
            let all = all.iter().map(one).collect::<Vec<_>>().join(", ");
            let none =
                if cell.leader.is_none() { "; none leads, so nothing can change" } else { "" };
            all + none
        }
    };
    let head = facts(&[
        ("cell", cell.cell.clone()),
        ("version", cell.version.to_string()),
        ("machines", cell.machines.to_string()),
        ("jobs", cell.jobs.to_string()),
        ("replicas", replicas),
    ]);
    let row = |(id, kind): (omega_core::KindId, &ResourceKind)| {
        let SumShape { claimable, claimed } = cell.resources[&kind.name];
        let free = kinds.display(id, claimable.saturating_sub(claimed));
        let percent = match claimable {
            0 => String::new(),
            all => format!("{:.0} %", claimed as f64 / all as f64 * 100.0),
        };
        vec![
            kind.name.clone(),
            kinds.display(id, claimable),
            kinds.display(id, claimed),
            free,
            percent,
        ]
    };
    let right = |name| (name, Align::Right);
    let heading = [
        ("resource", Align::Left),
        right("claimable"),
        right("claimed"),
        right("free"),
        right("taken"),
    ];
    let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    format!("{head}\n{}", columns(&heading, &rows))
}
