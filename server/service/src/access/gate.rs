//! The gate before every service: it checks the caller's role, then takes a slot for the call.
//!
//! The gate is one layer around all services, so that no service can be added without it. Rules that depend on the
//! content of a call are checked by the service that reads it: see `grants.rs`.

use crate::access::audit;
use crate::access::audit_queue::AuditLog;
use crate::access::audited::Audited;
use crate::access::identity::Caller;
use crate::access::roles;
use crate::connection::Visitor;
use crate::overload::bodies::{self, Incoming, Messages, Outgoing};
use crate::overload::call_slots::Need;
use crate::overload::limits::CallLimits;
use crate::overload::memory_accounts::{CallerAccount, MemoryCharge};
use crate::overload::weight::Weight;
use crate::service::{self, Arrived};
use http::{Request, Response};
use omega_client::{ApiError, ErrorCode};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

/// Puts a [`Gate`] before services.
#[derive(Clone, Debug)]
pub(crate) struct GateLayer {
    pub(crate) call_limits: CallLimits,
    pub(crate) audit: Option<Arc<AuditLog>>,
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { inner, call_limits: self.call_limits.clone(), audit: self.audit.clone() }
    }
}

/// The gate before services.
#[derive(Clone, Debug)]
pub(crate) struct Gate<S> {
    inner: S,
    call_limits: CallLimits,
    audit: Option<Arc<AuditLog>>,
}

impl<S> Gate<S> {
    /// Checks whether a call may proceed.
    fn admit(&self, caller: &Caller, need: Need, request: &Request<Body>) -> Result<(), ApiError> {
        self.call_limits.count_call(caller, need, Instant::now())?;
        if service::is_late(request.headers()) {
            Err(ApiError::new(
                ErrorCode::Late,
                "nothing was done: the deadline had passed when the call arrived",
            ))
        } else {
            Ok(())
        }
    }
}

impl<S> Gate<S> {
    /// Wraps the body of a request, to enforce the deadline of its message and to count its bytes. Returns the new
    /// request, and the account of the bytes.
    fn timed(
        &self,
        request: Request<Body>,
        rule: &roles::Rule,
        holder: &CallerAccount,
    ) -> (Request<Body>, Arc<Mutex<MemoryCharge>>) {
        let (now, deadlines) = (tokio::time::Instant::now(), self.call_limits.deadlines());
        let messages = if rule.sends_many() {
            Messages::Many(deadlines.usual)
        } else {
            Messages::One(now + deadlines.usual)
        };
        let charge = Arc::new(Mutex::new(holder.nothing()));
        let counted = charge.clone();
        let weight = Weight::of(request.uri().path().trim_start_matches('/'));
        let incoming = |body| Incoming::new(body, messages, counted, weight);
        let mut request = request.map(|body| Body::new(incoming(body)));
        request.extensions_mut().insert(Arrived(now));
        request.extensions_mut().insert(deadlines);
        request.extensions_mut().insert(holder.clone());
        (request, charge)
    }
}

/// Takes the visitor from a request, or returns an error if the connection has none.
fn visitor(request: &mut Request<Body>) -> Result<Visitor, ApiError> {
    let nobody = || ApiError::new(ErrorCode::Unauthenticated, "the caller is not identified");
    request.extensions_mut().remove::<Visitor>().ok_or_else(nobody)
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> ResponseFuture {
        let Visitor { caller, usage } = match visitor(&mut request) {
            Ok(visitor) => visitor,
            Err(error) => return refused(error),
        };
        let checked = roles::check(&caller, request.uri().path());
        let need = checked.as_ref().map_or(Need::Usual, |rule| rule.need(&caller));
        if let Err(error) = self.admit(&caller, need, &request) {
            return refused(error);
        }
        let audited = self.audit.as_ref().map(|log| Audited::new(log, &caller));
        let rule = match checked {
            Ok(rule) => rule,
            Err(error) => {
                if let Some(audited) = audited {
                    let path = request.uri().path().trim_start_matches('/');
                    audited.ended(path, error.code.name());
                }
                return refused(error);
            }
        };
        let holder = self.call_limits.holder(&caller);
        let entered = if need == Need::Usual && !holder.has_room() {
            Err(bodies::full())
        } else {
            self.call_limits.enter(&caller, rule.nature, need)
        };
        let permit = match entered {
            Ok(permit) => permit,
            Err(error) => return refused(error),
        };
        let call = usage.begin();
        let (mut request, sent) = self.timed(request, rule, &holder);
        request.extensions_mut().insert(caller);
        if let Some(audited) = audited.clone() {
            request.extensions_mut().insert(audited);
        }
        // `poll_ready` was called on this instance, so this instance must be called, and not its clone.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let response = reworded(inner.call(request).await?);
            if let Some(audited) = audited {
                audit_call(&audited, rule, &response);
            }
            drop(sent);
            if rule.nature.is_stream() {
                let stream = |body| Body::new(Outgoing::stream(body, holder, permit, call));
                return Ok(response.map(stream));
            }
            let reply = Outgoing::reply(response, &holder, rule.nature, call).await;
            Ok(reply.unwrap_or_else(|error| Status::from(error).into_http()))
        })
    }
}

fn refused(error: ApiError) -> ResponseFuture {
    let refused = Status::from(error).into_http();
    Box::pin(async { Ok(refused) })
}

/// Writes a call to the audit log, if the call is of an audited kind or was denied.
fn audit_call(audited: &Audited, rule: &roles::Rule, response: &Response<Body>) {
    let error = Status::from_header_map(response.headers())
        .filter(|status| status.code() != Code::Ok)
        .map(|status| ApiError::from(status).code);
    let is_denied = matches!(error, Some(ErrorCode::Denied | ErrorCode::Unauthenticated));
    if rule.nature.is_audited() || is_denied {
        audited.ended(rule.path, error.map_or(audit::OK, ErrorCode::name));
    }
}

/// Rewords the error of a call that failed before it reached its service, so that the error has the form of the API.
fn reworded(response: Response<Body>) -> Response<Body> {
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() != Code::Ok => reword(status).into_http(),
        _ => response,
    }
}

/// Turns the transport's error for an undecodable message into an error of the caller. Returns other errors unchanged.
pub(crate) fn reword(status: Status) -> Status {
    // Errors of the API can be recognised by their details.
    if !status.details().is_empty() {
        return status;
    }
    let (code, what) = match status.code() {
        Code::Internal => (ErrorCode::Malformed, "the message cannot be read"),
        Code::OutOfRange => (
            ErrorCode::Limit,
            "the message is too long: send several smaller \
             ones",
        ),
        _ => return status,
    };
    ApiError::new(code, format!("{what} ({})", status.message())).into()
}
