//! Measurements of this build, and replays of the recorded answers of kube-scheduler.

pub mod command;
mod measure;
pub mod oracle;
mod print;
mod replay;
