//! Names of kinds and levels in objectives.

use super::error::ObjectivesError;
use crate::kube::kinds::is_nominal;
use omega_core::{KindId, Kinds, TopologyLevel};

/// A level by its name: a label key, or `machine`, which is the default.
pub(super) fn level_of(name: Option<&str>) -> TopologyLevel {
    match name {
        None | Some("machine") => TopologyLevel::Machine,
        Some(label) => TopologyLevel::Label(label.into()),
    }
}

/// Returns the kind with this name. `place` is the flag or field with the name, for the error.
///
/// # Errors
/// If the cell has no kind of this name.
pub fn kind(kinds: &Kinds, place: &str, name: &str) -> Result<KindId, ObjectivesError> {
    kinds.by_name(name).ok_or_else(|| {
        let has: Vec<&str> = kinds
            .iter()
            .map(|(_, kind)| kind.name.as_str())
            .filter(|kind| !is_nominal(kind))
            .collect();
        ObjectivesError::NoKind {
            place: place.to_owned(),
            kind: name.to_owned(),
            has: has.join(", "),
        }
    })
}
