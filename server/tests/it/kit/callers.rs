//! Cells in memory, which accept any caller, or only callers with certificates.

use crate::kit::cell::{Process, ports, serve};
use crate::kit::certificates::{authority, issue, tls};
use crate::kit::process::folder;
use crate::kit::wait::insist;
use omega_client::connect::tls_endpoint;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::{Tls, proto};
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// A cell in memory that any process on this computer may call.
pub(crate) struct Open {
    pub(crate) port: u16,
    pub(crate) runtime: Runtime,
    pub(crate) server: Process,
    _dir: TempDir,
}

impl Open {
    pub(crate) fn start() -> Open {
        Open::start_with(&[])
    }

    /// Starts the cell with additional arguments.
    pub(crate) fn start_with(more: &[&str]) -> Open {
        let dir = folder(&[]);
        let port = ports(1)[0];
        let mut arguments = vec!["--memory".to_owned(), format!("--listen=127.0.0.1:{port}")];
        arguments.extend(more.iter().map(|&one| one.to_owned()));
        let server = serve(dir.path(), &arguments);
        Open { port, runtime: Runtime::new().unwrap(), server, _dir: dir }
    }

    pub(crate) fn channel(&self) -> Channel {
        let _entered = self.runtime.enter();
        Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port)).unwrap().connect_lazy()
    }

    pub(crate) fn described(&self) -> proto::DescribeCellResponse {
        insist(|| {
            let mut client = CellServiceClient::new(self.channel());
            let response = client.describe_cell(proto::DescribeCellRequest {});
            Ok(self.runtime.block_on(response)?.into_inner())
        })
    }
}

/// Callers with certificates, by role.
pub(crate) const CALLERS: [&str; 7] = [
    "reader/eve",
    "submitter/bob",
    "application/app",
    "scheduler/web",
    "agent/m0",
    "operator/ann",
    "replica/1",
];

/// Creates the folder of a cell, with an authority and a certificate for each role and replica.
pub(crate) fn certified() -> TempDir {
    let dir = folder(&[]);
    authority(dir.path(), "certs");
    for whom in CALLERS {
        let has_tenant = whom.starts_with("submitter") || whom.starts_with("application");
        let more: &[&str] = if has_tenant { &["--tenant=own"] } else { &[] };
        issue(dir.path(), "certs", whom, more);
    }
    dir
}

/// A cell in memory that requires certificates.
pub(crate) struct Guarded {
    port: u16,
    pub(crate) runtime: Runtime,
    _server: Process,
    /// Dropped last, after the processes that use the folder.
    dir: TempDir,
}

impl Guarded {
    pub(crate) fn start() -> Guarded {
        Guarded::start_with(&[])
    }

    pub(crate) fn start_with(more: &[&str]) -> Guarded {
        Guarded::start_in(certified(), more)
    }

    pub(crate) fn start_in(dir: TempDir, more: &[&str]) -> Guarded {
        let port = ports(1)[0];
        let mut arguments = vec!["--memory".to_owned(), format!("--listen=127.0.0.1:{port}")];
        arguments.extend(more.iter().map(|more| (*more).to_owned()));
        arguments.extend(certificates("replica-1"));
        let _server = serve(dir.path(), &arguments);
        Guarded { dir, port, runtime: Runtime::new().unwrap(), _server }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Address of the cell.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A new connection of a caller.
    pub(crate) fn channel(&self, tls: &Tls) -> Channel {
        let _entered = self.runtime.enter();
        channel(self.port, tls)
    }

    /// A new connection with the certificate of this name.
    pub(crate) fn of(&self, name: &str) -> Channel {
        self.channel(&tls(self.path(), "certs", name))
    }

    pub(crate) fn describe(&self, channel: Channel) -> Result<proto::DescribeCellResponse, Status> {
        let mut client = CellServiceClient::new(channel);
        let response = self.runtime.block_on(client.describe_cell(proto::DescribeCellRequest {}));
        response.map(tonic::Response::into_inner)
    }
}

pub(crate) fn certificates(name: &str) -> [String; 4] {
    [
        format!("--tls-cert=certs/{name}.pem"),
        format!("--tls-key=certs/{name}.key"),
        "--client-ca=certs/ca.pem".to_owned(),
        "--cell-name=test".to_owned(),
    ]
}

pub(crate) fn channel(port: u16, tls: &Tls) -> Channel {
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
    tls_endpoint(endpoint, tls).unwrap().connect_lazy()
}
