//! Access to a server: from this machine only, unless callers present certificates.

use omega_client::Tls;
use omega_client::connect::tls_endpoint;
use omega_service::{Certificates, Dial, ListenerSecurity, TlsBytes, TlsError, TlsFiles};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tonic::transport::Endpoint;

/// Options for certificates. Each field is described at the flag of the same name.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) peer_ca: Option<PathBuf>,
    pub(crate) revoked: Option<PathBuf>,
    pub(crate) insecure: bool,
}

/// Error in the settings of certificates, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsSettingsError {
    /// A setting for certificates is missing. Add it.
    #[error("{0} is missing: TLS needs --tls-cert, --tls-key, --client-ca and --cell-name")]
    Incomplete(&'static str),
    /// The cell's name is not valid in certificates. Choose another one.
    #[error(
        "--cell-name {0:?}: with certificates, the name must consist of letters, digits and \
         the characters . _ ~ -"
    )]
    Name(String),
    /// The address is open to other machines. Give the server certificates, or listen only on this machine.
    #[error(
        "{flag} {address} is open to other machines: give --tls-cert, --tls-key and --client-ca, or add --insecure if everyone who reaches it may do everything"
    )]
    Exposed {
        /// Name of the flag.
        flag: &'static str,
        /// Address of the listener.
        address: String,
    },
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    clients: TlsFiles,
    peers: TlsFiles,
    cell: Arc<str>,
}

impl TlsOptions {
    fn is_none(&self) -> bool {
        let files = [&self.tls_cert, &self.tls_key, &self.client_ca, &self.peer_ca, &self.revoked];
        files.iter().all(|file| file.is_none())
    }

    /// The certificate files; `None` if none are configured.
    ///
    /// # Errors
    /// If a setting is missing.
    pub(super) fn files(&self, cell: Option<&str>) -> Result<Option<Files>, TlsSettingsError> {
        if self.is_none() {
            return Ok(None);
        }
        let need =
            |file: &Option<PathBuf>, flag| file.clone().ok_or(TlsSettingsError::Incomplete(flag));
        let certificate = need(&self.tls_cert, "--tls-cert")?;
        let key = need(&self.tls_key, "--tls-key")?;
        let client_ca = need(&self.client_ca, "--client-ca")?;
        let cell = cell.ok_or(TlsSettingsError::Incomplete("--cell-name"))?;
        if !omega_service::identity::is_plain(cell) {
            return Err(TlsSettingsError::Name(cell.to_owned()));
        }
        let peer_ca = self.peer_ca.clone().unwrap_or_else(|| client_ca.clone());
        let of = |authority| TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            authority,
            revoked: self.revoked.clone(),
        };
        Ok(Some(Files { clients: of(client_ca), peers: of(peer_ca), cell: cell.into() }))
    }

    /// Checks whether a server may listen on an address.
    ///
    /// # Errors
    /// If the address is open to other machines, and neither certificates nor the flag that allows it are given.
    pub(super) fn check(&self, flag: &'static str, at: &str) -> Result<(), TlsSettingsError> {
        if !self.is_none() || self.insecure || is_local(at) {
            Ok(())
        } else {
            Err(TlsSettingsError::Exposed { flag, address: at.to_owned() })
        }
    }
}

/// Whether an address can be reached only from this machine. A host name other than `localhost` counts as open, because
/// it may stand for any address.
fn is_local(address: &str) -> bool {
    match address.parse::<SocketAddr>() {
        Ok(address) => address.ip().is_loopback(),
        Err(_) => address.rsplit_once(':').is_some_and(|(host, _)| host == "localhost"),
    }
}

/// The callers that each listener accepts.
#[derive(Clone, Debug)]
pub(crate) struct SecurityByListener {
    /// The listener for clients.
    pub(crate) clients: ListenerSecurity,
    /// The listener for peers.
    pub(crate) peers: ListenerSecurity,
}

impl SecurityByListener {
    /// The certificates that this replica presents to its peers, if any.
    pub(crate) fn of_peers(&self) -> Option<Arc<Certificates>> {
        match &self.peers {
            ListenerSecurity::Tls { certificates, .. } => Some(certificates.clone()),
            ListenerSecurity::Open => None,
        }
    }
}

/// Reads and checks the certificates, and starts to watch them for changes.
///
/// # Errors
/// If the certificates cannot be used.
pub(crate) fn listeners(
    files: Option<&Files>,
    runtime: &Handle,
) -> Result<SecurityByListener, TlsError> {
    let Some(files) = files else {
        return Ok(SecurityByListener {
            clients: ListenerSecurity::Open,
            peers: ListenerSecurity::Open,
        });
    };
    let security = |of: &TlsFiles| {
        let certificates = Arc::new(Certificates::load(of.clone())?);
        runtime.spawn(certificates.clone().watch());
        Ok::<_, TlsError>(ListenerSecurity::Tls { certificates, cell: files.cell.clone() })
    };
    Ok(SecurityByListener { clients: security(&files.clients)?, peers: security(&files.peers)? })
}

/// Connection settings for the peer at `host:port`. Certificate files that have become invalid are ignored, as for the
/// listener of peers, which logs them.
///
/// # Errors
/// If the address is invalid.
pub(crate) fn dial(
    address: &str,
    certificates: Option<Arc<Certificates>>,
) -> Result<Dial, tonic::transport::Error> {
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
        .connect_timeout(std::time::Duration::from_secs(1))
        .tcp_nodelay(true);
    let Some(certificates) = certificates else {
        return Ok(Box::new(move || Some(endpoint.clone())));
    };
    let address = address.to_owned();
    // Dialling is repeated, so each error is logged once.
    let logged = Mutex::new(String::new());
    Ok(Box::new(move || {
        let TlsBytes { authority, certificate, key, .. } = certificates.bytes();
        let tls = Tls { authority, certificate, key, server_name: None };
        let error = match tls_endpoint(endpoint.clone(), &tls) {
            Ok(endpoint) => return Some(endpoint),
            Err(error) => with_causes(&error),
        };
        let mut logged = logged.lock();
        if *logged != error {
            tracing::warn!(
                peer = address,
                error,
                "the certificates cannot be used to connect to \
                 a peer"
            );
            *logged = error;
        }
        None
    }))
}

/// An error and its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cert::{self, CertCommand};
    use clap::Parser;
    use std::fs;

    #[derive(Parser)]
    struct Cert {
        #[command(subcommand)]
        command: CertCommand,
    }

    #[test]
    fn a_peer_is_dialled_with_the_last_valid_certificates() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let made = |words: &[&str]| {
            let folder = ["--dir", dir.path().to_str().expect("a path")];
            let words = ["cert"].iter().chain(words).chain(&folder);
            cert::run(&Cert::parse_from(words).command).expect("it is made");
        };
        made(&["authority"]);
        made(&["issue", "replica/1", "--cell-name", "prod"]);
        let files = TlsFiles {
            certificate: at("replica-1.pem"),
            key: at("replica-1.key"),
            authority: at("ca.pem"),
            revoked: None,
        };
        let certificates = Arc::new(Certificates::load(files).expect("they are valid"));
        let dial = dial("127.0.0.1:7700", Some(certificates.clone())).expect("an address");
        assert!(dial().is_some());
        for bad in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            fs::write(at("replica-1.pem"), bad).expect("it can be written");
            certificates.reload().expect_err("the file is invalid");
            assert!(dial().is_some(), "{bad:?}");
        }
        fs::remove_file(at("replica-1.key")).expect("it exists");
        certificates.reload().expect_err("there is no key");
        assert!(dial().is_some());
    }
}
