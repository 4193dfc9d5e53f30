//! Bounds of counts in commands.

use omega_core::Rejection;

pub fn too_many(what: &str, given: usize, max: usize) -> Rejection {
    Rejection::TooMany { what: what.into(), given: given as u64, max: max as u64 }
}

pub fn at_most(what: &str, given: usize, max: usize) -> Result<(), Rejection> {
    if given > max { Err(too_many(what, given, max)) } else { Ok(()) }
}
