//! `omega cell`: identity of a cell, and usage of its resources.

use crate::commands::shape::{self, ByKind, MemberShape};
use crate::commands::show::{self, Align, columns, facts};
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use omega_client::{ApiError, convert, proto};
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
    let caller = args.common.caller()?;
    let response = with_leader(caller.replicas(), |attempt| {
        if attempt > 0 {
            caller.pass_on();
        }
        caller.describe().map_err(describes_nothing)
    })?;
    let kinds = convert::kinds(response.kinds.clone())?;
    let shape = shape_of(&kinds, response);
    show::print(args.common.output, &shape, || table(&kinds, &shape))
}

/// The first reply that names a leader, or is from a cell in memory; else the first reply. A replica that cannot reach
/// the others knows no leader, although they may have one.
fn with_leader(
    replicas: usize,
    mut ask: impl FnMut(usize) -> Result<proto::DescribeCellResponse, CommandError>,
) -> Result<proto::DescribeCellResponse, CommandError> {
    let has_leader = |response: &proto::DescribeCellResponse| {
        response.members.as_ref().is_none_or(|members| members.leader > 0)
    };
    let first = ask(0)?;
    if has_leader(&first) {
        return Ok(first);
    }
    let mut others = (1..replicas).filter_map(|attempt| ask(attempt).ok());
    Ok(others.find(has_leader).unwrap_or(first))
}

/// Replaces an error that refers to this command.
fn describes_nothing(error: CommandError) -> CommandError {
    match error {
        CommandError::NoLeader { cell, timeout, code } => {
            let why = "it has no leader: start enough replicas for a majority";
            CommandError::NoAnswer { cell, timeout, why: Box::new(ApiError::new(code, why)) }
        }
        other => other,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use omega_client::ErrorCode;
    use std::time::Duration;

    fn reply(replica: u64, leader: u64) -> Result<proto::DescribeCellResponse, CommandError> {
        let members = proto::Members { replica, leader, ..Default::default() };
        Ok(proto::DescribeCellResponse { members: Some(members), ..Default::default() })
    }

    #[test]
    fn a_replica_without_a_leader_is_not_believed_alone() {
        let down = || {
            let why = Box::new(ApiError::new(ErrorCode::Unreachable, "down"));
            Err(CommandError::NoAnswer { cell: String::new(), timeout: Duration::ZERO, why })
        };
        let replier = |replies: [fn() -> Result<proto::DescribeCellResponse, CommandError>; 3]| {
            let mut replies = replies.into_iter();
            let response = with_leader(3, |_| replies.next().expect("three replicas")()).ok()?;
            Some((response.members?.replica, replies.len()))
        };
        assert_eq!(replier([|| reply(1, 0), || reply(2, 2), || reply(3, 2)]), Some((2, 1)));
        assert_eq!(replier([|| reply(1, 0), || reply(2, 0), || reply(3, 0)]), Some((1, 0)));
        assert_eq!(replier([|| reply(2, 2), || reply(3, 2), || reply(1, 0)]), Some((2, 2)));
        let mut replies = [reply(1, 0), down(), reply(3, 2)].into_iter();
        let response = with_leader(3, |_| replies.next().expect("three replicas"));
        assert_eq!(response.expect("some reply").members.map(|members| members.replica), Some(3));
    }
}
