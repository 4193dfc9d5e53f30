//! `omega policy`: settings of the whole cell.

use crate::commands::files::amount;
use crate::commands::shape::DoneShape;
use crate::commands::show::{self, facts};
use crate::commands::{CommandArgs, CommandError};
use clap::{Args, Subcommand};
use omega_client::proto;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_core::KindId;
use omega_core::limits::OVERCOMMIT_PERCENT_MAX;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Operations on the policy.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the cell's policy: bands, eviction limit, overcommit, and how long ended jobs are kept.
    #[command(after_help = "Example:\n  omega policy get")]
    Get(GetArgs),
    /// Change the policy. Settings that are not given keep their values; at least one is required.
    ///
    /// A new cell has no bands, no eviction limit and no overcommit, and keeps ended jobs for 1h.
    #[command(
        after_help = "Examples:\n  omega policy set --band 100..199 --band 200..299 --evictions 20/1m\n  \
        omega policy set --no-bands --any-evictions\n  omega policy set --overcommit cpu=200\n  \
        omega policy set --ttl-after-finished 24h"
    )]
    Set(SetArgs),
}

/// The cell.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    common: CommandArgs,
}

/// The changes.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["bands", "no_bands", "evictions", "any_evictions", "ttl_after_finished", "overcommit", "no_overcommit"]))]
pub(crate) struct SetArgs {
    /// Band: a range of precedences, including both ends, whose tasks do not evict each other. May be repeated, lowest
    /// band first. The given bands replace all bands of the present policy.
    #[arg(long = "band", value_name = "FROM..TO", value_parser = band, allow_hyphen_values = true)]
    bands: Vec<proto::Band>,
    /// Remove all bands.
    #[arg(long, conflicts_with = "bands")]
    no_bands: bool,
    /// Eviction limit: at most COUNT evictions in any span of TIME, such as 20/1m.
    #[arg(long, value_name = "COUNT/TIME", value_parser = cap)]
    evictions: Option<proto::EvictionCap>,
    /// Remove the eviction limit.
    #[arg(long, conflicts_with = "evictions")]
    any_evictions: bool,
    /// Upper bound of the `overcommit` that a machine's file sets (see docs/cli.md), in percent of the machine's
    /// capacity: with cpu=200, tasks may claim at most twice the capacity. Only cpu can be overcommitted. May be
    /// repeated. The given bounds replace all bounds of the present policy.
    #[arg(long, value_name = "KIND=PERCENT", value_parser = overcommit)]
    overcommit: Vec<(String, u32)>,
    /// Forbid overcommit of all kinds.
    #[arg(long, conflicts_with = "overcommit")]
    no_overcommit: bool,
    /// Time for which ended jobs are kept, such as 30m or 24h.
    #[arg(long, value_name = "TIME", value_parser = crate::duration::duration)]
    ttl_after_finished: Option<Duration>,
    #[command(flatten)]
    common: CommandArgs,
}

/// A policy.
#[derive(Debug, Serialize)]
struct PolicyShape {
    ttl_after_finished_ms: u64,
    bands: Vec<BandShape>,
    /// Limit on evictions; `null` if any number is allowed.
    eviction_cap: Option<CapShape>,
    /// The largest overcommit of a machine, by kind, in percent. It is 100 for kinds that are not named.
    overcommit_max: BTreeMap<String, u32>,
}

#[derive(Debug, Serialize)]
struct BandShape {
    from: i32,
    to: i32,
}

#[derive(Debug, Serialize)]
struct CapShape {
    count: u32,
    per_ms: u32,
}

fn band(text: &str) -> Result<proto::Band, String> {
    let ends = text.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    match ends {
        Some((Ok(from), Ok(to))) => Ok(proto::Band { from, to }),
        _ => Err("must be two precedences with .. between them, such as 100..199".to_owned()),
    }
}

fn cap(text: &str) -> Result<proto::EvictionCap, String> {
    let wanted = "must be COUNT/TIME, such as 20/1m";
    let (count, time) = text.split_once('/').ok_or(wanted)?;
    let count = count.parse().map_err(|_| wanted)?;
    let per = crate::duration::duration(time).map_err(|_| wanted)?;
    let per_ms = u32::try_from(per.as_millis()).map_err(|_| {
        "the time must be at most one \
         day"
        .to_owned()
    })?;
    Ok(proto::EvictionCap { count, per_ms })
}

/// A kind, and a percentage of its capacity.
fn overcommit(text: &str) -> Result<(String, u32), String> {
    let bound = text.split_once('=').and_then(|(kind, percent)| {
        let percent =
            percent.parse().ok().filter(|p| (100..=OVERCOMMIT_PERCENT_MAX).contains(p))?;
        Some((kind.to_owned(), percent))
    });
    bound.ok_or_else(|| {
        format!(
            "{text:?} must be KIND=PERCENT, such as cpu=200, with 100 to \
             {OVERCOMMIT_PERCENT_MAX} percent of the capacity"
        )
    })
}

/// Runs the command.
pub(crate) fn run(command: &PolicyCommand) -> Result<(), CommandError> {
    match command {
        PolicyCommand::Get(args) => get(args),
        PolicyCommand::Set(args) => set(args),
    }
}

fn get(args: &GetArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let policy = caller.describe()?.policy.unwrap_or_default();
    let name = |id: u32| {
        let kind = u8::try_from(id).ok().and_then(|id| kinds.get(KindId(id)));
        kind.map_or_else(|| format!("kind {id}"), |kind| kind.name.to_string())
    };
    let bounds = policy.overcommit_max.iter().map(|bound| (name(bound.kind), bound.percent));
    let bands = policy.bands.iter().map(|band| BandShape { from: band.from, to: band.to });
    let cap = policy.eviction_cap;
    let shape = PolicyShape {
        ttl_after_finished_ms: policy.ttl_after_finished_ms,
        bands: bands.collect(),
        eviction_cap: cap.map(|cap| CapShape { count: cap.count, per_ms: cap.per_ms }),
        overcommit_max: bounds.collect(),
    };
    show::print(args.common.output, &shape, || table(&shape))
}

fn table(policy: &PolicyShape) -> String {
    let band = |band: &BandShape| format!("{}..{}", band.from, band.to);
    let bands: Vec<String> = policy.bands.iter().map(band).collect();
    let cap = policy.eviction_cap.as_ref();
    let bound = |(kind, percent): (&String, &u32)| format!("{kind} up to {percent} %");
    let bounds: Vec<String> = policy.overcommit_max.iter().map(bound).collect();
    facts(&[
        ("bands", if bands.is_empty() { "none".to_owned() } else { bands.join(", ") }),
        (
            "evictions",
            cap.map_or("any number".to_owned(), |cap| {
                format!("{} in {}", cap.count, time(cap.per_ms.into()))
            }),
        ),
        ("overcommit", if bounds.is_empty() { "none".to_owned() } else { bounds.join(", ") }),
        ("ended jobs", format!("kept for {}", time(policy.ttl_after_finished_ms))),
    ])
}

/// A time in the syntax of the flags, in the largest unit of which it is a multiple.
fn time(ms: u64) -> String {
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let unit = units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{}{name}", ms / unit)
}

fn set(args: &SetArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let mut policy = caller.describe()?.policy.unwrap_or_default();
    if args.no_bands || !args.bands.is_empty() {
        policy.bands.clone_from(&args.bands);
    }
    if args.any_evictions || args.evictions.is_some() {
        policy.eviction_cap = args.evictions;
    }
    if args.no_overcommit || !args.overcommit.is_empty() {
        let kinds = caller.kinds()?;
        let bound = |(name, percent): &(String, u32)| {
            let kind = amount::overcommitted(&kinds, "--overcommit".to_owned(), name)?;
            Ok(proto::Overcommit { kind: kind.0.into(), percent: *percent })
        };
        policy.overcommit_max =
            args.overcommit.iter().map(bound).collect::<Result<_, CommandError>>()?;
    }
    if let Some(keep) = args.ttl_after_finished {
        policy.ttl_after_finished_ms = keep.as_millis() as u64;
    }
    let request = proto::SetPolicyRequest { policy: Some(policy) };
    let response = caller.call(&request, |channel, request| async move {
        CellServiceClient::new(channel).set_policy(request).await
    })?;
    let shape = DoneShape { name: "policy".to_owned(), done: "is set", version: response.version };
    show::print(args.common.output, &shape, || "the policy is set\n".to_owned())
}
