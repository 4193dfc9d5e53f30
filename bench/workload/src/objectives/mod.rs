//! Objectives files: the defaults of a purpose, with the changes of a file.

mod aims;
mod error;
mod names;
mod rules;

use crate::file;
use crate::text::amount::Amount;
use aims::{DemandEntry, LoadEntry, MachinesEntry, MoveEntry};
use clap::ValueEnum;
use error::PAIR_PERCENT_MAX;
use names::level_of;
use omega_core::{KindId, Kinds, Text, Unit};
use omega_schedulers::rebalance::objective::WEIGHT_MAX;
use omega_schedulers::rebalance::{Objectives, Pair, Ratio, Safety};
use rules::RuleEntry;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use error::ObjectivesError;
pub use names::kind;

/// Purpose of rebalancing, which sets the weights of the terms.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Reduce the load above the safety levels, and balance the free cpu and free memory of each machine.
    Balance,
    /// Empty drained machines, and move tasks off machines that would not accept these tasks now.
    Drain,
    /// Fill some machines, and empty others.
    Defragment,
    /// Spread the tasks of each job over the domains (see --level).
    Spread,
}

impl Purpose {
    fn objectives(self) -> Objectives {
        match self {
            Purpose::Balance => Objectives::balance(),
            Purpose::Drain => Objectives::drain(),
            Purpose::Defragment => Objectives::defragment(),
            Purpose::Spread => Objectives::spread(),
        }
    }
}

/// Objectives from the command line, which override those of a file.
#[derive(Clone, Debug, Default)]
pub struct Overrides<'a> {
    /// Purpose that replaces that of the file.
    pub purpose: Option<Purpose>,
    /// Purpose if neither the command line nor the file names one.
    pub default_purpose: Option<Purpose>,
    /// Values of `--weight`: terms with their weights.
    pub weights: &'a [(String, u32)],
    /// Values of `--safety`: kinds with their safety levels.
    pub safety: &'a [(String, u32)],
    /// Label whose values are the domains of crowding.
    pub level: Option<&'a str>,
}

/// Content of an objectives file. Its purpose gives the default of each objective.
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
    /// An alternative to `percent`: an amount of the kind that `beside` names. This amount should be free for each
    /// amount `per` that is free of the other kind.
    want: Option<String>,
    per: Option<String>,
}

impl PairEntry {
    fn pair(
        &self,
        index: usize,
        kinds: &Kinds,
        place: &dyn Fn(&str) -> String,
    ) -> Result<Pair, ObjectivesError> {
        let place = |field: &str| place(&format!("pair[{index}]{field}"));
        let free = kind(kinds, &place(".free"), &self.free)?;
        let beside = kind(kinds, &place(".beside"), &self.beside)?;
        let amount = |field: &str, text: &String, kind: KindId| {
            let why = |why: String| ObjectivesError::Aim { place: place(field), why };
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
                return Err(ObjectivesError::Percent { place: place(".percent"), given });
            }
            (None, Some(want), Some(per)) => Ratio::Amounts {
                want: amount(".want", want, beside)?,
                per: amount(".per", per, free)?,
            },
            _ => {
                let why = "give either percent, or want and per".to_owned();
                return Err(ObjectivesError::Aim { place: place(""), why });
            }
        };
        Ok(Pair { free, beside, ratio })
    }
}

/// Reads an objectives file, if one is given, for a cell with these resource kinds, and applies the overrides.
///
/// # Errors
/// If the file or a table that it names is invalid, or an override names an unknown kind or term.
pub fn read(
    from: Option<&Path>,
    overrides: &Overrides<'_>,
    kinds: &Kinds,
) -> Result<Objectives, ObjectivesError> {
    let text = from.map(file::text).transpose()?.unwrap_or_default();
    let file: AimsFile = match from {
        Some(name) => file::parse(name, &text)?,
        None => AimsFile::default(),
    };
    let name = from.map(file::shown).unwrap_or_default();
    objectives(&file, from, &name, overrides, kinds).map_err(|error| error.with_line(&name, &text))
}

/// The objectives of a file, whose path is `from`, and which messages call `name`.
fn objectives(
    file: &AimsFile,
    from: Option<&Path>,
    name: &str,
    overrides: &Overrides<'_>,
    kinds: &Kinds,
) -> Result<Objectives, ObjectivesError> {
    let purpose = overrides.purpose.or(file.purpose).or(overrides.default_purpose);
    let mut objectives = purpose.unwrap_or(Purpose::Balance).objectives();
    let place = |field: &str| format!("{name}: {field}");
    if let Some(pairs) = &file.pair {
        let pair = |(index, pair): (usize, &PairEntry)| pair.pair(index, kinds, &place);
        objectives.pairs =
            pairs.iter().enumerate().map(pair).collect::<Result<_, ObjectivesError>>()?;
    }
    check_once("--weight", overrides.weights)?;
    check_once("--safety", overrides.safety)?;
    let weights = file.weight.iter();
    let weights = weights.map(|(term, weight)| (place(&format!("weight.{term}")), term, weight));
    let flags = overrides.weights.iter().map(|(term, n)| ("--weight".to_owned(), term, n));
    for (place, term, weight) in weights.chain(flags) {
        set_weight(&mut objectives, kinds, &place, (term, *weight))?;
    }
    let safe = file.safety.iter();
    let safe = safe.map(|(name, percent)| (place(&format!("safety.{name}")), name, percent));
    let flags = overrides.safety.iter().map(|(name, n)| ("--safety".to_owned(), name, n));
    for (place, name, percent) in safe.chain(flags) {
        let kind = kind(kinds, &place, name)?;
        let safety = Safety { percent: *percent, ..objectives.safety(kind) };
        objectives.loads.insert(kind, safety);
    }
    let machines = file.machines.iter().enumerate();
    let machines = machines.map(|(index, entry)| entry.aims(index, kinds, &place));
    objectives.machines = machines.collect::<Result<_, ObjectivesError>>()?;
    for (index, entry) in file.load.iter().enumerate() {
        let kind = kind(kinds, &place(&format!("load[{index}].kind")), &entry.kind)?;
        let curve = entry.curve(&place(&format!("load[{index}].points")))?;
        objectives.curves.insert(kind, curve);
    }
    for (index, entry) in file.demand.iter().enumerate() {
        let kind = kind(kinds, &place(&format!("demand[{index}].kind")), &entry.kind)?;
        let percent = place(&format!("demand[{index}].percent"));
        entry.add_to(objectives.demand.entry(kind).or_default(), &percent)?;
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
    if let Some(label) = overrides.level.or(file.level.as_deref()) {
        objectives.level = level_of(Some(label));
    }
    Ok(objectives)
}

/// Checks that a flag names each term or kind at most once.
fn check_once(flag: &'static str, pairs: &[(String, u32)]) -> Result<(), ObjectivesError> {
    let earlier = |i: usize, name: &String| pairs[..i].iter().any(|(earlier, _)| earlier == name);
    match pairs.iter().enumerate().find(|(i, (name, _))| earlier(*i, name)) {
        Some((_, (name, _))) => Err(ObjectivesError::Twice { flag, name: name.clone() }),
        None => Ok(()),
    }
}

fn set_weight(
    objectives: &mut Objectives,
    kinds: &Kinds,
    place: &str,
    (term, weight): (&str, u32),
) -> Result<(), ObjectivesError> {
    if weight > WEIGHT_MAX {
        return Err(ObjectivesError::Weight { place: place.to_owned(), given: weight });
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
            let name = term.strip_prefix("load.").ok_or_else(|| ObjectivesError::NoTerm {
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
