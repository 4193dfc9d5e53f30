//! Reclaims guarantees: evicts tasks of tenants that use more than their guarantee, to make room for a tenant that uses
//! less than its own.
//!
//! The cell checks the same rule at commit (see [`TenantConfig`](omega_core::TenantConfig)): it compares the branches
//! of the tenant tree that contain the two tenants, just below the tenants' nearest common ancestor. This plugin only
//! chooses the cheapest machine: the machine whose most important victim has the lowest precedence, and of several such
//! machines, the machine with the fewest victims. Uncommitted claims count as used, and uncommitted evictions as freed,
//! as at commit.

use crate::framework::events::Events;
use crate::framework::plugin::Tasks;
use crate::framework::points::{Lack, MadeRoom, PostFilter};
use crate::plugins::cheapest::{Cheapest, RandomStart};
use crate::preemption::Preemptor;
use omega_cellstate::{PlacedTask, TenantDelta, View};
use omega_core::{Amounts, KindId, Text};
use std::collections::BTreeMap;

/// The plugin `reclaim`; see the head of the file.
#[derive(Clone, Debug, Default)]
pub struct Reclaim {
    start: RandomStart,
}

/// For each branch of other tenants, the branch's use beyond its guarantee, by resource kind.
type Borrowed = BTreeMap<Text, Vec<i64>>;

impl PostFilter for Reclaim {
    fn name(&self) -> &'static str {
        "reclaim"
    }

    fn wakes_on(&self, _: &Tasks<'_>, all: Events) -> Events {
        all | Events::ROOM_FREED
            | Events::ROOM_TAKEN
            | Events::QUOTA_CHANGED
            | Events::EVICTIONS_REFILLED
    }

    fn make_room(&mut self, view: &mut View, lack: &Lack<'_>) -> Option<MadeRoom> {
        let left = view.evictions_left().unwrap_or(usize::MAX);
        let request = &view.job(lack.group).0.groups[view.job(lack.group).1].request.clone();
        let borrowed = lent_out(view, &lack.job.tenant, request);
        if borrowed.is_empty() || left == 0 {
            return None;
        }
        let short = view.quota_lack(lack.group);
        if let Some(short) = &short
            && !borrowed.keys().any(|branch| is_in(view, branch, &short.tenant))
        {
            return None;
        }
        // If the task exceeds a limit, at least one victim must count against this limit.
        let helps = |view: &View, row: usize| {
            short.as_ref().is_none_or(|short| {
                view.tasks_on(row).iter().any(|task| view.is_below(task.id.job, &short.tenant))
            })
        };
        let rows = view.rows();
        let start = self.start.draw(view, rows);
        let order = (0..rows).map(|step| (start + step) % rows);
        let mut cheapest = Cheapest::default();
        for row in order {
            if cheapest.has_tried_enough() {
                break;
            }
            if !helps(view, row) {
                continue;
            }
            let Some(victims) = victims(view, lack, row, &borrowed) else { continue };
            cheapest.count();
            let Some(victims) = victims.filter(|victims| victims.len() <= left) else { continue };
            cheapest.add(row, victims);
        }
        let (row, evictions) = cheapest.into_best()?;
        Some(MadeRoom { machine: view.machine_id(row), evictions, throttled: Vec::new() })
    }
}

/// Whether a tenant is the tenant `above`, or is below that tenant in the tree.
fn is_in(view: &View, tenant: &str, above: &Text) -> bool {
    view.tenant_line(tenant).iter().any(|known| known.terms.name == *above)
}

/// Returns the branches that use more than their guarantee of a requested resource kind, each with the amounts beyond
/// the guarantee. Another tenant's branch counts only if the own branch of `tenant` stays within its guarantee with the
/// request.
fn lent_out(view: &View, tenant: &Text, request: &Amounts) -> Borrowed {
    let mut borrowed = Borrowed::new();
    let own = view.own_use();
    for other in view.tenants() {
        let Some((ours, theirs)) = view.parting(tenant, &other.terms.name) else { continue };
        let guaranteed = |kind: KindId| ours.terms.tenant_config.guaranteed.get(kind) as i64;
        let used = |branch: &TenantDelta, kind: KindId| {
            let of_branch = own.iter().filter(|(payer, _)| is_in(view, payer, &branch.terms.name));
            let more: i64 = of_branch.map(|(_, amounts)| amounts[kind.index()]).sum();
            branch.used.get(kind.index()).copied().unwrap_or(0) + more
        };
        let within =
            |(kind, amount): (KindId, u64)| used(ours, kind) + amount as i64 <= guaranteed(kind);
        if !request.iter().all(within) || borrowed.contains_key(&theirs.terms.name) {
            continue;
        }
        let kinds = (0..).map(KindId).take(theirs.used.len());
        let beyond = kinds.map(|kind| match request.get(kind) {
            0 => 0,
            _ => used(theirs, kind) - theirs.terms.tenant_config.guaranteed.get(kind) as i64,
        });
        borrowed.insert(theirs.terms.name.clone(), beyond.collect());
    }
    borrowed.retain(|_, kinds| kinds.iter().any(|beyond| *beyond > 0));
    borrowed
}

/// If the branch of a task's tenant borrows any resource kind that the task has, subtracts the task's allocation from
/// the amounts that the branch borrows. Returns whether this is so.
fn give_back(view: &View, tenant: &Text, task: PlacedTask, borrowed: &mut Borrowed) -> bool {
    let (Some(job), Some(request)) = (view.job_of(task.id), view.allocation_of(&task)) else {
        return false;
    };
    let Some((_, branch)) = view.parting(tenant, &job.tenant) else { return false };
    let Some(beyond) = borrowed.get_mut(&branch.terms.name) else { return false };
    let had = request.iter().any(|(kind, _)| beyond.get(kind.index()).is_some_and(|b| *b > 0));
    if had {
        for (kind, amount) in request.iter() {
            beyond[kind.index()] -= amount as i64;
        }
    }
    had
}

/// Victims on a machine. `None` if no task there may be reclaimed, `Some(None)` if the eviction of all such tasks is
/// not enough.
fn victims(
    view: &mut View,
    lack: &Lack<'_>,
    row: usize,
    borrowed: &Borrowed,
) -> Option<Option<Vec<PlacedTask>>> {
    let tenant = &lack.job.tenant;
    let mut borrowed = borrowed.clone();
    let here: Vec<PlacedTask> = view.tasks_on(row).to_vec();
    let may_go = |task: &PlacedTask| {
        !view.is_evicted(task.id) && give_back(view, tenant, *task, &mut borrowed)
    };
    // The candidates, the least important first.
    let candidates: Vec<PlacedTask> = here.into_iter().rev().filter(may_go).collect();
    if candidates.is_empty() {
        return None;
    }
    let Lack { evaluator, group, .. } = *lack;
    let preemptor = Preemptor { evaluator, group, budgets: &[], expected: &[] };
    let mut gone = Vec::new();
    let mut fits = false;
    for task in candidates {
        view.lift(row, task);
        if view.breaks_runtime_affinity(row, task) {
            // The cell would reject this eviction.
            view.put_back(row, task);
            continue;
        }
        gone.push(task);
        fits = preemptor.fits(view, row);
        if fits {
            break;
        }
    }
    // Spares victims that need not be evicted for the task to fit, the most important first.
    let mut kept = Vec::new();
    for task in gone.iter().rev().copied().collect::<Vec<_>>() {
        view.put_back(row, task);
        if fits && preemptor.fits(view, row) {
            kept.push(task.id);
        } else if fits {
            view.lift(row, task);
        }
    }
    gone.retain(|task| !kept.contains(&task.id));
    if fits {
        let breaks = gone.iter().any(|task| view.breaks_runtime_affinity(row, *task));
        gone.iter().for_each(|task| view.put_back(row, *task));
        fits = !breaks;
    }
    Some((fits && !gone.is_empty()).then_some(gone))
}
