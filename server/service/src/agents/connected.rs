//! The queue of an agent's stream. The directives in it count as bytes that the agent holds, on accounts of their own:
//! the accounts of other replies delay the reading of this queue when they are full.

use super::orders::Orders;
use crate::overload::held::{Held, Holder};
use omega_client::ApiError;
use tokio::sync::{mpsc, oneshot};

/// An item of a stream. It is encoded as a message only when it is sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) orders: Result<Orders, ApiError>,
    /// The bytes of the directives, which count for the agent until they are sent.
    pub(super) held: Option<Held>,
}

impl From<ApiError> for Sent {
    fn from(error: ApiError) -> Sent {
        Sent { orders: Err(error), held: None }
    }
}

/// An agent's stream, on the hub's side.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(super) to: mpsc::Sender<Sent>,
    /// Whether the agent has the rights of an operator, and so is trusted with every machine.
    pub(super) is_operator: bool,
    /// Account of the directives that the agent has not read.
    pub(super) holder: Holder,
    /// The stream ends when this is dropped.
    pub(super) _alive: oneshot::Sender<()>,
}

impl Connected {
    /// Queues directives. Returns `false` if the agent has too many unread ones. A stream without unread directives always
    /// has room, so that no agent stops another.
    pub(super) fn queue(&self, orders: Orders) -> bool {
        let mut held = self.holder.nothing();
        if self.to.capacity() == self.to.max_capacity() {
            held.add(orders.bytes());
        } else if !held.try_add(orders.bytes()) {
            return false;
        }
        self.to.try_send(Sent { orders: Ok(orders), held: Some(held) }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::{Caller, Role};
    use crate::overload::held::Accounts;
    use omega_core::MachineId;

    #[test]
    fn an_agent_that_reads_nothing_holds_no_more_than_its_share() {
        let orders = || Orders { whole: vec![MachineId::first(0); 100], ..Orders::default() };
        let agent = Caller { name: "agent/m".into(), role: Role::Agent("m".into()) };
        let holder = Accounts::new(10 * orders().bytes(), usize::MAX).of(&agent);
        let streams: Vec<_> = (0..2)
            .map(|_| {
                let ((to, inbox), (_alive, _)) = (mpsc::channel(1000), oneshot::channel());
                (Connected { to, is_operator: false, holder: holder.clone(), _alive }, inbox)
            })
            .collect();
        let queued = streams.iter().cycle().take(1000).take_while(|(to, _)| to.queue(orders()));
        assert_eq!(queued.count(), 10, "the streams of an agent share its account");
        let mut streams = streams.into_iter();
        let (first, mut inbox) = streams.next().expect("there are two");
        assert!(inbox.try_recv().is_ok_and(|sent| sent.held.is_some()));
        assert!(first.queue(orders()), "what was sent does not count");
        assert!(!first.queue(orders()));
        drop(streams);
        assert!(first.queue(orders()), "what another stream held does not count after its end");
    }

    #[test]
    fn an_agent_that_reads_everything_is_not_stopped_by_others() {
        let orders = || Orders { whole: vec![MachineId::first(0); 100], ..Orders::default() };
        let accounts = Accounts::new(1, 1);
        let streams = ["a", "b"].map(|name| {
            let agent = Caller { name: name.into(), role: Role::Agent(name.into()) };
            let ((to, inbox), (_alive, _)) = (mpsc::channel(1000), oneshot::channel());
            (Connected { to, is_operator: false, holder: accounts.of(&agent), _alive }, inbox)
        });
        let [(full, _unread), (other, mut inbox)] = streams;
        assert!(full.queue(orders()), "more than the account has, but the first");
        assert!(!full.queue(orders()));
        for _ in 0..3 {
            assert!(other.queue(orders()));
            assert!(inbox.try_recv().is_ok());
        }
    }
}
