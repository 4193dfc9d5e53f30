//! Fixtures for the tests of traces: folders of small files, streams of them, and the real data.

use omega_workload::azure::AzureOptions;
use omega_workload::google2011::GoogleOptions;
use omega_workload::input::InputError;
use omega_workload::stream::{Stream, Window};
use omega_workload::{azure, csv, google2011, omega_sim, openb};
use std::path::Path;
use tempfile::TempDir;

type Opened = Result<Box<dyn Stream>, InputError>;

/// A folder with these files.
pub(super) fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

/// Opens the tables `m.csv` and `j.csv` of a folder.
pub(super) fn tables(dir: &TempDir) -> Opened {
    let files = ["m.csv", "j.csv"].map(|name| dir.path().join(name));
    Ok(Box::new(csv::open(&files[0], &files[1], Window::Bounded)?))
}

pub(super) fn google(dir: &Path) -> Opened {
    Ok(Box::new(google2011::open(dir, &GoogleOptions::default())?))
}

pub(super) fn openb(dir: &Path) -> Opened {
    Ok(Box::new(openb::open(dir, "default")?))
}

pub(super) fn omega_sim(dir: &Path) -> Opened {
    Ok(Box::new(omega_sim::open(dir, "M", Window::Bounded)?))
}

pub(super) fn azure(dir: &Path) -> Opened {
    let machines = "2000,cpu=64,memory=256Gi".parse::<omega_workload::alike::Alike>().unwrap();
    let options = AzureOptions { machines: machines.machines(), seed: 1 };
    Ok(Box::new(azure::open(dir, options)?))
}
