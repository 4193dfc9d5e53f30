//! TLS for connections to the API server: the authorities that are trusted, and the client's certificate.

use super::config::Config;
use super::error::ConfigError;
use super::exec::Identity;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Files in which operating systems have the certificates of authorities.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Returns the TLS configuration of a client that trusts these authorities.
///
/// # Errors
/// If a certificate or the key is not PEM, or if the key does not belong to the certificate.
pub(super) fn config(
    config: &Config,
    authorities: Option<&[u8]>,
    identity: Option<&Identity>,
) -> Result<ClientConfig, ConfigError> {
    let fault = |why: &dyn std::fmt::Display| ConfigError::Tls(why.to_string());
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|why| fault(&why))?;
    let builder = if config.insecure {
        let verifier = Arc::new(Unchecked(provider));
        builder.dangerous().with_custom_certificate_verifier(verifier)
    } else {
        builder.with_root_certificates(roots(authorities)?)
    };
    let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(&identity.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|why| fault(&why))?;
    builder.with_client_auth_cert(chain, key).map_err(|why| fault(&why))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    read.map_err(|why| ConfigError::Tls(why.to_string()))
}

fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, ConfigError> {
    let system = || SYSTEM.iter().find_map(|path| std::fs::read(path).ok());
    let pem = authorities.map(<[u8]>::to_vec).or_else(system).unwrap_or_default();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&pem)?);
    Ok(roots)
}

/// A verifier that accepts any certificate, for `insecure-skip-tls-verify`.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
