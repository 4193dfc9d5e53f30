//! Checks before every route: the host name of the request, the caller, and the security headers of the answer.
//!
//! Without certificates, only programs on this machine reach the listener, and a browser is one of them. A foreign page
//! may make the browser send requests, but can read the responses only if the page's own host name resolves to this
//! machine. So a request must name this machine by a name that does not depend on a name server.

use super::Shown;
use super::response::Failed;
use crate::access::audited::Audited;
use crate::access::identity::Caller;
use crate::access::roles::{self, CallKind};
use crate::access::visibility;
use crate::overload::call_slots::Need;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use omega_client::{ApiError, ErrorCode};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// The API call that requires the same rights as the page.
const AS_CALL: &str = "/omega.v1.CellService/GetStatistics";

/// Security headers of every response: Content-Security-Policy, frame and nosniff headers.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Rejects requests for other hosts, and adds the security headers to each response.
pub(super) async fn protect(
    State(is_local): State<bool>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if is_local && !names_this_machine(request.headers()) {
        let message = "this page may be opened only as localhost, 127.0.0.1 or [::1]: use one of \
                 these names in the address";
        Failed(ApiError::new(ErrorCode::Denied, message)).into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Admits callers who may read the whole cell, as the gate does for services.
pub(super) async fn admit(State(shown): State<Shown>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let caller = caller.unwrap_or_else(|| Arc::new(Caller::without_certificate()));
    if let Err(error) = shown.call_limits.count_call(&caller, Need::Usual, Instant::now()) {
        return Failed(error).into_response();
    }
    let allowed = roles::check(&caller, AS_CALL).and_then(|_| visibility::may_see_all(&caller));
    if let Err(error) = allowed {
        if let Some(log) = &shown.audit {
            let audited = Audited::new(log, &caller);
            audited.record("web", request.uri().path(), error.code.name());
            audited.wait_written();
        }
        return Failed(error).into_response();
    }
    match shown.call_limits.enter(&caller, CallKind::Read, Need::Usual) {
        Ok(_permit) => next.run(request).await,
        Err(error) => Failed(error).into_response(),
    }
}

/// Whether the host of a request is a loopback address or `localhost`.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(is_local)
}

fn is_local(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_name_server_gives_are_of_this_machine() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:80"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "x",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "localhost:80:evil",
            "[::2]:80",
            "evil@localhost",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
