//! A cell of three processes on this computer, which can be started, killed, paused and partitioned.
//!
//! Clients can reach every replica at all times, so they also call a partitioned leader: it must not return outdated
//! state.

use super::disk::Disk;
use super::proxy::{Relay, Wire};
use super::watchdog::{self, Watchdog};
use crate::clock::WrongClock;
use crate::ports::addresses;
use omega_client::Address;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Parts of which a cell consists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Equipment {
    /// Number of replicas.
    pub replicas: usize,
    /// Storage of the replicas' files.
    pub disks: Disks,
    /// Clocks of the replicas.
    pub clocks: Clocks,
}

impl Default for Equipment {
    /// Three replicas with the disk and the clock of this computer.
    fn default() -> Equipment {
        Equipment { replicas: 3, disks: Disks::Shared, clocks: Clocks::System }
    }
}

/// A cell of processes. When the value is dropped, all of them end, and their folder is removed.
#[derive(Debug)]
pub struct Processes {
    program: PathBuf,
    dir: TempDir,
    clients: Vec<SocketAddr>,
    peers: Vec<SocketAddr>,
    wires: BTreeMap<(usize, usize), Relay>,
    running: BTreeMap<usize, Child>,
    /// Separate disks, by replica.
    disks: BTreeMap<usize, Disk>,
    /// Separate clocks, by replica.
    clocks: BTreeMap<usize, WrongClock>,
    watchdog: Watchdog,
}

impl Processes {
    /// Bootstraps a cell in a folder below `place`, with this `omega` program.
    ///
    /// # Errors
    /// If a process does not start.
    pub fn bootstrap(program: &Path, place: &Path) -> io::Result<Processes> {
        Processes::found_as(program, place, Equipment::default())
    }

    /// Bootstraps a cell with this equipment.
    ///
    /// # Errors
    /// If a process does not start, or the system does not allow separate disks or clocks.
    pub fn found_as(program: &Path, place: &Path, with: Equipment) -> io::Result<Processes> {
        let all = addresses(2 * with.replicas);
        let (clients, peers) = all.split_at(with.replicas);
        let mut made = Processes {
            program: program.to_owned(),
            dir: tempfile::tempdir_in(place)?,
            clients: clients.to_vec(),
            peers: peers.to_vec(),
            wires: BTreeMap::new(),
            running: BTreeMap::new(),
            disks: BTreeMap::new(),
            clocks: BTreeMap::new(),
            watchdog: Watchdog::start()?,
        };
        for id in made.ids() {
            for to in made.ids().filter(|to| *to != id) {
                made.wires.insert((id, to), Relay::start(made.peers[to - 1])?);
            }
        }
        for id in made.ids() {
            let own = |what: &str| made.dir.path().join(format!("{what}{id}"));
            if with.clocks == Clocks::Own {
                made.clocks.insert(id, WrongClock::new(&own("clock"))?);
            }
            if with.disks == Disks::Own {
                let disk = Disk::make(&own("disk"));
                made.disks.insert(id, disk.map_err(io::Error::other)?);
                made.tell_watchdog();
            }
            made.start_with(id, &["--bootstrap"])?;
        }
        Ok(made)
    }

    /// Numbers of the replicas.
    pub fn ids(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.clients.len()
    }

    /// Starts a replica that already has a folder.
    ///
    /// # Errors
    /// If the replica does not start.
    pub fn start(&mut self, id: usize) -> io::Result<()> {
        self.start_with(id, &[])
    }

    fn start_with(&mut self, id: usize, more: &[&str]) -> io::Result<()> {
        let seen_at =
            |to: usize| if to == id { self.peers[to - 1] } else { self.wires[&(id, to)].address };
        let peers: Vec<String> = self.ids().map(|to| format!("{to}={}", seen_at(to))).collect();
        let mut command = Command::new(&self.program);
        watchdog::mark(&mut command);
        if let Some(clock) = self.clocks.get(&id) {
            clock.give_to(&mut command);
        }
        let mut child = command
            .current_dir(self.dir.path())
            .args(["serve", "--cell-name=fire"])
            .arg("--dir")
            .arg(self.folder(id))
            .arg(format!("--replica={id}"))
            .arg(format!("--listen={}", self.clients[id - 1]))
            .arg(format!("--peers={}", peers.join(",")))
            .args(more)
            // Warnings about missing peers are expected here.
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let said = child.stdout.take().map(BufReader::new);
        // If the process ends without printing a line, it failed to start, and has printed the reason.
        said.map(|mut said| said.read_line(&mut line)).transpose()?;
        self.running.insert(id, child);
        self.tell_watchdog();
        if line.contains("listens on") {
            Ok(())
        } else {
            Err(io::Error::other(format!("replica {id} did not start: {line:?}")))
        }
    }

    /// Kills a replica, if it is running.
    pub fn kill(&mut self, id: usize) {
        // A process that waits for a disk cannot be killed.
        self.thaw(id);
        if let Some(mut child) = self.running.remove(&id) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops a replica by a signal, and waits until it has ended.
    ///
    /// # Errors
    /// If the replica does not end successfully.
    pub fn stop(&mut self, id: usize) -> io::Result<()> {
        self.signal(id, Signal::TERM);
        let ended = self.running.remove(&id).map(|mut child| child.wait()).transpose()?;
        match ended {
            Some(status) if status.success() => Ok(()),
            other => Err(io::Error::other(format!("replica {id} ended badly: {other:?}"))),
        }
    }

    /// Makes the disk of a replica hang.
    ///
    /// # Errors
    /// If the replica has no separate disk, or the system does not allow it.
    pub fn freeze(&self, id: usize) -> io::Result<()> {
        let disk = self.disks.get(&id).ok_or_else(|| io::Error::other("it has no disk"))?;
        disk.freeze().map_err(io::Error::other)
    }

    /// Ends a hang of a replica's disk.
    pub fn thaw(&self, id: usize) {
        self.disks.get(&id).into_iter().for_each(Disk::thaw);
    }

    /// Sets the clock of a replica to this many seconds ahead of this computer's, or behind it if the number is
    /// negative.
    ///
    /// # Errors
    /// If the replica has no separate clock.
    pub fn set_clock(&self, id: usize, ahead_s: i64) -> io::Result<()> {
        let clock = self.clocks.get(&id).ok_or_else(|| io::Error::other("it has no clock"))?;
        clock.set(ahead_s)
    }

    /// Passes to the watchdog the commands for the cleanup that is necessary if this process ends now.
    fn tell_watchdog(&mut self) {
        let (thaw, unmount): (Vec<String>, Vec<String>) =
            self.disks.values().map(Disk::last_will).unzip();
        let kill = self.running.values().map(|child| format!("kill -9 {}", child.id()));
        let will: Vec<String> = thaw.into_iter().chain(kill).chain(unmount).collect();
        self.watchdog.tell(&will.join("; "));
    }

    /// Pauses a replica's process until it is resumed.
    pub fn pause(&self, id: usize) {
        self.signal(id, Signal::STOP);
    }

    /// Resumes a paused replica.
    pub fn resume(&self, id: usize) {
        self.signal(id, Signal::CONT);
    }

    fn signal(&self, id: usize, signal: Signal) {
        let pid = self.running.get(&id).and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // The signal fails if the process has already ended, which is noticed when it is waited for.
            let _ = kill_process(pid, signal);
        }
    }

    /// Whether a replica has ended by itself.
    pub fn has_ended(&mut self, id: usize) -> bool {
        self.running.get_mut(&id).is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Id of a running replica's process.
    #[must_use]
    pub fn process(&self, id: usize) -> Option<u32> {
        self.running.get(&id).map(Child::id)
    }

    /// Sets the state of the connection from one replica to another.
    pub fn wire(&self, from: usize, to: usize, wire: Wire) {
        if let Some(relay) = self.wires.get(&(from, to)) {
            relay.set(wire);
        }
    }

    /// Restores all connections, resumes paused replicas, and starts killed ones.
    ///
    /// # Errors
    /// If a replica does not start, or has ended by itself.
    pub fn heal(&mut self) -> io::Result<()> {
        self.wires.values().for_each(|relay| relay.set(Wire::Whole));
        for id in self.ids() {
            if self.has_ended(id) {
                return Err(io::Error::other(format!("replica {id} has ended by itself")));
            }
            self.resume(id);
            self.thaw(id);
            if !self.running.contains_key(&id) {
                self.start(id)?;
            }
        }
        Ok(())
    }

    /// Addresses of the replicas for clients.
    #[must_use]
    pub fn clients(&self) -> &[SocketAddr] {
        &self.clients
    }

    /// The addresses, for a client that tries one after the other.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::plain(self.clients.iter().map(ToString::to_string))
    }

    /// The folder of a replica.
    #[must_use]
    pub fn folder(&self, id: usize) -> PathBuf {
        match self.disks.get(&id) {
            Some(disk) => disk.at().join("cell"),
            None => self.dir.path().join(format!("r{id}")),
        }
    }

    /// Keeps the folders of the replicas for inspection, and returns their common path.
    #[must_use]
    pub fn keep(mut self) -> PathBuf {
        self.ids().for_each(|id| self.kill(id));
        self.dir.disable_cleanup(true);
        self.dir.path().to_owned()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.ids().for_each(|id| self.kill(id));
        self.wires.values().for_each(Relay::end);
    }
}

/// Storage of the replicas' files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disks {
    /// Folders on one disk.
    Shared,
    /// A separate disk for each, which can hang. Needs root rights.
    Own,
}

/// Clocks of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// The clock of this computer.
    System,
    /// Separate clocks that can be set; they need a C compiler.
    Own,
}
