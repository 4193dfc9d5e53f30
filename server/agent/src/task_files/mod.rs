//! The files in the folder of a task.
//!
//! In reading order: [`files`] (safe access), [`journal`].

pub(crate) mod files;
pub(crate) mod journal;
