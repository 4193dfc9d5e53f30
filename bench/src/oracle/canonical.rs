//! Canonical texts of quantities: the form in which the API server writes a quantity that it has read.
//!
//! A canonical text keeps the notation of its suffix: powers of two (`Ki`), or powers of a thousand as letters (`k`,
//! `m`) or as exponents (`e3`). The number before the suffix is not divisible by the notation's base. Kubernetes has
//! two exceptions. Short texts that already are canonical stay as they are, with sign and zeros. For fractions and for
//! values below 1024, powers of two are replaced by powers of a thousand.
//!
//! Omega itself writes no quantities. This code only serves to check that every quantity is read in the right notation.

use omega_workload::kube::quantity::{Factor, Quantity, QuantityError, Text};

/// Maximum number of digits of Kubernetes' short form.
const DIGITS_MAX: usize = 18;

/// The smallest exponent of a quantity, for billionths.
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

/// Whether Kubernetes keeps the text as it is, because its digits are the canonical number.
fn stays(parts: &Text<'_>) -> bool {
    let whole = parts.whole.trim_start_matches('0');
    let digits = format!("{}{}", if whole.is_empty() { "0" } else { whole }, parts.fraction);
    let (exponent, few) = match parts.factor {
        Factor::Ten(exponent) => {
            (exponent - parts.fraction.len() as i64, digits.len() <= DIGITS_MAX)
        }
        // The digits of the number and of the suffix's factor must be fewer than 15 in total. A text with a fraction is
        // always converted.
        Factor::Two(bits) => {
            let room = parts.fraction.is_empty() && digits.len() + bits as usize * 3 / 10 < 15;
            return room && digits.parse::<u64>().is_ok_and(|value| value % 8 != 0);
        }
    };
    let canonical = exponent % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0');
    few && exponent >= EXPONENT_MIN && canonical
}

/// Formats whole units as a number and a power of 1024.
fn by_two(mut value: i128) -> String {
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut power = 0;
    while value % 1024 == 0 && power + 1 < suffixes.len() {
        value /= 1024;
        power += 1;
    }
    format!("{value}{}", suffixes[power])
}

/// Formats billionths as a number and a power of 1000.
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
