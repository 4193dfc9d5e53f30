//! Times in job files.

use serde::{Deserialize, Serialize, Serializer};
use std::time::Duration;

/// A time, parsed like a flag.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(in crate::ask) struct TimeFile(Duration);

impl TimeFile {
    pub(in crate::ask) const fn from_secs(seconds: u64) -> TimeFile {
        TimeFile(Duration::from_secs(seconds))
    }

    pub(in crate::ask) const fn from_millis(ms: u64) -> TimeFile {
        TimeFile(Duration::from_millis(ms))
    }

    /// The time in milliseconds. If it does not fit, the maximum is returned, which exceeds every bound.
    pub(in crate::ask) fn millis(self) -> u32 {
        u32::try_from(self.0.as_millis()).unwrap_or(u32::MAX)
    }

    /// The time in milliseconds, for fields that may be longer than 49 days.
    pub(in crate::ask) fn long_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl TryFrom<String> for TimeFile {
    type Error = String;

    fn try_from(text: String) -> Result<TimeFile, String> {
        crate::duration::duration(&text).map(TimeFile)
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
