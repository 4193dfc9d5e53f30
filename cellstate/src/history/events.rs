//! Events of one job or one machine, read in parts.

use super::History;
use super::event::{Event, EventsOf};

/// A position among the events of a job or a machine. It stays valid while events are added. Events that are dropped
/// meanwhile are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPosition {
    of: EventsOf,
    /// Positions in the two rings, as in `Ring::event_of`.
    ordinary: u64,
    notable: u64,
}

/// Events of a job or a machine, the newest first.
#[derive(Debug)]
pub struct Events<'h> {
    /// `None` if no events are kept.
    history: Option<&'h History>,
    position: EventPosition,
}

impl<'h> Events<'h> {
    pub(super) fn newest(history: Option<&'h History>, of: EventsOf) -> Events<'h> {
        let ordinary = history.map_or(0, |history| history.ordinary.last_of(of));
        let notable = history.map_or(0, |history| history.notable.last_of(of));
        Events { history, position: EventPosition { of, ordinary, notable } }
    }

    pub(super) fn from(history: Option<&'h History>, position: EventPosition) -> Events<'h> {
        Events { history, position }
    }

    /// The position after the events that were read.
    #[must_use]
    pub fn position(&self) -> EventPosition {
        self.position
    }
}

impl<'h> Iterator for Events<'h> {
    type Item = &'h Event;

    fn next(&mut self) -> Option<&'h Event> {
        let (history, EventPosition { of, ordinary, notable }) = (self.history?, self.position);
        let one = history.ordinary.event_of(of, ordinary);
        let other = history.notable.event_of(of, notable);
        match (one, other) {
            (Some((event, before)), other)
                if other.is_none_or(|(other, _)| event.number > other.number) =>
            {
                self.position.ordinary = before;
                Some(event)
            }
            (_, Some((event, before))) => {
                self.position.notable = before;
                Some(event)
            }
            (_, None) => None,
        }
    }
}
