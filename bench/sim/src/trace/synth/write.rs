//! Drawing of the new trace; rows are written as they are drawn, and not kept in memory.

use super::chance::{Chance, Draws};
use super::draft::{Draft, Gap};
use super::error::SynthError;
use super::fit::Fit;
use super::form::Form;
use super::marginals::Marginals;
use flate2::Compression;
use flate2::write::GzEncoder;
use omega_core::{JobKind, Kinds, Machine};
use omega_workload::csv::write::{JobRow, job_row, jobs_header, machine_row, machines_header};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Paths of the tables.
pub(super) struct Files {
    pub(super) machines: PathBuf,
    pub(super) jobs: PathBuf,
}

/// Scale of the number of jobs: `more` jobs for every `of` jobs of the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    more: u128,
    of: u128,
}

/// Size of the new trace.
pub(super) struct Made {
    pub(super) machines: u64,
    pub(super) scale: Scale,
    pub(super) span_ms: u64,
    /// Time of the first job that is not present at the start.
    pub(super) first_ms: u64,
}

impl Files {
    /// Creates the files in this folder, which is created if needed. Neither file may exist already.
    pub(super) fn new(dir: &Path, form: Form) -> Result<Files, SynthError> {
        let ending = match form {
            Form::Plain => "",
            Form::Gzip => ".gz",
        };
        let [machines, jobs] =
            ["machines", "jobs"].map(|name| dir.join(format!("{name}.csv{ending}")));
        for file in [&machines, &jobs] {
            if file.exists() {
                return Err(SynthError::Exists(file.clone()));
            }
        }
        Ok(Files { machines, jobs })
    }

    /// Removes the incomplete files.
    pub(super) fn remove(&self) {
        for file in [&self.machines, &self.jobs] {
            // A missing file need not be removed.
            drop(fs::remove_file(file));
        }
    }
}

impl Scale {
    /// Creates the scale of a trace that has `permille` thousandths of the source's jobs per machine, and `machines`
    /// machines where the source has `instead_of`.
    pub(super) fn new(permille: u64, machines: u64, instead_of: usize) -> Scale {
        let more = u128::from(permille) * u128::from(machines);
        Scale { more: more.max(1), of: 1000 * instead_of.max(1) as u128 }
    }

    /// The amount multiplied by the scale.
    fn times(self, amount: u128) -> u128 {
        amount * self.more / self.of
    }

    /// The amount divided by the scale.
    fn divides(self, amount: u128) -> u128 {
        amount * self.of / self.more
    }
}

/// Draws and writes both tables. Returns the distributions of the written rows.
pub(super) fn write(
    files: &Files,
    (machines, kinds): (&[Machine], &Kinds),
    fit: &Fit,
    (made, chance): (&Made, &mut Chance),
) -> Result<Marginals, SynthError> {
    let dir = files.jobs.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|why| SynthError::Write { file: dir.to_path_buf(), why })?;
    let machines = write_machines(&files.machines, machines, kinds, made.machines);
    machines.map_err(|why| SynthError::Write { file: files.machines.clone(), why })?;
    let mut output = Output::create(&files.jobs)
        .map_err(|why| SynthError::Write { file: files.jobs.clone(), why })?;
    let mut rows = Rows { output: &mut output, kinds, count: 0, drawn: Marginals::new(kinds) };
    let written = write_jobs(&mut rows, fit, (made, chance));
    let drawn = rows.drawn;
    written
        .and_then(|()| output.finish())
        .map_err(|why| SynthError::Write { file: files.jobs.clone(), why })?;
    Ok(drawn)
}

/// Writes copies of the trace's machines. The numbers of copies of two machines differ by at most one.
fn write_machines(file: &Path, machines: &[Machine], kinds: &Kinds, count: u64) -> io::Result<()> {
    let mut output = Output::create(file)?;
    output.write_all(machines_header(kinds).as_bytes())?;
    for i in 0..count {
        let machine =
            &machines[(u128::from(i) * machines.len() as u128 / u128::from(count)) as usize];
        output.write_all(machine_row(&format!("m{i}"), machine, kinds).as_bytes())?;
    }
    output.finish()
}

/// Writes the table of jobs row by row.
struct Rows<'a> {
    output: &'a mut Output,
    kinds: &'a Kinds,
    count: u64,
    drawn: Marginals,
}

fn write_jobs(
    rows: &mut Rows<'_>,
    fit: &Fit,
    (made, chance): (&Made, &mut Chance),
) -> io::Result<()> {
    rows.output.write_all(jobs_header(rows.kinds).as_bytes())?;
    let start = made.scale.times(u128::from(fit.start.seen()));
    if !fit.start.kept.is_empty() {
        let mut draws = Draws::new(&fit.start.kept);
        for _ in 0..start {
            rows.push(0, 0, draws.next(chance))?;
        }
    }
    if fit.runs.kept.is_empty() {
        return Ok(());
    }
    let mut draws = Draws::new(&fit.runs.kept);
    // `shown` is the reading of the daily clock at the trace's own rate of arrivals. `at_ms` is the time at which the
    // new trace reaches that reading.
    let (mut shown, mut at_ms) = (0_u128, made.first_ms);
    let first = fit.curve.shows(made.first_ms);
    loop {
        for row in draws.next(chance) {
            shown += match row.gap {
                Gap::Short(gap_ms) => fit.curve.goes(at_ms, gap_ms),
                Gap::Long(gap) => gap,
            };
            at_ms = fit.curve.when(first + made.scale.divides(shown));
            if at_ms > made.span_ms {
                return Ok(());
            }
            rows.push(at_ms, made.scale.times(u128::from(at_ms)) as u64, row)?;
        }
        if draws.is_over() && shown == 0 {
            // All jobs of the trace arrive at the same time, so the new trace's time would never advance.
            return Ok(());
        }
    }
}

impl Rows<'_> {
    /// Writes a row that arrives at `at_ms`. At the trace's own rate of arrivals, it would arrive at `scaled_ms`.
    fn push(&mut self, at_ms: u64, scaled_ms: u64, row: &Draft) -> io::Result<()> {
        let name = format!("j{}", self.count);
        self.count += 1;
        self.drawn.add(scaled_ms, row);
        let job = JobRow {
            name: &name,
            count: row.count,
            request: &row.request,
            devices: row.devices,
            at_ms,
            run_ms: row.run_ms,
            kind: match row.kind {
                JobKind::Service => "service",
                JobKind::Batch => "batch",
            },
            precedence: row.precedence,
            tenant: &row.tenant,
            gang: row.gang,
            rules: &row.rules,
        };
        self.output.write_all(job_row(&job, self.kinds).as_bytes())
    }
}

/// An output file, compressed if its name ends in `.gz`.
enum Output {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl Output {
    fn create(file: &Path) -> io::Result<Output> {
        let buffer = BufWriter::new(File::create_new(file)?);
        Ok(match file.extension() {
            Some(ending) if ending == "gz" => {
                Output::Gzip(Box::new(GzEncoder::new(buffer, Compression::default())))
            }
            _ => Output::Plain(buffer),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Plain(file) => file.write_all(bytes),
            Output::Gzip(file) => file.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Output::Plain(mut file) => file.flush(),
            Output::Gzip(file) => file.finish()?.flush(),
        }
    }
}
