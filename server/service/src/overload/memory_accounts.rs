//! Accounts of bytes in memory for clients: incomplete requests, and unread replies.
//!
//! Each byte is counted where it enters or leaves (`bodies.rs`, `calls/deltas.rs`), for its caller and for all callers
//! together. A caller at its limit can make no further calls until it has read something, and its streams wait. So the
//! memory for clients is bounded, regardless of the data that they send or leave unread. Operators and replicas share a
//! separate account, and agents have another: these callers must get through when everything else is full.
//!
//! Invariant: `all` is the sum of `callers`, and no caller in it has 0 bytes.

use crate::access::identity::{Caller, Role};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Accounts of a listener. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    usual: Account,
    machines: Account,
    operators: Account,
}

impl Accounts {
    /// Accounts with at most `each` bytes for a caller, and `all` bytes for all callers together.
    pub(crate) fn new(each: usize, all: usize) -> Accounts {
        Accounts {
            usual: Account::new(each, all),
            machines: Account::new(each, all),
            operators: Account::new(all, all),
        }
    }

    /// Returns the account of a caller.
    pub(crate) fn of(&self, caller: &Caller) -> CallerAccount {
        let account = match caller.role {
            Role::Operator | Role::Replica(_) => &self.operators,
            Role::Agent(_) => &self.machines,
            _ => &self.usual,
        };
        CallerAccount { account: account.clone(), caller: caller.name.clone() }
    }

    /// Bytes held for all callers except operators, replicas and agents.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.usual.0.lock().all
    }
}

#[derive(Clone, Debug)]
struct Account(Arc<Mutex<Sums>>);

/// The sums. See the module documentation.
#[derive(Debug)]
struct Sums {
    each_max: usize,
    all_max: usize,
    all: usize,
    callers: HashMap<Arc<str>, usize>,
    /// Wakers of streams that wait for memory.
    waiting: Vec<Waker>,
}

impl Account {
    fn new(each_max: usize, all_max: usize) -> Account {
        let (callers, waiting) = (HashMap::new(), Vec::new());
        Account(Arc::new(Mutex::new(Sums { each_max, all_max, all: 0, callers, waiting })))
    }
}

impl Sums {
    fn has_room(&self, caller: &str) -> bool {
        let own = self.callers.get(caller).copied().unwrap_or(0);
        own < self.each_max && self.all < self.all_max
    }
}

/// A caller's account.
#[derive(Clone, Debug)]
pub(crate) struct CallerAccount {
    account: Account,
    caller: Arc<str>,
}

impl CallerAccount {
    /// Whether the caller is below its limit.
    pub(crate) fn has_room(&self) -> bool {
        self.account.0.lock().has_room(&self.caller)
    }

    /// Returns `Ready` if the caller is below its limit. Otherwise registers the task to be woken when bytes are
    /// released.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut sums = self.account.0.lock();
        if sums.has_room(&self.caller) {
            return Poll::Ready(());
        }
        if !sums.waiting.iter().any(|known| known.will_wake(cx.waker())) {
            sums.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// An account entry with no bytes, to which bytes can be added.
    pub(crate) fn nothing(&self) -> MemoryCharge {
        MemoryCharge { holder: self.clone(), bytes: 0 }
    }
}

/// Bytes held for a caller. They are released when this value is dropped.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    holder: CallerAccount,
    bytes: usize,
}

impl MemoryCharge {
    /// Counts bytes that are already in memory, regardless of limits.
    pub(crate) fn add(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut sums = self.holder.account.0.lock();
        sums.all += bytes;
        *sums.callers.entry(self.holder.caller.clone()).or_default() += bytes;
        self.bytes += bytes;
    }

    /// Counts bytes if the caller's share is not full. Otherwise counts nothing, and returns `false`.
    #[must_use]
    pub(crate) fn try_add(&mut self, bytes: usize) -> bool {
        let has_room = self.holder.has_room();
        if has_room {
            self.add(bytes);
        }
        has_room
    }

    /// Releases all counted bytes.
    pub(crate) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let woken = {
            let mut sums = self.holder.account.0.lock();
            sums.all -= bytes;
            if let Some(own) = sums.callers.get_mut(&self.holder.caller) {
                *own -= bytes;
                if *own == 0 {
                    sums.callers.remove(&self.holder.caller);
                }
            }
            std::mem::take(&mut sums.waiting)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(name: &str) -> Caller {
        Caller { name: name.into(), role: Role::Reader(Vec::new()) }
    }

    #[test]
    fn whoever_holds_all_that_he_may_gets_no_more_and_others_do() {
        let accounts = Accounts::new(100, 150);
        let [a, b, c] = ["a", "b", "c"].map(|name| accounts.of(&reader(name)));
        let mut of_a = a.nothing();
        assert!(of_a.try_add(99) && of_a.try_add(50), "the last one may go beyond");
        assert!(!of_a.try_add(1) && !a.has_room());
        let mut of_b = b.nothing();
        assert!(of_b.try_add(1) && !b.has_room() && !c.has_room(), "all together have enough");
        assert!(accounts.of(&Caller::local()).has_room(), "operators have their own");
        of_a.clear();
        assert!(a.has_room() && b.has_room() && c.has_room());
        drop(of_b);
        assert_eq!(accounts.bytes(), 0);
    }
}
