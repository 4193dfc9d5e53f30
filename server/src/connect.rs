//! Connection to a cell: its addresses, and the caller's certificate.

use clap::Args;
use omega_client::{Address, Tls};
use omega_service::read_key;
use std::path::Path;

/// The cell at the other end. Any of its replicas will do.
#[derive(Clone, Debug, Args)]
pub(crate) struct CellArgs {
    /// Addresses of the replicas, which are tried in turn.
    #[arg(
        long,
        env = "OMEGA_CELL",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        value_parser = replica,
        default_value = "127.0.0.1:7600"
    )]
    cell: Vec<String>,
    /// Authority of the replicas' certificates, if the cell uses TLS.
    #[arg(long, env = "OMEGA_CA", value_name = "FILE.pem", value_parser = pem,
          requires_all = ["tls_cert", "tls_key"])]
    tls_ca: Option<Pem>,
    /// Certificate that identifies you.
    #[arg(long, env = "OMEGA_CERT", value_name = "FILE.pem", value_parser = pem,
          requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<Pem>,
    /// Key of that certificate, readable by its owner alone.
    #[arg(long, env = "OMEGA_KEY", value_name = "FILE.key", value_parser = key,
          requires_all = ["tls_ca", "tls_cert"])]
    tls_key: Option<Pem>,
}

/// Contents of a file. It is read with the arguments, so that a wrong path is reported like other
/// argument errors.
#[derive(Clone)]
struct Pem(Vec<u8>);

/// Without what may be a key.
impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

fn pem(file: &str) -> Result<Pem, String> {
    std::fs::read(file).map(Pem).map_err(|why| why.to_string())
}

fn key(file: &str) -> Result<Pem, String> {
    read_key(Path::new(file)).map(Pem).map_err(|why| why.to_string())
}

/// Checks one address, so that a mistake is reported before any wait.
fn replica(text: &str) -> Result<String, String> {
    let is_address = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    match text.rsplit_once(':').is_some_and(is_address) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not an address like host:port")),
    }
}

impl CellArgs {
    /// The addresses and certificates.
    pub(crate) fn address(&self) -> Address {
        let mut address = Address::plain(self.cell.iter().cloned());
        if let (Some(ca), Some(cert), Some(key)) = (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            address.tls = Some(Tls {
                authority: ca.0.clone(),
                certificate: cert.0.clone(),
                key: key.0.clone(),
                server_name: None,
            });
        }
        address
    }
}
