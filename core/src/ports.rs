//! The range of a machine from which the cell chooses ports for tasks.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Ports of a machine that the cell may give to tasks, from `first` to `last`. (Nomad's dynamic ports.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortRange {
    /// The lowest port; 0 if the range is empty.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}

impl PortRange {
    /// No port.
    pub const NONE: PortRange = PortRange { first: 0, last: 0 };

    /// Whether the range contains a port.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.first > 0 && (self.first..=self.last).contains(&port)
    }

    /// The number of ports.
    #[must_use]
    pub fn count(&self) -> u32 {
        if self.first == 0 {
            0
        } else {
            (u32::from(self.last) + 1).saturating_sub(self.first.into())
        }
    }

    /// Whether the range is empty, or has a first port above 0 and a last port that is not below the first.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        *self == PortRange::NONE || (self.first > 0 && self.first <= self.last)
    }
}

impl Default for PortRange {
    /// 20000 to 31999: above the ports of well-known services, and below those that Linux assigns to connections.
    fn default() -> PortRange {
        PortRange { first: 20_000, last: 31_999 }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PortRange::NONE => f.write_str("none"),
            PortRange { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

/// Error of a text that is not a range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a range of ports: give the first and the last, from 1 to 65535, such as \
     20000-31999, or \"none\""
)]
pub struct BadPortRange(String);

impl FromStr for PortRange {
    type Err = BadPortRange;

    fn from_str(text: &str) -> Result<PortRange, BadPortRange> {
        if text == "none" {
            return Ok(PortRange::NONE);
        }
        let range = || {
            let (first, last) = text.split_once('-')?;
            let range = PortRange { first: first.parse().ok()?, last: last.parse().ok()? };
            (range.first > 0 && range.is_valid()).then_some(range)
        };
        range().ok_or_else(|| BadPortRange(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gives_the_range_that_prints_it() {
        for text in ["none", "20000-31999", "1-65535", "80-80"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
        for text in ["", "80", "0-9", "9-8", "1-65536", "a-b", "0-0", "-", "1-2-3"] {
            assert_eq!(text.parse::<PortRange>(), Err(BadPortRange(text.into())));
        }
    }

    #[test]
    fn ranges_contain_their_ports() {
        let range = PortRange { first: 65_533, last: 65_535 };
        assert_eq!((range.count(), PortRange { first: 1, last: 65_535 }.count()), (3, 65_535));
        assert_eq!(PortRange::NONE.count(), 0);
        assert!(!PortRange::NONE.contains(0) && range.contains(65_535) && !range.contains(7));
    }
}
