//! Tests of the adapter and of the program against a double of the API server.

mod clients;
mod deploy;
#[path = "../double/mod.rs"]
mod double;
mod faults;
mod gangs;
mod hostile;
mod measured;
mod oracle;
mod overcommit;
mod pairs;
mod player;
mod preempting;
mod preemption;
mod process;
mod random;
mod recorded;
mod replay;
mod restored;
mod rights;
mod rules;
mod storage;
mod suite;
mod transcripts;
mod truths;
mod volumes;
mod walkthrough;
