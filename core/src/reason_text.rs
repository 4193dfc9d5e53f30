//! The text of a [`Reason`], and its use as an error.
//!
//! In this crate a conflict is a result, and no function returns `Err(Reason)`. A program that cannot continue without
//! a placement may return a `Reason` as an error.

use crate::amounts::{KindId, Kinds};
use crate::transaction::Reason;
use std::fmt;

impl Reason {
    /// The reason in a few words, with the names of the cell's kinds.
    #[must_use]
    pub fn text(self, kinds: &Kinds) -> String {
        match self.kind().and_then(|kind| kinds.get(kind)) {
            Some(kind) => self.words(&kind.name),
            None => self.to_string(),
        }
    }

    /// The reason against a claim on a machine with the maximum number of tasks.
    pub const MACHINE_FULL: Reason = Reason::TasksPerMachine;

    /// The resource kind that is short, for reasons that have one.
    #[must_use]
    pub fn kind(self) -> Option<KindId> {
        match self {
            Reason::NoRoom(kind)
            | Reason::QuotaExceeded(kind)
            | Reason::CellExhausted(kind)
            | Reason::PeakHours(kind) => Some(kind),
            _ => None,
        }
    }

    fn words(self, kind: &str) -> String {
        let fixed = match self {
            Reason::NoRoom(_) => return format!("too little {kind} left"),
            Reason::QuotaExceeded(_) => return format!("quota of {kind} used up"),
            Reason::CellExhausted(_) => {
                return format!("too little {kind} left in the whole cell");
            }
            Reason::PeakHours(_) => return format!("peak hours: no {kind} left for batch tasks"),
            Reason::NoDevices => "no device has enough left",
            Reason::NoCores => "too few exclusive cores left",
            Reason::MachineChanged => "changed since the scheduler saw it",
            Reason::MachineGone => "gone",
            Reason::MachineDraining => "draining",
            Reason::OtherMachine => "the task names another machine",
            Reason::AffinityUnmet => "required labels missing",
            Reason::Tainted => "taint not tolerated",
            Reason::PortTaken => "port taken",
            Reason::NoPorts => "too few free ports in the machine's range",
            Reason::AntiAffinity => "anti-affinity to a task there",
            Reason::TaskAffinityUnmet => "no task of its affinity there",
            Reason::Skew => "spread would become too uneven",
            Reason::DomainFull => "domain has its maximum of tasks",
            Reason::NoDomain => "machine lacks the label of a rule",
            Reason::UnknownTask => "no such task",
            Reason::TaskPlaced => "the task has a machine already",
            Reason::TaskEnded => "the task has ended",
            Reason::TaskNotPlaced => "the task has no machine",
            Reason::PrecedenceTooLow => "the task to be evicted is not of lower precedence",
            Reason::EvictionUnused => "no claim of the transaction uses the evicted task's machine",
            Reason::GangIncomplete => "gang incomplete",
            Reason::OthersConflict => "another item of the transaction conflicts",
            Reason::RuntimeAffinityNeeded => "a task there depends on it",
            Reason::SameBand => "tasks of the same precedence band do not evict each other",
            Reason::TasksPerMachine => "maximum number of tasks on the machine",
            Reason::EvictionsCapped => "the cell's eviction limit is used up for now",
            Reason::Reserved => "reserved for other tenants",
        };
        fixed.to_owned()
    }
}

/// Writes the reason without the names of kinds. A kind is given by its number: `too little kind 0 left`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind().map(|kind| format!("kind {}", kind.0));
        f.write_str(&self.words(&kind.unwrap_or_default()))
    }
}

impl std::error::Error for Reason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_its_name_where_the_kinds_are_known() {
        let reason = Reason::NoRoom(KindId::MEMORY);
        assert_eq!(reason.text(&Kinds::standard()), "too little memory left");
        assert_eq!(reason.to_string(), "too little kind 1 left");
        assert_eq!(Reason::CellExhausted(KindId(9)).kind(), Some(KindId(9)));
        let beyond = Reason::CellExhausted(KindId(9)).text(&Kinds::standard());
        assert_eq!(beyond, "too little kind 9 left in the whole cell");
    }

    #[test]
    fn a_reason_passes_as_an_error() {
        let failed: Box<dyn std::error::Error> = Reason::Tainted.into();
        assert_eq!(failed.to_string(), "taint not tolerated");
    }
}
