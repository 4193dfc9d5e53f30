//! Amounts as people write them, on the command line, in files and in tables: `0.5`, `500m`, `16GiB`.
//!
//! Digits are parsed by [`Decimal`]; this file adds the units. Counted kinds have no fractions.

use crate::text::decimal::{Decimal, DecimalError, Rounding};
use omega_core::Unit;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Error in an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text is not a number. Write a number.
    #[error("{text:?} {why}")]
    Number {
        /// The text.
        text: String,
        /// The error.
        why: DecimalError,
    },
    /// The suffix is unknown. Use another unit, or none.
    #[error("{text:?} has an unknown unit: write {like}")]
    Suffix {
        /// The text.
        text: String,
        /// Accepted notation.
        like: String,
    },
    /// The kind does not have this unit. Use another unit, or none.
    #[error("{text:?} is not valid for this resource kind: write {like}")]
    OtherUnit {
        /// The text.
        text: String,
        /// Accepted notation.
        like: &'static str,
    },
    /// The amount is too large. Write a smaller one.
    #[error(
        "{text:?} is too large: give at most 2^50 bytes, 2^50 thousandths of a core or GPU, or a \
         count of 2^50"
    )]
    TooLarge {
        /// The text.
        text: String,
    },
}

/// Suffix after the digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suffix {
    None,
    Milli,
    Bytes(u64),
}

/// An amount whose resource kind is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    text: String,
    number: Decimal,
    suffix: Suffix,
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Amount, AmountError> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let (digits, suffix) = text.split_at(digits.len());
        let owned = || text.to_owned();
        // Words such as `nan` consist only of a suffix, so the error is about the number and contains the whole text.
        let of_number = if digits.is_empty() { text } else { digits };
        let number = Decimal::parse(of_number.trim_end())
            .map_err(|why| AmountError::Number { text: owned(), why })?;
        let suffix = suffix_of(suffix)
            .ok_or_else(|| AmountError::Suffix { text: owned(), like: meant(digits, suffix) })?;
        Ok(Amount { text: owned(), number, suffix })
    }
}

fn suffix_of(suffix: &str) -> Option<Suffix> {
    let (letter, base) = match suffix {
        "" => return Some(Suffix::None),
        "m" => return Some(Suffix::Milli),
        "B" => return Some(Suffix::Bytes(1)),
        _ => match suffix.strip_suffix("iB").or_else(|| suffix.strip_suffix('i')) {
            Some(letter) => (letter, 1024_u64),
            None => (suffix.strip_suffix('B').unwrap_or(suffix), 1000),
        },
    };
    let power = match letter {
        "k" if base == 1000 => 1,
        "K" if base == 1024 => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    Some(Suffix::Bytes(base.pow(power)))
}

/// The accepted notation for an amount with an unknown unit, which may only have the wrong letter case.
fn meant(digits: &str, suffix: &str) -> String {
    let upper = suffix.to_ascii_uppercase();
    let letter = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    match letter {
        "K" => format!("{digits}kB or {digits}KiB"),
        "M" | "G" | "T" | "P" => format!("{digits}{letter}B or {digits}{letter}iB"),
        _ => "an amount such as 4, 500m, 16GiB or 2TB".to_owned(),
    }
}

impl Amount {
    /// Whether the amount was written with a unit.
    #[must_use]
    pub fn has_unit(&self) -> bool {
        self.suffix != Suffix::None
    }

    /// The amount in the smallest unit of a kind, rounded up, so that a request never becomes smaller.
    ///
    /// # Errors
    /// If the kind does not have the amount's unit, or the amount is too large.
    pub fn of(&self, unit: Unit) -> Result<u64, AmountError> {
        self.rounded(unit, Rounding::Up)
    }

    /// The amount in the smallest unit of a kind.
    ///
    /// # Errors
    /// If the kind does not have the amount's unit, or the amount is too large.
    pub fn rounded(&self, unit: Unit, rounding: Rounding) -> Result<u64, AmountError> {
        let text = || self.text.clone();
        let (factor, like) = match (unit, self.suffix) {
            (Unit::Milli, Suffix::None) => (Some(1000), ""),
            (Unit::Milli, Suffix::Milli) => (Some(1), ""),
            (Unit::Milli, Suffix::Bytes(_)) => (None, "4, 0.5 or 500m"),
            (Unit::Bytes, Suffix::None) => (Some(1), ""),
            (Unit::Bytes, Suffix::Bytes(bytes)) => (Some(bytes), ""),
            (Unit::Bytes, Suffix::Milli) => (None, "16GiB, 16GB or a number of bytes"),
            (Unit::Count, Suffix::None) => (Some(1), ""),
            (Unit::Count, _) => (None, "a whole number"),
        };
        let factor = factor.ok_or_else(|| AmountError::OtherUnit { text: text(), like })?;
        // Half a licence is an error; it is not rounded to a whole one.
        if unit == Unit::Count && !self.number.is_whole() {
            return Err(AmountError::OtherUnit { text: text(), like: "a whole number" });
        }
        let times = self.number.times(factor, rounding);
        times.ok_or_else(|| AmountError::TooLarge { text: text() })
    }
}

/// Parses an amount from a text, or from a number without quotes.
impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

/// Serializes the text as it was written.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount such as 4, 0.5 or \"16GiB\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_mean_what_their_units_say() {
        let cases = [
            ("4", Unit::Milli, 4000),
            ("0.5", Unit::Milli, 500),
            ("500m", Unit::Milli, 500),
            ("0.0001", Unit::Milli, 1),
            ("16GiB", Unit::Bytes, 16 << 30),
            ("16Gi", Unit::Bytes, 16 << 30),
            ("1.5KiB", Unit::Bytes, 1536),
            ("2TB", Unit::Bytes, 2_000_000_000_000),
            ("2k", Unit::Bytes, 2000),
            ("1e3", Unit::Bytes, 1000),
            ("7", Unit::Count, 7),
        ];
        for (text, unit, expected) in cases {
            assert_eq!(text.parse::<Amount>().unwrap().of(unit), Ok(expected), "{text}");
        }
    }

    #[test]
    fn amounts_agree_with_plain_arithmetic() {
        let bytes =
            [("", 1_u64), ("k", 1000), ("KiB", 1 << 10), ("MB", 1_000_000), ("Gi", 1 << 30)];
        let bytes = bytes.map(|(suffix, factor)| (suffix, factor, Unit::Bytes));
        let milli = [("", 1000, Unit::Milli), ("m", 1, Unit::Milli)];
        for thousandths in (0..20_000_u64).step_by(7) {
            let digits = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            for (suffix, factor, unit) in bytes.into_iter().chain(milli) {
                let text = format!("{digits}{suffix}");
                let expected = (thousandths * factor).div_ceil(1000);
                assert_eq!(text.parse::<Amount>().unwrap().of(unit), Ok(expected), "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_amount_says_why() {
        let cases = [
            ("", "is not a number"),
            ("nan", "is not a finite number"),
            ("-1", "is negative"),
            ("4cores", "has an unknown unit"),
            ("4KB", "has an unknown unit"),
            ("1 1", "is not a number"),
            ("1gb", "write 1GB or 1GiB"),
            ("2.5tib", "write 2.5TB or 2.5TiB"),
            ("3K", "write 3kB or 3KiB"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Amount>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let of =
            |text: &str, unit| text.parse::<Amount>().unwrap().of(unit).unwrap_err().to_string();
        assert!(of("4GiB", Unit::Milli).contains("write 4, 0.5 or 500m"));
        assert!(of("4m", Unit::Bytes).contains("write 16GiB"));
        assert!(of("4GiB", Unit::Count).contains("whole number"));
        assert!(of("0.5", Unit::Count).contains("whole number"));
        assert!(of("1e30", Unit::Bytes).contains("is too large"));
    }
}
