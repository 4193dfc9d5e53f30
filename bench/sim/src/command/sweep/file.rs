//! File of a sweep: an input, and the values of each setting. The points of the sweep are the combinations of values.

use crate::command::how::{
    CheckArg, GranularityArg, HowArgs, RetriesArg, is_end, is_seconds, name,
};
use crate::scenario::{ArchitectureKind, ScenarioSettings};
use crate::sheet::{Cell, Kind};
use omega_workload::file::FileError;
use omega_workload::input::{InputArgs, InputError};
use omega_workload::{LoadError, readable};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;

/// Maximum number of points of a sweep: about a day, if a run takes a second.
const POINTS_MAX: usize = 100_000;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepFile {
    /// End of a run, in hours.
    #[serde(default)]
    pub(super) end: Option<f64>,
    #[serde(default)]
    pub(super) input: InputArgs,
    pub(super) sweep: Lists,
}

/// One value, or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Values<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Clone> Values<T> {
    fn list(&self) -> Vec<T> {
        match self {
            Values::One(value) => vec![value.clone()],
            Values::Many(values) => values.clone(),
        }
    }
}

impl<T: Shown> Values<T> {
    /// The first value that is listed twice, as text.
    fn twice(&self) -> Option<String> {
        let Values::Many(values) = self else { return None };
        let mut seen = HashSet::new();
        values.iter().map(|value| value.cell().text()).find(|text| !seen.insert(text.clone()))
    }
}

/// Conversion of a setting's value to a cell of the result table.
trait Shown {
    /// Kind of all values of this type.
    const KIND: Kind;

    fn cell(&self) -> Cell;
}

impl Shown for u32 {
    const KIND: Kind = Kind::Count;

    fn cell(&self) -> Cell {
        Cell::Count(u64::from(*self))
    }
}

impl Shown for u64 {
    const KIND: Kind = Kind::Count;

    fn cell(&self) -> Cell {
        Cell::Count(*self)
    }
}

impl Shown for f64 {
    const KIND: Kind = Kind::Number;

    fn cell(&self) -> Cell {
        Cell::Exact(*self)
    }
}

/// Implements [`Shown`] for choices, whose values have the same names as on the command line.
macro_rules! chosen {
    ($($type:ty),*) => {
        $(impl Shown for $type {
            const KIND: Kind = Kind::Text;

            fn cell(&self) -> Cell {
                Cell::Text(name(self))
            }
        })*
    };
}

chosen!(ArchitectureKind, CheckArg, GranularityArg, RetriesArg);

/// Declares each setting once: its list in a file, its default, and its value in a point.
macro_rules! swept {
    ($($name:ident: $type:ty = $default:expr),* $(,)?) => {
        /// The values of each setting of `omega-sim run` that the file lists; settings that are not listed have their
        /// defaults.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct Lists { $(#[serde(default)] $name: Option<Values<$type>>,)* }

        /// The settings of one run.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub(super) struct Point { $($name: $type,)* }

        /// The names of the settings in order, with the kinds of their values; the seed is the last.
        pub(super) const SETTINGS: &[(&str, Kind)] =
            &[$((stringify!($name), <$type as Shown>::KIND),)*];

        impl Point {
            /// Returns the settings as command-line flags of one run.
            fn how(&self) -> HowArgs {
                HowArgs { $($name: self.$name,)* }
            }

            /// The values of the settings, in order.
            pub(super) fn cells(&self) -> Vec<Cell> {
                vec![$(self.$name.cell(),)*]
            }
        }

        impl Lists {
            /// The numbers of values of the settings, in order.
            fn counts(&self) -> Vec<usize> {
                vec![$(self.$name.as_ref().map_or(1, |values| values.list().len()),)*]
            }

            /// The first value that a list has twice, with the name of its setting.
            fn twice(&self) -> Option<(&'static str, String)> {
                $(if let Some(value) = self.$name.as_ref().and_then(Values::twice) {
                    return Some((stringify!($name), value));
                })*
                None
            }

            /// All combinations; the last setting changes fastest.
            pub(super) fn points(&self) -> Vec<Point> {
                let mut points = vec![Point { $($name: $default,)* }];
                $(if let Some(values) = &self.$name {
                    let with = |point: &Point| {
                        let point = point.clone();
                        values.list().into_iter().map(move |$name| Point { $name, ..point.clone() })
                    };
                    points = points.iter().flat_map(with).collect();
                })*
                points
            }
        }
    };
}

swept! {
    arch: ArchitectureKind = ArchitectureKind::SharedState,
    batch: u32 = 1,
    service: u32 = 1,
    t_job_batch: f64 = 0.1,
    t_task_batch: f64 = 0.005,
    t_job_service: f64 = 0.1,
    t_task_service: f64 = 0.005,
    check: CheckArg = CheckArg::Fit,
    granularity: GranularityArg = GranularityArg::Incremental,
    pickiness: f64 = 0.0,
    near_best: u32 = 1,
    parts: u32 = 8,
    probes: u32 = 2,
    retries: RetriesArg = RetriesArg::Unlimited,
    seed: u64 = 1,
}

impl Point {
    pub(super) fn settings(&self, end_hours: Option<f64>) -> ScenarioSettings {
        self.how().settings(end_hours.map(|hours| hours * 3600.0))
    }

    /// The seed of the run.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The first invalid setting, with the error message.
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        let times = [
            ("t_job_batch", self.t_job_batch),
            ("t_task_batch", self.t_task_batch),
            ("t_job_service", self.t_job_service),
            ("t_task_service", self.t_task_service),
        ];
        let wrong = times.into_iter().find(|(_, time)| !is_seconds(*time));
        if let Some((name, _)) = wrong {
            return Some((name, "must be a number of seconds from 0 to ten years"));
        }
        let counts = [
            ("batch", self.batch, 1024),
            ("service", self.service, 1024),
            ("near_best", self.near_best, u32::MAX),
            ("parts", self.parts, 64),
            ("probes", self.probes, 64),
        ];
        let wrong = counts.into_iter().find(|(_, count, most)| !(1..=*most).contains(count));
        if let Some((name, _, _)) = wrong {
            return Some((
                name,
                "must be at least 1, and at most 1024 for schedulers, 64 for parts \
                 and 64 for probes",
            ));
        }
        let share = (0.0..=1.0).contains(&self.pickiness);
        (!share).then_some(("pickiness", "must be a share from 0 to 1"))
    }
}

/// Reads and checks a file.
pub(super) fn read(file: &Path) -> Result<(String, SweepFile), LoadError> {
    let fault = |message: String| LoadError::new(file, message);
    let text = readable::read_text(file).map_err(|why| fault(format!("cannot be read: {why}")))?;
    let sweep: SweepFile =
        omega_workload::file::parse(file, &text).map_err(|error| match error {
            FileError::Content { line, field, why, .. } => {
                let is_named = why.starts_with("unknown field");
                let field = field.strip_suffix(": ").filter(|_| !is_named).map(str::to_owned);
                LoadError { line: Some(line as u64), field, ..fault(why) }
            }
            other => fault(other.to_string()),
        })?;
    if let Some(message) = sweep.input.lacks() {
        return Err(fault(format!("[input]: {message}")));
    }
    if let Err(InputError::Arguments(message)) = sweep.input.check() {
        return Err(fault(format!("[input]: {message}")));
    }
    if sweep.end.is_some_and(|hours| !is_end(hours)) {
        let message = "must be more than 0 hours, and at most 8760";
        return Err(LoadError { field: Some("end".into()), ..fault(message.into()) });
    }
    let counts = sweep.sweep.counts();
    if let Some(empty) = counts.iter().position(|count| *count == 0) {
        let message = "has an empty list, so the sweep has no points: list at least one value";
        return Err(LoadError { field: Some(SETTINGS[empty].0.into()), ..fault(message.into()) });
    }
    let points = counts.into_iter().fold(1, usize::saturating_mul);
    if points > POINTS_MAX {
        return Err(fault(format!(
            "[sweep]: the lists give {points} points: a sweep may have at most {POINTS_MAX}"
        )));
    }
    if let Some((name, value)) = sweep.sweep.twice() {
        let message = format!("lists {value} twice: list each value once");
        return Err(LoadError { field: Some(name.into()), ..fault(message) });
    }
    if let Some((name, what)) = sweep.sweep.points().iter().find_map(Point::fault) {
        return Err(LoadError { field: Some(name.into()), ..fault(what.into()) });
    }
    Ok((text, sweep))
}
