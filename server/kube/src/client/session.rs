//! Sessions: credentials in the form that requests need. They are renewed when they expire.

use super::config::{Auth, Config};
use super::error::ConfigError;
use super::tls;
use http::HeaderValue;
use omega_workload::readable;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio_rustls::TlsConnector;

/// Interval at which a file with a token is read again. Kubelets replace the token long before it expires.
const TOKEN_FILE_INTERVAL: Duration = Duration::from_secs(60);

/// Credentials, ready for use.
pub(super) struct Session {
    /// TLS configuration of new connections; `None` for plain HTTP.
    pub(super) tls: Option<TlsConnector>,
    /// The value of the header `Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    /// Time at which the credentials must be renewed.
    until: Option<Instant>,
}

impl Session {
    /// Makes a session.
    pub(super) async fn new(config: &Config) -> Result<Session, ConfigError> {
        let mut identity = config.identity.clone();
        let (mut until, mut bearer) = (None, None);
        match &config.auth {
            Auth::None => {}
            Auth::Token(token) => bearer = Some(format!("Bearer {token}")),
            Auth::Basic(pair) => bearer = Some(format!("Basic {pair}")),
            Auth::TokenFile(path) => {
                let read = readable::read_text(path);
                let fault = |source| ConfigError::Read { path: path.clone(), source };
                bearer = Some(format!("Bearer {}", read.map_err(fault)?.trim()));
                until = Some(Instant::now() + TOKEN_FILE_INTERVAL);
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
        let tls = secure.then(|| tls::config(config, identity.as_ref())).transpose()?;
        let authorization = bearer.map(|text| HeaderValue::from_str(&text)).transpose();
        let mut authorization = authorization.map_err(|_| {
            ConfigError::Tls("the token has characters that an HTTP header must not contain".into())
        })?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Session { tls: tls.map(|tls| TlsConnector::from(Arc::new(tls))), authorization, until })
    }

    /// Whether the credentials must be renewed.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }
}
