//! File of placements: a row for each placement that the cell has accepted, in the order of acceptance.
//!
//! A worker reports its commits in order, but several at a time, so reports of two workers may arrive in another order
//! than their commits. Each later report of a worker has a version above the one that the worker has seen. So rows are
//! kept until all workers have seen their version. The window limits the number of kept rows.

use crate::RunError;
use crate::cell::RunCell;
use crate::options::PlacedFile;
use omega_core::{MachineId, TaskId, Text, Version};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::Arc;

/// Column names.
const HEADER: &str = "at_s,job,task,machine";

/// Number of bytes that are written at once.
const BUFFER: usize = 64 << 10;

/// The file of placements. See the module documentation.
pub(crate) struct Placed {
    file: PlacedFile,
    /// The open file; `None` before the run, and after the file could not be written.
    to: Option<BufWriter<Box<dyn Write>>>,
    /// Names of the jobs, by number.
    jobs: Vec<Text>,
    /// Names of all machines, including those that were removed since.
    machines: HashMap<MachineId, Text>,
    /// Placements by the version after their commit.
    kept: BTreeMap<Version, PlacedAt>,
    /// Time of the last row.
    last_ms: u64,
}

/// Placements of one commit.
#[derive(Default)]
struct PlacedAt {
    at_ms: u64,
    tasks: Vec<(TaskId, MachineId)>,
}

impl Placed {
    /// Prepares the file for a run on the machines of this cell.
    pub(crate) fn new(file: PlacedFile, cell: &RunCell) -> Placed {
        let machines = cell.read(|cell| {
            cell.machines().map(|state| (state.id, state.machine.name.clone())).collect()
        });
        let (jobs, kept) = (Vec::new(), BTreeMap::new());
        Placed { file, to: None, jobs, machines, kept, last_ms: 0 }
    }

    /// Creates the file, which replaces an earlier one, and writes the column names.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn open(&mut self) -> Result<(), RunError> {
        let opened: io::Result<Box<dyn Write>> = match &self.file {
            PlacedFile::Stdout => Ok(Box::new(io::stdout())),
            PlacedFile::Path(path) => {
                File::create(path).map(|file| Box::new(file) as Box<dyn Write>)
            }
        };
        let written = opened.and_then(|to| {
            let to = self.to.insert(BufWriter::with_capacity(BUFFER, to));
            writeln!(to, "{HEADER}")
        });
        written.or_else(|why| self.fail(why))
    }

    /// Records the name of the next job. Jobs are numbered by arrival.
    pub(crate) fn add_job(&mut self, name: Text) {
        self.jobs.push(name);
    }

    /// Records the name of a machine.
    pub(crate) fn add_machine(&mut self, id: MachineId, name: Text) {
        self.machines.insert(id, name);
    }

    /// Adds the placements of a commit, with the cell's version after it and the workload's time.
    pub(crate) fn add(&mut self, version: Version, at_ms: u64, tasks: &[(TaskId, MachineId)]) {
        let kept = self.kept.entry(version).or_default();
        kept.at_ms = kept.at_ms.max(at_ms);
        kept.tasks.extend_from_slice(tasks);
    }

    /// Writes the placements up to and including a version.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&mut self, version: Version) -> Result<(), RunError> {
        while let Some(first) = self.kept.first_entry().filter(|entry| *entry.key() <= version) {
            let PlacedAt { at_ms, tasks } = first.remove();
            // Threads read the time shortly after their commits, so times can be slightly out of order.
            self.last_ms = self.last_ms.max(at_ms);
            for (task, machine) in tasks {
                self.write_row(task, machine).or_else(|why| self.fail(why))?;
            }
        }
        Ok(())
    }

    /// Writes all remaining placements.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn close(&mut self) -> Result<(), RunError> {
        self.write(Version(u64::MAX))?;
        let flushed = self.to.as_mut().map_or(Ok(()), |to| to.flush());
        flushed.or_else(|why| self.fail(why))
    }

    fn write_row(&mut self, task: TaskId, machine: MachineId) -> io::Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        let job = self.jobs.get(task.job.0 as usize).map_or("", |name| &**name);
        let machine = self.machines.get(&machine).map_or("", |name| &**name);
        let (seconds, ms) = (self.last_ms / 1000, self.last_ms % 1000);
        let (job, index, machine) = (quoted(job), task.index, quoted(machine));
        writeln!(to, "{seconds}.{ms:03},{job},{index},{machine}")
    }

    /// Ends the writing after an error. If the reader closes standard output early, as `head` does, the run goes on.
    fn fail(&mut self, why: io::Error) -> Result<(), RunError> {
        self.to = None;
        if self.file == PlacedFile::Stdout && why.kind() == ErrorKind::BrokenPipe {
            return Ok(());
        }
        Err(RunError::Placed { file: self.file.clone(), why: Arc::new(why) })
    }
}

/// A field in the format of CSV (RFC 4180), in quotes if necessary.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains(['"', ',', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", field.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::Cell;
    use omega_core::{Amounts, Command, JobId, Kinds, Machine, Outcome};

    #[test]
    fn rows_are_in_the_order_of_versions_and_names_are_quoted() {
        let cell = RunCell::memory(Cell::new(Kinds::standard()));
        let machine = Machine::new("m", Amounts::new([1000]));
        let Ok(Ok(Outcome::Machine(m))) = cell.apply(Command::RegisterMachine(machine)) else {
            panic!("it is registered")
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("placed.csv");
        let mut file = Placed::new(PlacedFile::Path(path.clone()), &cell);
        file.add_job("a,\"b\"".into());
        file.add_job("default/web".into());
        assert!(!path.exists(), "nothing has run");
        file.open().unwrap();
        let task = |job, index| TaskId { job: JobId(job), index };
        let later = MachineId::first(7);
        file.add_machine(later, "later".into());
        file.add(Version(5), 61_007, &[(task(1, 3), later), (task(0, 0), m)]);
        file.add(Version(4), 61_500, &[(task(1, 2), m)]);
        file.write(Version(3)).unwrap();
        assert_eq!(file.kept.len(), 2, "a commit of version 4 may be reported later");
        file.write(Version(4)).unwrap();
        assert_eq!(file.kept.len(), 1);
        file.close().unwrap();
        let expected = "at_s,job,task,machine\n61.500,default/web,2,m\n61.500,default/web,3,later\n\
            61.500,\"a,\"\"b\"\"\",0,m\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}
