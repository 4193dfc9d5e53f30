//! Injected bugs, which prove that the tests find bugs of this sort.
//!
//! With the feature `injected-bugs`, which no release enables, the code contains the bugs of `Bug`, each behind
//! `injected!(Name)`. A thread can switch one of them on. Without the feature, `injected!` is `false`.
//!
//! To inject another bug, add it to the list below, write `injected!(Name)` at its place, and list the faults that
//! reveal it in `tests/src/cluster/injected_bugs.rs`.

/// Whether this bug is switched on in the current thread; always `false` without the feature `injected-bugs`.
#[cfg(feature = "injected-bugs")]
#[doc(hidden)]
#[macro_export]
macro_rules! injected {
    ($bug:ident) => {
        $crate::injected_bugs::is_on($crate::injected_bugs::Bug::$bug)
    };
}

/// Whether this bug is switched on in the current thread; always `false` in this build.
#[cfg(not(feature = "injected-bugs"))]
#[doc(hidden)]
#[macro_export]
macro_rules! injected {
    ($bug:ident) => {
        $crate::injected_bugs::never(stringify!($bug))
    };
}

/// `false`, in a form that linters do not simplify.
#[cfg(not(feature = "injected-bugs"))]
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub const fn never(_: &str) -> bool {
    false
}

#[cfg(feature = "injected-bugs")]
pub use list::{Bug, is_on, with, without_bugs};

#[cfg(feature = "injected-bugs")]
mod list {
    use std::cell::Cell;

    /// Defines the enum and the list of its values.
    macro_rules! bugs {
        ($($(#[doc = $doc:literal])+ $bug:ident,)+) => {
            /// An injected bug.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum Bug {
                $($(#[doc = $doc])+ $bug,)+
            }

            impl Bug {
                /// All bugs.
                pub const ALL: &[Bug] = &[$(Bug::$bug,)+];

                /// A description of the bug.
                #[must_use]
                pub fn description(self) -> &'static str {
                    match self {
                        $(Bug::$bug => concat!($($doc),+).trim_ascii_start(),)+
                    }
                }
            }
        };
    }

    bugs! {
        /// A write is reported durable before it is synced.
        AckBeforeSync,
        /// A failed sync is treated as successful.
        SyncErrorIgnored,
        /// The folder is not synced after a new segment is named.
        SegmentFolderNotSynced,
        /// The next segment is written before the previous one is synced.
        SealNotSynced,
        /// A segment is reused before the record that frees it is durable.
        FreedEarly,
        /// Corruption in the middle of the log is truncated like a torn tail.
        CorruptMiddleCut,
        /// The bytes behind a torn tail are not overwritten.
        TornTailKept,
        /// Data that a failed sync left in the cache is trusted when the log is opened again, and is not rewritten.
        CacheTrusted,
        /// Entries that replace others do not truncate the rest of the log.
        OldTailKept,
        /// The term and the vote are not written together with the entries of their message.
        HardStateApart,
        /// The vote is not written, only the term.
        VoteForgotten,
        /// A vote is sent before it is durable.
        VoteSentEarly,
        /// Entries are acknowledged before they are durable.
        AppendedSentEarly,
        /// An entry counts as committed as soon as its leader has it.
        NoQuorum,
        /// A message that proves the loss of this log's tail is ignored.
        LostTailIgnored,
        /// A removed leader continues to lead.
        RemovedLeaderStays,
        /// The id of a removed replica may be used again.
        IdComesBack,
        /// The folder is not synced after a snapshot is named.
        SnapshotFolderNotSynced,
        /// A snapshot is named before it is synced.
        SnapshotNotSynced,
        /// The log is compacted when a snapshot begins, not when it is durable.
        CompactedEarly,
        /// The log is not restarted when a snapshot replaces the state.
        RestartForgotten,
        /// A snapshot's index is one too high.
        SnapshotIndexHigh,
        /// A snapshot's index is one too low.
        SnapshotIndexLow,
        /// Snapshots lack the reply caches.
        ReplyCachesNotInSnapshot,
        /// A snapshot has the fingerprint of the time when it is written, not of when it began.
        FingerprintLate,
        /// A snapshot has the membership of the time when it is written, not of when it began.
        MembershipLate,
        /// A request is accepted in a term other than the one that it was sent in.
        OtherTermAccepted,
        /// Delayed copies of requests are accepted like new ones.
        CopiesAccepted,
        /// A command is answered when it is proposed.
        RepliedWhenProposed,
        /// Results go to the requester of the entry with the same index, even if its term differs.
        ResolvedByIndex,
        /// A read is answered without a read index.
        ReadWithoutIndex,
        /// A leader answers a read without confirming its leadership.
        ReadOfDeposedLeader,
        /// Requesters of a deposed leader get the reply that nothing was done.
        ForwardedDenied,
        /// Requesters that waited too long for an entry get the reply that nothing was done.
        LateDenied,
        /// A client without an answer retries under another id.
        RetryUnderNewId,
        /// A retry of a committed transaction is committed again.
        RetryCheckedAgain,
        /// The pre-check's results are applied, and the commit does not check again.
        PreCheckTrusted,
        /// Followers apply the commands of an entry in another order than the leader.
        OwnOrder,
        /// One step of a rejected gang is not undone.
        GangHalfUndone,
        /// The resources of an ended task are not freed.
        NotGivenBack,
        /// Some changed machines are missing from the change log.
        ChangeDropped,
        /// A command that is rejected late still starts a version.
        RejectionLeavesVersion,
    }

    thread_local! {
        static ON: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether a bug is switched on in this thread.
    #[must_use]
    pub fn is_on(bug: Bug) -> bool {
        ON.get() == Some(bug)
    }

    /// Runs a function with one bug switched on in this thread, or without any if `bug` is `None`.
    pub fn with<T>(bug: Option<Bug>, run: impl FnOnce() -> T) -> T {
        /// Restores the previous bug, even if `run` panics.
        struct Before(Option<Bug>);
        impl Drop for Before {
            fn drop(&mut self) {
                ON.set(self.0);
            }
        }
        let _before = Before(ON.replace(bug));
        run()
    }

    /// Runs a function with all bugs switched off, for comparison.
    pub fn without_bugs<T>(run: impl FnOnce() -> T) -> T {
        with(None, run)
    }
}
