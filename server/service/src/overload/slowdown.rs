//! Slowdown of connections: a connection is read later if few slots are left, or if its caller exceeds its sustained
//! rate.
//!
//! `call_slots.rs` explains why, and chooses the next connection. If less than a quarter of a caller's burst is left,
//! its connections are read only as fast as the burst refills, so that steady callers are seldom rejected.

use crate::access::identity::Caller;
use crate::overload::call_slots::READ_DELAY_MAX;
use crate::overload::limits::CallLimits;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::{Sleep, sleep_until};

/// State of the slowdown of one connection.
#[derive(Debug)]
pub(crate) struct Slowdown {
    call_limits: CallLimits,
    caller: Arc<Caller>,
    ticket: Option<u64>,
    /// Start of the present delay.
    since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether the connection passes its turn on if there is nothing to read.
    passes_on: bool,
}

impl Drop for Slowdown {
    fn drop(&mut self) {
        if let Some(slots) = self.call_limits.call_slots(&self.caller) {
            slots.leave(&self.caller.name, &mut self.ticket);
        }
    }
}

impl Slowdown {
    pub(crate) fn new(call_limits: CallLimits, caller: Arc<Caller>) -> Slowdown {
        Slowdown { call_limits, caller, ticket: None, since: None, alarm: None, passes_on: false }
    }

    /// Whether the connection may be read now. If not, the connection's task is woken later.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let until = *self.since.get_or_insert(now) + READ_DELAY_MAX;
        let slots = self.call_limits.call_slots(&self.caller);
        let may = match self.call_limits.delayed_until(&self.caller, now) {
            _ if now >= until => {
                slots
                    .into_iter()
                    .for_each(|slots| slots.leave(&self.caller.name, &mut self.ticket));
                Poll::Ready(false)
            }
            Some(enough) => return self.sleep(enough.min(until), cx),
            None => slots.map_or(Poll::Ready(false), |slots| {
                slots.poll_turn(&self.caller.name, &mut self.ticket, cx)
            }),
        };
        let Poll::Ready(passes_on) = may else { return self.sleep(until, cx) };
        self.since = None;
        self.passes_on = passes_on;
        Poll::Ready(())
    }

    /// Records that there was nothing to read. If the connection has a turn, passes the turn on.
    pub(crate) fn idle(&mut self) {
        if std::mem::take(&mut self.passes_on)
            && let Some(slots) = self.call_limits.call_slots(&self.caller)
        {
            slots.pass_on();
        }
    }

    fn sleep(&mut self, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let until = until.into();
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if alarm.deadline() != until {
            alarm.as_mut().reset(until);
        }
        if alarm.as_mut().poll(cx).is_ready() {
            // The time is over, so the task polls again at once.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
