//! The driver of a run: it submits jobs, ends tasks, and waits for schedulers.

pub(crate) mod agenda;
pub(crate) mod command_queue;
pub(crate) mod drive;
pub(crate) mod ends;
pub(crate) mod explained;
pub(crate) mod feeder;
pub(crate) mod ledger;
pub(crate) mod message;
pub(crate) mod placed;
pub(crate) mod waiting_gangs;
pub(crate) mod watch;
pub(crate) mod window;
pub(crate) mod worker_factory;
