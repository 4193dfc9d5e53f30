//! The driver of a run: it submits jobs, ends tasks, and waits for schedulers.

pub(crate) mod agenda;
pub(crate) mod crew;
pub(crate) mod drive;
pub(crate) mod ended;
pub(crate) mod ends;
pub(crate) mod explained;
pub(crate) mod feeder;
pub(crate) mod lane;
pub(crate) mod ledger;
pub(crate) mod message;
pub(crate) mod placed;
pub(crate) mod watch;
pub(crate) mod window;
