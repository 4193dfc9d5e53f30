//! Random bytes for every decoder and reader of files.
//!
//! ```text
//!   corpus: what we write ──▶ mutate ──▶ target: read it, use it, write it back
//!                              dice        never a panic, never much memory
//! ```
//!
//! The seed of a round determines its input. An input is made from valid bytes, so that it passes the first checks;
//! checksums are mostly corrected after a change. The caller limits the memory, as the binary `fuzz` does.

mod commands;
mod files;
mod mutate;
mod peer;
mod profiles;
mod requests;
pub mod words;
mod workloads;

use crate::random::Dice;
use commands::{commands, encoded, entry};
use mutate::mutate;
use omega_cellstate::Cell;
use omega_core::{Command, Kinds};
use omega_store::codec;
use omega_store::log::ReplicaId;
use omega_store::membership::{Membership, MembershipChange};
pub use peer::random_message;
use workloads::Format;

/// A decoder under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One command, which is applied after it was read.
    Command,
    /// The commands of an entry.
    Entry,
    /// A change of the membership.
    Membership,
    /// A message of another replica.
    Message,
    /// Messages that a running replica handles.
    Replica,
    /// The identity of a directory.
    Identity,
    /// A file of a log.
    Segment,
    /// A snapshot.
    Snapshot,
    /// A job, machine or transaction of the API.
    Request,
    /// A profile file.
    Profile,
    /// A frame of messages from another replica.
    Frame,
    /// Tables of machines and jobs.
    Tables,
    /// A cluster file of Kubernetes.
    Cluster,
    /// A log in the Standard Workload Format.
    Swf,
    /// The trace of shared GPUs.
    Openb,
    /// The trace of virtual machines.
    Azure,
    /// The Google trace of 2011.
    Google,
    /// The job lists of the Omega paper's simulator.
    OmegaSim,
}

impl Target {
    /// All targets.
    pub const ALL: [Target; 18] = [
        Target::Command,
        Target::Entry,
        Target::Membership,
        Target::Message,
        Target::Replica,
        Target::Identity,
        Target::Segment,
        Target::Snapshot,
        Target::Request,
        Target::Profile,
        Target::Frame,
        Target::Tables,
        Target::Cluster,
        Target::Swf,
        Target::Openb,
        Target::Azure,
        Target::Google,
        Target::OmegaSim,
    ];

    /// Name of the target on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Target::Command => "command",
            Target::Entry => "entry",
            Target::Membership => "membership",
            Target::Message => "message",
            Target::Replica => "replica",
            Target::Identity => "identity",
            Target::Segment => "segment",
            Target::Snapshot => "snapshot",
            Target::Request => "request",
            Target::Profile => "profile",
            Target::Frame => "frame",
            Target::Tables => "tables",
            Target::Cluster => "cluster",
            Target::Swf => "swf",
            Target::Openb => "openb",
            Target::Azure => "azure",
            Target::Google => "google2011",
            Target::OmegaSim => "omega-sim",
        }
    }

    /// The format of a target that is a workload; `None` for others.
    fn format(self) -> Option<Format> {
        match self {
            Target::Tables => Some(Format::Tables),
            Target::Cluster => Some(Format::Cluster),
            Target::Swf => Some(Format::Swf),
            Target::Openb => Some(Format::Openb),
            Target::Azure => Some(Format::Azure),
            Target::Google => Some(Format::Google),
            Target::OmegaSim => Some(Format::OmegaSim),
            _ => None,
        }
    }
}

/// Makes inputs for one target, and tests the target with them.
#[derive(Debug)]
pub struct Fuzzer {
    target: Target,
    corpus: Vec<Vec<u8>>,
    files: files::Files,
    readers: workloads::Readers,
}

/// Result of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The input was read.
    Read,
    /// The input was rejected with an error.
    Refused,
}

impl Fuzzer {
    /// Creates a fuzzer with its corpus.
    #[must_use]
    pub fn new(target: Target) -> Fuzzer {
        let files = files::Files::new();
        let corpus = match target {
            Target::Command => commands().iter().map(encoded).collect(),
            Target::Entry => commands().chunks(3).map(entry).collect(),
            Target::Membership => vec![vec![1, 2, 0, 2, 1, 4], vec![1, 0], vec![1, 1, 2, 3]],
            Target::Message => peer::corpus(),
            Target::Replica => Vec::new(),
            Target::Identity => vec![files.identity()],
            Target::Segment => files.segments(),
            Target::Snapshot => files.snapshots(),
            Target::Request => requests::corpus(),
            Target::Profile => profiles::corpus(),
            Target::Frame => peer::frames(),
            _ => target.format().map_or_else(Vec::new, Format::corpus),
        };
        Fuzzer { target, corpus, files, readers: workloads::Readers::new() }
    }

    /// The input of a round; empty if the target makes its own input from the seed.
    #[must_use]
    pub fn input(&self, seed: u64) -> Vec<u8> {
        let mut dice = Dice::new(seed);
        if self.corpus.is_empty() {
            return Vec::new();
        }
        let base = dice.pick(&self.corpus).clone();
        let mended = dice.chance(70);
        match self.target {
            Target::Identity if mended => files::mutate_identity(base, &mut dice),
            Target::Segment if mended => files::mutate_segment(base, &mut dice),
            Target::Snapshot if mended => files::mutate_snapshot(&base, &mut dice),
            Target::Profile if mended => profiles::mutate(base, &mut dice),
            _ => match self.target.format().filter(|_| mended) {
                Some(format) => format.mutate(&base, &mut dice),
                None => mutate(base, &self.corpus, &mut dice),
            },
        }
    }

    /// Tests an input. The seed is that of its round.
    ///
    /// # Panics
    /// If the reader panics, or the result cannot be written and read back unchanged.
    pub fn check(&mut self, seed: u64, input: &[u8]) -> Verdict {
        let read = match self.target {
            Target::Command => command(input),
            Target::Entry => check_entry(input),
            Target::Membership => membership(input),
            Target::Message => peer::check_bytes(input),
            Target::Replica => {
                peer::check_replica(&self.files, seed);
                true
            }
            Target::Identity => self.files.check_identity(input),
            Target::Segment => self.files.check_segment(seed, input),
            Target::Snapshot => self.files.check_snapshot(seed, input),
            Target::Request => requests::check(input),
            Target::Profile => profiles::check(input),
            Target::Frame => peer::check_frame(input),
            _ => self.target.format().is_some_and(|format| self.readers.check(format, input)),
        };
        if read { Verdict::Read } else { Verdict::Refused }
    }
}

fn command(input: &[u8]) -> bool {
    let Ok(command) = codec::decode(input) else { return false };
    assert_eq!(codec::decode(&encoded(&command)).ok().as_ref(), Some(&command));
    let mut cell = Cell::new(Kinds::standard());
    drop(cell.apply(Command::RegisterScheduler { name: "a".into() }));
    let before = cell.state_hash();
    if cell.apply(command).is_err() {
        assert_eq!(cell.state_hash(), before, "a refused command leaves no trace");
    }
    cell.audit().expect("the cell is sound");
    true
}

fn check_entry(input: &[u8]) -> bool {
    let Ok(commands) = codec::decode_entry(input) else { return false };
    let again = codec::decode_entry(&entry(&commands)).expect("it can be written again");
    assert_eq!(again, commands);
    true
}

fn membership(input: &[u8]) -> bool {
    let Ok(change) = MembershipChange::from_bytes(input) else { return false };
    // A change that the membership does not allow is an error, not a panic.
    let _ = Membership::initial([1, 2, 3].map(ReplicaId)).check(&change);
    true
}
