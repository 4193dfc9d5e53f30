//! Accelerator cards: which of a machine's cards a task gets.
//!
//! A task may ask for a share of one card, or for several cards. What it gets is decided by one
//! rule for every caller: the fullest cards that still fit, the lowest number among equals, so
//! that whole cards stay whole.

use omega_core::limits::{CARD_MILLI, CARDS_MAX};
use omega_core::{CardRequest, CardSet};

/// What is left in each card of one machine, in thousandths.
///
/// In a cell that is never less than nothing. In a view it may be: where a task that was to be
/// evicted comes back, while other own claims stand in its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cards {
    count: u8,
    left: [i16; CARDS_MAX as usize],
}

impl Cards {
    /// `count` whole cards.
    #[must_use]
    pub fn new(count: u8) -> Cards {
        let mut left = [0; CARDS_MAX as usize];
        left[..usize::from(count)].fill(CARD_MILLI as i16);
        Cards { count, left }
    }

    /// Cards of which this is left, as a delta tells it. The answer is `None` for more than
    /// [`CARDS_MAX`] of them.
    #[must_use]
    pub fn from_left(given: &[i16]) -> Option<Cards> {
        let mut left = [0; CARDS_MAX as usize];
        left.get_mut(..given.len())?.copy_from_slice(given);
        Some(Cards { count: given.len() as u8, left })
    }

    /// What is left in each card.
    #[must_use]
    pub fn left(&self) -> &[i16] {
        &self.left[..usize::from(self.count)]
    }

    /// The cards that a request gets, or `None` if it does not fit. `wanted` restricts the choice,
    /// unless it is empty.
    #[must_use]
    pub fn choose(&self, request: CardRequest, wanted: CardSet) -> Option<CardSet> {
        let fits = |card: usize| {
            self.left()[card] >= share(request) && (wanted.is_empty() || wanted.0 >> card & 1 == 1)
        };
        let mut chosen = CardSet::default();
        for _ in 0..request.count {
            let candidates =
                (0..self.left().len()).filter(|card| fits(*card) && chosen.0 >> card & 1 == 0);
            chosen = chosen.with(candidates.min_by_key(|card| (self.left[*card], *card))?);
        }
        (wanted.is_empty() || wanted == chosen).then_some(chosen)
    }

    /// Whether these cards are as many as a request asks for, and have as much left.
    pub(crate) fn have(&self, request: CardRequest, cards: CardSet) -> bool {
        let has = |card: usize| self.left().get(card).is_some_and(|left| *left >= share(request));
        cards.count() == u32::from(request.count) && cards.iter().all(has)
    }

    /// Takes a request's part of these cards.
    pub fn take(&mut self, request: CardRequest, cards: CardSet) {
        for card in cards.iter() {
            self.left[card] -= share(request);
        }
    }

    /// Gives a request's part of these cards back.
    pub fn give_back(&mut self, request: CardRequest, cards: CardSet) {
        for card in cards.iter() {
            self.left[card] += share(request);
        }
    }
}

/// What a request takes of each card: no job is taken that asks for more than a whole one.
fn share(request: CardRequest) -> i16 {
    request.milli_each as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_card_that_fits_is_taken() {
        let mut cards = Cards::new(3);
        let share = CardRequest { count: 1, milli_each: 400 };
        let first = cards.choose(share, CardSet::default()).unwrap();
        assert_eq!(first, CardSet(0b001));
        cards.take(share, first);
        assert_eq!(cards.choose(share, CardSet::default()), Some(CardSet(0b001)));
        let whole = CardRequest { count: 2, milli_each: 1000 };
        assert_eq!(cards.choose(whole, CardSet::default()), Some(CardSet(0b110)));
        assert_eq!(cards.choose(whole, CardSet(0b011)), None, "card 0 is not whole");
        cards.give_back(share, first);
        assert_eq!(cards, Cards::new(3));
    }

    #[test]
    fn more_cards_than_there_are_do_not_fit() {
        let request = CardRequest { count: 3, milli_each: 1 };
        assert_eq!(Cards::new(2).choose(request, CardSet::default()), None);
    }
}
