//! The cell's resource kinds, and the conversion of Kubernetes' resources.
//!
//! `cpu`, `memory`, `disk` and `pods` come first, in this order. Extended resources, such as accelerators, follow in
//! order of name: first those that pods request, then those that only machines have.
//!
//! `cpu (nominal)` and `memory (nominal)` come last. They are used for scores, where a container without a request has
//! a small default amount (see `request`). They are separate kinds because a machine's sums are computed by kind;
//! machines have unlimited amounts of them.

use super::api::Resources;
use super::input::Fault;
use super::quantity::Quantity;
use omega_core::limits::{AMOUNT_MAX, KINDS_MAX};
use omega_core::{Amounts, KindId, Kinds, ResourceKind, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// The names of the resources that every Kubernetes node has, in the order of their kinds.
const COMMON: [(&str, &str, Unit); 4] = [
    ("cpu", "cpu", Unit::Milli),
    ("memory", "memory", Unit::Bytes),
    ("ephemeral-storage", "disk", Unit::Bytes),
    ("pods", "pods", Unit::Count),
];

/// Kinds for scores: the name, and the Kubernetes resource. No Kubernetes resource has a space in its name.
const NOMINAL: [(&str, &str, Unit); 2] =
    [("cpu", "cpu (nominal)", Unit::Milli), ("memory", "memory (nominal)", Unit::Bytes)];

/// Maximum number of extended resources.
pub const EXTENDED_MAX: usize = KINDS_MAX - COMMON.len() - NOMINAL.len();

/// Ending of the names of the kinds for scores.
const NOMINAL_ENDING: &str = " (nominal)";

/// Whether a kind exists only for scores. Such kinds are not shown to users.
#[must_use]
pub fn is_nominal(kind: &str) -> bool {
    kind.ends_with(NOMINAL_ENDING)
}

/// The remark on an amount beyond [`AMOUNT_MAX`].
const TOO_MUCH: &str = "an amount above 2^50 is counted as 2^50";

/// Omega's name of a Kubernetes resource.
pub fn kind_name(resource: &str) -> &str {
    let common = COMMON.iter().find(|(name, _, _)| *name == resource);
    common.map_or(resource, |(_, kind, _)| kind)
}

/// Kubernetes' name of the resource of a kind.
#[must_use]
pub fn resource_name(kind: &str) -> &str {
    let common = COMMON.iter().find(|(_, name, _)| *name == kind);
    common.map_or(kind, |(resource, _, _)| resource)
}

/// The kinds of a cell, with Kubernetes' names.
#[derive(Debug)]
pub(super) struct KindTable {
    kinds: Kinds,
    /// Kinds by Kubernetes' name.
    ids: BTreeMap<String, KindId>,
}

/// The chosen kinds, and the resources left out.
pub(super) struct Chosen {
    pub(super) table: KindTable,
    /// Resources of machines that no pod requests.
    pub(super) left_out: Vec<String>,
}

impl KindTable {
    /// Chooses the kinds of a cell, from the resources of its machines and the requests of its pods.
    pub(super) fn choose<'a>(
        capacities: impl IntoIterator<Item = &'a Resources>,
        requests: impl IntoIterator<Item = &'a Resources>,
    ) -> Result<Chosen, Fault> {
        let wanted = extended(requests);
        let had = extended(capacities);
        if wanted.len() > EXTENDED_MAX {
            return Err(Fault::file(format!(
                "the pods request {} extended resources: at most {EXTENDED_MAX} are allowed",
                wanted.len()
            )));
        }
        let mut names: Vec<&str> = wanted.iter().copied().collect();
        names.extend(had.difference(&wanted));
        let left_out = names.split_off(names.len().min(EXTENDED_MAX));
        Ok(Chosen {
            table: KindTable::new(&names)?,
            left_out: left_out.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Chooses the kinds of a live cluster's cell. The resources that nodes have come first: those that pods request,
    /// then the others. So no pod can take the kind of a resource that a node has.
    pub(super) fn of_cluster<'a>(
        capacities: impl IntoIterator<Item = &'a Resources>,
        requests: impl IntoIterator<Item = &'a Resources>,
    ) -> Result<KindTable, Fault> {
        let (wanted, had) = (extended(requests), extended(capacities));
        let mut names: Vec<&str> = had.intersection(&wanted).copied().collect();
        names.extend(had.difference(&wanted));
        // A node with such a resource may be added later.
        names.extend(wanted.difference(&had));
        names.truncate(EXTENDED_MAX);
        KindTable::new(&names)
    }

    /// A table of the common kinds, these extended ones, and the nominal ones.
    fn new(extended: &[&str]) -> Result<KindTable, Fault> {
        let common = COMMON.iter().copied();
        let others = extended.iter().map(|name| (*name, *name, unit(name)));
        let mut all: Vec<(&str, &str, Unit)> = common.chain(others).collect();
        all.extend(NOMINAL.map(|(_, name, unit)| (name, name, unit)));
        let kinds = all.iter().map(|(_, name, unit)| ResourceKind {
            name: (*name).to_owned(),
            unit: *unit,
            compressible: *name == "cpu",
        });
        // In a hand-written file, an extended resource could be named `disk`, which is also the name of a common kind.
        let kinds = Kinds::new(kinds.collect()).map_err(|error| Fault::file(error.to_string()))?;
        let ids = all.iter().map(|(name, _, _)| (*name).to_owned()).zip((0..).map(KindId));
        Ok(KindTable { kinds, ids: ids.collect() })
    }

    /// Returns the kinds, in the order of their ids.
    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Whether a resource, by Kubernetes' name, has a kind.
    pub(super) fn knows(&self, resource: &str) -> bool {
        self.ids.contains_key(resource)
    }

    /// Returns the kinds, and consumes the table.
    pub(super) fn into_kinds(self) -> Kinds {
        self.kinds
    }

    /// Converts resources to amounts. Also returns a remark if an amount was capped.
    pub(super) fn amounts(&self, resources: &Resources) -> (Amounts, Option<&'static str>) {
        let mut amounts = Amounts::zero();
        let mut remark = None;
        for (name, quantity) in resources {
            let Some(kind) = self.ids.get(name) else { continue };
            let amount = self.amount(*kind, *quantity);
            if amount > AMOUNT_MAX {
                remark = Some(TOO_MUCH);
            }
            amounts.set(*kind, amount.min(AMOUNT_MAX));
        }
        (amounts, remark)
    }

    /// Capacity of a machine: its resources, and unlimited amounts of the nominal kinds.
    pub(super) fn capacity(&self, resources: &Resources) -> (Amounts, Option<&'static str>) {
        let (mut amounts, remark) = self.amounts(resources);
        for (_, name, _) in NOMINAL {
            self.set(&mut amounts, name, AMOUNT_MAX);
        }
        (amounts, remark)
    }

    /// Amounts that a pod claims: its resources, one of the kind `pods`, and the nominal amounts.
    pub(super) fn request(
        &self,
        resources: &Resources,
        nominal: &Resources,
    ) -> (Amounts, Option<&'static str>) {
        let (mut amounts, remark) = self.amounts(resources);
        self.set(&mut amounts, "pods", 1);
        for (resource, name, _) in NOMINAL {
            let (Some(kind), Some(quantity)) = (self.ids.get(name), nominal.get(resource)) else {
                continue;
            };
            amounts.set(*kind, self.amount(*kind, *quantity).min(AMOUNT_MAX));
        }
        (amounts, remark)
    }

    /// Sets the amount of the kind with this name.
    fn set(&self, amounts: &mut Amounts, name: &str, amount: u64) {
        if let Some(kind) = self.ids.get(name) {
            amounts.set(*kind, amount);
        }
    }

    /// Converts a quantity to the unit of a kind.
    fn amount(&self, kind: KindId, quantity: Quantity) -> u64 {
        let amount = match self.kinds.get(kind).map(|kind| kind.unit) {
            Some(Unit::Milli) => quantity.milli_value(),
            _ => quantity.value(),
        };
        // Quantities of resources are never negative.
        u64::try_from(amount.max(0)).unwrap_or(u64::MAX)
    }
}

/// Extended resources with a non-zero amount.
fn extended<'a>(all: impl IntoIterator<Item = &'a Resources>) -> BTreeSet<&'a str> {
    let some = all.into_iter().flatten().filter(|(_, amount)| *amount > Quantity::default());
    let names = some.map(|(name, _)| name.as_str());
    let own = |name: &&str| {
        COMMON.iter().chain(&NOMINAL).any(|(common, ours, _)| common == name || ours == name)
    };
    names.filter(|name| !own(name)).collect()
}

/// Unit of an extended resource.
fn unit(name: &str) -> Unit {
    if name.starts_with("hugepages-") { Unit::Bytes } else { Unit::Count }
}
