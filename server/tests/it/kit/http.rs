//! HTTP requests, with and without a certificate.

use omega_client::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// The response to a request.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    /// Header lines, in lower case.
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl HttpResponse {
    fn read(mut stream: impl Read) -> HttpResponse {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            // A server may close a TLS connection without a closing message.
            Err(why) if why.kind() != io::ErrorKind::UnexpectedEof => panic!("{why}"),
            _ => {}
        }
        let text = String::from_utf8(bytes).expect("the page is text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        HttpResponse { status, headers: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

/// Requests a path with this method and host name.
pub(crate) fn send_request(port: u16, method: &str, host: &str, path: &str) -> HttpResponse {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .unwrap();
    HttpResponse::read(stream)
}

/// Requests a path.
pub(crate) fn get(port: u16, path: &str) -> HttpResponse {
    send_request(port, "GET", "localhost", path)
}

/// Requests a path over TLS, with or without a client certificate.
pub(crate) fn get_tls(port: u16, authority: &[u8], own: Option<&Tls>, path: &str) -> HttpResponse {
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_slice_iter(authority) {
        roots.add(one.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::pem_slice_iter(&own.certificate);
            let chain = chain.map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_slice(&own.key).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(tls, TcpStream::connect(("127.0.0.1", port)).unwrap());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    HttpResponse::read(stream)
}

/// An HTTP/2 frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}
