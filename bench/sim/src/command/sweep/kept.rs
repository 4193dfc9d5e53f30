//! The folder of a sweep, with a file for each point.
//!
//! The file of a point is written when its run is done, and renamed when it is complete, so an interrupted sweep
//! continues where it stopped. The folder contains a copy of the sweep's file, and cannot be used for another sweep.

use super::file::Point;
use super::shard::Shard;
use crate::command::SimError;
use crate::command::folder::{prepare_report, try_write};
use crate::scenario::Report;
use omega_workload::LoadError;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Stored result of a point.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) point: Point,
    pub(super) report: Report,
}

/// The folder of a sweep.
pub(super) struct Folder {
    dir: PathBuf,
    /// Suffix of incomplete files. It differs between shards that share a folder.
    part: String,
}

impl Folder {
    /// Creates the folder, or checks that it belongs to this sweep.
    pub(super) fn own(dir: &Path, text: &str, shard: Option<Shard>) -> Result<Folder, SimError> {
        std::fs::create_dir_all(dir).map_err(|why| failed(dir, &why))?;
        let part = shard.map_or("part".to_owned(), |shard| {
            format!("{}.part", shard.to_string().replace('/', "-of-"))
        });
        let folder = Folder { dir: dir.to_owned(), part };
        if !folder.belongs(text)? {
            folder.write("sweep.toml", text.as_bytes())?;
        }
        Ok(folder)
    }

    /// Opens an existing folder of this sweep.
    pub(super) fn of(dir: &Path, text: &str) -> Result<Folder, SimError> {
        let folder = Folder { dir: dir.to_owned(), part: "part".to_owned() };
        if folder.belongs(text)? {
            return Ok(folder);
        }
        Err(LoadError::new(dir, "is not the folder of a sweep or of a shard").into())
    }

    /// Returns whether the folder belongs to this sweep; `false` if it is new. A folder of another sweep is an error.
    fn belongs(&self, text: &str) -> Result<bool, SimError> {
        let mine = self.dir.join("sweep.toml");
        match std::fs::read_to_string(&mine) {
            Ok(kept) if kept == text => Ok(true),
            Ok(_) => {
                let message = "this folder has results of another sweep, or the sweep's file has \
                     changed since: choose another folder";
                Err(LoadError::new(&mine, message).into())
            }
            Err(_) => Ok(false),
        }
    }

    /// Path of the folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stored result of a point, if its file is complete.
    pub(super) fn kept(&self, number: usize, point: &Point) -> Option<Done> {
        let text = std::fs::read_to_string(self.dir.join(file_name(number))).ok()?;
        let done: Done = serde_json::from_str(&text).ok()?;
        (done.point == *point).then_some(done)
    }

    /// Stores the result of a point.
    pub(super) fn keep(&self, number: usize, done: &Done) -> Result<(), SimError> {
        let text = serde_json::to_vec_pretty(done).map_err(std::io::Error::from)?;
        self.write(&file_name(number), &text)?;
        Ok(())
    }

    /// Checks, before hours of runs, that the file of a point can be written, and those of the results, unless a later
    /// merge of shards will write the results.
    pub(super) fn prepare(
        &self,
        point: Option<usize>,
        shard: Option<Shard>,
    ) -> Result<(), SimError> {
        let results = ["results.csv", "results.parquet"].map(str::to_owned);
        let results = results.into_iter().filter(|_| shard.is_none());
        for name in point.map(file_name).into_iter().chain(results) {
            let file = self.dir.join(&name);
            let is_folder = || io::Error::from(ErrorKind::IsADirectory);
            let can = if file.is_dir() { Err(is_folder()) } else { try_write(&self.part(&name)) };
            can.map_err(|why| failed(&file, &why))?;
        }
        if shard.is_none() { prepare_report(&self.dir) } else { Ok(()) }
    }

    /// Path of an incomplete file.
    fn part(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{}", self.part))
    }

    /// Writes a file of the folder. Returns its path.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, SimError> {
        let file = self.dir.join(name);
        let part = self.part(name);
        let written = std::fs::write(&part, content).and_then(|()| std::fs::rename(&part, &file));
        written.map_err(|why| failed(&file, &why))?;
        Ok(file)
    }
}

fn file_name(number: usize) -> String {
    format!("point-{number:05}.json")
}

fn failed(file: &Path, why: &std::io::Error) -> SimError {
    LoadError::new(file, format!("cannot be written: {why}")).into()
}
