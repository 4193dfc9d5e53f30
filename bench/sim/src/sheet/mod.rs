//! A small table of results for people and programs, as aligned text, CSV, JSON or Parquet.
//!
//! All formats are made from the same cells of the table. Text and CSV print a number with its column's decimals; JSON
//! and Parquet have full precision.

mod parquet;

pub use parquet::Kind;

use clap::ValueEnum;
use serde_json::{Map, Value};

/// Format of printed results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text in columns.
    #[default]
    Table,
    /// JSON: a list of objects.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A count.
    Count(u64),
    /// A number, and how many of its decimals are printed.
    Number(f64, usize),
    /// A number in its shortest exact form.
    Exact(f64),
    /// No value.
    None,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl Cell {
    /// Formats the value for tables and CSV.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number, decimals) => format!("{number:.decimals$}"),
            Cell::Exact(number) => number.to_string(),
            Cell::None => String::new(),
        }
    }

    /// The numeric value; `None` if the cell has a text or no value.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Count(count) => Some(*count as f64),
            Cell::Number(number, _) | Cell::Exact(number) => Some(*number),
            Cell::Text(_) | Cell::None => None,
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Count(count) => Value::from(*count),
            Cell::Number(number, _) | Cell::Exact(number) => Value::from(*number),
            Cell::None => Value::Null,
        }
    }
}

/// A table with named columns.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// An empty table.
    #[must_use]
    pub fn new(columns: &[&'static str]) -> Sheet {
        Sheet { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of its cells differs from the number of columns.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// Prints the table, with a final line feed.
    #[must_use]
    pub fn print(&self, output: Output) -> String {
        match output {
            Output::Table => self.table(),
            Output::Csv => self.csv(),
            Output::Json => self.json(),
        }
    }

    fn table(&self) -> String {
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        let width = |i: usize| {
            let cells = texts.iter().map(|row| row[i].chars().count());
            cells.chain([self.columns[i].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let is_text: Vec<bool> = (0..self.columns.len())
            .map(|i| self.rows.iter().any(|row| matches!(row[i], Cell::Text(_))))
            .collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded: Vec<String> = cells
                .enumerate()
                .map(|(i, cell)| {
                    if is_text[i] {
                        format!("{cell:<w$}", w = widths[i])
                    } else {
                        format!("{cell:>w$}", w = widths[i])
                    }
                })
                .collect();
            format!("{}\n", padded.join("  ").trim_end())
        };
        let mut text = line(&mut self.columns.iter().copied());
        for row in &texts {
            text += &line(&mut row.iter().map(String::as_str));
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = self.columns.join(",") + "\n";
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| quoted(&cell.text())).collect();
            text += &(cells.join(",") + "\n");
        }
        text
    }

    fn json(&self) -> String {
        let object = |row: &Vec<Cell>| {
            let named = self.columns.iter().zip(row);
            Value::Object(
                named.map(|(name, cell)| ((*name).to_owned(), cell.json())).collect::<Map<_, _>>(),
            )
        };
        let list = Value::Array(self.rows.iter().map(object).collect());
        format!("{list:#}\n")
    }
}

/// A field of a CSV file, quoted if needed.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_tell_the_same() {
        let mut sheet = Sheet::new(&["policy", "jobs", "wait_s"]);
        sheet.push(vec!["fcfs".into(), Cell::Count(12), Cell::Number(1.25, 1)]);
        sheet.push(vec!["a \"b\", c".into(), Cell::Count(3), Cell::None]);
        assert_eq!(
            sheet.print(Output::Table),
            "policy    jobs  wait_s\nfcfs        12     1.2\na \"b\", c     3\n"
        );
        assert_eq!(
            sheet.print(Output::Csv),
            "policy,jobs,wait_s\nfcfs,12,1.2\n\"a \"\"b\"\", c\",3,\n"
        );
        let json: Value = serde_json::from_str(&sheet.print(Output::Json)).unwrap();
        assert_eq!(json[0]["wait_s"], 1.25);
        assert_eq!(json[1]["policy"], "a \"b\", c");
        assert!(json[1]["wait_s"].is_null());
    }
}
