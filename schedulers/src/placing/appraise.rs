//! Score breakdown: the result of every plugin for every machine in one decision.
//!
//! A breakdown runs every plugin on all machines, which is too slow for the scheduling loop, so it is meant for
//! users, tools and tests. A search of all machines chooses by the same results.

use crate::framework::plugin::tasks;
use crate::framework::plugin::{Filter, Score, Tasks, lanes};
use crate::framework::profile::Profile;
use crate::framework::relative::{Feasible, RelativeScore, Stance};
use crate::placing::rank::write_raw;
use omega_cellstate::{BLOCK, GroupRef, View};

/// The score breakdown of one decision, machine by machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Appraisal {
    /// Rejected machines, ascending by row.
    pub refused: Vec<Refusal>,
    /// Rows of the feasible machines, ascending. `scores` and `totals` are in the same order.
    pub feasible: Vec<u32>,
    /// Scores of each score plugin of the profile for the feasible machines.
    pub scores: Vec<ScoreAccount>,
    /// Weighted sum of the scores of each feasible machine.
    pub totals: Vec<i64>,
    /// The rows of the machines with the highest sum, ascending.
    pub best: Vec<u32>,
}

/// A machine that a filter rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Row of the machine.
    pub row: u32,
    /// Name of the first filter, in the order of the profile, that rejects the machine.
    pub filter: &'static str,
    /// Whether the filter might accept the machine if fewer tasks ran there.
    pub curable: bool,
}

/// Scores of one plugin for the feasible machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreAccount {
    /// The score's name.
    pub name: &'static str,
    /// Weight of the score.
    pub weight: i32,
    /// Values of the score; `None` if it does not apply to these tasks.
    pub columns: Option<ScoreColumns>,
}

/// The values of one score, in the order of the feasible machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScoreColumns {
    /// Scores before the comparison with the other machines; equal to `scores` if the plugin makes no comparison.
    pub raw: Vec<i64>,
    /// From 0 to [`crate::SCORE_MAX`].
    pub scores: Vec<i64>,
}

impl ScoreAccount {
    /// Returns the weighted score of each feasible machine, in the order of the machines; empty if the score does not
    /// apply.
    pub fn weighted(&self) -> impl Iterator<Item = i64> + '_ {
        let scores = self.columns.iter().flat_map(|columns| &columns.scores);
        scores.map(|score| i64::from(self.weight) * score)
    }
}

/// Computes the score breakdown of the decision about one task of a group.
#[must_use]
pub fn appraise(view: &View, profile: &Profile, group: GroupRef) -> Appraisal {
    let filters: Vec<_> = profile.evaluator.filters().collect();
    let (refused, words) = sift(view, &filters, group);
    let feasible = rows(&words);
    let local = profile.evaluator.scores().map(|(score, weight)| {
        let columns = local_columns(score, &tasks(view, group), &words);
        ScoreAccount { name: score.name(), weight, columns }
    });
    let relative = profile.evaluator.relative_scores().map(|(score, weight)| {
        let columns = relative_columns(score, &tasks(view, group), &words);
        ScoreAccount { name: score.name(), weight, columns }
    });
    let scores: Vec<_> = local.chain(relative).collect();
    let mut totals = vec![0; feasible.len()];
    for score in &scores {
        totals.iter_mut().zip(score.weighted()).for_each(|(total, score)| *total += score);
    }
    let most = totals.iter().max();
    let best = feasible.iter().zip(&totals).filter(|(_, total)| Some(*total) == most);
    let best = best.map(|(row, _)| *row).collect();
    Appraisal { refused, feasible, scores, totals, best }
}

/// The machines that one filter alone rejects, ascending by row.
#[must_use]
pub fn appraise_filter(view: &View, filter: &dyn Filter, group: GroupRef) -> Vec<Refusal> {
    sift(view, &[filter], group).0
}

/// Whether a filter applies to the tasks of a group at all.
#[must_use]
pub fn filter_applies(view: &View, filter: &dyn Filter, group: GroupRef) -> bool {
    filter.applies(&tasks(view, group))
}

/// Computes the scores of one plugin for these rows, as if they were all the feasible machines. Returns `None` if the
/// plugin does not apply.
#[must_use]
pub fn appraise_score(
    view: &View,
    score: &dyn Score,
    group: GroupRef,
    rows: &[u32],
) -> Option<ScoreColumns> {
    local_columns(score, &tasks(view, group), &words_of(view, rows))
}

/// Computes the raw and normalized values of one relative score for these rows, as if they were all the feasible
/// machines. Returns `None` if the score does not apply.
#[must_use]
pub fn appraise_relative(
    view: &View,
    score: &dyn RelativeScore,
    group: GroupRef,
    rows: &[u32],
) -> Option<ScoreColumns> {
    relative_columns(score, &tasks(view, group), &words_of(view, rows))
}

/// Runs the filters on every machine. Returns the first filter that rejects each infeasible machine, and the feasible
/// machines.
fn sift(view: &View, filters: &[&dyn Filter], group: GroupRef) -> (Vec<Refusal>, Vec<(u32, u64)>) {
    let tasks = tasks(view, group);
    let active = filters.iter().filter(|filter| filter.applies(&tasks));
    let active: Vec<_> = active.collect();
    let mut refused = Vec::new();
    let mut words = Vec::new();
    for index in 0..view.blocks() {
        let block = view.block(index);
        let present = block.present();
        let mut word = present;
        for filter in &active {
            let allowed = filter.filter(&tasks, block, word) & word;
            let gone = word & !allowed;
            let curable = if gone == 0 { 0 } else { filter.curable(&tasks, block, gone) };
            refused.extend(lanes(gone).map(|lane| Refusal {
                row: (block.first_row() + lane) as u32,
                filter: filter.name(),
                curable: curable >> lane & 1 == 1,
            }));
            word = allowed;
        }
        if word != 0 {
            words.push((index as u32, word));
        }
    }
    refused.sort_by_key(|refusal| refusal.row);
    (refused, words)
}

/// The rows of feasible machines.
fn rows(words: &[(u32, u64)]) -> Vec<u32> {
    let row = |block: u32, lane: usize| block * BLOCK as u32 + lane as u32;
    let of_block = |(block, word): &(u32, u64)| {
        let block = *block;
        lanes(*word).map(move |lane| row(block, lane))
    };
    words.iter().flat_map(of_block).collect()
}

/// Returns the blocks of these rows, each with a word that has a bit for each row. Rows without a machine and empty
/// blocks are left out.
fn words_of(view: &View, rows: &[u32]) -> Vec<(u32, u64)> {
    let mut words = vec![0u64; view.blocks()];
    for row in rows.iter().filter(|row| view.machine(**row as usize).is_some()) {
        words[*row as usize / BLOCK] |= 1 << (*row as usize % BLOCK);
    }
    let words = (0..).zip(words);
    words.filter(|(_, word)| *word != 0).collect()
}

fn local_columns(
    score: &dyn Score,
    tasks: &Tasks<'_>,
    words: &[(u32, u64)],
) -> Option<ScoreColumns> {
    if !score.applies(tasks) {
        return None;
    }
    let mut values = Vec::new();
    for (block, among) in Feasible::new(tasks.view, words).blocks() {
        let mut column = [0; BLOCK];
        score.score(tasks, block, among, &mut column);
        values.extend(lanes(among).map(|lane| i64::from(column[lane])));
    }
    Some(ScoreColumns { raw: values.clone(), scores: values })
}

fn relative_columns(
    score: &dyn RelativeScore,
    tasks: &Tasks<'_>,
    words: &[(u32, u64)],
) -> Option<ScoreColumns> {
    let feasible = Feasible::new(tasks.view, words);
    if score.applies(tasks) == Stance::Silent {
        return None;
    }
    let ranking = score.prepare(*tasks, feasible)?;
    let mut raw = Vec::new();
    write_raw(&*ranking, feasible, &mut raw);
    let mut scores = vec![0; raw.len()];
    ranking.normalize(&raw, &mut scores);
    Some(ScoreColumns { raw, scores: scores.into_iter().map(i64::from).collect() })
}
