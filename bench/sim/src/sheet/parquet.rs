//! A table as Parquet, with typed columns for statistics programs.
//!
//! A column has the same type whatever its values are, even if it has no values. The file has one row group. It is not
//! compressed, because a dictionary already reduces repeated values to a few bits each.

use super::{Cell, Sheet};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// Contents of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word in each row.
    Text,
    /// A count in each row.
    Count,
    /// A number in each row.
    Number,
    /// An optional number.
    NumberIfAny,
}

impl Kind {
    /// Declares a column of this kind in Parquet's schema language.
    fn field(self, name: &str) -> String {
        match self {
            Kind::Text => format!("REQUIRED BYTE_ARRAY {name} (STRING);"),
            Kind::Count => format!("REQUIRED INT64 {name} (INTEGER(64,false));"),
            Kind::Number => format!("REQUIRED DOUBLE {name};"),
            Kind::NumberIfAny => format!("OPTIONAL DOUBLE {name};"),
        }
    }
}

impl Sheet {
    /// Encodes the table as a Parquet file whose columns have these kinds. `remarks` are added to the file's metadata,
    /// by name.
    ///
    /// # Errors
    /// If a cell does not match the kind of its column, or the number of kinds is wrong.
    pub fn parquet(&self, kinds: &[Kind], remarks: &[(&str, &str)]) -> Result<Vec<u8>> {
        if kinds.len() != self.columns.len() {
            return Err(ParquetError::General(
                "the number of column types differs from the number \
                 of columns"
                    .to_owned(),
            ));
        }
        let fields = self.columns.iter().zip(kinds).map(|(name, kind)| kind.field(name));
        let schema =
            parse_message_type(&format!("message rows {{{}}}", fields.collect::<String>()))?;
        let remark =
            |(name, text): &(&str, &str)| KeyValue::new((*name).to_owned(), (*text).to_owned());
        let properties = WriterProperties::builder()
            .set_key_value_metadata(Some(remarks.iter().map(remark).collect()))
            .build();
        let mut file =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let mut rows = file.next_row_group()?;
        for (number, kind) in kinds.iter().enumerate() {
            let Some(column) = rows.next_column()? else { break };
            let cells = self.rows.iter().map(|row| &row[number]);
            self.column(number, *kind, cells, column)?;
        }
        rows.close()?;
        file.into_inner()
    }

    fn column<'a>(
        &self,
        number: usize,
        kind: Kind,
        cells: impl Iterator<Item = &'a Cell>,
        to: SerializedColumnWriter<'_>,
    ) -> Result<()> {
        let other = |cell: &Cell| {
            ParquetError::General(format!(
                "column {}: the value {cell:?} is not of type \
                 {kind:?}",
                self.columns[number]
            ))
        };
        match kind {
            Kind::Text => write::<ByteArrayType>(to, cells, |cell| match cell {
                Cell::Text(text) => Ok(Some(ByteArray::from(text.as_str()))),
                cell => Err(other(cell)),
            }),
            // The 64 bits are signed here; the schema declares them as unsigned.
            Kind::Count => write::<Int64Type>(to, cells, |cell| match cell {
                Cell::Count(count) => Ok(Some(count.cast_signed())),
                cell => Err(other(cell)),
            }),
            Kind::Number | Kind::NumberIfAny => write::<DoubleType>(to, cells, |cell| match cell {
                Cell::Number(number, _) | Cell::Exact(number) => Ok(Some(*number)),
                Cell::None if kind == Kind::NumberIfAny => Ok(None),
                cell => Err(other(cell)),
            }),
        }
    }
}

/// Writes a column: its values and, if it is optional, whether each row has one.
fn write<'a, T: DataType>(
    mut to: SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = &'a Cell>,
    value: impl Fn(&Cell) -> Result<Option<T::T>>,
) -> Result<()> {
    let values: Vec<Option<T::T>> = cells.map(value).collect::<Result<_>>()?;
    let there: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    to.typed::<T>().write_batch(&values, Some(&there), None)?;
    to.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::basic::Type;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    const KINDS: [Kind; 4] = [Kind::Text, Kind::Count, Kind::Number, Kind::NumberIfAny];

    fn sheet(rows: Vec<Vec<Cell>>) -> Sheet {
        let mut sheet = Sheet::new(&["name", "count", "share", "wait_s"]);
        rows.into_iter().for_each(|row| sheet.push(row));
        sheet
    }

    fn read(sheet: &Sheet) -> SerializedFileReader<bytes::Bytes> {
        let file = sheet.parquet(&KINDS, &[("omega.version", "1")]).unwrap();
        SerializedFileReader::new(bytes::Bytes::from(file)).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again_with_its_types() {
        let third = 1.0 / 3.0;
        let file = read(&sheet(vec![
            vec!["a, \"b\" é".into(), Cell::Count(u64::MAX), Cell::Number(third, 2), Cell::None],
            vec!["".into(), Cell::Count(0), Cell::Exact(1e-9), Cell::Number(-0.5, 0)],
        ]));
        let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows[0].get_string(0).unwrap(), "a, \"b\" é");
        assert_eq!(rows[0].get_ulong(1).unwrap(), u64::MAX);
        assert_eq!(rows[0].get_double(2).unwrap(), third, "whole, not as it is printed");
        assert!(rows[0].get_double(3).is_err(), "nothing");
        assert_eq!(
            (rows[1].get_string(0).unwrap().as_str(), rows[1].get_ulong(1).unwrap()),
            ("", 0)
        );
        assert_eq!((rows[1].get_double(2).unwrap(), rows[1].get_double(3).unwrap()), (1e-9, -0.5));
        let about = file.metadata().file_metadata();
        let remark = &about.key_value_metadata().unwrap()[0];
        assert_eq!((remark.key.as_str(), remark.value.as_deref()), ("omega.version", Some("1")));
    }

    #[test]
    fn types_do_not_depend_on_the_rows() {
        let types = |rows| {
            let file = read(&sheet(rows));
            let columns = file.metadata().file_metadata().schema_descr().columns().to_vec();
            let about = |column: &parquet::schema::types::ColumnDescPtr| {
                (column.physical_type(), column.self_type().is_optional())
            };
            columns.iter().map(about).collect::<Vec<_>>()
        };
        let row = vec!["a".into(), Cell::Count(1), Cell::Exact(1.0), Cell::None];
        let expected = [
            (Type::BYTE_ARRAY, false),
            (Type::INT64, false),
            (Type::DOUBLE, false),
            (Type::DOUBLE, true),
        ];
        assert_eq!(types(vec![row]), expected);
        assert_eq!(types(Vec::new()), expected);
    }

    #[test]
    fn a_cell_of_another_kind_is_refused() {
        let row = || vec!["a".into(), Cell::Count(1), Cell::Exact(1.0), Cell::None];
        for (column, cell) in
            [(0, Cell::None), (1, Cell::Exact(1.0)), (2, Cell::None), (3, "a".into())]
        {
            let mut row = row();
            row[column] = cell;
            let error = sheet(vec![row]).parquet(&KINDS, &[]).unwrap_err().to_string();
            assert!(error.contains(["name", "count", "share", "wait_s"][column]), "{error}");
        }
        assert!(sheet(vec![row()]).parquet(&KINDS[..3], &[]).is_err());
    }
}
