//! `omega txn`: results of past transactions, and transactions by hand.
//!
//! A transaction by hand is sent under the name of a scheduler that no process owns. If a process takes the name
//! meanwhile, its registration skips transaction numbers, and the cell then rejects the number of the transaction by
//! hand.
//!
//! The bytes of a transaction depend on the file, on `--id` and on the ids of the named objects. So the same file with
//! the same number gives the same transaction. The transaction is sent as a retry. The leader's pre-check, which leaves
//! no record, never rejects a retry. So the result is kept even if nothing was committed.

use crate::commands::call::{Caller, Page};
use crate::commands::files::amount;
use crate::commands::files::lines::with_line;
use crate::commands::files::txn_file::{ClaimName, ResizeName, TaskName, TransactionFile};
use crate::commands::jobs::named_job;
use crate::commands::shape::ListShape;
use crate::commands::show::{self, Align, and_more, columns, facts};
use crate::commands::{CommandArgs, CommandError, machine};
use clap::{Args, Subcommand};
use omega_client::convert::{self, Malformed};
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::{ErrorCode, proto};
use omega_core::limits::REPLIES_PER_SCHEDULER;
use omega_core::{
    Claim, Commit, Item, JobId, Kinds, MachineId, Reason, Resize, SchedulerId, SequenceNumber,
    TaskId, Transaction, TransactionId, Version,
};
use omega_workload::file;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Operations on transactions.
#[derive(Debug, Subcommand)]
pub(crate) enum TxnCommand {
    /// List the results of past transactions, newest first.
    #[command(after_help = "Example:\n  omega txn list --scheduler default-0 --limit 20")]
    List(ListArgs),
    /// Show the result of one of the transactions that `omega txn list` prints.
    #[command(after_help = "Example:\n  omega txn get default-0:17")]
    Get(GetArgs),
    /// Commit a transaction from a file, for example to move a task to another machine.
    ///
    /// The exit code is 1 if the cell rejects an item of the transaction.
    #[command(
        after_help = "Examples:\n  omega txn commit -f move.toml\n  omega txn commit -f move.toml --as ann --id 7\n\n\
        Example of a file that moves task web/3 to machine a-2:\n  releases = [\"web/3\"]\n\n  \
        [[claim]]\n  task = \"web/3\"\n  machine = \"a-2\""
    )]
    Commit(CommitArgs),
}

/// Selection of transactions.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only transactions of this scheduler [default: all].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    scheduler: String,
    /// Maximum number of rows [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    common: CommandArgs,
}

/// The transaction.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Name of the scheduler and number of the transaction, as `omega txn list` prints them, such as default-0:17.
    #[arg(value_name = "SCHEDULER:NUMBER", value_parser = id)]
    id: (String, u64),
    #[command(flatten)]
    common: CommandArgs,
}

/// The transaction to commit, and its scheduler name.
#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    /// File with the transaction (TOML or JSON; docs/cli.md describes the fields). `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
    /// Scheduler name under which the transaction is committed. It must be a name that no scheduler process owns.
    #[arg(long = "as", value_name = "NAME", default_value = "by-hand")]
    name: String,
    /// Number of the transaction. If the command is repeated with the same number and file, nothing changes, and the
    /// first result is printed [default: the next number].
    #[arg(long, value_name = "NUMBER")]
    id: Option<u64>,
    #[command(flatten)]
    common: CommandArgs,
}

fn id(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once(':').filter(|(name, _)| !name.is_empty());
    let read = parts.and_then(|(name, number)| Some((name.to_owned(), number.parse().ok()?)));
    read.ok_or_else(|| {
        "must be a scheduler's name and a transaction's number, such as default-0:17".to_owned()
    })
}

/// Result of a transaction in the reply cache.
#[derive(Debug, Serialize)]
struct ReplyShape {
    transaction: String,
    scheduler: String,
    number: u64,
    version: u64,
    /// Rejected items. All other items were committed.
    refused: Vec<RefusedShape>,
}

/// A rejected item. `index` is its position in its list.
#[derive(Debug, Serialize)]
struct RefusedShape {
    /// `release`, `eviction`, `resize` or `claim`.
    item: &'static str,
    index: u32,
    #[serde(flatten)]
    why: WhyShape,
}

/// Reason for which an item was rejected.
#[derive(Debug, Serialize)]
pub(super) struct WhyShape {
    /// The reason as the API names it, such as `NO_ROOM`; `null` if the item was committed.
    reason: Option<&'static str>,
    /// The resource kind, if the reason refers to one.
    kind: Option<String>,
}

/// A transaction by hand, and its result.
#[derive(Debug, Serialize)]
struct CommittedShape {
    transaction: String,
    scheduler: String,
    number: u64,
    version: u64,
    committed: usize,
    refused: usize,
    items: Vec<ItemShape>,
}

/// An item of a transaction by hand.
#[derive(Debug, Serialize)]
struct ItemShape {
    item: &'static str,
    index: u32,
    task: String,
    machine: Option<String>,
    committed: bool,
    #[serde(flatten)]
    why: WhyShape,
}

/// Runs the command.
pub(crate) fn run(command: &TxnCommand) -> Result<(), CommandError> {
    match command {
        TxnCommand::List(args) => list(args),
        TxnCommand::Get(args) => get(args),
        TxnCommand::Commit(args) => commit(args),
    }
}

fn list(args: &ListArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let listed = caller.pages(args.limit, |caller, page_size, page_token| {
        let scheduler = args.scheduler.clone();
        let request = proto::ListTransactionsRequest { scheduler, page_size, page_token };
        let page = caller.call(&request, |channel, request| async move {
            let client = SchedulingServiceClient::new(channel);
            // The limit is raised, because a transaction may have ten thousand rejected items.
            client.max_decoding_message_size(PAGE_BYTES_MAX).list_transactions(request).await
        })?;
        let shapes =
            page.transactions.into_iter().map(|response| ReplyShape::new(&kinds, response));
        let shapes = shapes.collect::<Result<_, CommandError>>()?;
        Ok::<Page<ReplyShape>, _>((shapes, page.next_page_token, page.version))
    })?;
    let shape = ListShape { version: listed.version, more: listed.more, items: listed.items };
    show::print(args.common.output, &shape, || table(&shape.items) + and_more(shape.more))
}

/// Maximum bytes of a page, which is sixteen times the limit on other messages.
const PAGE_BYTES_MAX: usize = 16 * omega_client::connect::MESSAGE_BYTES_MAX;

fn table(all: &[ReplyShape]) -> String {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let heading = [left("transaction"), right("version"), right("refused"), left("why")];
    let row = |one: &ReplyShape| {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for refused in &one.refused {
            *reasons.entry(refused.why.text()).or_default() += 1;
        }
        let why: Vec<String> = reasons.iter().map(|(why, n)| format!("{why} ({n})")).collect();
        let refused = one.refused.len().to_string();
        vec![one.transaction.clone(), one.version.to_string(), refused, why.join(", ")]
    };
    columns(&heading, &all.iter().map(row).collect::<Vec<_>>())
}

fn get(args: &GetArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let (scheduler, number) = args.id.clone();
    let request = proto::GetTransactionRequest { scheduler, number };
    let response = caller.call(&request, |channel, request| async move {
        SchedulingServiceClient::new(channel).get_transaction(request).await
    })?;
    let response = response.transaction.ok_or(Malformed::Missing("transaction"))?;
    let shape = ReplyShape::new(&kinds, response)?;
    show::print(args.common.output, &shape, || {
        let head = facts(&[
            ("transaction", shape.transaction.clone()),
            ("version", shape.version.to_string()),
            (
                "answer",
                match shape.refused.len() {
                    0 => "all of it was committed".to_owned(),
                    n => {
                        format!("{n} of its items were rejected, and all others were committed")
                    }
                },
            ),
        ]);
        if shape.refused.is_empty() {
            return head;
        }
        let heading = [("item", Align::Left), ("why", Align::Left)];
        let row = |one: &RefusedShape| vec![format!("{} {}", one.item, one.index), one.why.text()];
        let rows: Vec<Vec<String>> = shape.refused.iter().map(row).collect();
        format!("{head}\n{}", columns(&heading, &rows))
    })
}

fn commit(args: &CommitArgs) -> Result<(), CommandError> {
    let path = args.file.as_path();
    let described: TransactionFile = file::read(path)?;
    let at_line = |error| with_line(error, path);
    let named = Named::of(&described, path).map_err(at_line)?;
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let mut txn = named.found((&caller, &kinds), &described).map_err(at_line)?;
    txn.id = transaction_id(&caller, &args.name, args.id)?;
    let commit = send(&caller, &txn)?;
    let shape = committed(args, &kinds, &txn, (&described, &commit));
    show::print(args.common.output, &shape, || commit_table(&shape))?;
    match (shape.refused, shape.items.len()) {
        (0, _) => Ok(()),
        (refused, items) => Err(CommandError::Conflicts { refused, items }),
    }
}

/// Sends a transaction by hand, and returns the cell's result.
pub(super) fn send(caller: &Caller, txn: &Transaction) -> Result<Commit, CommandError> {
    let request = proto::CommitRequest { retry: true, ..txn.into() };
    let answer = caller.call(&request, |channel, request| async move {
        SchedulingServiceClient::new(channel).commit(request).await
    })?;
    Ok(Commit::try_from(answer)?)
}

/// An unused transaction number of a scheduler whose name no process owns.
pub(super) fn transaction_id(
    caller: &Caller,
    name: &str,
    given: Option<u64>,
) -> Result<TransactionId, CommandError> {
    // The request names no process, so it is rejected if a process owns the name.
    let request = proto::RegisterRequest { name: name.to_owned(), ..Default::default() };
    let registered = caller.call(&request, |channel, request| async move {
        SchedulingServiceClient::new(channel).register(request).await
    })?;
    let next = registered.next_transaction;
    let number = given.unwrap_or(next);
    let most = next.saturating_add(REPLIES_PER_SCHEDULER as u64 - 1);
    if number > most {
        Err(CommandError::NumberAhead { number, next, most })
    } else {
        Ok(TransactionId { scheduler: SchedulerId(registered.scheduler), number })
    }
}

/// A transaction that refers to tasks and machines by name.
struct Named<'t> {
    releases: Vec<TaskName<'t>>,
    evictions: Vec<TaskName<'t>>,
    claims: Vec<ClaimName<'t>>,
    resizes: Vec<ResizeName<'t>>,
}

impl<'t> Named<'t> {
    fn of(described: &'t TransactionFile, path: &Path) -> Result<Named<'t>, CommandError> {
        let TransactionFile { releases, evictions, .. } = described;
        Ok(Named {
            releases: TransactionFile::tasks(("releases", releases), path)?,
            evictions: TransactionFile::tasks(("evictions", evictions), path)?,
            claims: described.claims(path)?,
            resizes: described.resizes(path)?,
        })
    }

    /// Resolves the names to the cell's ids. The returned transaction has no number yet. Each name is looked up once.
    fn found(
        &self,
        (caller, kinds): (&Caller, &Kinds),
        described: &TransactionFile,
    ) -> Result<Transaction, CommandError> {
        let claimed = self.claims.iter().map(|claim| &claim.task);
        let resized = self.resizes.iter().map(|resize| &resize.task);
        let mut jobs = BTreeMap::new();
        for task in self.releases.iter().chain(&self.evictions).chain(claimed).chain(resized) {
            if !jobs.contains_key(task.job) {
                jobs.insert(task.job, find_job(caller, task.job)?);
            }
        }
        let mut machines = BTreeMap::new();
        for claim in &self.claims {
            if !machines.contains_key(claim.machine) {
                machines.insert(claim.machine, find_machine(caller, claim.machine)?);
            }
        }
        let task = |task: &TaskName<'_>| TaskId { job: jobs[task.job], index: task.index };
        let claim = |claim: &ClaimName<'_>| Claim {
            task: task(&claim.task),
            machine: machines[claim.machine],
            seen: SequenceNumber(claim.seen),
            devices: claim.devices,
            take: claim.take,
        };
        let resize = |resize: &ResizeName<'_>| {
            let named = resize.to.iter().map(|(kind, amount)| {
                (format!("{}.to.{kind}", resize.place), kind.clone(), amount)
            });
            let to = amount::amounts(kinds, named, 0)?;
            Ok::<Resize, CommandError>(Resize { task: task(&resize.task), to })
        };
        let claims = self.claims.iter().map(claim).collect();
        Ok(Transaction {
            granularity: described.granularity.into(),
            check: described.check.into(),
            releases: self.releases.iter().map(task).collect(),
            evictions: self.evictions.iter().map(task).collect(),
            resizes: self.resizes.iter().map(resize).collect::<Result<_, _>>()?,
            ..Transaction::new(TransactionId::default(), Version(described.base), claims)
        })
    }
}

/// The job with this name. If there is none, the job with this id, as printed by `omega task list`.
pub(super) fn find_job(caller: &Caller, name: &str) -> Result<JobId, CommandError> {
    let fetch = |job: Option<proto::JobRef>| {
        let request = proto::GetJobRequest { job };
        caller.call(&request, |channel, request| async move {
            JobServiceClient::new(channel).get_job(request).await
        })
    };
    let unknown = |error: &CommandError| matches!(error, CommandError::Refused(error) if error.code == ErrorCode::UnknownJob);
    let mut response = fetch(named_job::by_name(name));
    let id = name.strip_prefix('j').and_then(|id| id.parse().ok());
    if let (Err(error), Some(id)) = (&response, id)
        && unknown(error)
    {
        let by_id = fetch(Some(proto::JobRef { job: Some(proto::job_ref::Job::Id(id)) }));
        // If neither a name nor an id matches, the error about the name is reported, because it has the text that the
        // user wrote.
        response = if by_id.as_ref().is_err_and(unknown) { response } else { by_id };
    }
    let status = response?.job.ok_or(Malformed::Missing("job"))?;
    Ok(JobId(status.id))
}

fn find_machine(caller: &Caller, name: &str) -> Result<MachineId, CommandError> {
    let request = proto::GetMachineRequest { machine: machine::by_name(name) };
    let response = caller.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).get_machine(request).await
    })?;
    let id =
        response.machine.and_then(|status| status.id).ok_or(Malformed::Missing("machine.id"))?;
    Ok(MachineId::from(id))
}

fn committed(
    args: &CommitArgs,
    kinds: &Kinds,
    txn: &Transaction,
    (described, commit): (&TransactionFile, &Commit),
) -> CommittedShape {
    let item = |item: Item, task: &str, machine: Option<&str>| {
        let conflict = commit.conflict_of(item);
        let (name, index) = place(item);
        let machine = machine.map(str::to_owned);
        let why = WhyShape::new(kinds, conflict);
        ItemShape {
            item: name,
            index,
            task: task.to_owned(),
            machine,
            committed: conflict.is_none(),
            why,
        }
    };
    let releases =
        (0..).zip(&described.releases).map(|(i, task)| item(Item::Release(i), task, None));
    let evictions =
        (0..).zip(&described.evictions).map(|(i, task)| item(Item::Eviction(i), task, None));
    let claims = (0..).zip(&described.claim);
    let claims = claims.map(|(i, of)| item(Item::Claim(i), &of.task, Some(&of.machine)));
    let resizes = (0..).zip(&described.resize);
    let resizes = resizes.map(|(i, of)| item(Item::Resize(i), &of.task, None));
    let items: Vec<ItemShape> = releases.chain(evictions).chain(resizes).chain(claims).collect();
    let refused = commit.conflicts.len();
    CommittedShape {
        transaction: format!("{}:{}", args.name, txn.id.number),
        scheduler: args.name.clone(),
        number: txn.id.number,
        version: commit.version.0,
        committed: items.len().saturating_sub(refused),
        refused,
        items,
    }
}

fn commit_table(shape: &CommittedShape) -> String {
    let heading = ["item", "task", "machine", "answer"].map(|name| (name, Align::Left));
    let row = |one: &ItemShape| {
        let machine = one.machine.clone().unwrap_or_default();
        vec![one.item.to_owned(), one.task.clone(), machine, one.why.text()]
    };
    let rows: Vec<Vec<String>> = shape.items.iter().map(row).collect();
    let head = facts(&[
        ("transaction", shape.transaction.clone()),
        ("version", shape.version.to_string()),
        ("committed", format!("{} of {}", shape.committed, shape.items.len())),
    ]);
    format!("{head}\n{}", columns(&heading, &rows))
}

fn place(item: Item) -> (&'static str, u32) {
    match item {
        Item::Release(index) => ("release", index),
        Item::Eviction(index) => ("eviction", index),
        Item::Claim(index) => ("claim", index),
        Item::Resize(index) => ("resize", index),
    }
}

impl ReplyShape {
    fn new(
        kinds: &Kinds,
        response: proto::AnsweredTransaction,
    ) -> Result<ReplyShape, CommandError> {
        let proto::AnsweredTransaction { scheduler, number, answer } = response;
        let commit = Commit::try_from(answer.ok_or(Malformed::Missing("answer"))?)?;
        let refused = commit.conflicts.iter().map(|conflict| {
            let (item, index) = place(conflict.item);
            RefusedShape { item, index, why: WhyShape::new(kinds, Some(conflict.reason)) }
        });
        Ok(ReplyShape {
            transaction: format!("{scheduler}:{number}"),
            refused: refused.collect(),
            version: commit.version.0,
            scheduler,
            number,
        })
    }
}

impl WhyShape {
    pub(super) fn new(kinds: &Kinds, reason: Option<Reason>) -> WhyShape {
        let kind = match reason {
            Some(
                Reason::NoRoom(kind) | Reason::QuotaExceeded(kind) | Reason::CellExhausted(kind),
            ) => Some(kind),
            _ => None,
        };
        let name =
            |kind| kinds.iter().find(|(id, _)| *id == kind).map(|(_, kind)| kind.name.clone());
        WhyShape { reason: reason.map(convert::reason_name), kind: kind.and_then(name) }
    }

    /// The reason as text for people, such as `no room: cpu`.
    pub(super) fn text(&self) -> String {
        let Some(reason) = self.reason else { return "committed".to_owned() };
        let reason = reason.to_lowercase().replace('_', " ");
        match &self.kind {
            Some(kind) => format!("{reason}: {kind}"),
            None => reason,
        }
    }
}
