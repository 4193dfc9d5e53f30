//! Memory of an idle agent: the allocator uses no huge pages.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Variable that the allocator reads when a program starts.
const HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP";

/// Starts this program again in the same process without huge pages, unless the variable is already set. With huge
/// pages, the allocator takes 8 MiB before `main` begins, more than the rest of an idle agent. Returns only if the
/// variable is set, or if the program cannot be started again; the agent then uses more memory.
pub(super) fn use_small_pages() {
    if std::env::var_os(HUGE_PAGES).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut args = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    let error = again.args(args).env(HUGE_PAGES, "0").exec();
    tracing::debug!(%error, "the agent keeps huge pages");
}
