//! The columns of amounts, which both tables have.

use super::forms;
use crate::LoadError;
use crate::text::decimal::{Decimal, Rounding};
use crate::text::table::{Column, Row, Table};
use omega_core::limits::{AMOUNT_MAX, DEVICES_MAX};
use omega_core::{Amounts, KindId, Kinds, ResourceKind};

/// Prefix of the columns of further resource kinds.
pub(super) const RESOURCE: &str = "resource:";

/// The columns of amounts, which both tables have.
pub(super) struct AmountColumns {
    cpu: Column,
    memory: Column,
    disk: Option<Column>,
    gpu: Option<Column>,
    more: Vec<(KindId, Column)>,
}

impl AmountColumns {
    pub(super) fn of(table: &Table, kinds: &Kinds) -> Result<AmountColumns, LoadError> {
        let [cpu, memory] = table.find(["cpu", "memory"])?;
        let (disk, gpu) = (table.optional_column("disk"), table.optional_column("gpu"));
        let column =
            |kind: &ResourceKind| table.optional_column(&format!("{RESOURCE}{}", kind.name));
        let more = kinds.iter().filter_map(|(id, kind)| Some((id, column(kind)?))).collect();
        Ok(AmountColumns { cpu, memory, disk, gpu, more })
    }

    /// Reads the amounts of a row, and its number of devices, which is not among the amounts.
    pub(super) fn read(
        &self,
        row: &Row<'_>,
        rounding: Rounding,
    ) -> Result<(Amounts, u8), LoadError> {
        let bytes = |text: &str| forms::bytes(text, rounding);
        row.required(self.memory)?;
        let mut amounts = Amounts::new([
            cpu(row, self.cpu, rounding)?,
            optional(row, Some(self.memory), bytes)?.unwrap_or(0),
            optional(row, self.disk, bytes)?.unwrap_or(0),
        ]);
        for (kind, column) in &self.more {
            amounts.set(*kind, row.optional_integer(*column, AMOUNT_MAX)?.unwrap_or(0));
        }
        let devices = match self.gpu {
            Some(column) => row.optional_integer(column, u64::from(DEVICES_MAX))?.unwrap_or(0),
            None => 0,
        };
        Ok((amounts, devices as u8))
    }
}

/// Reads cores as thousandths. This column takes no units, so `500m` and `4 cores` are errors.
fn cpu(row: &Row<'_>, column: Column, rounding: Rounding) -> Result<u64, LoadError> {
    let text = row.required(column)?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = Decimal::parse(digits.trim_end());
    if digits.len() < text.len() && number.is_ok() {
        let message = format!("{text:?} has a unit: write cores without one, as in 8 or 0.5");
        return Err(row.error(column, message));
    }
    row.amount(column, 1000, rounding)
}

/// Reads a field that may be empty, by the function `read`.
pub(super) fn optional<T>(
    row: &Row<'_>,
    column: Option<Column>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, LoadError> {
    let Some(column) = column else { return Ok(None) };
    match row.text(column) {
        "" => Ok(None),
        text => read(text).map(Some).map_err(|message| row.error(column, message)),
    }
}
