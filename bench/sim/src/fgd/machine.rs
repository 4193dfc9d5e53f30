//! A machine with cards, and a task that asks for a part of it.

use omega_core::limits::{CARD_MILLI, CARDS_MAX};

/// A whole card in thousandths.
pub const WHOLE: i16 = CARD_MILLI as i16;

/// Which card models a task accepts, by their numbers in the input: a bit each.
pub type Models = u64;

/// What a task asks for. Tasks that ask for the same have one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Processors in thousandths.
    pub cpu_milli: i64,
    /// Of each card, in thousandths; 0 for a task without cards.
    pub card_milli: i16,
    /// How many cards.
    pub cards: u8,
    /// The models it accepts.
    pub models: Models,
    /// Memory in mebibytes.
    pub memory_mib: i64,
}

impl Shape {
    /// What it asks of all cards together.
    #[must_use]
    pub fn asked_milli(&self) -> i64 {
        i64::from(self.card_milli) * i64::from(self.cards)
    }

    /// Whether it shares a card with others.
    #[must_use]
    pub fn is_share(&self) -> bool {
        self.cards == 1 && self.card_milli < WHOLE
    }
}

/// What is left of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardMachine {
    /// Processors in thousandths.
    pub cpu_milli: i64,
    /// Memory in mebibytes.
    pub memory_mib: i64,
    /// The number of its card model.
    pub model: u8,
    /// Of each card.
    left: Vec<i16>,
    /// How many tasks of each size came: shares, then those of 1, 2, … cards.
    sizes: [u16; CARDS_MAX as usize + 1],
}

impl CardMachine {
    /// With whole cards.
    #[must_use]
    pub fn new(cpu_milli: i64, memory_mib: i64, cards: u8, model: u8) -> CardMachine {
        let (left, sizes) = (vec![WHOLE; usize::from(cards)], [0; CARDS_MAX as usize + 1]);
        CardMachine { cpu_milli, memory_mib, model, left, sizes }
    }

    /// What is left of each card.
    #[must_use]
    pub fn left(&self) -> &[i16] {
        &self.left
    }

    /// What is left of all cards.
    #[must_use]
    pub fn left_milli(&self) -> i64 {
        self.left.iter().map(|left| i64::from(*left)).sum()
    }

    /// How many cards are whole.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.left.iter().filter(|left| **left == WHOLE).count()
    }

    /// Whether a task fits.
    #[must_use]
    pub fn fits(&self, shape: &Shape) -> bool {
        let room = self.cpu_milli >= shape.cpu_milli && self.memory_mib >= shape.memory_mib;
        room && (shape.cards == 0 || shape.models >> self.model & 1 == 1)
            && self.left.iter().filter(|left| **left >= shape.card_milli).count()
                >= usize::from(shape.cards)
    }

    /// The fullest cards that a task fits on, the first of equal ones, as a cell chooses.
    #[must_use]
    pub fn fullest(&self, shape: &Shape) -> CardChoice {
        let mut chosen = CardChoice::default();
        for _ in 0..shape.cards {
            let fits = |i: &usize| self.left[*i] >= shape.card_milli && !chosen.has(*i);
            let next = (0..self.left.len()).filter(fits).min_by_key(|i| self.left[*i]);
            chosen = chosen.with(next.expect("only tasks that fit are given cards"));
        }
        chosen
    }

    /// Gives a task its part.
    pub fn take(&mut self, shape: &Shape, cards: CardChoice) {
        self.cpu_milli -= shape.cpu_milli;
        self.memory_mib -= shape.memory_mib;
        for (i, left) in self.left.iter_mut().enumerate() {
            if cards.has(i) {
                *left -= shape.card_milli;
            }
        }
        if shape.cards > 0 {
            self.sizes[size(shape)] += 1;
        }
    }

    /// Whether tasks of this one's size came, and whether tasks of other sizes did.
    #[must_use]
    pub fn sizes(&self, shape: &Shape) -> (bool, bool) {
        let own = self.sizes[size(shape)] > 0;
        let others = self.sizes.iter().filter(|count| **count > 0).count() > usize::from(own);
        (own, others)
    }
}

/// Shares are one size, whatever the share.
fn size(shape: &Shape) -> usize {
    if shape.card_milli < WHOLE { 0 } else { usize::from(shape.cards) }
}

/// Some of a machine's cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardChoice(u32);

impl CardChoice {
    /// Whether this card is among them.
    #[must_use]
    pub fn has(self, card: usize) -> bool {
        self.0 >> card & 1 == 1
    }

    /// This card as well.
    #[must_use]
    pub fn with(self, card: usize) -> CardChoice {
        CardChoice(self.0 | 1 << card)
    }
}
