//! The processes of an overload, and their processors. The processes are agents, and a server that requires
//! certificates.

use crate::fire::watchdog;
use crate::ports;
use omega_client::Tls;
use omega_client::connect::tls_endpoint;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tonic::transport::{Channel, Endpoint};

/// Number of schedulers.
pub(super) const SCHEDULERS: usize = 8;

/// Number of machines of the agents. The next constants are the interval of heartbeats and the timeout, a quarter of
/// the defaults.
pub(super) const MACHINES: u32 = 1000;
const HEARTBEAT_S: u32 = 2;
const SILENCE_S: u32 = 10;

/// A server that requires certificates. It is killed when the value is dropped.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) listen: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

impl Server {
    pub(super) fn start(program: &Path, dir: &Path) -> Result<Server, String> {
        let text = |error: std::io::Error| error.to_string();
        let make = |arguments: &[&str]| {
            let said = Command::new(program).current_dir(dir).arg("cert").args(arguments).output();
            let said = said.map_err(text)?;
            let wrong = || String::from_utf8_lossy(&said.stderr).into_owned();
            if said.status.success() { Ok(()) } else { Err(wrong()) }
        };
        make(&["authority", "--dir=certs"])?;
        let schedulers = (0..SCHEDULERS).map(|i| format!("scheduler/s{i}"));
        let others = ["operator/ann", "operator/agents", "replica/1"].map(str::to_owned);
        for whom in schedulers.chain(others) {
            make(&["issue", &whom, "--cell-name=test", "--dir=certs"])?;
        }
        let listen = ports::address();
        let mut command = Command::new(program);
        watchdog::mark(&mut command);
        let mut child = command
            .current_dir(dir)
            .args(["serve", "--dir=cell", "--cell-name=test", "--tls-cert=certs/replica-1.pem"])
            .args(["--tls-key=certs/replica-1.key", "--client-ca=certs/ca.pem"])
            .arg(format!("--listen={listen}"))
            .arg(format!("--machine-timeout={SILENCE_S}"))
            // The eviction rate is high, so that lost machines are marked at once.
            .arg(format!("--eviction-rate={MACHINES}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        first_line(&mut child)?;
        Ok(Server { child, listen })
    }
}

/// The agents of all machines in one process with an operator's rights. It is killed when the value is dropped.
pub(super) struct AgentProcess(Child);

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

impl AgentProcess {
    /// Starts the process, and waits until all machines are registered.
    pub(super) fn start(program: &Path, dir: &Path, cell: SocketAddr) -> Result<Self, String> {
        let mut command = Command::new(program);
        watchdog::mark(&mut command);
        let mut child = command
            .current_dir(dir)
            .args([
                "agent",
                &format!("--simulate={MACHINES}"),
                &format!("--heartbeat={HEARTBEAT_S}"),
            ])
            .args([format!("--cell={cell}"), "--tls-ca=certs/ca.pem".to_owned()])
            .args(["--tls-cert=certs/operator-agents.pem", "--tls-key=certs/operator-agents.key"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let said = first_line(&mut child);
        let started = AgentProcess(child);
        said.map(|_| started)
    }
}

fn first_line(child: &mut Child) -> Result<String, String> {
    let mut line = String::new();
    let said = child.stdout.take().ok_or("it has no output")?;
    BufReader::new(said).read_line(&mut line).map_err(|error| error.to_string())?;
    if line.is_empty() { Err("it ended before it said anything".to_owned()) } else { Ok(line) }
}

/// Restricts a process to these processors. Returns whether the system allows it.
pub(super) fn pin(process: u32, processors: &str) -> bool {
    let mut pin = Command::new("taskset");
    pin.args(["--all-tasks", "--cpu-list", "--pid", processors, &process.to_string()]);
    pin.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

pub(super) fn channel(dir: &Path, to: SocketAddr, name: &str) -> Result<Channel, String> {
    let file =
        |name: String| std::fs::read(dir.join("certs").join(name)).map_err(|e| e.to_string());
    let tls = Tls {
        authority: file("ca.pem".to_owned())?,
        certificate: file(format!("{name}.pem"))?,
        key: file(format!("{name}.key"))?,
        server_name: None,
    };
    let endpoint = Endpoint::from_shared(format!("https://{to}")).map_err(|e| e.to_string())?;
    Ok(tls_endpoint(endpoint, &tls).map_err(|error| error.to_string())?.connect_lazy())
}
