//! Which cell, and what it is before its first command.

use omega_core::Kinds;
use std::fmt;

/// Names a cell, so that no log is taken for another's. Whoever founds the cell throws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellId(pub u128);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Cell before its first command. No command holds the kinds, and with other kinds the
/// same commands make another cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which cell.
    pub cell: CellId,
    /// Its resource kinds.
    pub kinds: Kinds,
}
