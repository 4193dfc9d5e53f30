//! The kit of these tests: processes, their results, certificates and HTTP requests.

pub(crate) mod certificates;
pub(crate) mod http;
pub(crate) mod outcome;
pub(crate) mod process;
