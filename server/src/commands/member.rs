//! `omega member`: the replicas of a cell.

use crate::commands::call::Caller;
use crate::commands::shape::{self, MemberShape};
use crate::commands::show::{self, Align, columns};
use crate::commands::{CommandArgs, CommandError};
use clap::{Args, Subcommand};
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::member_step::Step;
use omega_client::{ApiError, ErrorCode, proto};
use serde::Serialize;

/// Operations on replicas.
#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// List the replicas and their leader.
    #[command(after_help = "Example:\n  omega member list")]
    List(CommandArgs),
    /// Add a replica without a vote, which was started with `omega serve --join`.
    ///
    /// When the new replica has caught up with the leader, give it a vote with `omega member promote`.
    #[command(after_help = "Example:\n  omega member add 4 db4.example:7601")]
    Add(AddArgs),
    /// Set the address of a replica that has moved.
    #[command(after_help = "Example:\n  omega member update 2 db7.example:7601")]
    Update(UpdateArgs),
    /// Give a replica a vote. The cell rejects the request until the replica has caught up with the leader.
    #[command(after_help = "Example:\n  omega member promote 4")]
    Promote(ReplicaArgs),
    /// Remove a replica from the cell. Its id cannot be used again.
    ///
    /// The replica need not be running. A running replica accepts no requests after its removal, but does not exit:
    /// stop its process yourself. The cell rejects the removal of the leader (see `omega member transfer`) and of the
    /// last voter, and any removal after which the leader could not reach a majority of the remaining voters.
    #[command(after_help = "Example:\n  omega member remove 3")]
    Remove(ReplicaArgs),
    /// Transfer the leadership to another voter.
    ///
    /// The command does not wait until that replica leads: `omega member list` shows the leader.
    #[command(after_help = "Example:\n  omega member transfer 2")]
    Transfer(ReplicaArgs),
}

/// The replica.
#[derive(Debug, Args)]
pub(crate) struct ReplicaArgs {
    /// Id of the replica, such as 4 or r4.
    #[arg(value_name = "REPLICA", value_parser = replica)]
    replica: u64,
    #[command(flatten)]
    common: CommandArgs,
}

/// A new replica.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Id of the new replica, such as 4 or r4. It must be higher than all ids that the cell has had.
    #[arg(value_name = "REPLICA", value_parser = replica)]
    replica: u64,
    /// Address at which the other replicas connect to the new replica [default: the address of the new replica in the
    /// other replicas' --peers].
    #[arg(value_name = "HOST:PORT")]
    address: Option<String>,
    #[command(flatten)]
    common: CommandArgs,
}

/// A replica and its new address.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Id of the replica, such as 2 or r2.
    #[arg(value_name = "REPLICA", value_parser = replica)]
    replica: u64,
    /// New address at which the other replicas connect to this replica.
    #[arg(value_name = "HOST:PORT")]
    address: String,
    #[command(flatten)]
    common: CommandArgs,
}

/// The replica to which leadership was transferred.
#[derive(Debug, Serialize)]
struct TransferShape {
    asked_to_lead: u64,
}

fn replica(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix('r').unwrap_or(text).parse();
    let number = number.ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} must be the id of a replica, such as 4 or r4"))
}

/// Runs the command.
pub(crate) fn run(command: &MemberCommand) -> Result<(), CommandError> {
    match command {
        MemberCommand::List(common) => list(common),
        MemberCommand::Add(args) => add(args),
        MemberCommand::Update(args) => {
            change(&args.common, vec![locate(args.replica, args.address.clone())])
        }
        MemberCommand::Promote(args) => change(&args.common, vec![Step::Promote(args.replica)]),
        MemberCommand::Remove(args) => change(&args.common, vec![Step::Remove(args.replica)]),
        MemberCommand::Transfer(args) => transfer(args),
    }
}

fn list(common: &CommandArgs) -> Result<(), CommandError> {
    let response = by_leader(&common.caller()?)?;
    let none = || {
        let message = "the cell is in memory only, so it has no replicas";
        CommandError::Refused(ApiError::new(ErrorCode::NotReplicated, message))
    };
    let response = response.ok_or_else(none)?;
    let members = shape::members(&response);
    show::print(common.output, &members, || table(&members, Replier::of(&response)))
}

/// The members as reported by the leader, or by another replica if the leader cannot be reached; `None` for a cell in
/// memory. Only the leader has contact with all replicas.
fn by_leader(caller: &Caller) -> Result<Option<proto::Members>, CommandError> {
    let mut response = caller.describe()?.members;
    for _ in 1..caller.replicas() {
        match &response {
            Some(members) if Replier::of(members) == Replier::Other => {}
            _ => break,
        }
        caller.pass_on();
        response = caller.describe()?.members;
    }
    Ok(response)
}

/// The replica that replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replier {
    Leader,
    Other,
}

impl Replier {
    fn of(members: &proto::Members) -> Replier {
        if members.replica == members.leader { Replier::Leader } else { Replier::Other }
    }
}

/// Limit of the time since the last contact: a replica with a more recent contact counts as reachable. The limit is
/// several heartbeats of raft.
const REACHABLE_MS: u64 = 2000;

/// Time since the last contact with a replica, in words.
fn last_contact(member: &MemberShape, replier: Replier) -> String {
    match (member.silent_ms, replier) {
        (Some(0..REACHABLE_MS), _) => "now".to_owned(),
        (Some(silent), _) => format!("not for {} s", silent / 1000),
        (None, Replier::Leader) => "never".to_owned(),
        (None, Replier::Other) => "ask the leader".to_owned(),
    }
}

/// The state of a replica's disk.
fn disk(member: &MemberShape) -> &'static str {
    match member.disk_full {
        Some(true) => "full",
        Some(false) => "ok",
        None => "-",
    }
}

fn table(members: &[MemberShape], replier: Replier) -> String {
    let heading = ["replica", "role", "leader", "last contact", "disk", "address"];
    let heading = heading.map(|name| (name, Align::Left));
    let row = |member: &MemberShape| {
        let leads = if member.leads { "yes" } else { "" };
        let replica = format!("r{}", member.replica);
        let address = member.peer_address.clone().unwrap_or_else(|| "-".to_owned());
        vec![
            replica,
            member.role.to_owned(),
            leads.to_owned(),
            last_contact(member, replier),
            disk(member).to_owned(),
            address,
        ]
    };
    let rows: Vec<Vec<String>> = members.iter().map(row).collect();
    columns(&heading, &rows)
}

fn add(args: &AddArgs) -> Result<(), CommandError> {
    let address = args.address.clone().map(|address| locate(args.replica, address));
    let steps = [Step::AddLearner(args.replica)].into_iter().chain(address);
    change(&args.common, steps.collect())
}

fn locate(replica: u64, address: String) -> Step {
    Step::Locate(proto::MemberAddress { replica, address })
}

fn change(common: &CommandArgs, steps: Vec<Step>) -> Result<(), CommandError> {
    let caller = common.caller()?;
    let steps = steps.into_iter().map(|step| proto::MemberStep { step: Some(step) }).collect();
    let request = proto::ChangeMembersRequest { steps };
    let response = caller.call(&request, |channel, request| async move {
        CellServiceClient::new(channel).change_members(request).await
    })?;
    // The response names no leader, and does not show which replicas are reachable.
    let now = by_leader(&caller)?.unwrap_or_default();
    let mut changed = proto::Members { all: response.members, ..now.clone() };
    for member in &mut changed.all {
        let Some(same) = now.all.iter().find(|one| one.replica == member.replica) else { continue };
        member.silent_ms = same.silent_ms;
        member.disk_full = same.disk_full;
        if member.peer_address.is_empty() {
            member.peer_address.clone_from(&same.peer_address);
        }
    }
    let members = shape::members(&changed);
    show::print(common.output, &members, || table(&members, Replier::of(&now)))
}

fn transfer(args: &ReplicaArgs) -> Result<(), CommandError> {
    let request = proto::TransferLeaderRequest { to: args.replica };
    args.common.caller()?.call(&request, |channel, request| async move {
        CellServiceClient::new(channel).transfer_leader(request).await
    })?;
    let shape = TransferShape { asked_to_lead: args.replica };
    show::print(args.common.output, &shape, || format!("r{} was asked to lead\n", args.replica))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_replicas_with_a_full_disk() {
        let member = |replica, silent_ms, disk_full| proto::Member {
            replica,
            silent_ms,
            disk_full,
            role: proto::MemberRole::Voter.into(),
            ..proto::Member::default()
        };
        let all = vec![member(1, Some(0), false), member(2, Some(0), true), member(3, None, false)];
        let members = proto::Members { replica: 1, leader: 1, term: 1, all };
        let shown = table(&shape::members(&members), Replier::of(&members));
        let disk = |line: &str| line.split_whitespace().rev().nth(1).map(str::to_owned);
        let disks: Vec<_> = shown.lines().filter_map(disk).collect();
        assert_eq!(disks, ["DISK", "ok", "full", "-"], "{shown}");
    }
}
