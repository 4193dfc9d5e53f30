//! `omega quota`: limits on the total claims of tenants.

use crate::commands::call::{Caller, Page};
use crate::commands::files::amount::{self, AmountArgs};
use crate::commands::shape::{DoneShape, ListShape, TenantShape};
use crate::commands::show::{self, Align, and_more, columns};
use crate::commands::{CommandArgs, CommandError};
use clap::{Args, Subcommand};
use omega_client::proto::tenant_service_client::TenantServiceClient;
use omega_client::{convert, proto};
use omega_core::Kinds;
use omega_core::limits::{QUOTA_MAX, TENANT_WEIGHT_MAX};

/// Maximum number of tenants that an error names.
const NAMED_MAX: usize = 10;

/// Operations on quotas.
#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// List the tenants with their allocations, limits and guarantees.
    #[command(after_help = "Example:\n  omega quota list")]
    List(ListArgs),
    /// Limit the resources that a tenant's placed tasks may claim together.
    ///
    /// Resource kinds that are not given are unlimited. Tasks beyond the limit stay pending, but tasks that are already
    /// placed keep running. To limit the resources that a tenant's jobs, placed or not, may request, use `omega quota
    /// admit` instead.
    #[command(after_help = "Example:\n  omega quota set team-a --cpu 100 --memory 1TiB")]
    Set(Box<SetArgs>),
    /// Set a tenant's guarantee, parent, weight and maximum number of tasks per machine.
    ///
    /// The options --cpu, --memory, --disk, --gpu and --amount give the guarantee: the resources that the tenant can
    /// reclaim from others; kinds that are not given have none then. Settings that are not given stay as they are: by
    /// default, no guarantee, no parent, weight 1, any number of tasks per machine.
    #[command(after_help = "Example:\n  omega quota guarantee team-a --parent research --cpu 60 \
        --weight 3")]
    Guarantee(Box<GuaranteeArgs>),
    /// Limit the resources that a tenant's unfinished jobs, placed or not, may request together.
    ///
    /// Jobs beyond this request limit are rejected at submission. Resource kinds that are not given are unlimited.
    /// Without amounts, the request limit is removed.
    #[command(after_help = "Example:\n  omega quota admit team-a --cpu 2000 --memory 4TiB")]
    Admit(Box<SetArgs>),
    /// Remove the limit that `omega quota set` has set.
    ///
    /// The guarantee, and the request limit of `omega quota admit`, stay.
    #[command(after_help = "Example:\n  omega quota clear team-a")]
    Clear(ClearArgs),
}

/// Number of tenants to list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Maximum number of rows [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    common: CommandArgs,
}

/// Tenant and amounts.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Name of the tenant.
    #[arg(value_name = "TENANT")]
    tenant: String,
    #[command(flatten)]
    amounts: AmountArgs,
    #[command(flatten)]
    common: CommandArgs,
}

/// Configuration of a tenant.
#[derive(Debug, Args)]
pub(crate) struct GuaranteeArgs {
    /// Name of the tenant.
    #[arg(value_name = "TENANT")]
    tenant: String,
    /// Parent tenant. Its limits apply to all tenants below it together.
    #[arg(long, value_name = "TENANT")]
    parent: Option<String>,
    /// Give the tenant no parent.
    #[arg(long, conflicts_with = "parent")]
    no_parent: bool,
    /// Weight of the tenant's share of the resources, relative to tenants with the same parent.
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TENANT_WEIGHT_MAX)))]
    weight: Option<u32>,
    /// Maximum number of the tenant's own tasks on one machine; 0 for any number.
    #[arg(long, value_name = "N")]
    tasks_per_machine: Option<u32>,
    #[command(flatten)]
    amounts: AmountArgs,
    #[command(flatten)]
    common: CommandArgs,
}

/// Tenant.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    /// Name of the tenant.
    #[arg(value_name = "TENANT")]
    tenant: String,
    #[command(flatten)]
    common: CommandArgs,
}

/// Runs the command.
pub(crate) fn run(command: &QuotaCommand) -> Result<(), CommandError> {
    match command {
        QuotaCommand::List(args) => list(args),
        QuotaCommand::Set(args) => set_some(args),
        QuotaCommand::Guarantee(args) => guarantee(args),
        QuotaCommand::Admit(args) => admit(args),
        QuotaCommand::Clear(args) => {
            check_known(&tenants(&args.common.caller()?)?, &args.tenant)?;
            set(&args.common, &args.tenant, None)
        }
    }
}

fn list(args: &ListArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    // Pages are in the order of ids, so all are needed to find the first names.
    let mut listed = caller.pages(None, |caller, page_size, page_token| {
        let page = page(caller, &proto::ListTenantsRequest { page_size, page_token })?;
        let shapes = page.tenants.into_iter().map(|response| TenantShape::new(&kinds, response));
        Ok::<Page<TenantShape>, _>((shapes.collect(), page.next_page_token, page.version))
    })?;
    listed.items.sort_by(|one, other| show::by_name(&one.name, &other.name));
    listed.cut(args.limit);
    let shape = ListShape { version: listed.version, more: listed.more, items: listed.items };
    show::print(args.common.output, &shape, || table(&kinds, &shape.items) + and_more(shape.more))
}

/// Requests one page of tenants.
///
/// # Errors
/// As [`Caller::call`].
pub(super) fn page(
    caller: &Caller,
    request: &proto::ListTenantsRequest,
) -> Result<proto::ListTenantsResponse, CommandError> {
    caller.call(request, |channel, request| async move {
        TenantServiceClient::new(channel).list_tenants(request).await
    })
}

/// All tenants of the cell that the user may see.
fn tenants(caller: &Caller) -> Result<Vec<proto::TenantStatus>, CommandError> {
    let listed = caller.pages(None, |caller, page_size, page_token| {
        let page = page(caller, &proto::ListTenantsRequest { page_size, page_token })?;
        Ok::<Page<proto::TenantStatus>, _>((page.tenants, page.next_page_token, page.version))
    })?;
    Ok(listed.items)
}

/// Checks that tenants are among the cell's.
///
/// # Errors
/// As [`Caller::call`], or [`CommandError::NoTenant`].
pub(super) fn check_all_known(caller: &Caller, names: &[String]) -> Result<(), CommandError> {
    let all = tenants(caller)?;
    names.iter().try_for_each(|name| check_known(&all, name))
}

/// Checks that a tenant is among the cell's. A command that only removes a setting would otherwise add a misspelt one.
fn check_known(all: &[proto::TenantStatus], tenant: &str) -> Result<(), CommandError> {
    if all.iter().any(|known| known.name == tenant) {
        return Ok(());
    }
    let names: Vec<&str> = all.iter().take(NAMED_MAX).map(|known| known.name.as_str()).collect();
    let more = if all.len() > NAMED_MAX { ", ..." } else { "" };
    let has = format!("{}{more}", names.join(", "));
    Err(CommandError::NoTenant { tenant: tenant.to_owned(), has })
}

fn table(kinds: &Kinds, tenants: &[TenantShape]) -> String {
    let names: Vec<&str> = kinds.iter().map(|(_, kind)| kind.name.as_str()).collect();
    // Columns in which no tenant has a value are left out.
    let any_above = tenants.iter().any(|tenant| tenant.parent.is_some());
    let any_weight = tenants.iter().any(|tenant| tenant.weight != 1);
    let any_per_machine = tenants.iter().any(|tenant| tenant.tasks_per_machine_max.is_some());
    let mut heading = vec![("tenant", Align::Left)];
    heading.extend(any_above.then_some(("below", Align::Left)));
    heading.extend(any_weight.then_some(("weight", Align::Right)));
    heading.extend(any_per_machine.then_some(("per machine", Align::Right)));
    heading.extend(names.iter().map(|name| (*name, Align::Right)));
    let row = |tenant: &TenantShape| {
        let mut row = vec![tenant.name.clone()];
        row.extend(any_above.then(|| tenant.parent.clone().unwrap_or_default()));
        row.extend(any_weight.then(|| tenant.weight.to_string()));
        let per_machine =
            || tenant.tasks_per_machine_max.map_or("any".into(), |max| max.to_string());
        row.extend(any_per_machine.then(per_machine));
        row.extend(kinds.iter().map(|(id, kind)| {
            let mut response = kinds.display(id, tenant.used[&kind.name]);
            if let Some(limit) = tenant.limit.as_ref().and_then(|limit| limit[&kind.name]) {
                response += &format!(" of {}", kinds.display(id, limit));
            }
            if let Some(admitted) =
                tenant.request_limit.as_ref().and_then(|limit| limit[&kind.name])
            {
                let request = kinds.display(id, tenant.requested[&kind.name]);
                response += &format!(", requests {request} of {}", kinds.display(id, admitted));
            }
            match tenant.guaranteed[&kind.name] {
                0 => response,
                guaranteed => format!("{response} ({} guaranteed)", kinds.display(id, guaranteed)),
            }
        }));
        row
    };
    let rows: Vec<Vec<String>> = tenants.iter().map(row).collect();
    columns(&heading, &rows)
}

fn set_some(args: &SetArgs) -> Result<(), CommandError> {
    let named = args.amounts.named();
    if named.is_empty() {
        return Err(CommandError::NoLimit);
    }
    let kinds = args.common.caller()?.kinds()?;
    let limit = amount::amounts(&kinds, named, QUOTA_MAX)?;
    let quota = proto::Quota { limit: convert::values(&limit) };
    set(&args.common, &args.tenant, Some(quota))
}

fn guarantee(args: &GuaranteeArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let only_removes = args.parent.is_none()
        && args.weight.is_none()
        && args.tasks_per_machine.unwrap_or_default() == 0
        && args.amounts.named().is_empty();
    let all = tenants(&caller)?;
    if only_removes {
        check_known(&all, &args.tenant)?;
    }
    let present = all.into_iter().find(|response| response.name == args.tenant);
    let mut config = present.and_then(|response| response.config).unwrap_or_default();
    if args.parent.is_some() || args.no_parent {
        config.parent = args.parent.clone().unwrap_or_default();
    }
    let named = args.amounts.named();
    if !named.is_empty() {
        config.guaranteed = convert::values(&amount::amounts(&caller.kinds()?, named, 0)?);
    }
    config.weight = args.weight.unwrap_or(config.weight.max(1));
    if let Some(max) = args.tasks_per_machine {
        config.tasks_per_machine_max = Some(max).filter(|max| *max > 0);
    }
    let request = proto::SetTenantRequest { tenant: args.tenant.clone(), config: Some(config) };
    let response = caller.call(&request, |channel, request| async move {
        TenantServiceClient::new(channel).set_tenant(request).await
    })?;
    let done = "is configured";
    let shape = DoneShape { name: args.tenant.clone(), done, version: response.version };
    show::print(args.common.output, &shape, || show::done("tenant", &shape))
}

fn admit(args: &SetArgs) -> Result<(), CommandError> {
    let named = args.amounts.named();
    let caller = args.common.caller()?;
    let (limit, done) = if named.is_empty() {
        check_known(&tenants(&caller)?, &args.tenant)?;
        (None, "may request any amount")
    } else {
        let limit = amount::amounts(&caller.kinds()?, named, QUOTA_MAX)?;
        (Some(proto::Quota { limit: convert::values(&limit) }), "may request the given amounts")
    };
    let request = proto::SetAdmissionRequest { tenant: args.tenant.clone(), limit };
    let response = caller.call(&request, |channel, request| async move {
        TenantServiceClient::new(channel).set_admission(request).await
    })?;
    let shape = DoneShape { name: args.tenant.clone(), done, version: response.version };
    show::print(args.common.output, &shape, || show::done("tenant", &shape))
}

fn set(
    common: &CommandArgs,
    tenant: &str,
    quota: Option<proto::Quota>,
) -> Result<(), CommandError> {
    let done = if quota.is_some() { "is limited" } else { "is not limited" };
    let request = proto::SetQuotaRequest { tenant: tenant.to_owned(), quota };
    let response = common.caller()?.call(&request, |channel, request| async move {
        TenantServiceClient::new(channel).set_quota(request).await
    })?;
    let shape = DoneShape { name: tenant.to_owned(), done, version: response.version };
    show::print(common.output, &shape, || show::done("tenant", &shape))
}
