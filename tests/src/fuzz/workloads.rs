//! Files of workloads, as people and other programs write them: tables of machines and jobs, cluster files of Kubernetes,
//! and logs in the Standard Workload Format. Words are moved, repeated and made extreme.

use crate::random::Dice;
use omega_workload::stream::{Window, whole};
use omega_workload::{LoadError, Workload, csv, kube, swf};
use std::path::PathBuf;

const MACHINES: &str = include_str!("../../../bench/examples/machines.csv");
const JOBS: &str = include_str!("../../../bench/examples/jobs.csv");
const CLUSTER: &str = include_str!("../../../bench/examples/cluster.json");

/// Two jobs of one user, the second of which waits for the first.
const LOG: &str = "; MaxNodes: 4\n; MaxProcs: 8\n; UnixStartTime: 0\n\
    1 0 5 100 2 -1 1024 2 120 2048 1 1 1 1 1 1 -1 -1\n\
    2 10 0 50 4 -1 -1 4 60 -1 0 1 1 1 1 1 1 5\n";

/// Divides the two tables of an input.
const DIVIDER: &str = "\n----\n";

/// Values at the edges of what a word can mean.
const VALUES: [&str; 14] = [
    "0",
    "-1",
    "1e308",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "\"\"",
    "true",
    "[]",
    "{}",
    "null",
    "1.5Gi",
    "a=b:NoSchedule",
    "\u{202e}",
];

/// Which reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A table of machines, and one of jobs.
    Tables,
    /// A `List` of Nodes and Pods.
    Cluster,
    /// A log in the Standard Workload Format.
    Swf,
}

impl Format {
    /// A file that is read.
    pub(super) fn corpus(self) -> Vec<Vec<u8>> {
        let text = match self {
            Format::Tables => [MACHINES, JOBS].join(DIVIDER),
            Format::Cluster => CLUSTER.to_owned(),
            Format::Swf => LOG.to_owned(),
        };
        vec![text.into_bytes()]
    }

    /// Whether a character ends a word.
    fn ends_word(self, one: char) -> bool {
        match self {
            Format::Tables => matches!(one, ',' | '\n'),
            Format::Cluster => matches!(one, ',' | ':' | '\n' | '{' | '}' | '[' | ']'),
            Format::Swf => one.is_whitespace(),
        }
    }

    /// Changes some words of a file, and leaves what divides them.
    pub(super) fn mutate(self, bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut words: Vec<String> =
            text.split_inclusive(|one| self.ends_word(one)).map(str::to_owned).collect();
        for _ in 0..1 + dice.below(3) {
            let (at, other) = (dice.below(words.len()), dice.below(words.len()));
            match dice.below(5) {
                0 => words.swap(at, other),
                1 => words.insert(at, words[other].clone()),
                2 if words.len() > 1 => drop(words.remove(at)),
                _ => {
                    let end = words[at].chars().last().filter(|one| self.ends_word(*one));
                    let end = end.map_or(String::new(), String::from);
                    words[at] = format!("{}{end}", dice.pick(&VALUES));
                }
            }
        }
        words.concat().into_bytes()
    }
}

/// Reads files from a folder of its own.
#[derive(Debug)]
pub(super) struct Readers {
    folder: tempfile::TempDir,
}

impl Readers {
    pub(super) fn new() -> Readers {
        Readers { folder: tempfile::tempdir().expect("there is room for a file") }
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("there is room for a file");
        path
    }

    /// Reads a file; a refusal says where.
    pub(super) fn check(&self, format: Format, input: &[u8]) -> bool {
        let read = self.read(format, input);
        if let Err(error) = &read {
            assert!(!error.to_string().is_empty());
        }
        read.is_ok()
    }

    fn read(&self, format: Format, input: &[u8]) -> Result<Workload, LoadError> {
        match format {
            Format::Tables => {
                let text = String::from_utf8_lossy(input);
                let (machines, jobs) = text.split_once(DIVIDER).unwrap_or((&*text, ""));
                let machines = self.file("machines.csv", machines.as_bytes());
                csv::load(&machines, &self.file("jobs.csv", jobs.as_bytes()))
            }
            Format::Cluster => kube::load(&self.file("cluster.json", input)),
            Format::Swf => {
                whole(&mut swf::stream::open(&self.file("log.swf", input), None, Window::All)?)
            }
        }
    }
}
