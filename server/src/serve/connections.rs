//! The number of connections of each listener, lowered to the number of files that the process may open.
//!
//! If connections took all files, the replica could open no file of its log or snapshots.

use super::settings::{Settings, Storage};
use omega_service::Limits;

/// Files that connections do not take: those of the log, of snapshots, of connections to peers, and of connections that
/// are being closed. If the process may open fewer than twice this number, half of its files are kept.
const RESERVE: u64 = 256;

/// Minimum number of connections of a listener, unless a lower number is set.
const LISTENER_MIN: u32 = 16;

/// The process may open too few files for its listeners. Raise the limit, or configure fewer listeners.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process may open only {limit} files: raise the limit to at least {needed} \
     (LimitNOFILE= of systemd, or ulimit -n)"
)]
pub(crate) struct TooFewFiles {
    /// Number of files that the process may open.
    limit: u64,
    /// Minimum for the configured listeners.
    needed: u64,
}

/// Limits of each listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenerLimits {
    pub(super) clients: Limits,
    pub(super) web: Limits,
    pub(super) peers: Limits,
}

impl ListenerLimits {
    /// The limits for a process that may open `files` files; `None` means no limit.
    ///
    /// # Errors
    /// If not even the minimum number of connections is possible.
    pub(super) fn new(
        settings: &Settings,
        files: Option<u64>,
    ) -> Result<ListenerLimits, TooFewFiles> {
        // Limits for clients do not apply to peers, because there are few replicas, and they must always reach each
        // other.
        let (clients, peers) = (settings.limits, Limits::default());
        let mut limits = ListenerLimits { clients, web: clients, peers };
        let has_peers = matches!(settings.storage, Storage::Replica(_));
        let web = settings.web.map(|_| &mut limits.web);
        let peers = has_peers.then_some(&mut limits.peers);
        let mut listeners: Vec<&mut Limits> = vec![&mut limits.clients];
        listeners.extend(web.into_iter().chain(peers));
        fit(&mut listeners, files.unwrap_or(u64::MAX))?;
        Ok(limits)
    }
}

/// Lowers the numbers of connections, so that all of them and the reserve need at most `files` files. Above the minimum,
/// each number is lowered in proportion.
fn fit(listeners: &mut [&mut Limits], files: u64) -> Result<(), TooFewFiles> {
    let least = |limits: &Limits| u64::from(limits.connections.min(LISTENER_MIN));
    let wanted: u64 = listeners.iter().map(|limits| u64::from(limits.connections)).sum();
    let minimum: u64 = listeners.iter().map(|limits| least(limits)).sum();
    let available = files - RESERVE.min(files / 2);
    if wanted <= available {
        return Ok(());
    }
    let Some(spare) = available.checked_sub(minimum) else {
        return Err(TooFewFiles { limit: files, needed: 2 * minimum - 1 });
    };
    tracing::warn!(
        files,
        wanted,
        available,
        "this process may open too few files for the connections that the limits allow, so it \
         accepts fewer: raise LimitNOFILE="
    );
    for limits in listeners {
        let (before, least) = (u64::from(limits.connections), least(limits));
        let after = least + (before - least) * spare / (wanted - minimum);
        let each = u64::from(limits.connections_each) * after / before;
        // Both are at most as large as before.
        (limits.connections, limits.connections_each) = (after as u32, each.max(1) as u32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(connections: &[u32], files: u64) -> Result<Vec<(u32, u32)>, TooFewFiles> {
        let limits = |connections: &u32| {
            let connections = *connections;
            Limits { connections, connections_each: connections.min(64), ..Limits::default() }
        };
        let mut all: Vec<Limits> = connections.iter().map(limits).collect();
        fit(&mut all.iter_mut().collect::<Vec<_>>(), files)?;
        Ok(all.iter().map(|limits| (limits.connections, limits.connections_each)).collect())
    }

    #[test]
    fn connections_leave_files_for_the_log() {
        for files in (96..3000).chain([1 << 20, u64::MAX]) {
            let all = fitted(&[512, 512, 512], files).unwrap();
            let sum: u64 = all.iter().map(|(connections, _)| u64::from(*connections)).sum();
            assert!(sum + 256.min(files / 2) <= files, "{files}: {all:?}");
            assert!(all.iter().all(|(connections, each)| *connections >= 16 && *each >= 1));
        }
    }

    #[test]
    fn numbers_are_lowered_only_if_needed_and_in_proportion() {
        assert_eq!(fitted(&[512, 512, 512], 1792).unwrap(), [(512, 64); 3]);
        assert_eq!(fitted(&[512, 512, 512], 1024).unwrap(), [(256, 32); 3]);
        assert_eq!(fitted(&[2000, 8, 512], 1024).unwrap(), [(598, 19), (8, 8), (161, 20)]);
        assert_eq!(fitted(&[512], 64).unwrap(), [(32, 4)]);
        assert_eq!(fitted(&[4], 10).unwrap(), [(4, 4)]);
    }

    #[test]
    fn too_few_files_are_refused_with_the_number_that_is_needed() {
        assert_eq!(fitted(&[512], 30), Err(TooFewFiles { limit: 30, needed: 31 }));
        assert_eq!(fitted(&[512, 512, 512], 94), Err(TooFewFiles { limit: 94, needed: 95 }));
        assert!(fitted(&[512, 512, 512], 95).is_ok());
    }
}
