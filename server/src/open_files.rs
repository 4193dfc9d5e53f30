//! The number of files that this process may open. Connections count as files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files that this process may open as far as the system allows. Returns the previous limit;
/// `None` means no limit.
pub(crate) fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If this fails, the previous limit remains.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    current
}

/// The number of files that this process may open; `None` means no limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
