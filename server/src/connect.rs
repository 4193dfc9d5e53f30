//! Where the cell is that a command speaks to.

use clap::Args;
use omega_client::Address;

/// The cell at the other end. Any of its replicas will do.
#[derive(Clone, Debug, Args)]
pub(crate) struct CellArgs {
    /// Replicas of the cell; the next is asked where one does not answer.
    #[arg(
        long,
        env = "OMEGA_CELL",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = "127.0.0.1:7600"
    )]
    cell: Vec<String>,
}

impl CellArgs {
    /// Where it is.
    pub(crate) fn address(&self) -> Address {
        Address::plain(self.cell.iter().cloned())
    }
}
