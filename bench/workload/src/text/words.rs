//! Counts with a noun, for messages.

/// Formats a count with its noun: `1 pod`, `2 pods`.
#[must_use]
pub fn plural(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}
