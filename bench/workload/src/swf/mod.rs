//! Logs of batch queues in the Standard Workload Format, read job by job.
//!
//! A line is a job of 18 numbers, of which -1 means unknown. A line that begins with `;` is a comment; `; Key: value`
//! is a line of the header. The format is that of the Parallel Workloads Archive. A log may have millions of lines, so
//! only the present line is in memory.
//!
//! Logs of the archive were converted from the sites' own formats, and some are irregular. Irregularities that cannot
//! change a result are accepted and counted in [`Log::notes`]. Negative numbers other than -1 are also read as unknown.
//! Fields after the eighteenth, which some sites append, and header lines without a number are ignored. Other
//! irregularities are errors.

pub mod stream;

use crate::LoadError;
use crate::text::compressed::{describe, open_input};
use crate::text::decimal::{Decimal, Rounding};
use crate::text::table::LINE_BYTES_MAX;
use crate::text::words::plural;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// The fields of a line, by the names of the format.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// Largest time or count that is accepted: 10^15. As seconds that is 30 million years; in milliseconds, the sum of
/// a few such times fits in 64 bits.
const NUMBER_MAX: u64 = 1_000_000_000_000_000;

/// A job of a log, with the fields that batch schedulers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedJob {
    /// Number of the job's line in the log, from 1.
    pub line: u64,
    /// Submission time in milliseconds.
    pub submit_ms: Option<u64>,
    /// Wait time in milliseconds.
    pub wait_ms: Option<u64>,
    /// Run time by the wall clock, in milliseconds.
    pub run_ms: Option<u64>,
    /// Allocated processors.
    pub allocated: Option<u64>,
    /// Requested processors.
    pub requested: Option<u64>,
    /// Requested maximum run time, in milliseconds.
    pub requested_ms: Option<u64>,
}

/// A log that is being read.
pub struct Log {
    file: PathBuf,
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    header: Header,
    /// Number of lines with a negative number other than -1.
    negative: u64,
    /// Number of lines with more fields than the format has.
    long: u64,
    /// Number of lines that describe a part of the execution of a job whose own line came before.
    parts: u64,
    /// Number of jobs with a requested memory.
    with_memory: u64,
    /// Number of the last job.
    last: Option<u64>,
    notes: Vec<String>,
}

/// The machine of the log, by the header lines read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Processors of the machine (`MaxProcs`).
    pub processors: Option<u64>,
    /// Nodes of the machine (`MaxNodes`).
    pub nodes: Option<u64>,
}

impl Log {
    /// Opens a log, plain or compressed.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn open(file: &Path) -> Result<Log, LoadError> {
        let input = open_input(file)
            .map_err(|error| LoadError::new(file, format!("cannot be read: {error}")))?;
        Ok(Log {
            file: file.to_path_buf(),
            input,
            line: Vec::new(),
            number: 0,
            header: Header::default(),
            negative: 0,
            long: 0,
            parts: 0,
            with_memory: 0,
            last: None,
            notes: Vec::new(),
        })
    }

    /// Header fields read so far; header lines may be between jobs.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Accepted irregularities of the lines read so far, as sentences.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.negative > 0 {
            notes.push(format!(
                "negative numbers other than -1 count as unknown: {}",
                plural(self.negative, "line")
            ));
        }
        if self.long > 0 {
            let (lines, fields) = (plural(self.long, "line"), FIELDS.len());
            notes.push(format!("fields beyond the first {fields} are ignored: {lines}"));
        }
        if self.parts > 0 {
            let lines = plural(self.parts, "line");
            notes.push(format!(
                "parts of the execution of a job (status 2 to 4) are ignored: {lines}"
            ));
        }
        if self.with_memory > 0 {
            let jobs = plural(self.with_memory, "job");
            notes.push(format!("requests of memory (field 10) are ignored: {jobs}"));
        }
        notes
    }

    /// The next job; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read further, or the line is neither a job nor a comment.
    pub fn next_job(&mut self) -> Result<Option<LoggedJob>, LoadError> {
        while self.read_line()? {
            let bytes = std::mem::take(&mut self.line);
            let text = bytes.trim_ascii();
            let job = match text.first() {
                None => None,
                Some(b';') => {
                    // Comments may contain names in any encoding.
                    self.read_header(&String::from_utf8_lossy(&text[1..]));
                    None
                }
                Some(_) => self.read_job(text)?,
            };
            self.line = bytes;
            if job.is_some() {
                return Ok(job);
            }
        }
        Ok(None)
    }

    /// Reads a line with its end. Returns whether there was a line.
    fn read_line(&mut self) -> Result<bool, LoadError> {
        self.line.clear();
        let mut bounded = self.input.as_mut().take(LINE_BYTES_MAX as u64 + 1);
        let read = bounded.read_until(b'\n', &mut self.line);
        self.number += 1;
        let read = read.map_err(|error| self.error(None, describe(&error)))?;
        if self.line.len() > LINE_BYTES_MAX {
            let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            return Err(self.error(None, message));
        }
        if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        Ok(read > 0)
    }

    fn read_header(&mut self, text: &str) {
        let Some((key, value)) = text.split_once(':') else { return };
        let (key, value) = (key.trim(), value.trim());
        let known = match key {
            "MaxProcs" => &mut self.header.processors,
            "MaxNodes" => &mut self.header.nodes,
            _ => return,
        };
        let first = value.split_ascii_whitespace().next().unwrap_or_default();
        match first.replace(',', "").parse::<u64>() {
            Ok(count) if (1..=NUMBER_MAX).contains(&count) => *known = (*known).max(Some(count)),
            _ => {
                let line = self.number;
                self.notes.push(format!("line {line}: {key} is not a count: {value:?}"));
            }
        }
    }

    /// Reads a line of a job; `None` for a line of a part of its execution.
    fn read_job(&mut self, text: &[u8]) -> Result<Option<LoggedJob>, LoadError> {
        let text = std::str::from_utf8(text)
            .map_err(|_| self.error(None, "the line is not UTF-8 text"))?;
        let count = text.split_ascii_whitespace().count();
        if count < FIELDS.len() {
            let message = format!("the line has {count} fields: a job must have {}", FIELDS.len());
            return Err(self.error(None, message));
        }
        self.long += u64::from(count > FIELDS.len());
        let mut numbers = [None; FIELDS.len()];
        let mut negative = false;
        for (i, field) in text.split_ascii_whitespace().take(FIELDS.len()).enumerate() {
            // Numbers are read in thousandths: times become milliseconds, and unused fields need no more.
            let number = read_number(field).map_err(|what| self.error(Some(FIELDS[i]), what))?;
            negative |= number.is_none() && field.trim_end_matches(['0', '.']) != "-1";
            numbers[i] = number;
        }
        self.negative += u64::from(negative);
        if self.is_part(numbers[0], numbers[10]) {
            self.parts += 1;
            return Ok(None);
        }
        self.last = numbers[0];
        self.with_memory += u64::from(numbers[9].is_some_and(|memory| memory > 0));
        let whole = |i: usize| match numbers[i] {
            Some(milli) if milli % 1000 != 0 => {
                Err(self.error(Some(FIELDS[i]), "is not a whole number"))
            }
            number => Ok(number.map(|milli: u64| milli / 1000)),
        };
        let (allocated, requested) = (whole(4)?, whole(7)?);
        Ok(Some(LoggedJob {
            line: self.number,
            submit_ms: numbers[1],
            wait_ms: numbers[2],
            run_ms: numbers[3],
            allocated,
            requested,
            requested_ms: numbers[8],
        }))
    }

    /// Whether a line with this job number and status describes a part of the execution of the last job.
    fn is_part(&self, job: Option<u64>, status: Option<u64>) -> bool {
        job.is_some() && job == self.last && matches!(status, Some(2000 | 3000 | 4000))
    }

    fn error(&self, field: Option<&str>, message: impl Into<String>) -> LoadError {
        LoadError {
            line: Some(self.number),
            field: field.map(str::to_owned),
            ..LoadError::new(&self.file, message)
        }
    }
}

/// Parses a number in thousandths; `None` if it is negative, which means unknown.
fn read_number(field: &str) -> Result<Option<u64>, String> {
    let (digits, negative) = match field.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (field, false),
    };
    if digits.starts_with('-') {
        return Err(format!("{field:?} is not a number"));
    }
    let number = Decimal::parse(digits).map_err(|error| format!("{field:?} {error}"))?;
    let milli = number.times(1000, Rounding::Nearest).filter(|milli| *milli <= NUMBER_MAX * 1000);
    let milli = milli.ok_or_else(|| {
        format!(
            "{field:?} is too large: must be at most \
         {NUMBER_MAX}"
        )
    })?;
    Ok((!negative || milli == 0).then_some(milli))
}

#[cfg(test)]
mod tests;
