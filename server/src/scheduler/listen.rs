//! Metrics of a scheduler, served by a separate thread so that scrapes do not wait for decisions.

use super::SchedulerError;
use super::figures::SchedulerFigures;
use clap::Args;
use omega_service::serve_metrics;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Listener of the metrics.
#[derive(Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Address at which to serve /metrics and /healthz, such as 127.0.0.1:9100 [default: they are not served].
    #[arg(long, env = "OMEGA_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// Allow a --metrics-listen address that other machines can reach; there is no authentication.
    #[arg(long, env = "OMEGA_INSECURE", num_args = 0..=1, default_missing_value = "true")]
    insecure: Option<bool>,
}

impl MetricsArgs {
    /// Starts to serve metrics if an address is given. The thread ends with the process.
    pub(super) fn serve(&self) -> Result<Option<SchedulerFigures>, SchedulerError> {
        let Some(address) = self.metrics_listen else { return Ok(None) };
        if !address.ip().is_loopback() && self.insecure != Some(true) {
            return Err(SchedulerError::Exposed(address));
        }
        let listen = |why| SchedulerError::Listen { address, why };
        let listener = TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(SchedulerError::System)?;
        let figures = SchedulerFigures::default();
        let response = figures.clone();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            serve_metrics(listener, Arc::new(move || response.text()), std::future::pending()).await
        };
        let run = move || match runtime.block_on(serve) {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "the metrics are no longer served"),
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        thread.spawn(run).map_err(SchedulerError::System)?;
        Ok(Some(figures))
    }
}
