//! The origin of a cell: its id and its resource kinds.

use omega_core::Kinds;
use std::fmt;

/// Random id of a cell, chosen when it is bootstrapped, so that logs of different cells are never confused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellId(pub u128);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A cell before its first command. Replaying a log needs the origin, because no command contains the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Id of the cell.
    pub cell: CellId,
    /// Resource kinds of the cell.
    pub kinds: Kinds,
}
