//! Certificates that are revoked one by one, while the cell is served.

use crate::kit::callers::{Guarded, certified};
use crate::kit::cell::ports;
use crate::kit::certificates::tls;
use crate::kit::http::get_tls;
use crate::kit::process::run_omega;
use crate::kit::wait::insist;
use omega_client::{ApiError, ErrorCode};
use rcgen::{
    CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Writes the authority's revocation list with these certificates.
fn revoke(dir: &Path, number: u64, names: &[&str]) {
    let read = |file: &str| std::fs::read_to_string(dir.join("certs").join(file)).unwrap();
    let issuer = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), issuer).unwrap();
    let one = |name: &&str| RevokedCertParams {
        serial_number: serial(&read(&format!("{name}.pem"))),
        revocation_time: SystemTime::now().into(),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: SystemTime::now().into(),
        next_update: (SystemTime::now() + Duration::from_secs(24 * 3600)).into(),
        crl_number: SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs: names.iter().map(one).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let made = params.signed_by(&issuer).unwrap().pem().unwrap();
    // The file is replaced by renaming, so that it is always complete.
    std::fs::write(dir.join("revoked.new"), made).unwrap();
    std::fs::rename(dir.join("revoked.new"), dir.join("revoked.pem")).unwrap();
}

/// The serial number of a certificate, which is the field after the version.
fn serial(pem: &str) -> SerialNumber {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let version = [0xa0, 3, 2, 1, 2];
    let at = der.windows(5).position(|bytes| bytes == version).unwrap() + 5;
    assert_eq!(der[at], 2, "an integer");
    let length = usize::from(der[at + 1]);
    SerialNumber::from_slice(&der[at + 2..at + 2 + length])
}

#[test]
fn a_revoked_certificate_opens_nothing_from_then_on() {
    let dir = certified();
    revoke(dir.path(), 1, &[]);
    let web = ports(1)[0];
    let listen = format!("--web-listen=127.0.0.1:{web}");
    let guarded = Guarded::start_in(dir, &["--revoked=revoked.pem", &listen]);
    let eve = guarded.of("reader-eve");
    guarded.describe(eve.clone()).unwrap();
    revoke(guarded.path(), 2, &["reader-eve"]);
    insist(|| match guarded.describe(guarded.of("reader-eve")) {
        Ok(_) => Err(ApiError::new(ErrorCode::Busy, "not yet")),
        Err(_) => Ok(()),
    });
    guarded.describe(eve).expect("what is open stays open");
    guarded.describe(guarded.of("operator-ann")).expect("another's is as good as before");
    let ann = tls(guarded.path(), "certs", "operator-ann");
    let text = get_tls(web, &ann.authority, Some(&ann), "/metrics").body;
    let left = text.lines().find_map(|line| line.strip_prefix("omega_certificate_left_seconds "));
    let left: f64 = left.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    let year = 365.0 * 24.0 * 3600.0;
    assert!((year - 3600.0..=year).contains(&left), "{left}");
    // An unreadable list changes nothing, but a newer list without certificates takes effect.
    std::fs::write(guarded.path().join("revoked.pem"), "nothing").unwrap();
    assert!(guarded.describe(guarded.of("reader-eve")).is_err());
    revoke(guarded.path(), 3, &[]);
    insist(|| Ok(guarded.describe(guarded.of("reader-eve"))?));
}

#[test]
fn a_file_without_a_list_is_told() {
    let dir = certified();
    std::fs::write(dir.path().join("revoked.pem"), "").unwrap();
    let serve = |revoked: &str| {
        let revoked = format!("--revoked={revoked}");
        let arguments = [
            "serve",
            "--memory",
            "--listen=127.0.0.1:0",
            "--tls-cert=certs/replica-1.pem",
            "--tls-key=certs/replica-1.key",
            "--client-ca=certs/ca.pem",
            "--cell-name=test",
            &revoked,
        ];
        let output = run_omega(dir.path(), &arguments);
        assert_eq!((output.code, output.stderr.lines().count()), (Some(2), 1), "{}", output.stderr);
        output.stderr
    };
    assert!(serve("revoked.pem").contains("list of revoked certificates"));
    assert!(serve("none.pem").contains("none.pem"));
    let alone = run_omega(dir.path(), &["serve", "--memory", "--revoked=revoked.pem"]);
    assert!(alone.stderr.contains("--tls-cert is missing"), "{}", alone.stderr);
}
