//! Files of workloads, as people and other programs write them: tables of machines and jobs, cluster files of
//! Kubernetes, logs in the Standard Workload Format, and the published traces. Words in them are moved, repeated and
//! made extreme.

use super::words;
use crate::random::Dice;
use omega_workload::azure::AzureOptions;
use omega_workload::google2011::GoogleOptions;
use omega_workload::stream::{Window, whole};
use omega_workload::{LoadError, Workload, azure, csv, google2011, kube, omega_sim, openb, swf};
use std::path::PathBuf;

const MACHINES: &str = include_str!("../../../bench/examples/machines.csv");
const JOBS: &str = include_str!("../../../bench/examples/jobs.csv");
const CLUSTER: &str = include_str!("../../../bench/examples/cluster.json");

/// Two jobs of one user, the second of which waits for the first.
const LOG: &str = "; MaxNodes: 4\n; MaxProcs: 8\n; UnixStartTime: 0\n\
    1 0 5 100 2 -1 1024 2 120 2048 1 1 1 1 1 1 -1 -1\n\
    2 10 0 50 4 -1 -1 4 60 -1 0 1 1 1 1 1 1 5\n";

const OPENB_MACHINES: &str =
    "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1024,0,\nn1,96000,10240,8,T4\n";
const OPENB_TASKS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n\
    t0,1000,10,0,0,,LS\nt1,2000,100,1,500,T4,BE\nt2,4000,100,8,1000,,LS\n";

const AZURE: &str = "vm,arrival_s,batch,cores,mem_gb,dur_bin_lo_s,dur_bin_hi_s,censored\n\
    a,0,x,2,3.5,0,300,0\nb,0,x,2,3.5,300,900,0\nc,300,y,8,28,900,3600,1\n";

const GOOGLE_MACHINES: &str = "time,machine,event,platform,cpu,mem\n0,5,0,P2,0.5,0.2493\n\
    0,6,0,P1,1.0,1.0\n700000000,6,1,P1,1.0,1.0\n650000000,7,2,P2,0.5,0.5\n";
const GOOGLE_TASKS: &str = "job,idx,submit_us,user,sched,prio,cpu,mem,disk,diff,init_machine,\
    first_sched_us,run_us,last_event,evictions\n\
    1,0,0,7,2,9,0.1,0.1,0,0,5,0,,1,0\n2,0,600000000,7,1,0,0.01,0.02,0.001,1,,0,90000000,4,0\n";

const LIST: &str = "submit_s,num_tasks,duration_s,cpus_per_task,mem_gb_per_task\n\
    0.0,3,864000.0,0.137339,2.0\n1.5,1,9.0,1,1\n";

/// Separator of the files of an input.
const DIVIDER: &str = "\n----\n";

/// The format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A table of machines, and one of jobs.
    Tables,
    /// A `List` of Nodes and Pods.
    Cluster,
    /// A log in the Standard Workload Format.
    Swf,
    /// The trace of shared GPUs: machines, and a list of tasks.
    Openb,
    /// The trace of virtual machines.
    Azure,
    /// The Google trace of 2011: events of machines, and tasks.
    Google,
    /// The job lists of the Omega paper's simulator.
    OmegaSim,
}

impl Format {
    /// Names of the files that the reader of the format needs in a folder, each with a valid content.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Format::Tables => &[("machines.csv", MACHINES), ("jobs.csv", JOBS)],
            Format::Cluster => &[("cluster.json", CLUSTER)],
            Format::Swf => &[("log.swf", LOG)],
            Format::Openb => &[
                ("openb_node_list_all_node.csv.gz", OPENB_MACHINES),
                ("openb_pod_list_x.csv.gz", OPENB_TASKS),
            ],
            Format::Azure => &[("dev.csv.gz", AZURE)],
            Format::Google => &[
                ("machine_events_compact.csv.gz", GOOGLE_MACHINES),
                ("tasks_replay.csv.gz", GOOGLE_TASKS),
            ],
            Format::OmegaSim => {
                &[("M_prefill.csv.gz", LIST), ("M_batch.csv.gz", LIST), ("M_service.csv.gz", LIST)]
            }
        }
    }

    /// A valid input: the files of the format, with separators.
    pub(super) fn corpus(self) -> Vec<Vec<u8>> {
        let texts: Vec<&str> = self.files().iter().map(|(_, text)| *text).collect();
        vec![texts.join(DIVIDER).into_bytes()]
    }

    /// Whether a character ends a word.
    fn ends_word(self, one: char) -> bool {
        match self {
            Format::Cluster => matches!(one, ',' | ':' | '\n' | '{' | '}' | '[' | ']'),
            Format::Swf => one.is_whitespace(),
            _ => matches!(one, ',' | '\n'),
        }
    }

    /// Changes some words of the files.
    pub(super) fn mutate(self, bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
        let text = String::from_utf8_lossy(bytes);
        words::mutate(&text, |one| self.ends_word(one), dice).into_bytes()
    }
}

/// Readers of files, which are in a separate folder.
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

    /// Reads a file. If it is rejected, the error must name the place.
    pub(super) fn check(&self, format: Format, input: &[u8]) -> bool {
        let read = self.read(format, input);
        if let Err(error) = &read {
            assert!(!error.to_string().is_empty());
        }
        read.is_ok()
    }

    fn read(&self, format: Format, input: &[u8]) -> Result<Workload, LoadError> {
        let text = String::from_utf8_lossy(input);
        let mut parts = text.split(DIVIDER);
        let mut paths = Vec::new();
        for (name, _) in format.files() {
            paths.push(self.file(name, parts.next().unwrap_or_default().as_bytes()));
        }
        let folder = self.folder.path();
        match format {
            Format::Tables => csv::load(&paths[0], &paths[1]),
            // The file need not be valid text.
            Format::Cluster => kube::load(&self.file("cluster.json", input)),
            Format::Swf => whole(&mut swf::stream::open(&paths[0], None, Window::All)?),
            Format::Openb => openb::load(folder, "x"),
            Format::Azure => azure::load(folder, AzureOptions::default()),
            Format::Google => google2011::load(folder, &GoogleOptions::default()),
            Format::OmegaSim => omega_sim::load(folder, "M"),
        }
    }
}
