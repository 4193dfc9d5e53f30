//! The one integration binary: tests that concern more than one crate.

mod histories;
mod views;
