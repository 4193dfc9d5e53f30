//! Turns compared with a naive model. The model sorts all pending jobs by the shares of their tenant and its ancestors.

use super::*;
use crate::plugins::FairShare;
use omega_cellstate::TenantTerms;
use omega_core::limits::TENANT_DEPTH_MAX;
use omega_core::{TaskGroup, TenantConfig};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Total capacity of the naive cell.
const WHOLE: u64 = 1000;

/// Events about the tenants of a cell.
#[derive(Clone, Debug)]
enum Event {
    Comes {
        id: u64,
        tenant: usize,
        precedence: i32,
    },
    Goes {
        id: u64,
    },
    Claims {
        tenant: usize,
        amount: u64,
    },
    Told {
        tenant: usize,
        parent: Option<usize>,
        weight: u32,
        used: u64,
    },
    /// The cell reports another usage with unchanged terms.
    Uses {
        tenant: usize,
        used: u64,
    },
    ToldAll,
    /// The cell reports that it has no tenants.
    ToldNone,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let tenant = 0..6usize;
    let reported = (tenant.clone(), prop::option::of(tenant.clone()), 1u32..4, 0..WHOLE);
    let event = prop_oneof![
        4 => (0u64..20, tenant.clone(), 0..2i32)
            .prop_map(|(id, tenant, precedence)| Event::Comes { id, tenant, precedence }),
        2 => (0u64..20).prop_map(|id| Event::Goes { id }),
        3 => (tenant.clone(), 0..WHOLE).prop_map(|(tenant, used)| Event::Uses { tenant, used }),
        3 => (tenant, 0u64..50).prop_map(|(tenant, amount)| Event::Claims { tenant, amount }),
        3 => reported.prop_map(|(tenant, parent, weight, used)| {
            Event::Told { tenant, parent, weight, used }
        }),
        1 => Just(Event::ToldAll),
        1 => Just(Event::ToldNone),
    ];
    prop::collection::vec(event, 0..80)
}

/// Configuration and usage of a tenant in the cell.
#[derive(Clone, Debug, Default)]
struct Said {
    parent: Option<usize>,
    weight: u32,
    used: u64,
    claimed: u64,
}

#[derive(Default)]
struct Naive {
    tenants: BTreeMap<usize, Said>,
    jobs: BTreeMap<u64, (usize, i32)>,
    /// The terms of the last report. The cell shares unchanged terms between its deltas.
    terms: BTreeMap<usize, Arc<TenantTerms>>,
    /// Whether the cell has reported tenants. Otherwise all jobs are in one order.
    has_tenants: bool,
}

impl Naive {
    fn line(&self, tenant: usize) -> Vec<usize> {
        let above = |tenant: &usize| self.tenants.get(tenant)?.parent;
        let mut line: Vec<usize> = std::iter::successors(Some(tenant), above).collect();
        line.reverse();
        line
    }

    fn may_stand(&self, tenant: usize, parent: Option<usize>) -> bool {
        parent.is_none_or(|parent| {
            let line = self.line(parent);
            !line.contains(&tenant) && line.len() < TENANT_DEPTH_MAX
        })
    }

    fn first(&self) -> Option<u64> {
        let place = |tenant: usize| -> Vec<(u64, usize)> {
            if !self.has_tenants {
                return Vec::new();
            }
            let share = |tenant: usize| {
                let said = self.tenants.get(&tenant).cloned().unwrap_or_default();
                // 6 is a multiple of all weights, which are 1, 2 and 3, so the quotient is exact.
                (said.used + said.claimed) * 6 / u64::from(said.weight.max(1))
            };
            self.line(tenant).into_iter().map(|tenant| (share(tenant), tenant)).collect()
        };
        let turn =
            |(id, (tenant, precedence)): (&u64, &(usize, i32))| (place(*tenant), -precedence, *id);
        self.jobs.iter().map(turn).min().map(|(_, _, id)| id)
    }

    fn delta(&mut self, tenants: impl Iterator<Item = usize>) -> Vec<TenantDelta> {
        self.has_tenants = true;
        let delta = |tenant: usize| {
            let said = &self.tenants[&tenant];
            let parent = said.parent.map(name);
            let tenant_config =
                TenantConfig { parent, weight: said.weight, ..TenantConfig::default() };
            let used = [said.used as i64].into_iter().collect();
            let terms = TenantTerms { name: name(tenant), tenant_config, limit: None };
            let known = self.terms.get(&tenant).filter(|known| ***known == terms).cloned();
            let terms = known.unwrap_or_else(|| Arc::new(terms));
            self.terms.insert(tenant, terms.clone());
            TenantDelta { terms, used }
        };
        tenants.map(delta).collect()
    }
}

fn name(tenant: usize) -> Text {
    format!("tenant-{tenant}").into()
}

fn job(tenant: usize, precedence: i32) -> Arc<Job> {
    let job = Job::batch("job", TaskGroup::new(1, Amounts::zero()));
    let precedence = omega_core::Precedence(precedence);
    Arc::new(Job { tenant: name(tenant), precedence, ..job })
}

proptest! {
    #[test]
    fn the_turn_is_that_of_the_naive_book(events in events()) {
        let mut shares = Shares::new(Arc::new(FairShare));
        shares.totals = Totals::new([WHOLE]);
        let mut naive = Naive::default();
        let all = (0..6).map(|tenant| (tenant, Said { weight: 1, ..Said::default() }));
        naive.tenants = all.collect();
        shares.apply_tenants(true, &naive.delta(0..6));
        for event in events {
            match event {
                Event::Comes { id, tenant, precedence } => {
                    if naive.jobs.contains_key(&id) {
                        continue;
                    }
                    naive.jobs.insert(id, (tenant, precedence));
                    shares.insert(&job(tenant, precedence), JobId(id));
                }
                Event::Goes { id } => {
                    let (tenant, precedence) = naive.jobs.remove(&id).unwrap_or((0, 0));
                    shares.remove(&job(tenant, precedence), JobId(id));
                }
                Event::Claims { tenant, amount } => {
                    for tenant in naive.line(tenant) {
                        naive.tenants.get_mut(&tenant).unwrap().claimed += 2 * amount;
                    }
                    shares.claim(&name(tenant), &Amounts::new([amount]), 2);
                }
                Event::Told { tenant, parent, weight, used } => {
                    naive.tenants.values_mut().for_each(|said| said.claimed = 0);
                    let parent = parent.filter(|_| naive.may_stand(tenant, parent));
                    let said = Said { parent, weight, used, claimed: 0 };
                    naive.tenants.insert(tenant, said);
                    shares.apply_tenants(false, &naive.delta([tenant].into_iter()));
                }
                Event::Uses { tenant, used } => {
                    naive.tenants.values_mut().for_each(|said| said.claimed = 0);
                    naive.tenants.get_mut(&tenant).unwrap().used = used;
                    shares.apply_tenants(false, &naive.delta([tenant].into_iter()));
                }
                Event::ToldAll => {
                    naive.tenants.values_mut().for_each(|said| said.claimed = 0);
                    // Swaps parents and children where the tree allows it.
                    let upside_down = naive.tenants.clone();
                    naive.tenants.values_mut().for_each(|said| said.parent = None);
                    for (tenant, said) in &upside_down {
                        let Some(parent) = said.parent else { continue };
                        if naive.may_stand(parent, Some(*tenant)) {
                            naive.tenants.get_mut(&parent).unwrap().parent = Some(*tenant);
                        }
                    }
                    // Merged deltas report a tenant twice.
                    shares.apply_tenants(said_full(&naive), &naive.delta((0..6).chain(0..2)));
                }
                Event::ToldNone => {
                    let none = Said { weight: 1, ..Said::default() };
                    naive.tenants.values_mut().for_each(|said| *said = none.clone());
                    naive.has_tenants = false;
                    shares.apply_tenants(true, &[]);
                }
            }
            prop_assert_eq!(shares.first(), naive.first().map(JobId));
            prop_assert_eq!(shares.len(), naive.jobs.len());
            let waiting: BTreeSet<usize> = naive.jobs.values().map(|job| job.0).collect();
            prop_assert_eq!(shares.tenants(), waiting.len());
        }
    }
}

/// Whether a report of all tenants comes as a full delta. True for even numbers of jobs, so that both cases occur.
fn said_full(naive: &Naive) -> bool {
    naive.jobs.len().is_multiple_of(2)
}

#[test]
fn jobs_of_many_tenants_are_in_one_order_until_one_is_reported() {
    const TENANTS: usize = 50;
    let mut shares = Shares::new(Arc::new(FairShare));
    shares.totals = Totals::new([WHOLE]);
    (0..TENANTS).for_each(|one| shares.insert(&job(one, 0), JobId(one as u64)));
    assert_eq!((shares.nodes[TOP].jobs.len(), shares.tenants()), (TENANTS, TENANTS));
    assert_eq!(shares.first(), Some(JobId(0)));
    let mut naive = Naive::default();
    let used = |one: usize| Said { weight: 1, used: (TENANTS - one) as u64, ..Said::default() };
    naive.tenants = (0..TENANTS).map(|one| (one, used(one))).collect();
    shares.apply_tenants(false, &naive.delta(0..TENANTS));
    assert_eq!(shares.first(), Some(JobId(TENANTS as u64 - 1)), "it uses the least");
    shares.apply_tenants(true, &[]);
    for one in 0..TENANTS {
        assert_eq!(shares.first(), Some(JobId(one as u64)));
        shares.remove(&job(one, 0), JobId(one as u64));
        assert_eq!((shares.len(), shares.tenants()), (TENANTS - one - 1, TENANTS - one - 1));
    }
    assert_eq!(shares.first(), None);
}
