//! Numbers for people: with separators, few digits, and a suitable unit.
//!
//! The table and the page both use these, so a number has the same form in both.

/// Text for a number that is missing or not finite.
pub(super) const NOTHING: &str = "–";

/// A count with thousands separators.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 task`, `2,000 tasks`.
pub(super) fn plural(number: u64, word: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {word}{ending}", count(number))
}

/// Converts a count to `u64`, on any platform.
pub(super) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Formats a share of one as a percentage.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        NOTHING.to_string()
    } else if percent == 0.0 {
        "0 %".to_string()
    } else if percent.abs() < 0.01 {
        "<0.01 %".to_string()
    } else if percent.abs() < 1.0 {
        format!("{percent:.2} %")
    } else if percent.abs() < 1_000.0 {
        format!("{percent:.1} %")
    } else {
        format!("{} %", rounded(percent))
    }
}

/// Formats a part of a whole as a percentage; returns [`NOTHING`] if the whole is zero.
pub(super) fn percent_of(part: f64, whole: f64) -> String {
    if whole > 0.0 { percent(part / whole) } else { NOTHING.to_string() }
}

/// Formats an amount with three digits, or with all digits of its integral part if these are more.
pub(super) fn amount(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        return NOTHING.to_string();
    }
    if size >= 99.95 {
        return rounded(number);
    }
    let text = if size >= 9.995 { format!("{number:.1}") } else { format!("{number:.2}") };
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Formats a time in seconds, with suitable units.
pub(super) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        NOTHING.to_string()
    } else if seconds == 0.0 {
        "0 s".to_string()
    } else if seconds < 0.999_5e-3 {
        format!("{} µs", amount(seconds * 1e6))
    } else if seconds < 0.999_5 {
        format!("{} ms", amount(seconds * 1e3))
    } else if seconds < 99.95 {
        format!("{} s", amount(seconds))
    } else {
        long_duration(seconds)
    }
}

/// Formats a time of more than a minute in its two largest units; the second is left out if it is zero.
fn long_duration(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0)];
    // The time is first rounded to the smaller of the two units; otherwise 59.9 s would become 60 s.
    let (large, small) = match seconds {
        s if s >= 86_400.0 - 1_800.0 => (UNITS[0], UNITS[1]),
        s if s >= 3_600.0 - 30.0 => (UNITS[1], UNITS[2]),
        _ => (UNITS[2], UNITS[3]),
    };
    let whole = (seconds / small.1).round() * small.1;
    let (first, second) = ((whole / large.1).floor(), (whole % large.1) / small.1);
    if second.round() == 0.0 {
        return format!("{} {}", rounded(first), large.0);
    }
    format!("{} {} {} {}", rounded(first), large.0, rounded(second), small.0)
}

/// Formats a time in microseconds as [`duration`] does; returns [`NOTHING`] if there is none.
pub(super) fn micros(micros: Option<f64>) -> String {
    micros.map_or_else(|| NOTHING.to_string(), |micros| duration(micros * 1e-6))
}

/// Formats the tick of an axis, with letters for thousands and millions.
pub(super) fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 1e9 => format!("{}G", amount(number / 1e9)),
        n if n >= 1e6 => format!("{}M", amount(number / 1e6)),
        n if n >= 1e4 => format!("{}k", amount(number / 1e3)),
        _ => amount(number),
    }
}

/// Formats a float without its fraction, with separators.
fn rounded(number: f64) -> String {
    let sign = if number < -0.5 { "-" } else { "" };
    // The cast saturates, so every finite float is valid.
    format!("{sign}{}", count(number.abs().round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(number), text);
        }
        assert_eq!(plural(1, "task"), "1 task");
        assert_eq!(plural(0, "task"), "0 tasks");
        assert_eq!(plural(1_500, "task"), "1,500 tasks");
    }

    #[test]
    fn a_time_that_is_missing_is_not_zero() {
        assert_eq!([None, Some(0.0), Some(180.0)].map(micros), [NOTHING, "0 s", "180 µs"]);
    }

    #[test]
    fn shares_have_the_digits_that_matter() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.000_01, "<0.01 %"),
            (0.001_2, "0.12 %"),
            (0.713, "71.3 %"),
            (1.124, "112.4 %"),
            (123.4, "12,340 %"),
            (f64::NAN, NOTHING),
        ] {
            assert_eq!(percent(share), text);
        }
        assert_eq!(percent_of(1.0, 0.0), NOTHING);
        assert_eq!(percent_of(1.0, 8.0), "12.5 %");
    }

    #[test]
    fn times_choose_their_units() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (0.000_000_4, "0.4 µs"),
            (0.000_85, "850 µs"),
            (0.999_7e-3, "1 ms"),
            (0.012_34, "12.3 ms"),
            (2.0, "2 s"),
            (99.9, "99.9 s"),
            (119.7, "2 min"),
            (200.0, "3 min 20 s"),
            (3_599.9, "1 h"),
            (18_720.0, "5 h 12 min"),
            (86_399.0, "1 d"),
            (615_600.0, "7 d 3 h"),
            (f64::INFINITY, NOTHING),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn amounts_and_ticks_are_short() {
        for (number, text) in
            [(0.0, "0"), (0.5, "0.5"), (9.999, "10"), (45.67, "45.7"), (1_234.5, "1,235")]
        {
            assert_eq!(amount(number), text);
        }
        for (number, text) in [(5_000.0, "5,000"), (120_000.0, "120k"), (2_500_000.0, "2.5M")] {
            assert_eq!(short(number), text);
        }
    }
}
