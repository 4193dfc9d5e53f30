//! Row numbers in messages.

use super::Malformed;

/// Converts values for some rows, each of which must be below `rows`.
pub(super) fn by_row<T, U>(
    field: &'static str,
    rows: usize,
    reported: Vec<T>,
    read: impl Fn(T) -> Result<(u32, U), Malformed>,
) -> Result<Vec<(u32, U)>, Malformed> {
    let read = |one| {
        let (slot, value) = read(one)?;
        in_rows(slot, rows, field)?;
        Ok((slot, value))
    };
    reported.into_iter().map(read).collect()
}

pub(super) fn in_rows(slot: u32, rows: usize, field: &'static str) -> Result<(), Malformed> {
    if (slot as usize) < rows {
        return Ok(());
    }
    let max = (rows as u64).saturating_sub(1);
    Err(Malformed::TooLarge { field, given: slot.into(), max })
}
