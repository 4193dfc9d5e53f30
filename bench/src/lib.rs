//! Measurements of this build, and replays of another scheduler's answers.

pub mod command;
mod measure;
pub mod oracle;
mod replay;
