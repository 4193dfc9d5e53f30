//! Decimal numbers in inputs, parsed without rounding.
//!
//! A trace may give a request of `0.07` of a machine of 100,000 units. As a float, the product is slightly more than
//! 7,000 units, which is rounded up to 7,001. As digits and an exponent, it is exactly 7,000 on every platform.

/// Maximum number of digits of a decimal. With this bound, a product with any unit up to 2^50 fits in 128 bits.
const DIGITS_MAX: usize = 22;

/// A decimal number that is not negative: `digits` times ten to the power of `exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u128,
    exponent: i32,
}

/// Rounding of a fraction of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up to the next whole unit: for requests.
    Up,
    /// To the nearest whole unit, halves up: for capacities.
    Nearest,
}

/// Reason why a text is not a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// The text is not a number. Write digits, with a point or an exponent if needed.
    #[error("is not a number")]
    NotANumber,
    /// The number is not finite. Write a finite number.
    #[error("is not a finite number")]
    NotFinite,
    /// The number is negative. Write a number from zero.
    #[error("is negative")]
    Negative,
    /// The number has too many digits. Write fewer.
    #[error("has more than {DIGITS_MAX} digits")]
    TooLong,
}

impl Decimal {
    /// Parses `12`, `0.5`, `.5`, `5e-05`.
    ///
    /// # Errors
    /// If the text is anything else, or the number is negative.
    pub fn parse(text: &str) -> Result<Decimal, DecimalError> {
        let unsigned = text.trim_start_matches(['-', '+']);
        if ["nan", "inf", "infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word)) {
            return Err(DecimalError::NotFinite);
        }
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let decimal = Decimal::parse_unsigned(rest)?;
        if negative && decimal.digits != 0 {
            return Err(DecimalError::Negative);
        }
        Ok(decimal)
    }

    fn parse_unsigned(text: &str) -> Result<Decimal, DecimalError> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                (mantissa, exponent.parse::<i16>().map_err(|_| DecimalError::NotANumber)?)
            }
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if !mantissa.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(DecimalError::NotANumber);
        }
        let mut digits: u128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return Err(DecimalError::NotANumber);
            }
            digits = digits.saturating_mul(10).saturating_add(u128::from(byte - b'0'));
        }
        if digits >= 10_u128.pow(DIGITS_MAX as u32) {
            return Err(DecimalError::TooLong);
        }
        let shift = i32::try_from(fraction.len()).map_err(|_| DecimalError::TooLong)?;
        Ok(Decimal { digits, exponent: i32::from(exponent) - shift })
    }

    /// Whether the number has no fraction.
    #[must_use]
    pub fn is_whole(self) -> bool {
        let power = 10_u128.checked_pow(self.exponent.unsigned_abs());
        self.digits == 0
            || self.exponent >= 0
            || power.is_some_and(|one| self.digits.is_multiple_of(one))
    }

    /// The number times `unit`; `None` if the product exceeds 64 bits.
    #[must_use]
    pub fn times(self, unit: u64, rounding: Rounding) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(unit))?;
        if product == 0 {
            return Some(0);
        }
        // The largest power of ten below 2^128 is 10^38. If the power is larger, the quotient is far below one.
        let power = 10_u128.checked_pow(self.exponent.unsigned_abs());
        let value = match (self.exponent < 0, power) {
            (false, power) => product.checked_mul(power?)?,
            (true, None) => u128::from(rounding == Rounding::Up),
            (true, Some(power)) => {
                let (quotient, rest) = (product / power, product % power);
                let up = match rounding {
                    Rounding::Up => rest > 0,
                    Rounding::Nearest => rest >= power - rest,
                };
                quotient + u128::from(up)
            }
        };
        u64::try_from(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        let cases = [
            // text, unit, up, nearest
            ("0.07", 100_000, 7000, 7000),
            ("0.06873", 64_000, 4399, 4399),
            ("0.0006247", 64_000, 40, 40),
            ("9.537e-07", 1_000_000, 1, 1),
            ("1e3", 2, 2000, 2000),
            (".5", 1, 1, 1),
            ("0.4", 1, 1, 0),
            ("00012.50", 2, 25, 25),
            ("1e-300", 1 << 50, 1, 0),
            ("0e-300", 1, 0, 0),
            ("-0", 1, 0, 0),
            ("+3.", 1, 3, 3),
        ];
        for (text, unit, up, nearest) in cases {
            let decimal = Decimal::parse(text).unwrap();
            assert_eq!(decimal.times(unit, Rounding::Up), Some(up), "{text}");
            assert_eq!(decimal.times(unit, Rounding::Nearest), Some(nearest), "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_known_however_written() {
        for whole in ["0", "0e-300", "3.", "1.50e1", "120e-1", "1e300"] {
            assert!(Decimal::parse(whole).unwrap().is_whole(), "{whole}");
        }
        for part in ["0.5", "0.9999", "1.0001", "15e-1", "1e-300"] {
            assert!(!Decimal::parse(part).unwrap().is_whole(), "{part}");
        }
    }

    #[test]
    fn what_is_no_number_says_why() {
        use DecimalError::*;
        let cases = [
            ("", NotANumber),
            (".", NotANumber),
            ("e5", NotANumber),
            ("1e", NotANumber),
            ("1.2.3", NotANumber),
            ("--1", NotANumber),
            ("0x10", NotANumber),
            ("1 000", NotANumber),
            ("NaN", NotFinite),
            ("-inf", NotFinite),
            ("Infinity", NotFinite),
            ("-0.1", Negative),
            ("12345678901234567890123", TooLong),
        ];
        for (text, error) in cases {
            assert_eq!(Decimal::parse(text), Err(error), "{text}");
        }
        assert_eq!(Decimal::parse("1e300").unwrap().times(1, Rounding::Up), None);
        assert_eq!(Decimal::parse("1e19").unwrap().times(1 << 50, Rounding::Up), None);
    }
}
