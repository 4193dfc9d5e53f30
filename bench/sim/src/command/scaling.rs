//! Parsers of times, shares and multiples, for commands that search for the size of a cell.

/// Parses seconds from `500ms`, `30s`, `2m` or `1h`.
pub(super) fn time(text: &str) -> Result<f64, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let part = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let number = part.and_then(|(number, seconds)| Some(number.parse::<f64>().ok()? * seconds));
    let number = number.filter(|seconds| (0.0..=1e9).contains(seconds));
    number.ok_or_else(|| "must be a time such as 500ms, 30s, 2m or 1h".into())
}

/// Parses a share (from 0 to 1) from `99%` or `0.99`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let read = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    let share = read.ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a share such as 99% or 0.99".into())
}

/// Parses a multiple of a load, and returns it in thousandths.
pub(super) fn thousandths(text: &str) -> Result<u64, String> {
    let times = text.parse::<f64>().ok().filter(|times| (0.01..=1000.0).contains(times));
    let thousandths = times.map(|times| (times * 1000.0).round() as u64);
    thousandths.ok_or_else(|| "must be from 0.01 to 1000".into())
}
