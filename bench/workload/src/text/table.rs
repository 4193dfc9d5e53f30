//! Tables: CSV files with a header, plain or compressed, read row by row.
//!
//! Columns are found by name, so their order is free, and unused columns are ignored. Each line is a row: a quoted
//! field ends on the line where it began. This bounds the memory, and line numbers are correct for any file. `csv-core`
//! parses the quotes. Every error is a [`LoadError`] that names file, line and column.

use crate::LoadError;
use crate::text::compressed::{describe, open_input};
use crate::text::decimal::{Decimal, Rounding};
use csv_core::{ReadRecordResult, Reader};
use omega_core::limits::AMOUNT_MAX;
use omega_core::text::is_hidden;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

/// Maximum length of a line in bytes, including its end: a hundred times the longest line of any supported trace.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Maximum number of characters of a column's name in an error.
const NAME_CHARS_MAX: usize = 64;

/// A column of one [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct Column(usize);

/// A table that is being read.
pub struct Table {
    file: PathBuf,
    input: Box<dyn BufRead>,
    /// The names of the columns.
    header: Vec<String>,
    record: Record,
    /// Whether the next row was already read, because it is the first line of a file without a header.
    is_read: bool,
}

/// One row of a table.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    table: &'a Table,
}

/// The last line that was read, with its fields. The memory is reused for each line.
struct Record {
    syntax: Reader,
    number: u64,
    line: Vec<u8>,
    /// Text of the fields, one after the other.
    text: String,
    /// End of each field in `text`.
    ends: Vec<usize>,
}

impl Table {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file cannot be read or is empty, or its header is invalid.
    pub fn open(file: &Path) -> Result<Table, LoadError> {
        let table = Table::at_start(file)?;
        table.with_header()
    }

    /// Opens a file that may be published without a header. The first line is a row if it has as many fields as
    /// `columns`, and its first field is not the first of these names.
    ///
    /// # Errors
    /// If the file cannot be read, is empty, or its first line is neither a row nor a valid header.
    pub fn open_bare(file: &Path, columns: &[&str]) -> Result<Table, LoadError> {
        let mut table = Table::at_start(file)?;
        if table.record.ends.len() != columns.len() {
            return table.with_header();
        }
        table.header = columns.iter().map(|&name| name.to_owned()).collect();
        table.is_read = table.record.field(0).trim() != columns[0];
        let mut fields = (0..columns.len()).map(|i| table.record.field(i).trim());
        if table.is_read && !fields.any(|field| Decimal::parse(field).is_ok()) {
            let message = format!(
                "the line is a header of other columns: the columns are {}",
                columns.join(", ")
            );
            return Err(table.error_at(None, message));
        }
        Ok(table)
    }

    /// A table whose first line was read.
    fn at_start(file: &Path) -> Result<Table, LoadError> {
        let input = open_input(file)
            .map_err(|error| LoadError::new(file, format!("cannot be read: {error}")))?;
        let (file, header, record) = (file.to_path_buf(), Vec::new(), Record::new());
        let mut table = Table { file, input, header, record, is_read: false };
        table.check_text()?;
        if !table.next_record()? {
            return Err(table.error("the file is empty: its first line must be a header"));
        }
        Ok(table)
    }

    /// Checks by the first bytes that the input is text.
    fn check_text(&mut self) -> Result<(), LoadError> {
        match self.input.fill_buf().map(fault_of_format) {
            Ok(None) => Ok(()),
            Ok(Some(message)) => Err(self.error(message)),
            Err(error) => {
                self.record.number += 1;
                Err(self.error_at(None, describe(&error)))
            }
        }
    }

    fn with_header(mut self) -> Result<Table, LoadError> {
        let table = &mut self;
        let record = &table.record;
        if let (1, Some(name)) = (record.ends.len(), separator(record.field(0))) {
            let message = format!("the columns are separated by {name}: separate them by commas");
            return Err(table.error_at(None, message));
        }
        table.header = (0..record.ends.len()).map(|i| record.field(i).trim().to_owned()).collect();
        for (i, name) in table.header.iter().enumerate() {
            if table.header[..i].contains(name) {
                return Err(table.error_at(Some(name), "the column is named twice"));
            }
        }
        Ok(self)
    }

    /// Path of the file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The names of all columns, in the order of the file.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.header
    }

    /// The column with this name.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn column(&self, name: &str) -> Result<Column, LoadError> {
        self.optional_column(name).ok_or_else(|| LoadError {
            line: Some(1),
            field: Some(name.to_owned()),
            ..LoadError::new(&self.file, "the column is missing")
        })
    }

    /// The columns with these names.
    ///
    /// # Errors
    /// If a column is missing.
    pub fn find<const N: usize>(&self, names: [&str; N]) -> Result<[Column; N], LoadError> {
        let mut columns = [Column(0); N];
        for (column, name) in columns.iter_mut().zip(names) {
            *column = self.column(name)?;
        }
        Ok(columns)
    }

    /// The column with this name; `None` if there is none.
    #[must_use]
    pub fn optional_column(&self, name: &str) -> Option<Column> {
        self.header.iter().position(|column| column == name).map(Column)
    }

    /// The next row that is not blank; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read further, or the line is not a row of this table.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, LoadError> {
        if !std::mem::take(&mut self.is_read) && !self.next_record()? {
            return Ok(None);
        }
        let (fields, columns) = (self.record.ends.len(), self.header.len());
        if fields != columns {
            let message = format!(
                "the row has {fields} fields, but the header has {columns}: \
                 give each row as many fields as the header"
            );
            return Err(self.error_at(None, message));
        }
        Ok(Some(Row { table: self }))
    }

    /// An error of the file as a whole.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> LoadError {
        LoadError::new(&self.file, message)
    }

    /// An error in the last read line.
    #[must_use]
    pub fn error_at(&self, field: Option<&str>, message: impl Into<String>) -> LoadError {
        LoadError { line: Some(self.record.number), field: field.map(shown), ..self.error(message) }
    }

    /// Reads and splits the next line that is not blank. Returns whether there was a line.
    fn next_record(&mut self) -> Result<bool, LoadError> {
        loop {
            let read = self.record.read_line(&mut *self.input);
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) => {
                    // The error is in the line after the last one read. That line is not counted yet.
                    self.record.number += 1;
                    return Err(self.error_at(None, describe(&error)));
                }
            }
            if self.record.line.len() > LINE_BYTES_MAX {
                let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
                return Err(self.error_at(None, message));
            }
            if !self.record.line.iter().all(u8::is_ascii_whitespace) {
                self.record.split().map_err(|message| self.error_at(None, message))?;
                return Ok(true);
            }
        }
    }
}

/// The error for an input that begins with these bytes, if it is not text in UTF-8.
fn fault_of_format(first: &[u8]) -> Option<&'static str> {
    let is_control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        Some("is UTF-16 text: save it as UTF-8")
    } else if first.starts_with(b"PAR1") && first.iter().any(is_control) {
        Some("is not a text table: give CSV, not Parquet")
    } else {
        let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
        line.contains(&0).then_some("is not a text table: give CSV, not binary data")
    }
}

/// A column's name for an error: shortened, and with escapes in place of characters that change how a line is shown.
fn shown(name: &str) -> String {
    let mut shown = String::new();
    for character in name.chars().take(NAME_CHARS_MAX) {
        if is_hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    if name.chars().nth(NAME_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns the name of a header's separator, if it is not a comma.
fn separator(header: &str) -> Option<&'static str> {
    [(';', "semicolons"), ('\t', "tabs"), ('|', "vertical bars")]
        .into_iter()
        .find_map(|(sign, name)| header.contains(sign).then_some(name))
}

impl Record {
    fn new() -> Record {
        // `default()` cannot be used, because it lacks the tables that `new()` builds.
        let syntax = Reader::new();
        Record { syntax, number: 0, line: Vec::new(), text: String::new(), ends: Vec::new() }
    }

    /// Reads a line without its end and without a byte order mark. Returns the number of bytes read, 0 at the end of
    /// the input.
    fn read_line(&mut self, input: &mut dyn BufRead) -> io::Result<usize> {
        self.line.clear();
        let read = input.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(0);
        }
        self.number += 1;
        if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        for end in [b'\n', b'\r'] {
            if self.line.last() == Some(&end) {
                self.line.pop();
            }
        }
        Ok(read)
    }

    /// Splits the line into fields.
    fn split(&mut self) -> Result<(), &'static str> {
        self.line.push(b'\n');
        // The buffers are large enough: without quotes the text is not longer, and a line has at most one field more
        // than bytes.
        let mut text = std::mem::take(&mut self.text).into_bytes();
        text.resize(self.line.len(), 0);
        self.ends.resize(self.line.len() + 1, 0);
        self.syntax.reset();
        let (result, read, written, ends) =
            self.syntax.read_record(&self.line, &mut text, &mut self.ends);
        if result != ReadRecordResult::Record {
            return Err("a quoted field must end on the line where it begins");
        }
        if read < self.line.len() {
            return Err("the line has a carriage return before its end");
        }
        text.truncate(written);
        self.ends.truncate(ends);
        self.text = String::from_utf8(text).map_err(|_| "the line is not UTF-8 text")?;
        Ok(())
    }

    fn field(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start..self.ends[i]]
    }
}

impl<'a> Row<'a> {
    /// The field without the spaces around it; may be empty.
    #[must_use]
    pub fn text(&self, column: Column) -> &'a str {
        self.table.record.field(column.0).trim()
    }

    /// The field, which must not be empty.
    ///
    /// # Errors
    /// If the field is empty.
    pub fn required(&self, column: Column) -> Result<&'a str, LoadError> {
        match self.text(column) {
            "" => Err(self.error(column, "is empty")),
            text => Ok(text),
        }
    }

    /// A whole number from zero to `max`.
    ///
    /// # Errors
    /// If the field is anything else.
    pub fn integer(&self, column: Column, max: u64) -> Result<u64, LoadError> {
        let text = self.required(column)?;
        match text.parse::<u64>() {
            Ok(number) if number <= max => Ok(number),
            Ok(_) => Err(self.too_large(column, max)),
            Err(_) => Err(match Decimal::parse(text) {
                Err(error) => self.error(column, format!("{text:?} {error}")),
                Ok(number) if number.times(1, Rounding::Up).is_none_or(|n| n > max) => {
                    self.too_large(column, max)
                }
                Ok(_) => self.error(column, format!("{text:?} is not a whole number")),
            }),
        }
    }

    /// A whole number from zero to `max`, or an empty field.
    ///
    /// # Errors
    /// If the field is anything else.
    pub fn optional_integer(&self, column: Column, max: u64) -> Result<Option<u64>, LoadError> {
        if self.text(column).is_empty() { Ok(None) } else { self.integer(column, max).map(Some) }
    }

    /// A number times `unit` as a whole amount, at most [`AMOUNT_MAX`].
    ///
    /// # Errors
    /// If the field is not a number, is negative, or is too large.
    pub fn amount(&self, column: Column, unit: u64, rounding: Rounding) -> Result<u64, LoadError> {
        self.amount_of(column, self.required(column)?, (unit, rounding))
    }

    /// The amount of a text that is part of a field.
    ///
    /// # Errors
    /// If the text is not a number, is negative, or is too large.
    pub fn amount_of(
        &self,
        column: Column,
        text: &str,
        (unit, rounding): (u64, Rounding),
    ) -> Result<u64, LoadError> {
        let number = Decimal::parse(text)
            .map_err(|error| self.error(column, format!("{text:?} {error}")))?;
        match number.times(unit, rounding) {
            Some(amount) if amount <= AMOUNT_MAX => Ok(amount),
            _ => Err(self.too_large(column, AMOUNT_MAX / unit)),
        }
    }

    /// Returns an error about this field.
    #[must_use]
    pub fn error(&self, column: Column, message: impl Into<String>) -> LoadError {
        self.table.error_at(Some(&self.table.header[column.0]), message)
    }

    /// An error in the field of this name.
    pub(crate) fn error_in(&self, column: &str, message: impl Into<String>) -> LoadError {
        self.table.error_at(Some(column), message)
    }

    /// The number of this line, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.table.record.number
    }

    fn too_large(&self, column: Column, max: u64) -> LoadError {
        self.error(column, format!("{:?} is too large: must be at most {max}", self.text(column)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{folder, gzip, message};

    /// Reads a table with the columns `name` and `n` from these bytes.
    fn read(bytes: &[u8]) -> (tempfile::TempDir, Result<Vec<(String, u64)>, LoadError>) {
        let dir = folder(&[]);
        let file = dir.path().join("t.csv");
        std::fs::write(&file, bytes).unwrap();
        let result = (|| {
            let mut table = Table::open(&file)?;
            let [name, number] = table.find(["name", "n"])?;
            let mut rows = Vec::new();
            while let Some(row) = table.next_row()? {
                rows.push((row.text(name).to_owned(), row.integer(number, 1000)?));
            }
            Ok(rows)
        })();
        (dir, result)
    }

    fn check(bytes: &[u8], rows: &[(&str, u64)]) {
        let read = read(bytes).1.unwrap();
        let read: Vec<(&str, u64)> = read.iter().map(|(name, n)| (&**name, *n)).collect();
        assert_eq!(read, rows, "{:?}", String::from_utf8_lossy(bytes));
    }

    fn check_error(bytes: &[u8], expected: &str) {
        let (dir, result) = read(bytes);
        assert_eq!(message(dir.path(), result), expected, "{:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn tables_are_read_whatever_their_dress() {
        check(b"name,n\na,1\nb,2\n", &[("a", 1), ("b", 2)]);
        check(b"n,other,name\n1,?,a", &[("a", 1)]);
        check(b"\xef\xbb\xbfname,n\r\na,1\r\n\r\nb,2\r\n", &[("a", 1), ("b", 2)]);
        check(b" name , n\n a b , 7 \n", &[("a b", 7)]);
        check(b"name,n\n\"a,\"\"b\"\"\",1\n", &[("a,\"b\"", 1)]);
        check(b"name,n\n,0\n", &[("", 0)]);
        check(b"name,n\n", &[]);
        check(&gzip("name,n\na,1\n"), &[("a", 1)]);
    }

    #[test]
    fn a_gzip_file_may_have_several_members() {
        let bytes = [gzip("name,n\na,1\nb"), gzip(",2\n")].concat();
        check(&bytes, &[("a", 1), ("b", 2)]);
    }

    #[test]
    fn faults_of_a_table_are_told_in_one_line() {
        check_error(b"", "t.csv: the file is empty: its first line must be a header");
        check_error(b"\n\r\n", "t.csv: the file is empty: its first line must be a header");
        check_error(b"name,m\n", "t.csv:1: n: the column is missing");
        check_error(b"name,n,name\n", "t.csv:1: name: the column is named twice");
        check_error(
            b"name,n\na\n",
            "t.csv:2: the row has 1 fields, but the header has 2: give each row as many fields as the header",
        );
        check_error(
            b"name,n\na,1,2\n",
            "t.csv:2: the row has 3 fields, but the header has 2: give each row as many fields as the header",
        );
        check_error(b"name,n\na,1\n\nb,\n", "t.csv:4: n: is empty");
        check_error(b"name,n\na,one\n", "t.csv:2: n: \"one\" is not a number");
        check_error(b"name,n\na,NaN\n", "t.csv:2: n: \"NaN\" is not a finite number");
        check_error(b"name,n\na,inf\n", "t.csv:2: n: \"inf\" is not a finite number");
        check_error(b"name,n\na,-1\n", "t.csv:2: n: \"-1\" is negative");
        check_error(b"name,n\na,1.5\n", "t.csv:2: n: \"1.5\" is not a whole number");
        check_error(b"name,n\na,1001\n", "t.csv:2: n: \"1001\" is too large: must be at most 1000");
        check_error(b"name,n\na,1e99\n", "t.csv:2: n: \"1e99\" is too large: must be at most 1000");
        let quoted = "a quoted field must end on the line where it begins";
        check_error(b"name,n\n\"a,1\nb,2\n", &format!("t.csv:2: {quoted}"));
        check_error(b"name,n\na\r,1\n", "t.csv:2: the line has a carriage return before its end");
        check_error(b"name,n\n\xff,1\n", "t.csv:2: the line is not UTF-8 text");
    }

    #[test]
    fn what_is_no_text_is_refused_as_a_whole() {
        let parquet = "t.csv: is not a text table: give CSV, not Parquet";
        check_error(b"PAR1\x15\x04\x15\x10\x15\x14L,\x00\n", parquet);
        check_error(&gzip("PAR1\u{15}\n"), parquet);
        let binary = "t.csv: is not a text table: give CSV, not binary data";
        check_error(b"\x7fELF\x02\x01\x01\x00\x00", binary);
        check_error(b"name\x00,n\na,1\nb,2\n", binary);
        check_error(b"\xff\xfen\x00,\x00m\x00", "t.csv: is UTF-16 text: save it as UTF-8");
        check(b"n,name,PAR1\n1,a,b\n", &[("a", 1)]);
        check(b"PAR1,name,n\r\nb,a,1\r\n", &[("a", 1)]);
    }

    #[test]
    fn names_of_columns_are_shown_without_control_characters_and_shortened() {
        let twice = "the column is named twice";
        check_error(b"name,n,a\x1b[31m,a\x1b[31m\n", &format!("t.csv:1: a\\u{{1b}}[31m: {twice}"));
        let (long, shown) = ("ä".repeat(70), "ä".repeat(64));
        let header = format!("name,n,{long},{long}\n");
        check_error(header.as_bytes(), &format!("t.csv:1: {shown}…: {twice}"));
    }

    #[test]
    fn a_line_has_a_bound() {
        let line = |bytes: usize| format!("name,n\n{},1\n", "x".repeat(bytes - 2));
        assert_eq!(read(line(LINE_BYTES_MAX).as_bytes()).1.unwrap().len(), 1);
        let error = "t.csv:2: the line is longer than 65536 bytes";
        check_error(line(LINE_BYTES_MAX + 1).as_bytes(), error);
        // A far longer line is rejected, too: reading stops at the maximum length.
        check_error(line(64 * LINE_BYTES_MAX).as_bytes(), error);
    }

    #[test]
    fn gzip_that_is_cut_off_or_damaged_is_an_error_and_not_the_end() {
        let rows: String = (0..5000).map(|i| format!("row-{},{}\n", i * 7919, i % 1000)).collect();
        let whole = gzip(&format!("name,n\n{rows}"));
        for cut in [3, 12, whole.len() / 2, whole.len() - 1] {
            let (dir, result) = read(&whole[..cut]);
            let error = message(dir.path(), result);
            assert!(
                error.ends_with(": the gzip data ends too early: the file is incomplete"),
                "{error}"
            );
        }
        let mut damaged = whole.clone();
        let end = damaged.len();
        damaged[end - 6] ^= 1;
        let (dir, result) = read(&damaged);
        let error = message(dir.path(), result);
        assert!(error.contains(": the gzip data is damaged: "), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let dir = folder(&[]);
        let error = message(dir.path(), Table::open(&dir.path().join("none.csv")));
        assert!(error.starts_with("none.csv: cannot be read: "), "{error}");
    }
}
