//! Mistakes that are made on purpose, to prove that the tests would find them.
//!
//! A test that never fails may be one that cannot. So with the feature `planted`, which nothing ships
//! with, the code has the mistakes of `Bug` in it, each behind `planted!(Name)`, and a thread can
//! switch one of them on. Without the feature `planted!` is `false`.
//!
//! To plant another one: add it to the list below, write `planted!(Name)` where the mistake is made,
//! and say in `tests/src/cluster/planted.rs` under which faults it shows.

/// Whether a mistake is made here: never, but in builds with the feature `planted`.
#[cfg(feature = "planted")]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_on($crate::planted::Bug::$bug)
    };
}

/// Whether a mistake is made here: never.
#[cfg(not(feature = "planted"))]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::never(stringify!($bug))
    };
}

/// `false`, for a linter that would otherwise simplify what is written for the feature.
#[cfg(not(feature = "planted"))]
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub const fn never(_: &str) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use list::{Bug, is_on, sober, with};

#[cfg(feature = "planted")]
mod list {
    use std::cell::Cell;

    /// Makes the enum, and the list of what is in it.
    macro_rules! bugs {
        ($($(#[doc = $doc:literal])+ $bug:ident,)+) => {
            /// A mistake that somebody might make.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub enum Bug {
                $($(#[doc = $doc])+ $bug,)+
            }

            impl Bug {
                /// All of them.
                pub const ALL: &[Bug] = &[$(Bug::$bug,)+];

                /// What the mistake is.
                #[must_use]
                pub fn what(self) -> &'static str {
                    match self {
                        $(Bug::$bug => concat!($($doc),+).trim_ascii_start(),)+
                    }
                }
            }
        };
    }

    bugs! {
        /// A write is said to be safe before it is synced.
        AckBeforeSync,
        /// A sync that failed is taken for one that did not.
        SyncErrorIgnored,
        /// The folder is not synced after a new segment got its name.
        SegmentFolderNotSynced,
        /// The next segment is written to before the one before it is synced.
        SealNotSynced,
        /// A segment is used again before the record that frees it is safe.
        FreedEarly,
        /// Damage in the middle of the log is cut off like a torn tail.
        CorruptMiddleCut,
        /// What lies behind a torn tail is not overwritten.
        TornTailKept,
        /// What a failed sync left is trusted by the next opening, and not written again.
        CacheTrusted,
        /// Entries that replace others leave those behind them in the log.
        OldTailKept,
        /// The term and the vote are not written with the entries that they came with.
        HardStateApart,
        /// The vote is not written, only the term.
        VoteForgotten,
        /// A vote is given before it is safe.
        VoteSentEarly,
        /// Entries are acknowledged before they are safe.
        AppendedSentEarly,
        /// An entry counts as committed when its leader has it.
        NoQuorum,
        /// A message that proves that this log has lost its end is not heeded.
        LostTailIgnored,
        /// A leader that was removed leads on.
        RemovedLeaderStays,
        /// The id of a replica that was removed may be used again.
        IdComesBack,
        /// The folder is not synced after a snapshot got its name.
        SnapshotFolderNotSynced,
        /// A snapshot gets its name before it is synced.
        SnapshotNotSynced,
        /// The log is compacted when a snapshot is begun, not when it is safe.
        CompactedEarly,
        /// The log does not start anew when a snapshot takes the place of the state.
        RestartForgotten,
        /// A snapshot is said to have one entry more than it has.
        SnapshotIndexHigh,
        /// A snapshot is said to have one entry less than it has.
        SnapshotIndexLow,
        /// The answers to past transactions are left out of snapshots.
        AnswersNotInSnapshot,
        /// A snapshot has the fingerprint of when it is written, not of when it was begun.
        FingerprintLate,
        /// A snapshot has the members of when it is written, not of when it was begun.
        MembershipLate,
        /// A request is taken in another term than the one that it was sent in.
        OtherTermTaken,
        /// Late copies of requests are taken like new ones.
        CopiesTaken,
        /// A command is answered when it is proposed.
        AnsweredWhenProposed,
        /// Answers go to whoever asked for the entry of that index, whatever its term.
        ResolvedByIndex,
        /// A read is answered with what is there.
        ReadWithoutIndex,
        /// A leader answers a read without asking whether it still leads.
        ReadOfDeposedLeader,
        /// Whoever asked a leader that is none any more is told that nothing was done.
        ForwardedDenied,
        /// Whoever has waited too long for an entry is told that nothing was done.
        LateDenied,
        /// A client that hears nothing asks again under another id.
        RetryUnderNewId,
        /// A transaction that was judged is judged again when it comes again.
        RetryJudgedAgain,
        /// Claims are taken as they were judged before they were committed.
        EarlyJudgementTrusted,
        /// Followers apply the commands of an entry in an order of their own.
        OwnOrder,
        /// Of a gang that is refused one step is not undone.
        GangHalfUndone,
        /// What a task had is not given back where it ends.
        NotGivenBack,
        /// The list of changes leaves out machines now and then.
        ChangeDropped,
        /// A command that is refused after all opens a version.
        RefusalLeavesVersion,
    }

    thread_local! {
        static ON: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether a mistake is made by this thread now.
    #[must_use]
    pub fn is_on(bug: Bug) -> bool {
        ON.get() == Some(bug)
    }

    /// Runs something with a mistake switched on in this thread, or with none.
    pub fn with<T>(bug: Option<Bug>, run: impl FnOnce() -> T) -> T {
        /// Puts back what was on, even if `run` panics.
        struct Before(Option<Bug>);
        impl Drop for Before {
            fn drop(&mut self) {
                ON.set(self.0);
            }
        }
        let _before = Before(ON.replace(bug));
        run()
    }

    /// Runs something without any mistake: what others are compared with.
    pub fn sober<T>(run: impl FnOnce() -> T) -> T {
        with(None, run)
    }
}
