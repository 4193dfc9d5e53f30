//! Machines: capacity, labels, taints and devices.

use crate::amounts::{Amounts, KindId};
use crate::cores::NodeCores;
use crate::limits::{DEVICE_MILLI, DEVICES_MAX};
use crate::ports::PortRange;
use crate::text::Text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Labels: keys with values, sorted by key.
///
/// Copies share one allocation, because the machines of a rack, or the tasks of a job, have equal labels.
///
/// Invariant: strictly ascending keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(Option<Arc<[(Text, Text)]>>);

impl Labels {
    /// Returns labels from pairs of a key and a value. Of several pairs with the same key, the last one is used.
    pub fn new<K: Into<Text>, V: Into<Text>>(pairs: impl IntoIterator<Item = (K, V)>) -> Labels {
        let mut sorted: Vec<(Text, Text)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // The sort must be fast: a message may have half a million pairs in any order, and their number is checked only
        // later. The sort must also be stable, so that of two pairs with equal keys, the later one stays behind the
        // earlier one.
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        sorted.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Labels((!sorted.is_empty()).then(|| sorted.into()))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Text> {
        let pairs = self.pairs();
        pairs.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &pairs[i].1)
    }

    /// Keys and values, ascending by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.pairs().iter().map(|(key, value)| (key, value))
    }

    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs().len()
    }

    /// Whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }

    /// Whether the keys are strictly ascending. Labels from a message may break this invariant.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.pairs().windows(2).all(|pair| pair[0].0 < pair[1].0)
    }

    fn pairs(&self) -> &[(Text, Text)] {
        self.0.as_deref().unwrap_or(&[])
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Labels {
        Labels::new(pairs)
    }
}

/// Effect of a taint on tasks that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaintEffect {
    /// A task without a toleration is not placed on the machine.
    NoSchedule,
    /// A task without a toleration is placed on the machine only if no other machine is better.
    PreferNoSchedule,
    /// A task without a toleration is not placed on the machine, and must leave the machine if it already runs there.
    NoExecute,
}

/// A taint, which keeps tasks that do not tolerate it off a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Key of the taint.
    pub key: Text,
    /// Value of the taint; may be empty.
    pub value: Text,
    /// Effect of the taint.
    pub effect: TaintEffect,
}

/// Operator of a toleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TolerationOperator {
    /// The taint's value equals the toleration's.
    Equal,
    /// The taint's value does not matter.
    Exists,
}

/// Permission for a task to run on machines with certain taints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// Key of the tolerated taints; `None` (only with `Exists`) means every key.
    pub key: Option<Text>,
    /// Comparison of the taint's value.
    pub operator: TolerationOperator,
    /// Value to compare with, for `Equal`.
    pub value: Text,
    /// Effect of the tolerated taints; `None` means every effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether the toleration covers the taint. (The rule is that of Kubernetes' `ToleratesTaint`.)
    #[must_use]
    pub fn covers(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        match (&self.key, self.operator) {
            (Some(key), _) if *key != taint.key => false,
            (None, TolerationOperator::Equal) => false,
            (_, TolerationOperator::Exists) => true,
            (_, TolerationOperator::Equal) => self.value == taint.value,
        }
    }
}

/// A level of the cell's topology, such as racks or zones.
///
/// Each level has a label key; machines with equal values of this label form one domain. Machines without the label are
/// in no domain of this level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopologyLevel {
    /// Each machine is its own domain.
    Machine,
    /// Machines with the same value of this label share a domain.
    Label(Text),
}

impl fmt::Display for TopologyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyLevel::Machine => f.write_str("machine"),
            TopologyLevel::Label(key) => f.write_str(key),
        }
    }
}

/// Overcommit of a machine: how much of its capacity may be claimed, in percent per kind. The default is 100.
///
/// Invariant: values from [`Overcommit::with`] have no trailing 100, so that equal overcommits compare equal.
///
/// The list is boxed, because few of a cell's many machines are overcommitted.
#[allow(clippy::box_collection, reason = "8 bytes a machine instead of 24")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Overcommit(Option<Box<Vec<u32>>>);

impl Overcommit {
    /// No overcommit: tasks can claim the capacity and no more.
    #[must_use]
    pub fn none() -> Overcommit {
        Overcommit::default()
    }

    /// Returns these factors with the factor of one kind set. 0 means 100.
    #[must_use]
    pub fn with(mut self, kind: KindId, percent: u32) -> Overcommit {
        let percents = self.0.get_or_insert_default();
        if percents.len() <= kind.index() {
            percents.resize(kind.index() + 1, 100);
        }
        percents[kind.index()] = if percent == 0 { 100 } else { percent };
        while percents.last() == Some(&100) {
            percents.pop();
        }
        if percents.is_empty() {
            self.0 = None;
        }
        self
    }

    /// The factor of one kind in percent.
    #[must_use]
    pub fn percent(&self, kind: KindId) -> u32 {
        self.percents().get(kind.index()).copied().filter(|percent| *percent > 0).unwrap_or(100)
    }

    /// All kinds with a factor other than 100, each with its factor in percent.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, u32)> + '_ {
        (0..)
            .map(KindId)
            .zip(self.percents().iter().copied())
            .filter(|(_, percent)| *percent != 100)
    }

    fn percents(&self) -> &[u32] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

/// A set of accelerator devices of one machine: bit `i` is device `i`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct DeviceSet(pub u32);

impl DeviceSet {
    /// Number of devices in the set.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the devices, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |device| self.0 & (1 << device) != 0)
    }

    /// The set with one more device.
    #[must_use]
    pub fn with(self, device: usize) -> DeviceSet {
        DeviceSet(self.0 | 1 << device)
    }
}

/// An image present on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Image {
    /// Name of the image. An image with several names is listed once for each.
    pub name: Text,
    /// Size of the image in bytes.
    pub bytes: u64,
}

/// A machine of the cell, as its operator describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the machine, unique in the cell.
    pub name: Text,
    /// Amounts that the machine has.
    pub capacity: Amounts,
    /// Overcommit: how far claims may exceed the capacity.
    pub overcommit: Overcommit,
    /// Labels: properties of the machine, and its domains (see [`TopologyLevel`]).
    pub labels: Labels,
    /// Taints, which keep off tasks without a matching toleration.
    pub taints: Box<[Taint]>,
    /// Images present on the machine.
    pub images: Box<[Image]>,
    /// Number of accelerator devices, each of [`DEVICE_MILLI`] thousandths.
    pub devices: u8,
    /// Number of exclusive cores of each NUMA node, included in the machine's `cpu`. Other cores of the machine are
    /// always shared. Empty if all cores are shared.
    pub numa: NodeCores,
    /// Range of the ports that the cell may give to tasks.
    pub ports: PortRange,
}

/// Fields that were added later are hashed only if they are set, so that the hashes in older snapshots stay valid.
impl Hash for Machine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Machine { name, capacity, overcommit, labels, taints, images, devices, numa, ports } =
            self;
        (name, capacity, overcommit, labels, taints, images, devices).hash(state);
        if !numa.is_empty() {
            ("numa", numa).hash(state);
        }
        if *ports != PortRange::default() {
            ("ports", ports).hash(state);
        }
    }
}

impl Machine {
    /// A machine of this name and capacity, without labels, taints, images, devices or exclusive cores.
    pub fn new(name: impl Into<Text>, capacity: Amounts) -> Machine {
        Machine {
            name: name.into(),
            capacity,
            overcommit: Overcommit::none(),
            labels: Labels::default(),
            taints: Box::default(),
            images: Box::default(),
            devices: 0,
            numa: NodeCores::NONE,
            ports: PortRange::default(),
        }
    }

    /// Returns this machine with `count` devices and the matching amount of the kind `gpu`.
    #[must_use]
    pub fn with_devices(mut self, gpu: KindId, count: u8) -> Machine {
        self.devices = count.min(DEVICES_MAX);
        self.capacity.set(gpu, u64::from(self.devices) * u64::from(DEVICE_MILLI));
        self
    }

    /// Amount of a kind that tasks may claim on the machine: its capacity times its overcommit.
    #[must_use]
    pub fn claimable(&self, kind: KindId) -> u64 {
        // The capacity is at most 2^50 and the percentage at most 1000, so the product fits in 64 bits.
        self.capacity.get(kind) * u64::from(self.overcommit.percent(kind)) / 100
    }

    /// Returns the machine's domain at a level: its name, or the value of the level's label. `None` if the machine
    /// lacks the label.
    #[must_use]
    pub fn domain(&self, level: &TopologyLevel) -> Option<&Text> {
        match level {
            TopologyLevel::Machine => Some(&self.name),
            TopologyLevel::Label(key) => self.labels.get(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_the_last_value_counts() {
        let labels = Labels::new([("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(labels.len(), 2);
        assert_eq!(labels.get("b").map(|v| &**v), Some("3"));
        assert!(labels.is_sorted());
        assert_eq!(Labels::new([("", ""); 0]), Labels::default());
    }

    #[test]
    fn a_toleration_without_a_key_needs_exists() {
        let taint = Taint { key: "k".into(), value: "v".into(), effect: TaintEffect::NoSchedule };
        let toleration = |key: Option<&str>, operator| Toleration {
            key: key.map(Into::into),
            operator,
            value: "v".into(),
            effect: None,
        };
        assert!(toleration(None, TolerationOperator::Exists).covers(&taint));
        assert!(!toleration(None, TolerationOperator::Equal).covers(&taint));
        assert!(toleration(Some("k"), TolerationOperator::Equal).covers(&taint));
        assert!(!toleration(Some("other"), TolerationOperator::Exists).covers(&taint));
    }

    #[test]
    fn claimable_is_capacity_times_overcommit() {
        let mut machine = Machine::new("a", Amounts::new([1000, 64]));
        machine.overcommit = Overcommit::none().with(KindId::CPU, 150);
        assert_eq!(machine.claimable(KindId::CPU), 1500);
        assert_eq!(machine.claimable(KindId::MEMORY), 64);
    }
}
