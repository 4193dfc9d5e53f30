//! Times in job files.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A time, parsed like a flag.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct TimeFile(Duration);

impl TimeFile {
    pub(in crate::commands) const fn from_secs(seconds: u64) -> TimeFile {
        TimeFile(Duration::from_secs(seconds))
    }

    pub(in crate::commands) const fn from_millis(ms: u64) -> TimeFile {
        TimeFile(Duration::from_millis(ms))
    }

    /// The time in milliseconds. If it does not fit, the maximum is returned, which exceeds every bound.
    pub(in crate::commands) fn millis(self) -> u32 {
        u32::try_from(self.0.as_millis()).unwrap_or(u32::MAX)
    }

    /// The time in milliseconds, for fields that may be longer than 49 days.
    pub(in crate::commands) fn long_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for TimeFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TimeFile, D::Error> {
        deserializer.deserialize_any(TimeText)
    }
}

/// Reads the text of a time. A number is an error, because its unit is not known.
struct TimeText;

impl Visitor<'_> for TimeText {
    type Value = TimeFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"30s\", \"5m\" or \"2h\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TimeFile, E> {
        crate::duration::duration(text).map(TimeFile).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<TimeFile, E> {
        let why =
            format!("{number} has no unit: write a time such as \"{number}s\" or \"{number}m\"");
        Err(E::custom(why))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<TimeFile, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::custom(format!("{number} is negative: write a time such as \"30s\""))),
        }
    }
}

impl Serialize for TimeFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = self.0.as_millis();
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        let whole = units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
        let (unit, suffix) = whole.unwrap_or((1, "ms"));
        serializer.serialize_str(&format!("{}{suffix}", ms / unit))
    }
}
