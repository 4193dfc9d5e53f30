//! The golden ratio, by which numbers are spread evenly: the fractional parts of its multiples are spread evenly from 0
//! to 1, whatever their number.

/// The fractional part of the golden ratio, times 2^64.
pub(crate) const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;
