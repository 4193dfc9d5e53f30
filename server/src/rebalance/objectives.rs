//! Objectives of a pass: those of a purpose, with the changes in a file and in flags.

use super::{PassArgs, Purpose, RebalanceError};
use crate::file;
use omega_core::{KindId, Kinds, TopologyLevel};
use omega_schedulers::rebalance::objective::WEIGHT_MAX;
use omega_schedulers::rebalance::{Objectives, Pair, Safety};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum of a pair's percentage: ten times as much of one kind free as of the other.
pub(super) const PAIR_PERCENT_MAX: u32 = 1000;

/// A file of objectives. Its purpose gives the default of each.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AimsFile {
    /// The purpose whose weights are changed.
    #[serde(rename = "for")]
    purpose: Option<Purpose>,
    /// The label whose values are the domains over which jobs are spread.
    level: Option<String>,
    /// Part of a kind that is safe, in percent, by kind.
    #[serde(default)]
    safety: BTreeMap<String, u32>,
    /// Weights, by term.
    #[serde(default)]
    weight: BTreeMap<String, u32>,
    /// Pairs of resources that should be free together.
    pair: Option<Vec<PairEntry>>,
}

/// A pair: free amounts of one kind should go with free amounts of another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PairEntry {
    free: String,
    beside: String,
    /// Share of a mean machine; equal shares by default.
    #[serde(default = "as_much")]
    percent: u32,
}

fn as_much() -> u32 {
    100
}

impl PassArgs {
    /// Objectives that result from all options.
    pub(super) fn objectives(&self, kinds: &Kinds) -> Result<Objectives, RebalanceError> {
        let from = self.objectives.as_deref();
        let file: AimsFile = from.map(file::read).transpose()?.unwrap_or_default();
        let mut objectives = match self.purpose.or(file.purpose) {
            None if !self.drain.is_empty() => Objectives::drain(),
            None | Some(Purpose::Balance) => Objectives::balance(),
            Some(Purpose::Drain) => Objectives::drain(),
            Some(Purpose::Defragment) => Objectives::defragment(),
            Some(Purpose::Spread) => Objectives::spread(),
        };
        let place = |field: &str| format!("{}: {field}", from.unwrap_or(Path::new("")).display());
        if let Some(pairs) = &file.pair {
            let pair = |pair: &PairEntry| {
                let free = kind(kinds, &place("pair.free"), &pair.free)?;
                let beside = kind(kinds, &place("pair.beside"), &pair.beside)?;
                if !(1..=PAIR_PERCENT_MAX).contains(&pair.percent) {
                    let place = place("pair.percent");
                    return Err(RebalanceError::Percent { place, given: pair.percent });
                }
                Ok(Pair { free, beside, percent: pair.percent })
            };
            objectives.pairs = pairs.iter().map(pair).collect::<Result<_, RebalanceError>>()?;
        }
        let weights = file.weight.iter().map(|(term, weight)| (place("weight"), term, weight));
        let flags = self.weight.iter().map(|(term, n)| ("--weight".to_owned(), term, n));
        for (place, term, weight) in weights.chain(flags) {
            set_weight(&mut objectives, kinds, &place, (term, *weight))?;
        }
        let safe = file.safety.iter().map(|(name, percent)| (place("safety"), name, percent));
        let flags = self.safety.iter().map(|(name, n)| ("--safety".to_owned(), name, n));
        for (place, name, percent) in safe.chain(flags) {
            let kind = kind(kinds, &place, name)?;
            let safety = Safety { percent: *percent, ..objectives.safety(kind) };
            objectives.loads.insert(kind, safety);
        }
        if let Some(label) = self.level.as_ref().or(file.level.as_ref()) {
            objectives.level = TopologyLevel::Label(label.as_str().into());
        }
        Ok(objectives)
    }
}

fn set_weight(
    objectives: &mut Objectives,
    kinds: &Kinds,
    place: &str,
    (term, weight): (&str, u32),
) -> Result<(), RebalanceError> {
    if weight > WEIGHT_MAX {
        return Err(RebalanceError::Weight { place: place.to_owned(), given: weight });
    }
    let of = match term {
        "misplaced" => &mut objectives.misplaced,
        "balance" => &mut objectives.balance,
        "fragments" => &mut objectives.fragments,
        "crowding" => &mut objectives.crowding,
        "moves" => &mut objectives.moves,
        "job-moves" => &mut objectives.job_moves,
        "load" => &mut objectives.load.weight,
        _ => {
            let name = term.strip_prefix("load.").ok_or_else(|| RebalanceError::NoTerm {
                place: place.to_owned(),
                term: term.to_owned(),
            })?;
            let kind = kind(kinds, place, name)?;
            let safety = Safety { weight, ..objectives.safety(kind) };
            objectives.loads.insert(kind, safety);
            return Ok(());
        }
    };
    *of = weight;
    Ok(())
}

/// The kind with this name.
pub(super) fn kind(kinds: &Kinds, place: &str, name: &str) -> Result<KindId, RebalanceError> {
    kinds.by_name(name).ok_or_else(|| {
        let has: Vec<&str> = kinds.iter().map(|(_, kind)| kind.name.as_str()).collect();
        RebalanceError::NoKind {
            place: place.to_owned(),
            kind: name.to_owned(),
            has: has.join(", "),
        }
    })
}
