//! Relative scores: how good a machine is compared to the other feasible machines.
//!
//! A [`crate::Score`] rates one machine at a time. A score such as "has the most of the preferred labels" depends on
//! the best feasible machine. So a relative score is computed in four steps:
//!
//! ```text
//!  applies:   the tasks                    ─▶  no effect, one score for all, or a ranking
//!  prepare:   all feasible machines        ─▶  a Ranking: the state of this decision
//!  raw:       one block of machines        ─▶  any integers
//!  normalize: the raw values of all blocks ─▶  0 to SCORE_MAX
//! ```
//!
//! If no score needs a ranking, a search scores machines as it finds them. Otherwise the search first collects the
//! feasible machines. Each plugin has a type of its own for the state that `prepare` returns, so there is no lookup by
//! string and no allocation per machine.

use crate::framework::plugin::{Reads, Tasks};
use omega_cellstate::{BLOCK, Block, View};

/// Effect of a relative score in a decision about some tasks, as far as it is known before any machine is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// The score has no effect.
    Silent,
    /// Every feasible machine gets this score.
    Same(i32),
    /// The score depends on the set of feasible machines.
    Ranks,
}

/// A score relative to the other feasible machines.
///
/// The rules for a [`crate::Filter`] apply. The score is called once for each decision. In a decision about many tasks,
/// it is called again whenever a machine becomes full.
pub trait RelativeScore: Send + Sync {
    /// A short name in snake case, for profiles.
    fn name(&self) -> &'static str;

    /// Inputs of the raw values. With [`Reads::DESCRIPTION`] alone, identical tasks are placed together; otherwise each
    /// task has its own search.
    fn reads(&self) -> Reads;

    /// Returns the effect of the score, as far as it is known without examining machines.
    fn applies(&self, _tasks: &Tasks<'_>) -> Stance {
        Stance::Ranks
    }

    /// Enables the columns of the view that the score reads (see [`crate::Profile::prepare`]).
    fn keep(&self, _view: &mut View) {}

    /// Prepares a ranking of all feasible machines. `None` if the score has no effect after all.
    fn prepare<'a>(
        &'a self,
        tasks: Tasks<'a>,
        feasible: Feasible<'a>,
    ) -> Option<Box<dyn Ranking + 'a>>;
}

/// State of a relative score during one decision.
pub trait Ranking {
    /// Writes the raw value of each machine in `among`, all of which are feasible; other entries are ignored.
    fn raw(&self, block: Block<'_>, among: u64, raw: &mut [i64; BLOCK]);

    /// Turns the raw values of all feasible machines, in their order, into scores from 0 to
    /// [`crate::SCORE_MAX`]. Debug builds panic if a score is outside this range.
    fn normalize(&self, raw: &[i64], scores: &mut [i32]);
}

/// Machines that passed all filters, by blocks.
#[derive(Clone, Copy, Debug)]
pub struct Feasible<'a> {
    view: &'a View,
    words: &'a [(u32, u64)],
}

impl<'a> Feasible<'a> {
    /// The machines of a view that these words select.
    pub(crate) fn new(view: &'a View, words: &'a [(u32, u64)]) -> Feasible<'a> {
        Feasible { view, words }
    }

    /// Number of feasible machines.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|(_, word)| word.count_ones() as usize).sum()
    }

    /// Each block with feasible machines, with a bit for each of them.
    pub fn blocks(self) -> impl Iterator<Item = (Block<'a>, u64)> {
        self.words.iter().map(move |(block, word)| (self.view.block(*block as usize), *word))
    }
}
