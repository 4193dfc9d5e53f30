//! The one integration binary: tests that concern more than one crate.

mod claims;
mod histories;
mod traps;
mod views;
