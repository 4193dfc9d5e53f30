//! The certificates of a listener: read from files, validated, and reloaded when the files change.
//!
//! Both sides present a certificate, with TLS 1.3 and without session resumption. So no new connections can be opened
//! with expired or revoked certificates, or with those of a removed authority. Open connections stay open.

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Interval at which the files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Time before a certificate's expiry from which warnings are logged: two weeks.
const WARN: Duration = Duration::from_secs(14 * 24 * 3600);

/// Interval between warnings.
const WARN_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/2, for programs with certificates.
    Http2,
    /// HTTP/1.1, for browsers and probes. A caller without a certificate is unidentified, and may make only calls that
    /// are open to unidentified callers.
    Http1,
}

/// PEM files with the certificates of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The replica's certificate, followed by the intermediate ones up to its authority.
    pub certificate: PathBuf,
    /// Key of the certificate, readable only by its owner.
    pub key: PathBuf,
    /// The authorities that sign callers' certificates.
    pub authority: PathBuf,
    /// Certificate revocation lists, if any.
    pub revoked: Option<PathBuf>,
}

/// Error of unusable certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read. Name another file, or correct this one.
    #[error("{}: {why}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// Users other than the owner may read the key. Remove this permission.
    #[error("{}: other users may read this key (mode {mode:03o}): run `chmod 600` on the file", file.display())]
    Mode {
        /// Path of the file.
        file: PathBuf,
        /// Mode bits of the file.
        mode: u32,
    },
    /// The file has no certificate or key. Name another file.
    #[error("{}: contains no {what} in PEM format", file.display())]
    Empty {
        /// Path of the file.
        file: PathBuf,
        /// Missing object.
        what: &'static str,
    },
    /// The key and the certificates do not match. Use a key and certificates that belong together.
    #[error("{}: cannot be used: {why}", file.display())]
    Unusable {
        /// The file of the certificate or of the authorities.
        file: PathBuf,
        /// The error.
        why: String,
    },
}

/// Contents of the files.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsBytes {
    /// The certificates.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
    /// The authorities.
    pub authority: Vec<u8>,
    /// Revocation lists of the authorities.
    pub revoked: Option<Vec<u8>>,
}

/// Prints no contents, because they include the key.
impl std::fmt::Debug for TlsBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsBytes").finish_non_exhaustive()
    }
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be read, or users other than the owner may read the key.
    pub fn read(&self) -> Result<TlsBytes, TlsError> {
        Ok(TlsBytes {
            certificate: read(&self.certificate)?,
            key: read_key(&self.key)?,
            authority: read(&self.authority)?,
            revoked: self.revoked.as_deref().map(read).transpose()?,
        })
    }
}

/// Reads a regular file. A named pipe would wait for ever, and any pipe could be read only once.
fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let regular = std::fs::metadata(file).and_then(|about| {
        let message =
            "it is not a regular file: give one, because it is read again when it changes";
        let is_regular = about.is_file() || about.is_dir();
        if is_regular { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, message)) }
    });
    let read = regular.and_then(|()| std::fs::read(file));
    read.map_err(|why| TlsError::File { file: file.to_owned(), why })
}

/// Reads a key that only its owner may read.
///
/// # Errors
/// If the file cannot be read, or users other than the owner may read it.
pub fn read_key(file: &Path) -> Result<Vec<u8>, TlsError> {
    check_key(file)?;
    read(file)
}

/// Checks that only its owner may read a key.
///
/// # Errors
/// If there is no such file, or users other than the owner may read it.
pub fn check_key(file: &Path) -> Result<(), TlsError> {
    let reported = std::fs::metadata(file);
    let reported = reported.map_err(|why| TlsError::File { file: file.to_owned(), why })?;
    let mode = reported.permissions().mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(TlsError::Mode { file: file.to_owned(), mode }),
    }
}

/// The current certificates of a listener.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    /// Locked for single look-ups.
    now: Mutex<Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    bytes: TlsBytes,
    config: Arc<ServerConfig>,
    /// Configuration for browsers and probes, which accepts connections without a certificate.
    config_http1: Arc<ServerConfig>,
    ends: SystemTime,
}

impl Certificates {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// If the files cannot be used.
    pub fn load(files: TlsFiles) -> Result<Certificates, TlsError> {
        let loaded = load(&files, files.read()?)?;
        Ok(Certificates { files, now: Mutex::new(loaded) })
    }

    /// Configuration of a new connection.
    pub(crate) fn config(&self, protocol: Protocol) -> Arc<ServerConfig> {
        let now = self.now.lock();
        match protocol {
            Protocol::Http2 => now.config.clone(),
            Protocol::Http1 => now.config_http1.clone(),
        }
    }

    /// Contents of the files that are in use: of the last files that were valid.
    #[must_use]
    pub fn bytes(&self) -> TlsBytes {
        self.now.lock().bytes.clone()
    }

    /// Expiry of the certificate.
    #[must_use]
    pub fn ends(&self) -> SystemTime {
        self.now.lock().ends
    }

    /// Reads the files again. Returns whether they had changed.
    ///
    /// # Errors
    /// If the files are unusable. The previous certificates stay in use.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let bytes = self.files.read()?;
        if self.now.lock().bytes == bytes {
            return Ok(false);
        }
        let loaded = load(&self.files, bytes)?;
        *self.now.lock() = loaded;
        Ok(true)
    }

    /// Reloads the files periodically, and warns before the certificate expires.
    pub async fn watch(self: Arc<Certificates>) {
        let file = self.files.certificate.display().to_string();
        let mut warned: Option<tokio::time::Instant> = None;
        let mut failed = false;
        loop {
            let left = self.ends().duration_since(SystemTime::now()).unwrap_or_default();
            let due = warned.is_none_or(|at| at.elapsed() >= WARN_EVERY);
            if left < WARN && due {
                let days = left.as_secs() / (24 * 3600);
                tracing::warn!(file, days, "a certificate expires soon: replace the file");
                warned = Some(tokio::time::Instant::now());
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
            match self.reload() {
                Ok(true) => {
                    tracing::info!(file, "new certificates are used from now on");
                    (warned, failed) = (None, false);
                }
                Ok(false) => failed = false,
                // Files are replaced one after the other, so some may be old. The next check finds all of them
                // replaced.
                Err(error) if !failed => {
                    tracing::warn!(%error, "the old certificates stay in use");
                    failed = true;
                }
                Err(_) => {}
            }
        }
    }
}

fn load(files: &TlsFiles, bytes: TlsBytes) -> Result<Loaded, TlsError> {
    let unusable = |file: &Path, why: String| TlsError::Unusable { file: file.to_owned(), why };
    let chain = certificates(&files.certificate, &bytes.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes.key)
        .map_err(|_| TlsError::Empty { file: files.key.clone(), what: "key" })?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.authority, &bytes.authority)? {
        roots.add(authority).map_err(|why| unusable(&files.authority, why.to_string()))?;
    }
    let ends = ends(&chain[0]);
    let ends = ends.ok_or_else(|| unusable(&files.certificate, "it cannot be read".to_owned()))?;
    let revoked = match (&files.revoked, &bytes.revoked) {
        (Some(file), Some(pem)) => revocations(file, pem)?,
        _ => Vec::new(),
    };
    let of_callers = files.revoked.as_ref().unwrap_or(&files.authority);
    let made = |protocol| {
        let callers = callers(roots.clone(), revoked.clone(), protocol);
        let callers = callers.map_err(|why| unusable(of_callers, why.to_string()))?;
        let made = config(callers, (chain.clone(), key.clone_key()), protocol);
        made.map(Arc::new).map_err(|why| unusable(&files.certificate, why.to_string()))
    };
    let (config, config_http1) = (made(Protocol::Http2)?, made(Protocol::Http1)?);
    Ok(Loaded { bytes, config, config_http1, ends })
}

/// Verifier of the certificates of callers.
///
/// A revocation list revokes certificates of its authority, including intermediate ones. If an authority has no list,
/// none of its certificates is revoked. An overdue list is still used, because rejecting everyone would help an
/// attacker who can withhold the list.
fn callers(
    roots: RootCertStore,
    revoked: Vec<CertificateRevocationListDer<'static>>,
    protocol: Protocol,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let callers = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
        .with_crls(revoked)
        .allow_unknown_revocation_status();
    match protocol {
        Protocol::Http2 => callers.build(),
        Protocol::Http1 => callers.allow_unauthenticated().build(),
    }
}

fn config(
    callers: Arc<dyn ClientCertVerifier>,
    (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    protocol: Protocol,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider knows TLS 1.3")
        .with_client_cert_verifier(callers)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = match protocol {
        Protocol::Http2 => vec![b"h2".to_vec()],
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
    };
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let empty = || TlsError::Empty { file: file.to_owned(), what: "certificate" };
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(empty)
}

/// The revocation lists in a file. A file without a list is an error, so that it does not count as an empty list.
fn revocations(
    file: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let empty = || TlsError::Empty { file: file.to_owned(), what: "list of revoked certificates" };
    let all = CertificateRevocationListDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(empty)
}

fn ends(der: &[u8]) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
