//! The audited call: what the audit log gets to know of it.

use crate::access::audit_queue::{AuditLog, Line};
use crate::access::identity::Caller;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tonic::Request;

/// Audit log of a call, with the call's caller and object. Clones belong to the same call.
#[derive(Clone, Debug)]
pub(crate) struct Audited {
    log: Arc<AuditLog>,
    caller: Arc<Caller>,
    of: Arc<OnceLock<String>>,
}

impl Audited {
    pub(crate) fn new(log: &Arc<AuditLog>, caller: &Arc<Caller>) -> Audited {
        Audited { log: log.clone(), caller: caller.clone(), of: Arc::default() }
    }

    /// Records the result of a call.
    pub(crate) fn ended(&self, call: &str, outcome: &'static str) {
        self.record(call, self.of.get().map_or("", String::as_str), outcome);
        self.wait_written();
    }

    /// Records one of several changes of a call. The call must then wait until the changes are written.
    pub(crate) fn record(&self, call: &str, of: &str, outcome: &'static str) {
        let (at, caller) = (SystemTime::now(), self.caller.name.clone());
        self.log.add(Line { at, caller, call: call.to_owned(), of: of.to_owned(), outcome });
    }

    /// Waits until all records are written, or the disk is slow.
    pub(crate) fn wait_written(&self) {
        self.log.wait_written();
    }
}

/// Records the object of a call, if there is an audit log.
pub(crate) fn about<T>(request: &Request<T>, of: impl FnOnce(&T) -> String) {
    if let Some(audited) = request.extensions().get::<Audited>() {
        let mut of = of(request.get_ref());
        of.truncate(of.floor_char_boundary(OF_BYTES_MAX));
        // A call has one object, so only the first is recorded.
        let _ = audited.of.set(of);
    }
}

/// Maximum number of bytes of an object's name in the log. Calls with long names would otherwise fill it soon.
const OF_BYTES_MAX: usize = 256;
