//! Times as people write them: `500ms`, `30s`, `2h`.

use omega_workload::decimal::{Decimal, Rounding};
use std::time::Duration;

/// Reads a time: digits and a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} must be a time such as 500ms, 30s, 5m or 2h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = text.split_at(digits.len());
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let ms = Decimal::parse(digits).map_err(|_| wrong())?.times(unit_ms, Rounding::Up);
    ms.map(Duration::from_millis).ok_or_else(wrong)
}
