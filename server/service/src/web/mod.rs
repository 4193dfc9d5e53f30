//! Web server for browsers, Prometheus and probes, on a listener of its own.
//!
//! ```text
//!   connection ──▶ listen.rs: HTTP/1.1, limits ──▶ guard.rs: host, caller, headers ──▶ routes
//!                                                   /           assets.rs: the page, in the binary
//!                                                   /api/v1/..  cell.rs, heat.rs, machines.rs, jobs.rs, tenants.rs, ...
//!                                                   /metrics, /healthz, /readyz
//! ```
//!
//! All routes are read-only (GET). docs/web.md has the routes and their fields.

mod assets;
mod cell;
mod events;
mod explain;
mod guard;
mod heat;
mod jobs;
mod listen;
mod machines;
mod plain;
mod probes;
mod program;
mod response;
mod schedulers;
mod task;
mod tenants;

pub use plain::{MakeText, serve_metrics};

use crate::access::audit_queue::AuditLog;
use crate::calls::explain::{Explainer, Explanations};
use crate::host::Host;
use crate::overload::limits::{CallLimits, Deadlines};
use crate::peers::ReplicaIdentity;
use crate::server::ListenerConfig;
use axum::Router;
use axum::routing::get;
use std::io;
use std::sync::Arc;

/// Web server settings.
#[derive(Clone, Debug)]
pub struct Web {
    /// The cell.
    pub host: Host,
    /// The replica that serves the page.
    pub me: ReplicaIdentity,
    /// Explainer of pending jobs.
    pub explainer: Option<Arc<dyn Explainer>>,
}

/// State of every route. Clones share it.
#[derive(Clone, Debug)]
struct Shown {
    web: Web,
    call_limits: CallLimits,
    deadlines: Deadlines,
    audit: Option<Arc<AuditLog>>,
    explanations: Explanations,
    /// Cached explanations.
    cached: Arc<explain::Cache>,
    /// Shared answer of `/readyz`.
    latest: Arc<probes::Latest>,
    /// Cached numbers of the tenants' jobs.
    tenant_jobs: Arc<tenants::Cache>,
    /// Whether the listener can be reached only from this machine, so that no certificate is needed.
    is_local: bool,
}

/// Serves the page, its data, `/metrics`, `/healthz` (the replica has not stopped) and `/readyz` (a leader answers)
/// until `end` resolves. Without certificates every caller is an operator.
///
/// # Errors
/// I/O errors of the listener.
pub async fn serve_web(
    ListenerConfig { listener, security, audit, limits }: ListenerConfig,
    web: Web,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let explanations = Explanations::new(web.explainer.clone());
    let is_open = matches!(security, crate::ListenerSecurity::Open);
    let shown = Shown {
        web,
        call_limits: CallLimits::new(limits),
        deadlines: limits.deadlines,
        audit,
        explanations,
        cached: Arc::default(),
        latest: Arc::default(),
        tenant_jobs: Arc::default(),
        is_local: is_open && listener.local_addr()?.ip().is_loopback(),
    };
    listen::serve(listen::Entry { listener, security, limits }, routes(shown), end).await;
    Ok(())
}

fn routes(shown: Shown) -> Router {
    // Routes that need no certificate.
    let health = Router::new()
        .route("/healthz", get(probes::healthy))
        .route("/readyz", get(probes::ready))
        .layer(axum::middleware::from_fn(probes::paced));
    Router::new()
        .route("/metrics", get(probes::metrics))
        .route("/api/v1/cell", get(cell::cell))
        .route("/api/v1/heat", get(heat::heat))
        .route("/api/v1/machines", get(machines::list))
        .route("/api/v1/machine", get(machines::one))
        .route("/api/v1/jobs", get(jobs::list))
        .route("/api/v1/job", get(jobs::one))
        .route("/api/v1/tenants", get(tenants::list))
        .route("/api/v1/schedulers", get(schedulers::list))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/explain", get(explain::explain))
        .merge(assets::routes())
        .fallback(response::nothing_here)
        .layer(axum::middleware::from_fn_with_state(shown.clone(), guard::admit))
        .merge(health)
        .layer(axum::middleware::from_fn_with_state(shown.is_local, guard::protect))
        .with_state(shown)
}
