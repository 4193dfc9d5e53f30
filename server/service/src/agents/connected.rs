//! The queue of an agent's stream. The directives in it count as bytes that the agent holds, on accounts of their own:
//! the accounts of other replies delay the reading of this queue when they are full.

use super::outbox::Directives;
use crate::overload::memory_accounts::{CallerAccount, MemoryCharge};
use omega_client::ApiError;
use tokio::sync::{mpsc, oneshot};

/// An item of a stream. It is encoded as a message only when it is sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) directives: Result<Directives, ApiError>,
    /// The bytes of the directives, which count for the agent until they are sent.
    pub(super) charge: Option<MemoryCharge>,
}

impl From<ApiError> for Sent {
    fn from(error: ApiError) -> Sent {
        Sent { directives: Err(error), charge: None }
    }
}

/// An agent's stream, on the hub's side.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(super) to: mpsc::Sender<Sent>,
    /// Whether the agent has the rights of an operator, and so is trusted with every machine.
    pub(super) is_operator: bool,
    /// Account of the directives that the agent has not read.
    pub(super) holder: CallerAccount,
    /// The stream ends when this is dropped.
    pub(super) _alive: oneshot::Sender<()>,
}

impl Connected {
    /// Queues directives. Returns `false` if the agent has too many unread ones. A stream without unread directives always
    /// has room, so that no agent stops another.
    pub(super) fn queue(&self, directives: Directives) -> bool {
        let mut charge = self.holder.nothing();
        if self.to.capacity() == self.to.max_capacity() {
            charge.add(directives.bytes());
        } else if !charge.try_add(directives.bytes()) {
            return false;
        }
        self.to.try_send(Sent { directives: Ok(directives), charge: Some(charge) }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::{Caller, Role};
    use crate::overload::memory_accounts::Accounts;
    use omega_core::MachineId;

    #[test]
    fn an_agent_that_reads_nothing_holds_no_more_than_its_share() {
        let directives =
            || Directives { whole: vec![MachineId::first(0); 100], ..Directives::default() };
        let agent = Caller { name: "agent/m".into(), role: Role::Agent("m".into()) };
        let holder = Accounts::new(10 * directives().bytes(), usize::MAX).of(&agent);
        let streams: Vec<_> = (0..2)
            .map(|_| {
                let ((to, inbox), (_alive, _)) = (mpsc::channel(1000), oneshot::channel());
                (Connected { to, is_operator: false, holder: holder.clone(), _alive }, inbox)
            })
            .collect();
        let queued = streams.iter().cycle().take(1000).take_while(|(to, _)| to.queue(directives()));
        assert_eq!(queued.count(), 10, "the streams of an agent share its account");
        let mut streams = streams.into_iter();
        let (first, mut inbox) = streams.next().expect("there are two");
        assert!(inbox.try_recv().is_ok_and(|sent| sent.charge.is_some()));
        assert!(first.queue(directives()), "what was sent does not count");
        assert!(!first.queue(directives()));
        drop(streams);
        assert!(first.queue(directives()), "what another stream held does not count after its end");
    }

    #[test]
    fn an_agent_that_reads_everything_is_not_stopped_by_others() {
        let directives =
            || Directives { whole: vec![MachineId::first(0); 100], ..Directives::default() };
        let accounts = Accounts::new(1, 1);
        let streams = ["a", "b"].map(|name| {
            let agent = Caller { name: name.into(), role: Role::Agent(name.into()) };
            let ((to, inbox), (_alive, _)) = (mpsc::channel(1000), oneshot::channel());
            (Connected { to, is_operator: false, holder: accounts.of(&agent), _alive }, inbox)
        });
        let [(full, _unread), (other, mut inbox)] = streams;
        assert!(full.queue(directives()), "more than the account has, but the first");
        assert!(!full.queue(directives()));
        for _ in 0..3 {
            assert!(other.queue(directives()));
            assert!(inbox.try_recv().is_ok());
        }
    }
}
