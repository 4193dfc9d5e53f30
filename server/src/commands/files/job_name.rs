//! Names of jobs in flags and files. They have no slash, because a task is called JOB/INDEX.

use crate::commands::CommandError;
use omega_core::Text;

/// Reads a job's name. `place` is its flag or field, for the error.
pub(super) fn job_name(name: &str, place: &str) -> Result<Text, CommandError> {
    let why = if name.contains('/') {
        format!("{name:?} has a slash, which separates a job from the number of its task")
    } else if name.trim().is_empty() {
        format!("{name:?} has only spaces")
    } else {
        return Ok(name.into());
    };
    Err(CommandError::Field { place: place.to_owned(), why: why + ": choose another name" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_slash_and_not_only_spaces() {
        assert!(job_name("web 1", "name").is_ok_and(|name| *name == *"web 1"));
        for bad in ["a/0", "/", " ", ""] {
            let why = job_name(bad, "web.toml: name").expect_err("it is bad").to_string();
            assert!(why.starts_with("web.toml: name: ") && why.ends_with("another name"), "{why}");
        }
    }
}
