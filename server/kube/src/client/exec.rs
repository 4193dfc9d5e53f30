//! Credential plugins of a kubeconfig: programs that print an `ExecCredential`.

use super::error::ConfigError;
use super::time;
use serde::Deserialize;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

/// The zero time of a plugin in Go, whose credentials do not expire.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A credential plugin.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    api_version: String,
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Variable {
    name: String,
    value: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The chain of certificates.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

/// Credentials that a plugin printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// The bearer token.
    pub token: Option<String>,
    /// The client's certificate.
    pub identity: Option<Identity>,
    /// Time at which the credentials expire; `None` if they do not expire.
    pub until: Option<SystemTime>,
}

#[derive(Deserialize)]
struct Printed {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Exec {
    /// Resolves a relative path of the program.
    pub(super) fn in_folder(mut self, folder: &Path) -> Exec {
        if self.command.contains('/') {
            self.command = folder.join(&self.command).to_string_lossy().into_owned();
        }
        self
    }

    /// Runs the plugin.
    ///
    /// # Errors
    /// If the plugin cannot be run, fails, or prints no credentials.
    pub async fn run(&self) -> Result<Credential, ConfigError> {
        let request = serde_json::json!({"apiVersion": self.api_version, "kind": "ExecCredential",
            "spec": {"interactive": false}});
        let mut command = tokio::process::Command::new(&self.command);
        command.args(self.args.iter().flatten());
        command.envs(self.env.iter().flatten().map(|variable| (&variable.name, &variable.value)));
        command.env("KUBERNETES_EXEC_INFO", request.to_string()).stdin(Stdio::null());
        // If the caller stops waiting, the plugin ends too.
        command.kill_on_drop(true);
        let fault = |message: String| ConfigError::Exec { command: self.command.clone(), message };
        let output = command.output().await.map_err(|why| fault(why.to_string()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(fault(format!("{}: {}", output.status, text.trim())));
        }
        parse(&output.stdout).map_err(fault)
    }
}

/// Parses the output of a plugin.
fn parse(printed: &[u8]) -> Result<Credential, String> {
    let printed: Printed = serde_json::from_slice(printed)
        .map_err(|why| format!("its output is not an ExecCredential: {why}"))?;
    let status = printed.status.ok_or("its output is an ExecCredential without status")?;
    let identity = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => {
            Some(Identity { certificate: certificate.into_bytes(), key: key.into_bytes() })
        }
        _ => None,
    };
    if status.token.is_none() && identity.is_none() {
        return Err(
            "its output has neither status.token nor a client certificate with its key".into()
        );
    }
    let expires = status.expiration_timestamp.filter(|text| text != NEVER);
    let read = |text: String| {
        time::parse(&text).ok_or_else(|| {
            format!(
                "its output has the status.expirationTimestamp {text:?}: write it as in RFC 3339"
            )
        })
    };
    let until = expires.map(read).transpose()?;
    Ok(Credential { token: status.token, identity, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_prints_a_token_or_a_certificate() {
        let token =
            parse(br#"{"status":{"token":"t","expirationTimestamp":"2030-01-01T00:00:00Z"}}"#);
        let token = token.expect("a token");
        assert_eq!(token.token.as_deref(), Some("t"));
        assert!(token.until.is_some());
        let pair = br#"{"status":{"clientCertificateData":"c","clientKeyData":"k"}}"#;
        assert!(parse(pair).expect("a certificate").identity.is_some());
        assert!(parse(br#"{"status":{}}"#).is_err());
        assert!(parse(b"{}").is_err());
    }

    #[test]
    fn an_unreadable_expiration_is_an_error() {
        let until = |text: &str| {
            let status = serde_json::json!({"token": "t", "expirationTimestamp": text});
            let printed = serde_json::json!({"status": status}).to_string();
            parse(printed.as_bytes()).map(|credential| credential.until)
        };
        assert!(until("soon").expect_err("it is no time").contains("soon"));
        assert_eq!(until("2030-01-01T01:00:00+01:00"), until("2030-01-01T00:00:00Z"));
        assert!(until("2030-01-01T00:00:00Z").expect("a time").is_some());
        assert_eq!(until(NEVER), Ok(None));
    }
}
