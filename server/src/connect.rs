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
        value_parser = replica,
        default_value = "127.0.0.1:7600"
    )]
    cell: Vec<String>,
}

/// Checks one address, so that a mistake is told before anything waits for an answer.
fn replica(text: &str) -> Result<String, String> {
    let is_address = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    match text.rsplit_once(':').is_some_and(is_address) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not an address like host:port")),
    }
}

impl CellArgs {
    /// Where it is.
    pub(crate) fn address(&self) -> Address {
        Address::plain(self.cell.iter().cloned())
    }
}
