//! Certificates for tests: valid ones from `omega cert`, and invalid ones from a library.

use crate::kit::process::run_omega;
use omega_client::Tls;
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Creates a certificate authority in a folder below `dir`.
pub(crate) fn authority(dir: &Path, folder: &str) {
    let output = run_omega(dir, &["cert", "authority", &format!("--dir={folder}")]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

/// Issues a certificate of the cell `test` by the authority in a folder.
pub(crate) fn issue(dir: &Path, folder: &str, whom: &str, more: &[&str]) {
    let folder = format!("--dir={folder}");
    let mut arguments = vec!["cert", "issue", whom, "--cell-name=test", &folder];
    arguments.extend(more);
    let output = run_omega(dir, &arguments);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

/// TLS settings of a client with this certificate and its authority.
pub(crate) fn tls(dir: &Path, folder: &str, name: &str) -> Tls {
    let file = |name: String| std::fs::read(dir.join(folder).join(name)).unwrap();
    Tls {
        authority: file("ca.pem".into()),
        certificate: file(format!("{name}.pem")),
        key: file(format!("{name}.key")),
        server_name: None,
    }
}

/// A certificate that `omega cert` would not issue.
pub(crate) struct Odd<'a> {
    pub(crate) uris: &'a [&'a str],
    pub(crate) usage: ExtendedKeyUsagePurpose,
    /// Start of its validity, in days from now; negative for the past.
    pub(crate) from_days: i64,
    pub(crate) to_days: i64,
}

impl Default for Odd<'_> {
    fn default() -> Self {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        Odd { uris: &["omega://test/operator/ann"], usage, from_days: -1, to_days: 1 }
    }
}

fn day(days: i64) -> SystemTime {
    let span = Duration::from_secs(days.unsigned_abs() * 24 * 3600);
    let now = SystemTime::now();
    if days < 0 { now - span } else { now + span }
}

/// Issues an odd certificate by the authority of `folder`; the client trusts the authority of `believes`.
pub(crate) fn odd(dir: &Path, (folder, believes): (&str, &str), of: &Odd<'_>) -> Tls {
    let read = |file: &str| std::fs::read_to_string(dir.join(folder).join(file)).unwrap();
    let key = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), key).unwrap();
    let mut params = CertificateParams::default();
    params.not_before = day(of.from_days).into();
    params.not_after = day(of.to_days).into();
    params.extended_key_usages = vec![of.usage.clone()];
    for uri in of.uris {
        params.subject_alt_names.push(SanType::URI(Ia5String::try_from(*uri).unwrap()));
    }
    let pair = KeyPair::generate().unwrap();
    let made = params.signed_by(&pair, &issuer).unwrap();
    Tls {
        authority: std::fs::read(dir.join(believes).join("ca.pem")).unwrap(),
        certificate: made.pem().into_bytes(),
        key: pair.serialize_pem().into_bytes(),
        server_name: None,
    }
}
