//! Whether the state of this replica may be outdated.
//!
//! A stream of a replica that was removed, is cut off from the leader, or has a full disk would show nothing new without
//! end. So such a stream ends, and its reader continues at another replica.

use crate::host::Host;
use omega_client::{ApiError, ErrorCode};
use omega_store::replica::Outdated;
use std::time::Duration;

/// Interval at which a stream without changes checks whether this replica's state may be outdated.
const OUTDATED_CHECK: Duration = Duration::from_millis(500);

impl Host {
    /// Waits until this replica was removed, has heard nothing from a leader for long, or has a full disk. Returns the
    /// error for its streams. Checks twice a second, and not at once, because a stream with changes is not outdated.
    pub(crate) async fn until_outdated(&self) -> ApiError {
        loop {
            tokio::time::sleep(OUTDATED_CHECK).await;
            let Some(outdated) = self.running().and_then(|running| running.outdated()) else {
                continue;
            };
            let code = match outdated {
                Outdated::Removed => ErrorCode::Stopped,
                Outdated::Silence => ErrorCode::NoLeader,
                Outdated::FullDisk => ErrorCode::DiskFull,
            };
            return ApiError::new(code, outdated.to_string());
        }
    }
}
