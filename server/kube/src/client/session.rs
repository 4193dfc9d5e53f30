//! Sessions: credentials in the form that requests need. They are renewed when they expire.

use super::config::{Auth, Config, Pem};
use super::error::ConfigError;
use super::exec::Identity;
use super::tls;
use http::HeaderValue;
use omega_workload::readable;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio_rustls::TlsConnector;

/// Interval at which files with credentials are read again. They are replaced long before the old content expires.
const FILE_INTERVAL: Duration = Duration::from_secs(60);

/// Time for which old credentials are used after their files could not be read: they are just being replaced.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Credentials, ready for use.
#[derive(Clone)]
pub(super) struct Session {
    /// TLS configuration of new connections; `None` for plain HTTP.
    pub(super) tls: Option<TlsConnector>,
    /// The value of the header `Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    /// Time at which the credentials must be renewed.
    until: Option<Instant>,
    /// Whether certificates or the token are in files.
    pub(super) reads_files: bool,
}

/// Whether certificates or the token are in files, which are read again from time to time. A credential plugin names
/// the time at which it must run again.
fn reads_files(config: &Config) -> bool {
    if matches!(config.auth, Auth::Exec(_)) {
        return false;
    }
    let identity = config.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
    let mut all = config.authorities.iter().chain(identity);
    matches!(config.auth, Auth::TokenFile(_)) || all.any(|pem| matches!(pem, Pem::File(_)))
}

impl Session {
    /// Makes a session.
    pub(super) async fn new(config: &Config) -> Result<Session, ConfigError> {
        let authorities = config.authorities.as_ref().map(Pem::read).transpose()?;
        let read = |(certificate, key): &(Pem, Pem)| -> Result<Identity, ConfigError> {
            Ok(Identity { certificate: certificate.read()?, key: key.read()? })
        };
        let mut identity = config.identity.as_ref().map(read).transpose()?;
        let reads_files = reads_files(config);
        let (mut until, mut bearer) = (reads_files.then(|| Instant::now() + FILE_INTERVAL), None);
        match &config.auth {
            Auth::None => {}
            Auth::Token(token) => bearer = Some(format!("Bearer {token}")),
            Auth::Basic(pair) => bearer = Some(format!("Basic {pair}")),
            Auth::TokenFile(path) => {
                let read = readable::read_text(path);
                let fault = |source| ConfigError::Read { path: path.clone(), source };
                bearer = Some(format!("Bearer {}", read.map_err(fault)?.trim()));
            }
            Auth::Exec(exec) => {
                let credential = exec.run().await?;
                bearer = credential.token.map(|token| format!("Bearer {token}"));
                identity = credential.identity.or(identity);
                let left = credential.until.map(|at| at.duration_since(SystemTime::now()));
                // Credentials are renewed slightly before they expire, so that they stay valid for requests in flight.
                let left = left.map(|left| left.unwrap_or_default().mul_f64(0.9));
                until = left.map(|left| Instant::now() + left.max(Duration::from_secs(1)));
            }
        }
        let secure = config.server.starts_with("https://");
        let tls = secure
            .then(|| tls::config(config, authorities.as_deref(), identity.as_ref()))
            .transpose()?;
        let authorization = bearer.map(|text| HeaderValue::from_str(&text)).transpose();
        let mut authorization = authorization.map_err(|_| {
            ConfigError::Tls("the token has characters that an HTTP header must not contain".into())
        })?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let tls = tls.map(|tls| TlsConnector::from(Arc::new(tls)));
        Ok(Session { tls, authorization, until, reads_files })
    }

    /// Returns these credentials for a short time, although they must be renewed.
    pub(super) fn once_more(&self) -> Session {
        Session { until: Some(Instant::now() + RETRY_INTERVAL), ..self.clone() }
    }

    /// Whether the credentials must be renewed.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(work)
    }

    #[test]
    fn files_are_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.crt");
        let config = Config {
            authorities: Some(Pem::File(path.clone())),
            ..Config::plain("https://127.0.0.1:1")
        };
        let new = || block_on(Session::new(&config));
        std::fs::write(&path, "").expect("a file");
        let session = new().expect("a session");
        assert!(session.reads_files && session.until.is_some(), "it is renewed");
        let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        std::fs::write(&path, broken).expect("a file");
        assert!(new().is_err(), "the new content is used");
        std::fs::remove_file(&path).expect("a file");
        assert!(matches!(new(), Err(ConfigError::Read { .. })));
        let config = Config { authorities: Some(Pem::Text(Vec::new())), ..config };
        let session = block_on(Session::new(&config)).expect("a session");
        assert!(!session.reads_files && session.until.is_none());
    }
}
