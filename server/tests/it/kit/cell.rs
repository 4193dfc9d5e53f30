//! Served cells: of one replica in memory, and of three replicas on a disk.

use crate::kit::calls::describe;
use crate::kit::process::{CommandOutput, folder, omega};
use omega_client::Address;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) use omega_tests::ports::ports;

/// A process that is killed when the value is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server and waits until it listens.
pub(crate) fn serve(dir: &Path, arguments: &[String]) -> Process {
    let mut command = omega(dir);
    let mut child =
        command.arg("serve").args(arguments).stdout(Stdio::piped()).spawn().expect("omega starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listens on"), "{line:?}");
    Process(child)
}

/// Starts a process that prints one line when it is ready.
pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Process {
    let mut command = omega(dir);
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().expect("omega starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "{arguments:?} ended at once");
    Process(child)
}

/// A cell in memory, and a folder for files.
pub(crate) struct Served {
    pub(crate) address: String,
    _server: Process,
    dir: TempDir, // Dropped last, after the processes that use the folder.
}

impl Served {
    pub(crate) fn new(files: &[(&str, &str)]) -> Served {
        Served::with(files, &[])
    }

    /// Starts a cell with additional options of the server.
    pub(crate) fn with(files: &[(&str, &str)], more: &[String]) -> Served {
        let dir = folder(files);
        let address = format!("127.0.0.1:{}", ports(1)[0]);
        let mut arguments = vec!["--memory".to_owned(), format!("--listen={address}")];
        arguments.extend(more.iter().cloned());
        let server = serve(dir.path(), &arguments);
        Served { dir, address, _server: server }
    }

    /// The folder for files.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command line against the cell.
    pub(crate) fn run_omega(&self, line: &str) -> CommandOutput {
        run_omega_at(self.dir.path(), &self.address, line)
    }

    /// Runs a command that must succeed. Returns its output.
    pub(crate) fn ok(&self, line: &str) -> String {
        let output = self.run_omega(line);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{line}");
        output.stdout
    }

    /// Runs a command, and returns its output as JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json"))).unwrap()
    }

    /// Runs a command that must end with this code. Returns its output, which must be one line.
    pub(crate) fn fails(&self, code: i32, line: &str) -> String {
        let output = self.run_omega(line);
        assert_eq!(output.code, Some(code), "{line}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{line}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{line}");
        output.stderr
    }
}

pub(crate) fn run_omega_at(dir: &Path, address: &str, line: &str) -> CommandOutput {
    let mut command = omega(dir);
    command.args(line.split_whitespace()).env("OMEGA_CELL", address);
    command.output().expect("omega starts").into()
}

/// A cell of three replicas.
pub(crate) struct Three {
    clients: Vec<u16>,
    peers: String,
    replicas: BTreeMap<usize, Process>,
    /// Dropped last, after the processes that use the folder.
    pub(crate) dir: TempDir,
}

impl Three {
    pub(crate) fn found() -> Three {
        Three::found_with(&[])
    }

    /// Starts the replicas with additional arguments.
    pub(crate) fn found_with(more: &[&str]) -> Three {
        let all = ports(6);
        let (clients, peers) = all.split_at(3);
        let peers: Vec<String> =
            peers.iter().zip(1..).map(|(port, id)| format!("{id}=127.0.0.1:{port}")).collect();
        let mut three = Three {
            dir: folder(&[]),
            clients: clients.to_vec(),
            peers: peers.join(","),
            replicas: BTreeMap::new(),
        };
        (1..=3).for_each(|id| three.start(id, &[&["--bootstrap"], more].concat()));
        three
    }

    pub(crate) fn start(&mut self, id: usize, more: &[&str]) {
        let arguments = [
            format!("--dir=r{id}"),
            format!("--listen=127.0.0.1:{}", self.clients[id - 1]),
            "--cell-name=test".to_owned(),
            format!("--replica={id}"),
            format!("--peers={}", self.peers),
        ];
        let all: Vec<String> =
            arguments.into_iter().chain(more.iter().map(|more| (*more).to_owned())).collect();
        self.replicas.insert(id, serve(self.dir.path(), &all));
    }

    /// Kills a replica, which ends as in a power failure.
    pub(crate) fn kill(&mut self, id: usize) {
        self.replicas.remove(&id);
    }

    pub(crate) fn address(&self) -> Address {
        Address::plain(self.clients.iter().map(|port| format!("127.0.0.1:{port}")))
    }

    /// The addresses of all replicas, for `--cell`.
    pub(crate) fn addresses(&self) -> String {
        let all = self.clients.iter().map(|port| format!("127.0.0.1:{port}"));
        all.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn url(&self, id: usize) -> String {
        format!("http://127.0.0.1:{}", self.clients[id - 1])
    }

    /// The leader, according to the first replica that reports a leader that runs.
    pub(crate) fn leader(&self, runtime: &Runtime) -> usize {
        loop {
            for id in self.replicas.keys() {
                let response = runtime.block_on(describe(self.url(*id)));
                match response.map(|response| response.members.unwrap().leader) {
                    Ok(leader) if self.replicas.contains_key(&(leader as usize)) => {
                        return leader as usize;
                    }
                    _ => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        }
    }
}
