//! Times in flags and files: an offset from now, or seconds since 1970 as `date +@%s` prints.

use serde::Deserialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time. A served cell counts in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Moment {
    /// An offset from now.
    In(Duration),
    /// Seconds since 1970.
    At(u64),
}

impl Moment {
    /// Reads `2h` or `@1764000000`.
    pub(super) fn parse(text: &str) -> Result<Moment, String> {
        let Some(seconds) = text.strip_prefix('@') else {
            let wrong = |_| format!("{text:?} is no moment: write 2h (from now) or @1764000000");
            return crate::duration::duration(text).map(Moment::In).map_err(wrong);
        };
        let seconds = seconds.parse().ok().filter(|seconds| *seconds <= u64::MAX / 1000);
        let wrong =
            || format!("{text:?} is no moment: write seconds since 1970, as date +@%s does");
        seconds.map(Moment::At).ok_or_else(wrong)
    }

    /// In milliseconds since 1970.
    pub(super) fn unix_ms(self) -> u64 {
        match self {
            Moment::At(seconds) => seconds * 1000,
            Moment::In(time) => unix_ms().saturating_add(millis(time)),
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
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Now, in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_from_now_or_in_seconds() {
        assert_eq!(Moment::parse("@12").map(Moment::unix_ms), Ok(12_000));
        assert_eq!(Moment::parse("2h"), Ok(Moment::In(Duration::from_secs(7200))));
        for wrong in ["", "@", "@-1", "@1.5", "soon", "12", "@99999999999999999999"] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}");
        }
    }
}
