//! Canonical texts of quantities, as the API server writes them after reading one.
//!
//! A text keeps the notation of its suffix: powers of two (`Ki`), powers of thousand as letters
//! (`k`, `m`) or as exponents (`e3`). The number in front has no factor of the notation's base
//! left. Two exceptions of Kubernetes: short texts that already are canonical stay as they were,
//! with sign and zeros, and powers of two are given up below 1024 and for fractions.
//!
//! Omega writes no quantities: this only serves to check that none is read in another notation.

use omega_workload::kube::quantity::{Factor, Quantity, QuantityError, Text};

/// Digits that Kubernetes' short form has at most.
const DIGITS_MAX: usize = 18;

/// The smallest exponent of a quantity: billionths.
const EXPONENT_MIN: i64 = -9;

/// Notation of the exponent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Two,
    Letters,
    Exponent,
}

/// The canonical text of a quantity.
pub(super) fn canonical(text: &str) -> Result<String, QuantityError> {
    let parts = Text::parse(text)?;
    let quantity = Quantity::parse(text)?;
    if stays(&parts) {
        return Ok(text.to_owned());
    }
    let nanos = quantity.nanos();
    if nanos == 0 {
        return Ok("0".to_owned());
    }
    let one = Quantity::from_value(1).nanos();
    let notation = match (parts.factor, parts.suffix.starts_with(['e', 'E'])) {
        (Factor::Two(_), _) if nanos % one == 0 && nanos.abs() >= 1024 * one => Notation::Two,
        (Factor::Ten(exponent), true) if exponent != 18 || parts.suffix != "E" => {
            Notation::Exponent
        }
        _ => Notation::Letters,
    };
    Ok(match notation {
        Notation::Two => by_two(nanos / one),
        _ => by_thousand(nanos, notation),
    })
}

/// Whether Kubernetes keeps the text: its digits are the canonical number.
fn stays(parts: &Text<'_>) -> bool {
    let whole = parts.whole.trim_start_matches('0');
    let digits = format!("{}{}", if whole.is_empty() { "0" } else { whole }, parts.fraction);
    let (exponent, few) = match parts.factor {
        Factor::Ten(exponent) => {
            (exponent - parts.fraction.len() as i64, digits.len() <= DIGITS_MAX)
        }
        // Digits and the bits of the suffix must fit in 15 digits, and a fraction has none.
        Factor::Two(bits) => {
            let room = parts.fraction.is_empty() && digits.len() + bits as usize * 3 / 10 < 15;
            return room && digits.parse::<u64>().is_ok_and(|value| value % 8 != 0);
        }
    };
    let canonical = exponent % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0');
    few && exponent >= EXPONENT_MIN && canonical
}

/// Whole units as a number and a power of 1024.
fn by_two(mut value: i128) -> String {
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut power = 0;
    while value % 1024 == 0 && power + 1 < suffixes.len() {
        value /= 1024;
        power += 1;
    }
    format!("{value}{}", suffixes[power])
}

/// Billionths as a number and a power of 1000.
fn by_thousand(nanos: i128, notation: Notation) -> String {
    let letters = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut power) = (nanos, 0);
    while value % 1000 == 0 && (notation == Notation::Exponent || power + 1 < letters.len()) {
        value /= 1000;
        power += 1;
    }
    let exponent = power as i64 * 3 + EXPONENT_MIN;
    match notation {
        Notation::Exponent if exponent != 0 => format!("{value}e{exponent}"),
        Notation::Exponent => value.to_string(),
        _ => format!("{value}{}", letters[power]),
    }
}
