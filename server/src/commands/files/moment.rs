//! Times in flags and files: an offset from now, or seconds since 1970 as printed by `date +@%s`.

use serde::{Deserialize, Serialize, Serializer};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time. A served cell measures time in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(in crate::commands) enum Moment {
    /// An offset from now.
    In(Duration),
    /// Milliseconds since 1970.
    At(u64),
}

impl Moment {
    /// Reads `2h` or `@1764000000`.
    pub(in crate::commands) fn parse(text: &str) -> Result<Moment, String> {
        let Some(seconds) = text.strip_prefix('@') else {
            let wrong = |_| {
                format!(
                    "{text:?} must be a time: 2h for two hours from now, or \
                 @1764000000 for seconds since 1970"
                )
            };
            return crate::duration::duration(text).map(Moment::In).map_err(wrong);
        };
        let wrong =
            || format!("{text:?} must be @ and the seconds since 1970, as `date +@%s` prints them");
        ms_of(seconds).map(Moment::At).ok_or_else(wrong)
    }

    /// The time in milliseconds since 1970.
    pub(in crate::commands) fn unix_ms(self) -> u64 {
        match self {
            Moment::At(ms) => ms,
            Moment::In(time) => unix_ms().saturating_add(millis(time)),
        }
    }
}

/// Seconds with up to three decimal places, in milliseconds.
fn ms_of(seconds: &str) -> Option<u64> {
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || part.len() > 3 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(1000)?.checked_add(format!("{part:0<3}").parse().ok()?)
}

/// Writes the time in the form that [`Moment::parse`] reads.
impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = self.unix_ms();
        match ms % 1000 {
            0 => serializer.serialize_str(&format!("@{}", ms / 1000)),
            part => serializer.serialize_str(&format!("@{}.{part:03}", ms / 1000)),
        }
    }
}

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Moment, String> {
        Moment::parse(&text)
    }
}

/// A time in milliseconds.
pub(in crate::commands) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Now, in milliseconds since 1970.
pub(in crate::commands) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_from_now_or_in_seconds() {
        assert_eq!(Moment::parse("@12").map(Moment::unix_ms), Ok(12_000));
        assert_eq!(Moment::parse("@12.05").map(Moment::unix_ms), Ok(12_050));
        assert_eq!(Moment::parse("2h"), Ok(Moment::In(Duration::from_secs(7200))));
        for wrong in ["", "@", "@-1", "@1.", "@1.2345", "soon", "12", "@99999999999999999999"] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}");
        }
    }
}
