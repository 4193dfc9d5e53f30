//! Amounts of resources: integers in the smallest unit that users write.
//!
//! Integers have equal sums in any order of the terms, so all replicas compute the same sums. An `Amounts` is one
//! vector over the cell's resource kinds, and has no fixed fields, because an operator may register more kinds.

use crate::limits::{AMOUNT_MAX, KINDS_MAX};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// A resource kind: its position in the cell's [`Kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KindId(pub u8);

impl KindId {
    /// The first kind of [`Kinds::standard`]: processor time, in thousandths of a core.
    pub const CPU: KindId = KindId(0);
    /// The second kind of [`Kinds::standard`]: memory, in bytes.
    pub const MEMORY: KindId = KindId(1);
    /// The third kind of [`Kinds::standard`]: local disk, in bytes.
    pub const DISK: KindId = KindId(2);
    /// The fourth kind of [`Kinds::standard`]: accelerators, in thousandths of a device.
    pub const GPU: KindId = KindId(3);

    /// The position of the kind as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Unit of an amount, which decides how the amount is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Thousandths of a thing, such as a core or a device.
    Milli,
    /// Number of bytes.
    Bytes,
    /// Number of whole things, such as pods or licences.
    Count,
}

/// A resource kind as the cell registers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceKind {
    /// Name of the kind, such as `cpu` or `example.com/fpga`.
    pub name: String,
    /// Unit of the kind's amounts.
    pub unit: Unit,
    /// Whether a task that gets less of the kind still runs, but more slowly. Only such kinds may be overcommitted.
    pub compressible: bool,
}

/// The resource kinds of one cell. Every [`Amounts`] has this order of kinds.
///
/// Invariant: 1 to [`KINDS_MAX`] kinds with different names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinds(Vec<ResourceKind>);

/// An error in a list of kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindsError {
    /// The list is empty. Name at least one kind.
    #[error("a cell needs at least one resource kind")]
    Empty,
    /// The list has this many kinds, more than [`KINDS_MAX`]. Name fewer.
    #[error("{0} resource kinds are too many: at most {KINDS_MAX} are allowed")]
    TooMany(usize),
    /// The list has two kinds of this name. Name each kind once.
    #[error("the resource kind {0:?} is named twice: name it once")]
    Duplicate(String),
}

impl Kinds {
    /// Checks a list of kinds.
    ///
    /// # Errors
    /// The list is empty, is too long, or names a kind twice.
    pub fn new(kinds: Vec<ResourceKind>) -> Result<Kinds, KindsError> {
        match kinds.len() {
            0 => return Err(KindsError::Empty),
            n if n > KINDS_MAX => return Err(KindsError::TooMany(n)),
            _ => {}
        }
        for (i, kind) in kinds.iter().enumerate() {
            if kinds[..i].iter().any(|earlier| earlier.name == kind.name) {
                return Err(KindsError::Duplicate(kind.name.clone()));
            }
        }
        Ok(Kinds(kinds))
    }

    /// The kinds `cpu` (in thousandths of a core, compressible), `memory` and `disk` (in bytes) and `gpu` (in
    /// thousandths of a device).
    #[must_use]
    pub fn standard() -> Kinds {
        let kind = |name: &str, unit, compressible| ResourceKind {
            name: name.to_owned(),
            unit,
            compressible,
        };
        Kinds(vec![
            kind("cpu", Unit::Milli, true),
            kind("memory", Unit::Bytes, false),
            kind("disk", Unit::Bytes, false),
            kind("gpu", Unit::Milli, false),
        ])
    }

    /// Number of kinds.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The kinds with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &ResourceKind)> {
        (0..).map(KindId).zip(&self.0)
    }

    /// The kind with this id; `None` if there is no such kind.
    #[must_use]
    pub fn get(&self, kind: KindId) -> Option<&ResourceKind> {
        self.0.get(kind.index())
    }

    /// The id of a kind by its name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<KindId> {
        self.iter().find(|(_, kind)| kind.name == name).map(|(id, _)| id)
    }

    /// The id of the kind `cpu`; `None` if the cell has no such kind, or does not measure it in thousandths.
    #[must_use]
    pub fn cpu(&self) -> Option<KindId> {
        let is_milli = |kind: &KindId| self.get(*kind).is_some_and(|k| k.unit == Unit::Milli);
        self.by_name("cpu").filter(is_milli)
    }

    /// The amount as text for people, such as `1.5 GiB`, `0.25` or `338,704`.
    #[must_use]
    pub fn display(&self, kind: KindId, amount: u64) -> String {
        match self.get(kind).map(|kind| kind.unit) {
            Some(Unit::Bytes) => display_bytes(amount),
            Some(Unit::Milli) if !amount.is_multiple_of(1000) && amount < 1_000_000 => {
                (amount as f64 / 1000.0).to_string()
            }
            Some(Unit::Milli) => grouped(amount / 1000),
            Some(Unit::Count) | None => grouped(amount),
        }
    }
}

/// The number as text, with commas between groups of three digits.
fn grouped(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

/// Returns a number of bytes as text, with three digits and a binary unit.
fn display_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Amount of each resource kind.
///
/// Invariant: no trailing zeros. So equal amounts compare equal, however they were built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "SmallVec<[u64; 4]>")]
pub struct Amounts(SmallVec<[u64; 4]>);

/// Amounts are deserialised through a `Vec`. A `SmallVec` would reserve memory for whatever length untrusted bytes
/// claim.
impl From<Vec<u64>> for Amounts {
    fn from(values: Vec<u64>) -> Amounts {
        Amounts::new(values)
    }
}

impl From<Amounts> for SmallVec<[u64; 4]> {
    fn from(amounts: Amounts) -> SmallVec<[u64; 4]> {
        amounts.0
    }
}

impl Amounts {
    /// Amounts of the first kinds, in order. All other kinds are zero.
    pub fn new(values: impl IntoIterator<Item = u64>) -> Amounts {
        let mut values: SmallVec<[u64; 4]> = values.into_iter().collect();
        while values.last() == Some(&0) {
            values.pop();
        }
        Amounts(values)
    }

    /// Amounts of zero for every kind.
    #[must_use]
    pub fn zero() -> Amounts {
        Amounts::default()
    }

    /// The amount of one kind.
    #[must_use]
    pub fn get(&self, kind: KindId) -> u64 {
        self.0.get(kind.index()).copied().unwrap_or(0)
    }

    /// Sets the amount of one kind.
    pub fn set(&mut self, kind: KindId, amount: u64) {
        if self.0.len() <= kind.index() {
            self.0.resize(kind.index() + 1, 0);
        }
        self.0[kind.index()] = amount;
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Returns these amounts with one kind set.
    #[must_use]
    pub fn with(mut self, kind: KindId, amount: u64) -> Amounts {
        self.set(kind, amount);
        self
    }

    /// The amounts in the order of the kinds, without trailing zeros.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// Iterates over the kinds with a non-zero amount.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, u64)> + '_ {
        (0..).map(KindId).zip(self.0.iter().copied()).filter(|(_, amount)| *amount > 0)
    }

    /// Whether all amounts are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each amount is at most the amount of the same kind in `other`.
    #[must_use]
    pub fn fits_in(&self, other: &Amounts) -> bool {
        self.iter().all(|(kind, amount)| amount <= other.get(kind))
    }

    /// Returns the sum; `None` if the sum of a kind would exceed 64 bits.
    #[must_use]
    pub fn checked_add(&self, other: &Amounts) -> Option<Amounts> {
        let count = self.0.len().max(other.0.len());
        let mut sum: SmallVec<[u64; 4]> = SmallVec::with_capacity(count);
        for i in 0..count {
            let kind = KindId(i as u8);
            sum.push(self.get(kind).checked_add(other.get(kind))?);
        }
        Some(Amounts::new(sum))
    }

    /// Returns the first kind that is not in `kinds`, or whose amount exceeds [`AMOUNT_MAX`]; `None` if all are valid.
    #[must_use]
    pub fn first_invalid(&self, kinds: &Kinds) -> Option<KindId> {
        self.iter()
            .find(|(kind, amount)| kind.index() >= kinds.count() || *amount > AMOUNT_MAX)
            .map(|(kind, _)| kind)
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        list.entries(self.0.iter());
        list.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_are_equal_values() {
        assert_eq!(Amounts::new([1, 0, 0]), Amounts::new([1]));
        let mut amounts = Amounts::new([1, 2]);
        amounts.set(KindId(1), 0);
        assert_eq!(amounts, Amounts::new([1]));
    }

    #[test]
    fn a_sum_that_overflows_is_no_sum() {
        let most = Amounts::new([u64::MAX]);
        assert_eq!(most.checked_add(&Amounts::new([1])), None);
        assert_eq!(most.checked_add(&Amounts::new([0, 7])), Some(Amounts::new([u64::MAX, 7])));
    }

    #[test]
    fn kinds_are_named_once() {
        let kind =
            |name: &str| ResourceKind { name: name.into(), unit: Unit::Count, compressible: false };
        assert_eq!(Kinds::new(vec![]), Err(KindsError::Empty));
        assert_eq!(
            Kinds::new(vec![kind("a"), kind("a")]),
            Err(KindsError::Duplicate("a".to_owned()))
        );
        assert_eq!(Kinds::standard().by_name("memory"), Some(KindId::MEMORY));
    }

    #[test]
    fn amounts_read_well() {
        let kinds = Kinds::standard();
        assert_eq!(kinds.display(KindId::CPU, 1500), "1.5");
        assert_eq!(kinds.display(KindId::CPU, 338_704_000), "338,704");
        assert_eq!(kinds.display(KindId::GPU, 1_000_007_000), "1,000,007");
        assert_eq!(kinds.display(KindId::MEMORY, 1536 << 20), "1.5 GiB");
        assert_eq!(kinds.display(KindId::MEMORY, 12), "12 B");
    }
}
