//! Kubernetes' quantities: `100m`, `1.5Gi`, `2e3`.
//!
//! Kubernetes adds quantities exactly and rounds the sum away from zero, so that a small request never becomes 0. Here,
//! quantities are whole billionths, which are as precise as in Kubernetes, and are rounded after all sums.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Number of billionths in a whole.
const NANOS: i128 = 1_000_000_000;

/// Number of digits that are read exactly; a longer number is rounded up. Amounts of 63 bits have at most 19 digits. A
/// number of 20 digits still fits in 128 bits after multiplication by `Ei`, which is 2^60.
const DIGITS_MAX: u32 = 20;

/// An amount in billionths, capped near 10^29.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

/// Reason why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty. Write a number.
    #[error("must not be empty")]
    Empty,
    /// The suffix is unknown. Use one of Kubernetes' suffixes after the digits.
    #[error("must be a number such as 2, 0.5, 100m, 1e3 or 512Mi")]
    Format,
}

/// The factor of a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// 10 to this power.
    Ten(i64),
    /// 2 to this power.
    Two(u32),
}

/// The parts of a quantity's text: `-1.5Gi` has a minus sign, the whole part `1`, the fraction `5`, and the suffix `Gi`
/// with its factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// Whether the text begins with a minus sign.
    pub negative: bool,
    /// Digits before the point.
    pub whole: &'a str,
    /// Digits after the point.
    pub fraction: &'a str,
    /// The suffix as written.
    pub suffix: &'a str,
    /// The factor that the suffix stands for.
    pub factor: Factor,
}

impl Text<'_> {
    /// Splits the text of a quantity as Kubernetes does. A text without digits, such as `Ki`, is accepted.
    ///
    /// # Errors
    /// If the text is empty, or its suffix is unknown.
    pub fn parse(text: &str) -> Result<Text<'_>, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let factor = factor(suffix).ok_or(QuantityError::Format)?;
        Ok(Text { negative, whole, fraction, suffix, factor })
    }
}

impl Quantity {
    /// Parses a quantity as Kubernetes does. A suffix without digits, such as `Ki`, is 0.
    ///
    /// # Errors
    /// If the text is empty, or its suffix is unknown.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        let Text { negative, whole, fraction, factor, .. } = Text::parse(text)?;
        let nanos = nanos(whole, fraction, factor);
        Ok(Quantity(if negative { -nanos } else { nanos }))
    }

    /// The amount in billionths.
    pub const fn nanos(self) -> i128 {
        self.0
    }

    /// A quantity of whole units.
    pub const fn from_value(value: i64) -> Quantity {
        Quantity(value as i128 * NANOS)
    }

    /// A quantity of thousandths.
    pub const fn from_milli(milli: i64) -> Quantity {
        Quantity(milli as i128 * (NANOS / 1000))
    }

    /// Integer value, rounded away from zero.
    pub fn value(self) -> i128 {
        divide_away_from_zero(self.0, NANOS)
    }

    /// Value in thousandths, rounded away from zero.
    pub fn milli_value(self) -> i128 {
        divide_away_from_zero(self.0, NANOS / 1000)
    }

    /// Returns the sum of both quantities, capped.
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_add(other.0))
    }

    /// Returns the amount without the other one, at least 0.
    pub fn less(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_sub(other.0).max(0))
    }
}

/// Factor of a suffix; `None` if the text is not a suffix.
fn factor(suffix: &str) -> Option<Factor> {
    Some(match suffix {
        "n" => Factor::Ten(-9),
        "u" => Factor::Ten(-6),
        "m" => Factor::Ten(-3),
        "" => Factor::Ten(0),
        "k" => Factor::Ten(3),
        "M" => Factor::Ten(6),
        "G" => Factor::Ten(9),
        "T" => Factor::Ten(12),
        "P" => Factor::Ten(15),
        "E" => Factor::Ten(18),
        "Ki" => Factor::Two(10),
        "Mi" => Factor::Two(20),
        "Gi" => Factor::Two(30),
        "Ti" => Factor::Two(40),
        "Pi" => Factor::Two(50),
        "Ei" => Factor::Two(60),
        _ => Factor::Ten(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// Splits the digits at the start from the rest.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// `whole.fraction` times the factor, in billionths, rounded up.
fn nanos(whole: &str, fraction: &str, factor: Factor) -> i128 {
    let (mantissa, power) = mantissa(whole, fraction);
    let (mantissa, power, most) = match factor {
        Factor::Ten(exponent) => (mantissa, power.saturating_add(exponent), i128::MAX),
        // Kubernetes caps binary quantities at 63 bits, but not decimal ones.
        Factor::Two(bits) => (mantissa << bits, power, i128::from(i64::MAX) * NANOS),
    };
    scale(mantissa, power.saturating_add(9)).min(most)
}

/// The number as a mantissa of at most [`DIGITS_MAX`] digits, and the power of ten of its last digit.
fn mantissa(whole: &str, fraction: &str) -> (i128, i64) {
    let full = 10_i128.pow(DIGITS_MAX - 1);
    let (mut mantissa, mut power, mut rest) = (0_i128, 0_i64, 0_i128);
    let whole = whole.bytes().map(|digit| (digit, 0));
    for (digit, step) in whole.chain(fraction.bytes().map(|digit| (digit, 1))) {
        let digit = i128::from(digit - b'0');
        if mantissa < full {
            mantissa = mantissa * 10 + digit;
            power -= step;
        } else {
            rest |= digit;
            power += 1 - step;
        }
    }
    (mantissa + i128::from(rest > 0), power)
}

/// `mantissa` times 10 to the `power`, rounded up, capped at the largest quantity.
fn scale(mantissa: i128, power: i64) -> i128 {
    let distance = u32::try_from(power.unsigned_abs()).unwrap_or(u32::MAX);
    let factor = 10_i128.checked_pow(distance);
    match (power >= 0, factor) {
        _ if mantissa == 0 => 0,
        (true, Some(factor)) => mantissa.saturating_mul(factor),
        (true, None) => i128::MAX,
        (false, Some(factor)) => divide_away_from_zero(mantissa, factor),
        (false, None) => 1,
    }
}

/// Returns `value` divided by the positive number `by`, rounded away from zero.
fn divide_away_from_zero(value: i128, by: i128) -> i128 {
    value / by + if value % by == 0 { 0 } else { value.signum() }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Parses a text or a number. Negative quantities are rejected here, because only here can the error name the
    /// field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        match Quantity::parse(text) {
            Ok(quantity) if quantity < Quantity::default() => {
                Err(E::custom(format_args!("{text:?} is negative")))
            }
            Ok(quantity) => Ok(quantity),
            Err(error) => Err(E::custom(format_args!("{text:?} is not a quantity: {error}"))),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        if number.is_finite() {
            self.visit_str(&number.to_string())
        } else {
            Err(E::invalid_type(Unexpected::Float(number), &self))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_round_away_from_zero() {
        let cases = [
            // text, value, milli_value
            ("0", 0, 0),
            ("1500m", 2, 1500),
            ("-1500m", -2, -1500),
            ("1n", 1, 1),
            ("0.0000000001", 1, 1),
            ("1e-30", 1, 1),
            ("0.1Ki", 103, 102_400),
            (".5", 1, 500),
            ("2e3", 2000, 2_000_000),
            ("Ki", 0, 0),
            ("100Ei", i128::from(i64::MAX), i128::from(i64::MAX) * 1000),
            ("1234567890123456.1234567891", 1_234_567_890_123_457, 1_234_567_890_123_456_124),
            ("0.000000000000000000000000000000", 0, 0),
        ];
        for (text, value, milli_value) in cases {
            let quantity = Quantity::parse(text).expect(text);
            assert_eq!((quantity.value(), quantity.milli_value()), (value, milli_value), "{text}");
        }
    }

    #[test]
    fn absurd_exponents_stay_at_the_ends() {
        assert_eq!(Quantity::parse("1e999999999999"), Ok(Quantity(i128::MAX)));
        assert_eq!(Quantity::parse("1e-999999999999"), Ok(Quantity(1)));
        assert_eq!(Quantity::parse("0e999999999999"), Ok(Quantity(0)));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        assert_eq!(Quantity::parse(""), Err(QuantityError::Empty));
        for text in ["1K", " 1", "1 ", "1kk", "0x10", "1i", "1e", "1e+", "1.2.3", "--1", "1é"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Format), "{text}");
        }
    }

    #[test]
    fn numbers_without_quotes_are_quantities_too() {
        for (json, milli_value) in [("2", 2000), ("0.25", 250), ("1e3", 1_000_000)] {
            let quantity: Quantity = serde_json::from_str(json).expect(json);
            assert_eq!(quantity.milli_value(), milli_value, "{json}");
        }
        assert!(serde_json::from_str::<Quantity>("-1").is_err());
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }
}
