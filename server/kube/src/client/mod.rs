//! The HTTP client for the API server: single calls over reused connections, and streams of lines.
//!
//! The client uses HTTP/1.1 with one request per connection at a time. The outbox limits the number of calls in flight,
//! and thereby the number of connections.

pub mod config;
mod connection;
mod error;
pub mod exec;
mod lines;
mod outage_log;
mod session;
pub mod time;
mod tls;

pub use self::error::{CallError, ConfigError};
pub use self::lines::{Line, Lines};

use self::config::Config;
use self::connection::{Endpoint, Sender};
use self::outage_log::OutageLog;
use self::session::Session;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of idle connections that are kept for further calls.
const IDLE_MAX: usize = 128;

/// Maximum length in bytes of an answer about one object. Etcd accepts objects of 1.5 MiB, and JSON escapes make them
/// longer.
const OBJECT_MAX: usize = 16 << 20;

/// Maximum length in bytes of a page of a list. If a page is longer, it is requested again with fewer objects.
const PAGE_MAX: usize = 64 << 20;

/// Maximum length in bytes of a list that is read in one piece.
const WHOLE_MAX: usize = 1 << 30;

/// Upper bound in seconds of the delay that the server requests with `Retry-After`. A longer delay is cut to this.
pub(crate) const RETRY_AFTER_MAX: u64 = 300;

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query of the call.
    pub path: String,
    /// Content type of the body.
    pub content: &'static str,
    /// The body.
    pub body: Bytes,
    /// Maximum length of the answer in bytes.
    pub answer_max: usize,
    /// Minimum of the time limit; the client's time limit applies if it is longer.
    pub patience: Duration,
}

impl Call {
    /// Returns a call with the method GET.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Call {
        let (body, answer_max, patience) = (Bytes::new(), OBJECT_MAX, Duration::ZERO);
        Call { method: Method::GET, path: path.into(), content: "", body, answer_max, patience }
    }

    /// Returns a GET of a page of a list.
    #[must_use]
    pub fn page(path: impl Into<String>) -> Call {
        Call { answer_max: PAGE_MAX, ..Call::get(path) }
    }

    /// Returns a GET of a list in one piece.
    #[must_use]
    pub fn whole(path: impl Into<String>) -> Call {
        Call { answer_max: WHOLE_MAX, ..Call::get(path) }
    }

    /// Returns a call with a JSON body.
    #[must_use]
    pub fn json(method: Method, path: impl Into<String>, body: &serde_json::Value) -> Call {
        let content = if method == Method::PATCH {
            "application/strategic-merge-patch+json"
        } else {
            "application/json"
        };
        let body = body.to_string().into();
        Call { method, content, body, ..Call::get(path) }
    }
}

/// An answer of the API server.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Retry-After` in seconds, at most five minutes.
    pub retry_after: Option<u64>,
    /// The body.
    pub body: Bytes,
}

/// The head of an answer, and its lines.
#[derive(Debug)]
pub struct Stream {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Retry-After` in seconds, at most five minutes.
    pub retry_after: Option<u64>,
    /// The lines of the body.
    pub lines: Lines,
}

/// The value of `Retry-After` in seconds, within the limit; `None` also for 0.
fn retry_after(headers: &http::HeaderMap) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = text.parse().ok()?;
    (seconds > 0).then_some(seconds.min(RETRY_AFTER_MAX))
}

impl Response {
    /// Returns the message of a `Status` object. If the body is no `Status`, returns its text: a server that limits its
    /// requests rejects with plain text. If the body is empty, returns the status.
    #[must_use]
    pub fn message(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Status {
            message: String,
        }
        match serde_json::from_slice::<Status>(&self.body) {
            Ok(status) => status.message,
            Err(_) if self.body.trim_ascii().is_empty() => format!("HTTP {}", self.status),
            Err(_) => String::from_utf8_lossy(&self.body[..self.body.len().min(200)]).trim().into(),
        }
    }

    /// Whether the body is an object of the API server. A page of a proxy is none, whatever its status.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.object().is_some()
    }

    /// Whether the body is the `Status` of a request that was carried out.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.object().is_some_and(|body| body.kind == "Status" && body.status == "Success")
    }

    fn object(&self) -> Option<Object> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// The fields by which an object of the API server is recognized.
#[derive(serde::Deserialize)]
struct Object {
    #[expect(dead_code, reason = "its presence is the point")]
    metadata: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    status: serde_json::Value,
}

/// The client. Clones share its connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    config: Config,
    endpoint: Endpoint,
    timeout: Duration,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    idle: Mutex<Vec<Sender>>,
    outage_log: OutageLog,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.0.config.server).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client with this time limit for calls.
    ///
    /// # Errors
    /// If the server's address is invalid.
    pub fn new(config: Config, timeout: Duration) -> Result<Client, ConfigError> {
        let endpoint = Endpoint::new(&config)?;
        let (session, idle) = (tokio::sync::Mutex::new(None), Mutex::new(Vec::new()));
        let outage_log = OutageLog::default();
        Ok(Client(Arc::new(Inner { config, endpoint, timeout, session, idle, outage_log })))
    }

    /// Returns the time limit of calls.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Makes a call. If the server rejects the credentials, they are renewed, and the call is made once more.
    ///
    /// # Errors
    /// If there is no complete answer. The call may then have had its effect.
    pub async fn call(&self, call: &Call) -> Result<Response, CallError> {
        let limit = self.0.timeout.max(call.patience);
        let both = async {
            let first = self.call_once(call).await?;
            if first.status != 401 {
                return Ok(first);
            }
            *self.0.session.lock().await = None;
            self.call_once(call).await
        };
        let answer = tokio::time::timeout(limit, both).await.unwrap_or_else(|_| {
            self.drop_idle();
            Err(CallError::Timeout(limit))
        });
        self.0.outage_log.record(answer.as_ref().err());
        answer
    }

    /// Writes to the log that a stream has ended without an answer, unless the log already says that the server does
    /// not answer.
    pub(crate) fn log_lost(&self, why: &CallError) {
        self.0.outage_log.record(Some(why));
    }

    /// Closes the idle connections, so that the next calls use new ones. After a call without an answer, the others
    /// may be broken, too.
    pub fn drop_idle(&self) {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn call_once(&self, call: &Call) -> Result<Response, CallError> {
        let (response, sender) = self.send(call).await?;
        let (head, body) = response.into_parts();
        let retry_after = retry_after(&head.headers);
        let limit = call.answer_max;
        let body = Limited::new(body, limit).collect().await.map_err(|why| {
            if why.is::<LengthLimitError>() {
                CallError::Body(limit)
            } else {
                CallError::Broken(why.to_string())
            }
        })?;
        self.keep(sender);
        Ok(Response { status: head.status.as_u16(), retry_after, body: body.to_bytes() })
    }

    /// Opens a stream of lines. The client's time limit applies only until the head of the answer arrives. `longest` is
    /// the maximum duration of the stream.
    ///
    /// # Errors
    /// If there is no answer. A rejection is an answer: its status is returned with the lines.
    pub async fn stream(&self, call: &Call, longest: Duration) -> Result<Stream, CallError> {
        let limit = self.0.timeout;
        let sent = tokio::time::timeout(limit, self.send(call)).await.unwrap_or_else(|_| {
            self.drop_idle();
            Err(CallError::Timeout(limit))
        });
        self.0.outage_log.record(sent.as_ref().err());
        let (response, sender) = sent?;
        let status = response.status().as_u16();
        if status == 401 {
            *self.0.session.lock().await = None;
        }
        let retry_after = retry_after(response.headers());
        // The stream owns its connection. So when a watch is dropped, it also ends on the server.
        let lines = Lines::new(response.into_body(), sender, longest);
        Ok(Stream { status, retry_after, lines })
    }

    async fn send(&self, call: &Call) -> Result<(http::Response<Incoming>, Sender), CallError> {
        let session = self.session().await?;
        let mut request = self.request(call, &session);
        loop {
            let kept = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let fresh = kept.is_none();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect(&session).await?,
            };
            if sender.ready().await.is_err() && !fresh {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut failed) => match failed.take_message() {
                    // The server closed the reused connection before it got the request, so the request is sent again.
                    Some(unsent) if !fresh => request = unsent,
                    _ => return Err(CallError::Broken(failed.into_error().to_string())),
                },
            }
        }
    }

    /// Opens a connection. If this fails and credentials are in files, these are read again for the next call: the
    /// server may have a certificate of a new authority.
    async fn connect(&self, session: &Arc<Session>) -> Result<Sender, CallError> {
        let connected = self.0.endpoint.connect(session.tls.as_ref()).await;
        if connected.is_err() && session.reads_files {
            self.0.session.lock().await.take_if(|known| Arc::ptr_eq(known, session));
        }
        connected
    }

    async fn session(&self) -> Result<Arc<Session>, ConfigError> {
        let mut session = self.0.session.lock().await;
        match &*session {
            Some(session) if !session.is_over() => Ok(Arc::clone(session)),
            old => {
                let renews = old.is_some();
                let new = match (Session::new(&self.0.config).await, old) {
                    (Ok(new), _) => Arc::new(new),
                    // A certificate may be newer than its key, until both files are replaced.
                    (Err(why), Some(old)) if old.reads_files => {
                        tracing::warn!(%why, "the credentials are not renewed");
                        let old = Arc::new(old.once_more());
                        *session = Some(Arc::clone(&old));
                        return Ok(old);
                    }
                    (Err(why), _) => return Err(why),
                };
                if renews {
                    // Idle connections may still use the old certificate.
                    self.drop_idle();
                }
                *session = Some(Arc::clone(&new));
                Ok(new)
            }
        }
    }

    fn request(&self, call: &Call, session: &Session) -> Request<Full<Bytes>> {
        let path = format!("{}{}", self.0.endpoint.prefix, call.path);
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert(HOST, self.0.endpoint.authority.clone());
        let agent = concat!("omega-kube/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, http::HeaderValue::from_static(agent));
        headers.insert(ACCEPT, http::HeaderValue::from_static("application/json"));
        if !call.content.is_empty() {
            headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(call.content));
        }
        if let Some(value) = &session.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        request
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
    }
}

/// Escapes a value of a query.
#[must_use]
pub fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
