//! Objectives of a pass: the defaults of a purpose, with the changes of a file and of flags.

mod aims;
mod rules;
mod unknown;

use super::{PassArgs, Purpose, RebalanceError};
use crate::file;
use aims::{DemandEntry, LoadEntry, MachinesEntry, MoveEntry};
use omega_core::{KindId, Kinds, Text, TopologyLevel, Unit};
use omega_schedulers::rebalance::objective::WEIGHT_MAX;
use omega_schedulers::rebalance::{Objectives, Pair, Ratio, Safety};
use omega_workload::amount::Amount;
use rules::RuleEntry;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
pub(super) use unknown::{Known, unknown};

/// Maximum `percent` of a pair: the desired free share of one resource kind is ten times that of the other kind.
pub(super) const PAIR_PERCENT_MAX: u32 = 1000;

/// A file of objectives. Its purpose gives the default of each objective.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct AimsFile {
    /// The purpose whose weights are changed.
    #[serde(rename = "for")]
    purpose: Option<Purpose>,
    /// The label whose values are the domains over which jobs are spread.
    level: Option<String>,
    /// Safety levels: the percentage of a resource kind above which load counts as a cost, by kind.
    #[serde(default)]
    safety: BTreeMap<String, u32>,
    /// Weights, by term.
    #[serde(default)]
    weight: BTreeMap<String, u32>,
    /// Pairs of resources that should be free together.
    pair: Option<Vec<PairEntry>>,
    /// Safety levels and costs of single machines.
    #[serde(default)]
    machines: Vec<MachinesEntry>,
    /// Curves of load as a function of use, for single resource kinds.
    #[serde(default)]
    load: Vec<LoadEntry>,
    /// Costs of moves between sets of machines.
    #[serde(default, rename = "move")]
    moves: Vec<MoveEntry>,
    /// Additional cost of moving a task, by job.
    #[serde(default)]
    move_of: BTreeMap<Text, u32>,
    /// Path, relative to this file, of a table with costs of moves between two machines.
    between: Option<PathBuf>,
    /// Resource usage of jobs over time.
    #[serde(default)]
    demand: Vec<DemandEntry>,
    /// Rules that no move may break.
    #[serde(default)]
    rule: Vec<RuleEntry>,
    /// Path, relative to this file, of a table of limits: how many tasks of one job may be on one machine, or in one
    /// domain, with tasks of another job.
    rules: Option<PathBuf>,
}

/// A pair of resource kinds that should be free on the same machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PairEntry {
    free: String,
    beside: String,
    /// Desired free amount of the kind `beside`, in percent of the free amount of the kind `free`. Both amounts are
    /// compared as shares of a mean machine's amount. The default is 100.
    percent: Option<u32>,
    /// In place of `percent`: this amount of the kind `beside` should be free for each free amount `per` of the kind
    /// `free`.
    want: Option<String>,
    per: Option<String>,
}

impl PairEntry {
    fn pair(&self, kinds: &Kinds, place: &dyn Fn(&str) -> String) -> Result<Pair, RebalanceError> {
        let free = kind(kinds, &place("pair.free"), &self.free)?;
        let beside = kind(kinds, &place("pair.beside"), &self.beside)?;
        let amount = |field: &str, text: &String, kind: KindId| {
            let why = |why: String| RebalanceError::Aim { place: place(field), why };
            let unit = kinds.get(kind).map_or(Unit::Count, |kind| kind.unit);
            let amount = text.parse::<Amount>().and_then(|amount| amount.of(unit));
            match amount.map_err(|error| why(error.to_string()))? {
                0 => Err(why("is 0; give more".to_owned())),
                some => Ok(some),
            }
        };
        let ratio = match (self.percent, &self.want, &self.per) {
            (None, None, None) => Ratio::Percent(100),
            (Some(percent), None, None) if (1..=PAIR_PERCENT_MAX).contains(&percent) => {
                Ratio::Percent(percent)
            }
            (Some(given), None, None) => {
                return Err(RebalanceError::Percent { place: place("pair.percent"), given });
            }
            (None, Some(want), Some(per)) => Ratio::Amounts {
                want: amount("pair.want", want, beside)?,
                per: amount("pair.per", per, free)?,
            },
            _ => {
                let why = "give either percent, or want and per".to_owned();
                return Err(RebalanceError::Aim { place: place("pair"), why });
            }
        };
        Ok(Pair { free, beside, ratio })
    }
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
            let pair = |pair: &PairEntry| pair.pair(kinds, &place);
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
        let machines = file.machines.iter().map(|entry| entry.aims(kinds, &place));
        objectives.machines = machines.collect::<Result<_, RebalanceError>>()?;
        for entry in &file.load {
            let kind = kind(kinds, &place("load.kind"), &entry.kind)?;
            objectives.curves.insert(kind, entry.curve(&place("load.points"))?);
        }
        for entry in &file.demand {
            let kind = kind(kinds, &place("demand.kind"), &entry.kind)?;
            entry.add_to(objectives.demand.entry(kind).or_default(), &place("demand.percent"))?;
        }
        let beside = |name: &PathBuf| match from.and_then(Path::parent) {
            Some(folder) => folder.join(name),
            None => name.clone(),
        };
        let between = file.between.as_ref().map(beside);
        objectives.move_costs =
            aims::move_costs(&file.moves, &file.move_of, between.as_deref(), &place)?;
        let table = file.rules.as_ref().map(beside);
        objectives.rules = rules::rules(&file.rule, table.as_deref(), &place)?;
        if let Some(label) = self.level.as_ref().or(file.level.as_ref()) {
            objectives.level = level_of(Some(label));
        }
        Ok(objectives)
    }
}

/// A level by its name: a label key, or `machine`, which is the default.
fn level_of(name: Option<&str>) -> TopologyLevel {
    match name {
        None | Some("machine") => TopologyLevel::Machine,
        Some(label) => TopologyLevel::Label(label.into()),
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
        "in-use" => &mut objectives.in_use,
        "crowding" => &mut objectives.crowding,
        "moves" => &mut objectives.moves,
        "job-moves" => &mut objectives.job_moves,
        "machine-moves" => &mut objectives.machine_moves,
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
